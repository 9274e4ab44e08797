"""The command line: ``prefixrouter`` and ``python -m prefixrouter``.

Results go to standard output, everything else to standard error. Exit status: 0 when it worked, 1
when it did not, 2 when the arguments are wrong.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import prefixrouter


def make_parser() -> argparse.ArgumentParser:
    """The parser of all arguments."""
    parser = argparse.ArgumentParser(
        prog="prefixrouter",
        description="Tells an LLM gateway which inference instance should get a request.",
    )
    parser.add_argument(
        "--version", action="version", version=f"prefixrouter {prefixrouter.__version__}"
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: The arguments without the program's name. None: those of the process.

    Returns:
        The exit status.
    """
    parser = make_parser()
    try:
        parser.parse_args(argv)
    except SystemExit as exit_:  # --help, --version and wrong arguments
        return 0 if exit_.code is None else int(exit_.code)
    parser.print_help()
    return 0
