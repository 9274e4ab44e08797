"""The examples of docs/command_line.md are run, and print what is shown."""

import os
import re
import stat
import subprocess
import sys

import pytest
from test_docs import PROJECT, blocks, run

DOCUMENT = "docs/command_line.md"


@pytest.fixture(scope="module")
def shell(tmp_path_factory):
    """Runs a line of shell in a folder of its own, with `prefixrouter` to be found."""
    folder = tmp_path_factory.mktemp("examples")
    programs = tmp_path_factory.mktemp("programs")
    program = programs / "prefixrouter"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m prefixrouter "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    environment = {**os.environ, "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"}
    if "PYTHONPATH" in environment:
        environment["PYTHONPATH"] = os.path.abspath(environment["PYTHONPATH"])

    def run_(line):
        return subprocess.run(
            ["bash", "-e", "-o", "pipefail", "-c", line],
            cwd=folder,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )

    return run_


def test_the_commands_work(shell):
    lines = "".join(blocks(DOCUMENT, "sh")).splitlines()
    assert len(lines) >= 15
    for line in lines:
        if "--html" in line and not has_plotly():
            continue
        result = shell(line)
        # What is said there is where a file is.
        said = [text for text in result.stderr.splitlines() if ".jsonl" not in text]
        assert result.returncode == 0, (line, result.stderr)
        assert said == (["plots are in report.html"] if "--html" in line else []), line
        assert result.stdout or "--output" in line


def has_plotly():
    try:
        import plotly  # noqa: F401
    except ImportError:
        return False
    return True


def test_the_output_is_what_is_shown(shell):
    text = (PROJECT / DOCUMENT).read_text()
    shown = re.findall(r"^```sh\n(.*?)^```\n\n```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert len(shown) == 1
    for command, output in shown:
        assert shell(command).stdout == output


def test_the_python_runs():
    (program,) = blocks(DOCUMENT, "python")
    result = run(program)
    assert (result.returncode, result.stderr) == (0, "")
    assert [line.split()[0] for line in result.stdout.splitlines()] == ["prefix_cost", "random"]


def test_the_policies_are_counted():
    import prefixrouter

    (count,) = re.findall(r"(\d+) policies", (PROJECT / DOCUMENT).read_text())
    assert int(count) == len(prefixrouter.policies())
