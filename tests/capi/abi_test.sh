#!/usr/bin/env bash
# scripts/check_abi.sh accepts the tree as it is, and refuses each kind of change.
#
# Usage: abi_test.sh PROJECT_DIR
set -euo pipefail

top=$1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# refused NAME TEXT FILE... -- SED...: with the edits made to capi/FILE..., the check fails and its
# report has TEXT.
refused() {
  local name=$1 text=$2 files=() file tree=$work/$1
  shift 2
  while [[ $1 != -- ]]; do files+=("$1"); shift; done
  shift
  mkdir "$tree"
  cp -r "$top/capi" "$tree"
  for file in "${files[@]}"; do
    sed -i -E "$@" "$tree/capi/$file"
    if cmp -s "$top/capi/$file" "$tree/capi/$file"; then
      echo "FAILED  $name: the edit did not change $file"
      failed=1
      return
    fi
  done
  if "$top/scripts/check_abi.sh" --source "$tree" >"$work/report" 2>&1; then
    echo "FAILED  $name: accepted"
    failed=1
  elif ! grep -qE "$text" "$work/report"; then
    echo "FAILED  $name: the report has no \"$text\":"
    sed 's/^/    /' "$work/report"
    failed=1
  else
    echo "passed  $name: refused with \"$text\""
  fi
}

"$top/scripts/check_abi.sh" || { echo "FAILED  the tree as it is"; exit 1; }
refused changed-parameter 'parameter 2 of type .typedef uint64_t. changed' \
  prefix_router.h prefix_router.cc -- \
  '/int32_t prefix_router_remove_instance/,/\)/s/uint64_t instance/uint32_t instance/'
refused changed-result 'return type changed' \
  prefix_router.h prefix_router.cc -- 's/uint32_t (prefix_router_key_format)/uint64_t \1/'
refused moved-member 'candidates.*offset changed from' \
  prefix_router_types.h -- \
  '/^typedef struct prefix_router_decision/,/^}/{/ uint32_t candidates;/d;s/^(  uint64_t prompt_tokens;.*)/  uint32_t candidates;\n\1/}'
refused swapped-members 'cached_tokens' \
  prefix_router_types.h -- \
  '/^typedef struct prefix_router_decision/,/^}/{s/ best_cached_tokens;/ swapped;/;s/ cached_tokens;/ best_cached_tokens;/;s/ swapped;/ cached_tokens;/}'
refused removed-function 'Functions changes summary: 1 Removed' \
  prefix_router.h prefix_router.cc prefix_router.map -- '/prefix_router_key_format/d'
refused added-function '1 Added function' \
  prefix_router.h prefix_router.cc prefix_router.map -- \
  's/^(.*)prefix_router_key_format(.*)$/&\n\1prefix_router_new_function\2/'
exit $failed
