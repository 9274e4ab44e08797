// EngineBlockTable: the blocks that one instance has stored, by the numbers that its engine gives
// them.
//
// Entries lie in pages, in the order in which they come, so that the blocks of one event are
// neighbours; that order is all the locality there is, since ids are hashes. What is accessed at
// random is kept small: a hash table of places, 5 bytes each, in chunks of one cache line.
//
//   chunk    12 tags (a byte of the hash; 0: empty) | overflows | 12 numbers of entries
//
// An entry is in the chunk that its hash says, or in one behind it, when the chunks before are
// full; each of those counts it in `overflows`, so that a search ends where that is 0, and nothing
// is left behind by what is removed (the idea of Folly's F14, N. Bronson and X. Shi, 2019).
//
// Chunks are in shards of about a thousand entries. A shard grows by a quarter when it is 3/4 full:
// 16 + 8 bytes an entry, and no growth moves more than one shard, so there is no moment at which a
// million blocks move under the router's lock. (One open-addressing table of entries of 16 bytes
// takes as much memory, but three times as long: each access meets pages that no other does.)
//
// Memory is counted by the index's meter.
#ifndef PREFIXROUTER_LIB_INDEX_ENGINE_BLOCK_TABLE_H_
#define PREFIXROUTER_LIB_INDEX_ENGINE_BLOCK_TABLE_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

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
  struct Chunk;
  struct Shard;

 public:
  // Where the table has an entry. Valid until the table changes.
  struct Place {
    EngineBlock* block = nullptr;  // null when the id is not there

   private:
    friend class EngineBlockTable;
    Shard* shard = nullptr;
    Chunk* home = nullptr;
    Chunk* chunk = nullptr;
    uint32_t index = 0;
  };

  // expected_blocks decides on the number of shards.
  EngineBlockTable(MemoryMeter* meter, size_t expected_blocks);
  ~EngineBlockTable();
  EngineBlockTable(const EngineBlockTable&) = delete;
  EngineBlockTable& operator=(const EngineBlockTable&) = delete;

  size_t size() const { return size_; }
  size_t bytes() const;

  // Null when the id is not there. Valid until it is removed.
  EngineBlock* Find(uint64_t id) const { return FindPlace(id).block; }
  Place FindPlace(uint64_t id) const {
    const uint64_t hash = Hash(id);
    Shard& shard = ShardOf(hash);
    if (shard.chunk_count == 0) return {};
    return Search(shard, Home(hash, shard.chunk_count), TagOf(hash), id);
  }
  // Asks for what Find of this id reads first.
  void PrefetchPlace(uint64_t id) const {
    const uint64_t hash = Hash(id);
    const Shard& shard = ShardOf(hash);
    if (shard.chunk_count != 0) PrefetchLine(&shard.chunks[Home(hash, shard.chunk_count)]);
  }
  // Asks for what Find reads behind that place: the entry, and the next place if there may be more.
  // With `adding`, for what Add reads: the next place also if the first one is full.
  void PrefetchEntry(uint64_t id, bool adding) const {
    const uint64_t hash = Hash(id);
    const Shard& shard = ShardOf(hash);
    if (shard.chunk_count == 0) return;
    const uint32_t i = Home(hash, shard.chunk_count);
    const Chunk& chunk = shard.chunks[i];
    for (uint32_t matches = chunk.Matches(TagOf(hash)); matches != 0; matches &= matches - 1) {
      PrefetchLine(Entry(chunk.entries[std::countr_zero(matches)]));
    }
    if (chunk.overflows != 0 || (adding && chunk.Matches(0) == 0)) {
      PrefetchLine(&shard.chunks[Next(shard, i)]);
    }
  }
  // Asks for the entries that the next `count` additions will most likely take: what was removed
  // together.
  void PrefetchFree(size_t count) const {
    if (free_ == kNone) return;
    const uint32_t in_page = kPageEntries - free_ % kPageEntries;
    Prefetch(Entry(free_), std::min<size_t>(count, in_page) * sizeof(EngineBlock));
  }
  // Null when the id is there already.
  EngineBlock* Add(const EngineBlock& block);
  // Adds blocks like `block` with these ids, up to one whose id is there already, and appends their
  // entries to `added`.
  void AddAll(Span<const uint64_t> ids, EngineBlock block, std::vector<EngineBlock*>* added);
  // REQUIRES: it is in the table.
  void Remove(EngineBlock* block) { Remove(FindPlace(block->id)); }
  void Remove(const Place& place) {
    if (place.chunk != place.home) LeaveChunks(place);
    place.chunk->tags[place.index] = 0;
    place.block->number = free_;
    free_ = place.chunk->entries[place.index];
    --size_;
    Shard& shard = *place.shard;
    if (uint64_t{--shard.size} * 5 < uint64_t{shard.chunk_count} * kChunkPlaces * 2) Shrink(shard);
  }
  void Clear();

  // What adding blocks of these ids takes.
  size_t GrowthBytes(Span<const uint64_t> ids);
  // What adding that many blocks takes at most, whatever their ids. Much more than GrowthBytes, and
  // much quicker.
  size_t GrowthBound(size_t count) const;

 private:
  static constexpr uint32_t kChunkPlaces = 12;
  static constexpr uint32_t kFullChunk = 9;  // entries a chunk, on average, at which a shard grows
  static constexpr uint32_t kPageEntries = 256;

  struct alignas(64) Chunk {
    uint8_t tags[kChunkPlaces];
    uint32_t overflows;  // entries that would be here, but are in a chunk behind
    uint32_t entries[kChunkPlaces];

    // The places with this tag, by bit.
    uint32_t Matches(uint32_t tag) const {
#if defined(__SSE2__)
      const __m128i all = _mm_load_si128(reinterpret_cast<const __m128i*>(tags));
      // Not by _mm_set1_epi8, which GCC may do by storing a byte and loading four: that waits until
      // the byte is in the cache.
      const __m128i wanted = _mm_set1_epi32(static_cast<int>(tag * 0x01010101u));
      const __m128i equal = _mm_cmpeq_epi8(all, wanted);
      return static_cast<uint32_t>(_mm_movemask_epi8(equal)) & ((1u << kChunkPlaces) - 1);
#else
      uint32_t matches = 0;
      for (uint32_t i = 0; i < kChunkPlaces; ++i) matches |= (tags[i] == tag ? 1u : 0u) << i;
      return matches;
#endif
    }
  };
  static_assert(sizeof(Chunk) == 64);

  // The allocation that the chunks lie in is noted in front of the first one.
  struct Shard {
    Chunk* chunks = nullptr;
    uint32_t chunk_count = 0;
    uint32_t size = 0;
  };

  static uint64_t Hash(uint64_t id) { return (id ^ id >> 32) * 0x9E3779B97F4A7C15u; }
  static uint32_t TagOf(uint64_t hash) {
    const uint32_t tag = hash >> 16 & 0xff;
    return tag == 0 ? 1 : tag;
  }
  // The upper half of the hash says in which shard a block is, and the lower half in which chunk.
  size_t ShardIndex(uint64_t hash) const { return (hash >> 32) * shard_count_ >> 32; }
  Shard& ShardOf(uint64_t hash) const { return shards_[ShardIndex(hash)]; }
  static uint32_t Home(uint64_t hash, uint32_t chunk_count) {
    return static_cast<uint32_t>((hash & UINT32_MAX) * chunk_count >> 32);
  }
  static uint32_t Next(const Shard& shard, uint32_t i) {
    return i + 1 == shard.chunk_count ? 0 : i + 1;
  }
  // Chunks for a shard of so many entries that has `chunks`.
  static uint32_t GrownChunks(uint32_t size, uint32_t chunks) {
    while (uint64_t{size} > uint64_t{chunks} * kFullChunk) chunks += (chunks + 3) / 4 + !chunks;
    return chunks;
  }
  // Looks for an id in a shard that is not empty, from its home on.
  Place Search(Shard& shard, uint32_t i, uint32_t tag, uint64_t id) const;
  static size_t ChunkBytes(uint32_t count) { return count == 0 ? 0 : (count + 1) * sizeof(Chunk); }
  size_t ShardBytes() const { return (sizeof(Shard) + sizeof(uint32_t)) * shard_count_; }
  size_t PageGrowthBytes(size_t added) const;
  EngineBlock* Entry(uint32_t number) const {
    return &pages_[number / kPageEntries][number % kPageEntries];
  }
  static size_t DirectoryBytes(size_t pages) {
    return ArrayCapacity(static_cast<uint32_t>(pages)) * sizeof(EngineBlock*);
  }
  static void PutInto(Chunk& chunk, uint32_t empty, uint64_t hash, uint32_t entry) {
    const int place = std::countr_zero(empty);
    chunk.tags[place] = static_cast<uint8_t>(TagOf(hash));
    chunk.entries[place] = entry;
  }
  static void Put(const Shard& shard, uint64_t hash, uint32_t entry);
  // Counts one less behind the chunks before the place's.
  static void LeaveChunks(const Place& place);
  // After a removal.
  void Shrink(Shard& shard);
  void Rebuild(Shard& shard, uint32_t chunk_count);
  static void FreeChunks(MemoryMeter* meter, const Shard& shard);
  uint32_t TakeEntry();
  EngineBlock* AddOne(const EngineBlock& block);

  MemoryMeter* const meter_;
  size_t shard_count_ = 1;  // a power of two
  Shard* shards_ = nullptr;
  uint32_t* coming_ = nullptr;  // by shard, for GrowthBytes: 0 in between
  uint32_t most_chunks_ = 0;    // that a shard has had since the table was empty
  size_t size_ = 0;
  EngineBlock** pages_ = nullptr;
  size_t page_count_ = 0;
  uint32_t free_ = kNone;  // entries, linked through `number`
  uint32_t next_ = 0;      // never used yet
  static constexpr uint32_t kNone = UINT32_MAX;
};

inline EngineBlockTable::Place EngineBlockTable::Search(Shard& shard, uint32_t i, uint32_t tag,
                                                        uint64_t id) const {
  Place place;
  place.shard = &shard;
  place.home = &shard.chunks[i];
  for (;; i = Next(shard, i)) {
    Chunk& chunk = shard.chunks[i];
    for (uint32_t matches = chunk.Matches(tag); matches != 0; matches &= matches - 1) {
      const uint32_t index = static_cast<uint32_t>(std::countr_zero(matches));
      EngineBlock* const entry = Entry(chunk.entries[index]);
      if (entry->id != id) continue;
      place.block = entry;
      place.chunk = &chunk;
      place.index = index;
      return place;
    }
    if (chunk.overflows == 0) return place;
  }
}

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_INDEX_ENGINE_BLOCK_TABLE_H_
