#!/usr/bin/env bash
# Installs what building and testing need, and only what is missing. On Debian and Ubuntu with
# apt-get, as root or through sudo; elsewhere it says what to install. Safe to run any number of
# times: when everything is there it only looks, and needs no network.
#
# Usage: scripts/setup.sh
set -eu

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

packages=(
  cmake ninja-build g++ pkg-config
  clang clang-format clang-tidy             # checks of scripts/test.sh
  libclang-rt-dev                           # the fuzz targets
  libabsl-dev libxxhash-dev libmsgpack-cxx-dev nlohmann-json3-dev  # the library
  libzmq3-dev                               # the ZeroMQ subscriber
  catch2                                    # the tests
  libbenchmark-dev                          # the benchmarks
  libcli11-dev zlib1g-dev                   # the simulator and its tools
  python3                                   # checks of the replay tool's JSON
  abigail-tools doxygen                     # ABI of the C library, reference of the API
  python3-dev python3-venv                  # the Python package
  luajit2                                   # the examples in other languages
)
# Often there from elsewhere, in a newer version.
command -v go >/dev/null || packages+=(golang-go)
command -v cargo >/dev/null || packages+=(cargo)
# A service, which would be started: tested where it is, installed only for continuous integration.
[ -z "${CI:-}" ] || packages+=(nginx libnginx-mod-http-lua)
# From the Python package index, into build/venv: what builds the Python package, and its tests.
python_packages=(
  "pybind11>=3" scikit-build-core build
  pytest hypothesis numpy mypy
  tqdm plotly  # progress and plots of its command line
  pyzmq msgpack  # publish KV events in its tests
  prometheus_client  # reads the router's metrics in a test
  "conan>=2.0.9"  # tests of the Conan package
)

say() { echo "setup: $*" >&2; }

installed() {
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

install_packages() {
  local missing=() package as_root=()
  for package in "${packages[@]}"; do
    installed "$package" || missing+=("$package")
  done
  [ ${#missing[@]} -gt 0 ] || return 0

  if [ "$(id -u)" -ne 0 ]; then
    if ! command -v sudo >/dev/null; then
      say "missing, and neither root nor sudo to install it: ${missing[*]}"
      return 1
    fi
    as_root=(sudo)
  fi
  say "installing ${missing[*]}"
  local log
  log=$(mktemp)
  if ! { "${as_root[@]}" apt-get update -qq &&
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
      apt-get install -y -qq --no-install-recommends "${missing[@]}"; } >"$log" 2>&1; then
    cat "$log" >&2
    say "apt-get failed; its output is above"
    return 1
  fi
  rm -f "$log"
}

# On other systems: the programs can be looked for, the libraries are found or missed by CMake.
check_programs() {
  local missing=() program
  for program in cmake ninja g++ clang++ clang-format pkg-config python3; do
    command -v "$program" >/dev/null || missing+=("$program")
  done
  [ ${#missing[@]} -gt 0 ] || return 0
  say "this system has no apt-get. Please install: ${missing[*]}"
  say "and, with headers: Abseil, xxHash, msgpack-cxx, nlohmann-json, ZeroMQ, Catch2, Google Benchmark, CLI11, zlib"
  return 1
}

install_python_packages() {
  [ ${#python_packages[@]} -gt 0 ] || return 0
  local venv=$top/build/venv
  [ -x "$venv/bin/python" ] || python3 -m venv "$venv"
  "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "${python_packages[@]}"
}

if command -v dpkg-query >/dev/null && command -v apt-get >/dev/null; then
  install_packages
else
  check_programs
fi
install_python_packages
