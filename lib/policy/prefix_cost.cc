// prefix_cost, the default policy: the least predicted work until this prompt's first token, with a
// weight on tokens that have to be computed anew, and dearer where many requests share the
// instance.
//
//   work = overhead + pending + w * (1 + displacement) * uncached + v * avoidable +
//          kRequestTokens * requests + pressure
//   cost = work * Crowding(requests, waiting) / (rate * weight)
//
// in seconds; at the prompt's home w * home is taken off the work, which does not fall below 0.
// Where
//   overhead   what a first token takes beside prefill, learned
//   pending    prefill tokens that are ahead of this prompt on the instance
//   uncached   prompt tokens that the instance does not hold
//   avoidable  of them, those that another candidate holds
//   w          the miss weight, 1.3 to 3.8: a queued token only delays this request, an uncached
//              one also costs the requests behind it and pushes other prefixes out of the cache. It
//              grows with the queue, 1.3 + min(2.5, 0.5 * mean requests that wait for their first
//              token): a high one throws work onto hot spots of a large idle fleet, a low one loses
//              reuse under load
//   displacement  0 to 1, from KV events: the share of an uncached token that what it pushes out of
//              the instance's cache will cost when it is asked for again. It is another uncached
//              token then, and weighs as much
//   v          0 to 7.5: 0.5 * mean waiting, less the 2.5 that w has taken. Past saturation, what
//              is computed twice is at the expense of all that wait. What nobody holds has to be
//              computed anyhow; if it weighed more too, the instances' queues would count less
//   requests   in flight, and waiting for their first token: what is put on an instance delays all
//              of them. The root is between no such factor (a popular prefix stays on few instances
//              until their batches are full) and the whole product, "multiplicative" (long prompts
//              wait behind short ones)
//   home       with several routers: tokens that placing the prompt where the others look for it is
//              expected to save, now and later (lib/policy/homes.h)
//   pressure   an instance whose KV memory is nearly full must evict or wait before it can start,
//              and what it holds of this prompt may be gone by then: from 90 % use on, up to twice
//              the cost of computing the whole prompt
//
// docs/policy.md has the evidence.
#include <algorithm>

#include "lib/base/vector.h"
#include "lib/policy/builtin.h"

namespace prefixrouter {
namespace {

constexpr float kMissWeight = 1.3f;
constexpr float kMissWeightPerWaiting = 0.5f;
constexpr float kMissWeightGrowth = 2.5f;
constexpr float kAvoidableWeightMax = 7.5f;
constexpr float kRequestTokens = 16;
constexpr float kPressureStart = 0.9f;
constexpr float kPressureFactor = 2 / (1 - kPressureStart);
// A saving of two blocks, 128 tokens at most (about 10 ms), is no reason to prefer an instance.
constexpr float kTieBlocks = 2;
constexpr float kTieTokensMax = 128;

// What an uncached token weighs: any, and in addition one that another candidate holds.
struct Weights {
  explicit Weights(const PolicyInput& in) {
    const float growth = kMissWeightPerWaiting * in.mean_waiting;
    miss = kMissWeight + std::min(growth, kMissWeightGrowth);
    avoidable = std::clamp(growth - kMissWeightGrowth, 0.0f, kAvoidableWeightMax);
  }
  float miss;
  float avoidable;
};

// The fewest tokens of the prompt that any candidate has to compute.
PREFIX_ROUTER_VECTOR float LeastUncached(const PolicyInput& in) {
  const size_t size = in.size;
  const uint32_t* const cached_blocks = in.cached_blocks;
  const uint8_t* const eligible = in.eligible;
  uint32_t most = 0;
#pragma omp simd reduction(max : most)
  for (size_t i = 0; i < size; ++i) {
    const uint32_t cached = eligible[i] != 0 ? cached_blocks[i] : 0;
    most = cached > most ? cached : most;
  }
  return std::max(in.prompt_tokens - static_cast<float>(most) * in.tokens_per_block, 0.0f);
}

// v * avoidable is v * uncached less this.
float Unavoidable(const PolicyInput& in, Weights weights) {
  return weights.avoidable > 0 ? weights.avoidable * LeastUncached(in) : 0;
}

inline float Uncached(float prompt_tokens, uint32_t cached_blocks, float tokens_per_block) {
  // Signed, because vector instructions convert only signed integers. Counts are below 2^24.
  const float cached = static_cast<float>(static_cast<int32_t>(cached_blocks)) * tokens_per_block;
  const float missing = prompt_tokens - cached;
  return missing > 0 ? missing : 0;
}

PREFIX_ROUTER_VECTOR void ScoreWork(const PolicyInput& in, Weights weights, float* cost) {
  const size_t size = in.size;
  const uint32_t* const cached_blocks = in.cached_blocks;
  const float* const pending_tokens = in.pending_tokens;
  const float* const requests = in.requests;
  const float* const crowding = in.crowding;
  const float* const seconds_per_token = in.seconds_per_token;
  const float tokens_per_block = in.tokens_per_block;
  const float prompt_tokens = in.prompt_tokens;
  const float constant = in.overhead_tokens - Unavoidable(in, weights);
  const float weight = weights.miss + weights.avoidable;
#pragma omp simd
  for (size_t i = 0; i < size; ++i) {
    const float uncached = Uncached(prompt_tokens, cached_blocks[i], tokens_per_block);
    const float work =
        constant + pending_tokens[i] + weight * uncached + kRequestTokens * requests[i];
    cost[i] = work * crowding[i] * seconds_per_token[i];
  }
}

// More for what uncached blocks push out of the cache: tokens that are uncached next time.
PREFIX_ROUTER_VECTOR void AddDisplaced(const PolicyInput& in, Weights weights, float* cost) {
  const size_t size = in.size;
  const uint32_t* const cached_blocks = in.cached_blocks;
  const float* const displacement = in.displacement;
  const float* const crowding = in.crowding;
  const float* const seconds_per_token = in.seconds_per_token;
  const float tokens_per_block = in.tokens_per_block;
  const float prompt_tokens = in.prompt_tokens;
#pragma omp simd
  for (size_t i = 0; i < size; ++i) {
    const float uncached = Uncached(prompt_tokens, cached_blocks[i], tokens_per_block);
    cost[i] += weights.miss * displacement[i] * uncached * crowding[i] * seconds_per_token[i];
  }
}

float Pressure(const PolicyInput& in, size_t i, float miss_weight) {
  const float above = std::max(in.kv_usage[i] - kPressureStart, 0.0f);
  return above * kPressureFactor * miss_weight * in.prompt_tokens * in.crowding[i] *
         in.seconds_per_token[i];
}

// What placing the prompt at its home is worth, on an idle instance.
float HomeSeconds(const PolicyInput& in, float miss_weight) {
  return miss_weight * in.home_tokens * in.seconds_per_token[in.home];
}

class PrefixCost final : public Policy {
 public:
  const char* name() const override { return "prefix_cost"; }

  void Score(const PolicyInput& in, float* cost) const override {
    const Weights weights(in);
    ScoreWork(in, weights, cost);
    if (in.any_displacement) AddDisplaced(in, weights, cost);
    if (in.any_report) {
      for (size_t i = 0; i < in.size; ++i) cost[i] += Pressure(in, i, weights.miss);
    }
    if (in.home != PolicyInput::kNoHome) {
      const float worth = HomeSeconds(in, weights.miss) * in.crowding[in.home];
      cost[in.home] = std::max(cost[in.home] - worth, 0.0f);
    }
  }

  float TieTolerance(const PolicyInput& in, size_t best) const override {
    return std::min(kTieBlocks * in.tokens_per_block, kTieTokensMax) * in.seconds_per_token[best];
  }

  CostParts Explain(const PolicyInput& in, size_t i, float cost) const override {
    const Weights weights(in);
    const double second = in.seconds_per_token[i];
    const double uncached = in.prompt_tokens - in.cached_tokens(i);
    const double displaced = in.any_displacement ? weights.miss * in.displacement[i] : 0;
    CostParts parts;
    parts.pending = in.pending_tokens[i] * second;
    parts.uncached =
        ((weights.miss + weights.avoidable + displaced) * uncached - Unavoidable(in, weights)) *
        second;
    parts.pressure = Pressure(in, i, weights.miss);
    parts.total = cost;
    if (i == in.home) {
      // A cost of 0 has no more to take off.
      parts.uncached = cost > 0 ? parts.uncached - HomeSeconds(in, weights.miss)
                                : -(parts.pending + parts.pressure);
    }
    const double rest = cost - parts.pending - parts.uncached - parts.pressure;
    if (i == in.home) parts.uncached += std::min(rest, 0.0);  // it takes pressure off as well
    parts.requests = std::max(rest, 0.0);
    return parts;
  }

  float MissWeight(const PolicyInput& in) const override { return Weights(in).miss; }
};

}  // namespace

std::unique_ptr<Policy> MakePrefixCost() { return std::make_unique<PrefixCost>(); }

}  // namespace prefixrouter
