"""Types of the compiled part: routing; events.pyi, metrics.pyi and simulation.pyi have the rest.

tests/python/test_stubs.py checks that they are those of the compiled modules.
"""

import enum
from collections.abc import Callable, Iterable, Sequence
from types import TracebackType
from typing import Any, Literal, Protocol, SupportsFloat, SupportsIndex, Union, final

from typing_extensions import Buffer, Self, TypeAlias

from prefixrouter._core import events as events
from prefixrouter._core import metrics as metrics
from prefixrouter._core import simulation as simulation
from prefixrouter._core.events import KvApplyResult, KvEventBatch, KvEventDecoder
from prefixrouter._core.metrics import EngineMetrics, Stats
from prefixrouter._options import PolicyOptions

__version__: str

class _SupportsDLPack(Protocol):
    """A tensor in CPU memory, for example of PyTorch."""

    def __dlpack__(self) -> Any: ...

# Token ids of shape (n,).
_Tokens: TypeAlias = Union[
    "list[int]", "list[SupportsIndex]", "tuple[SupportsIndex, ...]", Buffer, _SupportsDLPack
]
# Token ids of shape (n,), or text.
_Prompt: TypeAlias = Union[
    "list[int]",
    "list[SupportsIndex]",
    "tuple[SupportsIndex, ...]",
    Buffer,
    _SupportsDLPack,
    str,
    bytes,
    bytearray,
]
_Costs: TypeAlias = Union[Sequence[SupportsFloat], Sequence[SupportsIndex], Buffer]
_Rule: TypeAlias = Literal["lowest_cost", "near_tie", "only_candidate", "session"]

class StatusCode(enum.IntEnum):
    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14

class Error(Exception):
    code: StatusCode

class InstanceState(enum.Enum):
    READY = 0
    DRAINING = 1
    DOWN = 2

@final
class Instance:
    @property
    def name(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def id(self) -> int: ...

@final
class CostParts:
    @property
    def pending(self) -> float: ...
    @property
    def uncached(self) -> float: ...
    @property
    def requests(self) -> float: ...
    @property
    def pressure(self) -> float: ...
    @property
    def total(self) -> float: ...

@final
class Decision:
    @property
    def instance(self) -> Instance: ...
    @property
    def name(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def rule(self) -> _Rule: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def uncached_tokens(self) -> int: ...
    @property
    def best_cached_tokens(self) -> int: ...
    @property
    def cached_credit_tokens(self) -> int: ...
    @property
    def home_tokens(self) -> float: ...
    @property
    def predicted_ttft_s(self) -> float: ...
    @property
    def cost(self) -> CostParts: ...
    @property
    def miss_weight(self) -> float: ...
    @property
    def runner_up(self) -> Instance | None: ...
    @property
    def runner_up_cost(self) -> float: ...
    @property
    def candidates(self) -> int: ...
    @property
    def stale_report(self) -> bool: ...

@final
class ScoreRow:
    @property
    def instance(self) -> Instance: ...
    @property
    def name(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def eligible(self) -> bool: ...
    @property
    def stale_report(self) -> bool: ...
    @property
    def cached_tokens(self) -> int: ...
    @property
    def cached_credit_tokens(self) -> int: ...
    @property
    def home_tokens(self) -> float: ...
    @property
    def predicted_ttft_s(self) -> float: ...
    @property
    def cost(self) -> CostParts: ...
    @property
    def requests_in_flight(self) -> int: ...
    @property
    def pending_tokens(self) -> float: ...

@final
class ScoreTable:
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def miss_weight(self) -> float: ...
    @property
    def rows(self) -> tuple[ScoreRow, ...]: ...

@final
class PolicyInput:
    @property
    def size(self) -> int: ...
    def __len__(self) -> int: ...
    @property
    def instances(self) -> tuple[Instance | None, ...]: ...
    @property
    def eligible(self) -> memoryview: ...
    @property
    def cached_tokens(self) -> memoryview: ...
    @property
    def cached_blocks(self) -> memoryview: ...
    @property
    def pending_tokens(self) -> memoryview: ...
    @property
    def tokens_per_s(self) -> memoryview: ...
    @property
    def seconds_per_token(self) -> memoryview: ...
    @property
    def requests(self) -> memoryview: ...
    @property
    def waiting(self) -> memoryview: ...
    @property
    def kv_tokens(self) -> memoryview: ...
    @property
    def kv_usage(self) -> memoryview: ...
    @property
    def displacement(self) -> memoryview: ...
    @property
    def any_report(self) -> bool: ...
    @property
    def weight(self) -> memoryview: ...
    @property
    def home(self) -> int | None: ...
    @property
    def home_tokens(self) -> float: ...
    @property
    def prompt_tokens(self) -> float: ...
    @property
    def tokens_per_block(self) -> float: ...
    @property
    def overhead_tokens(self) -> float: ...
    @property
    def expected_output_tokens(self) -> float: ...
    @property
    def priority(self) -> int: ...
    @property
    def mean_waiting(self) -> float: ...
    @property
    def affinity_hash(self) -> int: ...
    @property
    def sequence(self) -> int: ...
    @property
    def random(self) -> int: ...

@final
class Lease:
    @property
    def decision(self) -> Decision: ...
    @property
    def instance(self) -> Instance: ...
    @property
    def name(self) -> str: ...
    @property
    def rank(self) -> int: ...
    @property
    def id(self) -> int: ...
    @property
    def active(self) -> bool: ...
    def first_token(self) -> bool: ...
    def finish(
        self,
        *,
        output_tokens: SupportsIndex | None = None,
        engine_cached_tokens: SupportsIndex | None = None,
    ) -> bool: ...
    def cancel(self) -> bool: ...
    def release(self) -> int: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...
    async def __aenter__(self) -> Self: ...
    async def __aexit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

class PrefixRouter:
    def __init__(
        self,
        *,
        block_size: SupportsIndex = 16,
        text_block_bytes: SupportsIndex = 64,
        text_bytes_per_token: SupportsFloat = 4.0,
        policy: str | Callable[[PolicyInput], _Costs] = "prefix_cost",
        policy_options: PolicyOptions | None = None,
        key_seed: SupportsIndex | None = None,
        routers: SupportsIndex = 1,
        random_seed: SupportsIndex | None = None,
        predicted_ttl_s: SupportsFloat = 0.0,
        confirm_window_s: SupportsFloat = 2.0,
        cpu_tier_weight: SupportsFloat = 0.8,
        disk_tier_weight: SupportsFloat = 0.5,
        external_tier_weight: SupportsFloat = 0.5,
        default_prefill_tokens_per_s: SupportsFloat = 10000.0,
        calibrate: bool = True,
        report_max_age_s: SupportsFloat = 5.0,
        lease_ttl_s: SupportsFloat = 600.0,
        session_ttl_s: SupportsFloat = 3600.0,
        session_slack_s: SupportsFloat = 0.25,
        index_budget_bytes: SupportsIndex = 1073741824,
        max_prompt_tokens: SupportsIndex = 16777216,
        max_instances: SupportsIndex = 65536,
        max_sessions: SupportsIndex = 262144,
        clock: Callable[[], int] | None = None,
        latency_interval_s: SupportsFloat = 0.0001,
    ) -> None: ...
    def add_instance(
        self,
        name: str,
        rank: SupportsIndex = 0,
        *,
        capacity_blocks: SupportsIndex = 65536,
        prefill_tokens_per_s: SupportsFloat = 0.0,
        weight: SupportsFloat = 1.0,
        model: str = "",
    ) -> Instance: ...
    def remove_instance(self, instance: Instance | str) -> None: ...
    def find_instance(self, name: str, rank: SupportsIndex = 0) -> Instance: ...
    @property
    def instances(self) -> list[Instance]: ...
    def set_instance_state(
        self, instance: Instance | str, state: InstanceState, for_s: SupportsFloat = 0.0
    ) -> None: ...
    def report_load(
        self,
        instance: Instance | str,
        *,
        running_requests: SupportsIndex | None = None,
        waiting_requests: SupportsIndex | None = None,
        kv_usage: SupportsFloat | None = None,
        age_s: SupportsFloat = 0.0,
    ) -> None: ...
    def report_engine_metrics(
        self, name: str, metrics: EngineMetrics | str | bytes, *, age_s: SupportsFloat = 0.0
    ) -> int: ...
    def apply_kv_events(
        self,
        instance: Instance | str,
        events: KvEventBatch | bytes | bytearray | memoryview | str,
        decoder: KvEventDecoder | None = None,
    ) -> KvApplyResult: ...
    def route(
        self,
        tokens: _Prompt,
        *,
        model: str = "",
        adapter: str = "",
        salt: str = "",
        multimodal: Iterable[tuple[SupportsIndex, SupportsIndex]] = (),
        allowed: Iterable[Instance | str] | None = None,
        session_key: str = "",
        expected_output_tokens: SupportsIndex = 0,
        priority: SupportsIndex = 0,
        max_ttft_s: SupportsFloat = 0.0,
    ) -> str: ...
    def decide(
        self,
        tokens: _Prompt,
        *,
        model: str = "",
        adapter: str = "",
        salt: str = "",
        multimodal: Iterable[tuple[SupportsIndex, SupportsIndex]] = (),
        allowed: Iterable[Instance | str] | None = None,
        session_key: str = "",
        expected_output_tokens: SupportsIndex = 0,
        priority: SupportsIndex = 0,
        max_ttft_s: SupportsFloat = 0.0,
    ) -> Decision: ...
    def acquire(
        self,
        tokens: _Prompt,
        *,
        model: str = "",
        adapter: str = "",
        salt: str = "",
        multimodal: Iterable[tuple[SupportsIndex, SupportsIndex]] = (),
        allowed: Iterable[Instance | str] | None = None,
        session_key: str = "",
        expected_output_tokens: SupportsIndex = 0,
        priority: SupportsIndex = 0,
        max_ttft_s: SupportsFloat = 0.0,
    ) -> Lease: ...
    def score(
        self,
        tokens: _Prompt,
        *,
        model: str = "",
        adapter: str = "",
        salt: str = "",
        multimodal: Iterable[tuple[SupportsIndex, SupportsIndex]] = (),
        allowed: Iterable[Instance | str] | None = None,
        session_key: str = "",
        expected_output_tokens: SupportsIndex = 0,
        priority: SupportsIndex = 0,
        max_ttft_s: SupportsFloat = 0.0,
    ) -> ScoreTable: ...
    def first_token(self, lease: SupportsIndex) -> bool: ...
    def finish(
        self,
        lease: SupportsIndex,
        *,
        output_tokens: SupportsIndex | None = None,
        engine_cached_tokens: SupportsIndex | None = None,
    ) -> bool: ...
    def cancel(self, lease: SupportsIndex) -> bool: ...
    def stats(self) -> Stats: ...
    def metrics(self, *, per_instance: bool = True) -> str: ...
    @property
    def options(self) -> dict[str, Any]: ...
    def close(self) -> None: ...
    @property
    def closed(self) -> bool: ...
    def __enter__(self) -> Self: ...
    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None: ...

def policy_names() -> list[str]: ...
