// The built-in policies and the choice by cost, on fleets written out by hand.
#include <cmath>
#include <map>
#include <vector>

#include "lib/policy/builtin.h"
#include "lib/policy/choose.h"
#include "tests/catch.h"

namespace prefixrouter {
namespace {

// A fleet whose arrays a test sets as it likes.
struct Fleet {
  explicit Fleet(size_t size)
      : ids(size),
        eligible(size, 1),
        cached(size, 0),
        pending(size, 0),
        rate(size, 10000),
        requests(size, 0),
        waiting(size, 0),
        kv_tokens(size, 0),
        kv_usage(size, 0),
        weight(size, 1),
        second(size),
        penalty(size, 0),
        cost(size, 0),
        scratch(size, 0) {
    for (size_t i = 0; i < size; ++i) ids[i] = InstanceId::Make(static_cast<uint32_t>(i), 1);
  }
  PolicyInput Input(float prompt_tokens = 1000, uint64_t random = 0) {
    for (size_t i = 0; i < ids.size(); ++i) {
      second[i] = 1 / (rate[i] * weight[i]);
      penalty[i] = eligible[i] ? 0 : INFINITY;
    }
    PolicyInput in;
    in.size = ids.size();
    in.ids = ids.data();
    in.eligible = eligible.data();
    in.cached_blocks = cached.data();
    in.tokens_per_block = 16;
    in.pending_tokens = pending.data();
    in.tokens_per_s = rate.data();
    in.seconds_per_token = second.data();
    in.requests = requests.data();
    in.waiting = waiting.data();
    in.kv_tokens = kv_tokens.data();
    in.kv_usage = kv_usage.data();
    in.any_report = true;
    in.weight = weight.data();
    in.prompt_tokens = prompt_tokens;
    in.random = random;
    return in;
  }
  Choice Choose(Policy& policy, const PolicyInput& in) {
    policy.Score(in, cost.data());
    return ChooseLowest(policy, in, penalty.data(), cost.data(), scratch.data());
  }
  Choice Choose(Policy& policy) { return Choose(policy, Input()); }

  std::vector<InstanceId> ids;
  std::vector<uint8_t> eligible;
  std::vector<uint32_t> cached;
  std::vector<float> pending, rate, requests, waiting, kv_tokens, kv_usage, weight, second, penalty,
      cost, scratch;
};

uint64_t Spread(uint64_t i) { return i * 0x9E3779B97F4A7C15u; }

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
  fleet.pending[0] = 1100;  // 800 saved tokens count 1.5 times as much as queued ones
  REQUIRE(fleet.Choose(*policy).slot == 0);
  fleet.pending[0] = 1300;
  REQUIRE(fleet.Choose(*policy).slot == 1);
  PolicyInput busy = fleet.Input();
  busy.mean_waiting = 2;  // the weight grows with the queue
  REQUIRE(policy->MissWeight(busy) == Approx(2.5));
  REQUIRE(fleet.Choose(*policy, busy).slot == 0);
  busy.mean_waiting = 1e6;
  REQUIRE(policy->MissWeight(busy) == Approx(4));
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

TEST_CASE("consistent_hash moves few keys when an instance comes or goes") {
  auto policy = MakeConsistentHash();
  Fleet fleet(11);
  for (uint32_t i = 0; i < 10; ++i)
    policy->InstanceAdded(fleet.ids[i], "host" + std::to_string(i), 0);
  fleet.eligible[10] = 0;
  const auto place = [&] {
    std::vector<uint32_t> slots;
    for (uint64_t key = 1; key <= 2000; ++key) {
      PolicyInput in = fleet.Input();
      in.affinity_hash = Spread(key);
      slots.push_back(fleet.Choose(*policy, in).slot);
    }
    return slots;
  };
  const auto before = place();
  std::map<uint32_t, int> times;
  for (uint32_t slot : before) ++times[slot];
  REQUIRE(times.size() == 10);
  for (const auto& [slot, count] : times) REQUIRE(count > 120);  // of 200 on average

  policy->InstanceAdded(fleet.ids[10], "host10", 0);
  fleet.eligible[10] = 1;
  const auto after = place();
  int moved = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    ++moved;
    REQUIRE(after[i] == 10);  // keys move to the new instance only
  }
  REQUIRE(moved > 80);
  REQUIRE(moved < 330);  // 1/11 of 2,000 on average
  policy->InstanceRemoved(fleet.ids[10]);
  fleet.eligible[10] = 0;
  REQUIRE(place() == before);
}

}  // namespace prefixrouter
