#include "lib/index/engine_block_table.h"

#include <algorithm>
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
  for (size_t i = 0; i >> shard_bits_ == 0; ++i) {
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

EngineBlock* EngineBlockTable::Add(const EngineBlock& block) {
  if (Find(block.id) != nullptr) return nullptr;
  const uint64_t hash = Hash(block.id);
  Shard& shard = shards_[ShardOf(hash)];
  const uint32_t entry = TakeEntry();
  *Entry(entry) = block;
  const uint32_t chunks = GrownChunks(shard.size + 1, shard.chunk_count);
  if (chunks != shard.chunk_count) Rebuild(shard, chunks);
  Place(shard, hash, entry);
  ++shard.size;
  ++size_;
  return Entry(entry);
}

void EngineBlockTable::Remove(EngineBlock* block) {
  const uint64_t hash = Hash(block->id);
  Shard& shard = shards_[ShardOf(hash)];
  const uint8_t tag = TagOf(hash);
  for (uint32_t i = Home(hash, shard.chunk_count);; i = Next(shard, i)) {
    Chunk& chunk = shard.chunks[i];
    uint32_t matches = chunk.Matches(tag);
    while (matches != 0 && Entry(chunk.entries[std::countr_zero(matches)]) != block) {
      matches &= matches - 1;
    }
    if (matches == 0) {
      --chunk.overflows;
      continue;
    }
    const int place = std::countr_zero(matches);
    chunk.tags[place] = 0;
    block->number = free_;
    free_ = chunk.entries[place];
    break;
  }
  --shard.size;
  --size_;
  if (size_ == 0) {
    Clear();
  } else if (uint64_t{shard.size} * 5 < uint64_t{shard.chunk_count} * kChunkPlaces * 2) {
    const uint32_t chunks = GrownChunks(shard.size, 0);
    if (chunks < shard.chunk_count) Rebuild(shard, chunks);
  }
}

void EngineBlockTable::Clear() {
  for (size_t i = 0; i >> shard_bits_ == 0; ++i) {
    if (shards_[i].memory != nullptr) {
      meter_->Free(shards_[i].memory, ChunkBytes(shards_[i].chunk_count));
    }
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
}

// ---- Chunks ------------------------------------------------------------------------------------

void EngineBlockTable::Place(Shard& shard, uint64_t hash, uint32_t entry) const {
  for (uint32_t i = Home(hash, shard.chunk_count);; i = Next(shard, i)) {
    Chunk& chunk = shard.chunks[i];
    const uint32_t empty = chunk.Matches(0);
    if (empty == 0) {
      ++chunk.overflows;
      continue;
    }
    const int place = std::countr_zero(empty);
    chunk.tags[place] = TagOf(hash);
    chunk.entries[place] = entry;
    return;
  }
}

void EngineBlockTable::Rebuild(Shard& shard, uint32_t chunk_count) {
  const Shard old = shard;
  shard.chunks = nullptr;
  shard.memory = nullptr;
  if (chunk_count != 0) {
    shard.memory = meter_->Allocate(ChunkBytes(chunk_count));
    void* aligned = shard.memory;
    size_t space = ChunkBytes(chunk_count);
    std::align(alignof(Chunk), chunk_count * sizeof(Chunk), aligned, space);
    std::memset(aligned, 0, chunk_count * sizeof(Chunk));
    shard.chunks = static_cast<Chunk*>(aligned);
  }
  shard.chunk_count = chunk_count;
  for (uint32_t i = 0; i < old.chunk_count; ++i) {  // they are all over the pages
    for (uint32_t place = 0; place < kChunkPlaces; ++place) {
      if (old.chunks[i].tags[place] != 0) {
        Prefetch(Entry(old.chunks[i].entries[place]), sizeof(EngineBlock));
      }
    }
  }
  for (uint32_t i = 0; i < old.chunk_count; ++i) {
    for (uint32_t place = 0; place < kChunkPlaces; ++place) {
      if (old.chunks[i].tags[place] == 0) continue;
      const uint32_t entry = old.chunks[i].entries[place];
      Place(shard, Hash(Entry(entry)->id), entry);
    }
  }
  if (old.memory != nullptr) meter_->Free(old.memory, ChunkBytes(old.chunk_count));
}

size_t EngineBlockTable::GrowthBytes(Span<const uint64_t> ids) {
  size_t bytes = 0;
  const size_t entries = size_ + ids.size();
  if (entries > page_count_ * kPageEntries) {
    const size_t pages = (entries + kPageEntries - 1) / kPageEntries;
    bytes = (pages - page_count_) * AllocationBytes(kPageEntries * sizeof(EngineBlock)) +
            AllocationBytes(DirectoryBytes(pages)) - AllocationBytes(DirectoryBytes(page_count_));
  }
  bool grows = false;
  for (uint64_t id : ids) {
    Shard& shard = shards_[ShardOf(Hash(id))];
    ++shard.coming;
    grows = grows || shard.size + shard.coming > shard.chunk_count * kFullChunk;
  }
  for (uint64_t id : ids) {
    Shard& shard = shards_[ShardOf(Hash(id))];
    if (grows && shard.coming != 0) {
      const uint32_t chunks = GrownChunks(shard.size + shard.coming, shard.chunk_count);
      // While it grows, both are there.
      if (chunks != shard.chunk_count) bytes += AllocationBytes(ChunkBytes(chunks));
    }
    shard.coming = 0;
  }
  return bytes;
}

}  // namespace prefixrouter
