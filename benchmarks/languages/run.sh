#!/usr/bin/env bash
# Measures what a call of the installed C library costs from Go, Rust and LuaJIT beyond what it costs
# from C. Prints the figure cgo_overhead_ns, and a line of details for each language.
#
# Usage: benchmarks/languages/run.sh PREFIX WORK_DIR
#   PREFIX    where the library is installed
#   WORK_DIR  for what is built
set -euo pipefail

prefix=$(cd "$1" && pwd)
mkdir -p "$2"
work=$(cd "$2" && pwd)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
libdir=$(dirname "$(find "$prefix" -name libprefixrouter_c.so)")
export PKG_CONFIG_PATH=$libdir/pkgconfig LD_LIBRARY_PATH=$libdir:$work

# shellcheck disable=SC2046  # options are words
"${CC:-cc}" -std=c99 -O2 -Wall -Wextra -Werror -shared -fPIC "$here/probe.c" \
  -o "$work/libprefix_router_probe.so" $(pkg-config --cflags --libs prefixrouter-c)

(cd "$here/go" &&
  GOTOOLCHAIN=local GOPROXY=off CGO_LDFLAGS="-L$work" go build -o "$work/benchmark_go" .)
(cd "$here/rust" &&
  PROBE_DIR=$work CARGO_TARGET_DIR=$work/rust cargo build --release --offline --locked --quiet)

"$work/benchmark_go"
"$work/rust/release/prefixrouter-benchmark"
LUA_PATH="$here/../../examples/luajit/?.lua" luajit "$here/luajit/main.lua"
