// BlockHasher: turns a prompt into block keys.
//
// A prompt is cut into blocks of `block_size` tokens. Block key i is a 64-bit hash of block i and
// of key i-1, so it stands for the whole prefix up to the end of block i; key -1 is the key of the
// prompt's KeySpace. Only full blocks have a key. Two prompts have equal keys exactly as far as
// they have equal blocks, except for collisions: 2^-64 a pair, and one costs a wrong guess of the
// router, never a wrong answer of the model.
//
//   BlockHasher hasher(16, seed);
//   std::vector<uint64_t> keys(hasher.BlockCount(tokens.size()));
//   hasher.TokenBlockKeys({}, tokens, {}, keys);
//
// The router hashes token and text prompts itself; this class is for callers that keep keys of
// their own, and for several routers that share keys (they need one seed).
//
// Key format 1: H(data) is XXH3_64bits with the 192-byte secret that XXH3_generateSecret_fromSeed
// makes of the seed, key i = Fold(key i-1, H(block i)) with Fold a 64 x 64 -> 128 bit multiply of
// its secret-masked arguments. Keys of one format and seed are equal on all machines of one byte
// order (token ids are hashed as they lie in memory).
//
// Immutable and thread-safe. About 6 ns a block of 16 tokens.
#ifndef PREFIXROUTER_BLOCK_HASHER_H_
#define PREFIXROUTER_BLOCK_HASHER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "prefixrouter/request.h"
#include "prefixrouter/span.h"

namespace prefixrouter {

// Changes whenever equal input would give other keys.
inline constexpr uint32_t kKeyFormat = 1;

class BlockHasher {
 public:
  // block_size: tokens a block, >= 1. seed: any value; keys of different seeds are unrelated.
  // text_block_bytes: bytes a block of a text prompt, >= 1.
  BlockHasher(uint32_t block_size, uint64_t seed, uint32_t text_block_bytes = 64);

  uint32_t block_size() const { return block_size_; }
  uint32_t text_block_bytes() const { return text_block_bytes_; }

  // Full blocks in a prompt of `token_count` tokens, or of `byte_count` bytes.
  size_t BlockCount(size_t token_count) const { return token_count / block_size_; }
  size_t TextBlockCount(size_t byte_count) const { return byte_count / text_block_bytes_; }

  // Key -1 of a prompt in `space`. Token and text prompts of one space have different roots.
  uint64_t RootKey(const KeySpace& space, PromptForm form = PromptForm::kTokens) const;

  // Writes one key for each full block to `keys`.
  // REQUIRES: keys.size() == BlockCount(tokens.size()); item offsets ascend.
  void TokenBlockKeys(const KeySpace& space, Span<const uint32_t> tokens,
                      Span<const MultimodalItem> items, Span<uint64_t> keys) const;
  // REQUIRES: keys.size() == TextBlockCount(text.size())
  void TextBlockKeys(const KeySpace& space, std::string_view text, Span<const MultimodalItem> items,
                     Span<uint64_t> keys) const;

  // Hash of `size` bytes at `data` with this hasher's secret.
  uint64_t HashBytes(const void* data, size_t size) const;
  // The key that follows `previous` when the next block (or chunk) has this hash.
  uint64_t Fold(uint64_t previous, uint64_t content_hash) const;

  // The next keys after `previous`: blocks [first_block, first_block + keys.size()) of a prompt
  // whose bytes start at `prompt`, each `block_bytes` long. Items are those of the whole prompt,
  // with offsets in units of `item_unit_bytes`. This is the loop behind the calls above.
  void ExtendKeys(uint64_t previous, const unsigned char* prompt, size_t block_bytes,
                  size_t first_block, Span<const MultimodalItem> items, size_t item_unit_bytes,
                  Span<uint64_t> keys) const;

 private:
  static constexpr size_t kSecretBytes = 192;

  uint32_t block_size_;
  uint32_t text_block_bytes_;
  uint64_t fold_previous_;
  uint64_t fold_content_;
  alignas(64) unsigned char secret_[kSecretBytes];
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_BLOCK_HASHER_H_
