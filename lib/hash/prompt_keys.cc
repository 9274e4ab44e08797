#include "lib/hash/prompt_keys.h"

#include <algorithm>
#include <iterator>

#include "lib/base/memory.h"

namespace prefixrouter {

PromptKeys::PromptKeys(Span<const uint64_t> block_keys)
    : block_count_(static_cast<uint32_t>(block_keys.size())),
      first_key_(block_keys.empty() ? 0 : block_keys[0]),
      keys_(block_keys.data()) {}

PromptKeys::PromptKeys(const BlockHasher& hasher, const Request& request) : hasher_(&hasher) {
  size_t prompt_bytes = 0;
  switch (request.form) {
    case PromptForm::kBlockKeys:
      block_count_ = static_cast<uint32_t>(request.block_keys.size());
      keys_ = request.block_keys.data();
      if (block_count_ != 0) first_key_ = keys_[0];
      return;
    case PromptForm::kTokens:
      prompt_ = reinterpret_cast<const unsigned char*>(request.tokens.data());
      prompt_bytes = request.tokens.size() * sizeof(uint32_t);
      block_bytes_ = hasher.block_size() * sizeof(uint32_t);
      item_unit_bytes_ = sizeof(uint32_t);
      break;
    case PromptForm::kText:
      prompt_ = reinterpret_cast<const unsigned char*>(request.text.data());
      prompt_bytes = request.text.size();
      block_bytes_ = hasher.text_block_bytes();
      break;
  }
  items_ = request.multimodal;
  block_count_ = static_cast<uint32_t>(prompt_bytes / block_bytes_);
  keys_begin_ = block_count_;
  root_key_ = hasher.RootKey(request.key_space, request.form);
  if (block_count_ != 0) ComputeKeys(0, root_key_, {&first_key_, 1});
}

void PromptKeys::Hash(bool first_block_known) {
  if (complete()) return;
  const uint16_t chunk_blocks = ChunkBlocks(block_bytes_);
  if (!first_block_known || chunk_blocks == 0) {
    HashBlocks(0, root_key_);
    return;
  }
  chunk_blocks_ = chunk_blocks;
  chunk_keys_.resize(block_count_ / chunk_blocks);
  hasher_->ExtendKeys(root_key_, prompt_, block_bytes_ * chunk_blocks, 0, items_, item_unit_bytes_,
                      {chunk_keys_.data(), chunk_keys_.size()});
}

void PromptKeys::HashBlocks(uint32_t first, uint64_t previous) {
  if (first >= keys_begin_) return;
  if (!HashedAhead(first, previous)) HashAhead(first, previous);
  keys_begin_ = first;
}

void PromptKeys::HashAhead(uint32_t first, uint64_t previous) {
  const uint32_t count = block_count_ - first;
  uint64_t* keys = few_keys_;
  if (count > std::size(few_keys_)) {
    many_keys_.reset(
        static_cast<uint64_t*>(AllocateFrom(garbage_, ArrayCapacity(count) * sizeof(uint64_t))));
    keys = many_keys_.get();
  }
  ComputeKeys(first, previous, {keys, count});
  keys_ = keys;
  ahead_begin_ = first;
  ahead_previous_ = previous;
}

uint64_t PromptKeys::PrefixKey(uint32_t blocks) const {
  const uint32_t count = std::min(blocks, block_count_);
  if (count == 0) return 0;
  if (count > keys_begin_) return keys_[count - 1 - keys_begin_];
  uint64_t keys[64];
  uint64_t previous = root_key_;
  for (uint32_t done = 0; done < count;) {
    const uint32_t step = std::min<uint32_t>(count - done, std::size(keys));
    ComputeKeys(done, previous, {keys, step});
    previous = keys[step - 1];
    done += step;
  }
  return previous;
}

}  // namespace prefixrouter
