// IndexInspector: walks every structure of a PrefixIndex and checks that they agree: the invariants
// of prefix_index.h, the counters, the lists, and the bytes to the last one.
#ifndef PREFIXROUTER_TESTS_MODEL_INDEX_INSPECTOR_H_
#define PREFIXROUTER_TESTS_MODEL_INDEX_INSPECTOR_H_

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "lib/index/prefix_index.h"

namespace prefixrouter {

class IndexInspector {
 public:
  // Empty when all is well, else a list of what is wrong.
  // more_bytes: of what counts in the index's budget, though others keep it.
  static std::string Check(const PrefixIndex& index, size_t more_bytes = 0) {
    std::ostringstream wrong;
    size_t bytes = more_bytes, runs = 0;
    uint64_t blocks = 0, held_total = 0, numbered = 0;
    std::map<uint32_t, uint64_t> held_of_slot, predicted_of_slot;
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> tier_blocks;  // by slot and tier
    std::set<const Segment*> segments;
    std::map<const Run*, std::pair<uint32_t, uintptr_t>> children;
    std::map<const Run*, bool> known;

    index.table_.ForEach([&](const Run* run) {
      known[run] = true;
      if (run->parent != nullptr) {
        auto& [count, address] = children[run->parent];
        ++count;
        address ^= reinterpret_cast<uintptr_t>(run);
      }
    });
    index.table_.ForEach([&](const Run* run) {
      ++runs;
      blocks += run->length;
      bytes += AllocationBytes(sizeof(Run)) + KeyArray::Bytes(run->length + run->spare) +
               KeyArray::Bytes(run->ChunkCount(run->length + run->spare));
      if (run->spare != 0) CheckSpare(index, *run, wrong);
      if (run->length == 0) wrong << "empty run; ";
      if (run->first_key != run->keys[0]) wrong << "first key; ";
      if (index.table_.Find(run->first_key) != run) wrong << "run not found by its first key; ";
      if (*run->hash_link != run) wrong << "hash link; ";
      if (run->parent != nullptr && !known.count(run->parent)) wrong << "parent not in table; ";
      if (run->start != (run->parent == nullptr ? 0 : run->parent->end())) wrong << "start; ";
      const auto child = children.find(run);
      const uint32_t child_count = child == children.end() ? 0 : child->second.first;
      if (child_count != run->child_count) wrong << "child count; ";
      if (child_count != 0 && child->second.second != run->children) wrong << "children; ";
      if (child_count == 1) wrong << "run with one child; ";

      std::map<uint32_t, uint32_t> confirmations;  // position -> slots
      uint32_t holders = 0, full = 0;
      for (uint32_t i = 0; i < run->holders.limit(); ++i) {
        const Segment* first = run->holders.first(i);
        if (first == nullptr) {
          if (!run->holders.dense()) wrong << "empty holder; ";
          if (run->holders.held(i) != 0) wrong << "held without a segment; ";
          continue;
        }
        ++holders;
        const uint32_t slot = run->holders.slot(i);
        if (run->holders.Find(slot) != i) wrong << "holder not found; ";
        uint32_t held = 0, end = 0;
        for (const Segment* s = first; s != nullptr; s = s->deeper) {
          segments.insert(s);
          bytes += AllocationBytes(sizeof(Segment));
          if (s->run != run || s->slot != slot) wrong << "segment of another; ";
          if (s->begin < end || s->end <= s->begin || s->end > run->length) wrong << "range; ";
          if (s->begin == held) held = s->end;
          end = s->end;
          held_total += s->size();
          held_of_slot[slot] += s->size();
          if (!s->confirmed()) predicted_of_slot[slot] += s->size();
          if (s->confirmed()) tier_blocks[{slot, s->best_tier()}] += s->size();
          for (uint32_t k = s->begin; s->confirmed() && k < s->end; ++k) ++confirmations[k];
        }
        if (held != run->holders.held(i)) wrong << "held; ";
        if (end == run->length) ++full;
      }
      if (holders != run->holders.count()) wrong << "holder count; ";
      if (full != run->full_holders) wrong << "full holders; ";
      if (child_count == 0 && full == 0) wrong << "tail that nobody holds; ";
      bytes += HolderBytes(run->holders);
      bytes += NumberArray::Bytes(run->number_count());
      for (uint32_t position = 0; position < run->number_count(); ++position) {
        const BlockNumber number = run->numbers[position];
        const auto confirmed = confirmations.find(position);
        if ((number != 0) != (confirmed != confirmations.end())) wrong << "number; ";
        if (number == 0) continue;
        const BlockTable::Location& at = index.blocks_[number];
        if (at.run != run || at.depth != run->start + position || at.slots != confirmed->second) {
          wrong << "location; ";
        }
      }
      if (run->numbered != confirmations.size()) wrong << "numbered blocks of a run; ";
      numbered += run->numbered;
    });
    if (numbered != index.blocks_.size()) wrong << "block table size; ";
    bytes += index.blocks_.bytes();

    size_t linked = 0;
    uint32_t lower_tiers = 0;
    for (uint32_t slot = 0; slot < index.slots_.size(); ++slot) {
      const auto& s = index.slots_[slot];
      const auto walk = [&](const SegmentList& list, bool pinned, bool confirmed) {
        uint64_t operation = 0;
        for (const Segment* at = list.oldest(); at != nullptr; at = at->next) {
          ++linked;
          if (!segments.count(at)) wrong << "linked segment of no holder; ";
          if ((at->pins != 0) != pinned || at->confirmed() != confirmed) wrong << "wrong list; ";
          if (at->slot != slot) wrong << "list of another slot; ";
          if (!pinned && at->operation < operation) wrong << "age order; ";
          operation = at->operation;
        }
      };
      walk(s.unpinned, false, false);
      walk(s.pinned, true, false);
      walk(s.confirmed, false, true);
      if (held_of_slot[slot] != s.held_blocks) wrong << "held blocks of slot " << slot << "; ";
      if (predicted_of_slot[slot] != s.predicted_blocks) wrong << "predicted of slot; ";
      if (predicted_of_slot[slot] > s.capacity_blocks) wrong << "over capacity; ";
      for (uint32_t tier = 0; tier < PrefixIndex::kTierCount; ++tier) {
        if (tier_blocks[{slot, tier}] != s.tier_blocks[tier]) wrong << "blocks of a tier; ";
        lower_tiers += tier != 0 && s.tier_blocks[tier] != 0;
      }
      bytes += ExtraBytes(s.extra_copies);
    }
    if (lower_tiers != index.lower_tiers_) wrong << "lower tiers; ";
    if (linked != segments.size()) wrong << "segments not linked; ";
    std::vector<uint64_t> age_of_slot(index.slots_.size());  // 0: not in the heap of ages
    for (const auto& age : index.ages_) age_of_slot[age.slot] = age.operation;
    for (uint32_t slot = 0; slot < index.slots_.size(); ++slot) {
      const Segment* oldest = index.slots_[slot].unpinned.oldest();
      if (index.slots_[slot].in_ages != (age_of_slot[slot] != 0)) wrong << "slot in the heap; ";
      if (oldest != nullptr && age_of_slot[slot] == 0) wrong << "slot not in the heap; ";
      if (oldest != nullptr && age_of_slot[slot] > oldest->operation) wrong << "age in the heap; ";
    }
    if (!std::is_heap(index.ages_.begin(), index.ages_.end())) wrong << "heap of ages; ";

    bytes += TableBytes(index.table_);
    if (runs != index.run_count()) wrong << "run count; ";
    if (blocks != index.block_count()) wrong << "block count; ";
    if (held_total != index.total_held_blocks()) wrong << "total held; ";
    if (bytes != index.bytes())
      wrong << "bytes " << index.bytes() << " but walked " << bytes << "; ";
    if (index.bytes() > index.budget_bytes()) wrong << "over budget; ";
    return wrong.str();
  }

  static size_t SegmentCount(const PrefixIndex& index) {
    size_t count = 0;
    index.table_.ForEach([&](const Run* run) {
      for (uint32_t i = 0; i < run->holders.limit(); ++i) {
        for (const Segment* s = run->holders.first(i); s != nullptr; s = s->deeper) ++count;
      }
    });
    return count;
  }

 private:
  // It lies in the oldest segment of its only holder, whose slot is on the list.
  static void CheckSpare(const PrefixIndex& index, const Run& run, std::ostringstream& wrong) {
    if (run.holders.count() != 1 || run.child_count != 0 || run.numbered != 0) {
      wrong << "spare memory of a run that may not have it; ";
      return;
    }
    const uint32_t slot = run.holders.slot(0);
    const Segment* const oldest = index.slots_[slot].unpinned.oldest();
    if (oldest == nullptr || oldest->run != &run) wrong << "spare memory is not of the oldest; ";
    const auto& listed = index.spares_;
    if (!index.slots_[slot].in_spares || std::count(listed.begin(), listed.end(), slot) != 1) {
      wrong << "spare memory is not on the list; ";
    }
  }

  // Written out apart from run.h on purpose: a second opinion of what is allocated.
  static size_t HolderBytes(const Holders& holders) {
    if (holders.dense()) return AllocationBytes(size_t{holders.limit()} * 12);
    if (holders.count() <= 1) return 0;
    return AllocationBytes(size_t{ArrayCapacity(holders.count())} * 16);
  }
  template <typename Map>
  static size_t ExtraBytes(const Map& map) {
    if (map.capacity() == 0) return 0;
    return AllocationBytes(map.capacity() * (sizeof(typename Map::value_type) + 1) + 32);
  }
  // A page of 256 buckets for every 256 runs begun, at least one, and the directory of pages.
  static size_t TableBytes(const RunTable& table) {
    const size_t pages = std::max<size_t>(1, (table.size() * 2 + 255) / 256);
    return pages * AllocationBytes(256 * sizeof(Run*)) +
           AllocationBytes(ArrayCapacity(static_cast<uint32_t>(pages)) * sizeof(void*));
  }
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_TESTS_MODEL_INDEX_INSPECTOR_H_
