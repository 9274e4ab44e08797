#include "prefixrouter/block_hasher.h"

#include <cstring>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "absl/numeric/int128.h"
#include "lib/hash/xxh3.h"

namespace prefixrouter {
namespace {

// Tags that keep hashes of different roles apart.
enum Domain : uint64_t { kModel = 1, kAdapter, kSalt, kTokenRoot, kTextRoot, kItem };

// Up to here XXH3 is scalar code, best inlined; above it the vector code of Xxh3WithSecret wins.
constexpr size_t kShortInput = 240;

// XXH3's own folding step: both halves of a 64 x 64 -> 128 bit product.
inline uint64_t MultiplyFold(uint64_t a, uint64_t b) {
  const absl::uint128 product = absl::uint128(a) * b;
  return absl::Uint128Low64(product) ^ absl::Uint128High64(product);
}

}  // namespace

BlockHasher::BlockHasher(uint32_t block_size, uint64_t seed, uint32_t text_block_bytes)
    : block_size_(block_size == 0 ? 1 : block_size),
      text_block_bytes_(text_block_bytes == 0 ? 1 : text_block_bytes) {
  static_assert(kSecretBytes == XXH_SECRET_DEFAULT_SIZE);
  XXH3_generateSecret_fromSeed(secret_, seed);
  // Any two words of the secret would do; these come from hashing it, so that they differ from what
  // XXH3 masks its input with. Odd, so that neither is zero.
  fold_previous_ = XXH3_64bits_withSeed(secret_, kSecretBytes, 1) | 1;
  fold_content_ = XXH3_64bits_withSeed(secret_, kSecretBytes, 2) | 1;
}

uint64_t BlockHasher::HashBytes(const void* data, size_t size) const {
  if (size <= kShortInput) return XXH3_64bits_withSecret(data, size, secret_, kSecretBytes);
  return Xxh3WithSecret(data, size, secret_, kSecretBytes);
}

uint64_t BlockHasher::Fold(uint64_t previous, uint64_t content_hash) const {
  return MultiplyFold(previous ^ fold_previous_, content_hash ^ fold_content_);
}

uint64_t BlockHasher::RootKey(const KeySpace& space, PromptForm form) const {
  uint64_t key = form == PromptForm::kText ? kTextRoot : kTokenRoot;
  const auto mix_part = [&](Domain domain, std::string_view part) {
    if (part.empty()) return;
    key = Fold(key, domain);
    key = Fold(key, part.size());
    key = Fold(key, HashBytes(part.data(), part.size()));
  };
  mix_part(kModel, space.model);
  mix_part(kAdapter, space.adapter);
  mix_part(kSalt, space.salt);
  // Prompts of one form that differ in block size must not match either.
  return Fold(key, form == PromptForm::kText ? text_block_bytes_ : block_size_);
}

void BlockHasher::TokenBlockKeys(const KeySpace& space, Span<const uint32_t> tokens,
                                 Span<const MultimodalItem> items, Span<uint64_t> keys) const {
  ExtendKeys(RootKey(space, PromptForm::kTokens),
             reinterpret_cast<const unsigned char*>(tokens.data()), block_size_ * sizeof(uint32_t),
             0, items, sizeof(uint32_t), keys);
}

void BlockHasher::TextBlockKeys(const KeySpace& space, std::string_view text,
                                Span<const MultimodalItem> items, Span<uint64_t> keys) const {
  ExtendKeys(RootKey(space, PromptForm::kText), reinterpret_cast<const unsigned char*>(text.data()),
             text_block_bytes_, 0, items, 1, keys);
}

void BlockHasher::ExtendKeys(uint64_t previous, const unsigned char* prompt, size_t block_bytes,
                             size_t first_block, Span<const MultimodalItem> items,
                             size_t item_unit_bytes, Span<uint64_t> keys) const {
  const unsigned char* block = prompt + first_block * block_bytes;
  const size_t count = keys.size();
  uint64_t* const out = keys.data();

  if (items.empty() && block_bytes == 64) {  // 16 tokens: the length is a constant for XXH3
    // A copy that `out` cannot alias stays in registers.
    unsigned char secret[kSecretBytes];
    std::memcpy(secret, secret_, kSecretBytes);
    const uint64_t fold_previous = fold_previous_, fold_content = fold_content_;
    for (size_t i = 0; i < count; ++i, block += 64) {
      const uint64_t content = XXH3_64bits_withSecret(block, 64, secret, kSecretBytes);
      previous = MultiplyFold(previous ^ fold_previous, content ^ fold_content);
      out[i] = previous;
    }
    return;
  }

  size_t item = 0;
  const auto item_byte = [&](size_t i) { return items[i].offset * item_unit_bytes; };
  while (item < items.size() && item_byte(item) < first_block * block_bytes) ++item;
  for (size_t i = 0; i < count; ++i, block += block_bytes) {
    uint64_t content = HashBytes(block, block_bytes);
    const size_t block_begin = (first_block + i) * block_bytes;
    for (; item < items.size() && item_byte(item) < block_begin + block_bytes; ++item) {
      content = Fold(Fold(content, kItem), item_byte(item) - block_begin);
      content = Fold(content, items[item].content_hash);
    }
    previous = Fold(previous, content);
    out[i] = previous;
  }
}

}  // namespace prefixrouter
