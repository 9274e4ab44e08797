"""Metrics: the pages of engines as load, and the router's own page.

That the figures are those of the C++ library is tested in test_oracle.py.
"""

import math
import pathlib
import threading

import pytest

import prefixrouter
from prefixrouter import Error, KvEvent, KvEventBatch, PrefixRouter, StatusCode

PAGES = pathlib.Path(__file__).parent.parent / "metrics/pages"
VLLM = (PAGES / "vllm_two_ranks.txt").read_bytes()
TRITON = (PAGES / "triton.txt").read_bytes()
RULES = ("lowest_cost", "near_tie", "only_candidate", "session")


def reports(router):
    return [
        (i.report_age_s, i.reported_running_requests, i.reported_waiting_requests)
        + (i.reported_kv_usage,)
        for i in router.stats().instances
    ]


# ---- Pages of engines ----------------------------------------------------------------------------


def test_a_page_says_the_load_of_each_rank():
    metrics = prefixrouter.parse_engine_metrics(VLLM)
    assert repr(metrics).startswith("<EngineMetrics of vllm: 2 ranks, ")
    assert metrics.engine == "vllm" and [rank.rank for rank in metrics.ranks] == [0, 1]
    first, second = metrics.ranks
    assert (first.running_requests, first.waiting_requests, first.kv_usage) == (12, 3, 0.4375)
    assert (second.running_requests, second.waiting_requests, second.kv_usage) == (7, 0, 0.125)
    assert repr(first) == (
        "<EngineRankMetrics of rank 0: 12 running, 3 waiting, KV usage 0.4375>"
    )
    assert first.capacity_blocks(16) == first.capacity_tokens // 16 > 0
    assert first.capacity_blocks(0) == 0 and first.capacity_blocks(2**32 - 1) == 0
    with pytest.raises(AttributeError):
        first.rank = 1


def test_what_a_page_does_not_say_is_none():
    metrics = prefixrouter.parse_engine_metrics("vllm:num_requests_running 3\n")
    (rank,) = metrics.ranks
    assert (rank.rank, rank.running_requests, metrics.samples) == (0, 3, 1)
    for name in ("waiting_requests", "kv_usage", "block_size", "capacity_tokens"):
        assert getattr(rank, name) is None, name
    for name in ("prompt_tokens", "cached_tokens", "external_cached_tokens"):
        assert getattr(rank, name) is None and getattr(metrics, name) is None, name
    assert metrics.malformed_lines == metrics.unusable_values == 0
    assert metrics.first_malformed_line is metrics.first_malformed_reason is None
    assert rank.capacity_blocks(16) == 0
    assert repr(rank) == "<EngineRankMetrics of rank 0: 3 running, None waiting, KV usage None>"


def test_what_is_wrong_with_a_page_is_counted_and_described():
    page = "vllm:num_requests_running 3\nvllm:kv_cache_usage_perc 1.5\nü 1\n# x\n{ 5\n"
    metrics = prefixrouter.parse_engine_metrics(page)
    assert metrics.unusable_values == 1 and metrics.ranks[0].kv_usage is None
    assert (metrics.malformed_lines, metrics.first_malformed_line) == (2, 3)
    assert metrics.first_malformed_reason == "the line does not begin with a metric name"


def test_a_model_is_told_from_others():
    page = (
        'vllm:num_requests_running{model_name="a"} 3\n'
        'vllm:num_requests_running{model_name="ä"} 5\n'
    )
    parse = prefixrouter.parse_engine_metrics
    assert parse(page).ranks[0].running_requests == 8
    assert parse(page, model="a").ranks[0].running_requests == 3
    assert parse(page.encode(), model="ä").ranks[0].running_requests == 5
    with pytest.raises(Error, match='no load metric of .* for model "b" in 2 samples') as caught:
        parse(page, model="b")
    assert caught.value.code is StatusCode.NOT_FOUND


@pytest.mark.parametrize(
    "arguments, exception, message",
    [
        ({"page": None}, TypeError, "page must be a str or bytes, got None"),
        ({"page": 5}, TypeError, r"page must be a str or bytes, got 5 \(int\)"),
        ({"page": bytearray(b"x")}, TypeError, "page must be a str or bytes, got bytearray"),
        ({"page": "\udc80"}, ValueError, "surrogates"),
        ({"model": None}, TypeError, "model must be a str, got None"),
        ({"model": b"m"}, TypeError, "model must be a str, got b'm'"),
        ({"max_bytes": 10}, ValueError, f"the page has {len(VLLM)} bytes, max_bytes is 10"),
        ({"max_bytes": -1}, ValueError, "max_bytes must be at least 0, got -1"),
        ({"max_bytes": 1e9}, TypeError, "max_bytes must be an int, got 1000000000.0"),
        ({"max_line_bytes": -1}, ValueError, "max_line_bytes must be at least 0, got -1"),
        ({"max_line_bytes": 2**64}, ValueError, "max_line_bytes must be at most"),
        ({"max_ranks": 0}, ValueError, "max_ranks must be 1 to 65536, got 0"),
        ({"max_ranks": 1}, ValueError, "the page has 2 ranks, max_ranks is 1"),
        ({"max_ranks": 2**32}, ValueError, "max_ranks must be at most 4294967295"),
        ({"max_ranks": True}, TypeError, "max_ranks must be an int, got True"),
    ],
)
def test_bad_arguments_of_the_reader_are_named(arguments, exception, message):
    with pytest.raises(exception, match=message):
        prefixrouter.parse_engine_metrics(**{"page": VLLM, **arguments})


def test_bad_block_sizes_are_named():
    (rank, _) = prefixrouter.parse_engine_metrics(VLLM).ranks
    for wrong in (-1, 2**32, 1.5, None):
        exception = ValueError if isinstance(wrong, int) else TypeError
        with pytest.raises(exception, match=f"block_size must be .*{wrong}"):
            rank.capacity_blocks(wrong)


def test_a_page_is_reported_to_the_ranks_of_a_server(router, clock):
    router.add_instance("server", 1)
    router.add_instance("server", 0)
    metrics = prefixrouter.parse_engine_metrics(VLLM)
    none = (None, None, None, None)
    for page in (VLLM, VLLM.decode(), metrics):
        assert router.report_engine_metrics("server", page) == 2
        assert reports(router) == [none, none, (0, 7, 0, 0.125), (0, 12, 3, 0.4375)]
        clock.advance(1)
    assert router.report_engine_metrics("server", VLLM, age_s=2) == 2
    assert [report[0] for report in reports(router)] == [None, None, 2, 2]
    # Of two ranks one has an instance; a page of one rank goes to rank 0 whatever its number.
    assert router.report_engine_metrics("a", VLLM) == 1
    page = 'vllm:num_requests_running{engine="7"} 3\n'
    assert router.report_engine_metrics("b", page) == 1
    assert reports(router)[:2] == [(0, 12, 3, 0.4375), (0, 3, None, None)]


@pytest.mark.parametrize(
    "arguments, exception, message",
    [
        ({"name": "zebra"}, KeyError, 'no instance "zebra" of any of the page.*s 2 ranks'),
        ({"name": None}, TypeError, "name must be a str, got None"),
        ({"name": b"a"}, TypeError, "name must be a str, got b'a'"),
        ({"metrics": None}, TypeError, "metrics must be an EngineMetrics, a .* got None"),
        ({"metrics": bytearray()}, TypeError, "metrics must be an EngineMetrics, a str or bytes"),
        ({"metrics": ""}, Error, "no load metric of vLLM, .* in 0 samples"),
        ({"metrics": "up 1\n"}, Error, "no load metric of vLLM, .* in 1 samples"),
        ({"metrics": b"\xff\n"}, Error, "1 malformed lines, the first is 1"),
        ({"age_s": -1}, ValueError, "age_s must be 0 or more, got -1"),
        ({"age_s": math.nan}, ValueError, "age_s must be 0 or more, got nan"),
        ({"age_s": "1"}, TypeError, "age_s must be a number, got '1'"),
        ({"age_s": None}, TypeError, "age_s must be a number, got None"),
    ],
)
def test_bad_reports_of_pages_are_named_and_change_nothing(router, arguments, exception, message):
    router.report_load("a", running_requests=1)
    before = reports(router)
    with pytest.raises(exception, match=message):
        router.report_engine_metrics(**{"name": "a", "metrics": VLLM, **arguments})
    assert reports(router) == before


def test_pages_are_read_by_many_threads():
    router = PrefixRouter()
    for rank in range(2):
        router.add_instance("server", rank)
    page = VLLM + b"# padding\n" * 2000  # long enough that the GIL is left
    failures = []

    def work():
        try:
            for _ in range(100):
                assert prefixrouter.parse_engine_metrics(page).ranks[1].running_requests == 7
                assert router.report_engine_metrics("server", page) == 2
                assert "instance_reported_requests" in router.metrics()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not failures


# ---- The router's own ----------------------------------------------------------------------------


def busy_router():
    """A router on the system's clock that has a figure for everything."""
    router = PrefixRouter(latency_interval_s=0, routers=2, key_seed=1)
    router.add_instance("a")
    router.add_instance('odd "name" \\ of\ntwo lines ü', 3)
    prompt = list(range(1000))
    for i in range(20):
        with router.acquire(prompt, session_key=str(i % 3)) as lease:
            lease.finish(output_tokens=7, engine_cached_tokens=100)
    router.acquire(prompt).cancel()
    router.route([1])
    with pytest.raises(Error):
        router.route(prompt, allowed=[])
    with pytest.raises(Error):
        router.route([7] * 100_000, max_ttft_s=0.001)
    router.report_engine_metrics("a", TRITON)
    stored = KvEvent("stored", [1, 2], block_size=16, tokens=prompt[:32], tier="cpu")
    router.apply_kv_events("a", KvEventBatch([stored, KvEvent("removed", [3])]))
    return router


def read_page(page):
    """All samples by name and labels, as the client library of Prometheus reads them."""
    parser = pytest.importorskip("prometheus_client.parser")
    values = {}
    for family in parser.text_string_to_metric_families(page):
        assert family.documentation and family.samples, family.name
        for sample in family.samples:
            key = (sample.name.replace("prefix_router_", "", 1), frozenset(sample.labels.items()))
            assert key not in values, "a series comes twice"
            values[key] = sample.value
    return values


def test_the_page_has_the_figures_of_stats():
    router = busy_router()
    values = read_page(router.metrics())
    stats = router.stats()

    def value(name, **labels):
        return values[(name, frozenset(labels.items()))]

    assert stats.requests == 22 and stats.unavailable == stats.rejected == 1
    assert stats.requests_at_home > 0 and 0 < stats.home_share < 1
    for rule in RULES:
        assert value("decisions_total", rule=rule) == stats.decisions_by_rule[rule]
    assert value("refused_total", reason="no_instance") == stats.unavailable
    assert value("refused_total", reason="ttft_bound") == stats.rejected
    for name in ("prompt_tokens", "cached_tokens", "best_cached_tokens", "output_tokens",
                 "reported_requests", "reported_cached_tokens", "predicted_cached_tokens",
                 "over_predicted_tokens", "under_predicted_tokens", "stale_report_decisions",
                 "requests_at_home"):
        assert value(f"{name}_total") == getattr(stats, name), name
    assert value("leases_ended_total", outcome="finished") == stats.leases_finished == 20
    assert value("leases_ended_total", outcome="cancelled") == stats.leases_cancelled == 1
    for name in ("index_bytes", "index_budget_bytes", "index_runs", "index_blocks", "sessions"):
        assert value(name) == getattr(stats, name), name
    assert value("home_share_ratio") == stats.home_share
    assert value("leases") == stats.leases_active
    for instance in stats.instances:
        labels = {"instance_name": instance.name, "rank": str(instance.rank)}
        for rule in RULES:
            assert (
                value("instance_decisions_total", rule=rule, **labels)
                == instance.requests_by_rule[rule]
            )
        assert value("instance_held_blocks", **labels) == instance.blocks_held
        assert value("instance_state", state="ready", **labels) == 1
        for tier, blocks in instance.confirmed_blocks.items() if instance.event_driven else ():
            assert value("instance_confirmed_blocks", tier=tier, **labels) == blocks
    assert stats.instances[0].confirmed_blocks["cpu"] == 2
    assert value("kv_event_batches_total") == stats.kv_event_batches == 1
    assert stats.kv_events["stored"] == 2
    for outcome, count in stats.kv_events.items():
        assert value("kv_events_total", outcome=outcome) == count
    labels = {"instance_name": "a", "rank": "0"}
    assert 0 <= value("instance_kv_event_age_seconds", **labels) < 60
    reported = stats.instances[0]
    assert reported.reported_running_requests == 14 and reported.reported_waiting_requests == 2
    assert value("instance_reported_requests", phase="running", **labels) == 14
    assert value("instance_reported_requests", phase="waiting", **labels) == 2
    assert value("instance_reported_kv_usage_ratio", **labels) == reported.reported_kv_usage

    durations = stats.route_duration
    assert value("route_duration_seconds_count") == durations.count == sum(durations.counts) == 24
    assert value("route_duration_seconds_sum") == pytest.approx(durations.sum_s) != 0
    below = 0
    for count, bound in zip(durations.counts, durations.upper_bounds_s):
        below += count
        buckets = [
            v
            for (name, labels), v in values.items()
            if name == "route_duration_seconds_bucket" and float(dict(labels)["le"]) == bound
        ]
        assert buckets == [below], bound


def test_durations_are_counted_in_buckets_that_double(clock):
    router = PrefixRouter(latency_interval_s=0)
    router.add_instance("a")
    for _ in range(10):
        router.route([1] * 100)
    durations = router.stats().route_duration
    bounds = durations.upper_bounds_s
    assert len(durations.counts) == len(bounds) == 21 and bounds[-1] == math.inf
    assert bounds[0] == 250e-9
    assert all(b == pytest.approx(2 * a) for a, b in zip(bounds[:-2], bounds[1:-1]))
    assert durations.count == 10 and durations.sum_s > 0
    assert repr(durations).startswith("<DurationHistogram: 10 durations, 0.0")
    none = PrefixRouter(latency_interval_s=math.inf, clock=clock)
    none.add_instance("a")
    none.route([1])
    assert none.stats().route_duration.count == 0


def test_the_page_may_leave_the_instances_out():
    router = busy_router()
    values = read_page(router.metrics(per_instance=False))
    assert not [name for name, _ in values if name.startswith("instance_")]
    with pytest.raises(TypeError, match=r"per_instance must be True or False, got 1 \(int\)"):
        router.metrics(per_instance=1)
    with pytest.raises(TypeError):
        router.metrics(False)


def test_several_routers_share_a_page():
    routers = {"small": busy_router(), "lärge": PrefixRouter()}
    page = prefixrouter.render_metrics(
        ((router.stats(), {"model": model}) for model, router in routers.items())
    )
    values = read_page(page)
    for model, router in routers.items():
        key = ("prompt_tokens_total", frozenset({("model", model)}))
        assert values[key] == router.stats().prompt_tokens
    assert prefixrouter.render_metrics([]) == ""
    alone = prefixrouter.render_metrics([(routers["small"].stats(), {})], per_instance=False)
    assert read_page(alone).keys() == read_page(routers["small"].metrics(per_instance=False)).keys()
    assert prefixrouter.METRICS_CONTENT_TYPE == "text/plain; version=0.0.4; charset=utf-8"


def test_statistics_outlive_their_router():
    router = busy_router()
    stats = router.stats()
    instance, durations = stats.instances[1], stats.route_duration
    page = prefixrouter.render_metrics([(stats, {})])
    router.close()
    assert prefixrouter.render_metrics([(stats, {})]) == page
    del stats, router
    assert instance.rank == 3 and instance.name.startswith("odd") and durations.count == 24


@pytest.mark.parametrize(
    "sources, exception, message",
    [
        (None, TypeError, r"sources must be a list of \(stats, labels\), got None"),
        ("ab", TypeError, r"sources must be a list of \(stats, labels\), got 'ab'"),
        ([5], TypeError, r"sources\[0\] must be a tuple of a Stats and a dict of labels, got 5"),
        ([()], TypeError, r"sources\[0\] must be a tuple of a Stats and a dict .*, got \(\)"),
        ([("STATS", {}), (5, {})], TypeError, r"sources\[1\] stats must be a Stats, got 5"),
        ([("STATS", None)], TypeError, r"sources\[0\] labels must be a dict, got None"),
        ([("STATS", {5: "x"})], TypeError, r"sources\[0\] label must be a str, got 5"),
        ([("STATS", {"x": 5})], TypeError, r"sources\[0\] label x must be a str, got 5"),
        ([("STATS", {"x": "\udc80"})], ValueError, "surrogates"),
        ([("STATS", {"9x": "y"})], ValueError, "9x"),
        ([("STATS", {"rule": "y"})], ValueError, "rule"),
        ([("STATS", {}), ("STATS", {})], ValueError, "same labels"),
    ],
)
def test_bad_sources_are_named(router, sources, exception, message):
    if isinstance(sources, list):
        sources = [
            tuple(router.stats() if part == "STATS" else part for part in source)
            if isinstance(source, tuple)
            else source
            for source in sources
        ]
    with pytest.raises(exception, match=message):
        prefixrouter.render_metrics(sources)
