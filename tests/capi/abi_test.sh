#!/usr/bin/env bash
# scripts/check_abi.sh accepts the tree as it is, and refuses each kind of change.
#
# Usage: abi_test.sh PROJECT_DIR libprefixrouter_c|libprefixrouter_zmq_c
set -euo pipefail

top=$1
library=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

# refused NAME TEXT FILE... -- SED...: with the edits made to capi/FILE..., the check of the library
# fails and its report has TEXT.
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
  if "$top/scripts/check_abi.sh" --source "$tree" --only "$library" >"$work/report" 2>&1; then
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

"$top/scripts/check_abi.sh" --only "$library" || { echo "FAILED  the tree as it is"; exit 1; }

if [[ $library == libprefixrouter_c ]]; then
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
else
  refused changed-parameter 'parameter 2 of type .typedef uint64_t. changed' \
    zmq/prefix_router_zmq.h zmq/prefix_router_zmq.cc -- \
    '/int32_t prefix_router_zmq_remove/,/\)/s/uint64_t number/uint32_t number/'
  refused changed-result 'return type changed' \
    zmq/prefix_router_zmq.h zmq/prefix_router_zmq.cc -- \
    's/int32_t( prefix_router_zmq_stop)/int64_t\1/'
  refused moved-member 'reconnect_s.*offset changed from' \
    zmq/prefix_router_zmq.h -- \
    '/^typedef struct prefix_router_zmq_options/,/^}/{/ double max_reconnect_s;/d;s/^(  double reconnect_s;.*)/  double max_reconnect_s;\n\1/}'
  # A struct of the other library that this one fills.
  refused changed-stream-stats 'size changed from' \
    prefix_router_event_stream.h -- \
    '/^typedef struct prefix_router_kv_stream_stats/,/^}/s/^}/  uint64_t more;\n}/'
  refused removed-function 'Functions changes summary: 1 Removed' \
    zmq/prefix_router_zmq.h zmq/prefix_router_zmq.cc zmq/prefix_router_zmq.map -- \
    '/prefix_router_zmq_last_error/d'
  refused added-function '1 Added function' \
    zmq/prefix_router_zmq.h zmq/prefix_router_zmq.cc zmq/prefix_router_zmq.map -- \
    's/^(.*)prefix_router_zmq_last_error(.*)$/&\n\1prefix_router_zmq_new_function\2/'
fi
exit $failed
