// Routes a trace through a fleet of instances, by the public API alone, once for each policy.
//
// The clock is the trace's: it is set to each request's arrival before the call, so that a replay
// of an hour takes seconds. Nothing is simulated beyond what the router itself predicts: cached
// tokens are those that the router believes to be cached, and work is the rest of the prompt.
#ifndef PREFIXROUTER_BENCHMARKS_REPLAY_REPLAY_H_
#define PREFIXROUTER_BENCHMARKS_REPLAY_REPLAY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "prefixrouter/status.h"
#include "prefixrouter/trace.h"

namespace prefixrouter::replay {

struct FleetOptions {
  uint32_t instances = 4;
  uint64_t capacity_tokens = 3'000'000;  // KV cache of an instance
  double prefill_tokens_per_s = 12000;
  uint32_t block_size = 16;
  uint64_t seed = 1;  // of keys and near-ties
  // Acquire instead of Route. A lease is told its first token at the predicted time, and ends
  // kOutputSeconds for each output token later. Else load is the router's own fluid model.
  bool leases = false;
  bool session_keys = false;  // pass the trace's session_id as session key
};

inline constexpr double kOutputSeconds = 0.02;

struct InstanceResult {
  std::string name;
  uint64_t requests = 0;
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;

  uint64_t uncached_tokens() const { return prompt_tokens - cached_tokens; }
};

struct PolicyResult {
  std::string name;
  std::vector<InstanceResult> instances;
  double cached_token_share = 0;
  // Of all uncached tokens, the least and the most that one instance got, and the most over the
  // mean. 0 when everything was cached.
  double work_share_min = 0;
  double work_share_max = 0;
  double max_over_mean_work = 0;
  double route_p50_us = 0;  // of one Route or Acquire, as the caller sees it
  double route_p99_us = 0;
  size_t index_bytes = 0;
  uint64_t index_blocks = 0;
  uint64_t blocks_held = 0;
  double wall_s = 0;  // the whole replay, with the building of the prompts
};

struct ReplaySummary {
  uint64_t prompt_tokens = 0;
  double best_possible_share = 0;
  std::vector<PolicyResult> policies;
};

// Blocks that an instance of this fleet holds. 0: less than one.
uint64_t CapacityBlocks(const FleetOptions& options);

// What one cache without limit would find of the trace's prompt tokens, in whole blocks of
// `block_size`: the most that any routing could.
double BestPossibleShare(const Trace& trace, uint32_t block_size);

// REQUIRES: ScheduleArrivals was called. Errors are those of the router: kInvalidArgument for an
// option out of range, anything else for a failure of the replay.
Result<ReplaySummary> Replay(const Trace& trace, const FleetOptions& options,
                             const std::vector<std::string>& policies);

}  // namespace prefixrouter::replay

#endif  // PREFIXROUTER_BENCHMARKS_REPLAY_REPLAY_H_
