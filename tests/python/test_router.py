"""Instances, requests, errors and the life of a router."""

import array
import copy
import gc
import math
import os
import pickle
import subprocess
import sys
import weakref

import pytest

import prefixrouter
from prefixrouter import Error, InstanceState, PrefixRouter, StatusCode

PROMPT = list(range(1, 161))  # 10 blocks


def code_of(call, *arguments, **keywords):
    with pytest.raises(Error) as caught:
        call(*arguments, **keywords)
    return caught.value.code


# ---- Instances -----------------------------------------------------------------------------------


def test_route_returns_the_name_and_decide_the_rank_too(router):
    for rank in range(1, 4):
        router.add_instance("server", rank)
    third = router.find_instance("server", 3)
    assert router.route(PROMPT, allowed=[third]) == "server"
    decision = router.decide(PROMPT)
    assert (decision.name, decision.rank, decision.instance) == ("server", 3, third)
    assert decision.cached_tokens == 160


def test_an_instance_knows_its_name_rank_and_number(router):
    instance = router.add_instance("näme", 7)
    assert (instance.name, instance.rank) == ("näme", 7)
    assert repr(instance) == "<Instance 'näme' rank 7>"
    assert router.find_instance("näme", 7) is instance
    assert instance.id not in {other.id for other in router.instances if other is not instance}
    assert [i.name for i in router.instances] == ["a", "b", "näme"]


def test_a_removed_instance_is_gone_and_its_name_free(router):
    first = router.find_instance("a")
    router.route(PROMPT, allowed=["a"])
    router.remove_instance("a")
    assert [i.name for i in router.instances] == ["b"]
    for call in (
        lambda: router.remove_instance(first),
        lambda: router.set_instance_state(first, InstanceState.DOWN),
        lambda: router.report_load(first, running_requests=1),
    ):
        with pytest.raises(KeyError, match="no such instance: <Instance 'a' rank 0> was removed"):
            call()
    second = router.add_instance("a")
    assert second is not first and second.id != first.id
    assert router.decide(PROMPT, allowed=["a"]).cached_tokens == 0
    # The old one is known, and allows nothing.
    assert code_of(router.route, PROMPT, allowed=[first]) == StatusCode.UNAVAILABLE


def test_unknown_instances_are_named(router):
    for call in (
        router.remove_instance,
        router.find_instance,
        lambda name: router.set_instance_state(name, InstanceState.DOWN),
        router.report_load,
        lambda name: router.route(PROMPT, allowed=[name]),
    ):
        with pytest.raises(KeyError, match='no instance "zebra" of rank 0'):
            call("zebra")
    with pytest.raises(KeyError, match='no instance "a" of rank 5'):
        router.find_instance("a", 5)


def test_an_instance_of_another_router_is_refused(router):
    other = PrefixRouter()
    stranger = other.add_instance("a")
    assert stranger.id == router.find_instance("a").id
    with pytest.raises(KeyError, match="of another router"):
        router.remove_instance(stranger)
    with pytest.raises(KeyError, match="of another router"):
        router.route(PROMPT, allowed=[stranger])


@pytest.mark.parametrize("wrong", [None, 1, b"a", ("a", 0), ["a"], object()])
def test_what_is_no_instance_is_refused_by_type(router, wrong):
    for call in (
        router.remove_instance,
        router.report_load,
        lambda value: router.set_instance_state(value, InstanceState.DOWN),
    ):
        with pytest.raises(TypeError, match="instance must be an Instance or the name of one"):
            call(wrong)
    with pytest.raises(TypeError, match=r"allowed\[1\] must be an Instance or the name of one"):
        router.route(PROMPT, allowed=["a", wrong])


def test_a_name_can_be_taken_once(router):
    assert code_of(router.add_instance, "a") == StatusCode.ALREADY_EXISTS
    router.add_instance("a", 1)
    assert len(router.instances) == 3


def test_the_number_of_instances_is_limited():
    router = PrefixRouter(max_instances=1)
    router.add_instance("a")
    assert code_of(router.add_instance, "b") == StatusCode.RESOURCE_EXHAUSTED


def test_many_instances_come_and_go():
    router = PrefixRouter()
    for generation in range(3):
        instances = [router.add_instance(f"{generation}-{i}") for i in range(300)]
        assert router.instances == instances
        assert [row.instance for row in router.score([1]).rows] == instances
        for instance in instances[::-1]:
            router.remove_instance(instance)
    assert router.instances == []


@pytest.mark.parametrize(
    "arguments, exception, message",
    [
        ({"name": ""}, ValueError, "name must not be empty"),
        ({"name": None}, TypeError, "name must be a str, got None"),
        ({"name": b"a"}, TypeError, "name must be a str, got b'a'"),
        ({"name": "x" * 70_000}, ValueError, "at most 65535 bytes, got 70000"),
        ({"name": "\ud800"}, ValueError, "surrogates"),
        ({"rank": -1}, ValueError, "rank must be at least 0, got -1"),
        ({"rank": 2**32}, ValueError, "rank must be at most 4294967295, got 4294967296"),
        ({"rank": 1.0}, TypeError, r"rank must be an int, got 1.0 \(float\)"),
        ({"capacity_blocks": 0}, ValueError, "capacity_blocks must be 1 to 2147483647, got 0"),
        ({"capacity_blocks": True}, TypeError, "capacity_blocks must be an int, got True"),
        ({"prefill_tokens_per_s": -5}, ValueError, "prefill_tokens_per_s must be 1 to 1e.09"),
        ({"prefill_tokens_per_s": "fast"}, TypeError, "prefill_tokens_per_s must be a number"),
        ({"weight": math.nan}, ValueError, "weight must be more than 0"),
        ({"weight": None}, TypeError, "weight must be a number, got None"),
    ],
)
def test_bad_options_of_an_instance_are_named(router, arguments, exception, message):
    with pytest.raises(exception, match=message):
        router.add_instance(**{"name": "c", **arguments})
    assert len(router.instances) == 2


def test_states_keep_requests_away(router, clock):
    router.set_instance_state("a", InstanceState.DRAINING)
    assert {router.route([i] * 16) for i in range(20)} == {"b"}
    assert router.decide(PROMPT).rule == "only_candidate"
    router.set_instance_state("b", InstanceState.DOWN, for_s=10)
    assert code_of(router.route, PROMPT) == StatusCode.UNAVAILABLE
    assert [i.state for i in router.stats().instances] == [
        InstanceState.DRAINING,
        InstanceState.DOWN,
    ]
    clock.advance(11)
    assert router.route(PROMPT) == "b"
    router.set_instance_state("a", InstanceState.READY)
    assert router.decide(PROMPT).candidates == 2


@pytest.mark.parametrize(
    "arguments, exception, message",
    [
        (("a", "ready"), TypeError, "state must be an InstanceState, got 'ready'"),
        (("a", 1), TypeError, "state must be an InstanceState, got 1"),
        (("a", None), TypeError, "state must be an InstanceState, got None"),
        (("a", InstanceState.DOWN, -1), ValueError, "for_s must be 0 or more, got -1"),
        (("a", InstanceState.DOWN, math.nan), ValueError, "for_s must be 0 or more, got nan"),
        (("a", InstanceState.DOWN, "1"), TypeError, "for_s must be a number, got '1'"),
    ],
)
def test_bad_states_are_named(router, arguments, exception, message):
    with pytest.raises(exception, match=message):
        router.set_instance_state(*arguments)
    assert router.stats().instances[0].state is InstanceState.READY


def test_a_report_moves_requests_away_and_fades(router, clock):
    router.report_load("a", running_requests=50, waiting_requests=20, kv_usage=0.99)
    assert {router.route([i] * 160) for i in range(3)} == {"b"}
    assert router.stats().instances[0].report_age_s == 0
    assert router.stats().instances[1].report_age_s is None
    clock.advance(60)
    assert router.decide([7] * 160, allowed=["a"]).stale_report
    assert {router.route([i] * 16) for i in range(20)} == {"a", "b"}


@pytest.mark.parametrize(
    "arguments, exception, message",
    [
        ({"kv_usage": 1.5}, ValueError, "kv_usage must be 0 to 1.* got 1.5"),
        ({"kv_usage": -0.5}, ValueError, "kv_usage must be 0 to 1, or None.* got -0.5"),
        ({"kv_usage": math.nan}, ValueError, "kv_usage must be 0 to 1.* got nan"),
        ({"kv_usage": "0.5"}, TypeError, "kv_usage must be a number, got '0.5'"),
        ({"running_requests": -1}, ValueError, "running_requests must be at least 0, got -1"),
        ({"running_requests": 1.5}, TypeError, "running_requests must be an int, got 1.5"),
        ({"waiting_requests": 2**63}, ValueError, "waiting_requests must be at most"),
        ({"age_s": -1}, ValueError, "age_s must be 0 or more, got -1"),
        ({"age_s": None}, TypeError, "age_s must be a number, got None"),
    ],
)
def test_bad_reports_are_named_and_change_nothing(router, arguments, exception, message):
    with pytest.raises(exception, match=message):
        router.report_load("a", **arguments)
    assert router.stats().instances[0].report_age_s is None


# ---- Requests ------------------------------------------------------------------------------------


def test_a_decision_says_why(router):
    router.route(PROMPT, allowed=["b"])
    decision = router.decide(PROMPT + [9] * 8)
    assert decision.name == "b" and decision.instance is router.find_instance("b")
    assert decision.rule == "lowest_cost"
    assert (decision.prompt_tokens, decision.cached_tokens) == (168, 160)
    assert decision.uncached_tokens == 8 and decision.best_cached_tokens == 160
    assert decision.runner_up.name == "a" and decision.runner_up_cost > decision.cost.total
    assert decision.candidates == 2 and not decision.stale_report
    parts = decision.cost
    total = parts.pending + parts.uncached + parts.requests + parts.pressure
    assert parts.total == pytest.approx(total)
    assert str(decision).startswith(
        "<Instance 'b' rank 0> by lowest_cost of 2: 160 of 168 tokens cached, first token "
    )
    assert repr(decision) == f"<Decision: {decision}>"
    assert router.decide([], allowed=["a"]).runner_up is None


def test_score_has_no_effect(router):
    router.route(PROMPT, allowed=["b"])
    before = repr(router.stats())
    table = router.score(PROMPT, allowed=["a"])
    assert repr(router.stats()) == before
    assert table.prompt_tokens == 160 and table.miss_weight >= 1
    a, b = table.rows
    assert (a.name, a.eligible, a.cached_tokens) == ("a", True, 0)
    assert (b.name, b.eligible, b.cached_tokens) == ("b", False, 160)
    assert b.cost.total == math.inf and a.cost.total < math.inf
    with pytest.raises(AttributeError):
        a.eligible = False


def test_key_spaces_never_share(router):
    router.route(PROMPT, model="m", adapter="x", salt="s", allowed=["a"])
    same = {"model": "m", "adapter": "x", "salt": "s"}
    assert router.score(PROMPT, **same).rows[0].cached_tokens == 160
    for other in ({}, {**same, "model": "n"}, {**same, "adapter": ""}, {**same, "salt": "t"}):
        assert router.score(PROMPT, **other).rows[0].cached_tokens == 0


def test_multimodal_content_is_part_of_the_prompt(router):
    router.route(PROMPT, multimodal=[(20, 1), (40, 2**64 - 1)], allowed=["a"])

    def cached(items):
        return router.score(PROMPT, multimodal=items).rows[0].cached_tokens

    assert cached([(20, 1), (40, 2**64 - 1)]) == 160
    assert cached(((20, 1), [40, 5])) == 32
    assert cached(iter([(20, 2)])) == 16
    assert cached(()) == 16


def test_sessions_stay_where_they_were(router):
    first = router.decide([1] * 160, session_key="s")
    for i in range(5):
        decision = router.decide([i] * 32, session_key="s")
        assert decision.instance is first.instance
    assert decision.rule == "session"
    assert router.stats().sessions == 1


def test_an_empty_mask_allows_nobody(router):
    assert code_of(router.route, PROMPT, allowed=[]) == StatusCode.UNAVAILABLE
    assert code_of(router.acquire, PROMPT, allowed=iter(())) == StatusCode.UNAVAILABLE
    assert [row.eligible for row in router.score(PROMPT, allowed=[]).rows] == [False, False]
    assert router.route(PROMPT, allowed=None) in ("a", "b")


def test_a_bound_on_the_first_token_refuses_and_changes_nothing(router):
    before = router.stats()
    assert code_of(router.route, [1] * 100_000, max_ttft_s=0.001) == StatusCode.RESOURCE_EXHAUSTED
    after = router.stats()
    assert after.rejected == before.rejected + 1
    assert after.requests == before.requests and after.index_blocks == before.index_blocks


def test_a_router_without_instances_says_so():
    with pytest.raises(Error, match="there is no instance") as caught:
        PrefixRouter().route([1])
    assert caught.value.code is StatusCode.UNAVAILABLE and caught.value.code == 14


@pytest.mark.parametrize(
    "keywords, exception, message",
    [
        ({"model": None}, TypeError, "model must be a str, got None"),
        ({"adapter": b"x"}, TypeError, "adapter must be a str, got b'x'"),
        ({"salt": 5}, TypeError, "salt must be a str, got 5"),
        ({"session_key": 5}, TypeError, "session_key must be a str, got 5"),
        ({"session_key": "\udc80"}, ValueError, "surrogates"),
        ({"allowed": "a"}, TypeError, "allowed must be a list of instances or names, or None"),
        ({"allowed": 5}, TypeError, "allowed must be a list of instances or names, or None"),
        ({"multimodal": 5}, TypeError, r"multimodal must be a list of \(offset, content_hash\)"),
        ({"multimodal": "ab"}, TypeError, "multimodal must be a list"),
        ({"multimodal": [5]}, TypeError, r"multimodal\[0\] must be \(offset, content_hash\), got 5"),
        ({"multimodal": [(1, 2), (1,)]}, ValueError, r"multimodal\[1\] must be .* got \(1,\)"),
        ({"multimodal": [(-1, 2)]}, ValueError, r"multimodal\[0\] offset must be at least 0"),
        ({"multimodal": [(1, 2**64)]}, ValueError, r"multimodal\[0\] content_hash must be at most"),
        ({"multimodal": [(1, 2.5)]}, TypeError, r"multimodal\[0\] content_hash must be an int"),
        ({"multimodal": [(160, 1)]}, ValueError, "multimodal offset 160 is past the end"),
        ({"multimodal": [(5, 1), (3, 1)]}, ValueError, "offsets must ascend, got 3 after 5"),
        ({"expected_output_tokens": -1}, ValueError, "expected_output_tokens must be at least 0"),
        ({"expected_output_tokens": 2**32}, ValueError, "expected_output_tokens must be at most"),
        ({"expected_output_tokens": None}, TypeError, "expected_output_tokens must be an int"),
        ({"priority": 2**31}, ValueError, "priority must be at most 2147483647, got 2147483648"),
        ({"priority": -(2**31) - 1}, ValueError, "priority must be at least -2147483648"),
        ({"max_ttft_s": -1}, ValueError, "max_ttft_s must be 0 or more, got -1"),
        ({"max_ttft_s": math.nan}, ValueError, "max_ttft_s must be 0 or more, got nan"),
        ({"max_ttft_s": "1"}, TypeError, "max_ttft_s must be a number, got '1'"),
        ({"modell": "m"}, TypeError, "got an unexpected keyword argument 'modell'"),
    ],
)
@pytest.mark.parametrize("method", ["route", "decide", "acquire", "score"])
def test_bad_arguments_are_named_and_change_nothing(router, method, keywords, exception, message):
    before = repr(router.stats())
    with pytest.raises(exception, match=message):
        getattr(router, method)(PROMPT, **keywords)
    assert repr(router.stats()) == before


@pytest.mark.parametrize("method", ["route", "decide", "acquire", "score"])
def test_the_prompt_is_the_one_positional_argument(router, method):
    call = getattr(router, method)
    call(PROMPT)
    call(tokens=PROMPT)
    call(**{"mod" + "el": "m", "tok" + "ens": PROMPT})  # names that are not interned
    with pytest.raises(TypeError, match=rf"{method}\(\) misses its argument tokens"):
        call()
    with pytest.raises(TypeError, match=rf"{method}\(\) takes one positional argument.* 2 were"):
        call(PROMPT, "m")
    with pytest.raises(TypeError, match=rf"{method}\(\) got tokens twice"):
        call(PROMPT, tokens=PROMPT)
    with pytest.raises(TypeError):
        getattr(PrefixRouter, method)(5, PROMPT)


# ---- Options -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "options, exception, message",
    [
        ({"block_size": 0}, ValueError, "block_size must be 1 to 32768, got 0"),
        ({"block_size": -1}, ValueError, "block_size must be at least 0, got -1"),
        ({"block_size": 16.0}, TypeError, r"block_size must be an int, got 16.0 \(float\)"),
        ({"block_size": None}, TypeError, "block_size must be an int, got None"),
        ({"key_seed": 2**64}, ValueError, "key_seed must be at most 18446744073709551615"),
        ({"routers": 0}, ValueError, "routers must be 1 to 1000000, got 0"),
        ({"routers": 10**6 + 1, "key_seed": 1}, ValueError, "routers must be 1 to 1000000, got"),
        ({"routers": 2}, ValueError, "routers is 2, so key_seed must be set"),
        ({"routers": 2.0, "key_seed": 1}, TypeError, "routers must be an int, got 2.0"),
        ({"random_seed": -1}, ValueError, "random_seed must be at least 0, got -1"),
        ({"calibrate": 1}, TypeError, r"calibrate must be True or False, got 1 \(int\)"),
        ({"lease_ttl_s": math.inf}, ValueError, "lease_ttl_s must be 0.001 to 1e.09, got inf"),
        ({"predicted_ttl_s": "1"}, TypeError, "predicted_ttl_s must be a number, got '1'"),
        ({"index_budget_bytes": 5}, ValueError, "index_budget_bytes must be at least 65536, got 5"),
        ({"policy": "best"}, ValueError, 'policy must be one of prefix_cost.* got "best"'),
        ({"policy": 5}, TypeError, "policy must be a name or a callable, got 5"),
        ({"policy": None}, TypeError, "policy must be a name or a callable, got None"),
        ({"policy_options": 5}, TypeError, r"policy_options must be a dict or None, got 5 \(int\)"),
        ({"policy_options": [("weight_kv", 1)]}, TypeError, "policy_options must be a dict"),
        ({"policy_options": {5: 1}}, TypeError, "a key of policy_options must be a str, got 5"),
        (
            {"policy_options": {"hash_load": 2}},
            ValueError,
            "the keys of policy_options are hash_load_factor, .*, block_credit; got 'hash_load'",
        ),
        ({"policy_options": {"weight_kv": "1"}}, TypeError, "weight_kv must be a number, got '1'"),
        ({"policy_options": {"weight_kv": None}}, TypeError, "weight_kv must be a number"),
        ({"policy_options": {"hash_ring_points": 5.0}}, TypeError, "must be an int, got 5.0"),
        (
            {"policy_options": {"hash_ring_points": 0}},
            ValueError,
            "hash_ring_points must be 1 to 4096, got 0",
        ),
        (
            {"policy_options": {"hash_max_requests": -1}},
            ValueError,
            "hash_max_requests must be at least 0, got -1",
        ),
        (
            {"policy_options": {"hash_load_factor": math.nan}, "policy": "random"},
            ValueError,
            "hash_load_factor must be 1 to 1e.06, got nan",
        ),
        (
            {"policy_options": {"weight_match": 0, "weight_queue": 0, "weight_kv": 0}},
            ValueError,
            "weight_match, weight_queue and weight_kv must not all be 0",
        ),
        ({"latency_interval_s": -1}, ValueError, "latency_interval_s must be 0 to inf, got -1"),
        ({"latency_interval_s": math.nan}, ValueError, "latency_interval_s must be 0 to inf, got"),
        ({"latency_interval_s": None}, TypeError, "latency_interval_s must be a number, got None"),
        ({"clock": 5}, TypeError, "clock must be a callable or None, got 5"),
        ({"block": 5}, TypeError, "unexpected keyword argument 'block'"),
    ],
)
def test_bad_options_of_a_router_are_named(options, exception, message):
    with pytest.raises(exception, match=message):
        PrefixRouter(**options)


def test_options_take_keywords_only():
    with pytest.raises(TypeError):
        PrefixRouter(16)


def test_options_make_the_same_router_again(clock):
    first = PrefixRouter(block_size=4, policy="random", clock=clock, lease_ttl_s=5)
    assert first.options["block_size"] == 4 and first.options["clock"] is clock
    second = PrefixRouter(**first.options)
    assert second.options == first.options
    for router in (first, second):
        for i in range(8):
            router.add_instance(str(i))
    assert [first.route([i] * 9) for i in range(50)] == [second.route([i] * 9) for i in range(50)]


def test_policy_options_change_what_their_policy_does():
    """A home that takes one request at a time passes the second on; one that takes 64 does not."""

    def names(**numbers):
        router = PrefixRouter(policy="prefix_hash", policy_options=numbers, key_seed=1)
        for name in "abc":
            router.add_instance(name)
        leases = [router.acquire(PROMPT) for _ in range(3)]
        return {lease.name for lease in leases}

    assert len(names()) == 1 and len(names(hash_max_requests=1)) == 3


def test_policy_options_are_given_back_complete_and_as_a_copy():
    numbers = {"weight_kv": 7, "hash_ring_points": 2}
    router = PrefixRouter(policy_options=numbers)
    numbers["weight_kv"] = 8
    known = router.options["policy_options"]
    assert known["weight_kv"] == 7.0 and known["hash_ring_points"] == 2
    assert PrefixRouter(policy_options=known).options["policy_options"] == known
    defaults = PrefixRouter().options["policy_options"]
    assert known == {**defaults, "weight_kv": 7, "hash_ring_points": 2}
    types = {key: type(value) for key, value in known.items()}
    assert types == prefixrouter.PolicyOptions.__annotations__
    known["weight_kv"] = 9
    assert router.options["policy_options"]["weight_kv"] == 7


def test_policy_options_may_change_while_they_are_read():
    class Clears:
        def __float__(self):
            numbers.clear()
            return 2.0

    numbers = {"weight_match": Clears(), "weight_queue": Clears(), "weight_kv": 4}
    options = PrefixRouter(policy_options=numbers).options["policy_options"]
    assert (options["weight_match"], options["weight_queue"], options["weight_kv"]) == (2, 2, 4)


@pytest.mark.parametrize("policy", prefixrouter.policy_names())
def test_every_named_policy_routes(policy):
    router = PrefixRouter(policy=policy)
    router.add_instance("a")
    router.add_instance("b")
    assert {router.route([i] * 50) for i in range(64)} == {"a", "b"}


def test_seeds_are_secret_by_default():
    assert PrefixRouter().options["key_seed"] != PrefixRouter().options["key_seed"]


# ---- Clock ---------------------------------------------------------------------------------------


def test_a_clock_that_raises_fails_the_call_before_it_does_anything(router, clock):
    before = repr(router.stats())
    lease = router.acquire(PROMPT)
    clock.nanos = "noon"
    for call in (
        lambda: router.route(PROMPT),
        lambda: router.acquire(PROMPT),
        lambda: router.add_instance("c"),
        lambda: router.remove_instance("a"),
        lambda: router.stats(),
        lambda: router.metrics(),
        lambda: router.report_engine_metrics("a", "vllm:num_requests_running 3\n"),
        lambda: lease.first_token(),
        lambda: lease.finish(),
        lambda: lease.cancel(),
    ):
        with pytest.raises(TypeError, match="what the clock returns must be an int, got 'noon'"):
            call()
    clock.nanos = 0
    assert lease.finish()
    assert repr(router.stats()) != before and len(router.instances) == 2


def test_a_clock_may_go_back_and_to_the_ends_of_its_range(router, clock):
    for nanos in (10**18, 5, -(10**18), 2**63 - 1, -(2**63)):
        clock.nanos = nanos
        router.route(PROMPT)
    clock.nanos = 2**63
    with pytest.raises(ValueError, match="what the clock returns must be at most"):
        router.route(PROMPT)


# ---- Closing -------------------------------------------------------------------------------------


def test_a_closed_router_refuses_everything(router):
    lease = router.acquire(PROMPT)
    instance = router.find_instance("a")
    router.close()
    router.close()
    assert router.closed and repr(router) == "<PrefixRouter of 2 instances, closed>"
    for call in (
        lambda: router.route(PROMPT),
        lambda: router.decide(PROMPT),
        lambda: router.acquire(PROMPT),
        lambda: router.score(PROMPT),
        lambda: router.add_instance("c"),
        lambda: router.remove_instance("a"),
        lambda: router.remove_instance(instance),
        lambda: router.find_instance("a"),
        lambda: router.set_instance_state("a", InstanceState.DOWN),
        lambda: router.report_load("a"),
        lambda: router.report_engine_metrics("a", "vllm:num_requests_running 3\n"),
        lambda: router.stats(),
        lambda: router.metrics(),
        lambda: router.options,
        lambda: router.instances,
        lambda: router.first_token(lease.id),
        lambda: router.finish(lease.id),
        lambda: router.cancel(lease.id),
    ):
        with pytest.raises(Error, match="the router is closed") as caught:
            call()
        assert caught.value.code is StatusCode.FAILED_PRECONDITION
    assert lease.name in ("a", "b") and lease.finish() is False


def test_a_router_is_closed_at_the_end_of_its_block():
    with PrefixRouter() as router:
        assert not router.closed
    assert router.closed
    with pytest.raises(ZeroDivisionError):
        with PrefixRouter() as router:
            raise ZeroDivisionError
    assert router.closed


def test_a_router_may_be_closed_while_it_reads_a_prompt(router):
    class Closes:
        def __index__(self):
            router.close()
            return 1

    assert router.route([Closes()] * 20) in ("a", "b")
    assert router.closed


def test_a_router_that_was_never_made_is_refused():
    class Forgetful(PrefixRouter):
        def __init__(self):
            pass

    with pytest.raises(TypeError):
        Forgetful()
    empty = PrefixRouter.__new__(PrefixRouter)
    for call in (empty.route, empty.score, empty.acquire, empty.decide):
        with pytest.raises(TypeError, match="has not been called"):
            call([1])
    for call in (empty.stats, empty.close, empty.__repr__, lambda: empty.options):
        with pytest.raises(TypeError, match="has not been called"):
            call()
    empty.__init__()
    empty.add_instance("a")
    empty.__init__(block_size=0)  # a second time: nothing happens
    assert empty.route([1]) == "a"


def test_results_can_be_made_by_the_router_only(router):
    lease = router.acquire(PROMPT)
    for result in (
        router.find_instance("a"),
        lease,
        lease.decision,
        lease.decision.cost,
        router.score(PROMPT),
        router.score(PROMPT).rows[0],
        router.stats(),
        router.stats().instances[0],
        router.stats().route_duration,
        prefixrouter.parse_engine_metrics("vllm:num_requests_running 3\n"),
        prefixrouter.parse_engine_metrics("vllm:num_requests_running 3\n").ranks[0],
    ):
        cls = type(result)
        for make in (cls, lambda: cls.__new__(cls), lambda: object.__new__(cls),
                     lambda: copy.copy(result), lambda: type("Sub", (cls,), {})):
            with pytest.raises(TypeError):
                make()


def test_a_subclass_works_like_the_class():
    class Mine(PrefixRouter):
        def __init__(self):
            super().__init__(block_size=8)
            self.mine = 1

        def route(self, tokens):
            return super().route(tokens, model="mine")

    router = Mine()
    router.add_instance("a")
    assert router.route([1] * 8) == "a" and router.mine == 1
    assert router.score([1] * 8, model="mine").rows[0].cached_tokens == 8


def test_cycles_through_policy_clock_and_leases_are_collected():
    class Holder:
        pass

    def make():
        holder = Holder()
        holder.router = PrefixRouter(
            policy=lambda fleet: [holder.router and 1.0] * len(fleet),
            clock=lambda: 0 if holder else 1,
        )
        holder.router.add_instance("a")
        holder.lease = holder.router.acquire(PROMPT)
        holder.router.acquire(PROMPT).finish()
        return weakref.ref(holder)

    reference = make()
    gc.collect()
    assert reference() is None


def test_calls_keep_no_references(router):
    """What is passed, and what comes back, is not kept, however the call ends."""
    tokens, wide = list(range(1000, 3000)), array.array("q", range(3000))
    model, name = "model-" + str(id(tokens)), "b" * 3
    instance = router.add_instance(name, 3)
    page = "vllm:num_requests_running 3\n" + "# padding\n" * 2000
    numbers, labels = {"weight_kv": 2.5}, {"model": model}
    everything = [tokens, tokens[5], wide, model, name, instance, router, page, numbers, labels]

    def use():
        for prompt in (tokens, wide, model):
            for call in (router.route, router.decide, router.score, router.acquire):
                call(prompt, model=model, allowed=[instance], session_key=name)
                for bad in (
                    {"allowed": [instance, 5]},
                    {"allowed": 5},
                    {"multimodal": [(0, 1), None]},
                    {"model": 5},
                    {"tokens": tokens},
                    {"nonsense": instance},
                ):
                    with pytest.raises((TypeError, Error)):
                        call(prompt, **bad)
        with pytest.raises(TypeError):
            router.route([*tokens, None])
        with pytest.raises(ValueError):
            router.route(array.array("q", [-1] * 3000))
        with router.acquire(tokens, allowed=[instance]) as lease:
            lease.first_token()
            repr(lease), str(lease.decision), lease.instance
        router.stats()
        router.find_instance(name, 3)
        router.set_instance_state(instance, InstanceState.READY)
        router.report_load(instance, running_requests=0)
        router.options
        PrefixRouter(policy_options=numbers)
        router.metrics()
        prefixrouter.render_metrics([(router.stats(), labels)])
        metrics = prefixrouter.parse_engine_metrics(page, model=model)
        assert router.report_engine_metrics("a", page) == 1
        assert router.report_engine_metrics("a", metrics) == 1
        for wrong in (lambda: PrefixRouter(policy_options={model: numbers}),
                      lambda: prefixrouter.parse_engine_metrics(page, max_bytes=5),
                      lambda: prefixrouter.render_metrics([(router.stats(), labels)] * 2)):
            with pytest.raises(ValueError):
                wrong()

    use()
    gc.collect()
    before = [sys.getrefcount(thing) for thing in everything]
    for _ in range(20):
        use()
    gc.collect()
    assert [sys.getrefcount(thing) for thing in everything] == before


# ---- Errors --------------------------------------------------------------------------------------


def test_errors_are_exceptions_that_survive_a_copy():
    with pytest.raises(Error) as caught:
        PrefixRouter().route([1])
    for again in (pickle.loads(pickle.dumps(caught.value)), copy.copy(caught.value)):
        assert type(again) is Error and str(again) == str(caught.value)
        assert again.code is StatusCode.UNAVAILABLE
    assert Error("made by hand").code is StatusCode.UNKNOWN
    assert issubclass(Error, Exception) and not issubclass(Error, ValueError)


@pytest.mark.skipif(
    "libasan" in os.environ.get("LD_PRELOAD", ""), reason="the sanitizer needs endless memory"
)
def test_running_out_of_memory_is_a_memory_error():
    """In a process of its own, with little room left."""
    program = """
import resource, prefixrouter
router = prefixrouter.PrefixRouter(max_prompt_tokens=2**24)
router.add_instance("a", capacity_blocks=2**31 - 1)
tokens = bytearray(64 * 2**20)
for _ in range(3):
    router.route(tokens[:2**20])
pages = int(open("/proc/self/statm").read().split()[0])
resource.setrlimit(resource.RLIMIT_AS, (pages * 4096 + 2**21,) * 2)
refused = 0
for i in range(8):
    tokens[0] = i
    try:
        router.route(tokens)
    except MemoryError:
        refused += 1
assert refused > 0, "nothing was refused"
assert router.route(b"") == "a"
print("refused", refused)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False
    )
    assert result.returncode == 0 and result.stdout.startswith("refused"), result.stderr
