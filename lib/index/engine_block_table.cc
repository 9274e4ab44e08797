#include "lib/index/engine_block_table.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>

namespace prefixrouter {

EngineBlockTable::EngineBlockTable(MemoryMeter* meter, size_t expected_blocks) : meter_(meter) {
  constexpr size_t kShardBlocks = 1024;
  constexpr size_t kMostShards = 4096;
  shard_count_ = std::bit_floor(std::clamp<size_t>(expected_blocks / kShardBlocks, 1, kMostShards));
  shards_ = static_cast<Shard*>(meter_->Allocate(ShardBytes()));
  std::uninitialized_fill_n(shards_, shard_count_, Shard());
  coming_ = reinterpret_cast<uint32_t*>(shards_ + shard_count_);
  std::uninitialized_fill_n(coming_, shard_count_, 0u);
}

EngineBlockTable::~EngineBlockTable() {
  Clear();
  meter_->Free(shards_, ShardBytes());
}

size_t EngineBlockTable::bytes() const {
  size_t bytes = AllocationBytes(ShardBytes());
  for (size_t i = 0; i < shard_count_; ++i) {
    bytes += AllocationBytes(ChunkBytes(shards_[i].chunk_count));
  }
  return bytes + page_count_ * AllocationBytes(kPageEntries * sizeof(EngineBlock)) +
         AllocationBytes(DirectoryBytes(page_count_));
}

// ---- Entries -----------------------------------------------------------------------------------

uint32_t EngineBlockTable::TakeEntry() {
  if (free_ != kNone) {
    const uint32_t entry = free_;
    free_ = Entry(entry)->number;
    return entry;
  }
  if (next_ / kPageEntries == page_count_) {
    if (DirectoryBytes(page_count_) != DirectoryBytes(page_count_ + 1)) {
      pages_ = static_cast<EngineBlock**>(
          meter_->Reallocate(pages_, DirectoryBytes(page_count_), DirectoryBytes(page_count_ + 1)));
    }
    pages_[page_count_] =
        static_cast<EngineBlock*>(meter_->Allocate(kPageEntries * sizeof(EngineBlock)));
    ++page_count_;
  }
  return next_++;
}

inline EngineBlock* EngineBlockTable::AddOne(const EngineBlock& block) {
  const uint64_t hash = Hash(block.id);
  Shard& shard = ShardOf(hash);
  Chunk* home = nullptr;
  if (shard.chunk_count != 0) {
    const Place place = Search(shard, Home(hash, shard.chunk_count), TagOf(hash), block.id);
    if (place.block != nullptr) return nullptr;
    home = place.home;
  }
  if (shard.size >= shard.chunk_count * kFullChunk) {
    Rebuild(shard, GrownChunks(shard.size + 1, shard.chunk_count));
    home = nullptr;
  }
  const uint32_t number = TakeEntry();
  EngineBlock* const entry = Entry(number);
  *entry = block;
  const uint32_t empty = home == nullptr ? 0 : home->Matches(0);
  if (empty != 0) {
    PutInto(*home, empty, hash, number);
  } else {
    Put(shard, hash, number);
  }
  ++shard.size;
  ++size_;
  return entry;
}

EngineBlock* EngineBlockTable::Add(const EngineBlock& block) { return AddOne(block); }

void EngineBlockTable::AddAll(Span<const uint64_t> ids, EngineBlock block,
                              std::vector<EngineBlock*>* added) {
  added->reserve(added->size() + ids.size());
  for (uint64_t id : ids) {
    block.id = id;
    EngineBlock* const entry = AddOne(block);
    if (entry == nullptr) return;
    added->push_back(entry);
  }
}

void EngineBlockTable::LeaveChunks(const Place& place) {
  Chunk* const end = place.shard->chunks + place.shard->chunk_count;
  for (Chunk* chunk = place.home; chunk != place.chunk;) {
    --chunk->overflows;
    if (++chunk == end) chunk = place.shard->chunks;
  }
}

void EngineBlockTable::Shrink(Shard& shard) {
  if (size_ == 0) return Clear();
  const uint32_t chunks = GrownChunks(shard.size, 0);
  if (chunks < shard.chunk_count) Rebuild(shard, chunks);
}

void EngineBlockTable::Clear() {
  for (size_t i = 0; i < shard_count_; ++i) {
    FreeChunks(meter_, shards_[i]);
    shards_[i] = Shard();
  }
  for (size_t i = 0; i < page_count_; ++i) {
    meter_->Free(pages_[i], kPageEntries * sizeof(EngineBlock));
  }
  if (page_count_ != 0) meter_->Free(pages_, DirectoryBytes(page_count_));
  pages_ = nullptr;
  page_count_ = size_ = 0;
  free_ = kNone;
  next_ = 0;
  most_chunks_ = 0;
}

// ---- Chunks ------------------------------------------------------------------------------------

void EngineBlockTable::Put(const Shard& shard, uint64_t hash, uint32_t entry) {
  for (uint32_t i = Home(hash, shard.chunk_count);; i = Next(shard, i)) {
    Chunk& chunk = shard.chunks[i];
    const uint32_t empty = chunk.Matches(0);
    if (empty == 0) {
      ++chunk.overflows;
      continue;
    }
    PutInto(chunk, empty, hash, entry);
    return;
  }
}

void EngineBlockTable::FreeChunks(MemoryMeter* meter, const Shard& shard) {
  if (shard.chunk_count == 0) return;
  void* memory;
  std::memcpy(&memory, reinterpret_cast<char*>(shard.chunks) - sizeof(memory), sizeof(memory));
  meter->Free(memory, ChunkBytes(shard.chunk_count));
}

void EngineBlockTable::Rebuild(Shard& shard, uint32_t chunk_count) {
  const Shard old = shard;
  Chunk* chunks = nullptr;
  if (chunk_count != 0) {
    void* const memory = meter_->Allocate(ChunkBytes(chunk_count));
    static_assert(sizeof(memory) <= alignof(std::max_align_t));
    char* const behind = static_cast<char*>(memory) + sizeof(memory);
    char* const aligned = behind + (0 - reinterpret_cast<uintptr_t>(behind)) % alignof(Chunk);
    std::memcpy(aligned - sizeof(memory), &memory, sizeof(memory));
    std::memset(aligned, 0, chunk_count * sizeof(Chunk));
    chunks = reinterpret_cast<Chunk*>(aligned);
  }
  shard.chunks = chunks;
  shard.chunk_count = chunk_count;
  most_chunks_ = std::max(most_chunks_, chunk_count);
  for (uint32_t i = 0; i < old.chunk_count; ++i) {  // they are all over the pages
    for (uint32_t place = 0; place < kChunkPlaces; ++place) {
      if (old.chunks[i].tags[place] != 0) {
        PrefetchLine(Entry(old.chunks[i].entries[place]));
      }
    }
  }
  for (uint32_t i = 0; i < old.chunk_count; ++i) {
    for (uint32_t place = 0; place < kChunkPlaces; ++place) {
      if (old.chunks[i].tags[place] == 0) continue;
      const uint32_t entry = old.chunks[i].entries[place];
      Put(shard, Hash(Entry(entry)->id), entry);
    }
  }
  FreeChunks(meter_, old);
}

size_t EngineBlockTable::PageGrowthBytes(size_t added) const {
  const size_t entries = size_ + added;
  if (entries <= page_count_ * kPageEntries) return 0;
  const size_t pages = (entries + kPageEntries - 1) / kPageEntries;
  return (pages - page_count_) * AllocationBytes(kPageEntries * sizeof(EngineBlock)) +
         AllocationBytes(DirectoryBytes(pages)) - AllocationBytes(DirectoryBytes(page_count_));
}

size_t EngineBlockTable::GrowthBytes(Span<const uint64_t> ids) {
  size_t bytes = PageGrowthBytes(ids.size());
  bool grows = false;
  for (uint64_t id : ids) {
    const size_t i = ShardIndex(Hash(id));
    ++coming_[i];
    grows = grows || shards_[i].size + coming_[i] > shards_[i].chunk_count * kFullChunk;
  }
  for (uint64_t id : ids) {
    const size_t i = ShardIndex(Hash(id));
    if (grows && coming_[i] != 0) {
      const Shard& shard = shards_[i];
      const uint32_t chunks = GrownChunks(shard.size + coming_[i], shard.chunk_count);
      // While it grows, both are there.
      if (chunks != shard.chunk_count) bytes += AllocationBytes(ChunkBytes(chunks));
    }
    coming_[i] = 0;
  }
  return bytes;
}

size_t EngineBlockTable::GrowthBound(size_t count) const {
  // A shard that grows has at most as many entries as fill its chunks, and those that are added.
  const size_t most = most_chunks_ + count / kFullChunk + 1;
  return PageGrowthBytes(count) +
         std::min(count, shard_count_) * AllocationBytes((most * 5 / 4 + 3) * sizeof(Chunk));
}

}  // namespace prefixrouter
