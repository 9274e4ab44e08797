"""Many threads on one router, and threads that are still routing when the process ends.

What the router answers under concurrency is tested in C++ (tests/stress). Here: that the Python
objects behind the answers are right and alive whatever other threads do meanwhile, and that the GIL
is handled well.
"""

import subprocess
import sys
import threading
import time

import numpy as np
import pytest

from prefixrouter import Error, InstanceState, PrefixRouter, StatusCode

LONG = 8192  # tokens, enough that the GIL is left


def run_threads(*bodies):
    """Runs all at once; an exception in one fails the test."""
    failures = []
    barrier = threading.Barrier(len(bodies))

    def run(body):
        try:
            barrier.wait()
            body()
        except BaseException as failure:
            failures.append(failure)

    threads = [threading.Thread(target=run, args=(body,)) for body in bodies]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
        assert not thread.is_alive(), "a thread hangs"
    if failures:
        raise failures[0]


@pytest.fixture(autouse=True)
def eager_switches():
    """Lets Python change threads a hundred times as often as it does by default."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(5e-5)
    yield
    sys.setswitchinterval(interval)


def test_all_calls_of_all_threads_count():
    router = PrefixRouter()
    for i in range(8):
        router.add_instance(str(i))
    finished = []

    def work(seed):
        def body():
            random = np.random.default_rng(seed)
            tokens = random.integers(0, 1000, LONG).astype(np.uint32)
            for i in range(200):
                tokens[0] = i % 10
                length = int(random.integers(0, LONG))
                with router.acquire(tokens[:length]) as lease:
                    assert lease.decision.prompt_tokens == length
                assert router.route(tokens.tolist()[:50]) in "01234567"
                finished.append(length)

        return body

    run_threads(*(work(seed) for seed in range(6)))
    stats = router.stats()
    assert stats.requests == 2 * 6 * 200 and stats.leases_finished == 6 * 200
    assert stats.leases_active == 0
    assert stats.prompt_tokens == sum(finished) + 6 * 200 * 50


def test_names_are_right_while_instances_come_and_go():
    """Each instance that is chosen is one that was there during the call, under its own name."""
    router = PrefixRouter(block_size=16)
    router.add_instance("always", 9)
    stop = threading.Event()
    wrong = []

    def churn():
        for generation in range(400):
            instances = [router.add_instance(f"g{generation}", rank) for rank in range(4)]
            for instance in instances:
                router.remove_instance(instance)
        stop.set()

    def route(seed):
        def body():
            tokens = np.full(LONG, seed, dtype=np.uint32)
            n = 0
            while not stop.is_set():
                tokens[0] = n = n + 1
                decision = router.decide(tokens)
                if decision.name == "always":
                    good = decision.rank == 9
                else:
                    good = decision.name[0] == "g" and decision.rank < 4
                table = router.score(tokens)
                good = good and all(row.name for row in table.rows)
                stats = router.stats()
                good = good and all(i.instance.name == i.name for i in stats.instances)
                if not good:
                    wrong.append(decision)

        return body

    run_threads(churn, route(1), route(2), route(3))
    assert not wrong
    assert [instance.name for instance in router.instances] == ["always"]


def test_a_router_is_closed_while_others_use_it():
    for _ in range(30):
        router = PrefixRouter()
        for i in range(4):
            router.add_instance(str(i))
        refused = []

        def work():
            tokens = np.arange(LONG, dtype=np.uint32)
            try:
                while True:
                    tokens[0] += 1
                    assert router.route(tokens) in "0123"
                    router.acquire(tokens).first_token()
                    router.set_instance_state("0", InstanceState.READY)
            except Error as error:
                assert error.code is StatusCode.FAILED_PRECONDITION
                refused.append(error)

        def close():
            time.sleep(0.002)
            router.close()

        run_threads(work, work, close)
        assert len(refused) == 2


def test_policies_and_clocks_are_called_by_many_threads():
    calls = []
    clock = iter(range(10**9))

    def policy(fleet):
        calls.append(fleet.sequence)
        return [float(n) for n in fleet.requests]

    router = PrefixRouter(policy=policy, clock=lambda: next(clock))
    for i in range(4):
        router.add_instance(str(i))

    def work():
        tokens = np.arange(LONG, dtype=np.uint32)
        for _ in range(100):
            router.acquire(tokens).finish()
            router.route([1, 2, 3])

    run_threads(work, work, work)
    assert len(calls) == 600 and router.stats().requests == 600


def test_other_threads_run_while_a_long_prompt_is_routed():
    """Four threads route prompts of a million tokens; meanwhile a fifth must get on."""
    router = PrefixRouter()
    router.add_instance("a")
    stop = threading.Event()
    pauses = []

    def route(seed):
        def body():
            tokens = np.random.default_rng(seed).integers(0, 1000, 2**20).astype(np.int64)
            for n in range(15):
                tokens[0] = n
                router.route(tokens)
            stop.set()

        return body

    def tick():
        last = time.perf_counter()
        while not stop.is_set():
            now = time.perf_counter()
            pauses.append(now - last)
            last = now

    run_threads(route(1), tick)
    # With the GIL held each call would stop the other thread for some milliseconds.
    assert len(pauses) > 1000


ROUTE_AT_THE_END = """
import threading, time, array, prefixrouter

router = prefixrouter.PrefixRouter({options})
router.add_instance("a")
tokens = array.array("I", range(20000))

def work():
    while True:
        router.route(tokens)
        with router.acquire(tokens):
            pass

for _ in range(4):
    threading.Thread(target=work, daemon=True).start()
time.sleep(0.05)
print("done")
"""


@pytest.mark.parametrize("repetition", range(5))
@pytest.mark.parametrize(
    "options", ["", "policy=lambda fleet: [1.0] * fleet.size", "clock=lambda: 5"]
)
def test_threads_that_still_route_at_the_end_of_the_process_do_no_harm(options, repetition):
    result = subprocess.run(
        [sys.executable, "-c", ROUTE_AT_THE_END.format(options=options)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (result.returncode, result.stdout, result.stderr) == (0, "done\n", "")
