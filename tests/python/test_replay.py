"""`prefixrouter replay`, `generate` and `policies`: what they print, write, and refuse."""

import gzip
import json
import os
import signal
import subprocess
import sys
import time

import pytest

import prefixrouter
from prefixrouter import _progress, cli

COMMAND = [sys.executable, "-m", "prefixrouter"]
SMALL = ["--workload", "chat", "--requests", "120", "--policy", "prefix_cost,random"]
LINE = '{"timestamp": 5, "input_length": 40, "output_length": 7, "hash_ids": [1]}\n'


@pytest.fixture
def run(capsys):
    """Runs the command line in this process: its status, standard output and standard error."""

    def run_(*arguments):
        status = cli.main([str(argument) for argument in arguments])
        captured = capsys.readouterr()
        return status, captured.out, captured.err

    return run_


@pytest.fixture
def trace(tmp_path):
    path = tmp_path / "trace.jsonl"
    path.write_text("".join(LINE.replace("5", str(at)) for at in range(0, 9000, 100)))
    return path


# ---- Output ----


def test_the_table_is_aligned_and_has_no_tabs(run):
    status, out, err = run("replay", *SMALL)
    assert (status, err) == (0, "")
    assert "\t" not in out and not any(line.endswith(" ") for line in out.splitlines())
    assert "4 x llama-70b-8xh100" in out and "best possible share 0.7" in out
    rows = [line for line in out.splitlines() if line.startswith(("prefix_cost", "random"))]
    assert len(rows) == 2
    points = [[i for i, letter in enumerate(row) if letter == "."] for row in rows]
    assert points[0] == points[1], "numbers stand below each other"


def test_the_json_has_the_documented_shape(run, tmp_path):
    path = tmp_path / "figures.json"
    status, out, err = run("replay", *SMALL, "--seeds", "3", "--instances", "2", "--json", path)
    assert (status, err) == (0, "") and out.startswith("workload")
    figures = json.loads(path.read_text())
    assert list(figures) == ["trace", "engine", "instances", "seeds", "policies"]
    assert figures["trace"].startswith("chat")
    assert (figures["engine"], figures["instances"]) == ("llama-70b-8xh100", 2)
    assert figures["seeds"] == 3
    assert [policy["name"] for policy in figures["policies"]] == ["prefix_cost", "random"]
    averaged = ["ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "e2e_mean_s"]
    averaged += ["tpot_mean_s", "cached_token_share", "best_possible_share", "max_over_mean_work"]
    for policy in figures["policies"]:
        assert list(policy) == ["name", *averaged, "requests", "rejected", "spread"]
        assert list(policy["spread"]) == averaged
        for name, (low, high) in policy["spread"].items():
            assert low <= policy[name] <= high
        assert policy["spread"]["ttft_mean_s"][0] < policy["spread"]["ttft_mean_s"][1]
        assert policy["ttft_p50_s"] <= policy["ttft_p90_s"] <= policy["ttft_p99_s"]
        assert policy["requests"] >= 120 and policy["rejected"] == 0
    best, random_ = (policy["cached_token_share"] for policy in figures["policies"])
    assert random_ < best <= figures["policies"][0]["best_possible_share"]


def test_figures_are_those_of_the_program_in_cpp(run, simulate_program):
    options = [*SMALL, "--seeds", "2", "--level", "past", "--routers", "2", "--json", "-"]
    expected = json.loads(
        subprocess.run([simulate_program, *options], capture_output=True, check=True).stdout
    )
    status, out, err = run("replay", *options)
    found = json.loads(out)
    for policies in (expected["policies"], found["policies"]):
        for policy in policies:
            policy.pop("kind", None)
    assert {name: expected[name] for name in found} == found


def test_several_traces_are_an_array(run, trace):
    status, out, _ = run("replay", trace, trace, "--policy", "random", "--json", "-")
    assert status == 0
    assert [entry["trace"] for entry in json.loads(out)] == [str(trace)] * 2


def test_all_means_every_policy(run, trace):
    status, out, _ = run("replay", trace, "--policy", "all", "--json", "-")
    names = [policy["name"] for policy in json.loads(out)["policies"]]
    assert names == [policy.name for policy in prefixrouter.policies()]


def test_results_do_not_depend_on_the_number_of_jobs(run):
    outputs = {run("replay", *SMALL, "--jobs", jobs, "--json", "-")[1] for jobs in (1, 4)}
    assert len(outputs) == 1


@pytest.mark.parametrize(
    "options, worse",
    [
        (["--rate", "40"], "ttft_mean_s"),
        (["--capacity", "20000"], "ttft_mean_s"),
        (["--prefill-rate", "5000"], "ttft_mean_s"),
        (["--speeds", "1,0.2"], "ttft_mean_s"),
        (["--engine", "qwen-32b-2xh100"], "ttft_mean_s"),
        (["--max-ttft", "0.03"], "rejected"),
        (["--instances", "1", "--event", "100:fail:0"], "rejected"),
    ],
)
def test_options_have_their_effect(run, options, worse):
    plain = json.loads(run("replay", *SMALL, "--json", "-")[1])["policies"][0]
    changed = json.loads(run("replay", *SMALL, *options, "--json", "-")[1])["policies"][0]
    assert changed[worse] > plain[worse]


def test_policies_are_listed_with_rule_and_source(run):
    status, out, err = run("policies")
    assert (status, err) == (0, "") and "\t" not in out
    assert max(map(len, out.splitlines())) <= 100
    entries = json.loads(run("policies", "--json")[1])
    assert [entry["name"] for entry in entries] == [p.name for p in prefixrouter.policies()]
    assert all(entry["name"] in out and entry["source"] in out for entry in entries)


# ---- Plots ----


def test_the_html_has_all_plots_and_needs_nothing_from_elsewhere(run, tmp_path):
    pytest.importorskip("plotly")
    path = tmp_path / "report.html"
    status, out, err = run("replay", *SMALL, "--loads", "0.5,1,2", "--html", path)
    assert status == 0 and out.startswith("workload") and str(path) in err
    text = path.read_text()
    own = text[: text.index("<script>")] + text[text.index("</script>", len(text) // 2) :]
    for title in ("distribution", "against load", "Cached share", "Work of each instance"):
        assert title in own
    assert own.count("Plotly.newPlot(") == 4
    for plotted in ('"prefix_cost"', '"random"', '"heatmap"', '"bar"', '"scatter"'):
        assert plotted in own
    assert "plotly.js v" in text, "the library is in the file"
    assert not [tag for tag in ("src=", "<link", "@import", "url(") if tag in own]


def test_a_missing_plotly_is_told_before_the_work(run, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "plotly.graph_objects", None)
    monkeypatch.delitem(sys.modules, "prefixrouter._report_html", raising=False)
    status, out, err = run("replay", *SMALL, "--html", tmp_path / "report.html")
    assert (status, out) == (1, "")
    assert "plotly" in err and "prefixrouter[html]" in err
    assert list(tmp_path.iterdir()) == []


# ---- Progress ----


class Terminal:
    """A standard error that takes itself for a terminal."""

    def __init__(self):
        self.written = ""

    def isatty(self):
        return True

    def write(self, text):
        self.written += text

    def flush(self):
        pass


def test_progress_is_shown_on_a_terminal_and_nowhere_else(monkeypatch):
    pytest.importorskip("tqdm")
    for terminal, shown in ((True, True), (False, True), (True, False)):
        stderr = Terminal()
        stderr.isatty = lambda answer=terminal: answer
        monkeypatch.setattr(sys, "stderr", stderr)
        with _progress.ProgressBar("simulating", 100, shown=shown) as bar:
            bar.set(50)
        assert ("simulating" in stderr.written) == (terminal and shown)


def test_without_tqdm_a_line_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with _progress.ProgressBar("simulating", 100) as bar:
        bar.set(50)
    assert "prefixrouter[cli]" in sys.stderr.written


# ---- Input ----


def test_what_was_generated_is_replayed_as_what_is_generated(run, tmp_path):
    path = tmp_path / "chat.jsonl.gz"
    status, out, err = run("generate", "chat", "--requests", "120", "--output", path)
    assert (status, out) == (0, "") and "--trace-block 64" in err
    again = tmp_path / "again.jsonl.gz"
    run("generate", "chat", "--requests", "120", "--output", again)
    assert path.read_bytes() == again.read_bytes()
    lines = run("generate", "chat", "--requests", "120")[1]
    assert gzip.decompress(path.read_bytes()).decode() == lines
    options = ["--policy", "random", "--json", "-"]
    read = json.loads(run("replay", path, "--trace-block", "64", *options)[1])
    made = json.loads(run("replay", "--workload", "chat", "--requests", "120", *options)[1])
    assert read["policies"] == made["policies"]


def test_standard_input_is_read(trace):
    compressed = gzip.compress(trace.read_bytes())
    options = ["--trace-block", "64", "--policy", "random", "--json", "-"]
    for content in (trace.read_bytes(), compressed):
        result = subprocess.run(
            [*COMMAND, "replay", "-", *options], input=content, capture_output=True, check=True
        )
        assert json.loads(result.stdout)["trace"] == "standard input"


def test_malformed_lines_are_named(run, trace):
    with trace.open("a") as file:
        file.write("oops\n")
    status, out, err = run("replay", trace, "--policy", "random")
    assert status == 0 and f"{trace}, line 91: not JSON" in err
    status, out, err = run("replay", trace, "--strict")
    assert (status, out) == (2, "") and f"{trace}, line 91: not JSON" in err


def test_a_wrong_block_length_is_pointed_out(run, trace):
    status, _, err = run("replay", trace, "--trace-block", "16", "--policy", "random")
    assert status == 0 and "90 of 90 lines" in err and "--trace-block" in err


@pytest.mark.parametrize(
    "arguments, named",
    [
        (["replay", "/nowhere/trace.jsonl"], "/nowhere/trace.jsonl: No such file"),
        (["replay", "/"], "/: cannot be read: Is a directory"),
        (["replay", os.devnull], "is empty"),
        (["replay", "--policy", "best"], "got 'best'"),
        (["replay", "--policy", "random,"], "got ''"),
        (["replay", "--engine", "h200"], "got 'h200'"),
        (["replay", "--workload", "web"], "got 'web'"),
        (["replay", "--instances", "0"], "from 1 to 65536, got '0'"),
        (["replay", "--instances", "many"], "got 'many'"),
        (["replay", "--rate", "nan"], "got 'nan'"),
        (["replay", "--rate", "-1"], "got '-1'"),
        (["replay", "--rate", "1", "--level", "knee"], "exclude each other"),
        (["replay", "--seeds", "1.5"], "got '1.5'"),
        (["replay", "--speeds", "1,x"], "got 'x'"),
        (["replay", "--event", "1:explode:0"], "got '1:explode:0'"),
        (["replay", *SMALL, "--event", "1:fail:9"], "instance must be 0 to 3, got 9"),
        (["replay", *SMALL, "--event", "1:restart:0"], "it has not failed"),
        (["replay", *SMALL, "--metrics-period", "1e-9"], "got 1e-09"),
        (["replay", *SMALL, "--block-size", "48"], "48"),
        (["replay", "--workload", "chat", os.devnull], "--workload chat"),
        (["replay", "-", "-"], "only once"),
        (["replay", "--wrong"], "--wrong"),
        (["generate"], "WORKLOAD"),
        (["generate", "web"], "got 'web'"),
        (["generate", "chat", "--requests", "0"], "got '0'"),
        (["policies", "extra"], "extra"),
        (["nothing"], "nothing"),
    ],
)
def test_wrong_input_is_refused_and_named(run, arguments, named):
    status, out, err = run(*arguments)
    assert (status, out) == (2, "")
    assert named in err and "Traceback" not in err


@pytest.mark.parametrize("option", ["--json", "--html"])
def test_what_cannot_be_written_is_told_before_the_work(run, option):
    if option == "--html":
        pytest.importorskip("plotly")
    started = time.monotonic()
    status, out, err = run("replay", option, "/nowhere/file")
    assert (status, out) == (1, "") and "/nowhere/file" in err
    assert time.monotonic() - started < 5


# ---- As a process ----


def test_a_full_disk_is_a_failure():
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [*COMMAND, "generate", "chat"], stdout=full, stderr=subprocess.PIPE, text=True
        )
    assert result.returncode == 1
    assert "No space left" in result.stderr and "Traceback" not in result.stderr


def test_a_reader_that_has_had_enough_is_no_failure():
    """Standard output is closed after the first line of many."""
    process = subprocess.Popen(
        [*COMMAND, "generate", "agents"], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert json.loads(process.stdout.readline())
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["replay", "-"],  # which waits for standard input
        ["generate", "unique", "--requests", "10000000"],
        ["replay", "--rate", "0.0001", "--requests", "500", "--quiet"],
    ],
)
def test_ctrl_c_ends_it_without_a_traceback(arguments):
    program = (
        "import sys; from prefixrouter import cli; print(flush=True);"
        "sys.exit(cli.main(sys.argv[1:]))"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        assert process.stdout.readline() == b"\n"  # it is there
        time.sleep(0.5)
        assert process.poll() is None, "it ended by itself"
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=30)
    finally:
        process.kill()
        process.communicate()
    assert (process.returncode, out, err) == (130, b"", b"")
