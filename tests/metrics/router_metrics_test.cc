// RenderMetrics: every statistic is on the page once, under its name, with its value.
#include "prefixrouter/router_metrics.h"

#include <map>
#include <random>
#include <string>
#include <vector>

#include "lib/metrics/exposition_reader.h"
#include "tests/catch.h"
#include "tests/support/fleet.h"
#include "tests/support/kv_event_batch.h"

namespace prefixrouter {
namespace {

using testing::Fleet;

std::string Render(const RouterStats& stats, const MetricsOptions& options = {}) {
  const Result<std::string> page = RenderMetrics(stats, options);
  REQUIRE(page.ok());
  return *page;
}

// "name{label=value,...}" -> value. Fails the test for a malformed line or a series that is there
// twice.
std::map<std::string, double> Series(const std::string& page) {
  std::map<std::string, double> series;
  ExpositionReader reader(page);
  while (reader.Next()) {
    std::string key(reader.sample().name);
    for (size_t i = 0; i < reader.sample().labels.size(); ++i) {
      const ExpositionLabel& label = reader.sample().labels[i];
      key += (i == 0 ? "{" : ",") + std::string(label.name) + "=" + std::string(label.value);
    }
    if (!reader.sample().labels.empty()) key += "}";
    INFO(key);
    REQUIRE(series.emplace(key, reader.sample().value).second);
  }
  INFO(reader.first_malformed_reason());
  REQUIRE(reader.malformed_lines() == 0);
  return series;
}

InstanceStats SomeInstance(const std::string& name, uint32_t rank) {
  InstanceStats s;
  s.name = name;
  s.rank = rank;
  s.state = InstanceState::kDraining;
  s.requests_in_flight = 101;
  s.requests_waiting = 102;
  s.pending_tokens = 103;
  s.kv_tokens = 104;
  s.fluid_tokens = 0.5;
  s.blocks_held = 105;
  s.capacity_blocks = 106;
  s.capacity_scale = 0.75;
  s.prefill_tokens_per_s = 12345.5;
  s.report_age_s = 1.25;
  s.reported_running_requests = 107;
  s.reported_waiting_requests = 108;
  s.reported_kv_usage = 0.875;
  s.requests = 10;
  for (int rule = 0; rule < kRuleCount; ++rule) {
    s.requests_by_rule[rule] = static_cast<uint64_t>(rule + 1);
  }
  s.prompt_tokens = 109;
  s.cached_tokens = 110;
  s.event_driven = true;
  s.last_event_age_s = 2.5;
  for (int tier = 0; tier < kKvTierCount; ++tier) {
    s.confirmed_blocks[tier] = static_cast<uint64_t>(tier + 111);
  }
  return s;
}

RouterStats SomeStats() {
  RouterStats s;
  s.requests = 26;
  s.rejected = 2;
  s.unavailable = 3;
  s.prompt_tokens = 4;
  s.cached_tokens = 5;
  s.best_cached_tokens = 6;
  for (int rule = 0; rule < kRuleCount; ++rule) {
    s.decisions_by_rule[rule] = static_cast<uint64_t>(rule + 5);
  }
  s.stale_report_decisions = 7;
  s.leases_finished = 8;
  s.leases_cancelled = 9;
  s.leases_expired = 10;
  s.output_tokens = 11;
  s.route_duration.counts[0] = 1;
  s.route_duration.counts[11] = 20;
  s.route_duration.counts[DurationHistogram::kBuckets - 1] = 300;
  s.route_duration.sum_s = 0.5;
  s.reported_requests = 12;
  s.reported_cached_tokens = 13;
  s.predicted_cached_tokens = 14;
  s.over_predicted_tokens = 15;
  s.under_predicted_tokens = 16;
  s.index_bytes = 17;
  s.index_budget_bytes = 18;
  s.index_runs = 19;
  s.index_blocks = 20;
  s.blocks_held = 21;
  s.blocks_evicted = 22;
  s.blocks_evicted_by_budget = 23;
  s.blocks_not_remembered = 24;
  s.leases_active = 25;
  s.sessions = 26;
  s.requests_at_home = 28;
  s.home_share = 0.625;
  s.kv_event_batches = 27;
  for (int outcome = 0; outcome < kKvEventOutcomeCount; ++outcome) {
    s.kv_events.counts[outcome] = static_cast<uint64_t>(outcome + 1000);
  }
  s.instances.push_back(SomeInstance("a:1", 2));
  return s;
}

}  // namespace

TEST_CASE("router metrics: the page of a router without instances, letter by letter at its start") {
  const std::string page = Render(SomeStats(), {false});
  const std::string start =
      "# HELP prefix_router_build_info 1, with the version of the library.\n"
      "# TYPE prefix_router_build_info gauge\n"
      "prefix_router_build_info{version=\"" PREFIX_ROUTER_VERSION_STRING
      "\"} 1\n"
      "# HELP prefix_router_decisions_total Requests that got an instance, by the rule that chose "
      "it.\n"
      "# TYPE prefix_router_decisions_total counter\n"
      "prefix_router_decisions_total{rule=\"lowest_cost\"} 5\n"
      "prefix_router_decisions_total{rule=\"near_tie\"} 6\n"
      "prefix_router_decisions_total{rule=\"only_candidate\"} 7\n"
      "prefix_router_decisions_total{rule=\"session\"} 8\n";
  CHECK(page.substr(0, start.size()) == start);
  CHECK(page.back() == '\n');
  CHECK(page.find("prefix_router_instance_") == std::string::npos);
}

TEST_CASE("router metrics: every statistic is there once, with its value") {
  std::map<std::string, double> expected = {
      {"prefix_router_build_info{version=" PREFIX_ROUTER_VERSION_STRING "}", 1},
      {"prefix_router_decisions_total{rule=lowest_cost}", 5},
      {"prefix_router_decisions_total{rule=near_tie}", 6},
      {"prefix_router_decisions_total{rule=only_candidate}", 7},
      {"prefix_router_decisions_total{rule=session}", 8},
      {"prefix_router_refused_total{reason=ttft_bound}", 2},
      {"prefix_router_refused_total{reason=no_instance}", 3},
      {"prefix_router_route_duration_seconds_sum", 0.5},
      {"prefix_router_route_duration_seconds_count", 321},
      {"prefix_router_stale_report_decisions_total", 7},
      {"prefix_router_sessions", 26},
      {"prefix_router_prompt_tokens_total", 4},
      {"prefix_router_cached_tokens_total", 5},
      {"prefix_router_best_cached_tokens_total", 6},
      {"prefix_router_reported_requests_total", 12},
      {"prefix_router_reported_cached_tokens_total", 13},
      {"prefix_router_predicted_cached_tokens_total", 14},
      {"prefix_router_over_predicted_tokens_total", 15},
      {"prefix_router_under_predicted_tokens_total", 16},
      {"prefix_router_leases", 25},
      {"prefix_router_leases_ended_total{outcome=finished}", 8},
      {"prefix_router_leases_ended_total{outcome=cancelled}", 9},
      {"prefix_router_leases_ended_total{outcome=expired}", 10},
      {"prefix_router_output_tokens_total", 11},
      {"prefix_router_index_bytes", 17},
      {"prefix_router_index_budget_bytes", 18},
      {"prefix_router_index_blocks", 20},
      {"prefix_router_index_runs", 19},
      {"prefix_router_index_held_blocks", 21},
      {"prefix_router_evicted_blocks_total{reason=instance}", 22},
      {"prefix_router_evicted_blocks_total{reason=budget}", 23},
      {"prefix_router_not_remembered_blocks_total", 24},
      {"prefix_router_instance_state{instance_name=a:1,rank=2,state=draining}", 1},
      {"prefix_router_instance_decisions_total{instance_name=a:1,rank=2,rule=lowest_cost}", 1},
      {"prefix_router_instance_decisions_total{instance_name=a:1,rank=2,rule=near_tie}", 2},
      {"prefix_router_instance_decisions_total{instance_name=a:1,rank=2,rule=only_candidate}", 3},
      {"prefix_router_instance_decisions_total{instance_name=a:1,rank=2,rule=session}", 4},
      {"prefix_router_instance_prompt_tokens_total{instance_name=a:1,rank=2}", 109},
      {"prefix_router_instance_cached_tokens_total{instance_name=a:1,rank=2}", 110},
      {"prefix_router_instance_requests_in_flight{instance_name=a:1,rank=2}", 101},
      {"prefix_router_instance_requests_waiting{instance_name=a:1,rank=2}", 102},
      {"prefix_router_instance_pending_tokens{instance_name=a:1,rank=2}", 103.5},
      {"prefix_router_instance_kv_tokens{instance_name=a:1,rank=2}", 104},
      {"prefix_router_instance_prefill_tokens_per_second{instance_name=a:1,rank=2}", 12345.5},
      {"prefix_router_instance_report_age_seconds{instance_name=a:1,rank=2}", 1.25},
      {"prefix_router_instance_reported_requests{instance_name=a:1,rank=2,phase=running}", 107},
      {"prefix_router_instance_reported_requests{instance_name=a:1,rank=2,phase=waiting}", 108},
      {"prefix_router_instance_reported_kv_usage_ratio{instance_name=a:1,rank=2}", 0.875},
      {"prefix_router_instance_held_blocks{instance_name=a:1,rank=2}", 105},
      {"prefix_router_instance_capacity_blocks{instance_name=a:1,rank=2}", 106},
      {"prefix_router_instance_learned_capacity_ratio{instance_name=a:1,rank=2}", 0.75},
      {"prefix_router_requests_at_home_total", 28},
      {"prefix_router_home_share_ratio", 0.625},
      {"prefix_router_kv_event_batches_total", 27},
      {"prefix_router_kv_events_total{outcome=stored}", 1000},
      {"prefix_router_kv_events_total{outcome=removed}", 1001},
      {"prefix_router_kv_events_total{outcome=already_gone}", 1002},
      {"prefix_router_kv_events_total{outcome=copy_removed}", 1003},
      {"prefix_router_kv_events_total{outcome=not_counted}", 1004},
      {"prefix_router_kv_events_total{outcome=unknown_parent}", 1005},
      {"prefix_router_kv_events_total{outcome=no_tokens}", 1006},
      {"prefix_router_kv_events_total{outcome=wrong_block_size}", 1007},
      {"prefix_router_kv_events_total{outcome=partial_block}", 1008},
      {"prefix_router_kv_events_total{outcome=budget_full}", 1009},
      {"prefix_router_kv_events_total{outcome=cleared}", 1010},
      {"prefix_router_kv_events_total{outcome=not_dense}", 1011},
      {"prefix_router_kv_events_total{outcome=unknown_event}", 1012},
      {"prefix_router_kv_events_total{outcome=malformed_event}", 1013},
      {"prefix_router_kv_events_total{outcome=unknown_field}", 1014},
      {"prefix_router_kv_events_total{outcome=smaller_window}", 1015},
      {"prefix_router_kv_events_total{outcome=malformed_message}", 1016},
      {"prefix_router_kv_events_total{outcome=old_generation}", 1017},
      {"prefix_router_instance_kv_event_age_seconds{instance_name=a:1,rank=2}", 2.5},
      {"prefix_router_instance_confirmed_blocks{instance_name=a:1,rank=2,tier=gpu}", 111},
      {"prefix_router_instance_confirmed_blocks{instance_name=a:1,rank=2,tier=cpu}", 112},
      {"prefix_router_instance_confirmed_blocks{instance_name=a:1,rank=2,tier=disk}", 113},
      {"prefix_router_instance_confirmed_blocks{instance_name=a:1,rank=2,tier=external}", 114},
  };
  const char* const bounds[] = {
      "2.5e-07",  "5e-07",    "1e-06",    "2e-06",    "4e-06",    "8e-06",    "1.6e-05",
      "3.2e-05",  "6.4e-05",  "0.000128", "0.000256", "0.000512", "0.001024", "0.002048",
      "0.004096", "0.008192", "0.016384", "0.032768", "0.065536", "0.131072", "+Inf"};
  for (int i = 0; i < DurationHistogram::kBuckets; ++i) {
    expected[std::string("prefix_router_route_duration_seconds_bucket{le=") + bounds[i] + "}"] =
        i < 11                                ? 1
        : i < DurationHistogram::kBuckets - 1 ? 21
                                              : 321;
  }
  const std::map<std::string, double> series = Series(Render(SomeStats()));
  for (const auto& [key, value] : expected) {
    INFO(key);
    REQUIRE(series.count(key) == 1);
    CHECK(series.at(key) == value);
  }
  for (const auto& [key, value] : series) {
    INFO(key);
    CHECK(expected.count(key) == 1);
  }
}

TEST_CASE("router metrics: what an engine did not report has no sample") {
  RouterStats stats;
  stats.instances.resize(1);
  stats.instances[0].name = "a";
  const std::map<std::string, double> series = Series(Render(stats));
  for (const auto& [key, value] : series) {
    INFO(key);
    CHECK(key.find("prefix_router_instance_report") == std::string::npos);
    CHECK(key.find("prefix_router_instance_kv_event") == std::string::npos);
  }
  CHECK(series.count("prefix_router_instance_state{instance_name=a,rank=0,state=ready}") == 1);
}

TEST_CASE("router metrics: the counters of a router that has worked") {
  RouterOptions options;
  options.report_max_age_s = 5;
  Fleet fleet(2, options);
  const std::vector<uint32_t> prompt(1000, 7);
  fleet.Place(0, Request::FromTokens(prompt));
  EngineLoad load;
  load.running_requests = 3;
  load.kv_usage = 0.5;
  REQUIRE(fleet.router().ReportLoad(fleet[1], load).ok());
  fleet.Drain();  // the report is old by then
  {
    Lease lease = fleet.AcquireOn(1, Request::FromTokens(prompt));  // i0 would have it cached
    FinishInfo info;
    info.engine_cached_tokens = 16;
    CHECK(lease.Finish(info));
  }
  Request nowhere = Request::FromTokens(prompt);
  const InstanceId gone = InstanceId::Make(9, 9);
  nowhere.allowed = {&gone, 1};
  CHECK(!fleet.router().Route(nowhere).ok());

  const std::map<std::string, double> series = Series(Render(fleet.router().Stats()));
  CHECK(series.at("prefix_router_decisions_total{rule=only_candidate}") == 2);
  CHECK(series.at("prefix_router_refused_total{reason=no_instance}") == 1);
  CHECK(series.at("prefix_router_prompt_tokens_total") == 2000);
  CHECK(series.at("prefix_router_cached_tokens_total") == 0);
  CHECK(series.at("prefix_router_stale_report_decisions_total") == 1);
  CHECK(series.at("prefix_router_under_predicted_tokens_total") == 16);
  CHECK(series.at("prefix_router_requests_at_home_total") == 0);  // there is one router
  CHECK(series.at("prefix_router_home_share_ratio") == 0);
  CHECK(series.at("prefix_router_leases_ended_total{outcome=finished}") == 1);
  CHECK(series.at("prefix_router_index_held_blocks") == 124);
  CHECK(series.at("prefix_router_instance_held_blocks{instance_name=i1,rank=0}") == 62);
  CHECK(series.at("prefix_router_instance_decisions_total{instance_name=i1,rank=0,"
                  "rule=only_candidate}") == 1);
  CHECK(series.at("prefix_router_instance_report_age_seconds{instance_name=i1,rank=0}") ==
        Approx(500));
  CHECK(series.at("prefix_router_instance_reported_requests{instance_name=i1,rank=0,"
                  "phase=running}") == 3);
  CHECK(series.count("prefix_router_instance_reported_requests{instance_name=i1,rank=0,"
                     "phase=waiting}") == 0);
  CHECK(series.at("prefix_router_instance_reported_kv_usage_ratio{instance_name=i1,rank=0}") ==
        0.5);
}

TEST_CASE("router metrics: what one of several routers has placed at home, and found there") {
  RouterOptions options;
  options.routers = 4;
  options.key_seed = 1;
  Fleet fleet(3, options);
  const std::vector<uint32_t> prompt(1000, 7);
  FinishInfo info;
  info.engine_cached_tokens = 1000;
  for (int i = 0; i < 3; ++i) {
    Result<Lease> lease = fleet.router().Acquire(Request::FromTokens(prompt));
    REQUIRE(lease.ok());
    CHECK(lease->Finish(info));
  }
  const std::map<std::string, double> series = Series(Render(fleet.router().Stats()));
  CHECK(series.at("prefix_router_requests_at_home_total") == 3);
  CHECK(series.at("prefix_router_home_share_ratio") > 0.5);
  CHECK(series.at("prefix_router_home_share_ratio") < 1);
}

TEST_CASE("router metrics: events that were applied, and how old the last ones are") {
  Fleet fleet(2);
  testing::EventBatch batch;
  batch.Stored({1, 2, 3}, testing::Tokens(48, 7), 16).tier = KvTier::kCpu;
  batch.Removed({3, 4}, KvTier::kCpu);
  REQUIRE(fleet.router().ApplyKvEvents(fleet[1], batch.Get()).ok());
  fleet.clock().AdvanceSeconds(4);
  const std::map<std::string, double> series = Series(Render(fleet.router().Stats()));
  CHECK(series.at("prefix_router_kv_event_batches_total") == 1);
  CHECK(series.at("prefix_router_kv_events_total{outcome=stored}") == 3);
  CHECK(series.at("prefix_router_kv_events_total{outcome=removed}") == 1);
  CHECK(series.at("prefix_router_kv_events_total{outcome=already_gone}") == 1);
  CHECK(series.at("prefix_router_instance_kv_event_age_seconds{instance_name=i1,rank=0}") ==
        Approx(4));
  CHECK(series.count("prefix_router_instance_kv_event_age_seconds{instance_name=i0,rank=0}") == 0);
  CHECK(series.at("prefix_router_instance_confirmed_blocks{instance_name=i1,rank=0,tier=cpu}") ==
        2);
}

TEST_CASE("router metrics: names of instances read back, whatever they are") {
  std::mt19937_64 random(9);
  RouterStats stats;
  std::vector<std::string> names = {"plain", "quote\"", "back\\slash", "line\nfeed", "{a=\"b\"}",
                                    "ü日😀",  " ",       ",",           "#",          ""};
  for (int i = 0; i < 200; ++i) {
    std::string name;
    for (size_t length = 1 + random() % 20; length > 0; --length) {
      name += static_cast<char>(random() % 128);
    }
    names.push_back(name);
  }
  for (uint32_t i = 0; i < names.size(); ++i) stats.instances.push_back(SomeInstance(names[i], i));
  const std::string page = Render(stats);
  ExpositionReader reader(page);
  size_t found = 0;
  while (reader.Next()) {
    if (reader.sample().name != "prefix_router_instance_held_blocks") continue;
    const size_t i = found++;
    REQUIRE(reader.sample().Label("instance_name") == names[i]);
    REQUIRE(reader.sample().Label("rank") == std::to_string(i));
    REQUIRE(reader.sample().value == 105);
  }
  CHECK(found == names.size());
  CHECK(reader.malformed_lines() == 0);
}

TEST_CASE("router metrics: several routers on one page, by metric and then by router") {
  RouterStats a = SomeStats();
  RouterStats b = SomeStats();
  b.sessions = 99;
  const std::vector<MetricsSource> sources = {{&a, {{"model", "small \"one\""}, {"zone", "x"}}},
                                              {&b, {{"model", "large"}}}};
  const Result<std::string> page = RenderMetrics(sources);
  REQUIRE(page.ok());
  const std::string both =
      "# TYPE prefix_router_sessions gauge\n"
      "prefix_router_sessions{model=\"small \\\"one\\\"\",zone=\"x\"} 26\n"
      "prefix_router_sessions{model=\"large\"} 99\n";
  CHECK(page->find(both) != std::string::npos);
  CHECK(Series(*page).size() == 2 * Series(Render(a)).size());
  CHECK(page->find("prefix_router_instance_held_blocks{model=\"large\",instance_name=\"a:1\","
                   "rank=\"2\"} 105\n") != std::string::npos);
  CHECK(RenderMetrics(Span<const MetricsSource>()).value_or("?") == "");
}

TEST_CASE("router metrics: sources and labels that cannot be are refused by name") {
  const RouterStats stats;
  const auto message = [](const std::vector<MetricsSource>& sources) {
    const Result<std::string> page = RenderMetrics(sources);
    REQUIRE(page.status().code() == StatusCode::kInvalidArgument);
    return page.status().message();
  };
  CHECK(message({MetricsSource()}) == "the statistics of source 0 are null");
  for (const char* name :
       {"", "1a", "a-b", "a:b", "__a", "ü", "rule", "instance_name", "le", "tier"}) {
    CHECK(message({{&stats, {{name, "x"}}}}) ==
          std::string("source 0 cannot have a label \"") + name + "\"");
  }
  CHECK(message({{&stats, {{"a", "1"}, {"b", "2"}, {"a", "3"}}}}) ==
        "source 0 has two labels \"a\"");
  CHECK(message({{&stats, {}}, {&stats, {{"a", "1"}}}, {&stats, {}}}) ==
        "source 2 has the same labels as source 0");
  CHECK(message({{&stats, {{"a", "1"}, {"b", "2"}}}, {&stats, {{"b", "2"}, {"a", "1"}}}}) ==
        "source 1 has the same labels as source 0");
}

}  // namespace prefixrouter
