#!/usr/bin/env bash
# Compares the ABI of the C library with its baseline, capi/abi: every function with the types of
# its parameters, every struct with the offsets of its members. Exit status 1 if anything differs,
# with a report; 2 on misuse.
#
#   scripts/check_abi.sh [--update] [--source DIR]
#
#   --update      replace the baseline. Only together with a raised PREFIX_ROUTER_ABI_MINOR (functions
#                 or members were added) or PREFIX_ROUTER_ABI_MAJOR (anything else)
#   --source DIR  take capi/ from DIR instead of this tree
#
# Both sides are dumps by abidw (Debian: abigail-tools) that hold what callers see and nothing else.
# Made for and run on x86_64 Linux; the layout rules of the header leave no room for others to differ.
set -euo pipefail

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source_dir=$top
update=false
while (($# > 0)); do
  case "$1" in
    --update) update=true ;;
    --source)
      [[ $# -ge 2 ]] || { echo "check_abi.sh: --source needs a directory" >&2; exit 2; }
      source_dir=$(cd "$2" && pwd)
      shift
      ;;
    -h | --help) usage; exit 0 ;;
    *) echo "check_abi.sh: unknown argument $1" >&2; usage >&2; exit 2 ;;
  esac
  shift
done
if [[ $(uname -sm) != "Linux x86_64" ]]; then
  echo "check_abi.sh: the baseline is of Linux x86_64, this is $(uname -sm)" >&2
  exit 2
fi

major=$(awk '/define PREFIX_ROUTER_ABI_MAJOR/ { print $3 }' "$source_dir/capi/prefix_router.h")
baseline=$top/capi/abi/libprefixrouter_c.so.$major-x86_64.abi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# Only the files that define what leaves the library, with debug information.
"${CXX:-c++}" -std=c++20 -g -O0 -fPIC -fvisibility=hidden -shared \
  -I"$source_dir" -I"$source_dir/capi" -I"$top" -I"$top/include" "$source_dir"/capi/prefix_router*.cc \
  -Wl,-soname,"libprefixrouter_c.so.$major" -Wl,--version-script="$source_dir/capi/prefix_router.map" \
  -o "$work/libprefixrouter_c.so"
abidw --exported-interfaces-only --headers-dir "$source_dir/capi" --drop-private-types \
  --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed \
  --out-file "$work/new.abi" "$work/libprefixrouter_c.so"
sed -i "s|path='$source_dir/|path='|" "$work/new.abi"

if $update; then
  cp "$work/new.abi" "$baseline"
  echo "check_abi.sh: wrote ${baseline#"$top/"}"
  exit 0
fi
if [[ ! -e $baseline ]]; then
  echo "check_abi.sh: there is no baseline ${baseline#"$top/"}; make it with --update" >&2
  exit 1
fi
# Two dumps, both whole. No --headers-dir here: it would hide changes.
if abidiff --no-show-locs "$baseline" "$work/new.abi"; then
  echo "the ABI is that of ${baseline#"$top/"}"
else
  echo "check_abi.sh: the ABI differs from ${baseline#"$top/"}" >&2
  exit 1
fi
