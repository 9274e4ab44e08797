// RunTable against std::map: growth and shrinkage a bucket at a time.
#include "lib/index/run_table.h"

#include <map>
#include <memory>
#include <random>

#include "tests/catch.h"

namespace prefixrouter {

TEST_CASE("run table finds what a map finds, through growth and shrinkage") {
  for (const bool sequential : {false, true}) {
    MemoryMeter meter;
    const size_t empty_bytes = [&] {
      RunTable table(&meter);
      return meter.bytes();
    }();
    REQUIRE(meter.bytes() == 0);

    RunTable table(&meter);
    std::map<uint64_t, std::unique_ptr<Run>> model;
    std::mt19937_64 random(11);
    const auto step = [&](bool insert) {
      const uint64_t key = sequential ? random() % 8000 : random() % 8000 * 0x9E3779B97F4A7C15u;
      const auto found = model.find(key);
      REQUIRE(table.Find(key) == (found == model.end() ? nullptr : found->second.get()));
      if (insert && found == model.end()) {
        const size_t before = meter.bytes();
        const size_t bound = table.InsertBytesBound();
        auto run = std::make_unique<Run>();
        run->first_key = key;
        table.Insert(run.get());
        model[key] = std::move(run);
        REQUIRE(meter.bytes() <= before + bound);
      } else if (!insert && found != model.end()) {
        table.Erase(found->second.get());
        model.erase(found);
      }
      REQUIRE(table.size() == model.size());
    };
    for (int i = 0; i < 30000; ++i) step(random() % 10 < 8);
    REQUIRE(model.size() > 5000);
    const size_t bytes_of_many = meter.bytes();
    size_t visited = 0;
    table.ForEach([&](Run*) { ++visited; });
    REQUIRE(visited == model.size());
    REQUIRE(bytes_of_many < model.size() * 20);
    while (!model.empty()) {
      table.Erase(model.begin()->second.get());
      model.erase(model.begin());
      if (!model.empty()) {
        const auto last = std::prev(model.end());
        REQUIRE(table.Find(last->first) == last->second.get());
      }
    }
    REQUIRE(meter.bytes() == empty_bytes);
  }
}

}  // namespace prefixrouter
