#!/usr/bin/env python3
"""Reads the page of print_metrics with the parser of the Prometheus client library, and checks what
Prometheus expects of metrics: names, units, types, complete histograms, no series twice.

Usage: lint_metrics.py PRINT_METRICS
"""

import collections
import math
import re
import subprocess
import sys

from prometheus_client import parser

UNITS_THAT_ARE_NOT_BASE = re.compile(
    r"_(ms|us|ns|millis|milliseconds|microseconds|nanoseconds|minutes|kb|mb|gb|kilobytes|"
    r"megabytes|percent|perc)(_|$)")
ODD_NAME = 'odd "name" \\ of\ntwo lines \u00fc \\xff'

failures = []


def check(condition, message):
    if not condition:
        failures.append(message)


def check_text(page):
    """What the parser does not tell: the order and number of lines."""
    check(page.endswith("\n"), "the last line does not end")
    helped = re.findall(r"^# HELP (\S+) (.*)$", page, re.MULTILINE)
    typed = re.findall(r"^# TYPE (\S+) \S+$", page, re.MULTILINE)
    check([name for name, _ in helped] == typed, "HELP and TYPE do not come in pairs")
    check(len(set(typed)) == len(typed), "a metric comes twice")
    for name, text in helped:
        check(text.endswith("."), f"{name}: the help is no sentence: {text}")
    # The parser hides how a counter is spelled.
    for name, kind in re.findall(r"^# TYPE (\S+) (\S+)$", page, re.MULTILINE):
        check((kind == "counter") == name.endswith("_total"), f"{name} is a {kind}")
    current = None
    for line in page.splitlines():
        if line.startswith("# TYPE "):
            current = line.split()[2]
        elif not line.startswith("#"):
            check(line.startswith(current), f"outside of its metric: {line}")


def check_histogram(family):
    by_labels = collections.defaultdict(list)
    counts = {}
    sums = {}
    for sample in family.samples:
        labels = {k: v for k, v in sample.labels.items() if k != "le"}
        key = tuple(sorted(labels.items()))
        if sample.name.endswith("_bucket"):
            by_labels[key].append((float(sample.labels["le"]), sample.value))
        elif sample.name.endswith("_count"):
            counts[key] = sample.value
        elif sample.name.endswith("_sum"):
            sums[key] = sample.value
    check(by_labels, f"{family.name}: no buckets")
    for key, buckets in by_labels.items():
        check(buckets == sorted(buckets), f"{family.name}: bounds do not ascend")
        values = [value for _, value in buckets]
        check(values == sorted(values), f"{family.name}: buckets are not cumulative")
        check(buckets[-1] == (math.inf, counts[key]), f"{family.name}: +Inf is not the count")
        check(sums[key] > 0, f"{family.name}: no time has passed")


def check_family(family):
    name = family.name
    check(re.fullmatch(r"prefix_router_[a-z][a-z_]*", name), f"{name}: not a name of ours")
    check(family.documentation, f"{name}: no help")
    check(family.type in ("counter", "gauge", "histogram"), f"{name}: type {family.type}")
    check(not UNITS_THAT_ARE_NOT_BASE.search(name), f"{name}: not a base unit")
    check(family.samples, f"{name}: no sample")
    seen = set()
    for sample in family.samples:
        key = (sample.name, tuple(sorted(sample.labels.items())))
        check(key not in seen, f"{key}: twice")
        seen.add(key)
        check(not math.isnan(sample.value), f"{key}: NaN")
        check("model" in sample.labels, f"{key}: without the router's label")
        for label in sample.labels:
            check(re.fullmatch(r"[a-z][a-z_]*", label), f"{name}: label {label}")
            check(label not in ("job", "instance"), f"{name}: label {label} is Prometheus' own")
    if family.type == "histogram":
        check_histogram(family)


def check_values(families):
    values = {}
    for family in families:
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            values[(sample.name, labels)] = sample.value

    def value(name, **labels):
        key = ("prefix_router_" + name, tuple(sorted(labels.items())))
        check(key in values, f"no series {key}")
        return values.get(key, math.nan)

    rules = ("lowest_cost", "near_tie", "only_candidate", "session")
    for model in ("small", "large"):
        placed = [value("decisions_total", model=model, rule=rule) for rule in rules]
        check(sum(placed) == 20, f"{model}: decisions {placed}")
        check(value("prompt_tokens_total", model=model) == 20000, f"{model}: prompt tokens")
        check(value("reported_cached_tokens_total", model=model) == 2000, f"{model}: reported")
        check(value("leases_ended_total", model=model, outcome="finished") == 20, f"{model}: leases")
        check(value("route_duration_seconds_count", model=model) == 20, f"{model}: durations")
    check(value("decisions_total", model="large", rule="only_candidate") == 20, "only candidate")
    one = {"model": "small", "instance_name": "10.0.0.1:8000", "rank": "0"}
    check(value("instance_reported_requests", phase="running", **one) == 3, "reported requests")
    check(value("instance_reported_kv_usage_ratio", **one) == 0.25, "reported KV usage")
    check(1.5 <= value("instance_report_age_seconds", **one) < 60, "report age")
    odd = {"model": "small", "instance_name": ODD_NAME, "rank": "0"}
    check(value("instance_state", state="ready", **odd) == 1, "an instance with an odd name")


def main():
    page = subprocess.run([sys.argv[1]], check=True, stdout=subprocess.PIPE).stdout.decode("utf-8")
    check_text(page)
    families = list(parser.text_string_to_metric_families(page))
    check(len(families) > 30, f"only {len(families)} metrics")
    for family in families:
        check_family(family)
    check_values(families)
    for failure in failures:
        print(failure, file=sys.stderr)
    print(f"{len(families)} metrics, {len(failures)} failures")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
