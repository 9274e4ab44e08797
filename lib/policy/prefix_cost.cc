// prefix_cost, the default policy: the least predicted prefill work until this prompt's first
// token, with a weight on tokens that have to be computed anew.
//
//   cost = (pending + w * uncached + kRequestTokens * requests + pressure) / (rate * weight)
//
// in seconds, where
//   pending   prefill tokens that are ahead of this prompt on the instance
//   uncached  prompt tokens that the instance does not hold
//   w         the miss weight, 1.5 to 4: a queued token only delays this request, an uncached one
//             also costs the requests behind it and pushes other prefixes out of the cache. It
//             grows with the queue, 1.5 + min(2.5, 0.5 * mean requests that wait for their first
//             token): a high one throws work onto hot spots of a large idle fleet, a low one loses
//             reuse under load (docs/design.md has the comparison).
//   requests  in flight: decoding takes a little of each prefill step
//   pressure  an instance whose KV memory is nearly full must evict or wait before it can start,
//             and what it holds of this prompt may be gone by then: from 90 % use on, up to twice
//             the cost of computing the whole prompt
#include <algorithm>

#include "lib/base/vector.h"
#include "lib/policy/builtin.h"

namespace prefixrouter {
namespace {

constexpr float kRequestTokens = 16;
constexpr float kPressureStart = 0.9f;
constexpr float kPressureFactor = 2 / (1 - kPressureStart);
// A saving of two blocks, 128 tokens at most (about 10 ms), is no reason to prefer an instance.
constexpr float kTieBlocks = 2;
constexpr float kTieTokensMax = 128;

PREFIX_ROUTER_VECTOR void ScoreWork(const PolicyInput& in, float miss_weight, float* cost) {
  const size_t size = in.size;
  const uint32_t* const cached_blocks = in.cached_blocks;
  const float* const pending_tokens = in.pending_tokens;
  const float* const requests = in.requests;
  const float* const seconds_per_token = in.seconds_per_token;
  const float tokens_per_block = in.tokens_per_block;
  const float prompt_tokens = in.prompt_tokens;
#pragma omp simd
  for (size_t i = 0; i < size; ++i) {
    // Signed, because vector instructions convert only signed integers. Counts are below 2^24.
    const float cached =
        static_cast<float>(static_cast<int32_t>(cached_blocks[i])) * tokens_per_block;
    const float missing = prompt_tokens - cached;
    const float uncached = missing > 0 ? missing : 0;
    const float work = pending_tokens[i] + miss_weight * uncached + kRequestTokens * requests[i];
    cost[i] = work * seconds_per_token[i];
  }
}

float Pressure(const PolicyInput& in, size_t i, float miss_weight) {
  const float above = std::max(in.kv_usage[i] - kPressureStart, 0.0f);
  return above * kPressureFactor * miss_weight * in.prompt_tokens * in.seconds_per_token[i];
}

class PrefixCost final : public Policy {
 public:
  const char* name() const override { return "prefix_cost"; }

  void Score(const PolicyInput& in, float* cost) const override {
    const float miss_weight = MissWeight(in);
    ScoreWork(in, miss_weight, cost);
    if (!in.any_report) return;
    for (size_t i = 0; i < in.size; ++i) cost[i] += Pressure(in, i, miss_weight);
  }

  float TieTolerance(const PolicyInput& in, size_t best) const override {
    return std::min(kTieBlocks * in.tokens_per_block, kTieTokensMax) * in.seconds_per_token[best];
  }

  CostParts Explain(const PolicyInput& in, size_t i, float cost) const override {
    const float miss_weight = MissWeight(in);
    const double second = in.seconds_per_token[i];
    CostParts parts;
    parts.pending = in.pending_tokens[i] * second;
    parts.uncached = miss_weight * (in.prompt_tokens - in.cached_tokens(i)) * second;
    parts.requests = kRequestTokens * in.requests[i] * second;
    parts.pressure = Pressure(in, i, miss_weight);
    parts.total = cost;
    return parts;
  }

  float MissWeight(const PolicyInput& in) const override {
    return 1.5f + std::min(2.5f, 0.5f * in.mean_waiting);
  }
};

}  // namespace

std::unique_ptr<Policy> MakePrefixCost() { return std::make_unique<PrefixCost>(); }

}  // namespace prefixrouter
