"""Which simulations the evidence is made of.

A cell is a workload on a fleet at a load. All of its policies meet the same requests, for each of
several seeds. Groups of cells:

  main    every workload, 4, 8 and 32 instances, 3 loads; all policies
  engine  the same question on another engine model and GPU, a part of the cells
  closed  workloads with sessions whose later turns wait for the answer before
  stale   four routers, each of which sees the others' requests in engine metrics alone, and these
          100 ms late; the default policy
  stale_events
          the same with KV events, which reach all routers 20 ms late
  rivals  the same with the policies of STALE_POLICIES; a part of the cells
  uneven  instances of speed 1, 1, 2, 4, whose speeds the router learns (uneven) or is told (told);
          the default policy, requests of the first fifth not counted

Nothing here is chosen by results: the same loads, instances and seeds everywhere.
"""

import dataclasses
import hashlib
import pathlib
import re

GENERATORS = ("shared_prompts", "chat", "agents", "unique", "bursts")
INSTANCES = (4, 8, 32)
PART_INSTANCES = 8  # the fleet of groups that are made of a part of the cells
LOADS = ("half", "knee", "past")
ENGINE = "llama-70b-8xh100"
OTHER_ENGINE = "llama-8b-h100-roofline"
DEFAULT = "prefix_cost"
# All that the simulator knows, but for the router's own names of rules that are in the list already.
POLICIES = (DEFAULT, "random", "round_robin", "least_requests", "least_tokens", "power_of_two",
            "sglang_cache_aware", "smg_cache_aware", "sagemaker_prefix", "dynamo_kv",
            "llmd_weighted", "llmd_affinity", "aibrix_prefix", "ray_prefix", "kubeai_chwbl",
            "production_stack", "lpwl", "multiplicative", "consistent_hash", "weighted")
ALIASES = ("cache_threshold", "prefix_hash", "block_cost")
STALE_POLICIES = (DEFAULT, "least_requests", "smg_cache_aware", "dynamo_kv", "llmd_weighted",
                  "lpwl", "multiplicative")
SPEEDS = (1, 1, 2, 4)
WARM_UP_SHARE = 0.2
GROUPS = ("main", "engine", "closed", "stale", "stale_events", "rivals", "uneven")
# Generators whose requests have sessions; traces are looked into.
SESSION_GENERATORS = ("chat", "agents")


@dataclasses.dataclass(frozen=True)
class Workload:
    name: str                        # short, for tables
    arguments: tuple                 # of prefix-router-simulate
    sessions: bool                   # it has sessions, so a closed loop means something
    digest: str = ""                 # of a trace's bytes


@dataclasses.dataclass(frozen=True)
class Cell:
    group: str  # of GROUPS, or "told"
    workload: Workload
    instances: int
    load: str
    engine: str = ENGINE

    def __str__(self):
        text = f"{self.workload.name}, {self.instances} instances, {self.load}"
        return text if self.group == "main" else f"{text} ({self.group})"


@dataclasses.dataclass(frozen=True)
class Run:
    """One call of prefix-router-simulate. Equal runs give equal output, so it is made once."""
    label: str
    arguments: tuple
    digest: str

    @property
    def file_name(self):
        key = hashlib.sha256("\0".join((*self.arguments, self.digest)).encode()).hexdigest()
        return f"{self.label}-{key[:12]}.json"


def generated(name):
    return Workload(name, ("--workload", name), name in SESSION_GENERATORS)


def trace(path):
    """A trace file. "blk16" in its name: a hash id stands for 16 tokens instead of 512."""
    import gzip
    data = path.read_bytes()
    text = gzip.decompress(data) if path.suffix == ".gz" else data
    name = path.name.partition(".jsonl")[0]
    arguments = [str(path)]
    if block := re.search(r"blk(\d+)", name):
        arguments += ["--trace-block", block[1]]
    return Workload(name, tuple(arguments), b'"session_id"' in text[:100_000],
                    hashlib.sha256(data).hexdigest())


def workloads(trace_dir):
    """The generators, then the traces of trace_dir by name."""
    found = sorted(pathlib.Path(trace_dir).glob("*.jsonl*")) if trace_dir else []
    return [generated(name) for name in GENERATORS] + [trace(path) for path in found]


def cells(chosen, instances=INSTANCES, loads=LOADS, groups=GROUPS, sample=False):
    """The cells of these workloads and groups.

    sample: a third of them, a Latin square: each workload meets each load and each number of
    instances once.
    """
    made = []
    for w, workload in enumerate(chosen):
        for n, count in enumerate(instances):
            for l, load in enumerate(loads):
                if sample and (w + n + l) % 3:
                    continue
                if "main" in groups:
                    made.append(Cell("main", workload, count, load))
                if "stale" in groups:
                    made.append(Cell("stale", workload, count, load))
                if "stale_events" in groups:
                    made.append(Cell("stale_events", workload, count, load))
                if "uneven" in groups:
                    made.append(Cell("uneven", workload, count, load))
                    made.append(Cell("told", workload, count, load))
                if sample or count != PART_INSTANCES:
                    continue
                if "engine" in groups:
                    made.append(Cell("engine", workload, count, load, OTHER_ENGINE))
                if "closed" in groups and workload.sessions:
                    made.append(Cell("closed", workload, count, load))
                if "rivals" in groups:
                    made.append(Cell("rivals", workload, count, load))
    return made


def levels_run(cell):
    """Finds the arrival rates of the loads, with an even fleet and perfect signals."""
    arguments = ("--engine", cell.engine, "--instances", str(cell.instances), "--seed", "1",
                 "--policy", "least_requests", "--level", "knee")
    return Run(f"levels-{cell.workload.name}-{cell.instances}", cell.workload.arguments + arguments,
               cell.workload.digest)


def cell_run(cell, seed, levels):
    """The cell with one seed. levels: the output of levels_run(cell)."""
    rate = levels["levels"][cell.load]
    policies = POLICIES
    extra = ()
    if cell.group in ("stale", "stale_events", "rivals"):
        policies = STALE_POLICIES if cell.group == "rivals" else (DEFAULT,)
        extra = ("--routers", "4", "--metrics-age", "0.1")
        if cell.group == "stale_events":
            extra += ("--kv-events", "--kv-event-delay", "0.02")
    elif cell.group == "closed":
        extra = ("--closed-loop",)
    elif cell.group in ("uneven", "told"):
        policies = (DEFAULT,)
        rate *= sum(SPEEDS) / len(SPEEDS)  # the same load for each unit of speed
        span_s = levels["span_s"] * levels["rate"] / rate
        extra = ("--speeds", ",".join(map(str, SPEEDS)),
                 "--measure-from", f"{WARM_UP_SHARE * span_s:.6g}")
        if cell.group == "told":
            extra += ("--configured-speeds",)
    arguments = ("--engine", cell.engine, "--instances", str(cell.instances), "--seed", str(seed),
                 "--policy", ",".join(policies), "--rate", f"{rate:.6g}", *extra)
    label = f"{cell.group}-{cell.workload.name}-{cell.instances}-{cell.load}-{seed}"
    return Run(label, cell.workload.arguments + arguments, cell.workload.digest)
