#!/usr/bin/env bash
# Compares the ABI of the C libraries with their baselines in capi/abi: every function with the types
# of its parameters, every struct with the offsets of its members. Exit status 1 if anything differs,
# with a report; 2 on misuse.
#
#   scripts/check_abi.sh [--update] [--source DIR] [--only LIBRARY]
#
#   --update      replace the baselines. Only together with a raised PREFIX_ROUTER_ABI_MINOR (functions
#                 or members were added) or PREFIX_ROUTER_ABI_MAJOR (anything else)
#   --source DIR  take capi/ from DIR instead of this tree
#   --only LIBRARY  libprefixrouter_c or libprefixrouter_zmq_c; else both
#
# Both sides are dumps by abidw (Debian: abigail-tools) that hold what callers see and nothing else.
# Made for and run on x86_64 Linux; the layout rules of the header leave no room for others to differ.
set -euo pipefail

usage() { sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "$0"; }

top=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
source_dir=$top
update=false
only=
while (($# > 0)); do
  case "$1" in
    --update) update=true ;;
    --source)
      [[ $# -ge 2 ]] || { echo "check_abi.sh: --source needs a directory" >&2; exit 2; }
      source_dir=$(cd "$2" && pwd)
      shift
      ;;
    --only)
      [[ ${2-} =~ ^libprefixrouter_(zmq_)?c$ ]] ||
        { echo "check_abi.sh: --only needs libprefixrouter_c or libprefixrouter_zmq_c" >&2; exit 2; }
      only=$2
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

capi=$source_dir/capi
major=$(awk '/define PREFIX_ROUTER_ABI_MAJOR/ { print $3 }' "$capi/prefix_router.h")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# check LIBRARY EXPORTS SOURCE...: of the sources that define what leaves the library.
check() {
  local library=$1.so exports=$2 baseline=$top/capi/abi/$1.so.$major-x86_64.abi new=$work/$1.abi
  [[ -z $only || $only == "$1" ]] || return 0
  shift 2
  "${CXX:-c++}" -std=c++20 -g -O0 -fPIC -fvisibility=hidden -shared \
    -I"$source_dir" -I"$capi" -I"$top" -I"$top/include" "$@" \
    -Wl,-soname,"$library.$major" -Wl,--version-script="$exports" -o "$work/$library" || return 1
  abidw --exported-interfaces-only --headers-dir "$capi" --drop-private-types \
    --no-corpus-path --no-comp-dir-path --no-show-locs --no-elf-needed \
    --out-file "$new" "$work/$library" || return 1
  sed -i "s|path='$source_dir/|path='|" "$new" || return 1

  if $update; then
    cp "$new" "$baseline" || return 1
    echo "check_abi.sh: wrote ${baseline#"$top/"}"
  elif [[ ! -e $baseline ]]; then
    echo "check_abi.sh: there is no baseline ${baseline#"$top/"}; make it with --update" >&2
    return 1
  # Two dumps, both whole. No --headers-dir here: it would hide changes.
  elif abidiff --no-show-locs "$baseline" "$new"; then
    echo "the ABI is that of ${baseline#"$top/"}"
  else
    echo "check_abi.sh: the ABI differs from ${baseline#"$top/"}" >&2
    return 1
  fi
}

status=0
check libprefixrouter_c "$capi/prefix_router.map" "$capi"/prefix_router*.cc || status=1
check libprefixrouter_zmq_c "$capi/zmq/prefix_router_zmq.map" "$capi"/zmq/prefix_router*.cc || status=1
exit $status
