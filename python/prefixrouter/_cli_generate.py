"""``prefixrouter generate``: traces of generated traffic."""

from __future__ import annotations

import argparse
import gzip
import sys
from typing import Any

from prefixrouter._arguments import one_of, whole
from prefixrouter._cli_common import Failed, add_command, add_requests, write
from prefixrouter._core import simulation
from prefixrouter._progress import interruptible


def add_parser(commands: Any) -> None:
    generators = simulation.generators()
    kinds = "\n".join(f"  {name:15} {what}" for name, what in generators.items())
    parser = add_command(
        commands,
        "generate",
        help="generate a trace",
        description=(
            "Generates the requests of one kind of traffic, as JSON lines that 'prefixrouter\n"
            "replay' reads. For one seed they are the same on every machine.\n"
            "\n"
            "workloads:\n" + kinds
        ),
        examples=(
            "  prefixrouter generate chat --requests 1000 | head -n 3\n"
            "  prefixrouter generate agents --seed 2 --output agents.jsonl.gz\n"
            "  prefixrouter replay agents.jsonl.gz --trace-block 64\n"
        ),
    )
    parser.add_argument(
        "workload", type=one_of(list(generators)), metavar="WORKLOAD", help="one of those above"
    )
    add_requests(parser)
    parser.add_argument(
        "--seed", type=whole(0, 2**64 - 1), default=1, help="64 bits (%(default)s)"
    )
    parser.add_argument(
        "--output",
        default="-",
        metavar="FILE",
        help="where to write; compressed if it ends in .gz (standard output)",
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    trace = interruptible(
        lambda: simulation.generate_trace(
            arguments.workload, requests=arguments.requests, seed=arguments.seed
        )
    )
    lines = (line + "\n" for line in trace)
    if arguments.output.endswith(".gz"):
        try:
            # No name and no time in it: equal traces are equal files.
            with open(arguments.output, "wb") as file, gzip.GzipFile(
                filename="", mode="wb", fileobj=file, mtime=0
            ) as compressed:
                for line in lines:
                    compressed.write(line.encode())
        except OSError as error:
            raise Failed(f"cannot write {arguments.output}: {error.strerror}") from error
    else:
        write(arguments.output, lines)
    if arguments.output != "-":
        print(
            f"{len(trace)} requests in blocks of {trace.block_tokens} tokens: "
            f"prefixrouter replay {arguments.output} --trace-block {trace.block_tokens}",
            file=sys.stderr,
        )
