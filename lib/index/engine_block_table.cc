#include "lib/index/engine_block_table.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

namespace prefixrouter {

EngineBlockTable::EngineBlockTable(MemoryMeter* meter, size_t expected_blocks) : meter_(meter) {
  constexpr size_t kShardBlocks = 1024;
  constexpr size_t kMostShards = 4096;
  const size_t shards = std::clamp<size_t>(expected_blocks / kShardBlocks, 1, kMostShards);
  shard_bits_ = static_cast<int>(std::bit_width(shards)) - 1;
  shards_ = static_cast<Shard*>(meter_->Allocate(sizeof(Shard) << shard_bits_));
  std::uninitialized_fill_n(shards_, size_t{1} << shard_bits_, Shard());
}

EngineBlockTable::~EngineBlockTable() {
  Clear();
  meter_->Free(shards_, sizeof(Shard) << shard_bits_);
}

size_t EngineBlockTable::bytes() const {
  size_t bytes = AllocationBytes(sizeof(Shard) << shard_bits_);
  for (size_t i = 0; i >> shard_bits_ == 0; ++i) bytes += Bytes(shards_[i].capacity);
  return bytes;
}

uint32_t EngineBlockTable::PlaceOf(const Shard& shard, uint64_t id, uint32_t home) {
  uint32_t i = home;
  while (shard.places[i].number != 0 && shard.places[i].id != id) {
    if (++i == shard.capacity) i = 0;
  }
  return i;
}

void EngineBlockTable::Rebuild(Shard& shard, uint32_t capacity) {
  EngineBlock* const old = shard.places;
  const uint32_t old_capacity = shard.capacity;
  shard.places = nullptr;
  if (capacity != 0) {
    shard.places = static_cast<EngineBlock*>(meter_->Allocate(capacity * sizeof(EngineBlock)));
    std::memset(static_cast<void*>(shard.places), 0, capacity * sizeof(EngineBlock));
  }
  shard.capacity = capacity;
  for (uint32_t i = 0; i < old_capacity; ++i) {
    if (old[i].number == 0) continue;
    shard.places[PlaceOf(shard, old[i].id, Home(Hash(old[i].id), capacity))] = old[i];
  }
  if (old != nullptr) meter_->Free(old, old_capacity * sizeof(EngineBlock));
}

EngineBlock* EngineBlockTable::Add(const EngineBlock& block) {
  const uint64_t hash = Hash(block.id);
  Shard& shard = shards_[ShardOf(hash)];
  const uint32_t capacity = Grown(shard.size + 1, shard.capacity);
  if (capacity != shard.capacity) Rebuild(shard, capacity);
  EngineBlock& place = shard.places[PlaceOf(shard, block.id, Home(hash, capacity))];
  if (place.number != 0) return nullptr;
  place = block;
  ++shard.size;
  ++size_;
  return &place;
}

void EngineBlockTable::Remove(EngineBlock* block) {
  Shard& shard = shards_[ShardOf(Hash(block->id))];
  const uint32_t capacity = shard.capacity;
  const auto distance = [capacity](uint32_t from, uint32_t to) {
    return to >= from ? to - from : to + capacity - from;
  };
  uint32_t hole = static_cast<uint32_t>(block - shard.places);
  for (uint32_t i = hole;;) {
    if (++i == capacity) i = 0;
    const EngineBlock& next = shard.places[i];
    if (next.number == 0) break;
    // It may stand anywhere between its home and here.
    if (distance(Home(Hash(next.id), capacity), i) < distance(hole, i)) continue;
    shard.places[hole] = next;
    hole = i;
  }
  shard.places[hole].number = 0;
  --shard.size;
  --size_;
  if (shard.size == 0) {
    Rebuild(shard, 0);
  } else if (capacity > kSmallest && uint64_t{shard.size} * 5 < uint64_t{capacity} * 2) {
    Rebuild(shard, Grown(shard.size, kSmallest));
  }
}

void EngineBlockTable::Clear() {
  for (size_t i = 0; i >> shard_bits_ == 0; ++i) {
    if (shards_[i].places != nullptr) {
      meter_->Free(shards_[i].places, shards_[i].capacity * sizeof(EngineBlock));
    }
    shards_[i] = Shard();
  }
  size_ = 0;
}

size_t EngineBlockTable::GrowthBytes(Span<const uint64_t> ids) {
  size_t bytes = 0;
  for (uint64_t id : ids) {
    Shard& shard = shards_[ShardOf(Hash(id))];
    if (Full(shard.size + ++shard.coming, shard.capacity)) bytes = 1;
  }
  for (uint64_t id : ids) {
    Shard& shard = shards_[ShardOf(Hash(id))];
    if (bytes != 0 && shard.coming != 0) {
      const uint32_t capacity = Grown(shard.size + shard.coming, shard.capacity);
      // While it grows, both are there.
      if (capacity != shard.capacity) bytes += Bytes(capacity);
    }
    shard.coming = 0;
  }
  return bytes;
}

}  // namespace prefixrouter
