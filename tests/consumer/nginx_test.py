#!/usr/bin/env python3
"""Runs examples/luajit/nginx.conf in nginx, before two servers that stand for engines.

Requests must reach the instance that the answer's header names, a shared prefix must be found
cached there, and when an instance is gone one request fails and the next goes to the other one.

Usage: nginx_test.py SOURCE_DIR PREFIX WORK_DIR
"""

import http.client
import http.server
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import threading
import time


class Engine(http.server.BaseHTTPRequestHandler):
    """Answers with its port."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = str(self.server.server_port).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *arguments):
        pass


def start_engine():
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Engine)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return server


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def post(port, body, headers=()):
    """Status, body and the router's header of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/v1/completions", body, dict(headers))
    answer = connection.getresponse()
    result = answer.status, answer.read().decode(), answer.getheader("X-Prefix-Router")
    connection.close()
    return result


def wait_for(port, process):
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"nginx ended with {process.returncode}")
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            time.sleep(0.05)
    raise RuntimeError("nginx does not listen")


def check_routing(port, engines):
    prefix = "You are a helpful assistant. " * 100
    status, answer, why = post(port, prefix + "Hello!")
    assert status == 200, (status, answer)
    assert re.fullmatch(rf"127\.0\.0\.1:{answer} by near_tie, 0 of \d+ tokens cached", why), why
    first = answer
    for user in range(4):
        status, answer, why = post(port, prefix + f"I am user {user}.")
        assert (status, answer) == (200, first), (status, answer)
        cached, total = map(int, re.search(r"by lowest_cost, (\d+) of (\d+) tokens", why).groups())
        assert 0.9 * total < cached <= total, why

    # One session, prompts that have nothing in common.
    answers = {post(port, f"{n} bottles" * 40, {"X-Session-Id": "s"})[1] for n in range(8)}
    assert len(answers) == 1, answers

    away, other = engines if str(engines[0].server_port) == first else reversed(engines)
    away.shutdown()
    away.server_close()
    status, _, why = post(port, prefix + "Hello?")
    assert status == 502 and f":{first} by" in why, (status, why)
    status, answer, why = post(port, prefix + "Hello?")
    assert (status, answer) == (200, str(other.server_port)), (status, answer)
    assert "by only_candidate" in why, why


def main(argv):
    source, prefix, work = map(pathlib.Path, argv[1:])
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source / "examples" / "luajit", work)
    library = next(prefix.rglob("libprefixrouter_c.so.1"))
    engines = [start_engine(), start_engine()]
    port = free_port()

    config = (work / "nginx.conf").read_text()
    for wanted, given in ((8080, port), (8001, engines[0].server_port), (8002, engines[1].server_port)):
        assert f"127.0.0.1:{wanted}" in config
        config = config.replace(f"127.0.0.1:{wanted}", f"127.0.0.1:{given}")
    (work / "nginx.conf").write_text(config)

    settings = "daemon off;"
    if os.geteuid() == 0:
        settings += " user root;"  # else its worker may not read this folder
    process = subprocess.Popen(["nginx", "-p", str(work), "-c", "nginx.conf", "-g", settings],
                               env={**os.environ, "LD_LIBRARY_PATH": str(library.parent)})
    try:
        wait_for(port, process)
        check_routing(port, engines)
    finally:
        process.terminate()
        process.wait(timeout=20)
    print("nginx: all passed")


if __name__ == "__main__":
    main(sys.argv)
