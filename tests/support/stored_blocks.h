// StoredBlocks: confirmed blocks of a PrefixIndex by their keys, for tests. The index knows them by
// number; who applies an engine's events keeps these numbers, as this does.
#ifndef PREFIXROUTER_TESTS_SUPPORT_STORED_BLOCKS_H_
#define PREFIXROUTER_TESTS_SUPPORT_STORED_BLOCKS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "lib/index/prefix_index.h"

namespace prefixrouter::testing {

class StoredBlocks {
 public:
  explicit StoredBlocks(PrefixIndex* index) : index_(*index) {}

  // False, and nothing is changed, when no slot has stored the parent or the budget is full.
  bool Store(uint32_t slot, std::optional<uint64_t> parent_key, Span<const uint64_t> keys,
             int64_t now_nanos, uint32_t tier = 0) {
    BlockNumber parent = 0;
    if (parent_key.has_value()) {
      const auto found = numbers_.find(*parent_key);
      if (found == numbers_.end()) return false;
      parent = found->second.number;
    }
    std::vector<BlockNumber> numbers(keys.size());
    if (!index_.Store(slot, parent, keys, tier, now_nanos, {numbers.data(), numbers.size()})) {
      return false;
    }
    for (size_t i = 0; i < keys.size(); ++i) {
      numbers_[keys[i]].number = numbers[i];
      ++numbers_[keys[i]].copies[{slot, tier}];
    }
    return true;
  }
  // One more copy of one block. False when the slot has not stored it, or the budget is full.
  bool AddCopy(uint32_t slot, uint64_t key, int64_t now_nanos, uint32_t tier) {
    if (!Stored(slot, key)) return false;
    Block& block = numbers_[key];
    if (index_.AddCopies(slot, {&block.number, 1}, tier, now_nanos) == 0) return false;
    ++block.copies[{slot, tier}];
    return true;
  }
  // False when the slot has no such copy. Clears the slot when the hole finds no room.
  bool Remove(uint32_t slot, uint64_t key, uint32_t tier = 0) {
    const auto found = numbers_.find(key);
    if (found == numbers_.end()) return false;
    const auto copies = found->second.copies.find({slot, tier});
    if (copies == found->second.copies.end()) return false;
    const BlockNumber number = found->second.number;
    if (--copies->second == 0) found->second.copies.erase(copies);
    if (found->second.copies.empty()) numbers_.erase(found);
    index_.RemoveCopies(slot, {&number, 1}, tier);
    if (index_.bytes() > index_.budget_bytes()) Clear(slot);
    return true;
  }
  void Clear(uint32_t slot) {
    index_.Clear(slot);
    Forget(slot);
  }
  // The slot was removed.
  void Forget(uint32_t slot) {
    for (auto it = numbers_.begin(); it != numbers_.end();) {
      auto& copies = it->second.copies;
      copies.erase(copies.lower_bound({slot, 0}), copies.lower_bound({slot + 1, 0}));
      it = copies.empty() ? numbers_.erase(it) : std::next(it);
    }
  }

  bool Stored(uint32_t slot, uint64_t key) const {
    const auto found = numbers_.find(key);
    if (found == numbers_.end()) return false;
    const auto copies = found->second.copies.lower_bound({slot, 0});
    return copies != found->second.copies.end() && copies->first.first == slot;
  }
  BlockNumber NumberOf(uint64_t key) const { return numbers_.at(key).number; }

 private:
  struct Block {
    BlockNumber number = 0;
    std::map<std::pair<uint32_t, uint32_t>, uint32_t> copies;  // by slot and tier
  };

  PrefixIndex& index_;
  std::map<uint64_t, Block> numbers_;
};

}  // namespace prefixrouter::testing

#endif  // PREFIXROUTER_TESTS_SUPPORT_STORED_BLOCKS_H_
