#!/usr/bin/env bash
# Only the functions of its headers leave a library of C, all of them, under the versions that
# the export list gives.
#
# Usage: exports_test.sh LIBRARY DIR NAME, with headers DIR/NAME*.h and the list DIR/NAME.map
set -euo pipefail

library=$1
dir=$2
name=$3
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The headers: what is declared with PREFIX_ROUTER_API, which may stand on the line before.
cat "$dir/$name"*.h | tr '\n' ' ' |
  grep -oE 'PREFIX_ROUTER_API [a-z0-9_* ]*\bprefix_router_[a-z0-9_]+ *\(' |
  grep -oE 'prefix_router_[a-z0-9_]+ *\($' | tr -d ' (' | sort >"$work/header"
# The list: function@node.
awk '/^PREFIX_ROUTER/ { node = $1 } /prefix_router_.*;/ { sub(";", "", $1); print $1 "@@" node }' \
  "$dir/$name.map" | sort >"$work/map"
# The library itself. Nodes are absolute symbols.
nm --dynamic --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$work/library"

[[ $(wc -l <"$work/header") -ge 8 ]] || { echo "found too few functions in the header"; exit 1; }
diff "$work/map" "$work/library" ||
  { echo "the export list (<) and the library (>) differ"; exit 1; }
diff "$work/header" <(sed 's/@@.*//' "$work/map") ||
  { echo "the header (<) and the export list (>) differ"; exit 1; }
echo "$(wc -l <"$work/library") functions leave the library, as listed"
