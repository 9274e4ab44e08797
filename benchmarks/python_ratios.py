#!/usr/bin/env python3
"""Measures the figures of the Python package that benchmarks/bars.tsv lists.

Prints lines `name value`, and `# name text` with what is behind a figure. scripts/bench.sh runs it
with the package and libprefix_router_python_reference of build/release. The two sides of a figure
alternate within one run, and the figure is the median of all pairs.
"""

import argparse
import ctypes
import gc
import hashlib
import pathlib
import statistics
import subprocess
import sys
import threading
import time

import numpy as np

import prefixrouter

SEED = 1
TOKENS = 8192
INSTANCES = 64
FILL_BLOCKS = 1_000_000
PROMPTS = 64
UNLIMITED = 2**30  # blocks; nothing is evicted


def pairs(repetitions, a, b):
    """Values of a() and b() in turns, the order changing, without the first pair."""
    values = []
    for i in range(repetitions + 1):
        if i % 2 == 0:
            first, second = a(), b()
        else:
            second, first = b(), a()
        values.append((first, second))
    return values[1:]


def median_of(values, function=lambda pair: pair[0]):
    return statistics.median(function(pair) for pair in values)


def figure(name, value):
    print(f"{name} {value:.6g}", flush=True)
    print(f"  {name} = {value:.4g}", file=sys.stderr)


def detail(name, text):
    print(f"# {name} {text}", flush=True)


def make_prompt(random):
    return random.integers(0, 128_000, TOKENS).astype(np.uint32)


def make_prompts(random, count=PROMPTS):
    return [make_prompt(random) for _ in range(count)]


class Fleet:
    """A router with instances that hold a million blocks, in Python and, for comparison, in C++."""

    def __init__(self, capacity_blocks=UNLIMITED, reference=None):
        self.router = prefixrouter.PrefixRouter(key_seed=SEED, random_seed=SEED)
        self.instances = [
            self.router.add_instance(f"instance-{i}", capacity_blocks=capacity_blocks)
            for i in range(INSTANCES)
        ]
        self.library = reference
        if reference is not None:
            self.reference = ctypes.c_void_p(
                reference.reference_new(SEED, INSTANCES, capacity_blocks)
            )
        random = np.random.default_rng(SEED)
        fill = make_prompt(random)
        for n in range(FILL_BLOCKS * 16 // TOKENS):
            fill[0] = n
            self.route_to(n % INSTANCES, fill)

    def route_to(self, instance, tokens):
        decision = self.router.decide(tokens, allowed=[self.instances[instance]])
        if self.library is not None:
            cached = self.library.reference_route_to(
                self.reference, instance, tokens.ctypes.data_as(ctypes.c_void_p), len(tokens)
            )
            assert cached == decision.cached_tokens, (cached, decision)

    def require_known(self, prompts):
        """Guards against measuring something else."""
        for tokens in prompts:
            assert self.router.decide(tokens).cached_tokens == TOKENS


def load_reference(path):
    library = ctypes.CDLL(str(path))
    library.reference_new.restype = ctypes.c_void_p
    library.reference_new.argtypes = [ctypes.c_uint64, ctypes.c_uint32, ctypes.c_uint32]
    library.reference_delete.argtypes = [ctypes.c_void_p]
    library.reference_route_to.restype = ctypes.c_int64
    library.reference_route_to.argtypes = [
        ctypes.c_void_p,
        ctypes.c_uint32,
        ctypes.c_void_p,
        ctypes.c_uint64,
    ]
    library.reference_route_nanos.restype = ctypes.c_double
    library.reference_route_nanos.argtypes = [
        ctypes.c_void_p,
        ctypes.c_void_p,
        ctypes.c_uint64,
        ctypes.c_uint64,
    ]
    return library


def nanos_per_call(call, prompts):
    begin = time.perf_counter_ns()
    for tokens in prompts:
        call(tokens)
    return (time.perf_counter_ns() - begin) / len(prompts)


def measure_overhead(library, repetitions):
    """route(numpy uint32, 8,192 known tokens) in Python, minus the C++ call on the same array."""
    fleet = Fleet(reference=library)
    prompts = make_prompts(np.random.default_rng(SEED + 1))
    for i, tokens in enumerate(prompts):
        fleet.route_to(i % INSTANCES, tokens)
    fleet.require_known(prompts)
    addresses = (ctypes.c_void_p * PROMPTS)(*[tokens.ctypes.data for tokens in prompts])
    route = fleet.router.route
    values = pairs(
        repetitions * 10,
        lambda: nanos_per_call(route, prompts),
        lambda: library.reference_route_nanos(fleet.reference, addresses, PROMPTS, TOKENS),
    )
    assert min(cpp for _, cpp in values) > 0
    fleet.require_known(prompts)
    figure("python_numpy_overhead_ns", median_of(values, lambda pair: pair[0] - pair[1]))
    python, cpp = median_of(values), median_of(values, lambda pair: pair[1])
    detail("python_numpy_overhead_ns", f"Python {python:.0f} ns, C++ {cpp:.0f} ns")

    router = fleet.router
    for what, call in (
        ("decide", router.decide),
        ("acquire", lambda tokens: router.acquire(tokens).finish()),
        ("route with two keywords", lambda tokens: route(tokens, model="m", session_key="s")),
    ):
        nanos = statistics.median(nanos_per_call(call, prompts) for _ in range(repetitions))
        detail("python_numpy_overhead_ns", f"{what}: {nanos:.0f} ns")
    short = [tokens[:256] for tokens in prompts]
    nanos = statistics.median(nanos_per_call(route, short) for _ in range(repetitions))
    detail("python_numpy_overhead_ns", f"256 tokens: {nanos:.0f} ns")
    wide = [tokens.astype(np.int64) for tokens in prompts]
    nanos = statistics.median(nanos_per_call(route, wide) for _ in range(repetitions))
    detail("python_numpy_overhead_ns", f"numpy int64: {nanos:.0f} ns")
    library.reference_delete(fleet.reference)


def measure_list(repetitions):
    """route(list of 8,192 ints) over numpy.asarray(list, dtype=uint32) alone."""
    fleet = Fleet()
    prompts = [tokens.tolist() for tokens in make_prompts(np.random.default_rng(SEED + 1), 16)]
    for i, tokens in enumerate(prompts):
        fleet.route_to(i, tokens)
    fleet.require_known(prompts)
    values = pairs(
        repetitions * 10,
        lambda: nanos_per_call(fleet.router.route, prompts),
        lambda: nanos_per_call(lambda tokens: np.asarray(tokens, dtype=np.uint32), prompts),
    )
    figure("python_list_vs_asarray", median_of(values, lambda pair: pair[0] / pair[1]))
    route, asarray = median_of(values), median_of(values, lambda pair: pair[1])
    detail("python_list_vs_asarray", f"route {route / 1e3:.1f} us, asarray {asarray / 1e3:.1f} us")


def throughput(threads, calls, run):
    """Calls a second of so many threads together, each in run(thread, calls)."""
    barrier = threading.Barrier(threads)
    times = [None] * threads

    def work(thread):
        barrier.wait()
        begin = time.perf_counter()
        run(thread, calls)
        times[thread] = (begin, time.perf_counter())

    workers = [threading.Thread(target=work, args=(thread,)) for thread in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    duration = max(end for _, end in times) - min(begin for begin, _ in times)
    return threads * calls / duration


def measure_threads(library, repetitions):
    """Throughput of two threads that route prompts of 8,192 tokens, over that of one."""
    random = np.random.default_rng(SEED + 2)

    def measure(what, run, calls):
        values = pairs(
            repetitions, lambda: throughput(2, calls, run), lambda: throughput(1, calls, run)
        )
        ratio = median_of(values, lambda pair: pair[0] / pair[1])
        two, one = median_of(values), median_of(values, lambda pair: pair[1])
        detail("python_threads_2_vs_1", f"{what}: {two:.0f} / {one:.0f} calls/s = {ratio:.3f}")
        return ratio

    # Known prompts: each thread has 64 of its own.
    fleets = [Fleet(reference=library), Fleet()]
    fleet = fleets[0]
    prompts = [make_prompts(random) for _ in range(2)]
    for own in prompts:
        for each in fleets:
            for i, tokens in enumerate(own):
                each.route_to(i, tokens)
            each.require_known(own)

    def known(own, *routes):
        def run(thread, calls):
            route = routes[thread % len(routes)]
            rounds = calls // PROMPTS
            for _ in range(rounds):
                for tokens in own[thread]:
                    route(tokens)

        return run

    ratio = measure("known prompts", known(prompts, fleet.router.route), 64 * PROMPTS)
    # Without the router's lock between them, and without the GIL.
    apart = known(prompts, *(each.router.route for each in fleets))
    measure("known prompts, a router for each thread", apart, 64 * PROMPTS)
    addresses = [(ctypes.c_void_p * PROMPTS)(*[t.ctypes.data for t in own]) for own in prompts]

    def in_cpp(thread, calls):
        for _ in range(calls // PROMPTS):
            library.reference_route_nanos(fleet.reference, addresses[thread], PROMPTS, TOKENS)

    measure("known prompts, calls of C++", in_cpp, 64 * PROMPTS)
    wide = [[tokens.astype(np.int64) for tokens in own] for own in prompts]
    measure("known prompts, numpy int64", known(wide, fleet.router.route), 32 * PROMPTS)
    lists = [[tokens.tolist() for tokens in own] for own in prompts]
    measure("known prompts, lists", known(lists, fleet.router.route), 16 * PROMPTS)

    library.reference_delete(fleet.reference)

    # New prompts: full instances, so that each evicts as many blocks as it brings.
    fleet = Fleet(capacity_blocks=FILL_BLOCKS // INSTANCES)
    views = [[memoryview(tokens) for tokens in own] for own in prompts]
    numbers = [1_000_000_000, 2_000_000_000]

    def new(thread, calls):
        route, own = fleet.router.route, list(zip(prompts[thread], views[thread]))
        number = numbers[thread]
        numbers[thread] += calls
        for _ in range(calls // PROMPTS):
            for tokens, view in own:
                number += 1
                view[0] = number
                route(tokens)

    measure("new prompts", new, 32 * PROMPTS)

    # Two cores of a busy machine do less than twice the work of one.
    memory = bytes(2**20)

    def hash_alone(thread, calls):
        for _ in range(calls):
            hashlib.sha256(memory).digest()  # leaves the GIL

    measure("threads that hash a megabyte and share nothing", hash_alone, 32)
    figure("python_threads_2_vs_1", ratio)


def measure_import(repetitions):
    """Time of `import prefixrouter` in a new interpreter."""
    program = (
        "import sys, time\n"
        "begin = time.perf_counter()\n"
        "import prefixrouter\n"
        "print(1e3 * (time.perf_counter() - begin))\n"
        "assert 'numpy' not in sys.modules\n"
    )
    times = []
    for _ in range(repetitions + 1):
        result = subprocess.run(
            [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, check=True
        )
        times.append(float(result.stdout))
    figure("import_ms", statistics.median(times[1:]))
    detail("import_ms", f"without numpy; largest of {repetitions}: {max(times[1:]):.1f} ms")


def main(argv):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--reference",
        type=pathlib.Path,
        required=True,
        help="the library libprefix_router_python_reference",
    )
    parser.add_argument("--repetitions", type=int, default=11)
    measurements = {
        "overhead": lambda: measure_overhead(library, arguments.repetitions),
        "list": lambda: measure_list(arguments.repetitions),
        "threads": lambda: measure_threads(library, arguments.repetitions),
        "import": lambda: measure_import(arguments.repetitions),
    }
    parser.add_argument(
        "--only", nargs="+", choices=sorted(measurements), default=list(measurements)
    )
    arguments = parser.parse_args(argv)
    library = load_reference(arguments.reference)
    gc.disable()
    for name in arguments.only:
        print(f"measuring {name}", file=sys.stderr)
        measurements[name]()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
