// What broke in other routers that believe the cache reports of engines: copies and holes.
//
// Each test restates one public report (named above it) as input and right result. The public calls
// only predict what is cached, so these cases use the index's own calls for confirmed residency.
// The tag [case-NN] is the number that docs and commit messages use.
#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "lib/index/prefix_index.h"
#include "prefixrouter/block_hasher.h"
#include "tests/catch.h"
#include "tests/support/build_kind.h"
#include "tests/support/prompts.h"
#include "tests/support/stored_blocks.h"

namespace prefixrouter::testing {
namespace {

constexpr uint32_t kBlock = 16;
constexpr uint32_t kA = 0;
constexpr uint32_t kB = 1;
constexpr uint64_t kCapacityBlocks = 1000;

using Keys = std::vector<uint64_t>;

// An index with slots A and B, and chained keys for prompts.
struct World {
  explicit World(uint64_t seed) : hasher(kBlock, seed), index(size_t{1} << 24) {
    for (uint32_t slot : {kA, kB}) {
      index.AddSlot(slot, kCapacityBlocks);
      index.SetConfirmed(slot, 0);
    }
  }

  Keys KeysOf(const Tokens& tokens) const {
    Keys keys(hasher.BlockCount(tokens.size()));
    hasher.TokenBlockKeys({}, tokens, {}, keys);
    return keys;
  }
  // Leading blocks of the prompt that the slot holds.
  uint32_t Match(uint32_t slot, const Keys& keys) {
    const PromptKeys prompt{Span<const uint64_t>(keys)};
    Path path;
    index.Match(prompt, &path);
    return slot < path.matched.size() ? path.matched[slot] : 0;
  }
  // Block i of the prompt, behind block i-1.
  bool StoreBlock(uint32_t slot, const Keys& keys, size_t i) {
    const std::optional<uint64_t> parent =
        i == 0 ? std::nullopt : std::optional<uint64_t>(keys[i - 1]);
    return stored.Store(slot, parent, {&keys[i], 1}, ++now);
  }
  bool StoreAll(uint32_t slot, const Keys& keys) {
    return stored.Store(slot, std::nullopt, keys, ++now);
  }

  BlockHasher hasher;
  PrefixIndex index;
  StoredBlocks stored{&index};
  int64_t now = 0;
};

// vllm 55092: a block was stored twice, and the first removal of one copy removed it from the
// index. Stored twice, removed once: still there. Removed again: gone. A third time: no effect.
TEST_CASE("A block stored twice is gone with its second removal", "[cases][case-07]") {
  const uint64_t seed = TestSeed(7);
  CAPTURE(seed);
  PromptMaker prompts(seed);

  SECTION("the last block, one in the middle, the first") {
    const size_t block = GENERATE(9, 5, 0);
    const uint32_t copies = GENERATE(2u, 3u, 10u);
    CAPTURE(block, copies);
    World world(seed);
    const Keys keys = world.KeysOf(prompts.Random(kBlock * 10));
    REQUIRE(world.StoreAll(kA, keys));
    REQUIRE(world.StoreAll(kB, keys));
    for (uint32_t copy = 1; copy < copies; ++copy) REQUIRE(world.StoreBlock(kA, keys, block));
    const size_t bytes = world.index.bytes();
    for (uint32_t removal = 1; removal < copies; ++removal) {
      CHECK(world.stored.Remove(kA, keys[block]));
      CHECK(world.Match(kA, keys) == 10);
    }
    CHECK(world.stored.Remove(kA, keys[block]));
    CHECK(world.Match(kA, keys) == block);
    CHECK(world.index.held_blocks(kA) == 9);
    CHECK_FALSE(world.stored.Remove(kA, keys[block]));
    CHECK(world.Match(kA, keys) == block);
    CHECK(world.Match(kB, keys) == 10);  // another instance's copies are its own
    CHECK(world.StoreBlock(kA, keys, block));
    CHECK(world.Match(kA, keys) == 10);
    CHECK(world.index.bytes() <= bytes);
  }

  SECTION("any history against plain counters") {
    World world(seed);
    const Keys keys = world.KeysOf(prompts.Random(kBlock * 12));
    std::array<std::array<uint32_t, 12>, 2> copies = {};
    const auto expected = [&](uint32_t slot) {
      const auto& of_slot = copies[slot];
      return static_cast<uint32_t>(std::find(of_slot.begin(), of_slot.end(), 0u) - of_slot.begin());
    };
    size_t wrong = 0;
    for (size_t step = 0; step < Sized(50000u, 5000u); ++step) {
      const uint32_t slot = static_cast<uint32_t>(prompts.Below(2));
      const size_t block = prompts.Below(12);
      if (prompts.Chance(0.5)) {
        // A parent that someone holds is known. What is refused must change nothing.
        const bool parent_held = block == 0 || copies[0][block - 1] + copies[1][block - 1] > 0;
        const bool stored = world.StoreBlock(slot, keys, block);
        wrong += parent_held != stored;
        copies[slot][block] += stored;
      } else {
        wrong += world.stored.Remove(slot, keys[block]) != (copies[slot][block] > 0);
        copies[slot][block] -= copies[slot][block] > 0;
      }
      for (uint32_t s : {kA, kB}) {
        wrong += world.Match(s, keys) != expected(s);
        wrong += world.index.held_blocks(s) !=
                 12 - static_cast<uint64_t>(std::count(copies[s].begin(), copies[s].end(), 0u));
      }
    }
    CHECK(wrong == 0);
    world.stored.Clear(kA);
    world.stored.Clear(kB);
    CHECK(world.index.block_count() == 0);
    CHECK(world.index.run_count() == 0);
  }
}

// aibrix 917, with reports of engines: a block was looked up by its own content.
// [X, Y] on A, [Z, Y] on B: for [Z, Y] A has nothing and B both.
TEST_CASE("A stored block counts only behind its own parent", "[cases][case-10]") {
  const uint64_t seed = TestSeed(110);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  World world(seed);
  const Tokens x = prompts.Random(kBlock);
  const Tokens z = prompts.Random(kBlock);
  const Tokens y = prompts.Random(kBlock);
  Tokens xy = x;
  xy.insert(xy.end(), y.begin(), y.end());
  Tokens zy = z;
  zy.insert(zy.end(), y.begin(), y.end());
  const Keys xy_keys = world.KeysOf(xy);
  const Keys zy_keys = world.KeysOf(zy);
  for (size_t i = 0; i < 2; ++i) {
    REQUIRE(world.StoreBlock(kA, xy_keys, i));
    REQUIRE(world.StoreBlock(kB, zy_keys, i));
  }
  CHECK(world.Match(kA, zy_keys) == 0);
  CHECK(world.Match(kB, zy_keys) == 2);
  CHECK(world.Match(kA, xy_keys) == 2);
  CHECK(world.Match(kB, xy_keys) == 0);
}

// llm-d, approximate prefix index: a block behind a missing one was counted.
// A holds blocks 0 and 1, B only block 1: A matches 2, B 0. A hole that is filled counts again.
TEST_CASE("A block behind a hole does not count until the hole is filled", "[cases][case-11]") {
  const uint64_t seed = TestSeed(11);
  CAPTURE(seed);
  PromptMaker prompts(seed);

  SECTION("two blocks") {
    World world(seed);
    const Keys keys = world.KeysOf(prompts.Random(kBlock * 2));
    REQUIRE(world.StoreAll(kA, keys));
    REQUIRE(world.StoreBlock(kB, keys, 1));
    CHECK(world.Match(kA, keys) == 2);
    CHECK(world.Match(kB, keys) == 0);
    REQUIRE(world.StoreBlock(kB, keys, 0));
    CHECK(world.Match(kB, keys) == 2);
    // A loses its blocks: what B holds stays.
    CHECK(world.stored.Remove(kA, keys[0]));
    CHECK(world.Match(kA, keys) == 0);
    CHECK(world.Match(kB, keys) == 2);
  }

  SECTION("holes at every place, in a tree with a branch") {
    World world(seed);
    const Tokens stem = prompts.Random(kBlock * 8);
    const std::vector<Keys> branches = {world.KeysOf(prompts.Extend(stem, kBlock * 6)),
                                        world.KeysOf(prompts.Extend(stem, kBlock * 3))};
    for (const Keys& branch : branches) {
      REQUIRE(world.StoreAll(kA, branch));
      REQUIRE(world.StoreAll(kB, branch));
    }
    // The stem was stored once for each branch, so it has two copies.
    size_t wrong = 0;
    for (const Keys& branch : branches) {
      for (size_t hole = 0; hole < branch.size(); ++hole) {
        const uint32_t copies = hole < 8 ? 2 : 1;
        for (uint32_t copy = 0; copy < copies; ++copy) {
          wrong += world.Match(kB, branch) != branch.size();
          wrong += !world.stored.Remove(kB, branch[hole]);
        }
        wrong += world.Match(kB, branch) != hole;
        wrong += world.Match(kA, branch) != branch.size();
        for (uint32_t copy = 0; copy < copies; ++copy) {
          wrong += !world.StoreBlock(kB, branch, hole);
        }
        wrong += world.Match(kB, branch) != branch.size();
      }
    }
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace prefixrouter::testing
