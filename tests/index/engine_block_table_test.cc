// EngineBlockTable against std::map: any order of additions and removals, ids that are close to
// each other, and bytes that come back.
#include "lib/index/engine_block_table.h"

#include <map>
#include <random>
#include <vector>

#include "tests/catch.h"
#include "tests/support/build_kind.h"

namespace prefixrouter {
namespace {

EngineBlock Block(uint64_t id, uint32_t number) { return {id, number, 0, 0, 0, 1}; }

}  // namespace

TEST_CASE("the table of engine blocks equals a map after any history") {
  const uint64_t seed = 1;
  const size_t expected_blocks = GENERATE(1, 5000, 100'000'000);
  const bool sequential = GENERATE(false, true);  // ids as a counter makes them
  CAPTURE(seed, expected_blocks, sequential);
  std::mt19937_64 random(seed);
  MemoryMeter meter;
  {
    EngineBlockTable table(&meter, expected_blocks);
    const size_t bytes_of_empty = table.bytes();
    REQUIRE(meter.bytes() == bytes_of_empty);
    std::map<uint64_t, uint32_t> expected;
    std::vector<uint64_t> ids(3000);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = sequential ? i : random();
    const int steps = testing::Sized(200000, 20000);
    for (int step = 0; step < steps; ++step) {
      const uint64_t id = ids[random() % ids.size()];
      // Fills up and empties in turns.
      const bool add = random() % 10 < (step / 5000 % 2 == 0 ? 8 : 2);
      EngineBlock* const found = table.Find(id);
      REQUIRE((found != nullptr) == (expected.count(id) != 0));
      if (found != nullptr) REQUIRE(found->number == expected[id]);
      if (add) {
        const size_t bound = table.bytes() + table.GrowthBytes({&id, 1});
        EngineBlock* const added = table.Add(Block(id, static_cast<uint32_t>(step + 1)));
        REQUIRE((added == nullptr) == (found != nullptr));
        if (added != nullptr) expected[id] = static_cast<uint32_t>(step + 1);
        REQUIRE(table.bytes() <= bound);
      } else if (found != nullptr) {
        table.Remove(found);
        expected.erase(id);
      }
      REQUIRE(table.size() == expected.size());
      REQUIRE(meter.bytes() == table.bytes());
    }
    for (const auto& [id, number] : expected) {
      REQUIRE(table.Find(id) != nullptr);
      table.Remove(table.Find(id));
    }
    REQUIRE(table.bytes() == bytes_of_empty);
  }
  REQUIRE(meter.bytes() == 0);
}

TEST_CASE("the table of engine blocks takes 22 to 27 bytes a block") {
  std::mt19937_64 random(2);
  MemoryMeter meter;
  EngineBlockTable table(&meter, 65536);
  for (uint32_t blocks = 1; blocks <= 200000; ++blocks) {
    table.Add(Block(random(), blocks));
    if (blocks < 20000) continue;
    const double bytes = static_cast<double>(meter.bytes()) / blocks;
    if (blocks % 1000 == 0) CHECK(bytes > 21);
    if (blocks % 1000 == 0) CHECK(bytes < 27);
  }
}

TEST_CASE("growth that was announced for many ids at once is enough for them") {
  std::mt19937_64 random(3);
  MemoryMeter meter;
  EngineBlockTable table(&meter, GENERATE(1, 8192, 1'000'000));
  for (int round = 0; round < 200; ++round) {
    std::vector<uint64_t> ids(1 + random() % 500);
    for (uint64_t& id : ids) id = random();
    const size_t bound = table.bytes() + table.GrowthBytes({ids.data(), ids.size()});
    const size_t quick_bound = table.bytes() + table.GrowthBound(ids.size());
    REQUIRE(quick_bound >= bound);
    for (uint64_t id : ids) {
      REQUIRE(table.Add(Block(id, 1)) != nullptr);
      REQUIRE(table.bytes() <= bound);
    }
  }
}

TEST_CASE("blocks that are added together stop before the first whose id is known") {
  std::mt19937_64 random(4);
  MemoryMeter meter;
  EngineBlockTable table(&meter, 8192);
  std::map<uint64_t, uint32_t> expected;
  std::vector<EngineBlock*> added;
  for (uint32_t round = 1; round <= 3000; ++round) {
    std::vector<uint64_t> ids(random() % 64);
    for (uint64_t& id : ids) id = random() % 10000 * 0x100000001;
    size_t unknown = 0;  // ids before the first that is there, or that is repeated
    while (unknown < ids.size() && expected.emplace(ids[unknown], round).second) ++unknown;
    added.clear();
    table.AddAll({ids.data(), ids.size()}, Block(0, round), &added);
    REQUIRE(added.size() == unknown);
    for (size_t i = 0; i < unknown; ++i) {
      REQUIRE(added[i] == table.Find(ids[i]));
      REQUIRE(added[i]->id == ids[i]);
      REQUIRE(added[i]->number == round);
    }
    while (expected.size() > 5000) {  // by place, from wherever it is
      const auto gone = expected.lower_bound(random() % 10000 * 0x100000001);
      if (gone == expected.end()) continue;
      const EngineBlockTable::Place place = table.FindPlace(gone->first);
      REQUIRE(place.block != nullptr);
      REQUIRE(place.block->number == gone->second);
      table.Remove(place);
      REQUIRE(table.Find(gone->first) == nullptr);
      expected.erase(gone);
    }
    REQUIRE(table.size() == expected.size());
  }
  for (const auto& [id, number] : expected) REQUIRE(table.Find(id)->number == number);
}

}  // namespace prefixrouter
