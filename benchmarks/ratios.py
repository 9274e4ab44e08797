#!/usr/bin/env python3
"""Prints the figures of the benchmark programs beside their bars.

Reads what the programs have written (lines `name value`, and `# name text` with what is behind a
figure) and benchmarks/bars.tsv. Prints one line a figure; with --json writes
{"ratios": {name: figure}, "details": {name: [text]}, "machine": {...}, "commit": ...}.
Exit status: 0; 1 with --check when a bar is missed or a figure of bars.tsv is lacking; 2 on misuse.
scripts/bench.sh calls it.
"""

import argparse
import json
import os
import pathlib
import platform
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def read_bars(path):
    """The rows of bars.tsv as dicts, bar and goal as floats (goal None when there is none)."""
    lines = [line for line in path.read_text().splitlines() if line and not line.startswith("#")]
    columns = lines[0].split("\t")
    bars = []
    for line in lines[1:]:
        bar = dict(zip(columns, line.split("\t"), strict=True))
        if bar["side"] not in ("<=", ">="):
            raise ValueError(f"{path}: {bar['name']}: side must be <= or >=")
        bar["bar"] = float(bar["bar"])
        bar["goal"] = None if bar["goal"] == "-" else float(bar["goal"])
        bars.append(bar)
    return bars


def read_figures(paths):
    """Figures and details of all outputs together."""
    figures, details = {}, {}
    for path in paths:
        for line in path.read_text().splitlines():
            name, _, rest = line.removeprefix("# ").partition(" ")
            if line.startswith("# "):
                details.setdefault(name, []).append(rest)
            else:
                figures[name] = float(rest)
    return figures, details


def verdict(bar, figure):
    """What is reached: goal, bar or neither."""
    def reaches(limit):
        return figure <= limit if bar["side"] == "<=" else figure >= limit
    if bar["goal"] is not None and reaches(bar["goal"]):
        return "goal met"
    if reaches(bar["bar"]):
        return "bar met"
    return "MISSED"


def print_table(bars, figures, details):
    missed = []
    row = "{:<31}{:>10}  {:<9}{:<8} {:<9} {}"
    print(row.format("name", "figure", "bar", "goal", "", "what"))
    for bar in bars:
        name = bar["name"]
        goal = "" if bar["goal"] is None else f"{bar['goal']:g}"
        limit = f"{bar['side']} {bar['bar']:g}"
        if name not in figures:
            missed.append(name)
            print(row.format(name, "-", limit, goal, "NO FIGURE", bar["what"]))
        else:
            result = verdict(bar, figures[name])
            if result == "MISSED":
                missed.append(name)
            print(row.format(name, f"{figures[name]:.4g}", limit, goal, result, bar["what"]))
        for text in details.get(name, []):
            print(f"    {text}")
    known = {bar["name"] for bar in bars}
    for name in sorted(figures.keys() - known):
        print(row.format(name, f"{figures[name]:.4g}", "", "", "", ""))
    for name in sorted(details.keys() - known):
        for text in details[name]:
            print(f"{name}: {text}")
    return missed


def processor():
    try:
        for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def commit():
    """The commit that was measured, with -dirty when files differ from it; None outside git."""
    command = ["git", "-C", str(ROOT), "describe", "--always", "--abbrev=40", "--dirty", "--exclude=*"]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    return result.stdout.strip() or None


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("outputs", nargs="+", type=pathlib.Path,
                        help="what the programs have written")
    parser.add_argument("--bars", type=pathlib.Path, default=ROOT / "benchmarks" / "bars.tsv")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="write the figures to FILE")
    parser.add_argument("--check", action="store_true", help="exit with 1 when a bar is missed")
    arguments = parser.parse_args(argv)

    bars = read_bars(arguments.bars)
    figures, details = read_figures(arguments.outputs)
    missed = print_table(bars, figures, details)
    machine = {"processor": processor(), "cores": os.cpu_count(), "system": platform.platform()}
    print(f"machine: {machine['processor']}, {machine['cores']} cores, {machine['system']}")
    if arguments.json:
        document = {"ratios": figures, "details": details, "machine": machine, "commit": commit()}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n")
    return 1 if arguments.check and missed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
