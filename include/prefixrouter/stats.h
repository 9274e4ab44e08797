// RouterStats: counters and sizes of a router, as one consistent copy.
#ifndef PREFIXROUTER_STATS_H_
#define PREFIXROUTER_STATS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "prefixrouter/decision.h"
#include "prefixrouter/instance.h"
#include "prefixrouter/kv_events.h"

namespace prefixrouter {

// Durations by size, in buckets that double: bucket i counts those of at most UpperBound(i) that no
// bucket before it counts. Quantiles are known to a factor of 2, from 250 ns to 131 ms.
struct DurationHistogram {
  static constexpr int kBuckets = 21;

  uint64_t counts[kBuckets] = {};
  double sum_s = 0;  // of all durations, in seconds

  uint64_t count() const {
    uint64_t sum = 0;
    for (uint64_t bucket : counts) sum += bucket;
    return sum;
  }
  // In seconds; the last one is infinite. REQUIRES: 0 <= bucket < kBuckets
  static double UpperBound(int bucket) {
    if (bucket == kBuckets - 1) return std::numeric_limits<double>::infinity();
    return static_cast<double>(uint64_t{250} << bucket) / 1e9;
  }
};

struct InstanceStats {
  InstanceId id;
  std::string name;
  uint32_t rank = 0;
  InstanceState state = InstanceState::kReady;

  // Now.
  int64_t requests_in_flight = 0;   // leases
  int64_t requests_waiting = 0;     // leases before their first token
  int64_t pending_tokens = 0;       // uncached tokens of those
  int64_t kv_tokens = 0;            // prompt and output tokens of leases
  double fluid_tokens = 0;          // predicted work of requests without a lease
  uint64_t blocks_held = 0;         // predicted and confirmed
  uint64_t capacity_blocks = 0;     // as configured
  double capacity_scale = 1;        // learned: true capacity = capacity_blocks * capacity_scale
  double prefill_tokens_per_s = 0;  // that decisions use: learned, configured or the fleet's
  bool prefill_rate_learned = false;

  // The last engine report, as it was given; its figures fade with its age. Negative: not reported.
  double report_age_s = -1;  // negative: there was no report
  int64_t reported_running_requests = -1;
  int64_t reported_waiting_requests = -1;
  double reported_kv_usage = -1;

  // Since it was added.
  uint64_t requests = 0;
  uint64_t requests_by_rule[kRuleCount] = {};  // indexed by Rule; their sum is `requests`
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // predicted when routed

  // KV events. Without any all are 0.
  bool event_driven = false;     // some batch of its events has been applied
  double last_event_age_s = -1;  // since the last batch was applied; negative: there was none
  KvEventCounts kv_events;       // since it was added
  uint64_t engine_blocks = 0;    // that its events have stored, by the engine's count
  // Of blocks_held, those confirmed by events, by their best tier. Indexed by KvTier.
  uint64_t confirmed_blocks[kKvTierCount] = {};
};

struct RouterStats {
  // Since Create.
  uint64_t requests = 0;                        // Route and Acquire that chose an instance
  uint64_t rejected = 0;                        // refused by the bound on predicted TTFT
  uint64_t unavailable = 0;                     // refused because no instance was ready and allowed
  uint64_t prompt_tokens = 0;                   // of `requests`
  uint64_t cached_tokens = 0;                   // of them, predicted cached on the chosen instance
  uint64_t best_cached_tokens = 0;              // of them, the most that any candidate held
  uint64_t decisions_by_rule[kRuleCount] = {};  // indexed by Rule
  uint64_t stale_report_decisions = 0;  // for instances whose engine report was too old to be used
  uint64_t leases_finished = 0;
  uint64_t leases_cancelled = 0;
  uint64_t leases_expired = 0;
  uint64_t output_tokens = 0;  // reported by finished leases
  // How long Route and Acquire took, by the router's clock, with waiting for other threads and a
  // custom policy's time: calls that passed the check of their arguments, whatever their outcome.
  // A sample of the calls when they are many, see RouterOptions::latency_interval_s.
  DurationHistogram route_duration;

  // Of finished leases whose engine reported its cached tokens: how good the prediction was.
  uint64_t reported_requests = 0;
  uint64_t reported_cached_tokens = 0;
  uint64_t predicted_cached_tokens = 0;  // what was predicted for the same requests
  uint64_t over_predicted_tokens = 0;    // predicted but not found
  uint64_t under_predicted_tokens = 0;   // found but not predicted

  // Several routers in front of one fleet (RouterOptions::routers): requests that were placed where
  // the others look for them, since Create, and the share of what this router did not know to be
  // there that engines then reported as cached: learned, 0 to 1, and one half until then. 0 with
  // one router, and with policies that have no homes.
  uint64_t requests_at_home = 0;
  double home_share = 0;

  // Index, now.
  size_t index_bytes = 0;  // exact: every allocation of the index, with the allocator's header
  size_t index_budget_bytes = 0;
  uint64_t index_runs = 0;    // stretches of blocks without a branch
  uint64_t index_blocks = 0;  // distinct blocks
  uint64_t blocks_held = 0;   // (block, instance) pairs
  // Index, since Create.
  uint64_t blocks_evicted = 0;            // by capacity or TTL of an instance
  uint64_t blocks_evicted_by_budget = 0;  // by index_budget_bytes
  uint64_t blocks_not_remembered = 0;     // found no room beside the blocks of running requests

  uint64_t leases_active = 0;
  uint64_t sessions = 0;
  std::vector<InstanceStats> instances;  // live ones, in the order of their slots

  // Since Create, of all instances that were ever there.
  uint64_t kv_event_batches = 0;
  KvEventCounts kv_events;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_STATS_H_
