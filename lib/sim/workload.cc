// Workload: the keys of all prompts of a trace, computed once.
//
// A hash id of a trace stands for the whole prefix up to the end of its block, as a block key does,
// so a key is the id, mixed so that ids 1, 2, 3, ... look like hashes. Where blocks are finer than
// the trace's, sub-block j of a block has the mixed (id, j). Prompts of token ids are hashed.
#include "prefixrouter/workload.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <utility>

#include "lib/sim/random.h"
#include "prefixrouter/block_hasher.h"

namespace prefixrouter {
namespace {

constexpr uint32_t kTokenBlock = 16;  // of traces with token ids
constexpr uint64_t kKeySeed = 1;

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

uint64_t SubBlockKey(uint64_t id, uint64_t sub_block) {
  return SplitMix64(SplitMix64(id).Next() + sub_block).Next();
}

void AppendKeys(const TraceRequest& request, uint32_t trace_block, const BlockHasher& hasher,
                std::vector<uint64_t>* keys) {
  const uint32_t block = hasher.block_size();
  const size_t first = keys->size();
  if (!request.tokens.empty()) {
    const size_t size = std::min<size_t>(request.prompt_tokens, request.tokens.size());
    const Span<const uint32_t> tokens(request.tokens.data(), size);
    keys->resize(first + hasher.BlockCount(tokens.size()));
    hasher.TokenBlockKeys({}, tokens, {}, {keys->data() + first, keys->size() - first});
    return;
  }
  const uint64_t sub_blocks = trace_block / block;
  const uint64_t blocks =
      std::min(request.prompt_tokens / block, uint64_t{request.hash_ids.size()} * sub_blocks);
  for (uint64_t i = 0; i < blocks; ++i) {
    keys->push_back(SubBlockKey(request.hash_ids[i / sub_blocks], i % sub_blocks));
  }
}

}  // namespace

Result<std::shared_ptr<const Workload>> Workload::Create(const Trace& trace,
                                                         const WorkloadOptions& options) {
  if (trace.requests.empty()) return Invalid(trace.name + ": the trace has no requests");
  const bool has_tokens = std::any_of(trace.requests.begin(), trace.requests.end(),
                                      [](const auto& request) { return !request.tokens.empty(); });
  const bool has_ids = std::any_of(trace.requests.begin(), trace.requests.end(),
                                   [](const auto& request) { return !request.hash_ids.empty(); });
  uint32_t block_size = options.block_size;
  if (block_size == 0) block_size = has_tokens ? kTokenBlock : trace.block_tokens;
  if (block_size > 32768) {
    return Invalid("block_size must be at most 32768, got " + std::to_string(block_size));
  }
  if (has_ids && (trace.block_tokens == 0 || trace.block_tokens % block_size != 0)) {
    return Invalid("block_size must divide the trace's block of " +
                   std::to_string(trace.block_tokens) + " tokens, got " +
                   std::to_string(block_size));
  }

  Trace timed = trace;
  Result<ArrivalSummary> arrivals = ScheduleArrivals(options.arrivals, &timed);
  if (!arrivals.ok()) return arrivals.status();

  std::shared_ptr<Workload> workload(new Workload);
  workload->name_ = trace.name;
  workload->block_size_ = block_size;
  workload->arrivals_ = *arrivals;
  workload->requests_.reserve(timed.requests.size());
  const BlockHasher hasher(block_size, kKeySeed);
  absl::flat_hash_map<std::string, uint32_t> session_numbers;
  std::vector<uint32_t> turns;  // by session, so far
  absl::flat_hash_set<uint64_t> known;
  uint64_t cached_tokens = 0;
  for (const TraceRequest& from : timed.requests) {
    if (from.prompt_tokens > kMaxTraceTokens || from.output_tokens > kMaxTraceTokens) {
      return Invalid(trace.name + ": a request has " + std::to_string(from.prompt_tokens) +
                     " prompt and " + std::to_string(from.output_tokens) +
                     " output tokens, at most " + std::to_string(kMaxTraceTokens) +
                     " are simulated");
    }
    WorkloadRequest request;
    request.arrival_s = static_cast<double>(from.arrival_ns) / 1e9;
    if (from.delay_ns >= 0) request.delay_s = static_cast<double>(from.delay_ns) / 1e9;
    request.prompt_tokens = static_cast<uint32_t>(from.prompt_tokens);
    request.output_tokens = static_cast<uint32_t>(from.output_tokens);
    request.session = kNoSession;
    if (!from.session_id.empty()) {
      const auto number = static_cast<uint32_t>(session_numbers.size());
      request.session = session_numbers.try_emplace(from.session_id, number).first->second;
      if (request.session == number) {
        workload->sessions_.push_back(from.session_id);
        turns.push_back(0);
      }
      request.turn = turns[request.session]++;
    }
    request.first_key = workload->keys_.size();
    AppendKeys(from, trace.block_tokens, hasher, &workload->keys_);
    request.key_count = static_cast<uint32_t>(workload->keys_.size() - request.first_key);

    const Span<const uint64_t> keys = workload->keys(request);
    size_t held = 0;
    while (held < keys.size() && known.contains(keys[held])) ++held;
    known.insert(keys.begin() + held, keys.end());
    cached_tokens += held * block_size;
    workload->prompt_tokens_ += from.prompt_tokens;
    workload->output_tokens_ += from.output_tokens;
    workload->requests_.push_back(request);
  }
  if (workload->prompt_tokens_ > 0) {
    workload->best_possible_share_ =
        static_cast<double>(cached_tokens) / static_cast<double>(workload->prompt_tokens_);
  }
  return std::shared_ptr<const Workload>(std::move(workload));
}

}  // namespace prefixrouter
