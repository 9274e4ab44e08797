"""Leases: what a routed request holds until it is finished."""

import asyncio
import gc

import pytest

from prefixrouter import Error, PrefixRouter, StatusCode

PROMPT = list(range(1, 161))


def in_flight(router):
    return sum(instance.requests_in_flight for instance in router.stats().instances)


def test_a_lease_counts_until_it_is_finished(router):
    lease = router.acquire(PROMPT, expected_output_tokens=40)
    assert (lease.name, lease.rank) == (lease.decision.name, 0)
    assert lease.instance is lease.decision.instance and lease.active
    (stats,) = [i for i in router.stats().instances if i.name == lease.name]
    assert (stats.requests_in_flight, stats.requests_waiting) == (1, 1)
    assert (stats.pending_tokens, stats.kv_tokens) == (160, 200)
    assert lease.first_token() is True
    assert lease.first_token() is False
    (stats,) = [i for i in router.stats().instances if i.name == lease.name]
    assert (stats.requests_in_flight, stats.requests_waiting, stats.pending_tokens) == (1, 0, 0)
    assert lease.finish(output_tokens=55, engine_cached_tokens=16) is True
    assert not lease.active and in_flight(router) == 0
    stats = router.stats()
    assert (stats.leases_finished, stats.output_tokens) == (1, 55)
    assert (stats.reported_requests, stats.reported_cached_tokens) == (1, 16)
    assert stats.under_predicted_tokens == 16


def test_a_block_finishes_or_cancels_its_lease(router):
    with router.acquire(PROMPT) as lease:
        assert in_flight(router) == 1
    assert not lease.active and router.stats().leases_finished == 1
    with pytest.raises(ZeroDivisionError):
        with router.acquire(PROMPT) as lease:
            raise ZeroDivisionError
    assert not lease.active and router.stats().leases_cancelled == 1
    with router.acquire(PROMPT) as lease:
        lease.finish(output_tokens=7)
    assert router.stats().leases_finished == 2 and router.stats().output_tokens == 7
    with router.acquire(PROMPT) as lease:
        lease.cancel()
    assert router.stats().leases_cancelled == 2


def test_an_async_block_finishes_or_cancels_its_lease(router):
    async def send(fail):
        async with router.acquire(PROMPT) as lease:
            lease.first_token()
            await asyncio.sleep(0)
            if fail:
                raise ZeroDivisionError
            return lease

    assert not asyncio.run(send(False)).active
    with pytest.raises(ZeroDivisionError):
        asyncio.run(send(True))
    stats = router.stats()
    assert (stats.leases_finished, stats.leases_cancelled, stats.leases_active) == (1, 1, 0)


def test_an_async_task_that_is_cancelled_cancels_its_lease(router):
    async def send():
        async with router.acquire(PROMPT):
            await asyncio.sleep(100)

    async def run():
        task = asyncio.create_task(send())
        await asyncio.sleep(0)
        assert in_flight(router) == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(run())
    assert router.stats().leases_cancelled == 1 and in_flight(router) == 0


def test_a_lease_that_has_ended_refuses_by_name(router):
    lease = router.acquire(PROMPT)
    assert lease.finish()
    before = repr(router.stats())
    for call in (lease.finish, lease.first_token, lease.release):
        with pytest.raises(Error, match=f"lease {lease.id} has been finished") as caught:
            call()
        assert caught.value.code is StatusCode.FAILED_PRECONDITION
    assert lease.cancel() is False
    assert repr(router.stats()) == before
    assert repr(lease).startswith(f"<Lease {lease.id}, ended: <Instance")


def test_a_dropped_lease_is_cancelled(router):
    router.acquire(PROMPT)
    gc.collect()
    assert in_flight(router) == 0 and router.stats().leases_cancelled == 1


def test_what_comes_late_is_harmless(router, clock):
    expired = router.acquire(PROMPT)
    clock.advance(601)
    assert router.stats().leases_expired == 1
    assert expired.active and expired.first_token() is False and expired.finish() is False
    orphan = router.acquire(PROMPT, allowed=["a"])
    router.remove_instance("a")
    router.add_instance("a")
    assert orphan.first_token() is False and orphan.finish(engine_cached_tokens=100) is False
    assert in_flight(router) == 0 and router.stats().reported_requests == 0


def test_a_lease_outlives_its_router_object():
    router = PrefixRouter()
    router.add_instance("a")
    lease = router.acquire(PROMPT)
    del router
    gc.collect()
    assert lease.name == "a" and lease.finish()


def test_a_lease_can_be_kept_by_number(router):
    lease = router.acquire(PROMPT)
    number = lease.release()
    assert number == lease.id and not lease.active
    del lease
    assert in_flight(router) == 1
    assert router.first_token(number) is True and router.first_token(number) is False
    assert router.finish(number, output_tokens=3, engine_cached_tokens=0) is True
    assert router.finish(number) is False and router.cancel(number) is False
    assert router.cancel(router.acquire(PROMPT).release()) is True
    stats = router.stats()
    assert (stats.leases_finished, stats.leases_cancelled, stats.output_tokens) == (1, 1, 3)
    assert router.finish(12345) is False


@pytest.mark.parametrize(
    "arguments, exception, message",
    [
        ({"output_tokens": -1}, ValueError, "output_tokens must be at least 0, got -1"),
        ({"output_tokens": 2**63}, ValueError, "output_tokens must be at most"),
        ({"output_tokens": 1.5}, TypeError, r"output_tokens must be an int, got 1.5 \(float\)"),
        ({"engine_cached_tokens": -5}, ValueError, "engine_cached_tokens must be at least 0"),
        ({"engine_cached_tokens": "5"}, TypeError, "engine_cached_tokens must be an int"),
        ({"tokens": 5}, TypeError, "tokens"),
    ],
)
def test_bad_figures_are_named_and_leave_the_lease_active(router, arguments, exception, message):
    lease = router.acquire(PROMPT)
    with pytest.raises(exception, match=message):
        lease.finish(**arguments)
    with pytest.raises(exception, match=message):
        router.finish(lease.id, **arguments)
    with pytest.raises(TypeError):
        lease.finish(5)
    assert lease.active and in_flight(router) == 1
    assert lease.finish()


@pytest.mark.parametrize("wrong, exception", [(None, TypeError), (1.0, TypeError), ("1", TypeError),
                                              (-1, ValueError), (2**64, ValueError)])
def test_what_is_no_lease_number_is_refused(router, wrong, exception):
    for call in (router.first_token, router.finish, router.cancel):
        with pytest.raises(exception, match="lease must be"):
            call(wrong)

