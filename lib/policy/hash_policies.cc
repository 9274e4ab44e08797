// Policies that place requests by a hash, without looking at what is cached.
#include <algorithm>
#include <cmath>

#include "lib/policy/builtin.h"
#include "lib/policy/hash_ring.h"

namespace prefixrouter {
namespace {

class RingPolicy : public Policy {
 public:
  explicit RingPolicy(const PolicyOptions& options) : ring_(options.hash_ring_points) {}
  void InstanceAdded(InstanceId id, const std::string& name, uint32_t rank) override {
    ring_.Add(id, name, rank);
  }
  void InstanceRemoved(InstanceId id) override { ring_.Remove(id); }

 protected:
  HashRing ring_;
};

// consistent_hash: bounded load (V. Mirrokni, M. Thorup, M. Zadimoghaddam, "Consistent Hashing with
// Bounded Loads", 2018). A key, of the session or else of the prompt's first block, goes to the
// first instance from its place on the ring on that has no more than 1.25 times the mean of
// requests in flight.
class ConsistentHash final : public RingPolicy {
 public:
  explicit ConsistentHash(const PolicyOptions& options)
      : RingPolicy(options), load_factor_(static_cast<float>(options.hash_load_factor)) {}
  const char* name() const override { return "consistent_hash"; }

  void Score(const PolicyInput& in, float* cost) const override {
    float requests = 1;  // the one to be placed
    float weights = 0;
    for (size_t i = 0; i < in.size; ++i) {
      cost[i] = 2;
      if (!in.eligible[i]) continue;
      requests += in.requests[i];
      weights += in.weight[i];
    }
    // Some instance is always below the bound: it is above the mean.
    const float bound_per_weight = load_factor_ * requests / std::max(weights, 1e-6f);
    bool found = false;
    ring_.Walk(in, in.affinity_hash, [&](uint32_t slot) {
      const float bound = std::ceil(bound_per_weight * in.weight[slot]);
      if (in.requests[slot] + 1 > bound || cost[slot] != 2) return false;
      cost[slot] = found ? 1.0f : 0.0f;  // the next position is the runner-up
      if (found) return true;
      found = true;
      return false;
    });
  }

 private:
  const float load_factor_;
};

// prefix_hash: a prefix of fixed length has a home on the ring; while the home has as many requests
// in flight as it may, its requests go to the instance with the fewest.
class PrefixHash final : public RingPolicy {
 public:
  explicit PrefixHash(const PolicyOptions& options)
      : RingPolicy(options), max_requests_(static_cast<float>(options.hash_max_requests)) {}
  const char* name() const override { return "prefix_hash"; }

  void Score(const PolicyInput& in, float* cost) const override {
    for (size_t i = 0; i < in.size; ++i) cost[i] = in.requests[i] / in.weight[i];
    if (in.prefix_hash == 0) return;  // shorter than a block
    ring_.Walk(in, in.prefix_hash, [&](uint32_t slot) {
      if (in.requests[slot] < max_requests_ * in.weight[slot]) cost[slot] = -1;
      return true;
    });
  }

 private:
  const float max_requests_;
};

}  // namespace

std::unique_ptr<Policy> MakeConsistentHash(const PolicyOptions& options) {
  return std::make_unique<ConsistentHash>(options);
}
std::unique_ptr<Policy> MakePrefixHash(const PolicyOptions& options) {
  return std::make_unique<PrefixHash>(options);
}

}  // namespace prefixrouter
