"""The simulator's arguments, and the functions that run it; prefixrouter re-exports them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, Union

from prefixrouter._core import PolicyInput, simulation


@dataclasses.dataclass(frozen=True)
class LinearCost:
    """The time of an engine's step, as a sum of what each part takes. All in seconds, at least 0.

    Attributes:
        step_s: A step, whatever is in it.
        prefill_token_s: A prompt token, dense layers.
        prefill_pair_s: A (prompt token, token attended to) pair.
        decode_request_s: A request that decodes.
        decode_context_token_s: A token of its context.
    """

    step_s: float = 0.0
    prefill_token_s: float = 0.0
    prefill_pair_s: float = 0.0
    decode_request_s: float = 0.0
    decode_context_token_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class RooflineCost:
    """The time of an engine's step, as the slower of computing and of moving data.

    Attributes:
        flops_per_token: Dense layers: twice the parameters.
        flops_per_pair: Attention, for each token attended to.
        weight_bytes: Read in each step.
        kv_token_bytes: Keys and values of a token.
        flops_per_s: That the machine reaches. More than 0.
        bytes_per_s: That the machine reaches. More than 0.
        step_overhead_s: Launches, scheduling.
        token_overhead_s: Communication between GPUs, for each token.
    """

    flops_per_token: float = 0.0
    flops_per_pair: float = 0.0
    weight_bytes: float = 0.0
    kv_token_bytes: float = 0.0
    flops_per_s: float = 1.0
    bytes_per_s: float = 1.0
    step_overhead_s: float = 0.0
    token_overhead_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class EngineOptions:
    """A simulated engine. ``engine_presets()`` has some; ``dataclasses.replace`` changes one.

    Attributes:
        name: For people.
        cost_model: Which of the two costs counts.
        linear: Read if ``cost_model`` is ``linear``.
        roofline: Read if it is ``roofline``.
        kv_capacity_tokens: KV cache in tokens. 1 to 2**40.
        max_batched_tokens: Tokens a step. 1 to 2**24.
        max_running_requests: In the batch at once. 1 to 65,536.
        page_tokens: Tokens a page of KV memory. 1 to 32,768.
    """

    name: str = "custom"
    cost_model: Literal["linear", "roofline"] = "linear"
    linear: LinearCost = LinearCost()
    roofline: RooflineCost = RooflineCost()
    kv_capacity_tokens: int = 0
    max_batched_tokens: int = 8192
    max_running_requests: int = 256
    page_tokens: int = 16

    def step_seconds(
        self,
        *,
        prefill_tokens: int = 0,
        prefill_pairs: float = 0.0,
        decode_requests: int = 0,
        decode_context: float = 0.0,
    ) -> float:
        """Seconds of a step on an instance of speed 1.

        Args:
            prefill_tokens (int): Prompt tokens computed.
            prefill_pairs (float): Sum over them of the tokens that each attends to.
            decode_requests (int): Requests that get one more token.
            decode_context (float): Sum over these of the tokens that each attends to.
        """
        return simulation._step_seconds(
            self, prefill_tokens, prefill_pairs, decode_requests, decode_context
        )


@dataclasses.dataclass(frozen=True)
class SimulatedInstance:
    """An instance of the simulated fleet.

    Attributes:
        speed: Steps take 1 / speed of the engine's time. 0.001 to 1000.
        capacity: KV cache, times the engine's. 1e-6 to 1e6.
        configured_capacity: What the routers are told of it, times the true one. 1e-6 to 1e6.
        configured_prefill_tokens_per_s: What the routers are told. 0: nothing; else 1 to 1e9.
    """

    speed: float = 1.0
    capacity: float = 1.0
    configured_capacity: float = 1.0
    configured_prefill_tokens_per_s: float = 0.0


@dataclasses.dataclass(frozen=True)
class FleetEvent:
    """A change of the simulated fleet.

    Attributes:
        time_s: Seconds of the simulation, at least 0.
        change: ``fail`` (it is gone with its cache and its requests, which are sent again),
            ``restart`` (after a failure), ``join`` (scale out; an instance whose first event
            this is is not there before), ``leave`` (scale in; running requests end).
        instance: Index of the instance.
    """

    time_s: float
    change: Literal["fail", "restart", "join", "leave"]
    instance: int


_Progress = Callable[[int, int], object]
_Rule = Callable[[PolicyInput], Any]
_Source = Union[simulation.Workload, simulation.Trace]


def engine_presets() -> dict[str, EngineOptions]:
    """The engines that simulations know by name: a model and the GPUs of one instance.

    Returns:
        dict[str, EngineOptions]: By name. docs/simulator.md has where their numbers come from.
    """
    presets = {}
    for name, fields in simulation._engine_presets().items():
        linear, roofline = LinearCost(**fields["linear"]), RooflineCost(**fields["roofline"])
        presets[name] = EngineOptions(**{**fields, "linear": linear, "roofline": roofline})
    return presets


def simulate(
    workload: _Source,
    *,
    policy: str | _Rule = "prefix_cost",
    engine: str | EngineOptions = "llama-70b-8xh100",
    instances: int | Sequence[SimulatedInstance] = 4,
    events: Sequence[FleetEvent] = (),
    routers: int = 1,
    session_keys: bool = False,
    max_ttft_s: float = 0.0,
    arrival_scale: float = 1.0,
    closed_loop: bool = False,
    feedback_delay_s: float = 0.0,
    report_cached_tokens: bool = True,
    metrics_period_s: float = 0.05,
    metrics_age_s: float = 0.0,
    kv_events: bool = False,
    kv_event_delay_s: float = 0.02,
    measure_from_s: float = 0.0,
    series_step_s: float = 0.0,
    seed: int = 1,
    router_options: Mapping[str, Any] | None = None,
    progress: _Progress | None = None,
) -> simulation.SimulationResult:
    """Sends a workload through a simulated fleet behind real routers, in virtual time.

    A function of its arguments: equal ones give equal results, in any number of threads at once.
    The GIL is left while it runs. An exception that ``progress`` raises, or a signal's handler
    (Ctrl-C), stops it.

    Args:
        workload (Workload | Trace): What is sent. A trace is made a ``Workload`` first, with its
            defaults; for several simulations make one yourself.
        policy (str | Callable[[PolicyInput], costs]): One of ``policies()``, or a rule of your
            own, as ``PrefixRouter`` takes it. What it raises stops the simulation.
        engine (str | EngineOptions): One of ``engine_presets()``, or an engine of your own.
        instances (int | Sequence[SimulatedInstance]): Their number, or each of them. 1 to 65,536.
        events (Sequence[FleetEvent]): Failures, restarts, scaling; in any order.
        routers (int): Routers, each of which gets its share of the requests by chance. They
            share a key seed and know how many they are, no more. 1 to 1024.
        session_keys (bool): Pass session ids to the router.
        max_ttft_s (float): Reject requests whose predicted time to first token is above this, in
            seconds. 0: none.
        arrival_scale (float): Requests come this much faster than in the workload. 1e-6 to 1e6.
        closed_loop (bool): A later turn of a session is sent when the one before it has ended
            and the user has thought.
        feedback_delay_s (float): First tokens and ends are known to the router after this time,
            in seconds. 0 to 1e6.
        report_cached_tokens (bool): Engines tell cached tokens at the end of a request.
        metrics_period_s (float): Engine metrics are read every so many seconds. 0: never; else
            0.001 to 1e6.
        metrics_age_s (float): Their age when the router gets them, in seconds. 0 to 1e6.
        kv_events (bool): Engines publish KV events, and routers apply them.
        kv_event_delay_s (float): How much later these reach the routers, in seconds. 0 to 1e6.
        measure_from_s (float): Requests that arrive before this, in seconds, are served but not
            part of the summary.
        series_step_s (float): Width of a step of ``SimulationResult.series``, in seconds. 0: a
            hundredth of the arrivals' span.
        seed (int): Of the choice of a router for each request, and of near-ties. 64 bits.
        router_options (Mapping[str, Any] | None): Other options of the routers, by their names
            in ``PrefixRouter``: ``{"calibrate": False}``.
        progress (Callable[[int, int], object] | None): Called every few milliseconds, on the
            calling thread, with the number of requests that are over and that of all.

    Returns:
        SimulationResult: Figures, every request, every instance over time.

    Raises:
        TypeError: A value of the wrong type.
        ValueError: A value out of its range, an unknown policy or engine, or an event that makes
            no sense (a restart of what did not fail).
    """
    return simulation._simulate(
        _ready(workload),
        {
            "policy": policy,
            "engine": engine,
            "instances": instances,
            "events": events,
            "routers": routers,
            "session_keys": session_keys,
            "max_ttft_s": max_ttft_s,
            "arrival_scale": arrival_scale,
            "closed_loop": closed_loop,
            "feedback_delay_s": feedback_delay_s,
            "report_cached_tokens": report_cached_tokens,
            "metrics_period_s": metrics_period_s,
            "metrics_age_s": metrics_age_s,
            "kv_events": kv_events,
            "kv_event_delay_s": kv_event_delay_s,
            "measure_from_s": measure_from_s,
            "series_step_s": series_step_s,
            "seed": seed,
            "router_options": router_options,
            "progress": progress,
        },
    )


def find_load_levels(workload: _Source, **arguments: Any) -> simulation.LoadLevels:
    """Finds the loads at which policies are compared, by about 15 simulations.

    Args:
        workload (Workload | Trace): As for ``simulate``.
        **arguments (Any): Those of ``simulate``. ``policy`` (it is ``least_requests``),
            ``arrival_scale``, ``closed_loop`` and ``kv_events`` are not looked at.

    Returns:
        LoadLevels: Values for ``arrival_scale``.

    Raises:
        TypeError, ValueError: As ``simulate``.
    """
    return simulation._find_load_levels(
        _ready(workload), {"engine": "llama-70b-8xh100", "progress": None, **arguments}
    )


def _ready(source: _Source) -> simulation.Workload:
    return simulation.Workload(source) if isinstance(source, simulation.Trace) else source


for _member in (
    LinearCost,
    RooflineCost,
    EngineOptions,
    SimulatedInstance,
    FleetEvent,
    engine_presets,
    simulate,
    find_load_levels,
):
    _member.__module__ = "prefixrouter"
