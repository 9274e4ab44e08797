"""The Python package answers as the C++ library does.

Random sequences of operations are performed twice: by the package, and by the program
prefix_router_python_oracle, which calls the C++ interface (oracle.cc). Each answer must be the
same to the last bit, errors by their code.
"""

import math
import pathlib
import subprocess

import hypothesis
import numpy as np
import pytest
from hypothesis import strategies as st

import prefixrouter
from prefixrouter import Error, InstanceState, PrefixRouter

NAMES = ["a", "b", "server:8000", "näme"]
PAGES = [
    path.read_bytes()
    for path in sorted((pathlib.Path(__file__).parent.parent / "metrics/pages").iterdir())
]


class Oracle:
    """The program. One process for all examples; `new` makes a new router."""

    def __init__(self, path):
        self.process = subprocess.Popen(
            [str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __call__(self, verb, **arguments):
        line = " ".join([verb, *(f"{name}={encode(value)}" for name, value in arguments.items())])
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().rstrip("\n")

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        assert self.process.wait() == 0


@pytest.fixture(scope="module")
def oracle(oracle_program):
    program = Oracle(oracle_program)
    yield program
    program.close()


class Text(str):
    """A string that the oracle gets as the digits of its bytes."""


def encode(value):
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Text):
        return value.encode().hex()
    if isinstance(value, (list, tuple)):
        return ",".join(str(item) for item in value)
    if isinstance(value, float):
        return format(value, ".17g")
    return str(value)


def show(value):
    if value is None:
        return "None"
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return format(value, ".17g")
    if isinstance(value, InstanceState):
        return str(value.value)
    if isinstance(value, prefixrouter.Instance):
        return f"{value.name.encode().hex()}/{value.rank}"
    if isinstance(value, prefixrouter.CostParts):
        parts = (value.pending, value.uncached, value.requests, value.pressure, value.total)
        return " ".join(map(show, parts))
    return str(value)


def fields(value, names):
    return " ".join(show(getattr(value, name)) for name in names.split())


def show_decision(decision):
    return fields(
        decision,
        "instance rule prompt_tokens cached_tokens uncached_tokens best_cached_tokens"
        " predicted_ttft_s cost miss_weight runner_up runner_up_cost candidates stale_report"
        " home_tokens",
    )


def show_table(table):
    rows = [
        fields(
            row,
            "instance eligible stale_report cached_tokens predicted_ttft_s cost"
            " requests_in_flight pending_tokens home_tokens",
        )
        for row in table.rows
    ]
    return " | ".join([fields(table, "prompt_tokens miss_weight"), *rows])


def show_stats(stats):
    rules = ("lowest_cost", "near_tie", "only_candidate", "session")
    assert set(stats.decisions_by_rule) == set(rules)
    head = [
        fields(
            stats,
            "requests rejected unavailable prompt_tokens cached_tokens best_cached_tokens"
            " stale_report_decisions",
        ),
        " ".join(str(stats.decisions_by_rule[rule]) for rule in rules),
        fields(
            stats,
            "leases_finished leases_cancelled leases_expired output_tokens reported_requests"
            " reported_cached_tokens predicted_cached_tokens over_predicted_tokens"
            " under_predicted_tokens requests_at_home index_bytes index_budget_bytes index_runs"
            " index_blocks blocks_held blocks_evicted blocks_evicted_by_budget blocks_not_remembered"
            " leases_active sessions",
        ),
        " ".join(
            map(show, [*stats.route_duration.counts, stats.route_duration.sum_s, stats.home_share])
        ),
    ]
    instances = [
        fields(
            instance,
            "instance state requests_in_flight requests_waiting pending_tokens kv_tokens"
            " fluid_tokens blocks_held capacity_blocks capacity_scale prefill_tokens_per_s"
            " prefill_rate_learned report_age_s reported_running_requests"
            " reported_waiting_requests reported_kv_usage requests prompt_tokens cached_tokens",
        )
        + "".join(f" {instance.requests_by_rule[rule]}" for rule in rules)
        for instance in stats.instances
    ]
    return " | ".join([" ".join(head), *instances])


def show_engine(metrics):
    reason = metrics.first_malformed_reason
    ranks = [
        fields(
            rank,
            "rank running_requests waiting_requests kv_usage block_size capacity_tokens"
            " prompt_tokens cached_tokens external_cached_tokens",
        )
        + f" {rank.capacity_blocks(16)}"
        for rank in metrics.ranks
    ]
    head = fields(
        metrics,
        "engine prompt_tokens cached_tokens external_cached_tokens samples unusable_values"
        " malformed_lines first_malformed_line",
    )
    return " | ".join([f"{head} {reason and reason.encode().hex()}", *ranks])


def answer(call):
    """What a call answers, or the code of its error, as the oracle writes it."""
    try:
        return call()
    except ValueError:
        return "error INVALID_ARGUMENT"
    except KeyError:
        return "error NOT_FOUND"
    except Error as error:
        return f"error {error.code.name}"


def oracle_policy(fleet):
    """OraclePolicy of oracle.cc, in the same order of operations."""
    pending, cached = np.asarray(fleet.pending_tokens), np.asarray(fleet.cached_tokens)
    seconds, requests = np.asarray(fleet.seconds_per_token), np.asarray(fleet.requests)
    usage = np.asarray(fleet.kv_usage) if fleet.any_report else np.float32(1)
    waiting, overhead = np.asarray(fleet.waiting), np.float32(fleet.overhead_tokens)
    prompt = np.float32(fleet.prompt_tokens)
    costs = (pending + (prompt - cached)) * seconds + requests + waiting + overhead + usage
    if fleet.home is not None:
        costs[fleet.home] -= np.float32(fleet.home_tokens) * seconds[fleet.home]
    return costs


# ---- Random operations ---------------------------------------------------------------------------

name = st.sampled_from(NAMES)
rank = st.integers(0, 1)
seconds = st.floats(0, 1000, allow_nan=False)


@st.composite
def prompts(draw):
    """Prompts that often share their beginning with others. Tokens or text."""
    pieces = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 60)), max_size=4))
    if draw(st.booleans()):
        return [piece for piece, count in pieces for _ in range(count)]
    return "".join("αbcd"[piece] * count for piece, count in pieces)


@st.composite
def requests(draw):
    keywords = {}
    optional = {
        "model": st.sampled_from(["", "m"]),
        "adapter": st.sampled_from(["x"]),
        "salt": st.sampled_from(["s", "\0"]),
        "session_key": st.sampled_from(["s1", "s2"]),
        "expected_output_tokens": st.integers(0, 1000),
        "priority": st.integers(-(2**31), 2**31 - 1),
        "max_ttft_s": st.sampled_from([0.0, 0.001, 0.01, -1.0]),
        "multimodal": st.lists(st.tuples(st.integers(0, 80), st.integers(0, 2**64 - 1)), max_size=3),
        "allowed": st.lists(st.tuples(name, rank), max_size=3),
    }
    for keyword in draw(st.sets(st.sampled_from(sorted(optional)), max_size=3)):
        keywords[keyword] = draw(optional[keyword])
    return draw(prompts()), keywords


operations = st.lists(
    st.one_of(
        st.tuples(
            st.just("add"),
            name,
            rank,
            st.fixed_dictionaries(
                {
                    "capacity_blocks": st.sampled_from([0, 1, 4, 20, 65536]),
                    "prefill_tokens_per_s": st.sampled_from([0.0, 500.0, 20000.0]),
                    "weight": st.sampled_from([1.0, 0.5, 0.0]),
                }
            ),
        ),
        st.tuples(st.just("remove"), name, rank),
        st.tuples(st.just("state"), name, rank, st.sampled_from(list(InstanceState)), seconds),
        st.tuples(
            st.just("report"),
            name,
            rank,
            st.fixed_dictionaries(
                {},
                optional={
                    "running_requests": st.integers(0, 50),
                    "waiting_requests": st.integers(0, 50),
                    "kv_usage": st.floats(0, 1.1),
                    "age_s": st.floats(0, 10),
                },
            ),
        ),
        st.tuples(st.just("clock"), st.integers(0, 10**10)),
        st.tuples(st.sampled_from(["route", "route", "acquire", "acquire", "score"]), requests()),
        st.tuples(st.just("first"), st.integers(0, 5)),
        st.tuples(
            st.just("finish"),
            st.integers(0, 5),
            st.one_of(st.none(), st.integers(0, 500)),
            st.one_of(st.none(), st.integers(0, 500)),
        ),
        st.tuples(st.just("cancel"), st.integers(0, 5)),
        st.tuples(st.just("stats")),
        st.tuples(st.just("metrics"), st.booleans(), st.sampled_from([None, "x", "a\"b\\\n"])),
        st.tuples(
            st.just("report_metrics"), name, st.sampled_from([*PAGES, b"up 1\n"]), st.floats(-1, 10)
        ),
    ),
    max_size=40,
)

policy_options = st.fixed_dictionaries(
    {},
    optional={
        "hash_load_factor": st.floats(1, 3),
        "hash_ring_points": st.integers(1, 200),
        "hash_prefix_tokens": st.integers(1, 100),
        "hash_max_requests": st.integers(1, 4),
        "threshold_match": st.floats(0, 1),
        "threshold_requests": st.floats(0, 4),
        "threshold_ratio": st.floats(1, 3),
        "weight_match": st.floats(0.1, 5),
        "weight_queue": st.floats(0.1, 5),
        "weight_kv": st.floats(0.1, 5),
        "block_credit": st.floats(0, 3),
    },
)


class Both:
    """Performs each operation on both sides and compares."""

    def __init__(self, oracle, options):
        self.oracle = oracle
        self.nanos = 0
        self.leases = []
        keywords = dict(options)
        numbers = keywords.pop("policy_options")
        assert oracle("new", **keywords, **numbers) == "ok"
        keywords["policy_options"] = numbers
        if keywords["policy"] == "custom":
            keywords["policy"] = oracle_policy
        self.router = PrefixRouter(clock=lambda: self.nanos, **keywords)

    def perform(self, operation):
        verb, *arguments = operation
        ours, theirs = getattr(self, verb)(*arguments)
        assert ours == theirs, (operation, ours, theirs)

    def instance(self, name, rank):
        return self.router.find_instance(name, rank)

    def add(self, name, rank, options):
        def call():
            return str(self.router.add_instance(name, rank, **options).id)

        return answer(call), self.oracle("add", name=Text(name), rank=rank, **options)

    def remove(self, name, rank):
        def call():
            self.router.remove_instance(self.instance(name, rank))
            return "ok"

        return answer(call), self.oracle("remove", name=Text(name), rank=rank)

    def state(self, name, rank, state, for_s):
        def call():
            self.router.set_instance_state(self.instance(name, rank), state, for_s)
            return "ok"

        return answer(call), self.oracle(
            "state", name=Text(name), rank=rank, state=state.value, for_s=for_s
        )

    def report(self, name, rank, figures):
        def call():
            self.router.report_load(self.instance(name, rank), **figures)
            return "ok"

        return answer(call), self.oracle("report", name=Text(name), rank=rank, **figures)

    def clock(self, step):
        self.nanos += step
        return "ok", self.oracle("clock", nanos=self.nanos)

    def request(self, verb, request, call):
        tokens, keywords = request
        keywords = dict(keywords)
        theirs = dict(keywords)
        for keyword in ("model", "adapter", "salt", "session_key"):
            if keyword in theirs:
                theirs[keyword] = Text(theirs[keyword])
        if "multimodal" in theirs:
            theirs["multimodal"] = [number for pair in theirs["multimodal"] for number in pair]
        if "allowed" in keywords:
            allowed = []
            for name, rank in keywords["allowed"]:
                try:
                    allowed.append(self.instance(name, rank))
                except KeyError:
                    pass
            keywords["allowed"] = allowed
            theirs["allowed"] = [instance.id for instance in allowed] or [0]
        if isinstance(tokens, str):
            theirs["text"] = Text(tokens)
        else:
            theirs["tokens"] = tokens
        return answer(lambda: call(tokens, keywords)), self.oracle(verb, **theirs)

    def route(self, request):
        def call(tokens, keywords):
            return show_decision(self.router.decide(tokens, **keywords))

        return self.request("route", request, call)

    def acquire(self, request):
        def call(tokens, keywords):
            lease = self.router.acquire(tokens, **keywords)
            self.leases.append(lease)
            return f"{lease.id} {show_decision(lease.decision)}"

        return self.request("acquire", request, call)

    def score(self, request):
        def call(tokens, keywords):
            return show_table(self.router.score(tokens, **keywords))

        return self.request("score", request, call)

    def on_lease(self, index, call, verb, **arguments):
        active = [lease for lease in self.leases if lease.active]
        if index >= len(active):
            return "", ""
        lease = active[index]
        return show(call(lease)), self.oracle(verb, lease=lease.id, **arguments)

    def first(self, index):
        return self.on_lease(index, lambda lease: lease.first_token(), "first")

    def finish(self, index, output_tokens, cached_tokens):
        return self.on_lease(
            index,
            lambda lease: lease.finish(
                output_tokens=output_tokens, engine_cached_tokens=cached_tokens
            ),
            "finish",
            output_tokens=-1 if output_tokens is None else output_tokens,
            engine_cached_tokens=-1 if cached_tokens is None else cached_tokens,
        )

    def cancel(self, index):
        return self.on_lease(index, lambda lease: lease.cancel(), "cancel")

    def stats(self):
        return show_stats(self.router.stats()), self.oracle("stats")

    def metrics(self, per_instance, label):
        if label is None:
            page = self.router.metrics(per_instance=per_instance)
            theirs = self.oracle("metrics", per_instance=int(per_instance))
        else:
            sources = [(self.router.stats(), {"router": label}), (self.router.stats(), {})]
            page = prefixrouter.render_metrics(sources, per_instance=per_instance)
            theirs = self.oracle("metrics", per_instance=int(per_instance), label=Text(label))
        return page.encode().hex(), theirs

    def report_metrics(self, name, page, age_s):
        def call():
            return str(self.router.report_engine_metrics(name, page, age_s=age_s))

        return answer(call), self.oracle(
            "report_metrics", name=Text(name), page=page, age_s=age_s
        )


@hypothesis.given(
    options=st.fixed_dictionaries(
        {
            "key_seed": st.integers(0, 2**64 - 1),
            "routers": st.sampled_from([1, 2, 12]),
            "random_seed": st.integers(0, 2**64 - 1),
            "block_size": st.sampled_from([1, 4, 16]),
            "text_block_bytes": st.sampled_from([8, 64]),
            "index_budget_bytes": st.sampled_from([65536, 2**30]),
            "predicted_ttl_s": st.sampled_from([0.0, 5.0]),
            "lease_ttl_s": st.sampled_from([600.0, 3.0]),
            "policy": st.sampled_from([*prefixrouter.policy_names(), "custom"]),
            "policy_options": policy_options,
            "latency_interval_s": st.sampled_from([0.0, math.inf]),
        }
    ),
    operations=operations,
)
@hypothesis.settings(max_examples=300)
def test_python_answers_as_cpp(oracle, options, operations):
    both = Both(oracle, options)
    both.perform(("add", "a", 0, {"capacity_blocks": 20}))
    both.perform(("add", "b", 0, {"capacity_blocks": 65536}))
    for operation in operations:
        both.perform(operation)
    both.perform(("stats",))


def test_python_answers_as_cpp_on_long_prompts(oracle):
    """Long enough that the GIL is left, and for the vector instructions of the hash."""
    random = np.random.default_rng(3)
    options = {
        "key_seed": 5,
        "routers": 4,
        "random_seed": 6,
        "block_size": 16,
        "text_block_bytes": 64,
        "index_budget_bytes": 2**30,
        "predicted_ttl_s": 0.0,
        "lease_ttl_s": 600.0,
        "policy": "custom",
        "policy_options": {},
        "latency_interval_s": 0.0,
    }
    for policy in ("prefix_cost", "custom"):
        both = Both(oracle, {**options, "policy": policy})
        for name in NAMES:
            both.perform(("add", name, 0, {"capacity_blocks": 3000}))
        base = random.integers(0, 128_000, 20_000).tolist()
        for i in range(60):
            tokens = base[: int(random.integers(0, 20_000))]
            if i % 3 == 0 and tokens:
                tokens[int(random.integers(0, len(tokens)))] = i
            request = (tokens, {"session_key": "s"} if i % 5 == 0 else {})
            both.perform((("route", "acquire", "score")[i % 3], request))
            both.perform(("clock", 10**8 + i * 10**6))
            if i % 3 == 1:  # what first tokens take is learned
                both.perform(("first", 0))
                both.perform(("finish", 0, 7, None))
        both.perform(("stats",))


# ---- Pages of engines ----------------------------------------------------------------------------


@st.composite
def pages(draw):
    """Pages of the engines, with lines lost, doubled and damaged, mixed with each other."""
    lines = []
    for page in draw(st.lists(st.sampled_from(PAGES), min_size=1, max_size=2)):
        lines += page.splitlines(keepends=True)
    for _ in range(draw(st.integers(0, 5))):
        at = draw(st.integers(0, len(lines) - 1))
        line = lines[at]
        cut = draw(st.integers(0, len(line)))
        lines[at] = draw(
            st.sampled_from(
                [
                    b"",
                    line + line,
                    line[:cut],
                    line[:cut] + draw(st.binary(max_size=3)) + line[cut:],
                    line.rsplit(b" ", 1)[0] + draw(st.sampled_from([b" -1\n", b" NaN\n", b" 7\n"])),
                ]
            )
        )
    return b"".join(lines)


@hypothesis.given(
    page=pages(),
    model=st.sampled_from(["", "org/model-70b", "no-such-model"]),
    max_ranks=st.sampled_from([0, 1, 1024]),
    max_bytes=st.sampled_from([100, 2**24]),
    max_line_bytes=st.sampled_from([60, 65536]),
)
def test_pages_of_engines_say_in_python_what_they_say_in_cpp(oracle, page, **options):
    def call():
        return show_engine(prefixrouter.parse_engine_metrics(page, **options))

    model = Text(options.pop("model"))
    theirs = oracle("parse", page=page, model=model, **options)
    options["model"] = str(model)
    assert answer(call) == theirs


def test_every_known_engine_is_read(oracle):
    limits = {"max_ranks": 1024, "max_bytes": 2**24, "max_line_bytes": 65536}
    engines = set()
    for page in PAGES:
        metrics = prefixrouter.parse_engine_metrics(page)
        assert show_engine(metrics) == oracle("parse", page=page, **limits)
        assert show_engine(prefixrouter.parse_engine_metrics(page.decode())) == show_engine(metrics)
        engines.add(metrics.engine)
    assert engines == {"vllm", "sglang", "tensorrt_llm", "triton"}
