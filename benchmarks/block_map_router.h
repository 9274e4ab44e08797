// BlockMapRouter: the router that trace_vs_block_map compares with, around BlockMapIndex.
//
// It does the same job: block keys by BlockHasher, the match of all instances, the cost of
// prefix_cost, near-ties by chance, and a model of load in which predicted work drains at the
// prefill rate. What it leaves out (namespaces, leases, sessions, statistics, locks) only makes it
// faster.
//
// Not thread-safe.
#ifndef PREFIXROUTER_BENCHMARKS_BLOCK_MAP_ROUTER_H_
#define PREFIXROUTER_BENCHMARKS_BLOCK_MAP_ROUTER_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "benchmarks/block_map_index.h"
#include "benchmarks/fleet.h"
#include "lib/policy/builtin.h"
#include "lib/sim/random.h"

namespace prefixrouter::bench {

class BlockMapRouter {
 public:
  BlockMapRouter(uint32_t instance_count, uint32_t capacity_blocks, double prefill_tokens_per_s)
      : index_(instance_count, capacity_blocks),
        cached_blocks_(instance_count),
        eligible_(instance_count, 1),
        pending_tokens_(instance_count),
        waiting_(instance_count),
        crowding_(instance_count, 1),
        tokens_per_s_(instance_count, static_cast<float>(prefill_tokens_per_s)),
        seconds_per_token_(instance_count, static_cast<float>(1 / prefill_tokens_per_s)),
        zeros_(instance_count),
        weights_(instance_count, 1),
        costs_(instance_count) {}

  // Chooses an instance and remembers that the prompt is cached there. now_nanos does not step
  // back.
  uint32_t Route(Span<const uint32_t> tokens, int64_t now_nanos) {
    keys_.resize(hasher_.BlockCount(tokens.size()));
    hasher_.TokenBlockKeys({}, tokens, {}, keys_);
    index_.Match(keys_, cached_blocks_);
    Drain(now_nanos);

    const uint32_t chosen = Choose(tokens.size());
    const uint64_t cached_tokens = uint64_t{cached_blocks_[chosen]} * kBlockSize;
    pending_tokens_[chosen] += static_cast<float>(tokens.size() - cached_tokens);
    waiting_[chosen] += 1;
    index_.Insert(chosen, keys_);
    prompt_tokens_total_ += tokens.size();
    cached_tokens_total_ += cached_tokens;
    return chosen;
  }

  double cached_share() const {
    return static_cast<double>(cached_tokens_total_) / static_cast<double>(prompt_tokens_total_);
  }

 private:
  // What instances have prefilled since the last call. Waiting requests go as their tokens do.
  void Drain(int64_t now_nanos) {
    const float seconds = static_cast<float>(now_nanos - last_nanos_) * 1e-9f;
    last_nanos_ = now_nanos;
    for (size_t i = 0; i < pending_tokens_.size(); ++i) {
      const float left = std::max(0.0f, pending_tokens_[i] - seconds * tokens_per_s_[i]);
      waiting_[i] = left > 0 ? waiting_[i] * (left / pending_tokens_[i]) : 0;
      pending_tokens_[i] = left;
      crowding_[i] = Crowding(waiting_[i], waiting_[i]);
    }
  }

  uint32_t Choose(size_t prompt_tokens) {
    PolicyInput in;
    in.size = costs_.size();
    in.eligible = eligible_.data();
    in.cached_blocks = cached_blocks_.data();
    in.tokens_per_block = kBlockSize;
    in.pending_tokens = pending_tokens_.data();
    in.tokens_per_s = tokens_per_s_.data();
    in.seconds_per_token = seconds_per_token_.data();
    in.requests = waiting_.data();
    in.waiting = waiting_.data();
    in.crowding = crowding_.data();
    in.kv_tokens = zeros_.data();
    in.kv_usage = zeros_.data();
    in.weight = weights_.data();
    in.prompt_tokens = static_cast<float>(prompt_tokens);
    float waiting = 0;
    for (const float requests : waiting_) waiting += requests;
    in.mean_waiting = waiting / static_cast<float>(waiting_.size());
    policy_->Score(in, costs_.data());

    const auto best =
        static_cast<uint32_t>(std::min_element(costs_.begin(), costs_.end()) - costs_.begin());
    const float limit = costs_[best] + policy_->TieTolerance(in, best);
    uint32_t chosen = best, ties = 0;
    for (uint32_t i = 0; i < costs_.size(); ++i) {
      if (costs_[i] <= limit && random_.Between(0, ties++) == 0) chosen = i;
    }
    return chosen;
  }

  const BlockHasher hasher_{kBlockSize, kSeed};
  const std::unique_ptr<Policy> policy_ = MakePrefixCost();
  SplitMix64 random_{kSeed};
  BlockMapIndex index_;

  // One element an instance, as a policy reads them.
  std::vector<uint32_t> cached_blocks_;
  std::vector<uint8_t> eligible_;
  std::vector<float> pending_tokens_;
  std::vector<float> waiting_;  // requests whose work is not done
  std::vector<float> crowding_;
  std::vector<float> tokens_per_s_;
  std::vector<float> seconds_per_token_;
  std::vector<float> zeros_;
  std::vector<float> weights_;
  std::vector<float> costs_;

  std::vector<uint64_t> keys_;
  int64_t last_nanos_ = 0;
  uint64_t prompt_tokens_total_ = 0;
  uint64_t cached_tokens_total_ = 0;
};

}  // namespace prefixrouter::bench

#endif  // PREFIXROUTER_BENCHMARKS_BLOCK_MAP_ROUTER_H_
