// IndexModel: the same rules as PrefixIndex, written for obviousness: one map entry a block and
// slot, eviction by a search over all of them. The oracle of the model tests.
#ifndef PREFIXROUTER_TESTS_MODEL_INDEX_MODEL_H_
#define PREFIXROUTER_TESTS_MODEL_INDEX_MODEL_H_

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "lib/index/prefix_index.h"

namespace prefixrouter {

class IndexModel {
 public:
  using Keys = std::vector<uint64_t>;
  struct Block {
    uint64_t operation = 0;
    int64_t last_used_nanos = 0;
    uint32_t pins = 0;
    std::array<uint32_t, PrefixIndex::kTierCount> copies = {};  // by tier; none: predicted

    bool confirmed() const { return BestTier() < copies.size(); }
    size_t BestTier() const {
      return static_cast<size_t>(
          std::find_if(copies.begin(), copies.end(), [](uint32_t n) { return n != 0; }) -
          copies.begin());
    }
  };
  struct Slot {
    uint64_t capacity = 0;
    int64_t ttl_nanos = 0;
    std::map<uint64_t, Block> blocks;
  };
  struct Pin {
    uint32_t slot;
    Keys prefix;
  };

  void AddSlot(uint32_t slot, uint64_t capacity, int64_t ttl_nanos) {
    slots_[slot] = {capacity, ttl_nanos, {}};
  }
  void SetCapacity(uint32_t slot_number, uint64_t capacity) {
    ++operation_;
    Slot& slot = slots_.at(slot_number);
    slot.capacity = capacity;
    for (uint64_t predicted = Predicted(slot); predicted > capacity && EvictOne(slot);) --predicted;
  }
  void RemoveSlot(uint32_t slot) { slots_.erase(slot); }
  void Clear(uint32_t slot) { slots_.at(slot).blocks.clear(); }

  uint32_t Match(uint32_t slot, const Keys& prompt) const {
    const auto found = slots_.find(slot);
    if (found == slots_.end()) return 0;
    uint32_t matched = 0;
    while (matched < prompt.size() && found->second.blocks.count(prompt[matched])) ++matched;
    return matched;
  }

  // Returns the leading blocks held afterwards.
  uint32_t Insert(uint32_t slot_number, const Keys& prompt, int64_t now_nanos, bool pin) {
    ++operation_;
    Note(prompt, 0);
    Slot& slot = slots_.at(slot_number);
    const uint32_t own = Match(slot_number, prompt);
    for (uint32_t i = 0; i < own; ++i) Use(slot.blocks[prompt[i]], now_nanos);
    uint64_t predicted = Predicted(slot);
    const uint64_t wanted = prompt.size() - own;
    while (predicted + wanted > slot.capacity && EvictOne(slot)) --predicted;
    const uint64_t room = slot.capacity > predicted ? slot.capacity - predicted : 0;
    uint32_t goal = own;
    for (uint64_t left = std::min(wanted, room); left > 0; --left, ++goal) {
      Use(slot.blocks[prompt[goal]], now_nanos);
    }
    // The limit counts blocks behind the match; those held already behind a hole only get used.
    for (uint32_t i = 0; i < goal; ++i) {
      Block& block = slot.blocks[prompt[i]];
      if (pin && !block.confirmed()) ++block.pins;
    }
    return goal;
  }
  void Unpin(const Pin& pin, int64_t now_nanos) {
    ++operation_;
    for (uint64_t key : pin.prefix) {
      Block& block = slots_.at(pin.slot).blocks.at(key);
      --block.pins;
      Use(block, now_nanos);
    }
  }
  void Expire(int64_t now_nanos) {
    for (auto& [number, slot] : slots_) {
      if (slot.ttl_nanos == 0) continue;
      for (auto it = slot.blocks.begin(); it != slot.blocks.end();) {
        const Block& block = it->second;
        const bool gone = !block.confirmed() && block.pins == 0 &&
                          block.last_used_nanos + slot.ttl_nanos <= now_nanos;
        it = gone ? slot.blocks.erase(it) : std::next(it);
      }
    }
  }

  // `prefix`: all keys before the stored ones.
  void Store(uint32_t slot_number, const Keys& prefix, const Keys& keys, int64_t now_nanos,
             uint32_t tier) {
    ++operation_;
    Keys chain = prefix;
    chain.insert(chain.end(), keys.begin(), keys.end());
    Note(chain, 0);
    Slot& slot = slots_.at(slot_number);
    for (uint64_t key : keys) {
      Block& block = slot.blocks[key];
      ++block.copies[tier];
      block.pins = 0;
      Use(block, now_nanos);
    }
  }
  void AddCopy(uint32_t slot_number, uint64_t key, int64_t now_nanos, uint32_t tier) {
    ++operation_;
    Block& block = slots_.at(slot_number).blocks.at(key);
    ++block.copies[tier];
    Use(block, now_nanos);
  }
  bool Remove(uint32_t slot_number, uint64_t key, uint32_t tier) {
    Slot& slot = slots_.at(slot_number);
    const auto found = slot.blocks.find(key);
    if (found == slot.blocks.end() || found->second.copies[tier] == 0) return false;
    ++operation_;
    --found->second.copies[tier];
    if (!found->second.confirmed()) slot.blocks.erase(found);
    return true;
  }
  double Credit(uint32_t slot_number, const Keys& prompt,
                const double (&weights)[PrefixIndex::kTierCount]) const {
    double credit = 0;
    const uint32_t matched = Match(slot_number, prompt);
    for (uint32_t i = 0; i < matched; ++i) {
      const Block& block = slots_.at(slot_number).blocks.at(prompt[i]);
      credit += block.confirmed() ? weights[block.BestTier()] : 1;
    }
    return credit;
  }

  uint64_t Held(uint32_t slot) const {
    return slots_.count(slot) ? slots_.at(slot).blocks.size() : 0;
  }
  bool HoldsAnywhere(uint64_t key) const {
    for (const auto& [number, slot] : slots_) {
      if (slot.blocks.count(key)) return true;
    }
    return false;
  }
  const std::map<uint32_t, Slot>& slots() const { return slots_; }

  // The tree of all held blocks and what leads to them: how many blocks, and how many stretches
  // without a branch.
  struct Shape {
    uint64_t blocks = 0;
    uint64_t runs = 0;
  };
  Shape ExpectedShape() const {
    std::set<uint64_t> tree;
    for (const auto& [number, slot] : slots_) {
      for (const auto& [key, block] : slot.blocks) {
        for (uint64_t at = key; at != 0 && tree.insert(at).second; at = parent_.at(at)) {
        }
      }
    }
    std::map<uint64_t, uint32_t> children;
    for (uint64_t key : tree) ++children[parent_.at(key)];
    Shape shape;
    shape.blocks = tree.size();
    for (uint64_t key : tree) {
      const uint64_t parent = parent_.at(key);
      if (parent == 0 || children[parent] > 1) ++shape.runs;
    }
    return shape;
  }
  // All keys up to and with this one.
  Keys PrefixOf(uint64_t key) const {
    Keys keys;
    for (uint64_t at = key; at != 0; at = parent_.at(at)) keys.push_back(at);
    std::reverse(keys.begin(), keys.end());
    return keys;
  }

 private:
  void Note(const Keys& chain, uint64_t parent) {
    for (uint64_t key : chain) {
      const bool is_new = parent_.emplace(key, parent).second;
      if (is_new) depth_[key] = parent == 0 ? 0 : depth_[parent] + 1;
      parent = key;
    }
  }
  void Use(Block& block, int64_t now_nanos) {
    block.operation = operation_;
    block.last_used_nanos = now_nanos;
  }
  static uint64_t Predicted(const Slot& slot) {
    return static_cast<uint64_t>(
        std::count_if(slot.blocks.begin(), slot.blocks.end(),
                      [](const auto& b) { return !b.second.confirmed(); }));
  }
  bool EvictOne(Slot& slot) {
    auto victim = slot.blocks.end();
    for (auto it = slot.blocks.begin(); it != slot.blocks.end(); ++it) {
      const Block& b = it->second;
      if (b.confirmed() || b.pins != 0 || b.operation == operation_) continue;
      if (victim == slot.blocks.end() || b.operation < victim->second.operation ||
          (b.operation == victim->second.operation && depth_[it->first] > depth_[victim->first])) {
        victim = it;
      }
    }
    if (victim == slot.blocks.end()) return false;
    slot.blocks.erase(victim);
    return true;
  }

  std::map<uint32_t, Slot> slots_;
  std::map<uint64_t, uint64_t> parent_;  // 0: first block of a prompt
  std::map<uint64_t, uint32_t> depth_;
  uint64_t operation_ = 0;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_TESTS_MODEL_INDEX_MODEL_H_
