#!/usr/bin/env bash
# Makes the Conan package and tests it with its test_package, shared and static. What it needs is
# the system's, through recipes that stand for Conan's own (conan/). Needs no network.
#
# Usage: conan_test.sh SOURCE_DIR WORK_DIR CONAN
set -euo pipefail

source_dir=$1 work=$2 conan=$3
rm -rf "$work"
mkdir -p "$work"
export CONAN_HOME=$work/home

say() { echo "-- $*"; }

"$conan" profile detect >/dev/null 2>&1
cat >"$CONAN_HOME/global.conf" <<CONF
tools.cmake.cmaketoolchain:generator=Ninja
tools.cmake.cmaketoolchain:user_presets=
tools.cmake.cmake_layout:test_folder=$work/test_package
CONF
for recipe in abseil msgpack-cxx nlohmann_json xxhash; do
  "$conan" create "$source_dir/tests/consumer/conan/$recipe" --no-remote >"$work/log" 2>&1 ||
    { cat "$work/log"; exit 1; }
done

# create OPTION...: the recipe's test runs both examples.
create() {
  say "conan create $*"
  "$conan" create "$source_dir" --no-remote "$@" >"$work/log" 2>&1 || { cat "$work/log"; return 1; }
  local example
  for example in c cpp; do
    grep -q "RUN: .*example_$example" "$work/log"
  done
  (($(grep -c '^user 2: .* 992 of 1000 tokens cached' "$work/log") == 2))
}

create -o 'prefixrouter/*:shared=True' -s build_type=Release
package=$(dirname "$(dirname "$(find "$CONAN_HOME/p/b" -path '*/p/lib/libprefixrouter_c.so')")")
[[ -e $package/lib/libprefixrouter.so && -e $package/licenses/LICENSE ]]
if [[ -e /usr/include/xxh_x86dispatch.h ]]; then
  say "it chooses xxHash's instruction set at run time"
  [[ $(nm -D --undefined-only "$package/lib/libprefixrouter_c.so") == *XXH3_*_dispatch* ]]
fi

create -o 'prefixrouter/*:shared=False' -s build_type=Debug
[[ -n $(find "$CONAN_HOME/p/b" -path '*/p/lib/libprefixrouter_c.a') ]]

say "its version is that of the headers"
version=$(sed -n 's/.*PREFIX_ROUTER_VERSION_STRING "\(.*\)".*/\1/p' \
  "$source_dir/include/prefixrouter/version.h")
"$conan" list "prefixrouter/$version" 2>&1 | tee "$work/list"
grep -q "prefixrouter/$version" "$work/list"

say "C++14 is refused"
if "$conan" create "$source_dir" --no-remote -s compiler.cppstd=14 >"$work/log" 2>&1; then
  echo "C++14 was accepted"
  exit 1
fi
grep -q "lower than the required C++ standard (17)" "$work/log" || { cat "$work/log"; exit 1; }
