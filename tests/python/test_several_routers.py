"""Several routers in front of one fleet: they agree on a prompt's home, and say so."""

import pytest

from prefixrouter import PrefixRouter

PROMPT = list(range(1, 1001))


def one_of(routers, **options):
    router = PrefixRouter(**{"routers": routers, "key_seed": 1, "clock": lambda: 0, **options})
    for name in "abcd":
        router.add_instance(name)
    return router


def test_routers_of_one_key_seed_place_a_prompt_at_the_same_home():
    routers, homes = (one_of(4), one_of(4)), set()
    for i in range(20):
        prompt, names = [i, *PROMPT], set()
        for router in routers:
            with router.acquire(prompt) as lease:  # ended at once: no load speaks against home
                names.add(lease.name)
                assert lease.decision.home_tokens > len(prompt)
                assert lease.decision.cost.uncached <= 0
        assert len(names) == 1
        homes |= names
    assert homes == set("abcd")


def test_a_score_table_says_where_home_is():
    router = one_of(4)
    (row,) = [row for row in router.score(PROMPT).rows if row.home_tokens > 0]
    assert row.cost.uncached <= 0
    decision = router.decide(PROMPT)
    assert (decision.instance, decision.home_tokens) == (row.instance, row.home_tokens)


@pytest.mark.parametrize("cached, learned", [(len(PROMPT), 1), (0, 0)])
def test_engines_tell_how_much_of_what_was_expected_at_home_is_there(cached, learned):
    router = one_of(4)
    stats = router.stats()
    assert (stats.requests_at_home, stats.home_share) == (0, 0.5)  # nothing is known yet
    for i in range(100):
        router.acquire([i, *PROMPT]).finish(engine_cached_tokens=cached)
    stats = router.stats()
    assert stats.home_share == pytest.approx(learned, abs=0.05)
    assert 50 < stats.requests_at_home <= 100


def test_one_router_has_no_homes():
    router = one_of(1)
    decision = router.acquire(PROMPT).decision
    assert decision.home_tokens == 0 and decision.cost.uncached > 0
    assert all(row.home_tokens == 0 for row in router.score(PROMPT).rows)
    stats = router.stats()
    assert (stats.requests_at_home, stats.home_share) == (0, 0)
    assert router.options["routers"] == 1


def test_options_of_one_of_several_make_the_next():
    router = one_of(4)
    assert router.options["routers"] == 4
    assert PrefixRouter(**router.options).options == router.options
