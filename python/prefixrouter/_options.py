"""PolicyOptions: a type for the argument ``policy_options`` of PrefixRouter."""

from typing import TypedDict


class PolicyOptions(TypedDict, total=False):
    """Numbers of the named policies, for ``PrefixRouter(policy_options=...)``: a plain dict.

    What is left out keeps its default, that of the routers whose rule it is. ``prefix_cost`` has no
    numbers: it learns what it needs.

    Attributes:
        hash_load_factor (float): consistent_hash: an instance takes at most this many times the
            mean of requests in flight. 1 to 1e6 (no bound); default 1.25.
        hash_ring_points (int): consistent_hash, prefix_hash: points of an instance on the ring. 1
            to 4096; default 128.
        hash_prefix_tokens (int): prefix_hash: length of the prefix that is hashed, in tokens, in
            whole blocks and at least one. 1 to 2**24; default 256.
        hash_max_requests (int): prefix_hash: a home with so many requests in flight passes new
            ones on. 1 to 1,000,000; default 64.
        threshold_match (float): cache_threshold: share of the prompt that must be cached to prefer
            an instance. 0 to 1; default 0.3.
        threshold_requests (float): cache_threshold: the instance is overloaded when its requests
            exceed both the mean by this count, 0 to 1e9, default 64,
        threshold_ratio (float): and the mean times this ratio, 1 to 1e9, default 1.5.
        weight_match (float): weighted: of the cached share. 0 to 1e6; default 3.
        weight_queue (float): weighted: of the relative shortness of the queue. Likewise; default 2.
        weight_kv (float): weighted: of free KV memory. Likewise; default 2. Not all three are 0.
        block_credit (float): block_cost: how much of a cached token's prefill counts as saved. 0
            to 1000; default 1.
    """

    hash_load_factor: float
    hash_ring_points: int
    hash_prefix_tokens: int
    hash_max_requests: int
    threshold_match: float
    threshold_requests: float
    threshold_ratio: float
    weight_match: float
    weight_queue: float
    weight_kv: float
    block_credit: float
