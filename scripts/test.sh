#!/usr/bin/env bash
# Builds and tests everything: release, address and undefined-behaviour sanitizers, thread
# sanitizer, fuzz targets, lock annotations, headers on their own, format, README. A part that fails
# does not stop the rest. The last line is "N passed, N failed", and the exit code is 1 if anything
# failed.
#
# Usage: scripts/test.sh
set -u

cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1
jobs=$(nproc)
logs=build/test-logs
mkdir -p "$logs"
passed=0
failed=0

# check NAME COMMAND...: one check, counted as passed or failed. Its output goes to a log, whose end
# is shown when it fails.
check() {
  local name=$1 log=$logs/${1// /-}.log start=$SECONDS
  shift
  if "$@" >"$log" 2>&1; then
    passed=$((passed + 1))
    echo "passed  $name ($((SECONDS - start)) s)"
  else
    failed=$((failed + 1))
    echo "FAILED  $name ($((SECONDS - start)) s); all of the output is in $log:"
    tail -n 40 "$log" | sed 's/^/        /'
    return 1
  fi
}

# run_tests PRESET [ctest arguments]: counts each test of ctest.
run_tests() {
  local preset=$1 log=$logs/$1-tests.log start=$SECONDS summary
  shift
  "${run[@]}" ctest --preset "$preset" -j "$jobs" --no-tests=error "$@" >"$log" 2>&1
  # "97% tests passed, 3 tests failed out of 100"
  summary=$(sed -n 's/.*tests passed, \([0-9]*\) tests failed out of \([0-9]*\).*/\1 \2/p' "$log")
  if [ -z "$summary" ]; then
    failed=$((failed + 1))
    echo "FAILED  $preset tests: ctest did not finish; all of the output is in $log:"
    tail -n 40 "$log" | sed 's/^/        /'
    return
  fi
  local test_failures=${summary% *} test_count=${summary#* } verdict=passed
  passed=$((passed + test_count - test_failures))
  failed=$((failed + test_failures))
  [ "$test_failures" -eq 0 ] || verdict=FAILED
  echo "$verdict  $preset tests: $test_count, $test_failures failed ($((SECONDS - start)) s)"
  if [ "$test_failures" -gt 0 ]; then
    echo "        all of the output is in $log:"
    sed -n '/The following tests FAILED/,$p' "$log" | sed 's/^/        /'
  fi
}

# build PRESET [arguments of cmake --build]
build() {
  local preset=$1
  shift
  cmake --preset "$preset" && "${run[@]}" cmake --build --preset "$preset" "$@"
}

sources() {
  find "$@" \( -name '*.h' -o -name '*.cc' \) | sort
}

# Locks are annotated, and clang proves that what they guard is only touched under them.
check_thread_safety() {
  local file status=0
  for file in $(sources lib | grep '\.cc$'); do
    clang++ -std=c++20 -fsyntax-only -Wthread-safety -Werror -Iinclude -I. "$file" || status=1
  done
  return $status
}

# check_headers COMPILER: each public header is enough for itself, in C++17.
check_headers() {
  local header status=0
  for header in $(sources include); do
    "$1" -std=c++17 -Wall -Wextra -Werror -fsyntax-only -Iinclude -include "$header" \
      -x c++ /dev/null || status=1
  done
  return $status
}

check_format() {
  sources include lib tests benchmarks | xargs clang-format --dry-run -Werror
}

# The example of the README is the program that the tests run.
check_readme() {
  diff <(sed -n '/^```cpp$/,/^```$/p' README.md | sed '1d;$d') \
    <(sed -n '/^#include/,$p' tests/readme_example.cc)
}

# The thread sanitizer cannot place its memory when the kernel randomises addresses widely.
run=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
  run=(setarch "$(uname -m)" -R)
fi

check setup scripts/setup.sh
check "release build" build release && run_tests release
# All tests and the replay tool, which reads files of others; not the benchmarks.
check "asan-ubsan build" build asan-ubsan --target readme_example prefix_router_print_metrics prefix_router_replay \
  prefix_router_simulate prefix_router_{unit,case,stress,replay,simulator}_tests && run_tests asan-ubsan
# What uses threads, and what uses the whole router.
check "tsan build" build tsan --target prefix_router_stress_tests prefix_router_case_tests &&
  run_tests tsan -L 'stress|cases'
# Each fuzz target for some seconds.
check "fuzz build" build fuzz && run_tests fuzz
check "lock annotations" check_thread_safety
check "headers alone with g++" check_headers g++
check "headers alone with clang++" check_headers clang++
# Other versions of clang-format have other opinions.
if clang-format --version | grep -q 'version 14\.'; then
  check "format" check_format
else
  echo "skipped format: it is that of clang-format 14"
fi
check "README example" check_readme

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
