#!/usr/bin/env bash
# Builds and runs the C and the C++ example against an installed copy: each alone with the CMake
# package, and with pkg-config.
#
# Usage: installed_test.sh SOURCE_DIR PREFIX WORK_DIR
set -euo pipefail

source_dir=$1 prefix=$2 work=$3
rm -rf "$work"
mkdir -p "$work"

say() { echo "-- $*"; }

# run PROGRAM: it says whom it chose and why.
run() {
  LD_LIBRARY_PATH=$prefix/lib "$1" >"$work/output"
  cat "$work/output"
  grep -q 'user 2: 10\.0\.0\.[12]:8000 by lowest_cost, 992 of 1000 tokens cached' "$work/output"
}

libdir=$(dirname "$(find "$prefix" -name prefixrouter.pc)")
export PKG_CONFIG_PATH=$libdir

languages=(cpp)
# A static C library needs C++ to be linked, so that only the project of both languages can use it.
if [[ -e $(find "$prefix" -name libprefixrouter_c.so) ]]; then
  languages+=(c)
else
  say "both examples in one project, with CMake"
  cmake -S "$source_dir/tests/consumer/project" -B "$work/both" -DHOW=find_package \
    -DCMAKE_PREFIX_PATH="$prefix" -DSOURCE_DIR="$source_dir" --log-level=WARNING
  cmake --build "$work/both" >"$work/log" || { cat "$work/log"; exit 1; }
  run "$work/both/consumer_c"
  run "$work/both/consumer_cpp"
fi
for language in "${languages[@]}"; do
  say "examples/$language with CMake"
  cmake -S "$source_dir/examples/$language" -B "$work/$language" -DCMAKE_PREFIX_PATH="$prefix" \
    --log-level=WARNING
  cmake --build "$work/$language" >"$work/log" || { cat "$work/log"; exit 1; }
  run "$work/$language/prefixrouter_example_$language"
done

if [[ -n $(find "$prefix" -name prefixrouter-simulator.cmake) ]]; then
  say "the simulator with CMake"
  cmake -S "$source_dir/tests/consumer/simulator" -B "$work/simulator" \
    -DCMAKE_PREFIX_PATH="$prefix" --log-level=WARNING
  cmake --build "$work/simulator" >"$work/log" || { cat "$work/log"; exit 1; }
  LD_LIBRARY_PATH=$prefix/lib "$work/simulator/simulator_consumer"
elif [[ -e $prefix/include/prefixrouter/simulator.h ]]; then
  echo "a header is installed without its library"
  exit 1
fi

if [[ -n $(find "$prefix" -name prefixrouter-zmq.cmake) ]]; then
  say "the ZeroMQ subscriber with CMake, and with pkg-config"
  cmake -S "$source_dir/tests/consumer/zmq" -B "$work/zmq" \
    -DCMAKE_PREFIX_PATH="$prefix" --log-level=WARNING
  cmake --build "$work/zmq" >"$work/log" || { cat "$work/log"; exit 1; }
  LD_LIBRARY_PATH=$prefix/lib "$work/zmq/zmq_consumer"
  # shellcheck disable=SC2046
  "$CXX" -std=c++17 -Wall -Wextra -Werror "$source_dir/tests/consumer/zmq/main.cc" \
    $(pkg-config --cflags --libs prefixrouter-zmq) -o "$work/zmq_consumer"
  LD_LIBRARY_PATH=$prefix/lib "$work/zmq_consumer"
elif [[ -e $prefix/include/prefixrouter/zmq_subscriber.h ]]; then
  echo "a header is installed without its library"
  exit 1
fi

say "examples/c with pkg-config"
[[ $(pkg-config --modversion prefixrouter-c) == $(pkg-config --modversion prefixrouter) ]]
# shellcheck disable=SC2046  # options are words
"$CC" -std=c99 -pedantic -Wall -Wextra -Werror "$source_dir/examples/c/gateway.c" \
  $(pkg-config --cflags --libs prefixrouter-c) -o "$work/gateway_c"
run "$work/gateway_c"

say "examples/cpp with pkg-config"
# shellcheck disable=SC2046
"$CXX" -std=c++17 -Wall -Wextra -Werror "$source_dir/examples/cpp/gateway.cc" \
  $(pkg-config --cflags --libs prefixrouter) -o "$work/gateway_cpp"
run "$work/gateway_cpp"

say "a version that is not compatible, and a component that is not there, are refused"
cat >"$work/CMakeLists.txt" <<'PROJECT'
cmake_minimum_required(VERSION 3.22)
project(refused LANGUAGES CXX)
find_package(prefixrouter ${WANTED})
if(prefixrouter_FOUND)
  message(FATAL_ERROR "prefixrouter ${WANTED} was found")
endif()
PROJECT
for wanted in "99.0" "COMPONENTS;rust"; do
  cmake -S "$work" -B "$work/refused" -DCMAKE_PREFIX_PATH="$prefix" -DWANTED="$wanted" \
    --log-level=ERROR
done
