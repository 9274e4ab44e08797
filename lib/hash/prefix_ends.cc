#include "lib/hash/prefix_ends.h"

#include <utility>

namespace prefixrouter {

uint64_t PrefixEnds::HeadKey(const PromptKeys& prompt, uint32_t blocks) {
  const uint32_t chunks = blocks / prompt.chunk_blocks();
  return chunks == 0 ? prompt.first_key() : prompt.chunk_keys()[chunks - 1];
}

bool PrefixEnds::HashBehind(PromptKeys& prompt, const End& end) {
  if (end.head_key != HeadKey(prompt, end.blocks)) return false;
  prompt.HashAhead(end.blocks, end.last_key);
  return true;
}

void PrefixEnds::Learn(const PromptKeys& prompt, uint32_t blocks, uint64_t last_key) {
  if (prompt.chunk_blocks() == 0) return;
  bool remembered = false;
  for (uint32_t i = 0; i < count_; ++i) {
    End& end = ends_[i];
    if (end.blocks > prompt.block_count() || end.head_key != HeadKey(prompt, end.blocks)) continue;
    if (end.blocks != blocks || end.last_key != last_key) {
      end.right = 0;
      continue;
    }
    ++end.right;
    remembered = true;
    if (i > 0) std::swap(end, ends_[i - 1]);
  }
  if (remembered || blocks == 0 || blocks == prompt.block_count()) return;
  if (count_ < kEnds) ++count_;
  ends_[count_ - 1] = {HeadKey(prompt, blocks), last_key, blocks, 1};
}

}  // namespace prefixrouter
