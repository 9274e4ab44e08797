// Homes: who is home to a branch, what a home is worth, and what is learned.
#include "lib/policy/homes.h"

#include <map>
#include <string>
#include <vector>

#include "lib/policy/builtin.h"
#include "tests/catch.h"
#include "tests/support/policy_fleet.h"

namespace prefixrouter {
namespace {

// Instances "0" to "9", in slots that a router gave them in an order of its own.
struct Router {
  explicit Router(uint32_t first) : fleet(10) {
    for (uint32_t i = 0; i < 10; ++i) {
      const uint32_t slot = (first + 3 * i) % 10;
      names[slot] = std::to_string(i);
      homes.InstanceAdded(fleet.ids[slot], names[slot], 0);
    }
  }
  std::string Find(uint64_t key) {
    const uint32_t slot = homes.Find(fleet.Input(), key);
    return slot == PolicyInput::kNoHome ? "" : names[slot];
  }

  PolicyFleet fleet;
  std::map<uint32_t, std::string> names;
  Homes homes{4};
};

}  // namespace

TEST_CASE("homes: all routers find the same one, and instances have equally many") {
  Router a(0), b(7);
  std::map<std::string, int> times;
  for (uint64_t key = 1; key <= 2000; ++key) {  // small numbers, as a caller may make
    const std::string home = a.Find(key);
    REQUIRE(b.Find(key) == home);
    ++times[home];
  }
  REQUIRE(times.size() == 10);
  for (const auto& [name, count] : times) CHECK(count > 120);  // of 200 on average
}

TEST_CASE("homes: of instances that come, go or are no candidates, only their own branches move") {
  Router router(0);
  std::vector<std::string> before;
  for (uint64_t key = 1; key <= 1000; ++key) before.push_back(router.Find(key));
  const auto moved_only_from = [&](const std::string& name) {
    int moved = 0;
    for (uint64_t key = 1; key <= 1000; ++key) {
      const std::string home = router.Find(key);
      if (home == before[key - 1]) continue;
      ++moved;
      REQUIRE(before[key - 1] == name);
    }
    return moved;
  };
  router.fleet.eligible[6] = 0;
  CHECK(moved_only_from(router.names[6]) > 50);
  router.fleet.eligible[6] = 1;
  CHECK(moved_only_from("none") == 0);
  router.homes.InstanceRemoved(router.fleet.ids[3]);
  CHECK(moved_only_from(router.names[3]) > 50);
  router.fleet.eligible.assign(10, 0);
  CHECK(router.Find(1).empty());
}

TEST_CASE("homes: worth as much as has come true") {
  Homes homes(4);
  CHECK(homes.share() == 0.5);
  // Half of what is unknown, and three times half of all from the branch on.
  CHECK(homes.Tokens(1000, 2000) == 500 + 3 * 1000);
  CHECK(homes.Tokens(0, 0) == 0);

  for (int i = 0; i < 300; ++i) homes.Learn(1000, 900);
  CHECK(homes.share() > 0.88);
  CHECK(homes.share() < 0.91);
  for (int i = 0; i < 300; ++i) homes.Learn(1000, 0);
  CHECK(homes.share() < 0.03);
  // Never quite nothing, or what others do later would not be noticed.
  CHECK(homes.Tokens(1000, 1000) > 10);
  CHECK(homes.Tokens(1000, 1000) < 100);
  // No more can be found than was unknown, and no less than nothing.
  for (int i = 0; i < 300; ++i) homes.Learn(1000, 1e9);
  CHECK(homes.share() <= 1);
  for (int i = 0; i < 300; ++i) homes.Learn(1000, -1e9);
  CHECK(homes.share() >= 0);
}

TEST_CASE("homes: a prompt much longer than those that did not come true is not believed either") {
  Homes homes(2);
  for (int i = 0; i < 300; ++i) homes.Learn(200, 0);
  CHECK(homes.Tokens(100'000, 100'000) < 0.1 * 4 * 100'000);
  CHECK(homes.Tokens(100'000, 100'000) > homes.share() * 4 * 100'000);
}

TEST_CASE("homes: long prompts count more") {
  Homes homes(2);
  for (int i = 0; i < 100; ++i) {
    homes.Learn(10, 0);
    homes.Learn(10000, 8000);
  }
  CHECK(homes.share() > 0.75);
}

TEST_CASE("prefix_cost takes off what a home is worth, and its parts add up") {
  const auto policy = MakePrefixCost();
  PolicyFleet fleet(3);
  PolicyInput in = fleet.Input(2000);
  fleet.pending = {0, 500, 0};
  fleet.requests[1] = 2;
  fleet.waiting[1] = 1;
  in = fleet.Input(2000);
  policy->Score(in, fleet.cost.data());
  const std::vector<float> without = fleet.cost;
  const auto check_parts = [&] {
    for (uint32_t i = 0; i < 3; ++i) {
      const CostParts parts = policy->Explain(in, i, fleet.cost[i]);
      CHECK(parts.pending >= 0);
      CHECK(parts.requests >= 0);
      CHECK(parts.total == fleet.cost[i]);
      CHECK(parts.pending + parts.uncached + parts.requests + parts.pressure ==
            Approx(parts.total).margin(1e-6));
    }
  };
  check_parts();

  in.home = 1;
  in.home_tokens = 800;
  policy->Score(in, fleet.cost.data());
  const float weight = policy->MissWeight(in);
  CHECK(fleet.cost[0] == without[0]);
  CHECK(fleet.cost[2] == without[2]);
  CHECK(fleet.cost[1] == Approx(without[1] - weight * 800 * in.crowding[1] * 1e-4f));
  check_parts();

  // Worth more than all that it costs: it costs nothing, not less.
  in.home_tokens = 20000;
  policy->Score(in, fleet.cost.data());
  CHECK(fleet.cost[1] == 0);
  check_parts();
  CHECK(policy->Explain(in, 1, 0).uncached < 0);
  CHECK(fleet.Choose(*policy, in).slot == 1);

  // Memory that is nearly full is part of it.
  fleet.kv_usage[1] = 1;
  in = fleet.Input(2000);
  in.home = 1;
  for (const float tokens : {800.0f, 2500.0f, 4000.0f, 8000.0f}) {
    CAPTURE(tokens);
    in.home_tokens = tokens;
    policy->Score(in, fleet.cost.data());
    check_parts();
  }
}

}  // namespace prefixrouter
