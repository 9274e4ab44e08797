// PromptKeys: lazily or all at once, by chunks or by blocks, the keys are those of BlockHasher.
#include "lib/hash/prompt_keys.h"

#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace prefixrouter {
namespace {

std::vector<uint32_t> Tokens(size_t count) {
  std::mt19937_64 random(9);
  std::vector<uint32_t> tokens(count);
  for (uint32_t& token : tokens) token = static_cast<uint32_t>(random());
  return tokens;
}

}  // namespace

TEST_CASE("chunks are about 2 KiB, and there are none for large blocks") {
  REQUIRE(ChunkBlocks(64) == 32);
  REQUIRE(ChunkBlocks(4) == 512);
  REQUIRE(ChunkBlocks(1024) == 2);
  REQUIRE(ChunkBlocks(1025) == 0);
  REQUIRE(ChunkBlocks(12) == 170);
}

TEST_CASE("block keys are the same whichever way they are asked for") {
  for (const uint32_t block_size : {1u, 3u, 16u, 64u, 300u}) {
    for (const size_t length : {0u, 1u, 15u, 16u, 200u, 5000u}) {
      CAPTURE(block_size, length);
      const BlockHasher hasher(block_size, 1);
      const auto tokens = Tokens(length);
      std::vector<uint64_t> expected(hasher.BlockCount(length));
      hasher.TokenBlockKeys({"model", "", ""}, tokens, {}, expected);
      Request request = Request::FromTokens(tokens);
      request.key_space.model = "model";

      PromptKeys one_by_one(hasher, request);
      REQUIRE(one_by_one.block_count() == expected.size());
      uint64_t key = one_by_one.root_key();
      for (uint32_t i = 0; i < expected.size(); ++i) {
        key = one_by_one.BlockKey(i, key);
        REQUIRE(key == expected[i]);
      }
      REQUIRE(one_by_one.first_key() == (expected.empty() ? 0 : expected[0]));

      for (const bool hashed : {false, true}) {
        PromptKeys prefix(hasher, request);
        if (hashed) prefix.HashBlocks(0, prefix.root_key());
        REQUIRE(prefix.PrefixKey(0) == 0);
        for (uint32_t count = 1; count <= expected.size(); ++count) {
          REQUIRE(prefix.PrefixKey(count) == expected[count - 1]);
        }
        REQUIRE(prefix.PrefixKey(UINT32_MAX) == (expected.empty() ? 0 : expected.back()));
      }

      PromptKeys unknown(hasher, request);
      unknown.Hash(false);
      REQUIRE(unknown.complete());
      REQUIRE(unknown.chunk_blocks() == 0);
      for (uint32_t i = 0; i < expected.size(); ++i) REQUIRE(unknown.KeysFrom(0)[i] == expected[i]);

      PromptKeys known(hasher, request);
      known.Hash(true);
      const uint32_t middle = static_cast<uint32_t>(expected.size() / 2);
      if (middle > 0) {
        known.HashBlocks(middle, expected[middle - 1]);
        const Span<const uint64_t> rest = known.KeysFrom(middle);
        REQUIRE(std::vector<uint64_t>(rest.begin(), rest.end()) ==
                std::vector<uint64_t>(expected.begin() + middle, expected.end()));
      }
      known.HashBlocks(0, known.root_key());
      REQUIRE(known.complete());
      for (uint32_t i = 0; i < expected.size(); ++i) REQUIRE(known.BlockKey(i, 0) == expected[i]);
    }
  }
}

TEST_CASE("block keys are the same after a right guess of their beginning and after a wrong one") {
  const BlockHasher hasher(16, 1);
  const auto tokens = Tokens(16 * 200);
  std::vector<uint64_t> expected(200);
  hasher.TokenBlockKeys({}, tokens, {}, expected);
  const Request request = Request::FromTokens(tokens);
  struct Guess {
    uint32_t first;
    uint64_t previous;
  };
  for (const Guess guess : {Guess{77, expected[76]}, Guess{77, 1234}, Guess{64, expected[63]},
                            Guess{150, expected[149]}, Guess{195, expected[194]}}) {
    CAPTURE(guess.first, guess.previous);
    PromptKeys keys(hasher, request);
    keys.Hash(true);
    keys.HashAhead(guess.first, guess.previous);
    // Nothing is seen of them before they are asked for.
    REQUIRE(keys.keys_begin() == 200);
    REQUIRE(keys.BlockKey(190, expected[189]) == expected[190]);
    const bool right = keys.HashedAhead(77, expected[76]);
    REQUIRE(right == (guess.first == 77 && guess.previous == expected[76]));
    keys.HashBlocks(77, expected[76]);
    REQUIRE(keys.keys_begin() == 77);
    const Span<const uint64_t> rest = keys.KeysFrom(77);
    REQUIRE(std::vector<uint64_t>(rest.begin(), rest.end()) ==
            std::vector<uint64_t>(expected.begin() + 77, expected.end()));
    std::free(keys.ReleaseKeys(77));

    PromptKeys all(hasher, request);
    all.Hash(true);
    all.HashAhead(guess.first, guess.previous);
    all.HashBlocks(0, all.root_key());
    REQUIRE(all.complete());
    for (uint32_t i = 0; i < 200; ++i) REQUIRE(all.BlockKey(i, 0) == expected[i]);
  }
}

TEST_CASE("a chunk key stands for all before it, multimodal content included") {
  const BlockHasher hasher(16, 1);
  const auto tokens = Tokens(512 * 6);
  const auto chunk_keys = [&](std::vector<uint32_t> prompt, std::vector<MultimodalItem> items) {
    Request request = Request::FromTokens(prompt);
    request.multimodal = items;
    PromptKeys keys(hasher, request);
    keys.Hash(true);
    return std::vector<uint64_t>(keys.chunk_keys().begin(), keys.chunk_keys().end());
  };
  const auto plain = chunk_keys(tokens, {});
  REQUIRE(plain.size() == 6);
  auto changed = tokens;
  changed[512 * 3] ^= 1;
  const auto other = chunk_keys(changed, {});
  const auto image = chunk_keys(tokens, {{512 * 3, 77}});
  const auto other_image = chunk_keys(tokens, {{512 * 3, 78}});
  for (size_t i = 0; i < 6; ++i) {
    CAPTURE(i);
    REQUIRE((plain[i] == other[i]) == (i < 3));
    REQUIRE((plain[i] == image[i]) == (i < 3));
    REQUIRE((other_image[i] == image[i]) == (i < 3));
  }
}

TEST_CASE("ready-made keys are taken as they are") {
  const std::vector<uint64_t> keys = {5, 6, 7};
  PromptKeys prompt{Span<const uint64_t>(keys)};
  prompt.Hash(true);
  REQUIRE(prompt.complete());
  REQUIRE(prompt.block_count() == 3);
  REQUIRE(prompt.first_key() == 5);
  REQUIRE(prompt.BlockKey(2, 0) == 7);
}

}  // namespace prefixrouter
