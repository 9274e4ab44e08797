// The built-in policies and the choice by cost, on fleets written out by hand.
#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <vector>

#include "lib/policy/builtin.h"
#include "lib/policy/choose.h"
#include "tests/catch.h"
#include "tests/support/policy_fleet.h"

namespace prefixrouter {
namespace {

using Fleet = PolicyFleet;

}  // namespace

TEST_CASE("every name makes a policy of that name, and no other does") {
  for (const std::string& name : PolicyNames()) REQUIRE(MakePolicy(name)->name() == name);
  REQUIRE(MakePolicy("") == nullptr);
  REQUIRE(MakePolicy("Random") == nullptr);
}

TEST_CASE("the lowest cost wins, with the runner-up, at every place of a fleet of any size") {
  auto policy = MakeLeastRequests();
  for (const size_t size : {1u, 2u, 15u, 16u, 17u, 255u, 256u, 257u, 1000u}) {
    for (const size_t best : {size_t{0}, size / 2, size - 1}) {
      Fleet fleet(size);
      for (size_t i = 0; i < size; ++i) fleet.requests[i] = 10;
      const size_t second = (best + size / 3 + 1) % size;
      fleet.requests[second] = 5;
      fleet.requests[best] = 1;
      const Choice choice = fleet.Choose(*policy);
      REQUIRE(choice.slot == best);
      REQUIRE(choice.rule == Rule::kLowestCost);
      if (size > 2) REQUIRE(choice.runner_up == second);
      if (size == 1) REQUIRE(choice.runner_up == Choice::kNone);
    }
  }
}

TEST_CASE(
    "slots with a penalty are never chosen, NaN and infinity only when nothing else is there") {
  class Odd final : public Policy {
   public:
    const char* name() const override { return "odd"; }
    void Score(const PolicyInput& in, float* cost) const override {
      for (size_t i = 0; i < in.size; ++i) cost[i] = values[i % values.size()];
    }
    std::vector<float> values = {-5, NAN, 3, INFINITY};
  } odd;
  Fleet fleet(4);
  fleet.eligible[0] = 0;
  REQUIRE(fleet.Choose(odd).slot == 2);
  odd.values = {-5, NAN, NAN, INFINITY};
  for (uint64_t random = 0; random < 20; ++random) {
    const Choice choice = fleet.Choose(odd, fleet.Input(1000, Spread(random)));
    REQUIRE(choice.slot >= 1);
    REQUIRE(choice.slot <= 3);
  }
}

TEST_CASE("no penalties are the same as penalties of 0") {
  class Any final : public Policy {
   public:
    const char* name() const override { return "any"; }
    void Score(const PolicyInput&, float*) const override {}
    float TieTolerance(const PolicyInput&, size_t) const override { return 0.5f; }
  } any;
  std::mt19937 random(7);
  for (const size_t size : {size_t{1}, size_t{5}, size_t{256}, size_t{700}}) {
    for (int round = 0; round < 200; ++round) {
      Fleet fleet(size);
      const PolicyInput in = fleet.Input(1000, Spread(random()));
      const uint64_t odd = random() % 4;  // of 3: the share of costs that are no number
      for (size_t i = 0; i < size; ++i) {
        fleet.cached[i] = static_cast<uint32_t>(random() % 100);
        fleet.cost[i] = random() % 3 < odd ? (random() % 2 != 0 ? NAN : INFINITY)
                                           : static_cast<float>(random() % 1000);
      }
      std::vector<float> cost = fleet.cost;
      const Choice with =
          ChooseLowest(any, in, fleet.penalty.data(), fleet.cost.data(), fleet.scratch.data());
      const Choice without = ChooseLowest(any, in, nullptr, cost.data(), fleet.scratch.data());
      REQUIRE(without.slot == with.slot);
      REQUIRE(without.runner_up == with.runner_up);
      REQUIRE(without.rule == with.rule);
      REQUIRE(cost == fleet.cost);
      REQUIRE(MostCachedBlocks(in.cached_blocks, nullptr, in.size) ==
              MostCachedBlocks(in.cached_blocks, fleet.penalty.data(), in.size));
    }
  }
}

TEST_CASE("the choice is the one that its definition makes, in fleets of any size") {
  class Any final : public Policy {
   public:
    const char* name() const override { return "any"; }
    void Score(const PolicyInput&, float*) const override {}
    float TieTolerance(const PolicyInput&, size_t) const override { return 1; }
  } any;
  std::mt19937 random(8);
  for (const size_t size : {2u, 3u, 16u, 31u, 33u, 64u, 100u, 256u, 300u, 513u}) {
    for (int round = 0; round < 200; ++round) {
      Fleet fleet(size);
      const uint64_t range = 1 + random() % 20;  // of costs: from ties of all to ties of few
      for (size_t i = 0; i < size; ++i) {
        fleet.cost[i] = static_cast<float>(random() % range);
        fleet.requests[i] = static_cast<float>(random() % 2);
        fleet.pending[i] = static_cast<float>(random() % 2);
      }
      const std::vector<float> cost = fleet.cost;
      const PolicyInput in = fleet.Input(1000, Spread(random()));

      const auto lowest_but = [&](size_t slot) {
        size_t found = slot == 0 ? 1 : 0;
        for (size_t i = found; i < size; ++i) {
          if (i != slot && cost[i] < cost[found]) found = i;
        }
        return found;
      };
      const size_t best = lowest_but(size), second = lowest_but(best);
      std::vector<size_t> tied;
      for (size_t i = 0; i < size; ++i) {
        if (cost[i] <= cost[best] + 1) tied.push_back(i);
      }
      for (const std::vector<float>& value : {fleet.requests, fleet.pending}) {
        float least = INFINITY;
        for (size_t i : tied) least = std::min(least, value[i]);
        std::erase_if(tied, [&](size_t i) { return value[i] != least; });
      }
      const bool near_tie = cost[second] <= cost[best] + 1;
      const size_t slot = near_tie ? tied[(in.random >> 32) * tied.size() >> 32] : best;

      CAPTURE(size, round);
      const Choice choice = ChooseLowest(any, in, nullptr, fleet.cost.data(), fleet.scratch.data());
      REQUIRE(choice.slot == slot);
      REQUIRE(choice.runner_up == (slot == best ? second : best));
      REQUIRE(choice.rule == (near_tie ? Rule::kNearTie : Rule::kLowestCost));
    }
  }
}

TEST_CASE(
    "ties go to the fewest requests, then to the least pending work, then to uniform chance") {
  class Equal final : public Policy {
   public:
    const char* name() const override { return "equal"; }
    void Score(const PolicyInput& in, float* cost) const override {
      for (size_t i = 0; i < in.size; ++i) cost[i] = 1;
    }
  } equal;
  Fleet fleet(300);
  std::map<uint32_t, int> times;
  for (uint64_t i = 0; i < 30000; ++i) {
    const Choice choice = fleet.Choose(equal, fleet.Input(1000, Spread(i)));
    REQUIRE(choice.rule == Rule::kNearTie);
    REQUIRE(choice.runner_up != choice.slot);
    ++times[choice.slot];
  }
  REQUIRE(times.size() == 300);
  for (const auto& [slot, count] : times) {
    CAPTURE(slot);
    REQUIRE(count > 50);
    REQUIRE(count < 150);
  }
  fleet.requests.assign(300, 2);
  fleet.requests[7] = fleet.requests[250] = 1;
  fleet.pending[7] = 10;
  REQUIRE(fleet.Choose(equal).slot == 250);
  fleet.pending[250] = 11;
  REQUIRE(fleet.Choose(equal).slot == 7);
}

TEST_CASE("prefix_cost weighs cached tokens against queued ones") {
  auto policy = MakePrefixCost();
  Fleet fleet(2);
  fleet.cached[0] = 50;  // 800 of 1,000 tokens
  REQUIRE(fleet.Choose(*policy).slot == 0);
  fleet.pending[0] = 950;  // 800 saved tokens count 1.3 times as much as queued ones
  REQUIRE(fleet.Choose(*policy).slot == 0);
  fleet.pending[0] = 1200;
  REQUIRE(fleet.Choose(*policy).slot == 1);
  PolicyInput busy = fleet.Input();
  busy.mean_waiting = 2;  // the weight grows with the queue
  REQUIRE(policy->MissWeight(busy) == Approx(2.3));
  REQUIRE(fleet.Choose(*policy, busy).slot == 0);
  busy.mean_waiting = 1e6;
  REQUIRE(policy->MissWeight(busy) == Approx(3.8));
}

TEST_CASE("prefix_cost past saturation counts tokens that another instance holds up to thrice") {
  auto policy = MakePrefixCost();
  Fleet fleet(2);
  fleet.cached[0] = 50;  // 800 of 1,000 tokens
  fleet.pending[0] = 8000;
  PolicyInput full = fleet.Input();
  full.mean_waiting = 5;  // 3.8 * 800 tokens are less than what waits there
  REQUIRE(fleet.Choose(*policy, full).slot == 1);
  full.mean_waiting = 20;  // (3.8 + 7.5) * 800 are more
  REQUIRE(fleet.Choose(*policy, full).slot == 0);
  const CostParts parts = policy->Explain(full, 0, fleet.cost[0]);
  REQUIRE(parts.total == Approx(fleet.cost[0]));
  REQUIRE(parts.uncached == Approx(3.8 * 200 / 10000));

  // Of tokens that nobody holds, or only one that may not be chosen, none is avoidable: the cost is
  // that of 3.8 times the prompt.
  fleet.pending = {0, 0};
  fleet.cached = {0, 0};
  std::vector<float> busy(2), saturated(2);
  PolicyInput nobody = fleet.Input();
  nobody.mean_waiting = 5;
  policy->Score(nobody, busy.data());
  nobody.mean_waiting = 20;
  policy->Score(nobody, saturated.data());
  REQUIRE(saturated[0] == Approx(busy[0]));
  fleet.cached[1] = 50;
  fleet.eligible[1] = 0;
  PolicyInput forbidden = fleet.Input();
  forbidden.mean_waiting = 20;
  policy->Score(forbidden, saturated.data());
  REQUIRE(saturated[0] == Approx(busy[0]));
}

TEST_CASE("prefix_cost counts what uncached tokens push out as uncached tokens") {
  auto policy = MakePrefixCost();
  Fleet fleet(2);
  fleet.pending[1] = 1000;
  REQUIRE(fleet.Choose(*policy).slot == 0);
  const float without = fleet.cost[0], other = fleet.cost[1];
  fleet.displacement[0] = 0.9f;  // 1.3 * 0.9 * 1,000 tokens
  REQUIRE(fleet.Choose(*policy).slot == 1);
  REQUIRE(fleet.cost[0] == Approx(without + 0.117));
  REQUIRE(fleet.cost[1] == other);
  const CostParts parts = policy->Explain(fleet.Input(), 0, fleet.cost[0]);
  REQUIRE(parts.uncached == Approx(1.9 * 0.13));
  fleet.cached[0] = 63;  // nothing to speak of is stored
  REQUIRE(fleet.Choose(*policy).slot == 0);
}

TEST_CASE("prefix_cost leaves a popular prefix's instance when its batch fills up") {
  auto policy = MakePrefixCost();
  Fleet fleet(2);
  fleet.cached[0] = 50;  // 800 of 1,000 tokens
  fleet.requests = {20, 10};
  REQUIRE(fleet.Choose(*policy).slot == 0);
  fleet.requests = {200, 10};
  REQUIRE(fleet.Choose(*policy).slot == 1);
  fleet.requests = {20, 10};
  fleet.waiting[0] = 60;  // of small prompts, whose pending tokens do not count for much
  REQUIRE(fleet.Choose(*policy).slot == 1);
}

TEST_CASE("prefix_cost knows fast, slow and weighted instances") {
  auto policy = MakePrefixCost();
  Fleet fleet(2);
  fleet.rate[1] = 40000;
  fleet.cached[0] = 40;  // 360 tokens left at 10,000/s against 1,000 at 40,000/s
  REQUIRE(fleet.Choose(*policy).slot == 1);
  fleet.weight[1] = 0.1f;
  REQUIRE(fleet.Choose(*policy).slot == 0);
}

TEST_CASE("prefix_cost leaves an instance whose KV memory is nearly full") {
  auto policy = MakePrefixCost();
  Fleet fleet(2);
  fleet.cached[0] = 62;  // all but 8 tokens
  fleet.kv_usage = {0.98f, 0.2f};
  REQUIRE(fleet.Choose(*policy).slot == 1);
  fleet.kv_usage[0] = 0.9f;
  REQUIRE(fleet.Choose(*policy).slot == 0);
}

TEST_CASE("the parts that prefix_cost explains add up to the cost") {
  auto policy = MakePrefixCost();
  Fleet fleet(3);
  fleet.pending = {10, 2000, 300};
  fleet.requests = {1, 2, 3};
  fleet.cached = {10, 0, 70};
  fleet.kv_usage = {0.95f, 0.5f, 1.0f};
  fleet.displacement = {0.5f, 0, 1};
  const PolicyInput in = fleet.Input();
  policy->Score(in, fleet.cost.data());
  for (size_t i = 0; i < 3; ++i) {
    const CostParts parts = policy->Explain(in, i, fleet.cost[i]);
    REQUIRE(parts.pending + parts.uncached + parts.requests + parts.pressure ==
            Approx(parts.total));
    REQUIRE(parts.total == Approx(fleet.cost[i]));
  }
}

TEST_CASE("random and power_of_two draw evenly, and only from the eligible") {
  for (auto& policy : {MakeRandom(), MakePowerOfTwo()}) {
    Fleet fleet(7);
    fleet.eligible[3] = 0;
    std::map<uint32_t, int> times;
    for (uint64_t i = 0; i < 6000; ++i) {
      ++times[fleet.Choose(*policy, fleet.Input(1000, Spread(i + 1))).slot];
    }
    REQUIRE(times.size() == 6);
    for (const auto& [slot, count] : times) REQUIRE(std::abs(count - 1000) < 150);
  }
}

TEST_CASE("power_of_two never takes the busier of its two") {
  auto policy = MakePowerOfTwo();
  Fleet fleet(2);
  fleet.requests = {4, 3};
  for (uint64_t i = 0; i < 100; ++i) {
    REQUIRE(fleet.Choose(*policy, fleet.Input(1000, Spread(i))).slot == 1);
  }
}

TEST_CASE("round_robin takes eligible instances in turn") {
  auto policy = MakeRoundRobin();
  Fleet fleet(4);
  fleet.eligible[1] = 0;
  std::vector<uint32_t> order;
  for (uint64_t i = 0; i < 6; ++i) {
    PolicyInput in = fleet.Input();
    in.sequence = i;
    order.push_back(fleet.Choose(*policy, in).slot);
  }
  REQUIRE(order == std::vector<uint32_t>{0, 2, 3, 0, 2, 3});
}

TEST_CASE("least_requests and least_tokens look at their own measure, by weight") {
  Fleet fleet(3);
  fleet.requests = {3, 1, 2};
  fleet.kv_tokens = {10, 5000, 900};
  fleet.pending = {800, 0, 0};
  REQUIRE(fleet.Choose(*MakeLeastRequests()).slot == 1);
  REQUIRE(fleet.Choose(*MakeLeastTokens()).slot == 0);
  fleet.weight[2] = 10;
  REQUIRE(fleet.Choose(*MakeLeastRequests()).slot == 2);
  REQUIRE(fleet.Choose(*MakeLeastTokens()).slot == 2);
}

}  // namespace prefixrouter
