"""``prefixrouter policies``: what a replay can compare."""

from __future__ import annotations

import argparse
import json
import sys
import textwrap
from typing import Any

from prefixrouter._cli_common import add_command
from prefixrouter._core import simulation

_FIELDS = ("name", "kind", "rule", "source")


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "policies",
        help="list the policies that a replay can compare",
        description=(
            "Lists the policies that a replay can compare, whose each is, and its rule. 'router'\n"
            "are this library's own, 'gateway' what a gateway or service does today, 'research'\n"
            "what is published or plain, but nobody's default."
        ),
        examples=(
            "  prefixrouter policies\n"
            "  prefixrouter policies --json\n"
        ),
    )
    parser.add_argument("--json", action="store_true", help="as JSON")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> None:
    policies = simulation.policies()
    if arguments.json:
        entries = [{field: getattr(policy, field) for field in _FIELDS} for policy in policies]
        sys.stdout.write(json.dumps(entries, indent=2) + "\n")
        return
    width = max(len(policy.name) for policy in policies) + 2
    for policy in policies:
        sys.stdout.write(f"{policy.name:{width}}{policy.kind}: {policy.source}\n")
        rule = textwrap.wrap(policy.rule, 98 - width)
        sys.stdout.write("".join(" " * width + line + "\n" for line in rule))
