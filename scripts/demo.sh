#!/usr/bin/env bash
# Compares routing policies on a simulated fleet, on the built-in workload or on a trace of yours:
# a table of times to first token, cached share and balance, and a file with plots.
#
# Usage: scripts/demo.sh [TRACE] [options]
#   TRACE    JSON lines, plain or gzip; - is standard input. Without it: a generated agent workload,
#            as fast as the fleet can take it.
#   options  those of `prefixrouter replay`: scripts/demo.sh --help lists them.
set -eu

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$top/scripts/setup.sh"

mkdir -p "$top/build"
log=$top/build/demo.log
if ! (cd "$top" && cmake --preset release -D PREFIX_ROUTER_BUILD_PYTHON=ON &&
  cmake --build --preset release --target prefix_router_python) >"$log" 2>&1 </dev/null; then
  tail -n 40 "$log" >&2
  echo "demo: the build failed; all of its output is in $log" >&2
  exit 1
fi

defaults=(--policy "prefix_cost,sglang_cache_aware,consistent_hash,least_requests,random"
  --html "$top/build/demo.html")
[ $# -gt 0 ] || defaults+=(--level knee)
export PYTHONPATH=$top/build/release/python
exec "$top/build/venv/bin/python" -m prefixrouter replay "${defaults[@]}" "$@"
