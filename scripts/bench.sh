#!/usr/bin/env bash
# Builds the release preset, measures every figure of benchmarks/bars.tsv and prints it beside its
# bar and goal. benchmarks/README.md explains the figures. Takes 7 to 12 minutes on 2 cores; leave the
# machine alone meanwhile.
#
#   scripts/bench.sh [--json FILE] [--check] [--full]
#
#   --json FILE   also write the figures, with machine and commit, to FILE
#   --check       exit with 1 when a bar is missed
#   --full        then run the Google Benchmark suite too (about 15 minutes more); its results go
#                 to build/release/benchmarks.json
set -euo pipefail

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }

report_options=()
full=false
while (($# > 0)); do
  case "$1" in
    --json)
      [[ $# -ge 2 ]] || { echo "bench.sh: --json needs a file name" >&2; exit 2; }
      [[ $2 == /* ]] && file=$2 || file=$PWD/$2
      report_options+=(--json "$file")
      shift
      ;;
    --check) report_options+=(--check) ;;
    --full) full=true ;;
    -h | --help) usage; exit 0 ;;
    *) echo "bench.sh: unknown argument $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done

cd "$(dirname "$0")/.."

# Programs that print figures as lines `name value`. Their output is kept in build/release.
programs=(prefix_router_ratios)
targets=("${programs[@]}" prefix_router_simulate prefix_router_python prefix_router_python_reference)
if $full; then targets+=(prefix_router_benchmarks); fi

scripts/setup.sh >&2
cmake --preset release -D PREFIX_ROUTER_BUILD_PYTHON=ON >&2
cmake --build --preset release --target "${targets[@]}" >&2

build=build/release
outputs=()
for program in "${programs[@]}"; do
  "$build/benchmarks/$program" > "$build/$program.txt"
  outputs+=("$build/$program.txt")
done
PYTHONPATH=$build/python build/venv/bin/python benchmarks/python_ratios.py \
  --reference "$build/benchmarks/libprefix_router_python_reference.so" > "$build/python_ratios.txt"
outputs+=("$build/python_ratios.txt")
# The installed C library, from other languages.
cmake --build --preset release --target \
  prefixrouter prefixrouter_capi prefixrouter_simulator prefixrouter_zmq prefixrouter_zmq_capi >&2
cmake --install "$build" --prefix "$build/languages/prefix" >&2
benchmarks/languages/run.sh "$build/languages/prefix" "$build/languages" > "$build/languages.txt"
outputs+=("$build/languages.txt")

# Simulations, on all cores: a fixed sample of what scripts/evidence.sh makes.
python3 benchmarks/evidence/evidence.py --sample --figures > "$build/evidence.txt"
outputs+=("$build/evidence.txt")
status=0
python3 benchmarks/ratios.py "${report_options[@]}" "${outputs[@]}" || status=$?

if $full; then
  "$build/benchmarks/prefix_router_benchmarks" \
    --benchmark_min_time=0.01 --benchmark_repetitions=10 --benchmark_report_aggregates_only=true \
    --benchmark_out="$build/benchmarks.json" --benchmark_out_format=json
fi
exit $status
