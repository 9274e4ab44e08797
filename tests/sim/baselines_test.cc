// The rules of other routers, on fleets written out by hand.
#include "lib/sim/baselines.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "prefixrouter/simulator.h"
#include "tests/catch.h"
#include "tests/support/policy_fleet.h"

namespace prefixrouter {
namespace {

std::shared_ptr<Baseline> MakeBaseline(const std::string& name) {
  const Result<PolicyChoice> choice = ChoosePolicy(name, {});
  REQUIRE(choice.ok());
  REQUIRE(choice->baseline != nullptr);
  CHECK(choice->baseline->name() == name);
  return choice->baseline;
}

// All slots that are chosen for some random number.
std::set<uint32_t> Chosen(PolicyFleet& fleet, Policy& policy) {
  std::set<uint32_t> slots;
  for (uint64_t i = 1; i <= 200; ++i) {
    slots.insert(fleet.Choose(policy, fleet.Input(1000, Spread(i))).slot);
  }
  return slots;
}

using Slots = std::set<uint32_t>;

}  // namespace

TEST_CASE("every simulated policy has a rule and a source, and can be chosen", "[sim]") {
  std::set<std::string> names;
  for (const SimulatedPolicy& policy : SimulatedPolicies()) {
    CAPTURE(policy.name);
    CHECK(names.insert(policy.name).second);
    CHECK_FALSE(policy.rule.empty());
    CHECK_FALSE(policy.source.empty());
    const Result<PolicyChoice> choice = ChoosePolicy(policy.name, {});
    REQUIRE(choice.ok());
    const std::vector<std::string> own = PolicyNames();
    CHECK(std::count(own.begin(), own.end(), choice->router_policy) == 1);
  }
  for (const std::string& name : PolicyNames()) CHECK(names.count(name) == 1);
  const Result<PolicyChoice> unknown = ChoosePolicy("best", {});
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.status().message().find("\"best\"") != std::string::npos);
}

TEST_CASE("rules of other routers keep their defaults whatever the caller's options", "[sim]") {
  PolicyOptions options;
  options.threshold_match = 0.9;
  options.hash_ring_points = 7;
  CHECK(ChoosePolicy("smg_cache_aware", options)->router_options.threshold_match == 0.3);
  CHECK(ChoosePolicy("kubeai_chwbl", options)->router_options.hash_ring_points == 256);
  CHECK(ChoosePolicy("cache_threshold", options)->router_options.threshold_match == 0.9);
}

TEST_CASE("sglang_cache_aware: any holder of the deepest match, unless the fleet is uneven",
          "[sim]") {
  const auto policy = MakeBaseline("sglang_cache_aware");
  PolicyFleet fleet(4);
  fleet.cached = {20, 20, 5, 0};
  fleet.requests = {50, 10, 0, 3};
  CHECK(Chosen(fleet, *policy) == Slots{0, 1});
  fleet.cached = {18, 18, 5, 0};  // 288 of 1,000 tokens
  CHECK(Chosen(fleet, *policy) == Slots{2});
  fleet.cached = {20, 20, 5, 0};
  fleet.requests = {65, 10, 0, 3};  // 65 more than the least
  CHECK(Chosen(fleet, *policy) == Slots{2});
  fleet.requests = {265, 200, 200, 201};  // 65 more, but not half more
  CHECK(Chosen(fleet, *policy) == Slots{0, 1});
}

TEST_CASE("lpwl: the least prefill work, then the fewest requests", "[sim]") {
  const auto policy = MakeBaseline("lpwl");
  PolicyFleet fleet(3);
  fleet.cached = {10, 0, 0};
  fleet.pending = {200, 30, 40};
  fleet.requests = {1, 5, 2};
  CHECK(Chosen(fleet, *policy) == Slots{1});
  fleet.pending = {160, 0, 0};  // all 1,000
  CHECK(Chosen(fleet, *policy) == Slots{0});
}

TEST_CASE("llmd_weighted decides by the metrics that it was told", "[sim]") {
  const auto policy = MakeBaseline("llmd_weighted");
  PolicyFleet fleet(3);
  CHECK(Chosen(fleet, *policy) == Slots{0, 1, 2});  // nothing is known: chance
  EngineLoad load;
  load.kv_usage = 0.5;
  load.waiting_requests = 8;
  policy->Observed(fleet.ids[0], load);
  load.waiting_requests = 4;
  policy->Observed(fleet.ids[1], load);
  load.waiting_requests = 0;
  load.kv_usage = 0.9;
  policy->Observed(fleet.ids[2], load);
  // 0 + 1;  1 + 1;  2 + 0.2
  CHECK(Chosen(fleet, *policy) == Slots{2});
  fleet.cached = {25, 10, 0};  // + 1.2, + 0.48
  CHECK(Chosen(fleet, *policy) == Slots{1});
  // Another instance in the slot is an unknown one.
  fleet.ids[0] = InstanceId::Make(0, 2);
  fleet.cached = {0, 10, 0};
  CHECK(Chosen(fleet, *policy) == Slots{0});
}

TEST_CASE("llmd_affinity keeps to holders of most of the prompt, within 18 s", "[sim]") {
  const auto policy = MakeBaseline("llmd_affinity");
  PolicyFleet fleet(3);
  fleet.cached = {51, 51, 49};  // 816, 816, 784 of 1,000
  fleet.kv_tokens = {900, 800, 0};
  CHECK(Chosen(fleet, *policy) == Slots{1});
  fleet.pending = {179'000, 179'000, 0};  // 17.9 s
  CHECK(Chosen(fleet, *policy) == Slots{1});
  fleet.pending = {181'000, 181'000, 0};
  CHECK(Chosen(fleet, *policy) == Slots{2});
  fleet.cached = {0, 0, 0};
  CHECK(Chosen(fleet, *policy) == Slots{2});
}

TEST_CASE("aibrix_prefix: the deepest match that is not above the mean and a deviation", "[sim]") {
  const auto policy = MakeBaseline("aibrix_prefix");
  PolicyFleet fleet(4);
  fleet.cached = {30, 30, 10, 0};
  fleet.requests = {4, 3, 0, 0};
  // Mean 1.75, deviation 1.79: 4 is too much.
  CHECK(Chosen(fleet, *policy) == Slots{1});
  fleet.requests = {9, 3, 0, 2};  // 9 more than the least
  CHECK(Chosen(fleet, *policy) == Slots{2});
  fleet.requests = {2, 3, 0, 0};  // equal matches by load
  CHECK(Chosen(fleet, *policy) == Slots{0});
  fleet.cached = {0, 0, 0, 0};
  CHECK(Chosen(fleet, *policy) == Slots{2, 3});
}

TEST_CASE("ray_prefix: the shorter queue of two holders, else the smallest tree", "[sim]") {
  const auto policy = MakeBaseline("ray_prefix");
  PolicyFleet fleet(4);
  fleet.cached = {7, 7, 7, 0};  // 112 of 1,000: enough
  fleet.requests = {5, 4, 9, 0};
  CHECK(Chosen(fleet, *policy) == Slots{0, 1});  // 2 loses to either
  fleet.cached = {6, 6, 6, 0};                   // 96: not enough, and all trees are empty
  CHECK(Chosen(fleet, *policy) == Slots{0, 1, 3});
  Decision decision;
  decision.prompt_tokens = 500;
  for (const uint32_t slot : {0, 1, 3}) {
    decision.instance = fleet.ids[slot];
    policy->Routed(decision);
  }
  CHECK(Chosen(fleet, *policy) == Slots{2});
  decision.instance = fleet.ids[2];
  decision.cached_tokens = 500;  // nothing new
  policy->Routed(decision);
  CHECK(Chosen(fleet, *policy) == Slots{2});
}

TEST_CASE("production_stack: any holder of the deepest match, whatever its load", "[sim]") {
  const auto policy = MakeBaseline("production_stack");
  PolicyFleet fleet(3);
  fleet.cached = {3, 3, 2};
  fleet.requests = {1000, 0, 0};
  CHECK(Chosen(fleet, *policy) == Slots{0, 1});
  fleet.cached = {0, 0, 0};
  CHECK(Chosen(fleet, *policy) == Slots{0, 1, 2});
  fleet.eligible[1] = 0;
  CHECK(Chosen(fleet, *policy) == Slots{0, 2});
}

}  // namespace prefixrouter
