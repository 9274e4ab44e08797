#!/usr/bin/env bash
# Builds, tests and runs the example of a language against an installed copy.
#
# Usage: language_test.sh go|rust|luajit SOURCE_DIR PREFIX WORK_DIR
set -euo pipefail

language=$1 source_dir=$2 prefix=$3 work=$4
libdir=$(dirname "$(find "$prefix" -name libprefixrouter_c.so)")
export PKG_CONFIG_PATH=$libdir/pkgconfig
rm -rf "$work"
mkdir -p "$work"
cd "$source_dir/examples/$language"

case $language in
  go)
    export LD_LIBRARY_PATH=$libdir GOTOOLCHAIN=local GOFLAGS=-mod=mod GOPROXY=off
    unformatted=$(gofmt -l .)
    [[ -z $unformatted ]] || { echo "not as gofmt writes them: $unformatted"; exit 1; }
    go vet ./...
    go test -count=1 ./...
    go build -o "$work/gateway" .
    program=("$work/gateway")
    ;;
  rust)
    unset LD_LIBRARY_PATH  # build.rs has to see to it
    export CARGO_TARGET_DIR=$work RUSTFLAGS="-D warnings"
    cargo test --offline --locked --quiet
    cargo build --offline --locked --quiet
    program=("$work/debug/gateway")
    ;;
  luajit)
    export LD_LIBRARY_PATH=$libdir
    luajit prefixrouter_test.lua
    program=(luajit gateway.lua)
    ;;
esac

"${program[@]}" | tee "$work/output"
grep -q '^no instance yet, a gateway answers 503: there is no instance' "$work/output"
grep -q '^user 2: 10\.0\.0\.[12]:8000 by lowest_cost, 992 of 1000 tokens cached' "$work/output"
grep -q '^6 requests, 7[0-9] % of their tokens cached' "$work/output"
