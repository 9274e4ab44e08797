#!/usr/bin/env bash
# Routes a trace through a fleet of instances and prints how much of the prompts was found cached,
# and how evenly the work was spread, with three policies beside each other.
#
# Usage: scripts/demo.sh [TRACE] [options]
#   TRACE    JSON lines, plain or gzip; - is standard input. Without it: a generated agent workload.
#   options  those of the replay tool: scripts/demo.sh --help lists them.
set -eu

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$top/scripts/setup.sh"

mkdir -p "$top/build"
log=$top/build/demo.log
if ! (cd "$top" && cmake --preset release &&
  cmake --build --preset release --target prefix_router_replay) >"$log" 2>&1 </dev/null; then
  tail -n 40 "$log" >&2
  echo "demo: the build failed; all of its output is in $log" >&2
  exit 1
fi
exec "$top/build/release/benchmarks/replay/prefix-router-replay" "$@"
