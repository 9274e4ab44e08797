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
"""

from prefixrouter import _async as _async
from prefixrouter._core import (
    METRICS_CONTENT_TYPE,
    CostParts,
    Decision,
    DurationHistogram,
    EngineMetrics,
    EngineRankMetrics,
    Error,
    Instance,
    InstanceState,
    InstanceStats,
    Lease,
    PolicyInput,
    PrefixRouter,
    ScoreRow,
    ScoreTable,
    Stats,
    StatusCode,
    __version__,
    parse_engine_metrics,
    policy_names,
    render_metrics,
)
from prefixrouter._options import PolicyOptions

PolicyOptions.__module__ = "prefixrouter"

__all__ = [
    "CostParts",
    "Decision",
    "DurationHistogram",
    "EngineMetrics",
    "EngineRankMetrics",
    "Error",
    "Instance",
    "InstanceState",
    "InstanceStats",
    "Lease",
    "METRICS_CONTENT_TYPE",
    "PolicyInput",
    "PolicyOptions",
    "PrefixRouter",
    "ScoreRow",
    "ScoreTable",
    "Stats",
    "StatusCode",
    "__version__",
    "parse_engine_metrics",
    "policy_names",
    "render_metrics",
]
