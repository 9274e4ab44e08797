// Confirmed blocks: what engines have stored and removed, in which tiers, and their numbers.
#include <algorithm>

#include "lib/index/holder_edit.h"
#include "lib/index/prefix_index.h"

namespace prefixrouter {

void PrefixIndex::SetConfirmed(uint32_t slot_number, int64_t ttl_nanos) {
  ++operation_;
  Slot& slot = slots_[slot_number];
  EndPins(slot);
  slot.pins_allowed = false;
  slot.ttl_nanos = ttl_nanos;
  next_expiry_nanos_ = INT64_MIN;  // to be found anew
}

void PrefixIndex::AwaitSince(uint32_t slot_number, int64_t since_nanos) {
  Slot& slot = slots_[slot_number];
  slot.awaited_since_nanos = since_nanos;
  const Segment* const oldest = slot.unpinned.oldest();
  if (slot.ttl_nanos == 0 || oldest == nullptr || oldest->last_used_nanos >= since_nanos) return;
  next_expiry_nanos_ = std::min(next_expiry_nanos_, oldest->last_used_nanos + slot.ttl_nanos);
}

void PrefixIndex::Clear(uint32_t slot_number) {
  if (!HasSlot(slot_number)) return;
  DropAll(slots_[slot_number]);
  slots_[slot_number].epoch = next_epoch_++;
}

bool PrefixIndex::Store(uint32_t slot_number, BlockNumber parent, Span<const uint64_t> keys,
                        uint32_t tier, int64_t now_nanos, Span<BlockNumber> numbers,
                        size_t more_bytes) {
  ++operation_;
  struct Range {
    Run* run;
    uint32_t begin, end;
  };
  absl::InlinedVector<Range, 4> ranges;
  Path path;
  size_t found = 0;
  // Follows the keys from their parent.
  const auto descend = [&] {
    ranges.clear();
    path.steps.clear();
    path.blocks = 0;
    Run* run = nullptr;
    uint32_t position = 0;
    if (parent != 0) {
      const BlockTable::Location& at = blocks_[parent];
      run = at.run;
      position = at.depth - run->start + 1;
      path.steps.push_back({run, position});
      path.blocks = run->start + position;
    }
    found = 0;
    while (found < keys.size()) {
      if (run == nullptr || position == run->length) {
        Run* child = table_.Find(keys[found]);
        if (child == nullptr || child->parent != run || child->start != path.blocks) break;
        run = child;
        position = 0;
        path.steps.push_back({run, 0});
      }
      const uint32_t begin = position;
      while (found < keys.size() && position < run->length && run->keys[position] == keys[found]) {
        ++position;
        ++found;
      }
      if (position == begin) break;
      ranges.push_back({run, begin, position});
      path.steps.back().blocks = position;
      path.blocks = run->start + position;
    }
  };

  for (;;) {
    descend();
    const uint32_t added = static_cast<uint32_t>(keys.size() - found);
    const uint64_t evicted_before = budget_evicted_blocks_;
    if (!MakeRoomForConfirmed(more_bytes + PathBytesBound(slot_number, path) +
                              AppendBytesBound(path, added, nullptr) +
                              ConfirmBytesBound(slot_number, path, keys.size(), found))) {
      return false;
    }
    if (evicted_before == budget_evicted_blocks_) break;
  }
  Append(&path, keys.subspan(found), nullptr);
  descend();
  for (auto range = ranges.rbegin(); range != ranges.rend(); ++range) {
    Confirm(range->run, slot_number, range->begin, range->end, tier, now_nanos);
  }
  BlockNumber* out = numbers.data();
  for (const Range& range : ranges) {
    out = std::copy(range.run->numbers.data() + range.begin, range.run->numbers.data() + range.end,
                    out);
  }
  EnforceBudget();
  return true;
}

size_t PrefixIndex::AddCopies(uint32_t slot_number, Span<const BlockNumber> blocks, uint32_t tier,
                              int64_t now_nanos) {
  ++operation_;
  Path path;
  for (size_t i = 0; i < blocks.size();) {
    uint32_t count = 0;  // that follow one another in one run
    const BlockTable::Location* first = &blocks_[blocks[i]];
    while (i + count < blocks.size() && blocks_[blocks[i + count]].run == first->run &&
           blocks_[blocks[i + count]].depth == first->depth + count) {
      ++count;
    }
    path.steps.assign({{first->run, 0}});
    if (!MakeRoomForConfirmed(PathBytesBound(slot_number, path) +
                              ConfirmBytesBound(slot_number, path, 0, count))) {
      return i;
    }
    // Making room may have joined runs: what was in one still is.
    const uint32_t begin = first->depth - first->run->start;
    Confirm(first->run, slot_number, begin, begin + count, tier, now_nanos);
    i += count;
  }
  EnforceBudget();
  return blocks.size();
}

void PrefixIndex::RemoveCopies(uint32_t slot_number, Span<const BlockNumber> blocks,
                               uint32_t tier) {
  ++operation_;
  Slot& slot = slots_[slot_number];
  for (size_t i = 0; i < blocks.size();) {
    if (TakeExtraCopy(slot, blocks[i], tier)) {
      ++i;
      continue;
    }
    const BlockTable::Location& first = blocks_[blocks[i]];
    Run* const run = first.run;
    uint32_t begin = first.depth - run->start;
    uint32_t end = begin + 1;
    for (++i; i < blocks.size() && slot.extra_copies.empty(); ++i) {
      const BlockTable::Location& next = blocks_[blocks[i]];
      if (next.run != run) break;
      const uint32_t position = next.depth - run->start;
      if (position == end) {
        ++end;
      } else if (position + 1 == begin) {
        --begin;
      } else {
        break;
      }
    }
    LeaveTier(run, slot_number, begin, end, tier);
  }
  EnforceBudget();  // a segment that is divided takes more than it did
}

void PrefixIndex::NumbersUpTo(BlockNumber last, Span<BlockNumber> numbers) const {
  const BlockTable::Location& at = blocks_[last];
  const Run* run = at.run;
  uint32_t position = at.depth - run->start;
  for (size_t i = numbers.size(); i-- > 0;) {
    numbers.data()[i] = run->numbered == 0 ? 0 : run->numbers[position];
    if (position > 0) {
      --position;
    } else if (i > 0) {
      run = run->parent;
      position = run->length - 1;
    }
  }
}

double PrefixIndex::Credit(const Path& path, uint32_t slot,
                           const double (&weights)[kTierCount]) const {
  double credit = 0;
  const uint32_t matched = path.matched[slot];
  for (const PathStep& step : path.steps) {
    if (step.run->start >= matched) break;
    const uint32_t end = std::min(step.blocks, matched - step.run->start);
    const uint32_t holder = step.run->holders.Find(slot);
    for (const Segment* s = step.run->holders.first(holder); s != nullptr && s->begin < end;
         s = s->deeper) {
      const uint32_t blocks = std::min(s->end, end) - s->begin;
      credit += blocks * (s->confirmed() ? weights[s->best_tier()] : 1);
    }
  }
  return credit;
}

void PrefixIndex::PrefetchRunParts(BlockNumber number) const {
  const BlockTable::Location& at = blocks_[number];
  const Run* const run = at.run;
  const uint32_t position = at.depth - run->start;
  Prefetch(&run->keys[position], sizeof(uint64_t));
  Prefetch(&run->numbers[position], sizeof(BlockNumber));
  if (run->holders.count() == 1) {
    Prefetch(run->holders.first(0), sizeof(Segment));
  } else {
    Prefetch(run->holders.slots(), sizeof(uint32_t));
  }
}

// ---- Segments ----------------------------------------------------------------------------------

void PrefixIndex::Confirm(Run* run, uint32_t slot_number, uint32_t begin, uint32_t end,
                          uint32_t tier, int64_t now_nanos) {
  const uint32_t bit = 1u << tier;
  Slot& slot = slots_[slot_number];
  Fit(run);
  uint32_t position = run->holders.Find(slot_number);
  if (position == Holders::kNone) position = run->holders.Add(meter_, slot_number, slot_limit());
  HolderEdit edit(run, position);

  absl::InlinedVector<Segment*, 4> used;
  uint32_t at = begin;
  Segment** link = &edit.first;
  while (at < end) {
    Segment* segment = *link;
    if (segment != nullptr && segment->end <= at) {
      link = &segment->deeper;
      continue;
    }
    if (segment != nullptr && segment->begin < at) {
      *link = Cut(segment, at);
      link = &(*link)->deeper;
      continue;
    }
    if (segment == nullptr || segment->begin > at) {
      const uint32_t gap_end = segment == nullptr ? end : std::min(segment->begin, end);
      TakeNumbers(run, at, gap_end);
      if (!used.empty() && used.back()->tiers == bit) {
        Count(*used.back(), gap_end - at);
        used.back()->end = at = gap_end;
        continue;
      }
      Segment* added = NewSegment(run, slot_number, at, gap_end);
      added->tiers = bit & 0xfu;
      Count(*added, gap_end - at);
      added->deeper = segment;
      *link = segment = added;
    } else {
      if (segment->end > end) *link = segment = Cut(segment, end);
      Unlink(segment);
      segment->operation = 0;
      if ((segment->tiers & bit) != 0) {
        for (uint32_t i = segment->begin; i < segment->end; ++i) {
          AddExtraCopy(slot, run->numbers[i], tier);
        }
      } else {
        if (!segment->confirmed()) TakeNumbers(run, segment->begin, segment->end);
        Count(*segment, -int64_t{segment->size()});
        segment->tiers |= bit & 0xfu;
        Count(*segment, segment->size());
      }
    }
    used.push_back(segment);
    at = segment->end;
    link = &segment->deeper;
  }
  for (size_t i = used.size(); i-- > 0;) {
    used[i]->operation = operation_;
    used[i]->last_used_nanos = now_nanos;
    Link(used[i]);
  }
  edit.first = JoinSegments(edit.first);
  edit.Commit(meter_, slot_limit());
}

void PrefixIndex::LeaveTier(Run* run, uint32_t slot_number, uint32_t begin, uint32_t end,
                            uint32_t tier) {
  const uint32_t bit = 1u << tier;
  const uint32_t holder = run->holders.Find(slot_number);
  // From the deepest: the run is there as long as something shallower is left of the holder.
  absl::InlinedVector<std::pair<uint32_t, uint32_t>, 4> gone;  // in no other tier either
  bool stays = false;
  for (Segment* s = run->holders.first(holder); s != nullptr && s->begin < end; s = s->deeper) {
    if (s->end <= begin) continue;
    if (s->tiers == bit) {
      gone.push_back({std::max(s->begin, begin), std::min(s->end, end)});
    } else {
      stays = true;
    }
  }
  if (stays) {
    HolderEdit edit(run, holder);
    for (Segment** link = &edit.first; *link != nullptr && (*link)->begin < end;
         link = &(*link)->deeper) {
      if ((*link)->end <= begin || (*link)->tiers == bit) continue;
      if ((*link)->begin < begin) {
        *link = Cut(*link, begin);
        link = &(*link)->deeper;
      }
      if ((*link)->end > end) *link = Cut(*link, end);
      Segment* const segment = *link;
      Unlink(segment);
      Count(*segment, -int64_t{segment->size()});
      segment->tiers = segment->tiers & ~bit & 0xfu;
      segment->operation = operation_;
      Count(*segment, segment->size());
      Link(segment);
    }
    edit.first = JoinSegments(edit.first);
    edit.Commit(meter_, slot_limit());
  }
  for (auto range = gone.rbegin(); range != gone.rend(); ++range) {
    Drop(run, slot_number, range->first, range->second);
  }
}

// ---- Numbers -----------------------------------------------------------------------------------

void PrefixIndex::TakeNumbers(Run* run, uint32_t begin, uint32_t end) {
  if (run->numbered == 0) {
    run->numbers.Resize(meter_, 0, run->length);
    std::fill_n(run->numbers.data(), run->length, BlockNumber{0});
  }
  BlockNumber* const numbers = run->numbers.data();
  for (uint32_t i = begin; i < end;) {
    if (numbers[i] != 0) {
      ++blocks_[numbers[i++]].slots;
      continue;
    }
    uint32_t last = i + 1;
    while (last < end && numbers[last] == 0) ++last;
    blocks_.AddAll(run, run->start + i, {numbers + i, last - i});
    run->numbered += last - i;
    i = last;
  }
}

void PrefixIndex::ReleaseNumbers(Run* run, uint32_t begin, uint32_t end) {
  run->numbered -= blocks_.ReleaseAll({run->numbers.data() + begin, end - begin});
  if (run->numbered != 0) return;
  run->numbers.Resize(meter_, run->length, 0);
  run->numbers = NumberArray();
}

void PrefixIndex::SplitNumbers(Run* run, uint32_t at, Run* upper) {
  const uint32_t length = run->length;
  uint32_t in_upper = 0;
  for (uint32_t i = 0; i < at; ++i) {
    if (run->numbers[i] == 0) continue;
    blocks_[run->numbers[i]].run = upper;
    ++in_upper;
  }
  upper->numbered = in_upper;
  run->numbered -= in_upper;
  if (run->numbered == 0) {
    upper->numbers = run->numbers;
    upper->numbers.Resize(meter_, length, at);
    run->numbers = NumberArray();
    return;
  }
  if (in_upper != 0) {
    upper->numbers.Resize(meter_, 0, at);
    std::copy_n(run->numbers.data(), at, upper->numbers.data());
  }
  run->numbers.DropFront(meter_, length, at);
}

void PrefixIndex::MergeNumbers(Run* run, Run* child) {
  const uint32_t length = run->length + child->length;
  run->numbers.Resize(meter_, run->number_count(), length);
  BlockNumber* const numbers = run->numbers.data();
  if (run->numbered == 0) std::fill_n(numbers, run->length, BlockNumber{0});
  for (uint32_t i = 0; i < run->length; ++i) {
    if (numbers[i] != 0) blocks_[numbers[i]].run = child;
  }
  if (child->numbered == 0) {
    std::fill_n(numbers + run->length, child->length, BlockNumber{0});
  } else {
    std::copy_n(child->numbers.data(), child->length, numbers + run->length);
    child->numbers.Resize(meter_, child->length, 0);
  }
  child->numbers = run->numbers;
  child->numbered += run->numbered;
}

size_t PrefixIndex::ConfirmBytesBound(uint32_t slot, const Path& path, size_t blocks,
                                      size_t known) const {
  size_t bytes = blocks_.GrowthBound(blocks);
  bool holds_some = false;
  for (const PathStep& step : path.steps) {
    if (step.run->numbered == 0) bytes += NumberArray::Bytes(step.run->length);
    holds_some = holds_some || step.run->holders.Find(slot) != Holders::kNone;
  }
  if (holds_some && known != 0) bytes += MapGrowthBound(slots_[slot].extra_copies, known);
  return bytes;
}

// ---- Copies ------------------------------------------------------------------------------------

void PrefixIndex::AddExtraCopy(Slot& slot, BlockNumber number, uint32_t tier) {
  using Map = decltype(slot.extra_copies);
  const size_t before = slot.extra_copies.capacity();
  ++slot.extra_copies[{number, tier}];
  meter_.Adjust(MapBytes<Map>(before), MapBytes<Map>(slot.extra_copies.capacity()));
}

bool PrefixIndex::TakeExtraCopy(Slot& slot, BlockNumber number, uint32_t tier) {
  if (slot.extra_copies.empty()) return false;
  const auto copies = slot.extra_copies.find({number, tier});
  if (copies == slot.extra_copies.end()) return false;
  if (--copies->second == 0) slot.extra_copies.erase(copies);
  if (slot.extra_copies.empty()) ForgetExtraCopies(slot);
  return true;
}

void PrefixIndex::ForgetExtraCopies(Slot& slot) {
  using Map = decltype(slot.extra_copies);
  meter_.Adjust(MapBytes<Map>(slot.extra_copies.capacity()), 0);
  slot.extra_copies = Map();
}

}  // namespace prefixrouter
