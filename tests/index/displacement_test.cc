// Displacement: what storing a block costs by what it pushes out.
#include "lib/index/displacement.h"

#include "tests/catch.h"

namespace prefixrouter {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

uint64_t Key(uint64_t i) { return (i + 1) * 0x9E3779B97F4A7C15u; }

// The slot stores keys [first, first + count) and evicts `evicted` blocks.
void Step(Displacement& displacement, uint32_t slot, uint64_t first, uint64_t count,
          uint64_t evicted, int64_t now, bool alone = true, uint64_t held = 1000) {
  for (uint64_t i = first; i < first + count; ++i) {
    if (displacement.Samples(Key(i))) displacement.Stored(Key(i), alone, 1);
  }
  displacement.Count(slot, count, evicted, held, now);
}

}  // namespace

TEST_CASE("a cache that evicts what is computed again has a cost, and one with room has none") {
  Displacement displacement;
  REQUIRE(displacement.cost(0) == 0);
  // Slot 0 computes the same 1,000 blocks again and again; slot 1 has stored as much for good.
  displacement.Count(0, 0, 0, 0, 0);
  for (uint64_t round = 0; round < 10; ++round) {
    Step(displacement, 0, 0, 1000, round == 0 ? 0 : 1000, 0);
    Step(displacement, 1, 10000 + round * 1000, 1000, 0, 0);
  }
  REQUIRE(displacement.cost(0) > 0.7);  // 0.9, less what is overwritten in the table
  REQUIRE(displacement.cost(0) < 0.95);
  REQUIRE(displacement.cost(1) == 0);
  REQUIRE(displacement.cost(2) == 0);
  displacement.Forget(0);
  REQUIRE(displacement.cost(0) == 0);
}

TEST_CASE("evicting what nobody asks for again costs nothing") {
  Displacement displacement;
  for (uint64_t round = 0; round < 20; ++round) {
    Step(displacement, 0, round * 1000, 1000, 1000, 0);
  }
  REQUIRE(displacement.cost(0) == 0);
  // Nor does a block that others hold: it is stored because it is popular.
  for (uint64_t round = 0; round < 20; ++round) {
    Step(displacement, 1, 0, 1000, 1000, 0, false);
  }
  REQUIRE(displacement.cost(1) == 0);
}

TEST_CASE(
    "half of the evicted blocks wanted again, and half of the cost, however large the fleet") {
  for (const uint64_t scale : {1, 8, 64}) {
    const uint64_t blocks = 2000 * scale;
    Displacement displacement;
    displacement.Count(0, 0, 0, blocks, 0);
    for (uint64_t round = 0; round < 8; ++round) {
      Step(displacement, 0, 0, blocks, blocks, 0, true, blocks);
      Step(displacement, 0, (1 + round) * 1'000'000, blocks, blocks, 0, true, blocks);
    }
    CAPTURE(scale);
    REQUIRE(displacement.cost(0) > 0.25);  // 7 of 16, less what is overwritten in the table
    REQUIRE(displacement.cost(0) < 0.5);
  }
}

TEST_CASE("what was counted fades") {
  Displacement displacement;
  displacement.Count(0, 0, 0, 0, 0);
  for (int round = 0; round < 10; ++round) Step(displacement, 0, 0, 1000, 1000, 0);
  REQUIRE(displacement.cost(0) > 0.8);
  // From now on it stores and evicts for good.
  for (uint64_t second = 1; second <= 300; ++second) {
    Step(displacement, 0, 100000 + second * 100, 100, 100, static_cast<int64_t>(second) * kSecond);
  }
  REQUIRE(displacement.cost(0) < 0.05);
}

}  // namespace prefixrouter
