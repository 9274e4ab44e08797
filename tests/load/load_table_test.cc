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
  table.Release(lease, kSecond);
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

TEST_CASE("from a report of a moment ago the router's own requests of that moment are taken off") {
  LoadTable table = MakeTable();
  EngineLoad load;
  load.running_requests = 3;
  load.age_s = 1;
  table.Report(kFirst, load, 0);
  table.Refresh(0);
  REQUIRE(Input(table).requests[0] == 3);
  // Two are sent after the moment that the next report is of: it has not seen them.
  LeaseRecord leases[2] = {MakeLease(100, 0), MakeLease(100, 0)};
  for (LeaseRecord& lease : leases) {
    lease.started_nanos = 5 * kSecond;
    table.Reserve(&lease);
  }
  load.age_s = 2;
  table.Report(kFirst, load, 6 * kSecond);
  table.Refresh(6 * kSecond);
  REQUIRE(Input(table).requests[0] == 5);
  // This one has seen them, and that one of them waits, but not that the other ended.
  load.running_requests = 4;
  load.waiting_requests = 1;
  load.age_s = 0.5;
  table.FirstToken(leases[0], 7 * kSecond);
  leases[0].first_token = true;
  table.Release(leases[0], 8 * kSecond);
  table.Report(kFirst, load, 8 * kSecond + kSecond / 4);
  table.Refresh(8 * kSecond + kSecond / 4);
  REQUIRE(Input(table).requests[0] == Approx(4));  // three others, and the one left
  REQUIRE(Input(table).waiting[0] == 1);           // the one left
}

TEST_CASE("what others have sent since a report is part of the load, and fades with it") {
  RouterOptions options;
  options.report_max_age_s = 4;
  options.routers = 3;
  LoadTable table(options);
  InstanceOptions instance;
  for (const InstanceId id : {kFirst, kSecondInstance}) {
    instance.name += "x";
    table.Add(id, instance);
  }
  EngineLoad load;
  load.running_requests = 2;
  for (int i = 0; i <= 1000; ++i) {
    const int64_t now = i * kSecond / 10;
    table.Refresh(now);
    table.CountRequest(1000, now);
    table.Report(kFirst, load, now);
  }
  REQUIRE(Input(table).requests[0] == 2);  // a report of this moment
  load.age_s = 0.1;
  table.Report(kFirst, load, 100 * kSecond);
  REQUIRE(Input(table).requests[0] == Approx(4).epsilon(0.02));  // two routers, ten a second each
  REQUIRE(Input(table).pending_tokens[0] == Approx(2000).epsilon(0.02));
  REQUIRE(Input(table).requests[1] == 0);
  EngineLoad memory;  // says nothing of requests, so nothing of others'
  memory.kv_usage = 0.5;
  memory.age_s = 0.1;
  table.Report(kSecondInstance, memory, 100 * kSecond);
  table.Report(kFirst, load, 100 * kSecond);
  REQUIRE(Input(table).requests[0] == Approx(4).epsilon(0.02));
  table.Refresh(104 * kSecond);
  REQUIRE(Input(table).requests[0] == 0);
  REQUIRE(Input(table).pending_tokens[0] == 0);
  // A fleet that was idle for a minute: nothing is expected, though the report is late.
  load.running_requests = 0;
  load.age_s = 1;
  table.Report(kFirst, load, 160 * kSecond);
  REQUIRE(Input(table).requests[0] < 0.1);
  table.Remove(kFirst);
  REQUIRE(Input(table).mean_waiting == 0);
  const InstanceId again = InstanceId::Make(0, 2);
  instance.name = "again";
  table.Add(again, instance);
  table.Report(again, load, 160 * kSecond);
  REQUIRE(Input(table).requests[0] == 0);
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
    table.Release(lease, (i + 1) * kSecond);
  }
  REQUIRE(Input(table).tokens_per_s[0] == Approx(4000).epsilon(0.02));
  REQUIRE(Input(table).seconds_per_token[0] == Approx(1.0 / 4000).epsilon(0.02));
  REQUIRE(table.Stats(0, 0).prefill_rate_learned);
  // The other one, configured alike, has shown nothing: it is taken to be as fast.
  REQUIRE(Input(table).tokens_per_s[1] == Approx(4000).epsilon(0.03));
}

}  // namespace prefixrouter
