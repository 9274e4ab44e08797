#!/usr/bin/env python3
"""Runs examples/luajit/nginx.conf in nginx, before two servers that stand for engines.

Requests must reach the instance that the answer's header names, a shared prefix must be found
cached there, and when an instance is gone one request fails and the next goes to the other one. With
several workers, each of which has a router of its own, a session still has one instance.

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


def post(port, body, headers=(), wanted="X-Prefix-Router"):
    """Status, body and a header, by default the router's, of an answer."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("POST", "/v1/completions", body, dict(headers))
    answer = connection.getresponse()
    result = answer.status, answer.read().decode(), answer.getheader(wanted)
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


def check_workers(port):
    """Whichever worker a session's requests come to, one instance gets them."""
    instances, workers = set(), set()
    for session in range(40):
        name = {"X-Session-Id": f"s{session}"}
        answers = [post(port, f"{session} of {n} " * 40, name, "X-Worker")[1:] for n in range(6)]
        assert len({instance for instance, _ in answers}) == 1, (session, answers)
        instances |= {instance for instance, _ in answers}
        workers |= {worker for _, worker in answers}
    assert len(instances) == 2 and len(workers) > 1, (instances, workers)


def run(work, config, check):
    (work / "nginx.conf").write_text(config)
    port = int(re.search(r"listen 127\.0\.0\.1:(\d+)", config)[1])
    settings = "daemon off;"
    if os.geteuid() == 0:
        settings += " user root;"  # else its workers may not read this folder
    process = subprocess.Popen(["nginx", "-p", str(work), "-c", "nginx.conf", "-g", settings])
    try:
        wait_for(port, process)
        check(port)
    finally:
        process.terminate()
        process.wait(timeout=20)


def main(argv):
    source, prefix, work = map(pathlib.Path, argv[1:])
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(source / "examples" / "luajit", work)
    library = next(prefix.rglob("libprefixrouter_c.so.1"))
    os.environ["LD_LIBRARY_PATH"] = str(library.parent)

    def config(engines, *changes):
        text = (source / "examples" / "luajit" / "nginx.conf").read_text()
        ports = zip((8080, 8001, 8002),
                    (free_port(), engines[0].server_port, engines[1].server_port))
        for wanted, given in (*changes, *((f"127.0.0.1:{a}", f"127.0.0.1:{b}") for a, b in ports)):
            assert wanted in text
            text = text.replace(wanted, given)
        return text

    engines = [start_engine(), start_engine()]
    run(work, config(engines), lambda port: check_routing(port, engines))
    # With reuseport the system spreads connections over the workers.
    run(work, config([start_engine(), start_engine()],
                     ("worker_processes 1;", "worker_processes 4;"),
                     ("listen 127.0.0.1:8080;", "listen 127.0.0.1:8080 reuseport;"),
                     ("proxy_pass", "add_header X-Worker $pid; proxy_pass")),
        check_workers)
    print("nginx: all passed")


if __name__ == "__main__":
    main(sys.argv)
