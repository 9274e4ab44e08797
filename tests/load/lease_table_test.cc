// LeaseTable: numbers never come back, and leases expire in the order of their start.
#include "lib/load/lease_table.h"

#include <list>
#include <random>
#include <set>

#include "tests/catch.h"

namespace prefixrouter {

TEST_CASE("lease table equals a list ordered by start") {
  LeaseTable table;
  std::list<std::pair<uint64_t, int64_t>> model;  // number, start
  std::set<uint64_t> used;
  std::mt19937_64 random(5);
  for (int64_t now = 0; now < 50000; ++now) {
    if (random() % 2 == 0 || model.empty()) {
      LeaseRecord record;
      record.started_nanos = now;
      const LeaseId id = table.Add(record);
      REQUIRE(id.valid());
      REQUIRE(used.insert(id.value).second);
      model.push_back({id.value, now});
    } else {
      auto victim = std::next(model.begin(), static_cast<long>(random() % model.size()));
      const LeaseId id{victim->first};
      REQUIRE(table.Find(id)->started_nanos == victim->second);
      table.Remove(id);
      REQUIRE(table.Find(id) == nullptr);
      model.erase(victim);
    }
    REQUIRE(table.size() == model.size());
    REQUIRE(table.Oldest().value == (model.empty() ? 0 : model.front().first));
  }
  REQUIRE(table.Find(LeaseId{}) == nullptr);
  REQUIRE(table.Find(LeaseId{UINT64_MAX}) == nullptr);
}

}  // namespace prefixrouter
