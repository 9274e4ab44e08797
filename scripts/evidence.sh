#!/usr/bin/env bash
# Builds the simulator and compares the default policy with all others on a grid of simulations
# (docs/policy.md). Prints Markdown. Can be interrupted: what is done is kept in build/evidence.
#
# Usage: scripts/evidence.sh [--sample] [--seeds N] [--workloads NAME,...] [--instances N,...] ...
#        scripts/evidence.sh --help lists the options.
set -eu

cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup.sh >&2
cmake --preset release >&2
cmake --build --preset release --target prefix_router_simulate >&2
exec python3 benchmarks/evidence/evidence.py "$@"
