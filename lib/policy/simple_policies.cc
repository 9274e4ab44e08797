// Policies that look at load alone, or at nothing: what gateways do today, and what prefix_cost is
// compared with.
#include <algorithm>
#include <cmath>

#include "lib/policy/builtin.h"

namespace prefixrouter {
namespace {

size_t EligibleCount(const PolicyInput& in) {
  return static_cast<size_t>(std::count(in.eligible, in.eligible + in.size, uint8_t{1}));
}

// Slot of the n-th eligible instance, from 0. REQUIRES: n < EligibleCount(in).
size_t NthEligible(const PolicyInput& in, uint64_t n) {
  size_t slot = 0;
  for (;; ++slot) {
    if (in.eligible[slot] && n-- == 0) return slot;
  }
}

// Cost 0 for one slot and 1 for the others.
void Prefer(const PolicyInput& in, size_t slot, float* cost) {
  std::fill_n(cost, in.size, 1.0f);
  cost[slot] = 0;
}

class Random final : public Policy {
 public:
  const char* name() const override { return "random"; }
  void Score(const PolicyInput& in, float* cost) const override {
    const size_t count = EligibleCount(in);
    if (count != 0) Prefer(in, NthEligible(in, in.random % count), cost);
  }
};

class RoundRobin final : public Policy {
 public:
  const char* name() const override { return "round_robin"; }
  void Score(const PolicyInput& in, float* cost) const override {
    const size_t count = EligibleCount(in);
    if (count != 0) Prefer(in, NthEligible(in, in.sequence % count), cost);
  }
};

class LeastRequests final : public Policy {
 public:
  const char* name() const override { return "least_requests"; }
  void Score(const PolicyInput& in, float* cost) const override {
    for (size_t i = 0; i < in.size; ++i) cost[i] = in.requests[i] / in.weight[i];
  }
};

// Tokens in flight count whole until the request ends, tokens of requests without a lease until the
// fluid model has drained them.
class LeastTokens final : public Policy {
 public:
  const char* name() const override { return "least_tokens"; }
  void Score(const PolicyInput& in, float* cost) const override {
    for (size_t i = 0; i < in.size; ++i) {
      cost[i] = std::max(in.kv_tokens[i], in.pending_tokens[i]) / in.weight[i];
    }
  }
};

// M. Mitzenmacher, "The power of two choices in randomized load balancing" (2001).
class PowerOfTwo final : public Policy {
 public:
  const char* name() const override { return "power_of_two"; }
  void Score(const PolicyInput& in, float* cost) const override {
    const size_t count = EligibleCount(in);
    if (count == 0) return;
    const uint64_t first = (in.random & 0xffffffffu) % count;
    uint64_t second = first;
    if (count > 1) {  // another one, uniform among the rest
      second = (in.random >> 32) % (count - 1);
      if (second >= first) ++second;
    }
    std::fill_n(cost, in.size, INFINITY);
    for (const uint64_t drawn : {first, second}) {
      const size_t slot = NthEligible(in, drawn);
      cost[slot] = in.requests[slot] / in.weight[slot];
    }
  }
};

}  // namespace

std::unique_ptr<Policy> MakeRandom() { return std::make_unique<Random>(); }
std::unique_ptr<Policy> MakeRoundRobin() { return std::make_unique<RoundRobin>(); }
std::unique_ptr<Policy> MakeLeastRequests() { return std::make_unique<LeastRequests>(); }
std::unique_ptr<Policy> MakeLeastTokens() { return std::make_unique<LeastTokens>(); }
std::unique_ptr<Policy> MakePowerOfTwo() { return std::make_unique<PowerOfTwo>(); }

}  // namespace prefixrouter
