"""The command line: ``prefixrouter`` and ``python -m prefixrouter``.

Results go to standard output, everything else to standard error. Exit status: 0 when it worked, 1
when it did not, 2 when the arguments or a trace are wrong, 130 after Ctrl-C. A reader of standard
output that has had enough (``| head``) is no failure.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence

import prefixrouter
from prefixrouter import _cli_generate, _cli_policies, _cli_replay
from prefixrouter._cli_common import Failed, Refused


def make_parser() -> argparse.ArgumentParser:
    """The parser of all arguments."""
    parser = argparse.ArgumentParser(
        prog="prefixrouter",
        allow_abbrev=False,
        description="Tells an LLM gateway which inference instance should get a request.",
        epilog="'prefixrouter COMMAND --help' explains a command, with examples.",
    )
    parser.add_argument(
        "--version", action="version", version=f"prefixrouter {prefixrouter.__version__}"
    )
    commands = parser.add_subparsers(title="commands", metavar="COMMAND")
    for command in (_cli_replay, _cli_generate, _cli_policies):
        command.add_parser(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        argv: The arguments without the program's name. None: those of the process.

    Returns:
        The exit status.
    """
    try:
        parser = make_parser()
        arguments = parser.parse_args(argv)
        if hasattr(arguments, "run"):
            arguments.run(arguments)
        else:
            parser.print_help()
        sys.stdout.flush()
        return 0
    except SystemExit as exit_:  # --help, --version and wrong arguments
        return 0 if exit_.code is None else int(exit_.code)
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The rest of the buffer must not be tried again when the process ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Refused as error:
        status, message = 2, str(error)
    except (Failed, OSError, prefixrouter.Error) as error:
        status, message = 1, str(error)
    except MemoryError:
        status, message = 1, "out of memory"
    print(f"prefixrouter: {message}", file=sys.stderr)
    return status
