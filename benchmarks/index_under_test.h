// The prefix index and the baseline with one interface, so that one benchmark measures both: keys
// are made first, then Insert or Match is timed, as the router does it.
#ifndef PREFIXROUTER_BENCHMARKS_INDEX_UNDER_TEST_H_
#define PREFIXROUTER_BENCHMARKS_INDEX_UNDER_TEST_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "benchmarks/block_map_index.h"
#include "benchmarks/fleet.h"
#include "lib/hash/prompt_keys.h"
#include "lib/index/prefix_index.h"

namespace prefixrouter::bench {

inline constexpr uint32_t kUnboundedBlocks = 1u << 30;

// PrefixIndex with equal slots. A prompt is hashed as the router hashes it: chunk keys of what may
// be known, block keys of what is new.
class RunIndexUnderTest {
 public:
  RunIndexUnderTest(uint32_t slots, uint32_t capacity_blocks) : slots_(slots) {
    for (uint32_t slot = 0; slot < slots; ++slot) index_.AddSlot(slot, capacity_blocks);
  }

  uint32_t slots() const { return slots_; }
  uint64_t blocks_held() const { return index_.total_held_blocks(); }
  uint64_t blocks_evicted() const { return index_.evicted_blocks(); }

  // Makes a prompt the one that the calls below are about.
  void SetPrompt(Span<const uint32_t> tokens) {
    keys_.emplace(hasher_, Request::FromTokens(tokens));
    keys_->Hash(index_.KnowsFirstBlock(keys_->first_key()));
    Match();
    if (path_.needs_block_keys) {
      keys_->HashBlocks(0, keys_->root_key());
      Match();
    }
    keys_->HashBlocks(path_.blocks, path_.last_key);
  }
  void Match() { index_.Match(*keys_, &path_); }
  // REQUIRES: the index has not changed since SetPrompt.
  void Insert(uint32_t slot) { index_.Insert(slot, *keys_, &path_, ++now_nanos_, /*pin=*/false); }
  // Lowers the capacity for a moment, which evicts and does nothing else.
  void Evict(uint32_t slot, uint64_t blocks) {
    index_.SetCapacity(slot, index_.held_blocks(slot) - blocks);
    index_.SetCapacity(slot, kUnboundedBlocks);
  }

 private:
  const uint32_t slots_;
  BlockHasher hasher_{kBlockSize, kSeed};
  PrefixIndex index_{size_t{8} << 30};
  std::optional<PromptKeys> keys_;
  Path path_;
  int64_t now_nanos_ = 0;
};

// BlockMapIndex. A prompt's keys are all its block keys.
class BlockMapUnderTest {
 public:
  BlockMapUnderTest(uint32_t slots, uint32_t capacity_blocks)
      : index_(slots, capacity_blocks), depths_(slots) {}

  uint32_t slots() const { return index_.instance_count(); }
  uint64_t blocks_held() const { return index_.blocks_held(); }
  uint64_t blocks_evicted() const { return index_.blocks_evicted(); }

  void SetPrompt(Span<const uint32_t> tokens) {
    keys_.resize(hasher_.BlockCount(tokens.size()));
    hasher_.TokenBlockKeys({}, tokens, {}, keys_);
  }
  void Match() { index_.Match(keys_, depths_); }
  void Insert(uint32_t slot) { index_.Insert(slot, keys_); }
  void Evict(uint32_t slot, uint64_t blocks) {
    for (uint64_t i = 0; i < blocks; ++i) index_.EvictOne(slot);
  }

 private:
  BlockHasher hasher_{kBlockSize, kSeed};
  BlockMapIndex index_;
  std::vector<uint64_t> keys_;
  std::vector<uint32_t> depths_;
};

// Inserts new members of the family, the slots in turns, until `blocks` blocks are held. `next` is
// the number of the next member.
template <typename Index>
void FillIndex(Index& index, PromptFamily& prompts, uint64_t& next, uint64_t blocks) {
  while (index.blocks_held() < blocks) {
    index.SetPrompt(prompts.Get(next));
    index.Insert(static_cast<uint32_t>(next++ % index.slots()));
  }
}

}  // namespace prefixrouter::bench

#endif  // PREFIXROUTER_BENCHMARKS_INDEX_UNDER_TEST_H_
