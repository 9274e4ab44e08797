// PromptKeys: the keys of one prompt, hashed no finer than the index needs them.
//
// Hashing is the floor of a router's cost, and hashing block by block is slow: XXH3 takes 6 ns for
// a block of 16 tokens (64 bytes) whatever the instruction set, 3 times what it needs for the same
// bytes in long stretches. So a prompt of tokens or text that may be known is hashed in *chunks* of
// about 2 KiB. Chunk key c is chained over the chunks before it like block keys are over blocks,
// and the index keeps both kinds for the prompts that it knows:
//
//   blocks      0   1   2  ...  31 | 32  33  ...  63 | 64  65  66
//   chunk keys                  c0 |              c1 |
//
// A known prompt is recognised by its chunk keys. Block keys are computed where a stretch of the
// index begins or ends inside a chunk (less than a chunk of them), and for the part of the prompt
// that is new: HashBlocks, or HashAhead when its beginning can be guessed. A prompt that is all new
// needs no chunk keys.
//
// Prompts with ready-made keys, and those with blocks of more than 1 KiB, have no chunks.
// Measured on 8,192 tokens (AVX2): one XXH3 pass 1.1 us, chunks of 16 blocks 1.9 us, 32 blocks
// 1.5 us, 64 blocks 1.3 us, block by block 3.1 us.
#ifndef PREFIXROUTER_LIB_HASH_PROMPT_KEYS_H_
#define PREFIXROUTER_LIB_HASH_PROMPT_KEYS_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "lib/base/memory.h"
#include "prefixrouter/block_hasher.h"
#include "prefixrouter/request.h"
#include "prefixrouter/span.h"

namespace prefixrouter {

// Blocks a chunk for blocks of this many bytes; 0 where chunks do not pay.
inline constexpr uint16_t ChunkBlocks(size_t block_bytes) {
  constexpr size_t kChunkBytes = 2048;
  return static_cast<uint16_t>(block_bytes > kChunkBytes / 2 ? 0 : kChunkBytes / block_bytes);
}

class PromptKeys {
 public:
  // Borrows what the request points at. Hashes the first block only. REQUIRES: a valid request.
  PromptKeys(const BlockHasher& hasher, const Request& request);
  // Ready-made keys, borrowed.
  explicit PromptKeys(Span<const uint64_t> block_keys);
  PromptKeys(const PromptKeys&) = delete;
  PromptKeys& operator=(const PromptKeys&) = delete;

  uint32_t block_count() const { return block_count_; }
  uint64_t root_key() const { return root_key_; }
  // Of block 0; 0 when there is no block.
  uint64_t first_key() const { return first_key_; }

  // Memory for many keys comes from here if it has some. It must live as long as keys are computed,
  // not as long as they are there.
  void UseMemoryOf(Garbage* garbage) { garbage_ = garbage; }

  // Hashes in the way that is quickest for a prompt whose first block the index knows or not. A
  // wrong guess costs time only.
  void Hash(bool first_block_known);
  // Computes the keys of block `first` and of all behind it. previous: key of block first - 1, or
  // root_key().
  void HashBlocks(uint32_t first, uint64_t previous);
  // Computes what HashBlocks will be asked for, as the caller guesses. It then has nothing left to
  // do; a wrong guess costs time only. REQUIRES: there are no block keys yet.
  void HashAhead(uint32_t first, uint64_t previous);
  bool HashedAhead(uint32_t first, uint64_t previous) const {
    return first == ahead_begin_ && previous == ahead_previous_;
  }

  // Block keys are there from this block on; block_count() when there are none.
  uint32_t keys_begin() const { return keys_begin_; }
  // All block keys are there.
  bool complete() const { return keys_begin_ == 0; }
  // The keys from block `first` on. REQUIRES: first >= keys_begin()
  Span<const uint64_t> KeysFrom(uint32_t first) const {
    return {keys_ + (first - keys_begin_), block_count_ - first};
  }

  // Hands the memory of KeysFrom(first) over, by malloc and with room for ArrayCapacity of them;
  // the keys can still be read. Null when it is not the prompt's own or begins elsewhere.
  uint64_t* ReleaseKeys(uint32_t first) {
    return first == keys_begin_ && keys_ == many_keys_.get() ? many_keys_.release() : nullptr;
  }

  // Blocks a chunk, and the keys of all whole chunks. 0 and none when they have not been computed.
  uint16_t chunk_blocks() const { return chunk_blocks_; }
  Span<const uint64_t> chunk_keys() const { return {chunk_keys_.data(), chunk_keys_.size()}; }

  // Key of block i, given the key of block i-1 (root_key() for block 0). REQUIRES: i <
  // block_count()
  uint64_t BlockKey(uint32_t i, uint64_t previous) const {
    if (i >= keys_begin_) return keys_[i - keys_begin_];
    if (i == 0) return first_key_;
    uint64_t key;
    ComputeKeys(i, previous, {&key, 1});
    return key;
  }
  // Key of the prompt's first `blocks` blocks, or of all if there are fewer; 0 for none. Computes
  // what is not there: O(blocks).
  uint64_t PrefixKey(uint32_t blocks) const;
  // Computes the keys of blocks [first, first + keys.size()).
  void ComputeKeys(uint32_t first, uint64_t previous, Span<uint64_t> keys) const {
    hasher_->ExtendKeys(previous, prompt_, block_bytes_, first, items_, item_unit_bytes_, keys);
  }

 private:
  struct FreeMemory {
    void operator()(uint64_t* memory) const { std::free(memory); }
  };

  const BlockHasher* hasher_ = nullptr;
  const unsigned char* prompt_ = nullptr;
  size_t block_bytes_ = 0;
  size_t item_unit_bytes_ = 1;
  Span<const MultimodalItem> items_;

  uint32_t block_count_ = 0;
  uint64_t root_key_ = 0;
  uint64_t first_key_ = 0;
  uint16_t chunk_blocks_ = 0;
  absl::InlinedVector<uint64_t, 256> chunk_keys_;  // no allocation up to 128k tokens

  uint32_t keys_begin_ = 0;
  // What was last computed into keys_; they count as there from keys_begin_ on only.
  uint32_t ahead_begin_ = UINT32_MAX;
  uint64_t ahead_previous_ = 0;
  const uint64_t* keys_ = nullptr;  // borrowed, few_keys_ or many_keys_
  Garbage* garbage_ = nullptr;
  uint64_t few_keys_[8];
  std::unique_ptr<uint64_t[], FreeMemory> many_keys_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_HASH_PROMPT_KEYS_H_
