// HashRing: places keys on instances so that few keys move when an instance comes or goes.
//
// Each instance has points at fixed pseudo-random places of a circle of 2^64; a key belongs to the
// first instance from its own place on. Places depend on an instance's name and rank alone, so that
// all routers agree.
//
// Not thread-safe, finding neither: what was added is sorted in when the ring is next used. O(log
// points) to find an instance if all are eligible, O(points of the fleet) for the first time after
// a change. 16 bytes a point.
#ifndef PREFIXROUTER_LIB_POLICY_HASH_RING_H_
#define PREFIXROUTER_LIB_POLICY_HASH_RING_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/hash/xxh3.h"
#include "prefixrouter/instance.h"
#include "prefixrouter/policy.h"

namespace prefixrouter {

class HashRing {
 public:
  explicit HashRing(uint32_t points_per_instance) : points_per_instance_(points_per_instance) {}

  void Add(InstanceId id, const std::string& name, uint32_t rank) {
    // The hash of the whole name, the rank and the point's number: names that are prefixes of one
    // another share no points.
    uint64_t words[3] = {Xxh3(name.data(), name.size()), rank, 0};
    for (; words[2] < points_per_instance_; ++words[2]) {
      points_.push_back({Xxh3(words, sizeof(words)), id});
    }
  }

  void Remove(InstanceId id) {
    Sort();
    points_.erase(std::remove_if(points_.begin(), points_.end(),
                                 [&](const Point& point) { return point.id == id; }),
                  points_.end());
    sorted_ = points_.size();
  }

  // Calls visit(slot) for the eligible instances in the order of the ring from `hash` on, an
  // instance once for each of its points, until it returns true.
  template <typename Visit>
  void Walk(const PolicyInput& in, uint64_t hash, Visit visit) const {
    Sort();
    const auto start =
        std::lower_bound(points_.begin(), points_.end(), hash,
                         [](const Point& point, uint64_t place) { return point.hash < place; });
    for (size_t walked = 0; walked < points_.size(); ++walked) {
      const size_t at = (static_cast<size_t>(start - points_.begin()) + walked) % points_.size();
      const uint32_t slot = points_[at].id.slot();
      if (slot >= in.size || !in.eligible[slot] || in.ids[slot] != points_[at].id) continue;
      if (visit(slot)) return;
    }
  }

 private:
  struct Point {
    uint64_t hash;
    InstanceId id;
    bool operator<(const Point& other) const {
      return hash != other.hash ? hash < other.hash : id < other.id;
    }
  };

  void Sort() const {
    if (sorted_ == points_.size()) return;
    const auto middle = points_.begin() + static_cast<std::ptrdiff_t>(sorted_);
    std::sort(middle, points_.end());
    std::inplace_merge(points_.begin(), middle, points_.end());
    sorted_ = points_.size();
  }

  const uint32_t points_per_instance_;
  mutable std::vector<Point> points_;
  mutable size_t sorted_ = 0;  // so many of them, from the first
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_POLICY_HASH_RING_H_
