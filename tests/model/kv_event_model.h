// KvEventModel: what one instance holds by its events, written for obviousness: a map from the
// whole prefix that ends with a block of the engine to its copies. The oracle for EngineBlocks.
#ifndef PREFIXROUTER_TESTS_MODEL_KV_EVENT_MODEL_H_
#define PREFIXROUTER_TESTS_MODEL_KV_EVENT_MODEL_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace prefixrouter {

class KvEventModel {
 public:
  using Prefix = std::vector<uint32_t>;  // tokens up to the end of a block

  // block_size: of the engine; router_block_size: a multiple or a divisor of it.
  KvEventModel(uint32_t block_size, uint32_t router_block_size)
      : block_size_(block_size), router_block_size_(router_block_size) {}

  uint32_t block_size() const { return block_size_; }
  bool Holds(const Prefix& prefix) const { return held_.count(prefix) != 0; }
  size_t size() const { return held_.size(); }
  const Prefix& Nth(size_t n) const {
    return std::next(held_.begin(), static_cast<std::ptrdiff_t>(n))->first;
  }

  void Store(const Prefix& prefix, uint32_t tier, uint32_t group) {
    ++held_[prefix][{tier, group}];
  }

  enum class Removal { kNothing, kCopy, kLast };
  Removal Remove(const Prefix& prefix, uint32_t tier, uint32_t group) {
    const auto block = held_.find(prefix);
    if (block == held_.end()) return Removal::kNothing;
    const auto copies = block->second.find({tier, group});
    if (copies == block->second.end()) return Removal::kNothing;
    if (--copies->second == 0) block->second.erase(copies);
    const bool still_in_tier = BestTier(block->second) != kNoTier;
    if (!still_in_tier) held_.erase(block);
    return still_in_tier ? Removal::kCopy : Removal::kLast;
  }
  void Clear() { held_.clear(); }

  // Leading blocks of the router that are held, and their weights by tier, added up. A block of the
  // router that is part of several of the engine's, which differ behind it, is held with any of
  // them.
  std::pair<uint32_t, double> Match(const Prefix& prompt, const double (&weights)[4]) const {
    uint32_t blocks = 0;
    double credit = 0;
    for (size_t end = router_block_size_; end <= prompt.size(); end += router_block_size_) {
      uint32_t worst = 0;  // of the engine's blocks that it is made of
      for (size_t part = end - router_block_size_; part < end; part += block_size_) {
        const size_t part_end = std::min<size_t>(part + block_size_, end);
        const size_t block_end = (part_end + block_size_ - 1) / block_size_ * block_size_;
        uint32_t best = kNoTier;
        for (const auto& [prefix, copies] : held_) {
          if (prefix.size() == block_end &&
              std::equal(prefix.begin(), prefix.begin() + static_cast<std::ptrdiff_t>(part_end),
                         prompt.begin())) {
            best = std::min(best, BestTier(copies));
          }
        }
        worst = std::max(worst, best);
      }
      if (worst == kNoTier) break;
      ++blocks;
      credit += weights[worst];
    }
    return {blocks, credit};
  }

 private:
  using Copies = std::map<std::pair<uint32_t, uint32_t>, uint32_t>;  // by tier and group
  static constexpr uint32_t kNoTier = UINT32_MAX;
  static uint32_t BestTier(const Copies& copies) {
    return copies.empty() ? kNoTier : copies.begin()->first.first;
  }

  uint32_t block_size_;
  uint32_t router_block_size_;
  std::map<Prefix, Copies> held_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_TESTS_MODEL_KV_EVENT_MODEL_H_
