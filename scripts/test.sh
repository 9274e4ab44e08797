#!/usr/bin/env bash
# Builds and tests everything: release, address and undefined-behaviour sanitizers, thread
# sanitizer, the Python package, fuzz targets, lock annotations, headers on their own, format, file
# sizes, README, reference. A part that fails does not stop the rest. The last line is "N passed, N
# failed", and the exit code is 1 if anything failed.
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

# build_python PRESET: the extension module, in a package that runs from build/PRESET/python, and
# the program that its tests compare it with.
build_python() {
  cmake --preset "$1" -D PREFIX_ROUTER_BUILD_PYTHON=ON &&
    "${run[@]}" cmake --build --preset "$1" --target prefix_router_python prefix_router_python_oracle
}

# run_pytest NAME PRESET [arguments of pytest]: counts each test of pytest, on the package of a
# build tree. Variables that the tests need are in the array python_environment.
python_environment=()
run_pytest() {
  local name=$1 preset=$2 log=$logs/${1// /-}.log start=$SECONDS status=0 summary
  shift 2
  env "${python_environment[@]}" PYTHONPATH="build/$preset/python" \
    build/venv/bin/python -m pytest -q -ra "$@" >"$log" 2>&1 || status=$?
  # "1 failed, 97 passed, 2 skipped in 3.45s"
  summary=$(grep -E '^[0-9]+ [a-z]+.* in [0-9.]+s' "$log" | tail -n 1)
  count() { grep -oE "[0-9]+ ($1)" <<<"$summary" | awk '{n += $1} END {print n + 0}'; }
  local test_passes test_failures
  test_passes=$(count 'passed')
  test_failures=$(count 'failed|errors?')
  # It ended before its summary, or ran nothing.
  if [ "$status" -ne 0 ] && [ "$test_failures" -eq 0 ]; then test_failures=1; fi
  passed=$((passed + test_passes))
  failed=$((failed + test_failures))
  if [ "$status" -eq 0 ]; then
    echo "passed  $name: ${summary%% in *} ($((SECONDS - start)) s)"
  else
    echo "FAILED  $name: ${summary:-no summary} ($((SECONDS - start)) s); all of the output is in $log:"
    tail -n 40 "$log" | sed 's/^/        /'
  fi
}

sources() {
  find "$@" \( -name '*.h' -o -name '*.cc' -o -name '*.c' \) | sort
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

# check_c_headers CC CXX: each header of the C libraries is enough for itself, in strict C99 and in
# the oldest C++ that has what it needs.
check_c_headers() {
  local header status=0
  for header in capi/prefix_router*.h capi/zmq/prefix_router*.h; do
    "$1" -std=c99 -pedantic -Wall -Wextra -Werror -fsyntax-only -Icapi -include "$header" \
      -x c /dev/null || status=1
    "$2" -std=c++11 -pedantic -Wall -Wextra -Werror -fsyntax-only -Icapi -include "$header" \
      -x c++ /dev/null || status=1
  done
  return $status
}

check_format() {
  sources include lib capi python examples tests benchmarks | xargs clang-format --dry-run -Werror
}

# No source file is over 800 lines.
check_file_sizes() {
  find . \( -path ./build -o -path ./.git \) -prune -o -type f -regextype posix-extended \
    -regex '.*\.(h|cc|c|map|py|pyi|sh|cmake|go|rs|lua|toml|json|txt|md)' -print0 |
    xargs -0 awk 'FNR == 801 { print FILENAME " has more than 800 lines"; long = 1 } END { exit long }'
}

# The examples of the README are the programs that the tests run.
check_readme() {
  local language=$1 program=$2
  diff <(sed -n "/^\`\`\`$language\$/,/^\`\`\`\$/p" README.md | sed '1d;$d') \
    <(sed -n '/^#include/,$p' "$program")
}

# Warnings are errors.
check_reference() {
  mkdir -p build/docs && doxygen docs/Doxyfile
}

# The thread sanitizer cannot place its memory when the kernel randomises addresses widely.
run=()
if setarch "$(uname -m)" -R true 2>/dev/null; then
  run=(setarch "$(uname -m)" -R)
fi

check setup scripts/setup.sh
check "release build" build release && run_tests release
# All tests and the replay tool, which reads files of others; not the benchmarks.
check "asan-ubsan build" build asan-ubsan --target readme_example readme_example_c prefix_router_c_api_doc \
  prefix_router_print_metrics prefix_router_replay prefix_router_simulate \
  prefix_router_{unit,case,stress,replay,simulator,capi,boundary,zmq,zmq_capi}_tests && run_tests asan-ubsan
# What uses threads, and what uses the whole router.
check "tsan build" build tsan --target prefix_router_{stress,case,capi,zmq}_tests &&
  run_tests tsan -L 'stress|cases|zmq'
if check "python build" build_python release; then
  run_pytest "python tests" release -m "not slow"
  run_pytest "python package installed" release -m slow
fi
# Bad input crashes nothing. The sanitizer must be there before Python is, and the C++ library too,
# whose exceptions it looks at. Python itself never frees some of its memory.
if check "python asan-ubsan build" build_python asan-ubsan; then
  python_environment=(
    LD_PRELOAD="$(g++ -print-file-name=libasan.so) $(g++ -print-file-name=libstdc++.so)"
    ASAN_OPTIONS=detect_leaks=0 PYTHONMALLOC=malloc
  )
  run_pytest "python asan-ubsan tests" asan-ubsan -m "not slow" --ignore tests/python/test_stubs.py
fi
# Each fuzz target for some seconds.
check "fuzz build" build fuzz && run_tests fuzz
check "lock annotations" check_thread_safety
check "headers alone with g++" check_headers g++
check "headers alone with clang++" check_headers clang++
check "C headers with gcc and g++" check_c_headers gcc g++
check "C headers with clang" check_c_headers clang clang++
# Other versions of clang-format have other opinions.
if clang-format --version | grep -q 'version 14\.'; then
  check "format" check_format
else
  echo "skipped format: it is that of clang-format 14"
fi
check "file sizes" check_file_sizes
check "README example in C++" check_readme cpp tests/readme_example.cc
check "README example in C" check_readme c tests/readme_example.c
check "code of the C guide" scripts/check_docs.py docs/c_api.md c tests/capi/c_api_doc.c
check "code of the KV events guide" scripts/check_docs.py docs/kv_events.md cpp tests/zmq/kv_events_doc_test.cc
check "reference" check_reference

echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ]
