"""Custom policies: a callable over arrays."""

import array
import gc
import math

import numpy as np
import pytest

from prefixrouter import Error, KvEvent, KvEventBatch, PrefixRouter

PROMPT = list(range(1, 161))
ARRAYS = {
    "eligible": np.uint8,
    "cached_blocks": np.uint32,
    "cached_tokens": np.float32,
    "pending_tokens": np.float32,
    "tokens_per_s": np.float32,
    "seconds_per_token": np.float32,
    "requests": np.float32,
    "waiting": np.float32,
    "kv_tokens": np.float32,
    "kv_usage": np.float32,
    "displacement": np.float32,
    "weight": np.float32,
}


def fleet_of(policy, names=("a", "b", "c"), **options):
    router = PrefixRouter(policy=policy, key_seed=1, random_seed=2, **options)
    for name in names:
        router.add_instance(name)
    return router


def test_the_lowest_cost_wins():
    costs = [3.0, 1.0, 2.0]
    router = fleet_of(lambda fleet: costs)
    decision = router.decide(PROMPT)
    assert (decision.name, decision.cost.total, decision.runner_up_cost) == ("b", 1.0, 2.0)
    assert decision.runner_up.name == "c"
    costs[0] = -math.inf
    assert router.route(PROMPT) == "a"
    assert [row.cost.total for row in router.score(PROMPT).rows] == costs


@pytest.mark.parametrize(
    "costs",
    [
        [5, 4, 6],
        (5.0, 4.0, 6.0),
        [np.float64(5), np.int32(4), 6],
        array.array("f", [5, 4, 6]),
        array.array("d", [5, 4, 6]),
        np.array([5, 4, 6]),
        np.array([5, 4, 6], dtype=np.uint32),
        np.array([5, 4, 6], dtype=np.int32),
        np.array([5, 4, 6], dtype=np.uint64),
        np.array([5, 0, 4, 0, 6, 0], dtype=np.float32)[::2],
        np.array([6, 4, 5], dtype=float)[::-1],
        memoryview(array.array("f", [5, 4, 6])),
        [5, -(10**300), 6],
        [math.nan, 4, math.nan],
        [math.inf, 4, math.inf],
    ],
)
def test_costs_are_lists_or_arrays(costs):
    assert fleet_of(lambda fleet: costs).route(PROMPT) == "b"


@pytest.mark.parametrize(
    "costs, exception, message",
    [
        (None, TypeError, "the policy must return a list or an array of costs, got None"),
        (1.0, TypeError, "the policy must return a list or an array of costs, got 1.0"),
        (b"\0" * 12, TypeError, "the policy must return a list or an array of costs"),
        ({1: 2}, TypeError, "the policy must return a list or an array of costs"),
        ([1, 2], ValueError, "the policy must return 3 costs, got 2"),
        ([1, 2, 3, 4], ValueError, "the policy must return 3 costs, got 4"),
        ([], ValueError, "the policy must return 3 costs, got 0"),
        (np.zeros(5), ValueError, "the policy must return 3 costs, got 5"),
        (np.zeros((3, 1)), ValueError, "must have one dimension, got 2"),
        (np.zeros(3, dtype=complex), TypeError, "format 'Zd'"),
        (np.zeros(3, dtype=bool), TypeError, r"format '\?'"),
        (np.zeros(3, dtype=np.float16), TypeError, "format 'e'"),
        ([1, "2", 3], TypeError, r"the policy's costs\[1\] must be a number, got '2'"),
        ([1, None, 3], TypeError, r"the policy's costs\[1\] must be a number, got None"),
        ([1, 2, 10**400], OverflowError, "too large"),
    ],
)
def test_wrong_costs_are_named_and_change_nothing(costs, exception, message):
    router = fleet_of(lambda fleet: costs)
    before = repr(router.stats())
    for method in ("route", "decide", "acquire", "score"):
        with pytest.raises(exception, match=message):
            getattr(router, method)(PROMPT)
    assert repr(router.stats()) == before


def test_what_a_policy_raises_leaves_the_call_and_changes_nothing():
    class Mine(Exception):
        pass

    def policy(fleet):
        raise Mine("on purpose")

    router = fleet_of(policy)
    before = repr(router.stats())
    for tokens in (PROMPT, np.arange(8192, dtype=np.uint32)):
        for method in ("route", "decide", "acquire", "score"):
            with pytest.raises(Mine, match="on purpose") as caught:
                getattr(router, method)(tokens)
            assert any(entry.name == "policy" for entry in caught.traceback)
    assert repr(router.stats()) == before


def test_an_error_of_a_policy_is_not_seen_by_the_next_call():
    fail = [True]

    def policy(fleet):
        if fail:
            raise KeyError(fail.pop())
        return [1.0] * len(fleet)

    router = fleet_of(policy)
    with pytest.raises(KeyError):
        router.route(PROMPT)
    with pytest.raises(ValueError, match="max_ttft_s"):
        router.route(PROMPT, max_ttft_s=-1)
    with pytest.raises(Error):
        router.route(PROMPT, allowed=[])
    assert router.route(PROMPT) in "abc"


def test_a_policy_sees_the_state_of_the_fleet():
    seen = []
    nanos = [0]

    def policy(fleet):
        seen.append(fleet)
        return [0.0] * fleet.size

    router = fleet_of(policy, names=(), clock=lambda: nanos[0])
    a = router.add_instance("a", weight=2, prefill_tokens_per_s=1000)
    b = router.add_instance("b")
    router.add_instance("c")
    lease = router.acquire(PROMPT, allowed=[a], expected_output_tokens=40)
    router.report_load(b, running_requests=3, kv_usage=0.5)
    router.remove_instance("c")
    del seen[:]
    router.route(PROMPT, allowed=[a], priority=-7, expected_output_tokens=9, session_key="s")

    (fleet,) = seen
    assert repr(fleet) == "<PolicyInput of 3 instances>" and len(fleet) == fleet.size == 3
    assert fleet.instances == (a, None, None)
    assert list(fleet.eligible) == [1, 0, 0]
    assert fleet.cached_tokens[0] == 160 and fleet.cached_blocks[0] == 10
    assert fleet.pending_tokens[0] == 160 and fleet.kv_tokens[0] == 200
    assert fleet.tokens_per_s[0] == 1000 and fleet.weight[0] == 2
    assert fleet.seconds_per_token[0] == pytest.approx(1 / 2000)
    assert list(fleet.requests)[:2] == [1, 3] and fleet.kv_usage[1] == 0.5
    assert list(fleet.waiting)[:2] == [1, 0] and fleet.any_report is True
    assert fleet.overhead_tokens == 0
    assert fleet.home is None and fleet.home_tokens == 0  # there is one router
    assert (fleet.prompt_tokens, fleet.tokens_per_block) == (160, 16)
    assert (fleet.expected_output_tokens, fleet.priority, fleet.sequence) == (9, -7, 1)
    assert fleet.mean_waiting >= 0 and fleet.affinity_hash != 0 and 0 <= fleet.random < 2**64
    lease.cancel()
    nanos[0] += 10**12
    router.route(PROMPT)
    assert seen[-1].any_report is False and list(seen[-1].kv_usage) == [0, 0, 0]


def test_a_policy_sees_what_a_full_cache_pushes_out():
    seen = []

    def policy(fleet):
        seen.append(list(fleet.displacement))
        return [0.0] * fleet.size

    router = fleet_of(policy, names=("a", "b"), block_size=16, clock=lambda: 0)
    router.route(PROMPT)
    assert seen.pop() == [0, 0]
    ids = list(range(1, 33))

    def prompt(first):
        return list(range(first, first + 16 * len(ids)))

    for turn in range(20):  # of two prompts there is room for one
        router.apply_kv_events(
            "a",
            KvEventBatch(
                [
                    KvEvent("removed", ids),
                    KvEvent("stored", ids, block_size=16, tokens=prompt(turn % 2 * 10_000)),
                ]
            ),
        )
    router.route(PROMPT)
    a, b = seen.pop()
    assert 0.5 < a <= 1 and b == 0


def test_a_policy_sees_the_overhead_that_first_tokens_have_shown():
    seen = []
    nanos = [0]

    def policy(fleet):
        seen.append(fleet.overhead_tokens)
        return [0.0] * fleet.size

    router = fleet_of(policy, clock=lambda: nanos[0])
    for i in range(100):
        lease = router.acquire([i] * (i % 9 + 1) * 100)
        nanos[0] += 20_000_000 + lease.decision.uncached_tokens * 100_000  # 20 ms more than prefill
        lease.first_token()
        lease.finish()
        nanos[0] += 10**9
    assert seen[0] == 0 and seen[-1] == pytest.approx(200, rel=0.2)


def test_a_policy_sees_where_other_routers_look_for_the_prompt():
    seen = []

    def policy(fleet):
        seen.append((fleet.home, fleet.home_tokens))
        return [float(i != fleet.home) for i in range(fleet.size)]

    router = fleet_of(policy, routers=4)
    first = router.decide(PROMPT)
    home, tokens = seen.pop()
    assert router.instances[home] == first.instance
    assert first.home_tokens == tokens > len(PROMPT)
    others = [instance for instance in router.instances if instance != first.instance]
    second = router.decide(PROMPT, allowed=others)
    home, tokens = seen.pop()
    assert router.instances[home] == second.instance != first.instance
    assert second.home_tokens == tokens > 0
    router.route(PROMPT[:8])  # not a block of it
    assert seen.pop() == (None, 0)
    router.route(PROMPT[:8], session_key="s")
    home, tokens = seen.pop()
    assert home in range(3) and tokens > 0


def test_arrays_are_views_that_outlive_the_call():
    seen = []

    def policy(fleet):
        seen.append({name: getattr(fleet, name) for name in ARRAYS})
        seen.append(fleet)
        return [float(i) for i in range(fleet.size)]

    router = fleet_of(policy)
    router.route(PROMPT)
    del router
    gc.collect()
    views, fleet = seen
    for name, dtype in ARRAYS.items():
        view = views[name]
        assert isinstance(view, memoryview) and view.readonly and view.shape == (3,), name
        values = np.asarray(view)
        assert values.dtype == dtype and values.tolist() == list(getattr(fleet, name)), name
        with pytest.raises(TypeError):
            view[0] = 1
    with pytest.raises(AttributeError):
        fleet.prompt_tokens = 1


def test_numpy_policies_choose_as_told():
    def least_pending(fleet):
        return np.asarray(fleet.pending_tokens) + np.asarray(fleet.requests)

    router = fleet_of(least_pending)
    leases = [router.acquire([i] * 160) for i in range(9)]
    assert sorted(lease.name for lease in leases) == list("aaabbbccc")


def test_a_policy_may_route_elsewhere():
    """With another router it may do what it likes."""
    inner = fleet_of("prefix_cost")

    def policy(fleet):
        wanted = inner.route(PROMPT)
        return [0.0 if i and i.name == wanted else 1.0 for i in fleet.instances]

    outer = fleet_of(policy)
    for _ in range(5):
        assert outer.route(PROMPT) == inner.route(PROMPT)


def test_a_policy_that_calls_its_own_router_does_no_harm():
    depth = [0]

    def policy(fleet):
        if depth[0] < 3:
            depth[0] += 1
            router.route(PROMPT)
        return [1.0] * fleet.size

    router = fleet_of(policy)
    assert router.route(PROMPT) in "abc"
    assert router.stats().requests == 4


def test_a_policy_may_remove_instances_and_close_the_router():
    def policy(fleet):
        if len(router.instances) > 1:
            router.remove_instance(router.instances[0])
        else:
            router.close()
        return [float(i) for i in range(fleet.size)]

    router = fleet_of(policy)
    assert router.route(PROMPT) == "b"
    assert router.route(PROMPT) == "c"
    assert router.route(PROMPT) == "c"
    assert router.closed


def test_a_text_prompt_has_estimated_lengths():
    seen = []

    def policy(fleet):
        seen.append((fleet.prompt_tokens, fleet.tokens_per_block))
        return [0.0] * fleet.size

    fleet_of(policy).route("x" * 640)
    assert seen == [(160, 16)]
