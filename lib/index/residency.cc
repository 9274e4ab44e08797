// What slots hold: segments, their ages, pins, and eviction. The structure of the runs that they
// lie in is in prefix_index.cc, and what is peculiar to confirmed blocks in confirmed.cc.
#include <algorithm>

#include "lib/index/holder_edit.h"
#include "lib/index/prefix_index.h"

namespace prefixrouter {

// ---- Slots -------------------------------------------------------------------------------------

void PrefixIndex::AddSlot(uint32_t slot_number, uint64_t capacity_blocks, int64_t ttl_nanos) {
  if (slot_number >= slots_.size()) {
    slots_.resize(slot_number + 1);
    position_of_slot_.resize(slot_number + 1);
    spares_.reserve(slot_number + 1);
  }
  Slot& slot = slots_[slot_number];
  slot.in_use = true;
  slot.epoch = next_epoch_++;
  slot.capacity_blocks = capacity_blocks;
  slot.ttl_nanos = ttl_nanos;
}

void PrefixIndex::RemoveSlot(uint32_t slot_number) {
  if (!HasSlot(slot_number)) return;
  DropAll(slots_[slot_number]);
  const bool in_ages = slots_[slot_number].in_ages;
  const bool in_spares = slots_[slot_number].in_spares;
  slots_[slot_number] = Slot();
  slots_[slot_number].in_ages = in_ages;
  slots_[slot_number].in_spares = in_spares;
}

void PrefixIndex::SetCapacity(uint32_t slot_number, uint64_t capacity_blocks) {
  ++operation_;
  slots_[slot_number].capacity_blocks = capacity_blocks;
  MakeRoom(slots_[slot_number], 0);
  EnforceBudget();
}

void PrefixIndex::DropAll(Slot& slot) {
  ++operation_;
  for (SegmentList* list : {&slot.unpinned, &slot.pinned, &slot.confirmed}) {
    while (Segment* segment = list->oldest()) {
      Drop(segment->run, segment->slot, segment->begin, segment->end);
    }
  }
  ForgetExtraCopies(slot);
  EnforceBudget();  // merged runs may take a larger array
}

void PrefixIndex::EndPins(Slot& slot) {
  while (Segment* segment = slot.pinned.oldest()) {
    Unlink(segment);
    segment->pins = 0;
    segment->operation = operation_;  // lists are in the order of operations
    Link(segment);
  }
  slot.epoch = next_epoch_++;
}

// ---- Segments ----------------------------------------------------------------------------------

SegmentList& PrefixIndex::ListOf(const Segment* segment) {
  Slot& slot = slots_[segment->slot];
  if (segment->confirmed()) return slot.confirmed;
  return segment->pins != 0 ? slot.pinned : slot.unpinned;
}

void PrefixIndex::Link(Segment* segment) {
  ListOf(segment).PushNewest(segment);
  if (segment->pins != 0 || segment->confirmed()) return;
  Slot& slot = slots_[segment->slot];
  if (!slot.in_ages) {
    slot.in_ages = true;
    ages_.push_back({segment->operation, segment->slot});
    std::push_heap(ages_.begin(), ages_.end());
  }
  if (slot.ttl_nanos != 0) {
    next_expiry_nanos_ = std::min(next_expiry_nanos_, segment->last_used_nanos + slot.ttl_nanos);
  }
}

// The neighbours in the list of the slot, which a segment leaves to become the newest.
void PrefixIndex::PrefetchInsert(uint32_t slot, const Path& path) const {
  Prefetch(&slots_[slot].unpinned, sizeof(SegmentList));
  Prefetch(slots_[slot].unpinned.newest(), sizeof(Segment));
  if (path.steps.empty()) return;
  const Holders& holders = path.steps.back().run->holders;
  const uint32_t i = holders.Find(slot);
  if (i == Holders::kNone) return;
  const Segment* const segment = holders.first(i);
  Prefetch(segment->previous, sizeof(Segment));
  Prefetch(segment->next, sizeof(Segment));
}

bool PrefixIndex::HasRoom(uint32_t slot, uint64_t blocks) const {
  // For none without a look at the slot: others may have just written beside it.
  return blocks == 0 || slots_[slot].predicted_blocks + blocks <= slots_[slot].capacity_blocks;
}

void PrefixIndex::PrefetchOldest(uint32_t slot, uint64_t blocks) const {
  if (HasRoom(slot, blocks)) return;
  Prefetch(slots_[slot].unpinned.oldest(), sizeof(Segment));
}

void PrefixIndex::PrefetchOldestRun(uint32_t slot, uint64_t blocks) const {
  if (HasRoom(slot, blocks)) return;
  if (const Segment* oldest = slots_[slot].unpinned.oldest(); oldest != nullptr) {
    Prefetch(oldest->run, sizeof(Run));
    Prefetch(oldest->next, sizeof(Segment));
  }
}

void PrefixIndex::Unlink(Segment* segment) { ListOf(segment).Remove(segment); }

void PrefixIndex::Use(Segment* segment, uint32_t pin, int64_t now_nanos) {
  const bool linked = segment->operation != 0;
  segment->operation = operation_;
  segment->last_used_nanos = now_nanos;
  if (linked) {
    // Others wait for the memory of the neighbours; most often it stays where it is.
    if (pin == 0 && ListOf(segment).newest() == segment) return;
    Unlink(segment);
  }
  if (!segment->confirmed()) segment->pins = (segment->pins + pin) & 0xfffffffu;
  Link(segment);
}

// Held blocks that come (positive) or go.
void PrefixIndex::Count(const Segment& segment, int64_t blocks) {
  Slot& slot = slots_[segment.slot];
  slot.held_blocks += static_cast<uint64_t>(blocks);
  total_held_blocks_ += static_cast<uint64_t>(blocks);
  if (!segment.confirmed()) {
    slot.predicted_blocks += static_cast<uint64_t>(blocks);
    return;
  }
  uint64_t& in_tier = slot.tier_blocks[segment.best_tier()];
  if (segment.best_tier() != 0 && in_tier == 0) ++lower_tiers_;
  in_tier += static_cast<uint64_t>(blocks);
  if (segment.best_tier() != 0 && in_tier == 0) --lower_tiers_;
}

// Not linked yet: `operation` is 0 until it is.
Segment* PrefixIndex::NewSegment(Run* run, uint32_t slot, uint32_t begin, uint32_t end) {
  Segment* segment = new (meter_.Allocate(sizeof(Segment))) Segment();
  segment->run = run;
  segment->slot = slot;
  segment->begin = begin;
  segment->end = end;
  return segment;
}

Segment* PrefixIndex::Cut(Segment* segment, uint32_t at) {
  Segment* upper = NewSegment(segment->run, segment->slot, segment->begin, at);
  upper->last_used_nanos = segment->last_used_nanos;
  upper->operation = segment->operation;
  upper->pins = segment->pins;
  upper->tiers = segment->tiers;
  upper->deeper = segment;
  segment->begin = at;
  // Of equal age, the deeper part goes first.
  ListOf(segment).InsertAfter(segment, upper);
  return upper;
}

Segment* PrefixIndex::JoinSegments(Segment* first) {
  Segment** link = &first;
  while (*link != nullptr && (*link)->deeper != nullptr) {
    Segment* upper = *link;
    Segment* lower = upper->deeper;
    if (upper->end == lower->begin && upper->SameKind(*lower)) {
      lower->begin = upper->begin;
      Unlink(upper);
      meter_.Free(upper, sizeof(Segment));
      *link = lower;
    } else {
      link = &upper->deeper;
    }
  }
  return first;
}

// The slot uses blocks [0, blocks) of the run, whose ancestors it holds: what it did not hold
// becomes predicted. With pin 1 they are pinned once more.
void PrefixIndex::Touch(Run* run, uint32_t slot, uint32_t blocks, uint32_t pin, int64_t now_nanos) {
  Fit(run);
  uint32_t position = run->holders.Find(slot);
  if (position == Holders::kNone) position = run->holders.Add(meter_, slot, slot_limit());
  Segment* const first = run->holders.first(position);
  if (first != nullptr && first->begin == 0 &&
      first->end == blocks) {  // nothing but its age changes
    Use(first, pin, now_nanos);
    return;
  }
  HolderEdit edit(run, position);

  absl::InlinedVector<Segment*, 4> used;
  uint32_t at = 0;
  for (Segment** link = &edit.first; at < blocks; link = &(*link)->deeper) {
    Segment* segment = *link;
    if (segment == nullptr || segment->begin > at) {  // a gap
      const uint32_t end = segment == nullptr ? blocks : std::min(segment->begin, blocks);
      Segment* before = used.empty() ? nullptr : used.back();
      if (before != nullptr && before->pins == 0 && !before->confirmed()) {
        Count(*before, end - at);
        before->end = at = end;
        link = &edit.first;
        while (*link != before) link = &(*link)->deeper;
        continue;
      }
      Segment* added = NewSegment(run, slot, at, end);
      Count(*added, end - at);
      added->deeper = segment;
      *link = segment = added;
    } else if (segment->end > blocks) {
      *link = segment = Cut(segment, blocks);
    }
    used.push_back(segment);
    at = segment->end;
  }
  for (size_t i = used.size(); i-- > 0;) Use(used[i], pin, now_nanos);
  if (used.size() > 1) edit.first = JoinSegments(edit.first);
  edit.Commit(meter_, slot_limit());
}

void PrefixIndex::Unpin(const PinnedPrefix& pinned, int64_t now_nanos) {
  if (pinned.segment == nullptr || !HasSlot(pinned.slot) ||
      slots_[pinned.slot].epoch != pinned.epoch) {
    return;
  }
  ++operation_;
  Run* run = pinned.segment->run;
  uint32_t end = pinned.segment->end;
  while (run != nullptr) {
    HolderEdit edit(run, run->holders.Find(pinned.slot));
    absl::InlinedVector<Segment*, 4> used;
    for (Segment* s = edit.first; s != nullptr && s->end <= end; s = s->deeper) used.push_back(s);
    for (size_t i = used.size(); i-- > 0;) {
      Unlink(used[i]);
      --used[i]->pins;
      used[i]->operation = operation_;
      used[i]->last_used_nanos = now_nanos;
      Link(used[i]);
    }
    if (used.size() > 1) edit.first = JoinSegments(edit.first);
    edit.Commit(meter_, slot_limit());
    run = run->parent;
    if (run != nullptr) end = run->length;
  }
  Slot& slot = slots_[pinned.slot];
  if (slot.predicted_blocks > slot.capacity_blocks) {  // it has become smaller meanwhile
    ++operation_;                                      // nothing is in use any more
    MakeRoom(slot, 0);
    EnforceBudget();
  }
}

void PrefixIndex::Drop(Run* run, uint32_t slot_number, uint32_t begin, uint32_t end,
                       bool may_spare) {
  HolderEdit edit(run, run->holders.Find(slot_number));
  Segment** link = &edit.first;
  while (*link != nullptr && (*link)->begin < end) {
    Segment* segment = *link;
    if (segment->end <= begin) {
      link = &segment->deeper;
      continue;
    }
    if (segment->begin < begin && segment->end > end) {
      *link = Cut(segment, begin);
      link = &(*link)->deeper;
      continue;
    }
    const uint32_t first = std::max(segment->begin, begin);
    const uint32_t last = std::min(segment->end, end);
    if (segment->confirmed()) ReleaseNumbers(run, first, last);
    Count(*segment, -int64_t{last - first});
    if (first == segment->begin && last == segment->end) {
      *link = segment->deeper;
      Unlink(segment);
      meter_.Free(segment, sizeof(Segment));
      continue;
    }
    if (first == segment->begin) {
      segment->begin = last;
    } else {
      segment->end = first;
    }
    link = &segment->deeper;
  }
  edit.Commit(meter_, slot_limit());
  Trim(run, may_spare);
}

// ---- Eviction ----------------------------------------------------------------------------------

uint64_t PrefixIndex::MakeRoom(Slot& slot, uint64_t blocks) {
  while (slot.predicted_blocks + blocks > slot.capacity_blocks) {
    Segment* oldest = slot.unpinned.oldest();
    if (oldest == nullptr || oldest->operation == operation_) break;
    const uint32_t count = static_cast<uint32_t>(
        std::min<uint64_t>(oldest->size(), slot.predicted_blocks + blocks - slot.capacity_blocks));
    evicted_blocks_ += count;
    PrefetchNextOf(oldest);
    Drop(oldest->run, oldest->slot, oldest->end - count, oldest->end, count < oldest->size());
  }
  if (slot.predicted_blocks >= slot.capacity_blocks) return 0;
  return std::min(blocks, slot.capacity_blocks - slot.predicted_blocks);
}

// Evicting a segment reads a dozen cache lines that nothing has touched for long, each found
// through the one before. So the run of the segment behind it is asked for, and the segment behind
// that one. Not more: by the time that this slot evicts again it may be on another core.
void PrefixIndex::PrefetchNextOf(const Segment* oldest) const {
  const Segment* const next = oldest->next;
  if (next == nullptr) return;
  Prefetch(next->run, sizeof(Run));
  if (next->next != nullptr) Prefetch(next->next, sizeof(Segment));
}

Segment* PrefixIndex::OldestOfAll() {
  while (!ages_.empty()) {
    const SlotAge top = ages_.front();
    Segment* const oldest = slots_[top.slot].unpinned.oldest();
    if (oldest != nullptr && oldest->operation == top.operation) return oldest;
    std::pop_heap(ages_.begin(), ages_.end());
    if (oldest == nullptr) {
      ages_.pop_back();
      slots_[top.slot].in_ages = false;
    } else {
      ages_.back().operation = oldest->operation;
      std::push_heap(ages_.begin(), ages_.end());
    }
  }
  return nullptr;
}

bool PrefixIndex::MakeBytes(size_t bytes) {
  if (meter_.bytes() + bytes > budget_bytes_) ReturnSpare();
  while (meter_.bytes() + bytes > budget_bytes_) {
    Segment* oldest = OldestOfAll();
    if (oldest == nullptr || oldest->operation == operation_) return false;
    // Shared blocks free no memory until their last holder is gone, so a step has a least size.
    const size_t excess = meter_.bytes() + bytes - budget_bytes_;
    const uint32_t count = static_cast<uint32_t>(
        std::min<size_t>(oldest->size(), std::max<size_t>(16, excess / sizeof(uint64_t))));
    budget_evicted_blocks_ += count;
    Drop(oldest->run, oldest->slot, oldest->end - count, oldest->end);
  }
  return true;
}

void PrefixIndex::EnforceBudget() {
  if (meter_.bytes() <= budget_bytes_) return;
  ++operation_;  // nothing is protected any more
  MakeBytes(0);
}

void PrefixIndex::ExpireSlots(int64_t now_nanos) {
  ++operation_;
  next_expiry_nanos_ = INT64_MAX;
  for (Slot& slot : slots_) {
    if (slot.ttl_nanos == 0) continue;
    while (Segment* oldest = slot.unpinned.oldest()) {
      if (oldest->last_used_nanos >= slot.awaited_since_nanos) break;  // until AwaitSince
      const int64_t expiry_nanos = oldest->last_used_nanos + slot.ttl_nanos;
      if (expiry_nanos > now_nanos) {
        next_expiry_nanos_ = std::min(next_expiry_nanos_, expiry_nanos);
        break;
      }
      evicted_blocks_ += oldest->size();
      Drop(oldest->run, oldest->slot, oldest->begin, oldest->end);
    }
  }
  EnforceBudget();
}

}  // namespace prefixrouter
