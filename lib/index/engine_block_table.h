// EngineBlockTable: the blocks that one instance has stored, by the numbers that its engine gives
// them.
//
// Open addressing with linear probing, in shards of about a thousand blocks. A shard grows by a
// quarter when it is 4/5 full, so that the table takes 20 to 25 bytes a block, and no growth moves
// more than one shard: there is no moment at which a million blocks move under the router's lock.
// Erased entries leave no mark behind; those that follow move up.
//
// Memory is counted by the index's meter.
#ifndef PREFIXROUTER_LIB_INDEX_ENGINE_BLOCK_TABLE_H_
#define PREFIXROUTER_LIB_INDEX_ENGINE_BLOCK_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "lib/base/memory.h"
#include "prefixrouter/span.h"

namespace prefixrouter {

struct EngineBlock {
  uint64_t id;         // the engine's number
  uint32_t number;     // BlockNumber of the last block of ours that it covers, or number of a piece
  uint32_t tiers : 4;  // in which there is a copy of the instance's usual group of layers
  uint32_t more : 1;   // further copies: in EngineBlocks::more_copies_
  uint32_t piece : 1;  // smaller than a block of ours
  uint32_t covers : 26;  // blocks of ours
};
static_assert(sizeof(EngineBlock) == 16);

class EngineBlockTable {
 public:
  // expected_blocks decides on the number of shards.
  EngineBlockTable(MemoryMeter* meter, size_t expected_blocks);
  ~EngineBlockTable();
  EngineBlockTable(const EngineBlockTable&) = delete;
  EngineBlockTable& operator=(const EngineBlockTable&) = delete;

  size_t size() const { return size_; }
  size_t bytes() const;

  // Null when the id is not there. Valid until the table changes.
  EngineBlock* Find(uint64_t id) const {
    const uint64_t hash = Hash(id);
    const Shard& shard = shards_[ShardOf(hash)];
    if (shard.size == 0) return nullptr;
    for (uint32_t i = Home(hash, shard.capacity); shard.places[i].number != 0;) {
      if (shard.places[i].id == id) return &shard.places[i];
      if (++i == shard.capacity) i = 0;
    }
    return nullptr;
  }
  // Asks for what Find of this id reads first.
  void PrefetchPlace(uint64_t id) const {
    const uint64_t hash = Hash(id);
    const Shard& shard = shards_[ShardOf(hash)];
    if (shard.capacity == 0) return;
    Prefetch(&shard.places[Home(hash, shard.capacity)], sizeof(EngineBlock));
  }
  // Null when the id is there already. REQUIRES: block.number is not 0.
  EngineBlock* Add(const EngineBlock& block);
  // REQUIRES: `block` is in the table.
  void Remove(EngineBlock* block);
  void Clear();

  // What adding blocks of these ids takes.
  size_t GrowthBytes(Span<const uint64_t> ids);

 private:
  struct Shard {
    EngineBlock* places = nullptr;
    uint32_t capacity = 0;
    uint32_t size = 0;
    uint32_t coming = 0;  // for GrowthBytes; else 0
  };
  static constexpr uint32_t kSmallest = 8;

  static uint64_t Hash(uint64_t id) { return (id ^ id >> 32) * 0x9E3779B97F4A7C15u; }
  size_t ShardOf(uint64_t hash) const { return hash >> 1 >> (63 - shard_bits_); }
  uint32_t Home(uint64_t hash, uint32_t capacity) const {
    return static_cast<uint32_t>(((hash << shard_bits_) >> 32) * capacity >> 32);
  }
  static bool Full(uint32_t size, uint32_t capacity) {
    return uint64_t{size} * 5 > uint64_t{capacity} * 4;
  }
  static uint32_t Grown(uint32_t size, uint32_t capacity) {
    while (Full(size, capacity)) capacity = capacity < kSmallest ? kSmallest : capacity * 5 / 4;
    return capacity;
  }
  static size_t Bytes(uint32_t capacity) { return AllocationBytes(capacity * sizeof(EngineBlock)); }
  // Of the id, or the empty place where it belongs.
  static uint32_t PlaceOf(const Shard& shard, uint64_t id, uint32_t home);
  void Rebuild(Shard& shard, uint32_t capacity);

  MemoryMeter* const meter_;
  int shard_bits_ = 0;
  Shard* shards_ = nullptr;
  size_t size_ = 0;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_INDEX_ENGINE_BLOCK_TABLE_H_
