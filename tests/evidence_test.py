#!/usr/bin/env python3
"""Tests of benchmarks/evidence: its arithmetic, its memory of runs, and the whole program.

Usage: evidence_test.py PATH_OF_PREFIX_ROUTER_SIMULATE
"""

import contextlib
import io
import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "benchmarks" / "evidence"))
sys.dont_write_bytecode = True

import evidence  # noqa: E402
import figures  # noqa: E402
import grid  # noqa: E402
import runs  # noqa: E402

TOOL = None
BARS = {"ttft_vs_best": 1.05, "p99_vs_best": 1.1, "ttft_vs_random_high_reuse": 0.23,
        "low_reuse_vs_least_requests": 1.02}


def policy(name, ttft_s, share=0.6, kind="gateway"):
    return {"name": name, "kind": kind, "ttft_mean_s": ttft_s, "ttft_p50_s": ttft_s,
            "ttft_p90_s": 2 * ttft_s, "ttft_p99_s": 3 * ttft_s, "cached_token_share": 0.1,
            "best_possible_share": share, "requests": 10, "rejected": 0}


def output(*policies):
    return {"trace": "t", "policies": list(policies)}


def cell_of(group, load, ttft, share=0.6):
    """A cell with the default, random, least_requests and lpwl at these times."""
    names = ((grid.DEFAULT, "router"), ("random", "gateway"), ("least_requests", "gateway"),
             ("lpwl", "research"))
    made = output(*(policy(name, time, share, kind) for (name, kind), time in zip(names, ttft)))
    return grid.Cell(group, grid.generated("chat"), 4, load), figures.of_cell([made])


class Arithmetic(unittest.TestCase):
    def test_the_mean_over_seeds_is_taken_before_ratios(self):
        cell = figures.of_cell([output(policy(grid.DEFAULT, 1), policy("random", 4)),
                                output(policy(grid.DEFAULT, 3), policy("random", 1))])
        # Not the mean of 1/4 and 3.
        self.assertEqual(figures.against("c", cell, "random").value, 2 / 2.5)

    def test_policies_that_served_different_requests_are_not_compared(self):
        short = policy("random", 1)
        short["requests"] = 9
        with self.assertRaisesRegex(ValueError, "different requests"):
            figures.of_cell([output(policy(grid.DEFAULT, 1), short)])

    def test_figures_are_those_worked_out_by_hand(self):
        cells = dict([cell_of("main", "half", (2, 8, 4, 1)),
                      cell_of("main", "knee", (1, 8, 4, 2)),
                      cell_of("main", "past", (3, 8, 4, 6), share=0.05),
                      cell_of("stale", "half", (4, 8, 4, 1)),
                      cell_of("stale", "knee", (8, 8, 4, 1)),
                      cell_of("stale_events", "half", (3, 8, 4, 1)),
                      cell_of("uneven", "knee", (3, 9, 9, 9)),
                      cell_of("told", "knee", (2, 9, 9, 9))])
        values = {figure.name: figure.value for figure in figures.figures(cells, BARS)}
        self.assertAlmostEqual(values["ttft_vs_best"], 2 / 1)
        self.assertAlmostEqual(values["ttft_vs_best_geomean"], (2 / 1 * 1 / 2 * 3 / 4) ** (1 / 3))
        self.assertAlmostEqual(values["ttft_vs_best_gateway_geomean"],
                               (2 / 4 * 1 / 4 * 3 / 4) ** (1 / 3))
        self.assertAlmostEqual(values["ttft_vs_random_high_reuse"], 1 / 8)  # the knee alone
        self.assertAlmostEqual(values["low_reuse_vs_least_requests"], 3 / 4)
        self.assertAlmostEqual(values["stale_4_routers"], (4 / 2 * 8 / 1) ** 0.5)
        self.assertAlmostEqual(values["stale_4_routers_events"], 3 / 2)
        self.assertAlmostEqual(values["uneven_learned"], 1.5)

    def test_cells_without_a_twin_make_no_figure(self):
        cells = dict([cell_of("stale", "half", (4, 8, 4, 1))])
        self.assertEqual(figures.figures(cells, BARS), [])


class Grid(unittest.TestCase):
    def test_in_the_sample_each_workload_meets_each_load_and_fleet_once(self):
        chosen = [grid.generated(name) for name in grid.GENERATORS]
        cells = [cell for cell in grid.cells(chosen, sample=True) if cell.group == "main"]
        for workload in chosen:
            own = [cell for cell in cells if cell.workload == workload]
            self.assertEqual(sorted(cell.load for cell in own), sorted(grid.LOADS))
            self.assertEqual(sorted(cell.instances for cell in own), sorted(grid.INSTANCES))

    def test_no_policy_of_the_simulator_is_left_out(self):
        command = [TOOL, "--workload", "unique", "--requests", "1", "--policy", "all",
                   "--json", "-"]
        made = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        self.assertEqual({policy["name"] for policy in made["policies"]},
                         {*grid.POLICIES, *grid.ALIASES})

    def test_a_name_that_is_left_out_is_another_name_of_a_rule_in_the_list(self):
        command = [TOOL, "--workload", "agents", "--requests", "500", "--rate", "4", "--json", "-",
                   "--policy", ",".join((*grid.POLICIES, *grid.ALIASES))]
        made = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)
        times = {policy["name"]: policy["ttft_mean_s"] for policy in made["policies"]}
        for alias in grid.ALIASES:
            self.assertIn(times[alias], [times[name] for name in grid.POLICIES], alias)

    def test_another_argument_or_another_trace_is_another_run(self):
        names = {grid.Run("a", ("--seed", "1"), "").file_name,
                 grid.Run("a", ("--seed", "2"), "").file_name,
                 grid.Run("a", ("--seed", "1"), "bytes").file_name}
        self.assertEqual(len(names), 3)


class Runs(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.run_1 = grid.Run("run", ("one",), "")

    def tool(self, code):
        path = self.folder / "tool"
        path.write_text(f"#!/bin/sh\necho called >> {self.folder}/calls\n{code}\n")
        path.chmod(0o755)
        return path

    def calls(self):
        path = self.folder / "calls"
        return len(path.read_text().splitlines()) if path.exists() else 0

    def make(self, tool, **options):
        runner = runs.Runner(tool, self.folder / "out", 2, **options)
        with contextlib.redirect_stderr(io.StringIO()):
            return runner, runner.make([self.run_1], "test")

    def test_a_run_is_made_once_and_again_when_its_file_is_damaged(self):
        tool = self.tool("echo '{\"a\": 1}'")
        for _ in range(2):
            runner, results = self.make(tool)
            self.assertEqual(results, {self.run_1: {"a": 1}})
        self.assertEqual(self.calls(), 1)
        (runner.folder / self.run_1.file_name).write_text('{"a"')
        self.assertEqual(self.make(tool)[1], {self.run_1: {"a": 1}})
        self.assertEqual(self.calls(), 2)

    def test_another_build_of_the_simulator_makes_its_own_runs(self):
        self.make(self.tool("echo '{\"a\": 1}'"))
        self.assertEqual(self.make(self.tool("echo '{\"a\": 2}'"))[1], {self.run_1: {"a": 2}})

    def test_a_run_that_fails_is_named_with_its_message(self):
        with self.assertRaisesRegex(runs.RunFailed, "one --json -: exit code 2: no such thing"):
            self.make(self.tool("echo no such thing >&2; exit 2"))

    def test_after_the_time_limit_no_run_is_begun(self):
        self.assertEqual(self.make(self.tool("echo '{}'"), time_limit_s=0)[1], {})
        self.assertEqual(self.calls(), 0)


class Program(unittest.TestCase):
    """The whole program with the real simulator, on a small trace."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        lines = [{"timestamp": 200 * i, "input_length": 1600, "output_length": 20,
                  "session_id": str(i % 9), "hash_ids": [*range(90), 1000 + i % 9, *range(
                      2000 + 9 * i, 2009 + 9 * i)]} for i in range(200)]
        (self.folder / "tiny_blk16.jsonl").write_text("\n".join(map(json.dumps, lines)))

    def call(self, *arguments):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                code = evidence.main(["--tool", TOOL, "--out", str(self.folder / "out"),
                                      "--traces", str(self.folder), "--workloads", "tiny_blk16",
                                      "--instances", "2", "--seeds", "2", *arguments])
            except SystemExit as exit_:
                code = exit_.code
        return code, out.getvalue(), err.getvalue()

    def test_it_is_interrupted_goes_on_and_prints_figures_and_tables(self):
        code, _, err = self.call("--time-limit", "0")
        self.assertEqual(code, 3)
        self.assertIn("0 of ", err)
        code, out, err = self.call("--figures")
        self.assertEqual(code, 0, err)
        values = dict(line.split() for line in out.splitlines() if not line.startswith("#"))
        self.assertEqual(set(values), {
            "ttft_vs_best", "ttft_vs_best_gateway_geomean", "ttft_vs_best_geomean",
            "ttft_vs_random_high_reuse", "p99_vs_best", "stale_4_routers",
            "stale_4_routers_events", "uneven_learned"})
        self.assertTrue(all(0 < float(value) < 100 for value in values.values()), values)
        code, again, _ = self.call("--figures")
        self.assertEqual((code, again), (0, out))
        code, out, _ = self.call()
        self.assertEqual(code, 0)
        self.assertIn("| tiny_blk16 | 2 | 0.9", out)  # blk16: shares are counted in its blocks

    def test_what_is_not_there_is_named(self):
        code, _, err = self.call("--workloads", "chat,nothing")
        self.assertEqual(code, 2)
        self.assertIn("'nothing'", err)
        code, _, err = self.call("--loads", "noon")
        self.assertEqual(code, 2)
        self.assertIn("'noon'", err)
        code, _, err = self.call("--instances", "4,x")
        self.assertEqual(code, 2)
        self.assertIn("4,x", err)
        (self.folder / "cut.jsonl.gz").write_bytes(b"\x1f\x8b\x08\x00not gzip")
        code, _, err = self.call()
        self.assertEqual(code, 1)
        self.assertIn(str(self.folder), err)
        code, _, err = self.call("--tool", "/no/tool")
        self.assertEqual(code, 2)
        self.assertIn("/no/tool", err)


if __name__ == "__main__":
    TOOL = sys.argv.pop(1)
    unittest.main()
