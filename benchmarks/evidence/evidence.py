#!/usr/bin/env python3
"""Compares the default policy with all others on a grid of simulations.

Runs prefix-router-simulate on all cores; each run's JSON is kept, and a second call makes only what
is missing. Standard output: Markdown tables, or with --figures the lines `name value` that
benchmarks/ratios.py reads. Progress is on standard error.

  grid.py     which simulations        runs.py    makes them, and keeps what they print
  figures.py  what is divided by what  report.py  text

Exit status: 0; 1 a run failed; 2 misuse; 3 interrupted, or at its time
limit: call again to go on.
"""

import argparse
import os
import pathlib
import sys
import zlib

import figures
import grid
import report
import runs

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT / "benchmarks"))
from ratios import read_bars  # noqa: E402


def names(allowed):
    """A type for argparse: names of `allowed`, separated by commas."""
    def parse(text):
        for name in text.split(","):
            if name not in allowed:
                raise argparse.ArgumentTypeError(f"{name!r} is none of {', '.join(allowed)}")
        return text.split(",")
    return parse


def whole(text):
    """A whole number of at least 1."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, got {value}")
    return value


def fleets(text):
    """Numbers of instances, separated by commas."""
    return [whole(number) for number in text.split(",")]


def parse(argv):
    parser = argparse.ArgumentParser(
        prog="evidence", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sample", action="store_true",
                        help="a third of the cells of the groups main, stale, stale_events and "
                             "uneven: what scripts/bench.sh measures")
    parser.add_argument("--figures", action="store_true", help="lines `name value`, no tables")
    parser.add_argument("--workloads", metavar="NAME,...",
                        help="only these generators and traces")
    parser.add_argument("--instances", metavar="N,...", default=grid.INSTANCES,
                        type=fleets, help="default: 4,8,32")
    parser.add_argument("--loads", metavar="NAME,...", default=grid.LOADS, type=names(grid.LOADS),
                        help="default: half,knee,past")
    parser.add_argument("--groups", metavar="NAME,...", default=grid.GROUPS,
                        type=names(grid.GROUPS), help="default: " + ",".join(grid.GROUPS))
    parser.add_argument("--seeds", type=whole, default=3, help="default: 3")
    parser.add_argument("--traces", type=pathlib.Path, metavar="DIR",
                        default=ROOT.parent / "shared" / "traces",
                        help="default: ../shared/traces beside the repository")
    parser.add_argument("--tool", type=pathlib.Path, metavar="PROGRAM",
                        default=ROOT / "build/release/benchmarks/simulate/prefix-router-simulate")
    parser.add_argument("--out", type=pathlib.Path, metavar="DIR", default=ROOT / "build/evidence",
                        help="where runs are kept; default: build/evidence")
    parser.add_argument("--jobs", type=whole, default=os.cpu_count(), help="default: all cores")
    parser.add_argument("--time-limit", type=float, metavar="SECONDS",
                        help="begin no run after this time")
    arguments = parser.parse_args(argv)
    if not arguments.tool.is_file():
        parser.error(f"no program {arguments.tool}: build prefix_router_simulate, or call "
                     "scripts/evidence.sh")
    return parser, arguments


def make_cells(cells, seeds, runner):
    """{cell: {policy: Figures}} of the cells that are complete."""
    levels = runner.make([grid.levels_run(cell) for cell in cells], "loads")
    wanted = {cell: [grid.cell_run(cell, seed, levels[grid.levels_run(cell)])
                     for seed in range(1, seeds + 1)]
              for cell in cells if grid.levels_run(cell) in levels}
    outputs = runner.make([run for cell_runs in wanted.values() for run in cell_runs], "cells")
    return {cell: figures.of_cell([outputs[run] for run in cell_runs])
            for cell, cell_runs in wanted.items() if all(run in outputs for run in cell_runs)}


def notes(workloads, arguments, complete, total):
    traces = [workload.name for workload in workloads if workload.digest]
    made = [workload.name for workload in workloads if not workload.digest]
    text = [f"{arguments.seeds} seeds; generated: {', '.join(made) or 'none'}; " +
            (f"traces: {', '.join(traces)}" if traces else
             f"no traces in {arguments.traces}, so generated workloads only")]
    if any(name.startswith("toolagent_like") for name in traces):
        text.append("toolagent_like is generated to the published statistics of Mooncake's "
                    "toolagent trace")
    if complete < total:
        text.append(f"only {complete} of {total} cells are complete")
    return text


def main(argv):
    parser, arguments = parse(argv)
    try:
        workloads = grid.workloads(arguments.traces if arguments.traces.is_dir() else None)
    except (OSError, EOFError, zlib.error) as error:
        print(f"evidence: {arguments.traces}: {error}", file=sys.stderr)
        return 1
    cells = grid.cells(workloads, arguments.instances, arguments.loads, arguments.groups,
                       arguments.sample)
    if arguments.workloads:
        chosen = arguments.workloads.split(",")
        known = [workload.name for workload in workloads]
        for name in chosen:
            if name not in known:
                parser.error(f"no workload {name!r}; there are {', '.join(known)}")
        workloads = [workload for workload in workloads if workload.name in chosen]
        cells = [cell for cell in cells if cell.workload in workloads]
    runner = runs.Runner(arguments.tool, arguments.out, arguments.jobs, arguments.time_limit)
    try:
        complete = make_cells(cells, arguments.seeds, runner)
    except runs.RunFailed as error:
        print(f"evidence: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"\nevidence: interrupted; call again to go on (kept in {runner.folder})",
              file=sys.stderr)
        return 3
    bars = {bar["name"]: bar["bar"] for bar in read_bars(ROOT / "benchmarks" / "bars.tsv")}
    made = figures.figures(complete, bars)
    said = notes(workloads, arguments, len(complete), len(cells))
    print(report.lines(made, said) if arguments.figures else
          report.markdown(complete, made, bars, said), end="")
    if len(complete) < len(cells):
        print(f"evidence: {len(complete)} of {len(cells)} cells are complete; call again to go on "
              f"(kept in {runner.folder})", file=sys.stderr)
        return 3
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
