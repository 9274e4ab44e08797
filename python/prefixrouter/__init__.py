"""Tells an LLM gateway which inference instance should get a request.

PrefixRouter remembers which prompts went to which instance, counts how busy each one is, and picks
the instance that is predicted to answer first. It runs inside the gateway's process and answers in
microseconds, with no I/O and no thread of its own.

Example:
    >>> import prefixrouter
    >>> router = prefixrouter.PrefixRouter(block_size=16)
    >>> for name in ("10.0.0.1:8000", "10.0.0.2:8000"):
    ...     _ = router.add_instance(name)
    >>> name = router.route([1, 2, 3])         # token ids, from the model's tokenizer
    >>> with router.acquire([1, 2, 3]) as lease:
    ...     name = lease.name                  # send the request there

What another policy would do to your traffic, ``simulate`` tells:

    >>> trace = prefixrouter.generate_trace("chat", requests=500)
    >>> result = prefixrouter.simulate(trace, policy="prefix_cost", instances=4)
    >>> result.summary.requests
    500
"""

from prefixrouter import _async as _async
from prefixrouter._core import (
    CostParts,
    Decision,
    Error,
    Instance,
    InstanceState,
    Lease,
    PolicyInput,
    PrefixRouter,
    ScoreRow,
    ScoreTable,
    StatusCode,
    __version__,
    policy_names,
)
from prefixrouter._core.events import (
    KV_END_OF_REPLAY,
    KvApplyResult,
    KvEvent,
    KvEventBatch,
    KvEventDecoder,
    KvEventStream,
    KvEventStreamStats,
    KvEventSubscriber,
    KvEventSubscriberStats,
    KvFrames,
    KvPublisherStats,
    KvStreamAction,
    KvTopic,
    encode_kv_events,
    kv_seq_frame,
    multimodal_hash,
    parse_kv_live_frames,
    parse_kv_replay_frames,
    parse_kv_topic,
)
from prefixrouter._core.metrics import (
    METRICS_CONTENT_TYPE,
    DurationHistogram,
    EngineMetrics,
    EngineRankMetrics,
    InstanceStats,
    Stats,
    parse_engine_metrics,
    render_metrics,
)
from prefixrouter._core.simulation import (
    InstanceSeries,
    LoadLevels,
    Outcome,
    SimulatedPolicy,
    SimulatedRequests,
    SimulationResult,
    SimulationSummary,
    Trace,
    Workload,
    generate_trace,
    generators,
    policies,
    read_trace,
)
from prefixrouter._options import PolicyOptions

PolicyOptions.__module__ = "prefixrouter"

TYPE_CHECKING = False  # as in `typing`, whose import would take as long as all of this
if TYPE_CHECKING:
    from prefixrouter._simulator import (
        EngineOptions,
        FleetEvent,
        LinearCost,
        RooflineCost,
        SimulatedInstance,
        engine_presets,
        find_load_levels,
        simulate,
    )

__all__ = [
    "CostParts",
    "Decision",
    "DurationHistogram",
    "EngineMetrics",
    "EngineOptions",
    "EngineRankMetrics",
    "Error",
    "FleetEvent",
    "Instance",
    "InstanceSeries",
    "InstanceState",
    "InstanceStats",
    "KV_END_OF_REPLAY",
    "KvApplyResult",
    "KvEvent",
    "KvEventBatch",
    "KvEventDecoder",
    "KvEventStream",
    "KvEventStreamStats",
    "KvEventSubscriber",
    "KvEventSubscriberStats",
    "KvFrames",
    "KvPublisherStats",
    "KvStreamAction",
    "KvTopic",
    "Lease",
    "LinearCost",
    "LoadLevels",
    "METRICS_CONTENT_TYPE",
    "Outcome",
    "PolicyInput",
    "PolicyOptions",
    "PrefixRouter",
    "RooflineCost",
    "ScoreRow",
    "ScoreTable",
    "SimulatedInstance",
    "SimulatedPolicy",
    "SimulatedRequests",
    "SimulationResult",
    "SimulationSummary",
    "Stats",
    "StatusCode",
    "Trace",
    "Workload",
    "__version__",
    "encode_kv_events",
    "engine_presets",
    "find_load_levels",
    "generate_trace",
    "generators",
    "kv_seq_frame",
    "multimodal_hash",
    "parse_engine_metrics",
    "parse_kv_live_frames",
    "parse_kv_replay_frames",
    "parse_kv_topic",
    "policies",
    "policy_names",
    "read_trace",
    "render_metrics",
    "simulate",
]


def __getattr__(name: str) -> object:
    """The simulator's parts are imported when they are first asked for: a gateway needs none."""
    if name in __all__:
        from prefixrouter import _simulator

        value = globals()[name] = getattr(_simulator, name)
        return value
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
