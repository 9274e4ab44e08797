#!/usr/bin/env bash
# Only the functions of its headers leave the C library, all of them, under the versions that
# the export list gives.
#
# Usage: exports_test.sh LIBRARY CAPI_DIR
set -euo pipefail

library=$1
capi=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The headers: what is declared with PREFIX_ROUTER_API, which may stand on the line before.
cat "$capi"/prefix_router*.h | tr '\n' ' ' |
  grep -oE 'PREFIX_ROUTER_API [a-z0-9_* ]*\bprefix_router_[a-z0-9_]+ *\(' |
  grep -oE 'prefix_router_[a-z0-9_]+ *\($' | tr -d ' (' | sort >"$work/header"
# prefix_router.map: function@node.
awk '/^PREFIX_ROUTER/ { node = $1 } /prefix_router_.*;/ { sub(";", "", $1); print $1 "@@" node }' \
  "$capi/prefix_router.map" | sort >"$work/map"
# The library itself. Nodes are absolute symbols.
nm --dynamic --defined-only "$library" | awk '$2 != "A" { print $3 }' | sort >"$work/library"

[[ $(wc -l <"$work/header") -ge 25 ]] || { echo "found too few functions in the header"; exit 1; }
diff "$work/map" "$work/library" ||
  { echo "the export list (<) and the library (>) differ"; exit 1; }
diff "$work/header" <(sed 's/@@.*//' "$work/map") ||
  { echo "the header (<) and the export list (>) differ"; exit 1; }
echo "$(wc -l <"$work/library") functions leave the library, as listed"
