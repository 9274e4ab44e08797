// RequestCounters: the statistics that every decision adds to.
//
// The router's lock is held for all calls. There are several shards all the same, and a thread
// counts in one of its own: what another core has just written takes about 70 ns to fetch, which
// all who wait for the lock would wait for, and nobody but RouterStats needs these figures.
#ifndef PREFIXROUTER_LIB_LOAD_REQUEST_COUNTERS_H_
#define PREFIXROUTER_LIB_LOAD_REQUEST_COUNTERS_H_

#include <cstdint>
#include <vector>

#include "prefixrouter/decision.h"
#include "prefixrouter/stats.h"

namespace prefixrouter {

class RequestCounters {
 public:
  // An instance that is new in its slot: counts from 0.
  void AddSlot(uint32_t slot) {
    for (Shard& shard : shards_) {
      if (slot >= shard.instances.size()) shard.instances.resize(slot + 1);
      shard.instances[slot] = InstanceCounts();
    }
  }

  // thread: any number, best another one for each thread.
  void Count(uint32_t thread, const Decision& decision) {
    const int rule = static_cast<int>(decision.rule);
    Shard& shard = shards_[thread % kShards];
    ++shard.requests_by_rule[rule];
    shard.prompt_tokens += decision.prompt_tokens;
    shard.cached_tokens += decision.cached_tokens;
    shard.best_cached_tokens += decision.best_cached_tokens;
    shard.stale_report_decisions += decision.stale_report ? 1 : 0;
    InstanceCounts& instance = shard.instances[decision.instance.slot()];
    ++instance.requests_by_rule[rule];
    instance.prompt_tokens += decision.prompt_tokens;
    instance.cached_tokens += decision.cached_tokens;
  }

  void AddTo(RouterStats* stats) const {
    for (const Shard& shard : shards_) {
      for (int rule = 0; rule < kRuleCount; ++rule) {
        stats->decisions_by_rule[rule] += shard.requests_by_rule[rule];
        stats->requests += shard.requests_by_rule[rule];
      }
      stats->prompt_tokens += shard.prompt_tokens;
      stats->cached_tokens += shard.cached_tokens;
      stats->best_cached_tokens += shard.best_cached_tokens;
      stats->stale_report_decisions += shard.stale_report_decisions;
    }
  }
  void AddTo(uint32_t slot, InstanceStats* stats) const {
    for (const Shard& shard : shards_) {
      const InstanceCounts& instance = shard.instances[slot];
      for (int rule = 0; rule < kRuleCount; ++rule) {
        stats->requests_by_rule[rule] += instance.requests_by_rule[rule];
        stats->requests += instance.requests_by_rule[rule];
      }
      stats->prompt_tokens += instance.prompt_tokens;
      stats->cached_tokens += instance.cached_tokens;
    }
  }

 private:
  static constexpr uint32_t kShards = 8;

  struct InstanceCounts {
    uint64_t requests_by_rule[kRuleCount] = {};
    uint64_t prompt_tokens = 0;
    uint64_t cached_tokens = 0;
  };
  struct alignas(64) Shard {
    uint64_t requests_by_rule[kRuleCount] = {};
    uint64_t prompt_tokens = 0;
    uint64_t cached_tokens = 0;
    uint64_t best_cached_tokens = 0;
    uint64_t stale_report_decisions = 0;
    std::vector<InstanceCounts> instances;  // by slot
  };

  Shard shards_[kShards];
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_LOAD_REQUEST_COUNTERS_H_
