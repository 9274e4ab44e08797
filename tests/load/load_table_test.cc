// LoadTable: three sources of load, kept apart, added up, and fading with time.
#include "lib/load/load_table.h"

#include "tests/catch.h"

namespace prefixrouter {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr InstanceId kFirst = InstanceId::Make(0, 1);
constexpr InstanceId kSecondInstance = InstanceId::Make(1, 1);

LoadTable MakeTable() {
  RouterOptions options;
  options.report_max_age_s = 4;
  LoadTable table(options);
  InstanceOptions instance;
  instance.name = "a";
  instance.prefill_tokens_per_s = 1000;
  table.Add(kFirst, instance);
  instance.name = "b";
  table.Add(kSecondInstance, instance);
  table.Refresh(0);
  return table;
}

PolicyInput Input(const LoadTable& table) {
  PolicyInput in;
  table.FillInput(&in);
  return in;
}

LeaseRecord MakeLease(uint64_t prompt_tokens, uint64_t cached_tokens) {
  LeaseRecord lease;
  lease.instance = kFirst;
  lease.prompt_tokens = lease.kv_tokens = prompt_tokens;
  lease.cached_tokens = cached_tokens;
  return lease;
}

}  // namespace

TEST_CASE("a lease counts its uncached tokens until the first token, and itself until it ends") {
  LoadTable table = MakeTable();
  LeaseRecord lease = MakeLease(500, 200);
  table.Reserve(&lease);
  REQUIRE(Input(table).requests[0] == 1);
  REQUIRE(Input(table).pending_tokens[0] == 300);
  REQUIRE(Input(table).kv_tokens[0] == 500);
  REQUIRE(Input(table).mean_waiting == Approx(0.5));
  table.FirstToken(lease, kSecond);
  lease.first_token = true;
  REQUIRE(Input(table).requests[0] == 1);
  REQUIRE(Input(table).pending_tokens[0] == 0);
  table.Release(lease);
  REQUIRE(Input(table).requests[0] == 0);
  REQUIRE(Input(table).kv_tokens[0] == 0);
  REQUIRE(Input(table).mean_waiting == 0);
  REQUIRE(Input(table).pending_tokens[1] == 0);
}

TEST_CASE("what storing pushes out is the instance's, and gone with it") {
  LoadTable table = MakeTable();
  REQUIRE(!Input(table).any_displacement);
  table.SetDisplacement(kSecondInstance, 0.5f);
  table.SetDisplacement(kSecondInstance, 0.25f);
  REQUIRE(Input(table).any_displacement);
  REQUIRE(Input(table).displacement[0] == 0);
  REQUIRE(Input(table).displacement[1] == 0.25f);
  table.SetDisplacement(kSecondInstance, 0);
  REQUIRE(!Input(table).any_displacement);
  table.SetDisplacement(kSecondInstance, 1);
  table.Remove(kSecondInstance);
  REQUIRE(!Input(table).any_displacement);
  REQUIRE(Input(table).displacement[1] == 0);
}

TEST_CASE("fluid work drains at the prefill rate, however often time is looked at") {
  for (const int64_t step : {kSecond / 4, kSecond / 100, kSecond / 3000}) {
    LoadTable table = MakeTable();
    table.AddFluid(kFirst, 2000);
    table.AddFluid(kSecondInstance, 100);
    for (int64_t now = 0; now <= kSecond; now += step) table.Refresh(now);
    REQUIRE(Input(table).pending_tokens[0] == Approx(1000).margin(2));
    REQUIRE(Input(table).pending_tokens[1] == 0);
    table.Refresh(3 * kSecond);
    REQUIRE(Input(table).pending_tokens[0] == 0);
  }
}

TEST_CASE("a report adds what exceeds the router's own counts, and fades") {
  LoadTable table = MakeTable();
  LeaseRecord lease = MakeLease(100, 0);
  table.Reserve(&lease);
  EngineLoad load;
  load.running_requests = 3;
  load.waiting_requests = 2;
  load.kv_usage = 0.8;
  table.Report(kFirst, load, 0);
  table.Refresh(0);
  REQUIRE(Input(table).requests[0] == 5);  // one of them is the router's own
  REQUIRE(Input(table).kv_usage[0] == Approx(0.8));
  REQUIRE(Input(table).pending_tokens[0] > 100);  // one waits that is not ours
  REQUIRE(Input(table).any_report);
  table.Refresh(2 * kSecond - 1);
  REQUIRE(Input(table).requests[0] == Approx(5).epsilon(0.01));
  table.Refresh(3 * kSecond);
  REQUIRE(Input(table).requests[0] == Approx(3).epsilon(0.02));
  REQUIRE_FALSE(table.StaleReport(0, 3 * kSecond));
  table.Refresh(4 * kSecond);
  REQUIRE(table.StaleReport(0, 4 * kSecond));
  REQUIRE(Input(table).requests[0] == 1);
  REQUIRE(Input(table).pending_tokens[0] == 100);
  REQUIRE(Input(table).kv_usage[0] == 0);
  REQUIRE_FALSE(table.StaleReport(1, 4 * kSecond));  // never reported
}

TEST_CASE("a report below the router's own counts takes nothing away") {
  LoadTable table = MakeTable();
  LeaseRecord lease = MakeLease(100, 0);
  table.Reserve(&lease);
  EngineLoad load;
  load.running_requests = load.waiting_requests = 0;
  table.Report(kFirst, load, 0);
  table.Refresh(0);
  REQUIRE(Input(table).requests[0] == 1);
  REQUIRE(Input(table).pending_tokens[0] == 100);
}

TEST_CASE("crowding is that of the requests that policies see") {
  LoadTable table = MakeTable();
  const auto require = [&](float requests, float waiting) {
    const PolicyInput in = Input(table);
    REQUIRE(in.requests[0] == requests);
    REQUIRE(in.waiting[0] == waiting);
    REQUIRE(in.crowding[0] == Crowding(requests, waiting));
    REQUIRE(in.crowding[1] == 1);
  };
  require(0, 0);
  LeaseRecord lease = MakeLease(500, 200);
  table.Reserve(&lease);
  require(1, 1);
  EngineLoad load;
  load.running_requests = 4;
  load.waiting_requests = 3;
  table.Report(kFirst, load, 0);
  require(7, 3);
  table.FirstToken(lease, kSecond);
  lease.first_token = true;
  require(7, 2);
  table.Remove(kFirst);
  require(0, 0);
  InstanceOptions options;
  options.name = "c";
  table.Add(InstanceId::Make(0, 2), options);
  require(0, 0);
}

TEST_CASE("a state ends by itself, at its time and not before") {
  LoadTable table = MakeTable();
  table.SetState(kFirst, InstanceState::kDown, 5 * kSecond);
  table.SetState(kSecondInstance, InstanceState::kDraining, INT64_MAX);
  REQUIRE(table.ready_count() == 0);
  table.Refresh(5 * kSecond - 1);
  REQUIRE_FALSE(table.Ready(0));
  table.Refresh(5 * kSecond);
  REQUIRE(table.Ready(0));
  REQUIRE_FALSE(table.Ready(1));
  REQUIRE(table.penalty()[0] == 0);
  REQUIRE(std::isinf(table.penalty()[1]));
}

TEST_CASE("a slot that is used again starts with no load") {
  LoadTable table = MakeTable();
  LeaseRecord lease = MakeLease(100, 0);
  table.Reserve(&lease);
  table.AddFluid(kFirst, 50);
  EngineLoad load;
  load.waiting_requests = 9;
  table.Report(kFirst, load, 0);
  table.Remove(kFirst);
  REQUIRE_FALSE(table.Live(kFirst));
  REQUIRE(Input(table).mean_waiting == 0);
  InstanceOptions options;
  options.name = "c";
  const InstanceId again = InstanceId::Make(0, 2);
  table.Add(again, options);
  table.Refresh(kSecond);
  REQUIRE(table.Live(again));
  REQUIRE(Input(table).requests[0] == 0);
  REQUIRE(Input(table).pending_tokens[0] == 0);
  REQUIRE(table.Stats(0, kSecond).report_age_s < 0);
}

TEST_CASE("the rate that is learned is the one that policies see") {
  LoadTable table = MakeTable();
  for (int i = 1; i <= 50; ++i) {
    LeaseRecord lease = MakeLease(4000, 0);
    lease.started_nanos = i * kSecond;
    table.Reserve(&lease);
    table.FirstToken(lease, (i + 1) * kSecond);
    lease.first_token = true;
    table.Release(lease);
  }
  REQUIRE(Input(table).tokens_per_s[0] == Approx(4000).epsilon(0.02));
  REQUIRE(Input(table).seconds_per_token[0] == Approx(1.0 / 4000).epsilon(0.02));
  REQUIRE(table.Stats(0, 0).prefill_rate_learned);
  // The other one, configured alike, has shown nothing: it is taken to be as fast.
  REQUIRE(Input(table).tokens_per_s[1] == Approx(4000).epsilon(0.03));
}

}  // namespace prefixrouter
