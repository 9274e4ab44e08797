"""From the outputs of runs to ratios: the mean over the seeds first, then what is divided.

A ratio above 1 says that the default policy is worse than what it is divided by.
"""

import dataclasses
import math

from grid import DEFAULT

HIGH_REUSE = 0.5  # best possible share of cached tokens from which a cell counts as one of reuse
LOW_REUSE = 0.1   # and below which it is a control
METRICS = ("ttft_mean_s", "ttft_p50_s", "ttft_p90_s", "ttft_p99_s", "cached_token_share",
           "best_possible_share")


@dataclasses.dataclass(frozen=True)
class Figures:
    """Of one policy in one cell, each the mean over the seeds."""
    kind: str  # router, gateway, research
    ttft_mean_s: float
    ttft_p50_s: float
    ttft_p90_s: float
    ttft_p99_s: float
    cached_token_share: float
    best_possible_share: float


def of_cell(outputs):
    """{policy: Figures} of a cell from the outputs of its seeds."""
    by_policy = {}
    for output in outputs:
        served = {(policy["requests"], policy["rejected"]) for policy in output["policies"]}
        if len(served) != 1:
            raise ValueError(f"{output['trace']}: policies served different requests: {served}")
        for policy in output["policies"]:
            by_policy.setdefault(policy["name"], []).append(policy)
    return {name: Figures(seeds[0]["kind"],
                          *(math.fsum(seed[metric] for seed in seeds) / len(seeds)
                            for metric in METRICS))
            for name, seeds in by_policy.items()}


@dataclasses.dataclass(frozen=True)
class Ratio:
    value: float
    against: str = ""  # the policy, or "" where it is clear
    cell: object = None

    def __str__(self):
        against = f" against {self.against}" if self.against else ""
        return f"{self.value:.3f}{against} in {self.cell}"


def against_best(cell, policies, metric="ttft_mean_s", kind=None):
    """The default / the lowest of the others, or of those of a kind."""
    others = [name for name, figures in policies.items()
              if name != DEFAULT and kind in (None, figures.kind)]
    best = min(others, key=lambda name: getattr(policies[name], metric))
    return Ratio(getattr(policies[DEFAULT], metric) / getattr(policies[best], metric), best, cell)


def against(cell, policies, other, metric="ttft_mean_s"):
    value = getattr(policies[DEFAULT], metric) / getattr(policies[other], metric)
    return Ratio(value, other, cell)


def between(cell, policies, base, metric="ttft_mean_s"):
    """The default in one cell / the default in another."""
    return Ratio(getattr(policies[DEFAULT], metric) / getattr(base[DEFAULT], metric), "", cell)


def geomean(ratios):
    return math.exp(math.fsum(math.log(ratio.value) for ratio in ratios) / len(ratios))


def worst(ratios):
    return max(ratios, key=lambda ratio: ratio.value)


def best_possible(policies):
    return policies[DEFAULT].best_possible_share


@dataclasses.dataclass
class Figure:
    """A figure of bars.tsv with what is behind it."""
    name: str
    value: float
    details: list


def worst_of(name, ratios, bar):
    beyond = sorted((ratio for ratio in ratios if ratio.value > bar), key=lambda r: -r.value)
    details = [f"worst of {len(ratios)} cells: {worst(ratios)}; geometric mean "
               f"{geomean(ratios):.3f}; {len(beyond)} above {bar:g}"]
    details += [f"also {ratio}" for ratio in beyond[1:5]]
    return Figure(name, worst(ratios).value, details)


def geomean_of(name, ratios):
    return Figure(name, geomean(ratios), [f"{len(ratios)} cells; worst {worst(ratios)}"])


def figures(cells, bars):
    """The figures that these cells allow.

    cells: {Cell: {policy: Figures}}. bars: {name: bar}, for what is counted as beyond it.
    """
    def group(name):
        return {cell: policies for cell, policies in cells.items() if cell.group == name}

    def twin(cell, name):
        return next((policies for other, policies in group(name).items()
                     if (other.workload, other.instances, other.load, other.engine)
                     == (cell.workload, cell.instances, cell.load, cell.engine)), None)

    made = []
    main = group("main")
    if main:
        best = [against_best(*item) for item in main.items()]
        gateway = [against_best(*item, kind="gateway") for item in main.items()]
        p99 = [against_best(*item, metric="ttft_p99_s") for item in main.items()]
        made += [worst_of("ttft_vs_best", best, bars["ttft_vs_best"]),
                 geomean_of("ttft_vs_best_gateway_geomean", gateway),
                 geomean_of("ttft_vs_best_geomean", best)]
        high = {cell: policies for cell, policies in main.items()
                if best_possible(policies) >= HIGH_REUSE and cell.load == "knee"}
        if high:
            name = "ttft_vs_random_high_reuse"
            figure = worst_of(name, [against(*item, "random") for item in high.items()], bars[name])
            p50 = [against(*item, "random", "ttft_p50_s") for item in high.items()]
            p90 = [against(*item, "random", "ttft_p90_s") for item in high.items()]
            less = [str(b.cell) for a, b in zip(p50, p90) if b.value > a.value]
            figure.details.append(f"geometric mean of P50 {geomean(p50):.3f}, of P90 "
                                  f"{geomean(p90):.3f}; P90 is cut by less than P50 in "
                                  f"{len(less)} cells" + (": " if less else "") + "; ".join(less))
            made.append(figure)
        low = {cell: policies for cell, policies in main.items()
               if best_possible(policies) < LOW_REUSE}
        if low:
            name = "low_reuse_vs_least_requests"
            made.append(worst_of(name, [against(*item, "least_requests") for item in low.items()],
                                 bars[name]))
        made.append(worst_of("p99_vs_best", p99, bars["p99_vs_best"]))
    pairs = (("stale_4_routers", "stale", "main"),
             ("stale_4_routers_events", "stale_events", "main"),
             ("uneven_learned", "uneven", "told"))
    for name, changed, base in pairs:
        ratios = [between(cell, policies, twin(cell, base))
                  for cell, policies in group(changed).items() if twin(cell, base)]
        if ratios:
            made.append(geomean_of(name, ratios))
    return made
