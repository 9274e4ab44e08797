"""The evidence as text: lines `name value` for benchmarks/ratios.py, and tables in Markdown."""

from figures import (against, against_best, between, best_possible, geomean, worst)
from grid import DEFAULT, LOADS


def lines(figures, notes):
    """What benchmarks/ratios.py reads. notes: said of the first figure."""
    text = []
    for figure in figures:
        text.append(f"{figure.name} {figure.value:.6g}")
        text += [f"# {figure.name} {detail}" for detail in figure.details]
        text += [f"# {figure.name} {note}" for note in notes if figure is figures[0]]
    return "\n".join(text) + "\n"


def table(header, rows):
    """A Markdown table; columns after the first are right-aligned where they hold numbers."""
    text = ["| " + " | ".join(header) + " |", "|" + " --- |" * len(header)]
    text += ["| " + " | ".join(row) + " |" for row in rows]
    return "\n".join(text) + "\n"


def group(cells, name):
    return {cell: policies for cell, policies in cells.items() if cell.group == name}


def figure_table(figures, bars):
    rows = []
    for figure in figures:
        bar = bars[figure.name]
        rows.append((f"`{figure.name}`", f"{figure.value:.3f}", f"≤ {bar:g}",
                     "met" if figure.value <= bar else "**missed**", figure.details[0]))
    return table(("figure", "measured", "bar", "", ""), rows)


def fleets(cells):
    """{(workload name, instances): {load: (cell, policies)}}, in the cells' order."""
    found = {}
    for cell, policies in cells.items():
        key = (cell.workload.name, cell.instances)
        found.setdefault(key, {})[cell.load] = (cell, policies)
    return found


def at_loads(loads, ratio):
    """The ratio at each load, as "a / b / c"."""
    return " / ".join(f"{ratio(*loads[load]).value:.2f}" if load in loads else "-"
                      for load in LOADS)


def cell_table(cells):
    """A row for each workload and fleet; ratios of the default at half, knee and past."""
    rows = []
    for (name, instances), loads in fleets(cells).items():
        policies = next(iter(loads.values()))[1]
        def p99(cell, policies):
            return against_best(cell, policies, "ttft_p99_s")
        def gateway(cell, policies):
            return against_best(cell, policies, kind="gateway")
        def random(cell, policies):
            return against(cell, policies, "random")
        rows.append((name, str(instances), f"{best_possible(policies):.2f}",
                     at_loads(loads, against_best), at_loads(loads, gateway),
                     at_loads(loads, p99), at_loads(loads, random)))
    return table(("workload", "instances", "best share", "best other", "best gateway rule",
                  "p99, best other", "random"), rows)


def beyond_table(cells, metric, bar):
    """The cells in which another policy is better by more than the bar."""
    ratios = [against_best(cell, policies, metric) for cell, policies in cells.items()]
    rows = []
    for ratio in sorted(ratios, key=lambda ratio: -ratio.value):
        if ratio.value > bar:
            policies = cells[ratio.cell]
            rows.append((str(ratio.cell), f"{ratio.value:.3f}", f"`{ratio.against}`",
                         f"{getattr(policies[DEFAULT], metric):.3f}",
                         f"{getattr(policies[ratio.against], metric):.3f}",
                         f"{policies[DEFAULT].cached_token_share:.3f}",
                         f"{policies[ratio.against].cached_token_share:.3f}"))
    return table(("cell", "ratio", "against", f"`{DEFAULT}` s", "s", f"`{DEFAULT}` cached",
                  "cached"), rows) if rows else "None.\n"


def policy_table(cells):
    """Each policy against the best of all in each cell, the default included."""
    rows = []
    for name in next(iter(cells.values())):
        logs = {}
        for metric in ("ttft_mean_s", "ttft_p99_s"):
            logs[metric] = []
            for cell, policies in cells.items():
                least = min(getattr(figures, metric) for figures in policies.values())
                logs[metric].append((getattr(policies[name], metric) / least, cell))
        means = [Plain(value) for value, _ in logs["ttft_mean_s"]]
        p99 = [Plain(value) for value, _ in logs["ttft_p99_s"]]
        top = max(logs["ttft_mean_s"], key=lambda item: item[0])
        first = sum(value <= 1 for value, _ in logs["ttft_mean_s"])
        near = sum(value <= 1.05 for value, _ in logs["ttft_mean_s"])
        rows.append((geomean(means), (f"`{name}`", f"{geomean(means):.3f}", f"{top[0]:.2f}",
                                      str(top[1]), str(first), str(near), f"{geomean(p99):.3f}")))
    rows.sort(key=lambda row: row[0])
    return table(("policy", "mean TTFT / best", "worst", "where", "cells best",
                  "cells within 5 %", "p99 / best"), [row for _, row in rows])


class Plain:
    """A number where a ratio is expected."""
    def __init__(self, value):
        self.value = value


def twins(cells, name, base):
    """[(cell, policies, policies of the same cell in the group base)]"""
    other = {(c.workload, c.instances, c.load): policies for c, policies in
             group(cells, base).items()}
    return [(cell, policies, other[key]) for cell, policies in group(cells, name).items()
            if (key := (cell.workload, cell.instances, cell.load)) in other]


def stale_table(cells):
    """What signals that are late and partial cost each policy, and how the default compares."""
    found = twins(cells, "rivals", "main")
    if not found:
        return ""
    rows = []
    for name in found[0][1]:
        own = [Plain(stale[name].ttft_mean_s / exact[name].ttft_mean_s)
               for _, stale, exact in found]
        default = [Plain(stale[DEFAULT].ttft_mean_s / stale[name].ttft_mean_s)
                   for _, stale, _ in found]
        rows.append((f"`{name}`", f"{geomean(own):.3f}", f"{worst(own).value:.2f}",
                     f"{geomean(default):.3f}", f"{worst(default).value:.2f}"))
    return table(("policy", "its own TTFT, late / exact", "worst",
                  f"`{DEFAULT}` / it, both late", "worst"), rows)


def twin_table(cells, name, base):
    """The default in one group / in another, at the three loads."""
    rows, seen = [], {}
    for cell, policies, other in twins(cells, name, base):
        key = (cell.workload.name, cell.instances)
        seen.setdefault(key, {})[cell.load] = between(cell, policies, other)
    for (workload, instances), loads in seen.items():
        rows.append((workload, str(instances),
                     " / ".join(f"{loads[load].value:.2f}" if load in loads else "-"
                                for load in LOADS)))
    return table(("workload", "instances", "half / knee / past"), rows)


def markdown(cells, figures, bars, notes):
    """Everything, for docs/policy.md."""
    parts = ["".join(f"{note}\n" for note in notes), figure_table(figures, bars)]
    def add(title, *texts):
        parts.append(f"### {title}\n")
        parts.extend(text for text in texts if text)
    main = group(cells, "main")
    if main:
        add(f"`{DEFAULT}` divided by others, mean time to first token",
            "At half / knee / past.\n", cell_table(main))
        add(f"Cells where another policy's mean is lower by more than "
            f"{bars['ttft_vs_best'] - 1:.0%}",
            beyond_table(main, "ttft_mean_s", bars["ttft_vs_best"]))
        add(f"Cells where another policy's p99 is lower by more than "
            f"{bars['p99_vs_best'] - 1:.0%}",
            beyond_table(main, "ttft_p99_s", bars["p99_vs_best"]))
        add("Each policy against the best in each cell", policy_table(main))
    for name, title in (("engine", "Another engine model and GPU"),
                        ("closed", "Closed loop")):
        if of_group := group(cells, name):
            add(title, cell_table(of_group), policy_table(of_group))
    if group(cells, "stale"):
        add("Four routers, metrics 100 ms old",
            f"`{DEFAULT}`, late / exact:\n", twin_table(cells, "stale", "main"), stale_table(cells))
    if group(cells, "stale_events"):
        add("The same with KV events, 20 ms late",
            f"`{DEFAULT}`, late with KV events / exact:\n",
            twin_table(cells, "stale_events", "main"))
    if group(cells, "uneven"):
        add("Speeds 1, 1, 2, 4: learned / configured", twin_table(cells, "uneven", "told"))
    return "\n".join(parts)
