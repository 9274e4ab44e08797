// RouterStats: what it counts beyond what the other tests look at: how long calls take, what load
// has cost in cached tokens, stale reports, refusals, rules by instance.
#include <atomic>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/fleet.h"

namespace prefixrouter::testing {
namespace {

// Moves on by `step_nanos` each time it is read.
class TickingClock final : public Clock {
 public:
  explicit TickingClock(int64_t step_nanos) : step_nanos_(step_nanos) {}
  int64_t NowNanos() const override { return nanos_.fetch_add(step_nanos_) + step_nanos_; }

 private:
  const int64_t step_nanos_;
  mutable std::atomic<int64_t> nanos_{0};
};

std::unique_ptr<PrefixRouter> MakeRouter(int64_t step_nanos, double latency_interval_s) {
  RouterOptions options;
  options.clock = std::make_shared<TickingClock>(step_nanos);
  options.latency_interval_s = latency_interval_s;
  auto router = PrefixRouter::Create(options);
  REQUIRE(router.ok());
  InstanceOptions instance;
  instance.name = "a";
  REQUIRE((*router)->AddInstance(instance).ok());
  return *std::move(router);
}

}  // namespace

TEST_CASE("Statistics: each call of Route and Acquire is timed by the router's clock", "[api]") {
  const auto router = MakeRouter(1500, 0);  // read at the start and at the end: 1.5 us apart
  const std::vector<uint32_t> prompt(100, 1);
  for (int i = 0; i < 10; ++i) REQUIRE(router->Route(prompt).ok());
  REQUIRE(router->Acquire(Request::FromTokens(prompt)).ok());
  Request refused = Request::FromTokens(prompt);
  refused.max_ttft_s = 1e-12;
  REQUIRE(!router->Route(refused).ok());
  Request malformed;
  malformed.tokens = {nullptr, 5};
  REQUIRE(!router->Route(malformed).ok());                   // not timed
  REQUIRE(router->Score(Request::FromTokens(prompt)).ok());  // nor is this

  const DurationHistogram durations = router->Stats().route_duration;
  CHECK(durations.count() == 12);
  CHECK(durations.counts[3] == 12);  // more than 1 us, at most 2 us
  CHECK(durations.sum_s == Approx(12 * 1.5e-6));
}

TEST_CASE("Statistics: no thread times more than one call in an interval", "[api]") {
  const std::vector<uint32_t> prompt(100, 1);
  const auto count = [&](int64_t step_nanos, double interval_s) {
    const auto router = MakeRouter(step_nanos, interval_s);
    for (int i = 0; i < 1000; ++i) REQUIRE(router->Route(prompt).ok());
    return router->Stats().route_duration.count();
  };
  // Calls begin 1 us apart, or 2 us after one that was timed: 1,011 us in all.
  CHECK(count(1000, 100e-6) == 11);
  CHECK(count(1000, 0) == 1000);
  CHECK(count(200000, 100e-6) == 1000);  // fewer calls than intervals: all of them
  CHECK(count(1000, INFINITY) == 0);
}

TEST_CASE("Statistics: a bad latency interval is refused", "[api]") {
  for (double interval_s : {-1e-9, std::nan("")}) {
    RouterOptions options;
    options.latency_interval_s = interval_s;
    const Status status = PrefixRouter::Create(options).status();
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find("latency_interval_s must be 0 to inf, got ") == 0);
  }
}

TEST_CASE("Statistics: cached tokens that load made the router give up are counted", "[api]") {
  Fleet fleet(2);
  const std::vector<uint32_t> prompt(1600, 3);
  fleet.Place(0, Request::FromTokens(prompt));
  fleet.Drain();
  const std::vector<Lease> load =
      fleet.AcquireOn(0, Request::FromTokens(std::vector<uint32_t>(100000, 4)), 3);
  const RouterStats before = fleet.router().Stats();
  const Decision decision = fleet.Route(Request::FromTokens(prompt));
  CHECK(decision.instance == fleet[1]);
  const RouterStats after = fleet.router().Stats();
  CHECK(after.cached_tokens == before.cached_tokens);
  CHECK(after.best_cached_tokens == before.best_cached_tokens + 1600);
}

TEST_CASE("Statistics: an instance's requests by rule add up to its requests", "[api]") {
  Fleet fleet(3);
  for (uint32_t i = 0; i < 100; ++i) {
    const std::vector<uint32_t> prompt(200 + i, i % 10);
    Request request = Request::FromTokens(prompt);
    const std::string session = "s" + std::to_string(i % 4);
    if (i % 3 == 0) request.session_key = session;
    fleet.Route(request);
    if (i % 10 == 0) fleet.Place(i % 3, request);
  }
  const RouterStats stats = fleet.router().Stats();
  uint64_t by_rule[kRuleCount] = {};
  for (const InstanceStats& instance : stats.instances) {
    uint64_t sum = 0;
    for (int rule = 0; rule < kRuleCount; ++rule) {
      sum += instance.requests_by_rule[rule];
      by_rule[rule] += instance.requests_by_rule[rule];
    }
    CHECK(sum == instance.requests);
  }
  for (int rule = 0; rule < kRuleCount; ++rule) {
    CHECK(by_rule[rule] == stats.decisions_by_rule[rule]);
    CHECK(by_rule[rule] > 0);
  }
}

TEST_CASE("Statistics: an instance shows its last engine report, and decisions count stale ones",
          "[api]") {
  Fleet fleet(1);  // reports count for 5 s
  CHECK(fleet.StatsOf(0).reported_running_requests == -1);
  EngineLoad load;
  load.running_requests = 4;
  load.kv_usage = 0.25;
  REQUIRE(fleet.router().ReportLoad(fleet[0], load).ok());
  CHECK(fleet.StatsOf(0).reported_running_requests == 4);
  CHECK(fleet.StatsOf(0).reported_waiting_requests == -1);
  CHECK(fleet.StatsOf(0).reported_kv_usage == 0.25);
  const std::vector<uint32_t> prompt(100, 1);
  fleet.Route(Request::FromTokens(prompt));
  CHECK(fleet.router().Stats().stale_report_decisions == 0);
  fleet.clock().AdvanceSeconds(5);
  fleet.Route(Request::FromTokens(prompt));
  CHECK(fleet.router().Stats().stale_report_decisions == 1);
  CHECK(fleet.StatsOf(0).reported_running_requests == 4);  // as it was given
  CHECK(fleet.StatsOf(0).report_age_s == 5);
}

}  // namespace prefixrouter::testing
