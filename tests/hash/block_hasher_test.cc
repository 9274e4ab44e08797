// BlockHasher: what must be equal is equal, what must differ differs, and keys do not change.
#include "prefixrouter/block_hasher.h"

#include <random>
#include <set>
#include <string>
#include <vector>

#include "lib/hash/xxh3.h"
#include "tests/catch.h"

namespace prefixrouter {
namespace {

std::vector<uint32_t> RandomTokens(size_t count, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> tokens(count);
  for (uint32_t& token : tokens) token = static_cast<uint32_t>(random() % 128000);
  return tokens;
}

std::vector<uint64_t> Keys(const BlockHasher& hasher, const std::vector<uint32_t>& tokens,
                           const KeySpace& space = {},
                           const std::vector<MultimodalItem>& items = {}) {
  std::vector<uint64_t> keys(hasher.BlockCount(tokens.size()));
  hasher.TokenBlockKeys(space, tokens, items, keys);
  return keys;
}

}  // namespace

TEST_CASE("keys of format 1 do not change: routers and snapshots share them") {
  std::vector<uint32_t> tokens(64);
  for (uint32_t i = 0; i < tokens.size(); ++i) tokens[i] = i + 1;
  const std::vector<uint64_t> keys = Keys(BlockHasher(16, 0), tokens);
  REQUIRE(kKeyFormat == 1);
  REQUIRE(keys == std::vector<uint64_t>{0xa86e4d2f393014dbu, 0xe841e2a8ff943335u,
                                        0x635d569680ec2a9fu, 0x9a77fd6872d9a131u});
  REQUIRE(Keys(BlockHasher(16, 42), tokens, {"m", "a", "s"}, {{20, 7}})[3] == 0xe0a36fa3ed517428u);
  REQUIRE(Keys(BlockHasher(64, 0), tokens)[0] == 0xf31d1f8696242cc1u);
}

TEST_CASE("only full blocks have a key") {
  const BlockHasher hasher(16, 1);
  REQUIRE(hasher.BlockCount(0) == 0);
  REQUIRE(hasher.BlockCount(15) == 0);
  REQUIRE(hasher.BlockCount(16) == 1);
  REQUIRE(hasher.BlockCount(33) == 2);
  const auto tokens = RandomTokens(47, 1);
  const auto longer = RandomTokens(48, 1);  // the same, and one more
  REQUIRE(Keys(hasher, tokens)[1] == Keys(hasher, longer)[1]);
}

TEST_CASE("a key stands for the whole prefix before it") {
  const BlockHasher hasher(16, 1);
  auto tokens = RandomTokens(160, 2);
  const auto keys = Keys(hasher, tokens);
  for (size_t changed = 0; changed < 160; changed += 7) {
    CAPTURE(changed);
    auto other = tokens;
    other[changed] ^= 1;
    const auto other_keys = Keys(hasher, other);
    for (size_t i = 0; i < keys.size(); ++i) {
      REQUIRE((keys[i] == other_keys[i]) == (i < changed / 16));
    }
  }
}

TEST_CASE("every block size gives chained keys, and none equals another size's") {
  const auto tokens = RandomTokens(4096, 3);
  std::set<uint64_t> all;
  size_t count = 0;
  for (const uint32_t size : {1u, 2u, 3u, 7u, 16u, 17u, 32u, 60u, 61u, 64u, 256u, 512u, 4096u}) {
    const auto keys = Keys(BlockHasher(size, 1), tokens);
    REQUIRE(keys.size() == 4096 / size);
    all.insert(keys.begin(), keys.end());
    count += keys.size();
  }
  REQUIRE(all.size() == count);
}

TEST_CASE("keys can be computed in pieces") {
  const auto tokens = RandomTokens(1600, 4);
  const std::vector<MultimodalItem> items = {{0, 5}, {15, 6}, {16, 7}, {800, 8}, {1599, 9}};
  const auto* bytes = reinterpret_cast<const unsigned char*>(tokens.data());
  const BlockHasher hasher(16, 1);
  for (const bool with_items : {false, true}) {
    const auto used = with_items ? items : std::vector<MultimodalItem>();
    const auto keys = Keys(hasher, tokens, {}, used);
    for (const size_t first : {1u, 2u, 49u, 50u, 51u, 99u}) {
      std::vector<uint64_t> rest(keys.size() - first);
      hasher.ExtendKeys(keys[first - 1], bytes, 64, first, used, sizeof(uint32_t), rest);
      REQUIRE(rest == std::vector<uint64_t>(keys.begin() + static_cast<long>(first), keys.end()));
    }
  }
}

TEST_CASE("seeds make unrelated keys") {
  const auto tokens = RandomTokens(160, 5);
  std::set<uint64_t> all;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    for (uint64_t key : Keys(BlockHasher(16, seed), tokens)) all.insert(key);
  }
  REQUIRE(all.size() == 1000);
}

TEST_CASE("the parts of a key space do not run into each other") {
  const BlockHasher hasher(16, 1);
  const KeySpace spaces[] = {{"", "", ""},   {"a", "", ""},  {"", "a", ""},  {"", "", "a"},
                             {"ab", "", ""}, {"a", "b", ""}, {"a", "", "b"}, {"", "a", "b"},
                             {"", "ab", ""}, {"", "", "ab"}, {"a", "a", ""}, {"a", "a", "a"}};
  std::set<uint64_t> roots;
  for (const KeySpace& space : spaces) {
    roots.insert(hasher.RootKey(space, PromptForm::kTokens));
    roots.insert(hasher.RootKey(space, PromptForm::kText));
  }
  REQUIRE(roots.size() == 2 * std::size(spaces));
}

TEST_CASE("text is cut at any byte, and equals itself at any alignment") {
  const BlockHasher hasher(16, 1, 10);
  std::string text;
  for (int i = 0; i < 40; ++i) text += "\xe4\xb8\xad";  // 3 bytes of UTF-8
  std::vector<uint64_t> keys(hasher.TextBlockCount(text.size()));
  REQUIRE(keys.size() == 12);
  hasher.TextBlockKeys({}, text, {}, keys);
  for (size_t shift = 1; shift < 9; ++shift) {
    const std::string moved = std::string(shift, 'x') + text;
    std::vector<uint64_t> same(keys.size());
    hasher.TextBlockKeys({}, std::string_view(moved).substr(shift), {}, same);
    REQUIRE(same == keys);
  }
}

TEST_CASE("a million blocks of small, regular differences have no equal keys") {
  const BlockHasher hasher(16, 1);
  std::set<uint64_t> keys;
  std::vector<uint32_t> tokens(16, 0);
  constexpr uint32_t kBlocks = 250000;
  for (uint32_t i = 0; i < kBlocks; ++i) {  // counters in the four corners of a block
    for (const size_t position : {0u, 1u, 8u, 15u}) {
      tokens.assign(16, 0);
      tokens[position] = i + 1;
      keys.insert(Keys(hasher, tokens)[0]);
    }
  }
  REQUIRE(keys.size() == 4 * kBlocks);
}

TEST_CASE("every bit of a block changes half of its key's bits") {
  const BlockHasher hasher(16, 1);
  std::mt19937_64 random(7);
  double flipped = 0;
  int pairs = 0;
  for (int sample = 0; sample < 20; ++sample) {
    auto tokens = RandomTokens(16, random());
    const uint64_t key = Keys(hasher, tokens)[0];
    for (size_t bit = 0; bit < 512; ++bit) {
      tokens[bit / 32] ^= 1u << (bit % 32);
      const int changed = __builtin_popcountll(key ^ Keys(hasher, tokens)[0]);
      tokens[bit / 32] ^= 1u << (bit % 32);
      REQUIRE(changed > 8);  // of 64; below 9 has a chance of 1e-10
      flipped += changed;
      ++pairs;
    }
  }
  REQUIRE(flipped / pairs == Approx(32).margin(0.3));
}

TEST_CASE("long and short inputs are hashed to the same values by all code paths") {
  // One secret, sizes on both sides of where the vector code takes over.
  const BlockHasher hasher(16, 3);
  std::vector<unsigned char> bytes(5000);
  std::mt19937_64 random(8);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(random());
  std::set<uint64_t> hashes;
  for (size_t size = 0; size < 600; ++size) hashes.insert(hasher.HashBytes(bytes.data(), size));
  REQUIRE(hashes.size() == 600);
  REQUIRE(Xxh3("", 0) == 0x2d06800538d394c2u);  // of the xxHash specification: empty input, seed 0
}

}  // namespace prefixrouter
