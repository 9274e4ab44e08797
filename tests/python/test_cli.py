"""The command line: `prefixrouter` and `python -m prefixrouter`."""

import subprocess
import sys

import pytest

import prefixrouter
from prefixrouter import cli


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "prefixrouter", *arguments],
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_version_goes_to_standard_output():
    result = run("--version")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == f"prefixrouter {prefixrouter.__version__}\n"


def test_help_goes_to_standard_output():
    for arguments in ((), ("--help",)):
        result = run(*arguments)
        assert (result.returncode, result.stderr) == (0, "")
        assert result.stdout.startswith("usage: prefixrouter")


def test_wrong_arguments_are_named_on_standard_error():
    result = run("--wrong")
    assert (result.returncode, result.stdout) == (2, "")
    assert "--wrong" in result.stderr


@pytest.mark.parametrize("argv, status", [(["--version"], 0), ([], 0), (["--wrong"], 2)])
def test_main_returns_the_exit_status(argv, status, capsys):
    assert cli.main(argv) == status


def test_import_needs_neither_numpy_nor_anything_else():
    """Also in an interpreter that has no other package."""
    program = (
        "import sys; before = set(sys.modules); import prefixrouter; "
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    imported = set(result.stdout.split())
    assert "prefixrouter" in imported
    others = {"numpy", "torch", "typing_extensions", "pybind11", "scikit_build_core", "pytest"}
    assert imported.isdisjoint(others), imported & others
