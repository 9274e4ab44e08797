// BlockMapIndex: the index that most routers have, as the baseline of the benchmarks.
//
// One hash map with an entry for every block, which lists the instances that have it, and for every
// instance one LRU list of its blocks with a hash map into it: the shape of llm-d's approximate
// prefix index and of its relatives. Match, insert and evict each cost a few look-ups a block, and
// memory grows with the (block, instance) pairs.
//
// It is written as one would for use: Abseil's flat hash maps, up to four holders of a block
// without an allocation, one pass a call. It keeps what PrefixIndex keeps of predicted residency:
// the match is the contiguous leading blocks of an instance, eviction is least recently used first
// and deepest block of a prompt first, and a prompt above the capacity counts with its leading
// blocks.
//
// Not thread-safe.
#ifndef PREFIXROUTER_BENCHMARKS_BLOCK_MAP_INDEX_H_
#define PREFIXROUTER_BENCHMARKS_BLOCK_MAP_INDEX_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <list>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "prefixrouter/span.h"

namespace prefixrouter::bench {

class BlockMapIndex {
 public:
  // Every instance, numbered from 0, keeps at most `capacity_blocks`.
  BlockMapIndex(uint32_t instance_count, uint32_t capacity_blocks)
      : capacity_blocks_(capacity_blocks), instances_(instance_count) {}

  uint32_t instance_count() const { return static_cast<uint32_t>(instances_.size()); }
  uint64_t blocks_evicted() const { return blocks_evicted_; }
  uint64_t blocks_held() const {
    uint64_t blocks = 0;
    for (const Instance& instance : instances_) blocks += instance.position.size();
    return blocks;
  }

  // Sets depths[i] to the number of leading blocks that instance i holds.
  // REQUIRES: depths.size() == instance_count()
  void Match(Span<const uint64_t> keys, Span<uint32_t> depths) const {
    std::fill(depths.begin(), depths.end(), 0);
    for (uint32_t depth = 0; depth < keys.size(); ++depth) {
      const auto block = holders_.find(keys[depth]);
      if (block == holders_.end()) return;
      bool any = false;
      for (const uint32_t instance : block->second) {
        if (depths[instance] != depth) continue;  // it lacks a block before this one
        depths[instance] = depth + 1;
        any = true;
      }
      if (!any) return;
    }
  }

  // The instance holds these blocks now, the first one as its most recently used.
  void Insert(uint32_t instance_number, Span<const uint64_t> keys) {
    Instance& instance = instances_[instance_number];
    const size_t count = std::min<size_t>(keys.size(), capacity_blocks_);
    // Each block goes behind its predecessor: the deepest is the first to be evicted, and what the
    // prompt shares with the index is safe at the front before room is made for the rest.
    auto place = instance.recent.begin();
    for (size_t i = 0; i < count; ++i) {
      const auto [entry, is_new] = instance.position.try_emplace(keys[i]);
      if (!is_new) {
        if (entry->second == place) {
          ++place;
        } else {
          instance.recent.splice(place, instance.recent, entry->second);
        }
        continue;
      }
      entry->second = instance.recent.insert(place, keys[i]);
      holders_[keys[i]].push_back(instance_number);
      if (instance.position.size() > capacity_blocks_) {
        if (place == std::prev(instance.recent.end())) ++place;
        EvictOne(instance_number, instance);
      }
    }
  }

  // Forgets the least recently used block of an instance, if it has one.
  void EvictOne(uint32_t instance_number) {
    Instance& instance = instances_[instance_number];
    if (!instance.recent.empty()) EvictOne(instance_number, instance);
  }

 private:
  struct Instance {
    std::list<uint64_t> recent;  // block keys, most recently used first
    absl::flat_hash_map<uint64_t, std::list<uint64_t>::iterator> position;
  };
  using Holders = absl::InlinedVector<uint32_t, 4>;

  void EvictOne(uint32_t instance_number, Instance& instance) {
    const uint64_t key = instance.recent.back();
    instance.recent.pop_back();
    instance.position.erase(key);
    const auto block = holders_.find(key);
    Holders& holders = block->second;
    *std::find(holders.begin(), holders.end(), instance_number) = holders.back();
    holders.pop_back();
    if (holders.empty()) holders_.erase(block);
    ++blocks_evicted_;
  }

  const uint32_t capacity_blocks_;
  std::vector<Instance> instances_;
  absl::flat_hash_map<uint64_t, Holders> holders_;
  uint64_t blocks_evicted_ = 0;
};

}  // namespace prefixrouter::bench

#endif  // PREFIXROUTER_BENCHMARKS_BLOCK_MAP_INDEX_H_
