// Run, Holders and Segment: the parts that the prefix index is made of. How they fit together, and
// the invariants between them, stand in prefix_index.h.
//
//   Run        a stretch of consecutive blocks without a branch: its keys in one array
//   Holders    of a run: which instances (slots) hold how many of its leading blocks
//   Segment    of a holder: blocks [begin, end) of the run that were used at the same time
//
// All three live in memory that a MemoryMeter counts, to the byte that the allocator takes.
#ifndef PREFIXROUTER_LIB_INDEX_RUN_H_
#define PREFIXROUTER_LIB_INDEX_RUN_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "lib/base/memory.h"

namespace prefixrouter {

struct Run;
struct Segment;

// Stands for a confirmed block, for as long as some slot has it confirmed. 0 is no block.
using BlockNumber = uint32_t;

// An array of integers whose length its owner knows.
template <typename T>
class IntegerArray {
 public:
  T* data() const { return data_; }
  T& operator[](uint32_t i) const { return data_[i]; }

  void Resize(MemoryMeter& meter, uint32_t old_size, uint32_t new_size) {
    const size_t old_bytes = ArrayCapacity(old_size) * sizeof(T);
    const size_t new_bytes = ArrayCapacity(new_size) * sizeof(T);
    if (old_bytes == new_bytes) return;
    data_ = static_cast<T*>(meter.Reallocate(data_, old_bytes, new_bytes));
  }
  // Owns `data` from now on. REQUIRES: empty; data has room for ArrayCapacity(size) integers, by
  // malloc.
  void Adopt(MemoryMeter& meter, T* data, uint32_t size) {
    data_ = data;
    meter.Adjust(0, Bytes(size));
  }
  // Drops the first `count` integers. REQUIRES: count <= size.
  void DropFront(MemoryMeter& meter, uint32_t size, uint32_t count) {
    if (count == 0) return;
    std::memmove(data_, data_ + count, (size - count) * sizeof(T));
    Resize(meter, size, size - count);
  }
  static size_t Bytes(uint32_t size) { return AllocationBytes(ArrayCapacity(size) * sizeof(T)); }

 private:
  T* data_ = nullptr;
};
using KeyArray = IntegerArray<uint64_t>;
using NumberArray = IntegerArray<BlockNumber>;

// Blocks [begin, end) of `run` that instance `slot` holds and that were last used together. The
// segments of one holder do not overlap; between them, or before the first, there may be holes.
struct Segment {
  Run* run;
  Segment* deeper;  // next segment of the same holder, at a higher begin; or null
  uint32_t slot;
  uint32_t begin;
  uint32_t end;
  uint32_t pins : 28;  // running requests whose prompt covers it
  // Tiers in which the engine said that it has the blocks, by bit. None: they are predicted.
  uint32_t tiers : 4;
  int64_t last_used_nanos;
  uint64_t operation;  // number of the operation that used it last
  // Neighbours in one list of the slot: its predicted, pinned or confirmed segments, least recently
  // used first. Other threads write these, so they are as far as can be from the run, which is most
  // often the memory before this.
  Segment* previous;
  Segment* next;

  uint32_t size() const { return end - begin; }
  bool confirmed() const { return tiers != 0; }
  // REQUIRES: confirmed()
  uint32_t best_tier() const { return static_cast<uint32_t>(std::countr_zero(tiers + 0u)); }
  // They can be one segment when they touch each other.
  bool SameKind(const Segment& other) const {
    return operation == other.operation && pins == other.pins && tiers == other.tiers;
  }
};

// The instances that hold blocks of a run. Three forms, by number:
//   one      in place, no allocation
//   sparse   arrays of (slot, held, first segment), unordered, found by a scan
//   dense    when a quarter of a large fleet holds it: the same arrays indexed by slot, found at
//            once and matched by vector instructions; an absent slot has no segment and held 0
class Holders {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kDenseMinimum = 64;

  uint32_t count() const { return count_; }
  bool dense() const { return dense_; }
  // Positions are 0 to limit() - 1; in the dense form some are empty (first() is null).
  uint32_t limit() const { return dense_ ? capacity_ : count_; }

  uint32_t slot(uint32_t i) const { return dense_ ? i : slots()[i]; }
  // Leading blocks of the run held without a hole.
  uint32_t held(uint32_t i) const { return helds()[i]; }
  Segment* first(uint32_t i) const { return firsts()[i]; }
  void set_held(uint32_t i, uint32_t held) { helds()[i] = held; }
  void set_first(uint32_t i, Segment* first) { firsts()[i] = first; }

  const uint32_t* slots() const { return capacity_ == 0 ? &one_.slot : many_.slots; }
  const uint32_t* helds() const { return capacity_ == 0 ? &one_.held : many_.helds; }

  // Position of the slot, or kNone.
  uint32_t Find(uint32_t slot) const {
    if (dense_) return slot < capacity_ && many_.firsts[slot] != nullptr ? slot : kNone;
    const uint32_t* slots = this->slots();
    for (uint32_t i = 0; i < count_; ++i) {
      if (slots[i] == slot) return i;
    }
    return kNone;
  }
  // Adds a slot that is not there, with no segment yet: set_first must follow. Returns its
  // position. slot_limit: number of slots of the index.
  uint32_t Add(MemoryMeter& meter, uint32_t slot, uint32_t slot_limit);
  // Removes the slot at position i; others may change their position.
  void Remove(MemoryMeter& meter, uint32_t i, uint32_t slot_limit);
  // Removes every holder whose first segment was set to null.
  void RemoveEmpty(MemoryMeter& meter, uint32_t slot_limit);
  void Free(MemoryMeter& meter);

  // Upper bound of the memory of `count` holders among `slot_limit` slots.
  static size_t BytesBound(uint32_t count, uint32_t slot_limit);

 private:
  struct One {
    uint32_t slot;
    uint32_t held;
    Segment* first;
  };
  struct Many {
    Segment** firsts;  // start of the allocation
    uint32_t* helds;
    uint32_t* slots;  // null when dense
  };

  uint32_t* helds() { return capacity_ == 0 ? &one_.held : many_.helds; }
  Segment** firsts() { return capacity_ == 0 ? &one_.first : many_.firsts; }
  Segment* const* firsts() const { return capacity_ == 0 ? &one_.first : many_.firsts; }

  static size_t Size(uint32_t capacity, bool dense) {
    return size_t{capacity} * (sizeof(Segment*) + sizeof(uint32_t) * (dense ? 1 : 2));
  }
  // Moves to another form or size, leaving empty positions out. capacity 0: in place.
  void Rebuild(MemoryMeter& meter, uint32_t capacity, bool dense);
  // Moves to the form for a smaller number of holders.
  void Shrink(MemoryMeter& meter, uint32_t slot_limit);

  uint32_t count_ = 0;
  uint32_t capacity_ : 31 = 0;  // 0: in place
  uint32_t dense_ : 1 = 0;
  union {
    One one_ = {0, 0, nullptr};
    Many many_;
  };
};

struct Run {
  // What a match reads is first, and what changes with a run's children is last: prompts that begin
  // alike come from all threads, and what one core writes another has to fetch.
  uint64_t first_key;  // keys[0], here so that a look-up reads one cache line
  Run* hash_next;      // in the chain of its hash bucket
  uint32_t start;      // depth of its first block
  uint32_t length;     // blocks, >= 1
  KeyArray keys;       // `length` of them
  // Keys of the chunks that end inside the run: chunk c is the c-th stretch of chunk_blocks blocks
  // from depth 0. chunk_blocks is 0 when chunk keys are not known.
  KeyArray chunk_keys;
  uint16_t chunk_blocks;
  uint16_t spare;     // blocks behind its end that both arrays still have room for
  uint32_t numbered;  // blocks that have a number: those that some slot has confirmed
  Holders holders;
  // Numbers of blocks, by position; 0 for those without. Empty when no block has one.
  NumberArray numbers;
  Run** hash_link;        // what points at it in its chain: the bucket, or the hash_next of another
  Run* parent;            // null for a run at depth 0
  uint32_t full_holders;  // holders of its last block
  uint32_t child_count;
  uintptr_t children;  // XOR of the addresses of its children: with one left, that one

  uint32_t end() const { return start + length; }
  uint32_t number_count() const { return numbered == 0 ? 0 : length; }
  // Chunks that end inside the first `blocks` blocks of the run.
  uint32_t ChunkCount(uint32_t blocks) const {
    return chunk_blocks == 0 ? 0 : (start + blocks) / chunk_blocks - start / chunk_blocks;
  }
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_INDEX_RUN_H_
