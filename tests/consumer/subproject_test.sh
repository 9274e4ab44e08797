#!/usr/bin/env bash
# PrefixRouter as a part of another project, by FetchContent and by add_subdirectory, with a shared
# C++ library and a static C library; then what that project installs.
#
# Usage: subproject_test.sh SOURCE_DIR WORK_DIR
set -euo pipefail

source_dir=$1 work=$2
here=$(dirname "${BASH_SOURCE[0]}")

# Both ways build the library in one place, so the second finds it built.
for how in FetchContent add_subdirectory; do
  echo "-- $how"
  cmake -S "$here/project" -B "$work/build" -DHOW=$how -DSOURCE_DIR="$source_dir" \
    -DCMAKE_BUILD_TYPE=Debug -DBUILD_SHARED_LIBS=ON -DPREFIX_ROUTER_CAPI_SHARED=OFF --log-level=WARNING
  cmake --build "$work/build" >"$work/log" || { cat "$work/log"; exit 1; }
  "$work/build/consumer_c"
  "$work/build/consumer_cpp"
done

bash "$here/install.sh" "$source_dir" "$work/build" "$work/prefix"
bash "$here/installed_test.sh" "$source_dir" "$work/prefix" "$work/installed"
