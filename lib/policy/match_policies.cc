// Rules of other routers that weigh what is cached against load. Their defaults are those that
// their users get; docs/policy.md says whose they are.
#include <algorithm>
#include <cmath>

#include "lib/policy/builtin.h"

namespace prefixrouter {
namespace {

// cache_threshold: the least loaded of those that hold the deepest match, if that is deep enough
// and the instance not overloaded; else the least loaded of all, which from then on holds it too.
class CacheThreshold final : public Policy {
 public:
  explicit CacheThreshold(const PolicyOptions& options)
      : match_(static_cast<float>(options.threshold_match)),
        requests_(static_cast<float>(options.threshold_requests)),
        ratio_(static_cast<float>(options.threshold_ratio)) {}
  const char* name() const override { return "cache_threshold"; }

  void Score(const PolicyInput& in, float* cost) const override {
    uint32_t deepest = 0;
    float sum = 0, count = 0;
    for (size_t i = 0; i < in.size; ++i) {
      cost[i] = in.requests[i] / in.weight[i];
      if (!in.eligible[i]) continue;
      deepest = std::max(deepest, in.cached_blocks[i]);
      sum += cost[i];
      ++count;
    }
    if (deepest == 0) return;
    float least = INFINITY;  // of the holders
    float matched = 0;
    for (size_t i = 0; i < in.size; ++i) {
      if (!in.eligible[i] || in.cached_blocks[i] != deepest) continue;
      least = std::min(least, cost[i]);
      matched = in.cached_tokens(i);
    }
    const float mean = sum / count;
    if (matched <= match_ * in.prompt_tokens) return;
    if (least > ratio_ * mean && least > mean + requests_) return;
    for (size_t i = 0; i < in.size; ++i) {
      if (in.cached_blocks[i] != deepest) cost[i] += kNotHolder;
    }
  }

 private:
  static constexpr float kNotHolder = 1e9f;
  const float match_, requests_, ratio_;
};

// weighted: the highest weighted sum of three scores from 0 to 1. The cost is its negative.
class Weighted final : public Policy {
 public:
  explicit Weighted(const PolicyOptions& options)
      : match_(static_cast<float>(options.weight_match)),
        queue_(static_cast<float>(options.weight_queue)),
        kv_(static_cast<float>(options.weight_kv)) {}
  const char* name() const override { return "weighted"; }

  void Score(const PolicyInput& in, float* cost) const override {
    float shortest = INFINITY, longest = 0;
    for (size_t i = 0; i < in.size; ++i) {
      if (!in.eligible[i]) continue;
      shortest = std::min(shortest, in.waiting[i]);
      longest = std::max(longest, in.waiting[i]);
    }
    const float range = longest - shortest;
    for (size_t i = 0; i < in.size; ++i) {
      const float match = in.prompt_tokens > 0 ? in.cached_tokens(i) / in.prompt_tokens : 0;
      const float queue = range > 0 ? (longest - in.waiting[i]) / range : 1;
      cost[i] = -(match_ * match + queue_ * queue + kv_ * (1 - in.kv_usage[i])) * in.weight[i];
    }
  }

 private:
  const float match_, queue_, kv_;
};

// block_cost: tokens to prefill until this prompt's first token, and tokens that decode, in blocks.
class BlockCost final : public Policy {
 public:
  explicit BlockCost(const PolicyOptions& options)
      : credit_(static_cast<float>(options.block_credit)) {}
  const char* name() const override { return "block_cost"; }

  void Score(const PolicyInput& in, float* cost) const override {
    for (size_t i = 0; i < in.size; ++i) {
      const float prefill = in.pending_tokens[i] + in.prompt_tokens - credit_ * in.cached_tokens(i);
      const float tokens = std::max(prefill, 0.0f) + in.kv_tokens[i];
      cost[i] = tokens / (std::max(in.tokens_per_block, 1.0f) * in.weight[i]);
    }
  }

 private:
  const float credit_;
};

// multiplicative: prefill work times requests, this one included.
class Multiplicative final : public Policy {
 public:
  const char* name() const override { return "multiplicative"; }

  void Score(const PolicyInput& in, float* cost) const override {
    for (size_t i = 0; i < in.size; ++i) {
      const float work = in.pending_tokens[i] + in.prompt_tokens - in.cached_tokens(i);
      cost[i] = work * (in.requests[i] + 1) / in.weight[i];
    }
  }
};

}  // namespace

std::unique_ptr<Policy> MakeCacheThreshold(const PolicyOptions& options) {
  return std::make_unique<CacheThreshold>(options);
}
std::unique_ptr<Policy> MakeWeighted(const PolicyOptions& options) {
  return std::make_unique<Weighted>(options);
}
std::unique_ptr<Policy> MakeBlockCost(const PolicyOptions& options) {
  return std::make_unique<BlockCost>(options);
}
std::unique_ptr<Policy> MakeMultiplicative(const PolicyOptions&) {
  return std::make_unique<Multiplicative>();
}

}  // namespace prefixrouter
