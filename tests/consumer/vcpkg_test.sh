#!/usr/bin/env bash
# The vcpkg port, without vcpkg: its portfile is run with functions that stand for vcpkg's
# (vcpkg/run_portfile.cmake), and what its `usage` says is done with the package that it makes.
#
# Usage: vcpkg_test.sh SOURCE_DIR WORK_DIR
set -euo pipefail

source_dir=$1 work=$2
port=$source_dir/packaging/vcpkg
rm -rf "$work"
mkdir -p "$work"

say() { echo "-- $*"; }

say "the manifest is that of the library"
python3 - "$source_dir" "$port" <<'PYTHON'
import json
import pathlib
import re
import sys

source, port = map(pathlib.Path, sys.argv[1:])
manifest = json.loads((port / "vcpkg.json").read_text())
header = (source / "include" / "prefixrouter" / "version.h").read_text()
version = re.search(r'PREFIX_ROUTER_VERSION_STRING "(.*)"', header)[1]
assert manifest["version"] == version, f"vcpkg.json: {manifest['version']}, library: {version}"
names = [d if isinstance(d, str) else d["name"] for d in manifest["dependencies"]]
assert names == sorted(names) == [
    "abseil", "msgpack", "nlohmann-json", "vcpkg-cmake", "vcpkg-cmake-config", "xxhash"], names
PYTHON

say "portfile.cmake"
cmake -DPORT_DIR="$port" -DLINKAGE=dynamic -DPACKAGE_DIR="$work/package" -DBUILD_DIR="$work/build" \
  -P "$source_dir/tests/consumer/vcpkg/run_portfile.cmake" >"$work/log" 2>&1 ||
  { cat "$work/log"; exit 1; }
for file in lib/libprefixrouter.so lib/libprefixrouter_c.so share/prefixrouter/usage \
  share/prefixrouter/copyright; do
  [[ -e $work/package/$file ]] || { echo "the package has no $file"; exit 1; }
done

# consumer LANGUAGE TARGET EXAMPLE: the lines of `usage` for a target, around an example.
consumer() {
  local language=$1 target=$2 example=$3 dir=$work/$1
  mkdir -p "$dir"
  {
    echo "cmake_minimum_required(VERSION 3.22)"
    echo "project(consumer LANGUAGES $language)"
    grep '^  find_package' "$port/usage"
    echo "add_executable(main $example)"
    grep "^  target_link_libraries.* $target)" "$port/usage"
  } >"$dir/CMakeLists.txt"
  cmake -S "$dir" -B "$dir/build" -DCMAKE_PREFIX_PATH="$work/package" --log-level=WARNING
  cmake --build "$dir/build" >"$work/log" || { cat "$work/log"; exit 1; }
  LD_LIBRARY_PATH=$work/package/lib "$dir/build/main" | tee "$work/output"
  grep -q '^user 2: .* 992 of 1000 tokens cached' "$work/output"
}
say "usage, in C"
consumer C prefixrouter::capi "$source_dir/examples/c/gateway.c"
say "usage, in C++"
consumer CXX prefixrouter::prefixrouter "$source_dir/examples/cpp/gateway.cc"
