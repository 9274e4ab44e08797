"""Policies beside each other on one workload: the runs, their figures, the table and the JSON."""

from __future__ import annotations

import concurrent.futures
import dataclasses
import json
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from prefixrouter._core.simulation import Outcome, SimulationResult, SimulationSummary, Workload
from prefixrouter._progress import ProgressBar
from prefixrouter._simulator import simulate
from prefixrouter._table import aligned

# What is told of each policy, as a mean over the seeds and as a spread.
FIGURES = (
    "ttft_mean_s",
    "ttft_p50_s",
    "ttft_p90_s",
    "ttft_p99_s",
    "e2e_mean_s",
    "tpot_mean_s",
    "cached_token_share",
    "best_possible_share",
    "max_over_mean_work",
)

# Points of a distribution that a plot shows.
_QUANTILES = 200


@dataclasses.dataclass(frozen=True)
class Picture:
    """What plots show of one simulation."""

    ttft_quantiles_s: list[float]  # ascending, at equal steps from the lowest to the highest
    step_s: float
    prefill_rates: list[list[float]]  # tokens a second, by instance, then by step


@dataclasses.dataclass
class PolicyFigures:
    """A policy's figures on one workload."""

    name: str
    summaries: list[SimulationSummary] = dataclasses.field(default_factory=list)  # by seed
    picture: Picture | None = None  # with the first seed, if it is asked for
    # By load in requests a second, with the first seed; ascending.
    by_load: list[tuple[float, SimulationSummary]] = dataclasses.field(default_factory=list)

    def mean(self, figure: str) -> float:
        values = [getattr(summary, figure) for summary in self.summaries]
        return float(sum(values) / len(values))

    def spread(self, figure: str) -> tuple[float, float]:
        values = [getattr(summary, figure) for summary in self.summaries]
        return min(values), max(values)

    def mean_count(self, figure: str) -> int:
        counts: list[int] = [getattr(summary, figure) for summary in self.summaries]
        return sum(counts) // len(counts)


@dataclasses.dataclass
class Comparison:
    """Policies beside each other on one workload."""

    trace: str
    engine: str
    instances: int
    seeds: int
    facts: list[tuple[str, str]]  # what was simulated, for people
    policies: list[PolicyFigures]


@dataclasses.dataclass(frozen=True)
class _Run:
    figures: PolicyFigures
    multiple: float  # of the arrival scale
    picture: bool


class _Stopped(Exception):
    """Raised inside simulations that nobody waits for any more."""


def compare(
    workloads: Callable[[int], Workload],
    comparison: Comparison,
    arguments: Mapping[str, Any],
    *,
    first_seed: int,
    arrival_scale: float,
    loads: Sequence[float],
    threads: int,
    show_progress: bool,
) -> None:
    """Runs all simulations, and fills in `comparison.policies`.

    Args:
        workloads: Makes the workload of a seed.
        comparison: What is compared; its seeds are `first_seed` and those after it.
        arguments: Of `simulate`, for all runs.
        first_seed: Of the workload and of the simulation.
        arrival_scale: Of the main runs.
        loads: Multiples of it that are simulated too, with the first seed, for plots. Empty: no
            plots are wanted.
        threads: How many simulations run at once.
        show_progress: Whether there is a bar.
    """
    multiples = sorted({1.0, *loads})
    requests = len(workloads(first_seed))
    runs_in_all = len(comparison.policies) * (comparison.seeds + len(multiples) - 1)
    done_before = 0
    with ProgressBar("simulating", requests * runs_in_all, shown=show_progress) as bar:
        for seed in range(first_seed, first_seed + comparison.seeds):
            workload = workloads(seed)
            plots = bool(loads) and seed == first_seed
            runs = [
                _Run(figures, multiple, plots and multiple == 1)
                for multiple in (multiples if plots else [1.0])
                for figures in comparison.policies
            ]
            arguments = {**arguments, "seed": seed}
            results = _run_all(
                runs, workload, arrival_scale, arguments, bar, done_before, threads
            )
            done_before += len(runs) * len(workload)
            for run, (summary, picture) in zip(runs, results):
                if run.multiple == 1:
                    run.figures.summaries.append(summary)
                if plots:
                    load = requests * arrival_scale * run.multiple / max(workload.span_s, 1e-9)
                    run.figures.by_load.append((load, summary))
                if picture is not None:
                    run.figures.picture = picture


def _run_all(
    runs: Sequence[_Run],
    workload: Workload,
    arrival_scale: float,
    arguments: Mapping[str, Any],
    bar: ProgressBar,
    done_before: int,
    threads: int,
) -> list[tuple[SimulationSummary, Picture | None]]:
    """All runs on one workload, in threads: simulations leave the GIL."""
    stop = threading.Event()
    done = [0] * len(runs)

    def one(number: int) -> tuple[SimulationSummary, Picture | None]:
        def progress(over: int, total: int) -> None:
            if stop.is_set():
                raise _Stopped
            done[number] = over

        run = runs[number]
        result = simulate(
            workload,
            policy=run.figures.name,
            arrival_scale=arrival_scale * run.multiple,
            progress=progress,
            **arguments,
        )
        done[number] = len(workload)
        picture = _picture(result, arguments.get("measure_from_s", 0)) if run.picture else None
        return result.summary, picture

    with concurrent.futures.ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(one, number) for number in range(len(runs))]
        try:
            pending = set(futures)
            while pending:
                finished, pending = concurrent.futures.wait(
                    pending, timeout=0.1, return_when=concurrent.futures.FIRST_EXCEPTION
                )
                for future in finished:
                    future.result()
                bar.set(done_before + sum(done))
        except BaseException:
            stop.set()
            for future in futures:
                future.cancel()
            raise
        return [future.result() for future in futures]


def _picture(result: SimulationResult, measure_from_s: float) -> Picture:
    requests, series = result.requests, result.series
    ttft_s = sorted(
        first - arrival
        for first, arrival, outcome in zip(
            requests.first_token_s, requests.arrival_s, requests.outcome
        )
        if outcome == Outcome.DONE and arrival >= measure_from_s
    )
    last = len(ttft_s) - 1
    quantiles = [ttft_s[round(last * i / _QUANTILES)] for i in range(_QUANTILES + 1) if ttft_s]
    tokens: Any = series.prefill_tokens.tolist()
    rates = [[count / series.step_s for count in row] for row in tokens]
    return Picture(quantiles, series.step_s, rates)


# ---- What is shown ----


def table(comparison: Comparison) -> str:
    """The comparison for people."""
    several = comparison.seeds > 1
    head = ["policy", "TTFT s", "", "", "", "E2E s", "TPOT ms", "cached", "work", ""]
    units = ["", "mean", "p50", "p90", "p99", "mean", "mean", "share", "max/mean", "rejected"]
    rows = [head + ["TTFT s"] * several, units + ["of seeds"] * several]
    for policy in comparison.policies:
        row = [policy.name]
        row += [f"{policy.mean(f'ttft_{part}_s'):.3f}" for part in ("mean", "p50", "p90", "p99")]
        row += [
            f"{policy.mean('e2e_mean_s'):.2f}",
            f"{1e3 * policy.mean('tpot_mean_s'):.1f}",
            f"{policy.mean('cached_token_share'):.3f}",
            f"{policy.mean('max_over_mean_work'):.2f}",
            str(policy.mean_count("rejected")),
        ]
        if several:
            row.append("{:.3f}-{:.3f}".format(*policy.spread("ttft_mean_s")))
        rows.append(row)
    return aligned(comparison.facts, left=2) + "\n" + aligned(rows)


def as_json(comparisons: Sequence[Comparison]) -> str:
    """The comparison for programs; of several, an array of them."""
    objects = [_object(comparison) for comparison in comparisons]
    return json.dumps(objects[0] if len(objects) == 1 else objects, indent=2) + "\n"


def _object(comparison: Comparison) -> dict[str, Any]:
    return {
        "trace": comparison.trace,
        "engine": comparison.engine,
        "instances": comparison.instances,
        "seeds": comparison.seeds,
        "policies": [
            {
                "name": policy.name,
                **{figure: policy.mean(figure) for figure in FIGURES},
                "requests": policy.mean_count("requests"),
                "rejected": policy.mean_count("rejected"),
                "spread": {figure: policy.spread(figure) for figure in FIGURES},
            }
            for policy in comparison.policies
        ],
    }
