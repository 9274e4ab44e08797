"""``prefixrouter replay``: policies beside each other on a simulated fleet."""

from __future__ import annotations

import argparse
import dataclasses
import os
import sys
from collections.abc import Callable
from typing import Any

from prefixrouter import _simulator
from prefixrouter._arguments import fleet_event, listed, number, one_of, whole
from prefixrouter._cli_common import (
    Failed,
    Refused,
    add_command,
    add_requests,
    check_writable,
    write,
)
from prefixrouter._core import simulation
from prefixrouter._progress import ProgressBar, interruptible
from prefixrouter._replay import Comparison, PolicyFigures, as_json, compare, table

_EXAMPLES = """\
  prefixrouter replay
  prefixrouter replay trace.jsonl.gz --policy prefix_cost,random --instances 8
  prefixrouter replay trace.jsonl.gz --policy all --level knee --html report.html
  prefixrouter generate chat | prefixrouter replay - --trace-block 64 --seeds 3 --json figures.json
  prefixrouter replay --workload bursts --event 60:fail:1 --event 120:restart:1
  prefixrouter replay --workload chat --closed-loop --routers 4 --metrics-age 0.1
"""


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "replay",
        help="compare policies on a trace, on a simulated fleet",
        description=(
            "Sends a trace through real routers to a simulated fleet, in virtual time, once for\n"
            "each policy, and tells how long requests waited, how much of their prompts was found\n"
            "cached, and how evenly the work was spread. docs/simulator.md has the model."
        ),
        examples=_EXAMPLES,
    )
    parser.add_argument(
        "traces",
        nargs="*",
        metavar="TRACE",
        help="JSON lines, plain or gzip; - is standard input; of several, each by itself",
    )
    _add_workload(parser.add_argument_group("what is sent"))
    _add_fleet(parser.add_argument_group("the fleet"))
    _add_routers(parser.add_argument_group("the routers"))
    _add_output(parser.add_argument_group("seeds and output"))
    parser.set_defaults(run=run)


def _add_workload(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--workload",
        type=one_of(list(simulation.generators())),
        metavar="NAME",
        help="without a TRACE: what to generate, see 'prefixrouter generate --help' (agents)",
    )
    add_requests(group)
    add(
        "--rate",
        type=number(1e-6, 1e6),
        metavar="X",
        help="2: requests come twice as fast as in the trace (1)",
    )
    add(
        "--level",
        type=one_of(("half", "knee", "past")),
        metavar="NAME",
        help="instead of --rate: half of what the fleet can serve, the knee (where mean TTFT of "
        "least_requests is twice that at half), or 1.25 times that",
    )
    add(
        "--closed-loop",
        action="store_true",
        help="turns of a session wait for the one before, and the user's thinking",
    )
    add(
        "--trace-block",
        type=whole(1, 65536),
        default=512,
        metavar="TOKENS",
        help="tokens that a hash id stands for (%(default)s)",
    )
    add(
        "--block-size",
        type=whole(0, 32768),
        default=0,
        metavar="TOKENS",
        help="tokens a block that is simulated; 0: the trace's",
    )
    add(
        "--limit",
        type=whole(0, 2**63),
        default=0,
        metavar="N",
        help="use only the first so many requests of a trace",
    )
    add("--strict", action="store_true", help="refuse malformed lines instead of skipping them")
    add(
        "--measure-from",
        type=number(0, 1e9),
        default=0,
        metavar="SECONDS",
        help="leave out of the figures what arrives earlier",
    )


def _add_fleet(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--engine",
        type=one_of(list(_simulator.engine_presets())),
        default="llama-70b-8xh100",
        metavar="PRESET",
        help="model and GPUs of an instance: "
        + ", ".join(_simulator.engine_presets())
        + " (%(default)s)",
    )
    add(
        "--instances",
        type=whole(1, 65536),
        default=4,
        metavar="N",
        help="instances (%(default)s)",
    )
    add(
        "--speeds",
        type=listed(number(0.001, 1000)),
        default=[1.0],
        metavar="X,...",
        help="speeds of the instances, used in turn: 1,1,2,4",
    )
    add(
        "--capacity",
        type=whole(1, 2**40),
        metavar="TOKENS",
        help="KV cache of an instance, instead of the engine's",
    )
    add(
        "--prefill-rate",
        type=number(1, 1e9),
        metavar="TOKENS_PER_S",
        help="prompt tokens a second and nothing else, instead of the engine's costs of them",
    )
    add(
        "--event",
        type=fleet_event,
        action="append",
        default=[],
        metavar="SECONDS:CHANGE:INSTANCE",
        help="an instance, from 0, has a failure (fail), is back after one (restart), is added "
        "(join) or taken away (leave); may be repeated",
    )


def _add_routers(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    names = [policy.name for policy in simulation.policies()]
    add(
        "--policy",
        type=listed(one_of([*names, "all"])),
        default=["prefix_cost", "least_requests", "random"],
        metavar="NAME,...",
        help="policies to compare, see 'prefixrouter policies', or all "
        "(prefix_cost,least_requests,random)",
    )
    add(
        "--routers",
        type=whole(1, 1024),
        default=1,
        metavar="N",
        help="routers, each with its share of the requests; each knows how many (%(default)s)",
    )
    add("--session-keys", action="store_true", help="pass session_id to the router")
    add(
        "--no-calibrate",
        action="store_true",
        help="routers do not learn rates and capacities from feedback",
    )
    add(
        "--max-ttft",
        type=number(0, 1e9),
        default=0,
        metavar="SECONDS",
        help="reject requests whose predicted time to first token is above this; 0: none",
    )
    add(
        "--feedback-delay",
        type=number(0, 1e6),
        default=0,
        metavar="SECONDS",
        help="until routers know of first tokens and ends (%(default)s)",
    )
    add(
        "--metrics-period",
        type=number(0, 1e6),
        default=0.05,
        metavar="SECONDS",
        help="between readings of the engines' metrics; 0: never (%(default)s)",
    )
    add(
        "--metrics-age",
        type=number(0, 1e6),
        default=0,
        metavar="SECONDS",
        help="age of the metrics when routers get them (%(default)s)",
    )
    add(
        "--kv-events",
        action="store_true",
        help="engines publish KV events, and routers apply them",
    )
    add(
        "--kv-event-delay",
        type=number(0, 1e6),
        default=0.02,
        metavar="SECONDS",
        help="until KV events reach the routers (%(default)s)",
    )


def _add_output(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add("--seed", type=whole(0, 2**63), default=1, metavar="N", help="the first seed (%(default)s)")
    add("--seeds", type=whole(1, 1000), default=1, metavar="K", help="how many (%(default)s)")
    add("--json", metavar="FILE", help="also write the figures; - : to standard output, no table")
    add("--html", metavar="FILE", help="also write plots, in one file")
    add(
        "--loads",
        type=listed(number(0.001, 1000)),
        default=[0.25, 0.5, 0.75, 1.0, 1.25, 1.5],
        metavar="X,...",
        help="multiples of the rate in the plot against load (0.25,0.5,0.75,1,1.25,1.5)",
    )
    add(
        "--jobs",
        type=whole(1, 1024),
        default=_cores(),
        metavar="N",
        help="simulations at once (as many as there are cores)",
    )
    add("--quiet", action="store_true", help="no progress bar")


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


# ---- The run ----


def run(arguments: argparse.Namespace) -> None:
    if arguments.traces and arguments.workload:
        raise Refused(f"--workload {arguments.workload} is for runs without a TRACE")
    if arguments.rate is not None and arguments.level is not None:
        raise Refused(f"--rate {arguments.rate:g} and --level {arguments.level} exclude each other")
    if arguments.traces.count("-") > 1:
        raise Refused("standard input can be read only once")
    for path in (arguments.json, arguments.html):
        check_writable(path)
    write_report = _load_report() if arguments.html is not None else None

    comparisons = []
    for path in arguments.traces or [None]:
        try:
            comparisons.append(_replay(path, arguments))
        except ValueError as error:
            raise Refused(str(error)) from error
    if arguments.json == "-":
        write("-", [as_json(comparisons)])
    else:
        write("-", ["\n".join(table(comparison) for comparison in comparisons)])
        if arguments.json is not None:
            write(arguments.json, [as_json(comparisons)])
    if write_report is not None:
        write(arguments.html, [write_report(comparisons)])
        print(f"plots are in {arguments.html}", file=sys.stderr)


def _load_report() -> Callable[[list[Comparison]], str]:
    try:
        from prefixrouter._report_html import report
    except ImportError as error:
        raise Failed(
            f"--html needs plotly ({error}): pip install 'prefixrouter[html]'"
        ) from error
    return report


def _replay(path: str | None, arguments: argparse.Namespace) -> Comparison:
    workloads = _workloads(path, arguments)
    engine = _engine(arguments)
    speeds = arguments.speeds
    shared = {
        "engine": engine,
        "instances": [
            _simulator.SimulatedInstance(speed=speeds[i % len(speeds)])
            for i in range(arguments.instances)
        ],
        "events": arguments.event,
        "routers": arguments.routers,
        "session_keys": arguments.session_keys,
        "max_ttft_s": arguments.max_ttft,
        "closed_loop": arguments.closed_loop,
        "feedback_delay_s": arguments.feedback_delay,
        "metrics_period_s": arguments.metrics_period,
        "metrics_age_s": arguments.metrics_age,
        "kv_events": arguments.kv_events,
        "kv_event_delay_s": arguments.kv_event_delay,
        "measure_from_s": arguments.measure_from,
        "router_options": {"calibrate": not arguments.no_calibrate},
    }
    first = workloads(arguments.seed)
    scale, scale_text = arguments.rate or 1.0, ""
    if arguments.level is not None:
        scale = _find_scale(first, {**shared, "seed": arguments.seed}, arguments)
        scale_text = f" ({arguments.level})"

    names = [policy.name for policy in simulation.policies()]
    if "all" not in arguments.policy:
        names = list(dict.fromkeys(arguments.policy))
    span_s = first.span_s / scale
    comparison = Comparison(
        trace=first.name,
        engine=arguments.engine,
        instances=arguments.instances,
        seeds=arguments.seeds,
        facts=[
            ("workload", first.name),
            (
                "requests",
                f"{len(first)} over {span_s:.0f} s, blocks of {first.block_size} tokens, "
                f"best possible share {first.best_possible_share:.3f}",
            ),
            (
                "fleet",
                f"{arguments.instances} x {arguments.engine}, "
                f"{engine.kv_capacity_tokens} tokens of KV cache each",
            ),
            ("rate", f"{scale:.3f}{scale_text}"),
            ("seeds", f"{arguments.seeds}, from {arguments.seed} on"),
        ],
        policies=[PolicyFigures(name) for name in names],
    )
    compare(
        workloads,
        comparison,
        shared,
        first_seed=arguments.seed,
        arrival_scale=scale,
        loads=arguments.loads if arguments.html is not None else (),
        threads=arguments.jobs,
        show_progress=not arguments.quiet,
    )
    return comparison


def _find_scale(
    workload: simulation.Workload, shared: dict[str, Any], arguments: argparse.Namespace
) -> float:
    """The arrival scale of ``--level``."""
    with ProgressBar("finding the load", None, shown=not arguments.quiet) as bar:
        before = last = 0

        def progress(over: int, total: int) -> None:
            nonlocal before, last
            if over < last:  # the next simulation
                before += total
            last = over
            bar.set(before + over)

        levels = _simulator.find_load_levels(workload, **shared, progress=progress)
    return float(getattr(levels, f"{arguments.level}_scale"))


def _workloads(
    path: str | None, arguments: argparse.Namespace
) -> Callable[[int], simulation.Workload]:
    """The workload of a seed, of which the last one made is kept."""
    trace = None if path is None else _read(path, arguments)
    kept: dict[int, simulation.Workload] = {}

    def make(seed: int) -> simulation.Workload:
        source = trace
        if source is None:
            generator = arguments.workload or "agents"
            source = simulation.generate_trace(generator, requests=arguments.requests, seed=seed)
        return simulation.Workload(source, block_size=arguments.block_size, seed=seed)

    def workload(seed: int) -> simulation.Workload:
        if seed not in kept:
            made = interruptible(lambda: make(seed))
            kept.clear()
            kept[seed] = made
        return kept[seed]

    return workload


def _read(path: str, arguments: argparse.Namespace) -> simulation.Trace:
    try:
        trace = interruptible(
            lambda: simulation.read_trace(
                path,
                block_tokens=arguments.trace_block,
                strict=arguments.strict,
                limit=arguments.limit,
            )
        )
    except OSError as error:
        raise Refused(f"{path}: {error.strerror}") from error
    for warning in trace.warnings:
        print(f"prefixrouter: {warning}", file=sys.stderr)
    if trace.cut_lines:
        print(
            f"prefixrouter: {path}: in {trace.cut_lines} of {len(trace)} lines the length is not "
            f"that of hash_ids in blocks of {trace.block_tokens} tokens (--trace-block)",
            file=sys.stderr,
        )
    return trace


def _engine(arguments: argparse.Namespace) -> _simulator.EngineOptions:
    engine = _simulator.engine_presets()[arguments.engine]
    if arguments.capacity is not None:
        engine = dataclasses.replace(engine, kv_capacity_tokens=arguments.capacity)
    if arguments.prefill_rate is not None:
        linear = dataclasses.replace(
            engine.linear, prefill_token_s=1 / arguments.prefill_rate, prefill_pair_s=0.0
        )
        engine = dataclasses.replace(engine, cost_model="linear", linear=linear)
    return engine
