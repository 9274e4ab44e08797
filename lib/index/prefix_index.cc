// Structure of the prefix index: finding the path of a prompt, and runs that grow, split, merge and
// shrink. What slots hold in the runs is in residency.cc, and what their engines have confirmed in
// confirmed.cc.
#include "lib/index/prefix_index.h"

#include <algorithm>
#include <cstring>

#include "lib/base/vector.h"

namespace prefixrouter {
namespace {

Segment* LastSegment(Segment* segment) {
  while (segment->deeper != nullptr) segment = segment->deeper;
  return segment;
}

uint32_t LeadingHeld(const Segment* segment) {
  uint32_t held = 0;
  for (; segment != nullptr && segment->begin == held; segment = segment->deeper) {
    held = segment->end;
  }
  return held;
}

PREFIX_ROUTER_VECTOR void AddDense(const uint32_t* helds, uint32_t size, uint32_t start,
                                   uint32_t blocks, uint32_t* matched) {
#pragma omp simd
  for (uint32_t slot = 0; slot < size; ++slot) {
    const uint32_t gained = helds[slot] < blocks ? helds[slot] : blocks;
    matched[slot] += matched[slot] == start ? gained : 0;
  }
}

// The same when nothing has been matched before: `matched` may hold anything.
PREFIX_ROUTER_VECTOR void SetDense(const uint32_t* helds, uint32_t size, uint32_t blocks,
                                   uint32_t* matched) {
  for (uint32_t slot = 0; slot < size; ++slot) {
    matched[slot] = helds[slot] < blocks ? helds[slot] : blocks;
  }
}

// While it lives, what the meter's owner frees is collected.
class CollectGarbage {
 public:
  CollectGarbage(MemoryMeter& meter, Garbage* garbage) : meter_(meter) {
    meter_.CollectIn(garbage);
  }
  ~CollectGarbage() { meter_.CollectIn(nullptr); }
  CollectGarbage(const CollectGarbage&) = delete;
  CollectGarbage& operator=(const CollectGarbage&) = delete;

 private:
  MemoryMeter& meter_;
};

uintptr_t Address(const Run* run) { return reinterpret_cast<uintptr_t>(run); }

}  // namespace

PrefixIndex::PrefixIndex(size_t budget_bytes)
    : budget_bytes_(budget_bytes), table_(&meter_), blocks_(&meter_) {}

PrefixIndex::~PrefixIndex() {
  for (uint32_t slot = 0; slot < slots_.size(); ++slot) RemoveSlot(slot);
}

// ---- Match -------------------------------------------------------------------------------------

void PrefixIndex::Match(const PromptKeys& prompt, Path* path, bool hash_any) {
  path->steps.clear();
  path->matched.resize(slots_.size());  // what is in it is of an earlier prompt
  uint32_t position = 0;
  uint64_t key = prompt.root_key();
  path->needs_block_keys = false;
  while (position < prompt.block_count()) {
    Run* run = table_.Find(prompt.BlockKey(position, key));
    // A key that is found at another depth belongs to another prefix: keys that a caller made.
    if (run == nullptr || run->start != position) break;
    const uint32_t blocks = MatchRun(*run, prompt, hash_any, &path->needs_block_keys);
    AddMatches(*run, blocks, &path->matched);
    path->steps.push_back({run, blocks});
    position += blocks;
    key = run->keys[blocks - 1];
    if (blocks < run->length) break;
  }
  if (position == 0) std::fill(path->matched.begin(), path->matched.end(), 0u);
  path->blocks = position;
  path->last_key = key;
}

// How many blocks of the run, whose first one is known to match, the prompt has.
uint32_t PrefixIndex::MatchRun(const Run& run, const PromptKeys& prompt, bool hash_any,
                               bool* needs_block_keys) const {
  const uint32_t limit = std::min(run.length, prompt.block_count() - run.start);
  if (prompt.complete()) {
    const uint64_t* const mine = run.keys.data();
    const uint64_t* const theirs = prompt.KeysFrom(run.start).data();
    if (mine[limit - 1] == theirs[limit - 1]) return limit;
    uint32_t equal = 1, unequal = limit;  // blocks [0, equal) are equal, [0, unequal) are not
    while (unequal - equal > 1) {
      const uint32_t middle = equal + (unequal - equal) / 2;
      (mine[middle - 1] == theirs[middle - 1] ? equal : unequal) = middle;
    }
    return equal;
  }

  uint32_t equal = 1;
  if (run.chunk_blocks != prompt.chunk_blocks()) {
    constexpr uint32_t kFewBlocks = 32;
    if (limit > kFewBlocks && !hash_any) {
      *needs_block_keys = true;
      return equal;
    }
  } else if (run.ChunkCount(limit) != 0) {
    const uint64_t* const mine = run.chunk_keys.data();
    const uint64_t* const theirs = prompt.chunk_keys().data() + run.start / run.chunk_blocks;
    uint32_t equal_chunks = run.ChunkCount(limit);
    if (mine[equal_chunks - 1] != theirs[equal_chunks - 1]) {
      const auto mismatch = std::partition_point(
          mine, mine + equal_chunks, [&](const uint64_t& k) { return k == theirs[&k - mine]; });
      equal_chunks = static_cast<uint32_t>(mismatch - mine);
    }
    if (equal_chunks != 0) {
      equal = (run.start / run.chunk_blocks + equal_chunks) * run.chunk_blocks - run.start;
    }
  }
  while (equal < limit &&
         prompt.BlockKey(run.start + equal, run.keys[equal - 1]) == run.keys[equal]) {
    ++equal;
  }
  return equal;
}

Branch PrefixIndex::BranchOf(const PromptKeys& prompt, const Path& path) {
  const bool known = path.blocks == prompt.block_count();
  if (!path.steps.empty()) {
    const auto& [run, blocks] = path.steps.back();
    if (run->child_count == 0 && (known || blocks == run->length)) {
      return {run->start, run->first_key};
    }
  }
  return {path.blocks, known ? 0 : prompt.BlockKey(path.blocks, path.last_key)};
}

// Slots that hold all of the path up to the run gain what they hold of its first `blocks`. The
// first run of a path overwrites what was there.
void PrefixIndex::AddMatches(const Run& run, uint32_t blocks, LineVector<uint32_t>* matches) {
  uint32_t* const matched = matches->data();
  const Holders& holders = run.holders;
  const uint32_t* const helds = holders.helds();
  const uint32_t start = run.start;
  if (holders.dense()) {
    if (start != 0) return AddDense(helds, holders.limit(), start, blocks, matched);
    SetDense(helds, holders.limit(), blocks, matched);
    std::fill(matches->begin() + holders.limit(), matches->end(), 0u);
    return;
  }
  if (start == 0) std::fill(matches->begin(), matches->end(), 0u);
  const uint32_t* const slots = holders.slots();
  const uint32_t count = holders.count();
  for (uint32_t i = 0; i < count; ++i) {
    if (matched[slots[i]] == start) matched[slots[i]] += std::min(helds[i], blocks);
  }
}

// ---- Predicted prompts -------------------------------------------------------------------------

InsertResult PrefixIndex::Insert(uint32_t slot_number, PromptKeys& prompt, Path* path,
                                 int64_t now_nanos, bool pin) {
  const uint32_t wanted = prompt.block_count();
  if (wanted == 0) return {};
  ++operation_;
  const CollectGarbage collect(meter_, path->garbage);
  Slot& slot = slots_[slot_number];

  const auto touch = [&](uint32_t blocks, bool pin_it) {
    for (size_t i = path->steps.size(); i-- > 0;) {
      Run* const run = path->steps[i].run;
      if (run->start >= blocks) continue;
      Touch(run, slot_number, std::min(path->steps[i].blocks, blocks - run->start),
            pin_it ? 1u : 0u, now_nanos);
    }
  };

  // Makes room for `bytes`; what is evicted may have been on the path.
  const auto make_bytes = [&](size_t bytes) {
    const uint64_t evicted_before = budget_evicted_blocks_;
    const bool made = MakeBytes(bytes);
    if (evicted_before != budget_evicted_blocks_) Match(prompt, path, true);
    return made;
  };

  if (!make_bytes(PathBytesBound(slot_number, *path) + ChunkKeyBytesBound(*path, prompt))) {
    return {path->matched[slot_number], {}};
  }
  for (const PathStep& step : path->steps) {
    if (step.blocks == step.run->length) LearnChunkKeys(step.run, prompt);
  }
  const uint32_t own = path->matched[slot_number];
  uint32_t goal = own;
  std::vector<uint64_t> recomputed;
  if (own < wanted) {
    touch(own, false);  // so that it is not evicted to make room for what follows it
    const uint64_t evicted_before_room = evicted_blocks_;
    goal = own + static_cast<uint32_t>(MakeRoom(slot, wanted - own));
    if (evicted_blocks_ != evicted_before_room) Match(prompt, path, true);
    for (;;) {
      const uint32_t blocks_before = path->blocks;
      const uint32_t added = goal > blocks_before ? goal - blocks_before : 0;
      const bool made =
          make_bytes(PathBytesBound(slot_number, *path) + AppendBytesBound(*path, added, &prompt));
      if (made && path->blocks == blocks_before) break;
      if (!made && goal == own) break;
      if (!made) goal = goal > path->blocks && path->blocks > own ? path->blocks : own;
    }
    if (goal > path->blocks) {
      Span<const uint64_t> keys;
      if (path->blocks >= prompt.keys_begin()) {
        keys = prompt.KeysFrom(path->blocks).subspan(0, goal - path->blocks);
      } else {  // making room has shortened the path
        recomputed.resize(goal - path->blocks);
        prompt.ComputeKeys(path->blocks, path->last_key, recomputed);
        keys = recomputed;
      }
      Append(path, keys, &prompt);
    }
    not_remembered_blocks_ += wanted - goal;
  }

  InsertResult result;
  result.held_blocks = goal;
  const bool pins = pin && slot.pins_allowed && goal != 0;
  touch(goal, pins);
  if (pins) {
    const PathStep* step = path->steps.end() - 1;
    while (step->run->start >= goal) --step;
    const uint32_t end = goal - step->run->start;
    Segment* segment = step->run->holders.first(step->run->holders.Find(slot_number));
    while (segment->end != end) segment = segment->deeper;
    result.pinned = {segment, slot_number, slot.epoch};
  }
  EnforceBudget();
  return result;
}

// ---- Runs --------------------------------------------------------------------------------------

Run* PrefixIndex::NewRun(Run* parent, uint32_t start, uint64_t first_key) {
  Run* run = new (meter_.Allocate(sizeof(Run))) Run();
  run->first_key = first_key;
  run->parent = parent;
  run->start = start;
  return run;
}

Run* PrefixIndex::Split(Run* run, uint32_t at) {
  Fit(run);
  Run* const upper = NewRun(run->parent, run->start, run->first_key);
  table_.Erase(run);
  const uint32_t lower_length = run->length - at;

  KeyArray lower_keys;
  lower_keys.Resize(meter_, 0, lower_length);
  std::memcpy(lower_keys.data(), run->keys.data() + at, lower_length * sizeof(uint64_t));
  upper->keys = run->keys;
  upper->keys.Resize(meter_, run->length, at);
  run->keys = lower_keys;

  if (run->chunk_blocks != 0) {
    const uint32_t chunks = run->ChunkCount(run->length);
    const uint32_t upper_chunks = run->ChunkCount(at);
    upper->chunk_blocks = run->chunk_blocks;
    upper->chunk_keys.Resize(meter_, 0, upper_chunks);
    std::copy_n(run->chunk_keys.data(), upper_chunks, upper->chunk_keys.data());
    run->chunk_keys.DropFront(meter_, chunks, upper_chunks);
  }

  if (run->numbered != 0) SplitNumbers(run, at, upper);

  upper->length = at;
  run->start += at;
  run->length = lower_length;
  run->first_key = run->keys[0];
  run->parent = upper;
  upper->children = Address(run);
  upper->child_count = 1;
  if (upper->parent != nullptr) upper->parent->children ^= Address(run) ^ Address(upper);

  for (uint32_t i = 0; i < run->holders.limit(); ++i) {
    Segment* first = run->holders.first(i);
    if (first == nullptr) continue;
    const uint32_t slot = run->holders.slot(i);
    Segment* upper_first = nullptr;
    Segment** upper_link = &upper_first;
    while (first != nullptr && first->begin < at) {
      Segment* moved = first;
      if (first->end > at) {
        moved = Cut(first, at);
      } else {
        first = first->deeper;
      }
      moved->run = upper;
      moved->deeper = nullptr;
      *upper_link = moved;
      upper_link = &moved->deeper;
    }
    for (Segment* segment = first; segment != nullptr; segment = segment->deeper) {
      segment->begin -= at;
      segment->end -= at;
    }
    if (upper_first != nullptr) {
      const uint32_t j = upper->holders.Add(meter_, slot, slot_limit());
      upper->holders.set_first(j, upper_first);
      upper->holders.set_held(j, LeadingHeld(upper_first));
      if (LastSegment(upper_first)->end == at) ++upper->full_holders;
    }
    run->holders.set_first(i, first);
    run->holders.set_held(i, LeadingHeld(first));
  }
  run->holders.RemoveEmpty(meter_, slot_limit());

  table_.Insert(upper);
  table_.Insert(run);
  return upper;
}

void PrefixIndex::MergeWithOnlyChild(Run* run) {
  Run* const child = reinterpret_cast<Run*>(run->children);
  Fit(child);
  table_.Erase(run);
  table_.Erase(child);
  const uint32_t upper_length = run->length;
  const uint32_t length = upper_length + child->length;

  if (run->chunk_blocks == child->chunk_blocks && run->chunk_blocks != 0) {
    const uint32_t upper_chunks = run->ChunkCount(upper_length);
    const uint32_t child_chunks = child->ChunkCount(child->length);
    run->chunk_keys.Resize(meter_, upper_chunks, upper_chunks + child_chunks);
    std::copy_n(child->chunk_keys.data(), child_chunks, run->chunk_keys.data() + upper_chunks);
    child->chunk_keys.Resize(meter_, child_chunks, 0);
    child->chunk_keys = run->chunk_keys;
  } else {
    run->chunk_keys.Resize(meter_, run->ChunkCount(upper_length), 0);
    child->chunk_keys.Resize(meter_, child->ChunkCount(child->length), 0);
    child->chunk_keys = KeyArray();
    child->chunk_blocks = 0;
  }
  run->keys.Resize(meter_, upper_length, length);
  std::memcpy(run->keys.data() + upper_length, child->keys.data(),
              child->length * sizeof(uint64_t));
  child->keys.Resize(meter_, child->length, 0);
  child->keys = run->keys;
  if (run->numbered + child->numbered != 0) MergeNumbers(run, child);

  for (uint32_t i = 0; i < child->holders.limit(); ++i) {
    for (Segment* s = child->holders.first(i); s != nullptr; s = s->deeper) {
      s->begin += upper_length;
      s->end += upper_length;
    }
    if (child->holders.first(i) == nullptr) continue;
    child->holders.set_held(i, 0);
    position_of_slot_[child->holders.slot(i)] = i + 1;
  }
  for (uint32_t i = 0; i < run->holders.limit(); ++i) {
    Segment* first = run->holders.first(i);
    if (first == nullptr) continue;
    for (Segment* s = first; s != nullptr; s = s->deeper) s->run = child;
    const uint32_t slot = run->holders.slot(i);
    // A scan of the child's holders for each of the run's would be quadratic.
    uint32_t j = child->holders.dense() ? child->holders.Find(slot) : position_of_slot_[slot] - 1;
    if (j == Holders::kNone) {
      j = child->holders.Add(meter_, slot, slot_limit());
    } else {
      LastSegment(first)->deeper = child->holders.first(j);
      first = JoinSegments(first);
    }
    child->holders.set_first(j, first);
    child->holders.set_held(j, LeadingHeld(first));
  }
  run->holders.Free(meter_);
  for (uint32_t i = 0; i < child->holders.limit(); ++i) {
    position_of_slot_[child->holders.slot(i)] = 0;
  }

  child->first_key = run->first_key;
  child->start = run->start;
  child->length = length;
  child->parent = run->parent;
  if (child->parent != nullptr) child->parent->children ^= Address(run) ^ Address(child);
  meter_.Free(run, sizeof(Run));
  table_.Insert(child);
}

void PrefixIndex::Trim(Run* run, bool may_spare) {
  if (run->child_count != 0 || run->full_holders != 0) return;
  uint32_t length = 0;
  for (uint32_t i = 0; i < run->holders.limit(); ++i) {
    Segment* first = run->holders.first(i);
    if (first != nullptr) length = std::max(length, LastSegment(first)->end);
  }
  if (length != 0) {
    SetLength(run, length, may_spare);
    return;
  }
  Run* const parent = run->parent;
  table_.Erase(run);
  SetLength(run, 0);
  if (parent != nullptr) parent->children ^= Address(run);
  run->holders.Free(meter_);
  meter_.Free(run, sizeof(Run));
  if (parent != nullptr && --parent->child_count == 1) MergeWithOnlyChild(parent);
}

// To be called before run->length is changed. `length` may be the same.
void PrefixIndex::ResizeArrays(Run* run, uint32_t length) {
  const uint32_t old_length = run->length + run->spare;
  run->spare = 0;
  run->chunk_keys.Resize(meter_, run->ChunkCount(old_length), run->ChunkCount(length));
  run->keys.Resize(meter_, old_length, length);
}

void PrefixIndex::ReturnSpare() {
  for (const uint32_t slot : spares_) {
    slots_[slot].in_spares = false;
    if (Segment* const oldest = slots_[slot].unpinned.oldest(); oldest != nullptr) Fit(oldest->run);
  }
  spares_.clear();
}

void PrefixIndex::SetLength(Run* run, uint32_t length, bool may_spare) {
  const uint32_t spare = run->spare + (run->length - length);
  if (may_spare && length != 0 && run->holders.count() == 1 && run->numbered == 0 &&
      spare <= UINT16_MAX) {
    run->spare = static_cast<uint16_t>(spare);
    Slot& slot = slots_[run->holders.slot(0)];
    if (!slot.in_spares) spares_.push_back(run->holders.slot(0));
    slot.in_spares = true;
  } else {
    ResizeArrays(run, length);
  }
  if (run->numbered != 0) run->numbers.Resize(meter_, run->length, length);
  block_count_ -= run->length - length;
  run->length = length;
  run->full_holders = 0;
  for (uint32_t i = 0; i < run->holders.limit(); ++i) {
    Segment* first = run->holders.first(i);
    if (first != nullptr && LastSegment(first)->end == length) ++run->full_holders;
  }
}

void PrefixIndex::Append(Path* path, Span<const uint64_t> keys, PromptKeys* prompt) {
  if (keys.empty()) return;
  const uint32_t count = static_cast<uint32_t>(keys.size());
  Run* run = nullptr;
  if (!path->steps.empty()) {
    PathStep& last = path->steps.back();
    if (last.blocks < last.run->length) last.run = Split(last.run, last.blocks);
    run = last.run;
  }
  const bool grows = run != nullptr && run->child_count == 0;
  if (grows) {
    Fit(run);
  } else {
    Run* const parent = run;
    run = NewRun(parent, path->blocks, keys[0]);
    if (parent != nullptr) {
      parent->children ^= Address(run);
      ++parent->child_count;
    }
    if (prompt != nullptr) run->chunk_blocks = prompt->chunk_blocks();
    path->steps.push_back({run, 0});
  }

  const uint32_t old_length = run->length;
  const uint32_t old_chunks = run->ChunkCount(old_length);
  run->length += count;
  if (prompt != nullptr && prompt->chunk_blocks() == run->chunk_blocks) {
    const uint32_t chunks = run->ChunkCount(run->length);
    run->chunk_keys.Resize(meter_, old_chunks, chunks);
    if (chunks != old_chunks) {
      std::copy_n(prompt->chunk_keys().begin() + run->start / run->chunk_blocks + old_chunks,
                  chunks - old_chunks, run->chunk_keys.data() + old_chunks);
    }
  } else {
    run->chunk_keys.Resize(meter_, old_chunks, 0);
    run->chunk_keys = KeyArray();
    run->chunk_blocks = 0;
  }
  uint64_t* own_keys = nullptr;
  if (!grows && prompt != nullptr && path->blocks + count == prompt->block_count()) {
    own_keys = prompt->ReleaseKeys(path->blocks);
  }
  if (own_keys != nullptr) {
    run->keys.Adopt(meter_, own_keys, count);
  } else {
    run->keys.Resize(meter_, old_length, run->length);
    std::memcpy(run->keys.data() + old_length, keys.data(), keys.size() * sizeof(uint64_t));
  }
  if (run->numbered != 0) {
    run->numbers.Resize(meter_, old_length, run->length);
    std::fill_n(run->numbers.data() + old_length, count, BlockNumber{0});
  }
  run->full_holders = 0;
  block_count_ += count;
  if (!grows) table_.Insert(run);

  path->steps.back().blocks = run->length;
  path->blocks += count;
  path->last_key = keys[count - 1];
}

// Gives chunk keys to a run that a prompt with chunk keys covers to its end.
void PrefixIndex::LearnChunkKeys(Run* run, const PromptKeys& prompt) {
  if (run->chunk_blocks != 0 || prompt.chunk_blocks() == 0) return;
  Fit(run);
  run->chunk_blocks = prompt.chunk_blocks();
  const uint32_t chunks = run->ChunkCount(run->length);
  run->chunk_keys.Resize(meter_, 0, chunks);
  if (chunks != 0) {
    std::copy_n(prompt.chunk_keys().begin() + run->start / run->chunk_blocks, chunks,
                run->chunk_keys.data());
  }
}

// An upper bound of the memory that Touch or Confirm of the whole path takes for the slot.
size_t PrefixIndex::PathBytesBound(uint32_t slot, const Path& path) const {
  size_t bytes = 0;
  for (const PathStep& step : path.steps) {
    const Holders& holders = step.run->holders;
    const uint32_t i = holders.Find(slot);
    size_t segments = 3;  // two divisions and a new one, more only where there are holes
    if (i == Holders::kNone) {
      bytes += Holders::BytesBound(holders.count() + 1, slot_limit());
    } else {
      for (const Segment* s = holders.first(i); s != nullptr; s = s->deeper) ++segments;
    }
    bytes += segments * AllocationBytes(sizeof(Segment));
  }
  return bytes;
}

// An upper bound of the memory that LearnChunkKeys takes for the path.
size_t PrefixIndex::ChunkKeyBytesBound(const Path& path, const PromptKeys& prompt) const {
  size_t bytes = 0;
  for (const PathStep& step : path.steps) {
    if (step.run->chunk_blocks != 0 || prompt.chunk_blocks() == 0) continue;
    bytes += KeyArray::Bytes(step.run->length / prompt.chunk_blocks() + 1);
  }
  return bytes;
}

// An upper bound of the memory that one Append of `added` blocks takes.
size_t PrefixIndex::AppendBytesBound(const Path& path, uint32_t added,
                                     const PromptKeys* prompt) const {
  if (added == 0) return 0;
  size_t bytes = 2 * (AllocationBytes(sizeof(Run)) + table_.InsertBytesBound()) +
                 3 * AllocationBytes(sizeof(Segment));
  // Arrays have capacity classes, at most 1/8 apart: growing or dividing an array of n keys costs
  // at most n/4 on top of the keys that are added. Numbers of blocks are half as large.
  size_t moved = 0;
  if (!path.steps.empty()) {
    const PathStep& last = path.steps.back();
    moved = last.run->length;
    if (last.blocks < last.run->length) {  // it is divided, and so are its holders
      const uint32_t holders = last.run->holders.count();
      bytes +=
          Holders::BytesBound(holders, slot_limit()) + holders * AllocationBytes(sizeof(Segment));
    }
  }
  size_t keys = added + added / 8 + moved / 4 + 16;
  if (prompt != nullptr && prompt->chunk_blocks() != 0) {
    keys += (added + moved) / prompt->chunk_blocks() * 9 / 8 + 8;
  }
  return bytes + keys * (sizeof(uint64_t) + sizeof(BlockNumber)) + 256;
}

}  // namespace prefixrouter
