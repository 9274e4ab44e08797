// A fleet for tests of policies: the arrays of a PolicyInput, set by hand.
#ifndef PREFIXROUTER_TESTS_SUPPORT_POLICY_FLEET_H_
#define PREFIXROUTER_TESTS_SUPPORT_POLICY_FLEET_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/policy/choose.h"

namespace prefixrouter {

// A fleet whose arrays a test sets as it likes.
struct PolicyFleet {
  explicit PolicyFleet(size_t size)
      : ids(size),
        eligible(size, 1),
        cached(size, 0),
        pending(size, 0),
        rate(size, 10000),
        requests(size, 0),
        waiting(size, 0),
        crowding(size, 1),
        kv_tokens(size, 0),
        kv_usage(size, 0),
        displacement(size, 0),
        weight(size, 1),
        second(size),
        penalty(size, 0),
        cost(size, 0),
        scratch(size, 0) {
    for (size_t i = 0; i < size; ++i) ids[i] = InstanceId::Make(static_cast<uint32_t>(i), 1);
  }
  PolicyInput Input(float prompt_tokens = 1000, uint64_t random = 0) {
    for (size_t i = 0; i < ids.size(); ++i) {
      second[i] = 1 / (rate[i] * weight[i]);
      penalty[i] = eligible[i] ? 0 : INFINITY;
      crowding[i] = Crowding(requests[i], waiting[i]);
    }
    PolicyInput in;
    in.size = ids.size();
    in.ids = ids.data();
    in.eligible = eligible.data();
    in.cached_blocks = cached.data();
    in.tokens_per_block = 16;
    in.pending_tokens = pending.data();
    in.tokens_per_s = rate.data();
    in.seconds_per_token = second.data();
    in.requests = requests.data();
    in.waiting = waiting.data();
    in.crowding = crowding.data();
    in.kv_tokens = kv_tokens.data();
    in.kv_usage = kv_usage.data();
    in.any_report = true;
    in.displacement = displacement.data();
    for (float share : displacement) in.any_displacement = in.any_displacement || share != 0;
    in.weight = weight.data();
    in.prompt_tokens = prompt_tokens;
    in.random = random;
    return in;
  }
  Choice Choose(Policy& policy, const PolicyInput& in) {
    policy.Score(in, cost.data());
    return ChooseLowest(policy, in, penalty.data(), cost.data(), scratch.data());
  }
  Choice Choose(Policy& policy) { return Choose(policy, Input()); }

  std::vector<InstanceId> ids;
  std::vector<uint8_t> eligible;
  std::vector<uint32_t> cached;
  std::vector<float> pending, rate, requests, waiting, crowding, kv_tokens, kv_usage, displacement,
      weight, second, penalty, cost, scratch;
};

// Well-mixed numbers for the choice between ties.
inline uint64_t Spread(uint64_t i) { return i * 0x9E3779B97F4A7C15u; }

}  // namespace prefixrouter

#endif  // PREFIXROUTER_TESTS_SUPPORT_POLICY_FLEET_H_
