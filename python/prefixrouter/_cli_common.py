"""What the commands share: how they fail, how they write, and what they are told to generate."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable
from typing import Any

from prefixrouter._arguments import whole


class Refused(Exception):
    """The arguments or a trace are wrong."""


class Failed(Exception):
    """It did not work, for another reason."""


def add_command(
    commands: Any, name: str, *, help: str, description: str, examples: str
) -> argparse.ArgumentParser:
    """A sub-command's parser."""
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help,
        description=description,
        epilog="examples:\n" + examples,
        allow_abbrev=False,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    return parser


def add_requests(parser: argparse._ActionsContainer) -> None:
    """The option that says how many requests to generate."""
    parser.add_argument(
        "--requests",
        type=whole(1, 10_000_000),
        default=8000,
        metavar="N",
        help="how many requests to generate, about: sessions are made whole (%(default)s)",
    )


def write(path: str, pieces: Iterable[str]) -> None:
    """Writes text to a file, or to standard output if it is ``-``."""
    if path == "-":
        sys.stdout.writelines(pieces)
        sys.stdout.flush()
        return
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(pieces)
    except OSError as error:
        raise Failed(f"cannot write {path}: {error.strerror}") from error


def check_writable(path: str | None) -> None:
    """Fails before the work, not after it, if a file cannot be written."""
    folder = os.path.dirname(path or "") or "."
    if path is not None and path != "-" and not os.path.isdir(folder):
        raise Failed(f"cannot write {path}: there is no folder {folder}")
