#include "lib/hash/prompt_keys.h"

#include <algorithm>

namespace prefixrouter {

PromptKeys::PromptKeys(Span<const uint64_t> block_keys)
    : block_count_(static_cast<uint32_t>(block_keys.size())), block_keys_(block_keys) {}

PromptKeys::PromptKeys(const BlockHasher& hasher, const Request& request) : hasher_(&hasher) {
  size_t prompt_bytes = 0;
  switch (request.form) {
    case PromptForm::kBlockKeys:
      block_keys_ = request.block_keys;
      block_count_ = static_cast<uint32_t>(block_keys_.size());
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
  root_key_ = hasher.RootKey(request.key_space, request.form);
  chunk_blocks_ = ChunkBlocks(block_bytes_);

  if (chunk_blocks_ == 0) {
    own_block_keys_.resize(block_count_);
    block_keys_ = {own_block_keys_.data(), own_block_keys_.size()};
    hasher.ExtendKeys(root_key_, prompt_, block_bytes_, 0, items_, item_unit_bytes_,
                      {own_block_keys_.data(), own_block_keys_.size()});
    return;
  }
  chunk_keys_.resize(block_count_ / chunk_blocks_);
  hasher.ExtendKeys(root_key_, prompt_, block_bytes_ * chunk_blocks_, 0, items_, item_unit_bytes_,
                    {chunk_keys_.data(), chunk_keys_.size()});
}

void PromptKeys::BlockKeys(uint32_t first, uint64_t previous, Span<uint64_t> keys) const {
  if (complete()) {
    std::copy_n(block_keys_.begin() + first, keys.size(), keys.begin());
    return;
  }
  hasher_->ExtendKeys(previous, prompt_, block_bytes_, first, items_, item_unit_bytes_, keys);
}

}  // namespace prefixrouter
