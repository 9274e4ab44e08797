// BlockCache: the KV memory of a simulated engine.
//
// Memory is counted in pages. A *cached block* is a full prompt block with a key; it takes
// pages_per_block pages and stays after its request has ended, until its room is needed. Running
// requests hold references to the cached blocks that they use, and *private pages* for what has no
// key: a prompt's partial last block, generated tokens, and what is being computed.
//
//   capacity = free + private + pages_per_block * (blocks in use + idle blocks)
//
// Idle blocks (without references) are evicted least recently released first. A request releases
// its blocks deepest first, so that the beginnings of prompts go last, as in vLLM and SGLang.
//
// Not thread-safe. O(1) a block, but one hash table access where a key is given.
#ifndef PREFIXROUTER_LIB_SIM_BLOCK_CACHE_H_
#define PREFIXROUTER_LIB_SIM_BLOCK_CACHE_H_

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "prefixrouter/span.h"

namespace prefixrouter {

// Told of what an engine would publish as KV events.
class BlockListener {
 public:
  virtual ~BlockListener() = default;
  // A block was computed. parent: key of the block before it; first: it has none.
  virtual void BlockStored(uint64_t key, uint64_t parent, bool first) = 0;
  virtual void BlockRemoved(uint64_t key) = 0;
  virtual void AllBlocksCleared() = 0;
};

class BlockCache {
 public:
  using Block = uint32_t;  // of a cached block, valid while referenced

  struct Match {
    uint32_t blocks = 0;  // leading ones that are cached
    uint32_t idle = 0;    // of them, without references
  };

  BlockCache(uint64_t capacity_pages, uint32_t pages_per_block)
      : capacity_pages_(capacity_pages), pages_per_block_(pages_per_block) {}

  void set_listener(BlockListener* listener) { listener_ = listener; }

  // Without effect.
  Match Find(Span<const uint64_t> keys) const;
  // Takes references to all of `keys` and appends the blocks. REQUIRES: all are cached.
  void Acquire(Span<const uint64_t> keys, std::vector<Block>* blocks);
  // Drops one reference to each, the last one first.
  void Release(const std::vector<Block>& blocks);

  // Whether so many pages could be had while so many idle blocks stay.
  bool HasRoom(uint64_t pages, uint64_t idle_blocks_kept = 0) const {
    return pages <= free_pages() + (idle_count_ - idle_blocks_kept) * pages_per_block_;
  }
  // Takes private pages, evicting idle blocks as needed. False, without effect: there is no room.
  bool Allocate(uint64_t pages);
  // Gives private pages back. REQUIRES: they were allocated.
  void Free(uint64_t pages) { private_pages_ -= pages; }

  // Makes pages_per_block private pages a cached block of this key, with one reference. If another
  // request has done so in the meantime, its block is shared and the pages are given back.
  Block Publish(uint64_t key, uint64_t parent, bool first);

  void Clear();  // REQUIRES: no references. Private pages are given back.

  uint64_t capacity_pages() const { return capacity_pages_; }
  uint64_t pages_in_use() const {
    return private_pages_ + (index_.size() - idle_count_) * pages_per_block_;
  }
  uint64_t cached_blocks() const { return index_.size(); }
  uint64_t idle_blocks() const { return idle_count_; }

 private:
  static constexpr Block kNone = UINT32_MAX;

  struct Entry {
    uint64_t key;
    uint32_t references;
    Block older, newer;  // in the list of idle blocks
  };

  uint64_t free_pages() const {
    return capacity_pages_ - private_pages_ - index_.size() * pages_per_block_;
  }
  void Reference(Block block);
  void EvictOldest();

  const uint64_t capacity_pages_;
  const uint32_t pages_per_block_;
  BlockListener* listener_ = nullptr;
  uint64_t private_pages_ = 0;
  absl::flat_hash_map<uint64_t, Block> index_;
  std::vector<Entry> entries_;
  std::vector<Block> unused_;  // of entries_
  Block oldest_ = kNone, newest_ = kNone;
  uint64_t idle_count_ = 0;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_SIM_BLOCK_CACHE_H_
