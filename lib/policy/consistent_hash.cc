// consistent_hash: a ring of points, with bounded load (V. Mirrokni, M. Thorup, M. Zadimoghaddam,
// "Consistent Hashing with Bounded Loads", 2018). A key, of the session or else of the prompt's
// first block, goes to the first instance from its place on the ring on that has no more than 1.25
// times the mean of requests in flight. When instances come or go, only the keys of their stretches
// of the ring move.
#include <algorithm>
#include <cmath>
#include <vector>

#include "lib/hash/xxh3.h"
#include "lib/policy/builtin.h"

namespace prefixrouter {
namespace {

constexpr uint32_t kPointsPerInstance = 128;
constexpr float kLoadFactor = 1.25f;

class ConsistentHash final : public Policy {
 public:
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
    const float bound_per_weight = kLoadFactor * requests / std::max(weights, 1e-6f);
    const auto start =
        std::lower_bound(points_.begin(), points_.end(), in.affinity_hash,
                         [](const Point& point, uint64_t hash) { return point.hash < hash; });
    bool found = false;
    for (size_t walked = 0; walked < points_.size(); ++walked) {
      const size_t at = (static_cast<size_t>(start - points_.begin()) + walked) % points_.size();
      const uint32_t slot = points_[at].id.slot();
      if (slot >= in.size || !in.eligible[slot] || in.ids[slot] != points_[at].id) continue;
      const float bound = std::ceil(bound_per_weight * in.weight[slot]);
      if (in.requests[slot] + 1 > bound || cost[slot] != 2) continue;
      cost[slot] = found ? 1.0f : 0.0f;  // the next position is the runner-up
      if (found) break;
      found = true;
    }
  }

  void InstanceAdded(InstanceId id, const std::string& name, uint32_t rank) override {
    // The hash of the whole name, the rank and the point's number: names that are prefixes of one
    // another share no points.
    uint64_t words[3] = {Xxh3(name.data(), name.size()), rank, 0};
    const auto old_size = static_cast<std::ptrdiff_t>(points_.size());
    for (; words[2] < kPointsPerInstance; ++words[2]) {
      points_.push_back({Xxh3(words, sizeof(words)), id});
    }
    std::sort(points_.begin() + old_size, points_.end());
    std::inplace_merge(points_.begin(), points_.begin() + old_size, points_.end());
  }

  void InstanceRemoved(InstanceId id) override {
    points_.erase(std::remove_if(points_.begin(), points_.end(),
                                 [&](const Point& point) { return point.id == id; }),
                  points_.end());
  }

 private:
  struct Point {
    uint64_t hash;
    InstanceId id;
    bool operator<(const Point& other) const {
      return hash != other.hash ? hash < other.hash : id < other.id;
    }
  };
  std::vector<Point> points_;
};

}  // namespace

std::unique_ptr<Policy> MakeConsistentHash() { return std::make_unique<ConsistentHash>(); }

}  // namespace prefixrouter
