// Rules that weigh matches against load, on fleets written out by hand.
#include <cmath>
#include <set>

#include "lib/policy/builtin.h"
#include "tests/catch.h"
#include "tests/support/policy_fleet.h"

namespace prefixrouter {

TEST_CASE("cache_threshold takes the least loaded holder of the deepest match") {
  auto policy = MakeCacheThreshold();
  PolicyFleet fleet(5);
  // Of 1,000 tokens; 20 blocks are 320: more than 0.3.
  fleet.cached = {20, 20, 19, 0, 20};
  fleet.requests = {9, 7, 0, 0, 8};
  CHECK(fleet.Choose(*policy).slot == 1);
  fleet.eligible[1] = 0;
  CHECK(fleet.Choose(*policy).slot == 4);
  fleet.cached = {18, 18, 18, 0, 18};  // 288 tokens: not more than 0.3
  CHECK(fleet.Choose(*policy).slot != 0);
  CHECK(fleet.Choose(*policy).slot != 4);
}

TEST_CASE("cache_threshold spills only when the holder exceeds the mean by count and by ratio") {
  auto policy = MakeCacheThreshold();
  PolicyFleet fleet(4);
  fleet.cached = {60, 0, 0, 0};
  fleet.requests = {80, 5, 6, 7};  // mean 24.5: 80 is below 24.5 + 64
  CHECK(fleet.Choose(*policy).slot == 0);
  fleet.requests = {100, 5, 6, 7};  // mean 29.5: 100 exceeds both 93.5 and 44.25
  CHECK(fleet.Choose(*policy).slot == 1);
  fleet.requests = {1100, 1000, 1001, 1002};  // exceeds by 74 requests but not by half
  CHECK(fleet.Choose(*policy).slot == 0);
  PolicyOptions options;
  options.threshold_match = 0.99;  // 960 of 1,000 are not enough
  CHECK(fleet.Choose(*MakeCacheThreshold(options)).slot == 1);
}

TEST_CASE("weighted adds cached share, short queue and free memory by their weights") {
  auto policy = MakeWeighted();
  PolicyFleet fleet(3);
  fleet.cached = {25, 0, 0};  // 0.4 of the prompt
  fleet.waiting = {4, 0, 2};
  fleet.kv_usage = {0.5f, 0.5f, 0.1f};
  // 3 x 0.4 + 0 + 2 x 0.5 = 2.2;  0 + 2 + 1 = 3;  0 + 1 + 1.8 = 2.8
  CHECK(fleet.Choose(*policy).slot == 1);
  CHECK(fleet.cost[0] == Approx(-2.2f));
  CHECK(fleet.cost[1] == Approx(-3.0f));
  CHECK(fleet.cost[2] == Approx(-2.8f));
  fleet.waiting = {2, 2, 2};  // equal queues are all short
  fleet.Choose(*policy);
  CHECK(fleet.cost[0] == Approx(-4.2f));
  PolicyOptions options;
  options.weight_match = 0;
  options.weight_queue = 0;
  options.weight_kv = 1;
  CHECK(fleet.Choose(*MakeWeighted(options)).slot == 2);
}

TEST_CASE("block_cost adds blocks to prefill and blocks in use") {
  auto policy = MakeBlockCost();
  PolicyFleet fleet(3);
  fleet.cached = {50, 0, 10};
  fleet.pending = {400, 0, 100};
  fleet.kv_tokens = {1600, 800, 0};
  fleet.Choose(*policy);
  CHECK(fleet.cost[0] == Approx((400 + 1000 - 800 + 1600) / 16.0));
  CHECK(fleet.cost[1] == Approx((1000 + 800) / 16.0));
  CHECK(fleet.cost[2] == Approx((100 + 1000 - 160) / 16.0));
  PolicyOptions options;
  options.block_credit = 3;  // more credit than there is to prefill counts as nothing
  fleet.Choose(*MakeBlockCost(options));
  CHECK(fleet.cost[0] == Approx(1600 / 16.0));
}

TEST_CASE("multiplicative multiplies prefill work by requests, the new one included") {
  auto policy = MakeMultiplicative();
  PolicyFleet fleet(2);
  fleet.cached = {50, 0};
  fleet.pending = {100, 0};
  fleet.requests = {3, 0};
  fleet.Choose(*policy);
  CHECK(fleet.cost[0] == Approx((100 + 200) * 4));
  CHECK(fleet.cost[1] == Approx(1000));
}

}  // namespace prefixrouter
