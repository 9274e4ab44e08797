// PieceTree: the blocks of an engine whose blocks are smaller than the index's.
//
// n of them, the pieces, make one block. Its key is known when the last piece is there, and the
// index has it while all of them are. Pieces form the tree of the engine's prompts:
//
//     block 0              block 1
//     p0 - p1 - p2 - p3 -- p4 - p5 - p6 - p7        p3, p7 and q7 complete a block
//                                  \- q6 - q7
//
// Pieces may come back in any order after a removal, so one that is removed stays as a gap while
// pieces behind it are there. A block that is complete while the one before it is not in the index
// waits until that is.
//
// For each engine with such blocks one tree, of the blocks of one instance. Memory: 80 bytes a
// piece and 4 bytes a token, counted by the index's meter.
#ifndef PREFIXROUTER_LIB_INDEX_PIECE_TREE_H_
#define PREFIXROUTER_LIB_INDEX_PIECE_TREE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/index/prefix_index.h"
#include "prefixrouter/block_hasher.h"

namespace prefixrouter {

// Stands for a piece. 0 is none.
using PieceNumber = uint32_t;

class PieceTree {
 public:
  PieceTree(PrefixIndex* index, const BlockHasher* hasher, uint32_t slot)
      : index_(*index), hasher_(*hasher), slot_(slot) {}
  ~PieceTree() { Clear(); }
  PieceTree(const PieceTree&) = delete;
  PieceTree& operator=(const PieceTree&) = delete;

  // A piece that is not held yet: SetTiers must follow. Behind `parent`, or the first of a prompt
  // with this root key. items: of the piece, offsets from its beginning. 0 when the budget has no
  // room. REQUIRES: it fits into the block, see Room.
  PieceNumber Add(PieceNumber parent, uint64_t root_key, uint64_t id, Span<const uint32_t> tokens,
                  Span<const MultimodalItem> items);
  // Tokens that the block still has room for behind the piece; a whole block when it is full.
  uint32_t Room(PieceNumber number) const;
  // The tiers, by bit, in which the piece is held from now on; none: it is gone. False: the index
  // has no room for a block that is complete now.
  bool SetTiers(PieceNumber number, uint32_t tiers, int64_t now_nanos);
  size_t gap_count() const { return gap_count_; }
  // Ids of pieces that are gone for good, since the last call: their numbers mean nothing any more.
  std::vector<uint64_t>& freed_ids() { return freed_ids_; }
  // The index has been cleared; so is the tree.
  void Clear();

  size_t bytes() const;

 private:
  struct Piece {
    uint64_t id;
    uint64_t key;  // when it completes its block: of that. Else of the block before, or the root
    PieceNumber parent;
    PieceNumber first_child;
    PieceNumber next_sibling;
    uint32_t begin;  // of its tokens, in its block
    uint32_t size;
    uint32_t item_count;
    uint32_t tiers;        // in which it is held
    BlockNumber number;    // of the block that it completes, while the index has it
    uint32_t number_tier;  // in which the index has it

    uint32_t* tokens() { return reinterpret_cast<uint32_t*>(items() + item_count); }
    MultimodalItem* items() { return reinterpret_cast<MultimodalItem*>(this + 1); }
  };
  static size_t Size(size_t tokens, size_t items) {
    return sizeof(Piece) + items * sizeof(MultimodalItem) + tokens * sizeof(uint32_t);
  }

  bool Completes(const Piece& piece) const {
    return piece.begin + piece.size == hasher_.block_size();
  }
  uint64_t KeyOfBlock(Piece& last, uint64_t previous);
  // Brings the index up to date about the block that the piece completes.
  bool Update(Piece& last, int64_t now_nanos);
  // Frees the piece, and those before it, as far as they are gaps with nothing behind them.
  void Free(PieceNumber number);

  PrefixIndex& index_;
  const BlockHasher& hasher_;
  const uint32_t slot_;
  std::vector<Piece*> pieces_;  // by number; null: free. The first is none
  std::vector<PieceNumber> free_;
  std::vector<uint64_t> freed_ids_;
  size_t gap_count_ = 0;  // pieces that are not held

  // Scratch.
  std::vector<PieceNumber> pending_;
  std::vector<uint32_t> tokens_;
  std::vector<MultimodalItem> items_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_INDEX_PIECE_TREE_H_
