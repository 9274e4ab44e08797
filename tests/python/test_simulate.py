"""The simulator in Python: the results of the C++ one, its types, and what it refuses."""

import dataclasses
import gzip
import json
import math
import os
import signal
import statistics
import subprocess
import tempfile
import threading
import time

import pytest

import prefixrouter
from prefixrouter import EngineOptions, FleetEvent, LinearCost, SimulatedInstance

LINE = '{"timestamp": 5, "input_length": 40, "output_length": 7, "hash_ids": [1, 2, 3]}'


@pytest.fixture(scope="module")
def chat():
    """A chat of 300 requests."""
    return prefixrouter.Workload(prefixrouter.generate_trace("chat", requests=300))


def figures_of(summary):
    names = [name for name in dir(summary) if not name.startswith("_")]
    return {name: getattr(summary, name) for name in names}


# ---- The same as in C++ ----


@pytest.mark.parametrize(
    "options, arguments",
    [
        ([], {}),
        (["--policy", "random", "--rate", "20"], {"policy": "random", "arrival_scale": 20}),
        (
            ["--policy", "sglang_cache_aware", "--routers", "3", "--metrics-age", "0.5"]
            + ["--metrics-period", "0.2", "--feedback-delay", "0.01", "--seed", "4"],
            {"policy": "sglang_cache_aware", "routers": 3, "metrics_age_s": 0.5}
            | {"metrics_period_s": 0.2, "feedback_delay_s": 0.01, "seed": 4},
        ),
        (
            ["--closed-loop", "--session-keys", "--no-calibrate", "--rate", "50"],
            {"closed_loop": True, "session_keys": True, "arrival_scale": 50}
            | {"router_options": {"calibrate": False}},
        ),
        (
            ["--speeds", "1,4", "--cache-factor", "0.5", "--engine", "llama-8b-h100-roofline"]
            + ["--measure-from", "100"],
            {
                "instances": [
                    SimulatedInstance(speed=speed, configured_capacity=0.5)
                    for speed in (1, 4, 1, 4)
                ],
                "engine": "llama-8b-h100-roofline",
                "measure_from_s": 100,
            },
        ),
    ],
)
def test_figures_are_those_of_the_program_in_cpp(simulate_program, options, arguments):
    command = [simulate_program, "--workload", "chat", "--requests", "300", "--json", "-"]
    defaults = [] if "--policy" in options else ["--policy", "prefix_cost"]
    output = subprocess.run(
        [*command, *options, *defaults], capture_output=True, text=True, check=True
    ).stdout
    (expected,) = json.loads(output)["policies"]
    seed = arguments.get("seed", 1)
    trace = prefixrouter.generate_trace("chat", requests=300, seed=seed)
    workload = prefixrouter.Workload(trace, seed=seed)
    found = figures_of(prefixrouter.simulate(workload, **arguments).summary)
    compared = expected.keys() & found.keys()
    assert len(compared) == 11
    assert {name: found[name] for name in compared} == {name: expected[name] for name in compared}


def test_load_levels_are_those_of_the_program_in_cpp(simulate_program, chat):
    command = [simulate_program, "--workload", "chat", "--requests", "300", "--json", "-"]
    output = subprocess.run(
        [*command, "--level", "knee"], capture_output=True, text=True, check=True
    ).stdout
    expected = json.loads(output)["levels"]
    levels = prefixrouter.find_load_levels(chat)
    assert {name: getattr(levels, f"{name}_scale") for name in expected} == expected
    assert levels.knee_ttft_s == pytest.approx(2 * levels.half_ttft_s, rel=0.05)


def test_a_schedule_worked_out_by_hand():
    """40 tokens on an engine of 16 tokens a step: 3 steps of prefill, then 6 of decoding."""
    engine = EngineOptions(
        linear=LinearCost(step_s=1.0, prefill_token_s=0.01, decode_request_s=0.1),
        kv_capacity_tokens=1600,
        max_batched_tokens=16,
    )
    assert engine.step_seconds(prefill_tokens=16) == pytest.approx(1.16)
    workload = prefixrouter.Workload(write_trace_of(LINE), block_size=16)
    result = prefixrouter.simulate(workload, engine=engine, instances=1, series_step_s=100.0)
    assert list(result.requests.first_token_s) == pytest.approx([1.16 + 1.16 + 1.08])
    assert list(result.requests.end_s) == pytest.approx([3.4 + 6 * 1.1])
    assert result.series.prefill_tokens.tolist() == [[40]]
    assert result.series.busy_s.tolist() == [pytest.approx([10.0])]
    fast = prefixrouter.simulate(workload, engine=engine, instances=[SimulatedInstance(speed=2)])
    assert fast.summary.ttft_mean_s == pytest.approx(1.7)


def test_a_rule_of_ones_own_is_simulated(chat):
    seen = []

    def least_requests(fleet):
        seen.append([instance.name for instance in fleet.instances])
        return fleet.requests

    own = prefixrouter.simulate(chat, policy=least_requests, arrival_scale=50, routers=2)
    named = prefixrouter.simulate(chat, policy="least_requests", arrival_scale=50, routers=2)
    assert figures_of(own.summary) == figures_of(named.summary)
    assert len(seen) == len(chat)
    assert seen[0] == ["instance-0", "instance-1", "instance-2", "instance-3"]


def test_what_a_rule_raises_stops_the_simulation(chat):
    with pytest.raises(ZeroDivisionError):
        prefixrouter.simulate(chat, policy=lambda fleet: 1 / 0)
    with pytest.raises(ValueError, match="must return 4 costs, got 1"):
        prefixrouter.simulate(chat, policy=lambda fleet: [1.0])
    assert prefixrouter.simulate(chat).summary.requests == len(chat)


def test_a_rule_sees_instances_come_and_go(chat):
    names = set()

    def rule(fleet):
        names.update(instance.name for instance in fleet.instances if instance is not None)
        return fleet.requests

    events = [FleetEvent(10, "fail", 0), FleetEvent(20, "restart", 0), FleetEvent(30, "join", 4)]
    events += [FleetEvent(40, "leave", 1)]
    fleet = [SimulatedInstance()] * 5
    result = prefixrouter.simulate(chat, policy=rule, instances=fleet, events=events)
    assert result.summary.requests == len(chat)
    assert names == {f"instance-{i}" for i in range(5)}


# ---- Results ----


def test_the_summary_is_that_of_the_requests(chat):
    result = prefixrouter.simulate(chat, arrival_scale=50)
    requests, summary = result.requests, result.summary
    assert len(requests) == len(chat) == summary.requests
    assert set(requests.outcome) == {prefixrouter.Outcome.DONE}
    ttft_s = [f - a for f, a in zip(requests.first_token_s, requests.arrival_s)]
    assert summary.ttft_mean_s == pytest.approx(statistics.mean(ttft_s))
    assert summary.ttft_p99_s == sorted(ttft_s)[math.ceil(0.99 * len(ttft_s)) - 1]
    assert sum(requests.prompt_tokens) == chat.prompt_tokens
    assert sum(requests.output_tokens) == chat.output_tokens
    assert summary.cached_token_share == sum(requests.cached_tokens) / chat.prompt_tokens
    assert summary.best_possible_share == chat.best_possible_share
    assert summary.end_s == max(requests.end_s)
    work = sum(map(sum, result.series.prefill_tokens.tolist()))
    assert work == sum(requests.prompt_tokens) - sum(requests.cached_tokens)


def test_the_series_has_a_row_for_each_instance(chat):
    series = prefixrouter.simulate(chat, instances=3, series_step_s=60.0).series
    assert series.step_s == 60.0
    for name in ("prefill_tokens", "decode_tokens", "busy_s", "running", "waiting", "kv_usage"):
        array = getattr(series, name)
        assert array.shape[0] == 3 and array.ndim == 2 and array.readonly
        assert array[2, 1] == array.tolist()[2][1]


def test_numpy_takes_columns_without_a_copy(chat):
    numpy = pytest.importorskip("numpy")
    result = prefixrouter.simulate(chat)
    columns = result.requests
    ends = numpy.asarray(columns.end_s)
    assert ends.dtype == numpy.float64 and not ends.flags.owndata
    expected = list(columns.end_s)
    del result, columns
    assert ends.tolist() == expected
    with pytest.raises(ValueError):
        ends[0] = 1


def test_results_do_not_depend_on_threads_nor_on_watching(chat):
    expected = figures_of(prefixrouter.simulate(chat, arrival_scale=50).summary)
    found = []

    def run():
        result = prefixrouter.simulate(chat, arrival_scale=50, progress=lambda over, total: None)
        found.append(figures_of(result.summary))

    threads = [threading.Thread(target=run) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [expected] * 4


def test_a_trace_is_made_a_workload():
    trace = prefixrouter.generate_trace("bursts", requests=200)
    expected = prefixrouter.simulate(prefixrouter.Workload(trace)).summary
    assert figures_of(prefixrouter.simulate(trace).summary) == figures_of(expected)


def test_an_instance_that_fails_loses_its_requests_to_the_others():
    workload = prefixrouter.Workload(prefixrouter.generate_trace("unique", requests=300))
    at_s = workload.span_s / 2
    result = prefixrouter.simulate(
        workload, instances=2, events=[FleetEvent(at_s, "fail", 1)], metrics_period_s=0
    )
    assert result.summary.resent > 0 and result.summary.rejected == 0
    columns = result.requests
    after = [i for i, a in zip(columns.instance, columns.arrival_s) if a > at_s]
    assert after and set(after) == {0} and 1 in columns.instance


def test_requests_can_be_rejected(chat):
    result = prefixrouter.simulate(chat, arrival_scale=1e4, instances=1, max_ttft_s=1.0)
    assert result.summary.rejected > 0
    assert prefixrouter.Outcome.REJECTED in set(result.requests.outcome)
    small = EngineOptions(linear=LinearCost(step_s=1.0), kv_capacity_tokens=640)
    result = prefixrouter.simulate(chat, engine=small)
    assert prefixrouter.Outcome.TOO_LONG in set(result.requests.outcome)


# ---- Interruption ----


def test_progress_is_told_and_what_it_raises_stops_the_simulation(chat):
    told = []
    prefixrouter.simulate(chat, progress=lambda over, total: told.append((over, total)))
    assert told and {total for _, total in told} == {len(chat)}
    assert told == sorted(told)

    class Enough(Exception):
        pass

    def stop(over, total):
        raise Enough

    with pytest.raises(Enough):
        prefixrouter.simulate(chat, progress=stop)
    with pytest.raises(Enough):
        prefixrouter.find_load_levels(chat, progress=stop)


def test_ctrl_c_stops_a_simulation(chat):
    """This one would take a minute."""
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
    timer.start()
    started = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        prefixrouter.simulate(chat, arrival_scale=1e-4)
    assert time.monotonic() - started < 20
    timer.join()


def test_other_threads_run_meanwhile(chat):
    """While a simulation is running, this thread counts, which it could not without the GIL."""
    begun, ended = threading.Event(), threading.Event()

    def run():
        prefixrouter.simulate(
            chat, arrival_scale=0.1, progress=lambda over, total: begun.set()
        )
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    begun.wait()
    count = 0
    while not ended.is_set():
        count += 1
        time.sleep(0)
    thread.join()
    assert count > 10


# ---- Traces ----


def write_trace_of(*lines):
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
        file.write("".join(line + "\n" for line in lines))
        file.flush()
        return prefixrouter.read_trace(file.name, block_tokens=16)


def test_a_generated_trace_is_read_back_as_it_was(tmp_path):
    trace = prefixrouter.generate_trace("agents", requests=100)
    path = tmp_path / "agents.jsonl.gz"
    path.write_bytes(gzip.compress("".join(line + "\n" for line in trace).encode()))
    read = prefixrouter.read_trace(path, block_tokens=trace.block_tokens)
    assert list(read) == list(trace) and len(read) == len(trace)
    assert (read.name, read.skipped_lines, read.warnings) == (str(path), 0, ())
    summaries = [prefixrouter.simulate(source).summary for source in (trace, read)]
    assert figures_of(summaries[0]) == figures_of(summaries[1])


def test_malformed_lines_are_skipped_and_named_or_refused(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text(LINE + '\n{"timestamp": -1}\n' + LINE + "\n")
    trace = prefixrouter.read_trace(path, block_tokens=16)
    assert (len(trace), trace.skipped_lines) == (2, 1)
    (warning,) = trace.warnings
    assert f"{path}, line 2: timestamp is -1" in warning
    with pytest.raises(ValueError, match="line 2: timestamp is -1"):
        prefixrouter.read_trace(str(path), strict=True)
    assert len(prefixrouter.read_trace(path, limit=1)) == 1


def test_what_is_no_trace_is_refused_by_name(tmp_path):
    with pytest.raises(FileNotFoundError, match="nowhere"):
        prefixrouter.read_trace(tmp_path / "nowhere")
    empty = tmp_path / "empty"
    empty.write_text("")
    with pytest.raises(ValueError, match="is empty"):
        prefixrouter.read_trace(empty)
    empty.write_text("no\n")
    with pytest.raises(ValueError, match="no usable line.*line 1: not JSON"):
        prefixrouter.read_trace(empty)
    with pytest.raises(ValueError, match="block_tokens must be 1 to 65536, got 0"):
        prefixrouter.read_trace(empty, block_tokens=0)
    with pytest.raises(TypeError):
        prefixrouter.read_trace(None)


def test_names_of_files_need_not_be_utf_8(tmp_path):
    path = os.fsencode(tmp_path) + b"/\xff.jsonl"
    try:
        open(path, "w").close()
    except OSError:
        pytest.skip("this file system wants UTF-8")
    for name in (path, os.fsdecode(path)):
        with pytest.raises(ValueError, match="\ufffd.jsonl: is empty"):
            prefixrouter.read_trace(name)
    with open(path, "w") as file:
        file.write(LINE + "\n")
    assert prefixrouter.read_trace(path).name.endswith("/\ufffd.jsonl")


def test_workloads_tell_what_is_in_them(chat):
    assert chat.name.startswith("chat") and chat.block_size == 64 and chat.sessions > 0
    assert chat.span_s > 0 and 0 < chat.best_possible_share < 1
    trace = prefixrouter.generate_trace("chat", requests=300)
    assert prefixrouter.Workload(trace, speed=2).span_s == pytest.approx(chat.span_s / 2)
    assert prefixrouter.Workload(trace, block_size=16).block_size == 16
    with pytest.raises(ValueError, match="block_size"):
        prefixrouter.Workload(trace, block_size=48)
    with pytest.raises(ValueError, match="speed"):
        prefixrouter.Workload(trace, speed=0)
    with pytest.raises(TypeError):
        prefixrouter.Workload("chat")


def test_generators_are_known_by_name():
    names = prefixrouter.generators()
    assert {"shared_prompts", "chat", "agents", "unique", "bursts"} == set(names)
    with pytest.raises(ValueError, match="'?nothing"):
        prefixrouter.generate_trace("nothing")
    with pytest.raises(ValueError, match="requests"):
        prefixrouter.generate_trace("chat", requests=0)


# ---- Names ----


def test_policies_tell_whose_they_are():
    policies = {policy.name: policy for policy in prefixrouter.policies()}
    assert set(prefixrouter.policy_names()) - {"custom"} <= set(policies)
    assert policies["prefix_cost"].kind == "router"
    assert policies["sglang_cache_aware"].kind == "gateway"
    assert policies["lpwl"].kind == "research"
    assert all(policy.rule and policy.source for policy in policies.values())


def test_engine_presets_can_be_changed(chat):
    presets = prefixrouter.engine_presets()
    assert presets["llama-8b-h100"].kv_capacity_tokens == 441_284
    assert presets["llama-8b-h100-roofline"].cost_model == "roofline"
    for name, preset in presets.items():
        by_name = prefixrouter.simulate(chat, engine=name).summary
        assert figures_of(prefixrouter.simulate(chat, engine=preset).summary) == figures_of(by_name)
    small = dataclasses.replace(presets["llama-8b-h100"], kv_capacity_tokens=20_000)
    share = prefixrouter.simulate(chat, engine=small).summary.cached_token_share
    assert share < prefixrouter.simulate(chat, engine="llama-8b-h100").summary.cached_token_share


# ---- Wrong arguments ----


@pytest.mark.parametrize(
    "arguments, error, said",
    [
        ({"policy": "best"}, ValueError, 'got "best"'),
        ({"policy": 1}, TypeError, "policy must be a str, got 1"),
        ({"engine": "h200"}, ValueError, 'got "h200"'),
        ({"engine": 5}, TypeError, "engine must be a str or an EngineOptions, got 5"),
        ({"engine": EngineOptions()}, ValueError, "engine.kv_capacity_tokens"),
        ({"engine": EngineOptions(cost_model="x")}, ValueError, "cost_model must be one of"),
        (
            {"engine": EngineOptions(kv_capacity_tokens=1, linear=LinearCost(step_s=-1))},
            ValueError,
            "engine.linear.step_s",
        ),
        ({"instances": 0}, ValueError, "instances must be at least 1, got 0"),
        ({"instances": []}, ValueError, "number of instances"),
        ({"instances": None}, TypeError, "instances must be"),
        ({"instances": [1.0]}, TypeError, r"instances\[0\] must be a SimulatedInstance"),
        ({"instances": [SimulatedInstance(speed=0)]}, ValueError, r"instances\[0\].speed"),
        ({"events": [FleetEvent(1, "restart", 0)]}, ValueError, "it has not failed"),
        ({"events": [FleetEvent(1, "fail", 9)]}, ValueError, "instance must be 0 to 3, got 9"),
        ({"events": [FleetEvent(1, "explode", 0)]}, ValueError, "got 'explode'"),
        ({"events": [(1, "fail", 0)]}, TypeError, r"events\[0\] must be a FleetEvent"),
        ({"routers": 0}, ValueError, "routers must be 1 to 1024, got 0"),
        ({"arrival_scale": math.nan}, ValueError, "arrival_scale"),
        ({"metrics_period_s": 1e-9}, ValueError, "metrics_period_s"),
        ({"seed": -1}, ValueError, "seed must be at least 0, got -1"),
        ({"closed_loop": 1}, TypeError, "closed_loop must be True or False"),
        ({"router_options": {"calibrate": 1}}, TypeError, "calibrate"),
        ({"router_options": {"block_size": 16}}, ValueError, "set by the simulation"),
        ({"router_options": {"speed": 1}}, TypeError, "no option 'speed'"),
        ({"router_options": [1]}, TypeError, "router_options"),
        ({"progress": 5}, TypeError, "progress must be callable, got 5"),
    ],
)
def test_wrong_arguments_are_named(chat, arguments, error, said):
    with pytest.raises(error, match=said):
        prefixrouter.simulate(chat, **arguments)


def test_only_workloads_are_simulated():
    with pytest.raises(TypeError):
        prefixrouter.simulate("chat")
    with pytest.raises(TypeError, match="there is no argument polic"):
        prefixrouter.find_load_levels(prefixrouter.generate_trace("chat", requests=50), polic="x")


def test_results_cannot_be_made_by_hand(chat):
    result = prefixrouter.simulate(chat)
    for made in (result, result.summary, result.requests, result.series, *prefixrouter.policies()):
        assert repr(made).startswith(f"<{type(made).__name__}")
        with pytest.raises(TypeError):
            type(made)()
