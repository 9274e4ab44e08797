// RequestCounters: the same sums whatever the threads, and slots that are used again.
#include "lib/load/request_counters.h"

#include "tests/catch.h"

namespace prefixrouter {
namespace {

Decision MakeDecision(uint32_t slot, Rule rule, uint64_t prompt_tokens) {
  Decision decision;
  decision.instance = InstanceId::Make(slot, 1);
  decision.rule = rule;
  decision.prompt_tokens = prompt_tokens;
  decision.cached_tokens = prompt_tokens / 2;
  decision.best_cached_tokens = prompt_tokens / 2 + 1;
  decision.stale_report = rule == Rule::kNearTie;
  return decision;
}

}  // namespace

TEST_CASE("requests are counted by rule and instance, whatever thread counts them") {
  RequestCounters counters;
  counters.AddSlot(1);
  counters.AddSlot(0);
  for (uint32_t thread = 0; thread < 20; ++thread) {
    counters.Count(thread, MakeDecision(0, Rule::kLowestCost, 100));
    counters.Count(thread * 7, MakeDecision(1, Rule::kNearTie, 1000));
  }
  RouterStats stats;
  counters.AddTo(&stats);
  REQUIRE(stats.requests == 40);
  REQUIRE(stats.decisions_by_rule[static_cast<int>(Rule::kLowestCost)] == 20);
  REQUIRE(stats.decisions_by_rule[static_cast<int>(Rule::kNearTie)] == 20);
  REQUIRE(stats.prompt_tokens == 22000);
  REQUIRE(stats.cached_tokens == 11000);
  REQUIRE(stats.best_cached_tokens == 11040);
  REQUIRE(stats.stale_report_decisions == 20);
  InstanceStats instance;
  counters.AddTo(1, &instance);
  REQUIRE(instance.requests == 20);
  REQUIRE(instance.requests_by_rule[static_cast<int>(Rule::kNearTie)] == 20);
  REQUIRE(instance.prompt_tokens == 20000);
  REQUIRE(instance.cached_tokens == 10000);
}

TEST_CASE("an instance in a slot that is used again counts from 0, the router goes on") {
  RequestCounters counters;
  counters.AddSlot(0);
  for (uint32_t thread = 0; thread < 20; ++thread) {
    counters.Count(thread, MakeDecision(0, Rule::kLowestCost, 100));
  }
  counters.AddSlot(0);
  InstanceStats instance;
  counters.AddTo(0, &instance);
  REQUIRE(instance.requests == 0);
  REQUIRE(instance.prompt_tokens == 0);
  RouterStats stats;
  counters.AddTo(&stats);
  REQUIRE(stats.requests == 20);
}

}  // namespace prefixrouter
