#!/usr/bin/env bash
# Tests prefix-router-simulate as a program: exit codes, streams, JSON, wrong input.
# Usage: simulate_cli_test.sh PATH_OF_THE_TOOL
set -u

tool=${1:?usage: simulate_cli_test.sh PATH_OF_THE_TOOL}
[ -x "$tool" ] || { echo "not a program: $tool" >&2; exit 2; }
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
checks=0
failures=0

run() {
  "$tool" "$@" >"$folder/out" 2>"$folder/err"
  code=$?
  last="prefix-router-simulate $*"
}

check() {  # check WHAT COMMAND...
  local what=$1
  shift
  checks=$((checks + 1))
  "$@" && return
  failures=$((failures + 1))
  printf 'FAILED: %s\n  after: %s (exit code %s)\n' "$what" "$last" "$code"
  head -n 20 "$folder/out" "$folder/err"
}

code_is() { [ "$code" -eq "$1" ]; }
has() { grep -qF -- "$2" "$folder/$1"; }
empty() { [ ! -s "$folder/$1" ]; }
true_in() {  # true_in FILE EXPRESSION: of the parsed file j
  [ "$(python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' \
    "$@" 2>&1)" = True ]
}

run --help
check "exit code 0" code_is 0
check "options are listed" has out --closed-loop

run --workload chat --requests 300 --instances 2 --policy prefix_cost,random --seeds 2
check "exit code 0" code_is 0
check "nothing on standard error" empty err
check "a line for the policy" has out prefix_cost
check "the fleet" has out "2 x llama-70b-8xh100"

run --workload chat --requests 300 --instances 2 --policy prefix_cost,random --seeds 2 --json -
check "exit code 0" code_is 0
for expression in \
  '(j["instances"], j["seeds"], j["engine"]) == (2, 2, "llama-70b-8xh100")' \
  'j["trace"].startswith("chat")' \
  '[p["name"] for p in j["policies"]] == ["prefix_cost", "random"]' \
  'all(p["ttft_p50_s"] <= p["ttft_p90_s"] <= p["ttft_p99_s"] for p in j["policies"])' \
  'all(p["requests"] >= 300 and p["rejected"] == 0 for p in j["policies"])' \
  'all(s[0] <= p[k] <= s[1] for p in j["policies"] for k, s in p["spread"].items())' \
  'all(0 < p["cached_token_share"] <= p["best_possible_share"] for p in j["policies"])' \
  '{"e2e_mean_s", "tpot_mean_s", "max_over_mean_work"} < set(j["policies"][0])'; do
  check "$expression" true_in "$folder/out" "$expression"
done
cp "$folder/out" "$folder/first.json"
run --workload chat --requests 300 --instances 2 --policy prefix_cost,random --seeds 2 --json -
check "the same figures again" cmp -s "$folder/out" "$folder/first.json"

run --workload unique --requests 300 --level knee --policy least_requests
check "exit code 0" code_is 0
check "load levels" has out "knee"

for step in 1 2 3 4 5 6 7 8; do
  echo "{\"timestamp\": ${step}000, \"input_length\": 2048, \"output_length\": 10," \
    "\"hash_ids\": [1, 2, 3, 4], \"session_id\": 1}"
done >"$folder/trace.jsonl"
gzip "$folder/trace.jsonl"
run "$folder/trace.jsonl.gz" --policy prefix_cost --closed-loop --routers 2 --speeds 1,2 --json -
check "exit code 0" code_is 0
check "all requests" true_in "$folder/out" 'j["policies"][0]["requests"] == 8'

run --workload chat --requests 300 --routers 3 --policy prefix_cost --kv-events --json -
check "exit code 0" code_is 0
cp "$folder/out" "$folder/first.json"
run --workload chat --requests 300 --routers 3 --policy prefix_cost --kv-events \
  --kv-event-delay 5 --json -
check "the delay changes figures" bash -c "! cmp -s '$folder/out' '$folder/first.json'"

refused() {  # refused TEXT ARGUMENTS...
  local text=$1
  shift
  run "$@"
  check "exit code 2" code_is 2
  check "'$text' in the message" has err "$text"
  check "no results" empty out
}
refused magic --policy magic
refused magic --workload magic
refused magic --engine magic
refused "--instances" --instances 0
refused "--rate" --rate nan
refused "--speeds" --speeds 1,0
refused "--kv-event-delay" --kv-event-delay -1
refused "metrics_period_s must be" --requests 10 --metrics-period 1e-9
refused "block_size must divide" "$folder/trace.jsonl.gz" --block-size 100
refused "No such file" "$folder/none"

run --requests 10 --json "$folder/no/such/folder.json"
check "exit code 1" code_is 1
check "the file in the message" has err "cannot write $folder/no/such/folder.json"

echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ]
