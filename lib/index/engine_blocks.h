// EngineBlocks: applies the KV events of one instance to the index.
//
// An engine names blocks by numbers of its own. This is the map from them to the index's blocks,
// with what is needed to count copies: a block is held as long as the engine has stored it in some
// tier, for some group of layers, more often than it has removed it from there.
//
//   engine's block      index                                          counted copies
//   = block of ours     its BlockNumber                                by tier and group
//   = n blocks of ours  BlockNumber of the last, and n                 the same
//   = 1/n of one        a piece (piece_tree.h); the block is stored    the same, of each piece
//                       when all n pieces are there
//
// What one copy in each tier for the usual group of layers takes is in the table's entry: 16 bytes
// (engine_block_table.h). More than that is rare and in a map.
//
// Invariant: the index has a block confirmed for the slot exactly when a block of the engine that
// covers it is in the table (or all pieces of it are), in the best tier of those.
//
// Not thread-safe: the router's lock is held around every call. Memory counts in the index's
// budget: what finds no room is left out and counted.
#ifndef PREFIXROUTER_LIB_INDEX_ENGINE_BLOCKS_H_
#define PREFIXROUTER_LIB_INDEX_ENGINE_BLOCKS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "lib/index/displacement.h"
#include "lib/index/engine_block_table.h"
#include "lib/index/piece_tree.h"
#include "lib/index/prefix_index.h"
#include "prefixrouter/block_hasher.h"
#include "prefixrouter/kv_events.h"

namespace prefixrouter {

class EngineBlocks {
 public:
  // model: of the key space that the instance's prompts are routed with. counted_tiers: by bit;
  // blocks in others are ignored. displacement: is told of new blocks, unless it is null. REQUIRES:
  // the slot is in use, and SetConfirmed.
  EngineBlocks(PrefixIndex* index, const BlockHasher* hasher, uint32_t slot, std::string model,
               uint32_t counted_tiers, size_t expected_blocks,
               Displacement* displacement = nullptr);
  ~EngineBlocks();
  EngineBlocks(const EngineBlocks&) = delete;
  EngineBlocks& operator=(const EngineBlocks&) = delete;

  // Asks for the memory that applying the event reads first.
  void PrefetchBlocks(const KvEvent& event) const;
  // Takes one event over, and counts what has become of its blocks. True when blocks could not be
  // placed because an earlier event is missing.
  bool Apply(const KvEvent& event, int64_t now_nanos, KvEventCounts* counts);
  // Nothing is held any more.
  void Clear();

  // The engine's blocks that are held.
  size_t size() const { return table_.size() - pieces_.gap_count(); }
  size_t bytes() const;

 private:
  struct Copies {
    uint32_t tier;
    uint32_t group;
    uint32_t count;
  };

  bool Store(const KvEvent& event, int64_t now_nanos, KvEventCounts* counts);
  // Blocks behind `parent` (0: the first of a prompt), whose key or root key is `key`.
  void StoreBlocks(const KvEvent& event, BlockNumber parent, uint64_t key, int64_t now_nanos,
                   KvEventCounts* counts);
  // Takes back the entries of added_, when there was no memory for their places: nothing may find
  // an entry that has none.
  void RemoveAdded();
  void StorePieces(const KvEvent& event, uint32_t parent, uint64_t key, int64_t now_nanos,
                   KvEventCounts* counts);
  // One more copy of blocks [first, last) of the event, which are there.
  bool StoreKnown(const KvEvent& event, size_t first, size_t last, int64_t now_nanos,
                  KvEventCounts* counts);
  void Remove(const KvEvent& event, int64_t now_nanos, KvEventCounts* counts);

  // Counts one more copy, or one less, of a block that is there. False, and nothing is changed:
  // there is no room, or no such copy.
  bool AddCopy(EngineBlock* block, uint32_t tier, uint32_t group);
  bool TakeCopy(EngineBlock* block, uint32_t tier, uint32_t group);
  // Tiers with copies of any group, by bit.
  uint32_t TiersOf(const EngineBlock& block) const;
  // The index's numbers of the blocks that it covers, appended to numbers_.
  void AppendNumbers(const EngineBlock& block);
  void ForgetCopies();
  static size_t CopiesBytes(size_t count) { return AllocationBytes(count * sizeof(Copies)); }
  static bool Held(const EngineBlock* block) {
    return block != nullptr && (block->tiers != 0 || block->more != 0);
  }
  void EraseFreedPieces();
  bool ReadMultimodal(const KvEvent& event);

  PrefixIndex& index_;
  const BlockHasher& hasher_;
  const uint32_t slot_;
  const std::string model_;
  const uint32_t counted_tiers_;
  Displacement* const displacement_;
  const uint64_t root_key_;  // without adapter and salt

  EngineBlockTable table_;
  PieceTree pieces_;
  // The group of the first blocks; most engines have no other.
  bool has_usual_group_ = false;
  uint32_t usual_group_ = 0;
  uint64_t partial_groups_ = 0;  // of groups below 64, by bit: those that are not full attention
  // Blocks were left out: parents may be unknown although no event was lost.
  bool left_out_ = false;
  absl::flat_hash_map<uint64_t, std::vector<Copies>> more_copies_;  // by id

  // Scratch.
  std::vector<EngineBlock*> added_;
  std::vector<uint64_t> keys_;
  std::vector<BlockNumber> numbers_;
  std::vector<MultimodalItem> items_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_INDEX_ENGINE_BLOCKS_H_
