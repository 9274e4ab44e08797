// PrefixEnds: where the known part of recent prompts ended, to guess where the next one's will.
//
// Prompts that begin with one system prompt are known up to its end and new behind it. Only the
// index knows where that is, and who asks it holds the router's lock. So a thread remembers the
// ends that it was told, and hashes the blocks behind one before it takes the lock. A prompt has an
// end if it begins with the same whole chunks; that its known part ends there too is a guess, whose
// keys are used if the index says the same (PromptKeys::HashAhead). So what is remembered may come
// from another router, or be out of date: that costs time only.
//
// A right guess spares a second visit to the lock, some 200 ns, and a wrong one costs 5 ns a block.
// After n right ones in a row a wrong one has a chance of about 1/n. So an end is believed when
// there were kBlocksARight times as many as there are blocks to hash. That leaves the ends of
// conversations, each of which is used once, unused.
//
// Not thread-safe.
#ifndef PREFIXROUTER_LIB_HASH_PREFIX_ENDS_H_
#define PREFIXROUTER_LIB_HASH_PREFIX_ENDS_H_

#include <cstdint>

#include "lib/hash/prompt_keys.h"

namespace prefixrouter {

class PrefixEnds {
 public:
  // Hashes the blocks behind an end that the prompt has, if one is believed. REQUIRES: it has chunk
  // keys, and no block keys yet.
  void HashAhead(PromptKeys& prompt) const {
    for (uint32_t i = 0; i < count_; ++i) {
      const End& end = ends_[i];
      if (end.blocks + uint64_t{end.right} * kBlocksARight < prompt.block_count()) continue;
      if (end.blocks < prompt.block_count() && HashBehind(prompt, end)) return;
    }
  }
  // The index knew the prompt's first `blocks` blocks, the last of which has `last_key`. No effect
  // without chunk keys.
  void Learn(const PromptKeys& prompt, uint32_t blocks, uint64_t last_key);

 private:
  static constexpr uint32_t kEnds = 4;
  static constexpr uint32_t kBlocksARight = 16;

  struct End {
    uint64_t head_key;  // of the whole chunks before it, or of the first block when there is none
    uint64_t last_key;
    uint32_t blocks;
    uint32_t right;  // how many of the latest prompts that had it ended there
  };

  static uint64_t HeadKey(const PromptKeys& prompt, uint32_t blocks);
  static bool HashBehind(PromptKeys& prompt, const End& end);

  // The more often one was right, the further ahead. What is new replaces the last.
  uint32_t count_ = 0;
  End ends_[kEnds];
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_HASH_PREFIX_ENDS_H_
