#!/usr/bin/env bash
# Tests prefix-router-replay as a program: exit codes, what goes to which stream, wrong input, pipes.
# Usage: replay_cli_test.sh PATH_OF_THE_TOOL
set -u

tool=${1:?usage: replay_cli_test.sh PATH_OF_THE_TOOL}
[ -x "$tool" ] || { echo "not a program: $tool" >&2; exit 2; }
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
checks=0
failures=0

# run ARGUMENTS...: leaves the exit code in $code and the streams in $folder/out and $folder/err.
run() {
  "$tool" "$@" >"$folder/out" 2>"$folder/err"
  code=$?
  last="prefix-router-replay $*"
}

fail() {
  failures=$((failures + 1))
  printf 'FAILED: %s\n  after: %s (exit code %s)\n' "$1" "$last" "$code"
  sed 's/^/  out: /' "$folder/out" | head -n 20
  sed 's/^/  err: /' "$folder/err" | head -n 20
}

expect_code() {
  checks=$((checks + 1))
  [ "$code" -eq "$1" ] || fail "exit code $1 expected"
}

# expect STREAM TEXT: the stream (out or err) has TEXT in it.
expect() {
  checks=$((checks + 1))
  grep -qF -- "$2" "$folder/$1" || fail "'$2' expected in $1"
}

expect_empty() {
  checks=$((checks + 1))
  [ ! -s "$folder/$1" ] || fail "nothing expected in $1"
}

# refused TEXT ARGUMENTS...: exit code 2, TEXT in the message, no results.
refused() {
  local text=$1
  shift
  run "$@"
  expect_code 2
  expect err "$text"
  expect_empty out
}

# figure JSON_FILE EXPRESSION: evaluates a Python expression over the parsed file `j`.
figure() {
  python3 -c 'import json, sys; j = json.load(open(sys.argv[1])); print(eval(sys.argv[2]))' "$@" 2>&1 |
    tail -n 1
}

expect_figure() {
  checks=$((checks + 1))
  local value
  value=$(figure "$1" "$2")
  [ "$value" = True ] || fail "$2 is '$value'"
}

line() {
  printf '{"timestamp": %s, "input_length": %s, "output_length": 10, "hash_ids": %s}\n' "$@"
}

trace=$folder/trace.jsonl
for step in 0 1 2 3 4 5 6 7; do
  line $((step * 1000)) 2048 '[1, 2, 3, 4]'
done >"$trace"
gzip -c "$trace" >"$folder/trace.jsonl.gz"

# ---- Results and their streams -----------------------------------------------------------------

run --help
expect_code 0
expect out "--capacity-tokens"
expect_empty err

run --version
expect_code 0
expect_empty err

run "$trace"
expect_code 0
expect_empty err
for text in prefix_cost random least_requests "$trace" "4 instances of 3,000,000 tokens" \
  "8 within 7 s, 16,384 prompt tokens"; do
  expect out "$text"
done

run "$trace" --json -
expect_code 0
expect_empty err
cp "$folder/out" "$folder/from_file.json"
expect_figure "$folder/from_file.json" 'j["requests"] == 8 and j["instances"] == 4'
expect_figure "$folder/from_file.json" 'j["block_size"] == 16 and j["skipped_lines"] == 0'
expect_figure "$folder/from_file.json" \
  '[p["name"] for p in j["policies"]] == ["prefix_cost", "random", "least_requests"]'
# All eight prompts are equal: seven can be found whole, and prefix_cost finds them.
expect_figure "$folder/from_file.json" \
  'all(p["best_possible_share"] == 7 / 8 for p in j["policies"])'
expect_figure "$folder/from_file.json" 'j["policies"][0]["cached_token_share"] == 7 / 8'
expect_figure "$folder/from_file.json" \
  'all(p["route_p99_us"] >= p["route_p50_us"] > 0 < p["index_bytes"] for p in j["policies"])'

run "$trace" --json "$folder/figures.json" --policy random,round_robin
expect_code 0
expect out "round_robin"
expect_figure "$folder/figures.json" \
  '[p["name"] for p in j["policies"]] == ["random", "round_robin"]'

run --policy random,round_robin "$trace"
expect_code 0
expect out "round_robin"

run "$trace" --policy all --json -
expect_code 0
cp "$folder/out" "$folder/all.json"
expect_figure "$folder/all.json" 'len(j["policies"]) >= 6'

run "$trace" --leases --session-keys --instances 2 --block-size 32 --capacity-tokens 4096 \
  --prefill-rate 500 --speed 2 --seed 7 --limit 5 --no-spread-ticks --json -
expect_code 0
cp "$folder/out" "$folder/options.json"
expect_figure "$folder/options.json" \
  'j["requests"] == 5 and j["instances"] == 2 and j["block_size"] == 32 and j["leases"]'
expect_figure "$folder/options.json" 'j["span_s"] == 2 and j["seed"] == 7'
expect_figure "$folder/options.json" 'all(p["blocks_held"] <= 256 for p in j["policies"])'

# ---- Gzip and pipes ----------------------------------------------------------------------------

same='json.load(open(sys.argv[1].replace("piped", "from_file")))'
equal="[(p['name'], p['cached_token_share']) for p in j['policies']] == \
[(p['name'], p['cached_token_share']) for p in $same['policies']]"
run "$folder/trace.jsonl.gz" --json -
expect_code 0
cp "$folder/out" "$folder/piped.json"
expect_figure "$folder/piped.json" "$equal"

run - --json - < <(cat "$trace")
expect_code 0
expect out '"trace": "standard input"'
cp "$folder/out" "$folder/piped.json"
expect_figure "$folder/piped.json" "$equal"

run --json - - < <(cat "$folder/trace.jsonl.gz")
expect_code 0
cp "$folder/out" "$folder/piped.json"
expect_figure "$folder/piped.json" "$equal"

# ---- Malformed lines ---------------------------------------------------------------------------

{
  line 0 512 '[1]'
  line 1 -5 '[1]'
  echo 'not a line'
  line 2 512 '[1]'
  line 3 512 '"x"'
} >"$folder/some_bad.jsonl"
run "$folder/some_bad.jsonl"
expect_code 0
expect err "some_bad.jsonl, line 2: input_length is -5"
expect err "some_bad.jsonl, line 3: not JSON"
expect err "some_bad.jsonl, line 5: hash_ids is \"x\""
expect out "3 malformed lines"
run "$folder/some_bad.jsonl" --json -
expect out '"skipped_lines": 3'

refused "line 2: input_length is -5" "$folder/some_bad.jsonl" --on-error refuse
refused "line 2: input_length is -5" "$folder/some_bad.jsonl" --on-error=refuse

# bad LINE TEXT: a trace of this one line is refused with TEXT in the message.
bad() {
  echo "$1" >"$folder/bad.jsonl"
  refused "$2" "$folder/bad.jsonl" --on-error refuse
}
bad '{"timestamp": 0, "output_length": 1, "hash_ids": [1]}' "line 1: field input_length is missing"
bad "$(line 0 1e30 '[1]')" "line 1: input_length is 1e+30"
bad "$(line 0 1e999 '[1]')" "line 1: not JSON: number overflow"
bad "$(line 0 20000000 '[1]')" "line 1: input_length is 20000000"
bad "$(line 0 1.5 '[1]')" "line 1: input_length is 1.5"
bad "$(line -1 5 '[1]')" "line 1: timestamp is -1"
bad "$(line 0 5 '[1, null]')" "line 1: hash_ids[1] is null"
bad '{"timestamp": 0' "line 1: not JSON"

# ---- Files that are no trace -------------------------------------------------------------------

: >"$folder/empty"
refused "empty: is empty" "$folder/empty"
refused "standard input: is empty" - </dev/null
printf '\n \n' >"$folder/blank"
refused "blank: is empty" "$folder/blank"
gzip -c "$folder/empty" >"$folder/empty.gz"
refused "empty.gz: is empty" "$folder/empty.gz"
head -c 60 "$folder/trace.jsonl.gz" >"$folder/cut.gz"
refused "cut.gz: cannot be read: unexpected end of file" "$folder/cut.gz"
refused "no_such_file: No such file" "$folder/no_such_file"
refused "cannot be read: Is a directory" "$folder"
head -c 5000 /dev/urandom >"$folder/noise"
refused "no usable line" "$folder/noise"

# ---- Wrong arguments ---------------------------------------------------------------------------

refused "magic" "$trace" --policy magic
refused "magic" "$trace" --policy random,magic
refused "--instances" "$trace" --instances 0
refused "--instances" "$trace" --instances -3
refused "--instances" "$trace" --instances 65537
refused "--instances" "$trace" --instances two
refused "--instances" "$trace" --instances 2.5
refused "--instances" "$trace" --instances
refused "--block-size" "$trace" --block-size 0
refused "--block-size" "$trace" --block-size 32769
refused "--capacity-tokens" "$trace" --capacity-tokens 0
refused "--capacity-tokens" "$trace" --capacity-tokens -1
refused "15 tokens in blocks of 16" "$trace" --capacity-tokens 15
refused "--prefill-rate" "$trace" --prefill-rate 0
refused "--prefill-rate" "$trace" --prefill-rate nan
refused "--speed" "$trace" --speed 0
refused "--speed" "$trace" --speed inf
refused "--trace-block" "$trace" --trace-block 0
refused "--limit" "$trace" --limit -1
refused "--seed" "$trace" --seed -1
refused "--session-window" "$trace" --session-window -1
refused "--on-error" "$trace" --on-error ignore
refused "--no-such-option" "$trace" --no-such-option
refused "second" "$trace" second

# ---- Failures that are not the caller's --------------------------------------------------------

run "$trace" --json "$folder/no/such/folder/figures.json"
expect_code 1
expect err "cannot write $folder/no/such/folder/figures.json"
if [ -w /dev/full ]; then
  "$tool" "$trace" >/dev/full 2>"$folder/err"
  code=$?
  last="prefix-router-replay with a full standard output"
  : >"$folder/out"
  expect_code 1
  expect err "cannot write to standard output"
fi

# ---- Workloads ---------------------------------------------------------------------------------

run --limit 500 --json -
expect_code 0
expect out "generated agent workload"
cp "$folder/out" "$folder/built_in.json"
expect_figure "$folder/built_in.json" 'j["requests"] == 500'
expect_figure "$folder/built_in.json" \
  'j["policies"][0]["cached_token_share"] > j["policies"][1]["cached_token_share"] + 0.1'
run --limit 500 --json -
cp "$folder/out" "$folder/again.json"
shares='[[i["cached_tokens"] for i in p["instances"]] for p in j["policies"]]'
checks=$((checks + 1))
[ "$(figure "$folder/built_in.json" "$shares")" = "$(figure "$folder/again.json" "$shares")" ] ||
  fail "two runs with one seed differ"

# Real traces lie beside the repository, if at all.
traces=$here/../../shared/traces
conversation=$traces/mooncake_conversation_trace.jsonl.gz
if [ -r "$conversation" ]; then
  run "$conversation" --policy prefix_cost --json -
  expect_code 0
  expect_empty err
  cp "$folder/out" "$folder/conversation.json"
  expect_figure "$folder/conversation.json" 'j["requests"] == 12031 and j["cut_lines"] == 0'
  expect_figure "$folder/conversation.json" \
    '0.372 < j["policies"][0]["best_possible_share"] < 0.375'
  expect_figure "$folder/conversation.json" 'j["policies"][0]["cached_token_share"] >= 0.27'
  expect_figure "$folder/conversation.json" 'j["policies"][0]["max_over_mean_work"] <= 1.05'
else
  echo "SKIPPED: the conversation trace is not there: $conversation"
fi
sessions=$traces/lmcache_agent_miniswe_blk16c.jsonl.gz
if [ -r "$sessions" ]; then
  run "$sessions" --trace-block 16 --policy prefix_cost --json -
  expect_code 0
  cp "$folder/out" "$folder/sessions.json"
  expect_figure "$folder/sessions.json" 'j["shifted_sessions"] == 20 and j["cut_lines"] == 371'
  expect_figure "$folder/sessions.json" \
    '0.93 < j["policies"][0]["best_possible_share"] < 0.94'
else
  echo "SKIPPED: the session trace is not there: $sessions"
fi
real_tokens=$traces/sharegpt_llama31_tokens.jsonl.gz
if [ -r "$real_tokens" ]; then
  run "$real_tokens" --policy prefix_cost --json -
  expect_code 0
  cp "$folder/out" "$folder/real_tokens.json"
  expect_figure "$folder/real_tokens.json" 'j["requests"] == 300 and j["skipped_lines"] == 0'
else
  echo "SKIPPED: the trace of real tokens is not there: $real_tokens"
fi

echo "$checks checks, $failures failed"
[ "$failures" -eq 0 ]
