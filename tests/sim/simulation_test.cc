// Whole simulations: what routers see and when, failures, scaling, closed loop, results, and what
// is refused. Steps of the model engine take 1 s, plus 1 ms a prefill token, plus 10 ms a decoding
// request.
#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "prefixrouter/simulator.h"
#include "tests/catch.h"

namespace prefixrouter {
namespace {

struct Sent {
  double at_s;
  uint64_t prompt_tokens;
  uint64_t output_tokens;
  std::vector<uint64_t> ids{};  // of blocks of 16 tokens
  std::string session = "";
  double delay_s = -1;
};

std::shared_ptr<const Workload> MakeWorkload(const std::vector<Sent>& sent) {
  Trace trace;
  trace.name = "test";
  trace.block_tokens = 16;
  uint64_t next_id = 1'000'000;
  for (const Sent& from : sent) {
    TraceRequest request;
    request.timestamp_ns = std::llround(from.at_s * 1e9);
    request.prompt_tokens = from.prompt_tokens;
    request.output_tokens = from.output_tokens;
    request.hash_ids = from.ids;
    while (request.hash_ids.size() * 16 < from.prompt_tokens) {
      request.hash_ids.push_back(next_id++);
    }
    request.session_id = from.session;
    if (from.delay_s >= 0) request.delay_ns = std::llround(from.delay_s * 1e9);
    trace.requests.push_back(request);
  }
  WorkloadOptions options;
  options.arrivals.spread_ticks = false;
  options.arrivals.session_window_s = 0;
  Result<std::shared_ptr<const Workload>> workload = Workload::Create(trace, options);
  REQUIRE(workload.ok());
  return *workload;
}

SimulationOptions ModelFleet(size_t instances = 1) {
  SimulationOptions options;
  options.engine.linear.step_s = 1;
  options.engine.linear.prefill_token_s = 0.001;
  options.engine.linear.decode_request_s = 0.010;
  options.engine.kv_capacity_tokens = 16000;
  options.engine.max_batched_tokens = 100;
  options.instances.resize(instances);
  return options;
}

SimulationResult Run(const std::shared_ptr<const Workload>& workload,
                     const SimulationOptions& options) {
  Result<SimulationResult> result = Simulate(*workload, options);
  INFO(result.status().message());
  REQUIRE(result.ok());
  return *std::move(result);
}

// A policy that writes down what it sees, and sends everything to one slot (while it is there).
struct Sight {
  float requests, waiting, pending, kv_usage;
  bool any_report;
  uint32_t cached;
};
class Watch final : public Policy {
 public:
  Watch(std::vector<Sight>* sights, uint32_t slot) : sights_(sights), slot_(slot) {}
  const char* name() const override { return "watch"; }
  void Score(const PolicyInput& in, float* cost) const override {
    for (size_t i = 0; i < in.size; ++i) cost[i] = i == slot_ ? 0.0f : 1.0f;
    if (slot_ >= in.size) return;
    sights_->push_back({in.requests[slot_], in.waiting[slot_], in.pending_tokens[slot_],
                        in.kv_usage[slot_], in.any_report, in.cached_blocks[slot_]});
  }

 private:
  std::vector<Sight>* sights_;
  uint32_t slot_;
};

// Everything goes to `slot`; what the routers see of it is appended to `sights`.
void WatchSlot(SimulationOptions* options, std::vector<Sight>* sights, uint32_t slot = 0) {
  options->make_policy = [=] { return std::make_shared<Watch>(sights, slot); };
}

Result<Trace> SmallTrace(const std::string& generator, uint64_t requests = 400) {
  GeneratorOptions options;
  options.requests = requests;
  return GenerateTrace(generator, options);
}

}  // namespace

// ---- Time --------------------------------------------------------------------------------------

TEST_CASE("times are those of the steps that a request waits for and takes part in", "[sim]") {
  // The first: a step of 100 tokens (1.1 s), one of 60 (1.06 s), two of decoding (1.01 s each). The
  // second comes during the second step, is prefilled in the third along with a token of the
  // first, and gets its second token in the fourth.
  const auto workload = MakeWorkload({{0, 160, 3}, {1.5, 50, 2}});
  const SimulationResult result = Run(workload, ModelFleet());
  const RequestResult& first = result.requests[0];
  CHECK(first.arrival_s == 0);
  CHECK(first.first_token_s == Approx(1.1 + 1.06));
  CHECK(first.end_s == Approx(2.16 + (1 + 0.05 + 0.01) + (1 + 0.02)));
  const RequestResult& second = result.requests[1];
  CHECK(second.arrival_s == 1.5);
  CHECK(second.first_token_s == Approx(2.16 + 1.06));
  CHECK(second.end_s == Approx(first.end_s));
  CHECK(second.ttft_s() == Approx(3.22 - 1.5));

  CHECK(result.summary.requests == 2);
  CHECK(result.summary.ttft_mean_s == Approx((2.16 + 1.72) / 2));
  CHECK(result.summary.ttft_p50_s == Approx(1.72));
  CHECK(result.summary.ttft_p99_s == Approx(2.16));
  CHECK(result.summary.e2e_mean_s == Approx((4.24 + 2.74) / 2));
  CHECK(result.summary.tpot_mean_s == Approx(((4.24 - 2.16) / 2 + 1.02) / 2));
  CHECK(result.summary.end_s == Approx(4.24));
}

TEST_CASE("the arrival scale divides the times of arrival", "[sim]") {
  const auto workload = MakeWorkload({{0, 50, 1}, {10, 50, 1}});
  SimulationOptions options = ModelFleet();
  options.arrival_scale = 4;
  const SimulationResult result = Run(workload, options);
  CHECK(result.requests[1].arrival_s == 2.5);
  CHECK(result.requests[1].first_token_s == Approx(2.5 + 1.05));
}

TEST_CASE("an instance of twice the speed takes half the time", "[sim]") {
  const auto workload = MakeWorkload({{0, 50, 1}});
  SimulationOptions options = ModelFleet();
  options.instances[0].speed = 2;
  CHECK(Run(workload, options).requests[0].first_token_s == Approx(1.05 / 2));
}

TEST_CASE("requests that arrive before measure_from_s are not in the summary", "[sim]") {
  const auto workload = MakeWorkload({{0, 160, 1}, {10, 50, 1}});
  SimulationOptions options = ModelFleet();
  options.measure_from_s = 5;
  const SimulationResult result = Run(workload, options);
  CHECK(result.summary.requests == 1);
  CHECK(result.summary.ttft_mean_s == Approx(1.05));
  CHECK(result.requests[0].first_token_s > 0);
}

// ---- What routers see --------------------------------------------------------------------------

TEST_CASE("the router learns of first tokens and ends after the feedback delay", "[sim]") {
  // One request: first token at 1.032 s, end at 2.042 s. Others look on.
  std::vector<Sent> sent = {{0, 32, 2}};
  const std::vector<double> looks = {0.5, 1.2, 1.6, 2.2, 2.6};
  for (const double at_s : looks) sent.push_back({at_s, 0, 1});
  SimulationOptions options = ModelFleet(2);
  options.metrics_period_s = 0;
  std::vector<Sight> sights;
  WatchSlot(&options, &sights);
  options.feedback_delay_s = GENERATE(0.0, 0.5);
  const double delay_s = options.feedback_delay_s;
  const SimulationResult result = Run(MakeWorkload(sent), options);
  REQUIRE(sights.size() == 6);
  CHECK(sights[0].requests == 0);
  // Onlookers have no tokens to prefill, but are requests themselves from then on.
  for (size_t i = 0; i < looks.size(); ++i) {
    CAPTURE(delay_s, looks[i]);
    CHECK(sights[i + 1].pending ==
          (looks[i] < result.requests[0].first_token_s + delay_s ? 32 : 0));
  }
  float onlookers = 0;
  for (size_t i = 0; i < looks.size(); ++i) {
    onlookers = 0;
    for (size_t other = 0; other < i; ++other) {
      if (looks[i] < result.requests[other + 1].end_s + delay_s) ++onlookers;
    }
    const float own = looks[i] < result.requests[0].end_s + delay_s ? 1 : 0;
    CHECK(sights[i + 1].requests == own + onlookers);
  }
}

TEST_CASE("engine metrics come once a period, and as old as they are", "[sim]") {
  // The second holds 1,600 of 16,000 tokens of KV from 1.016 s on, when the first step ends.
  std::vector<Sent> sent = {{0, 16, 1}, {0.1, 1600, 50}};
  for (const double at_s : {1.5, 2.3, 2.9}) sent.push_back({at_s, 16, 1});
  SimulationOptions options = ModelFleet(1);
  options.engine.max_batched_tokens = 2000;
  std::vector<Sight> sights;
  WatchSlot(&options, &sights);

  options.metrics_period_s = 0;
  Run(MakeWorkload(sent), options);
  for (const Sight& sight : sights) CHECK_FALSE(sight.any_report);

  sights.clear();
  options.metrics_period_s = 1;
  Run(MakeWorkload(sent), options);
  CHECK(sights[2].any_report);
  CHECK(sights[2].kv_usage < 0.01f);  // read at 1 s
  CHECK(sights[3].kv_usage == Approx(0.1f).epsilon(0.02));
  CHECK(sights[4].kv_usage == Approx(0.1f).epsilon(0.02));

  sights.clear();
  options.metrics_age_s = 0.5;  // what was read at 2 s comes at 2.5 s
  Run(MakeWorkload(sent), options);
  CHECK(sights[3].kv_usage < 0.01f);
  CHECK(sights[4].kv_usage == Approx(0.1f).epsilon(0.02));
}

TEST_CASE("each router knows its own requests, and of the others what metrics tell", "[sim]") {
  std::vector<Sent> sent;
  for (int i = 0; i < 20; ++i) sent.push_back({0.01 * i, 16, 100, {7}});
  SimulationOptions options = ModelFleet(1);
  options.routers = 2;
  options.metrics_period_s = 0;
  std::vector<Sight> sights;
  WatchSlot(&options, &sights);
  SimulationResult result = Run(MakeWorkload(sent), options);
  std::map<uint32_t, float> by_router;
  for (size_t i = 0; i < sent.size(); ++i) {
    CHECK(sights[i].requests == by_router[result.requests[i].router]++);
  }
  CHECK(by_router[0] > 3);
  CHECK(by_router[1] > 3);

  sights.clear();
  options.metrics_period_s = 0.001;
  result = Run(MakeWorkload(sent), options);
  for (size_t i = 5; i < sent.size(); ++i) CHECK(sights[i].requests == static_cast<float>(i));
}

TEST_CASE("cached tokens that engines report correct the router's idea of the capacity", "[sim]") {
  // Ten prompts of 1,600 tokens in turn, on an instance that holds four of them, while the router
  // believes that it holds 40.
  std::vector<Sent> sent;
  for (int i = 0; i < 300; ++i) {
    std::vector<uint64_t> ids(100);
    std::iota(ids.begin(), ids.end(), 100 * (i % 10));
    sent.push_back({20.0 * i, 1601, 1, ids});
  }
  SimulationOptions options = ModelFleet(1);
  options.engine.max_batched_tokens = 2000;
  options.engine.kv_capacity_tokens = 6500;
  options.instances[0].configured_capacity = 10;
  options.report_cached_tokens = GENERATE(false, true);
  const SimulationResult result = Run(MakeWorkload(sent), options);
  CHECK(result.requests[250].cached_tokens == 0);
  CHECK(result.requests[20].predicted_tokens == 1600);
  CHECK(result.requests[299].predicted_tokens == (options.report_cached_tokens ? 0 : 1600));
}

// ---- KV events ---------------------------------------------------------------------------------

TEST_CASE("routers learn from KV events what others' requests have stored, after the delay") {
  // Twenty prompts of two blocks are prefilled by the second step, which ends at 2.656 s; what it
  // has stored is known at 3.156 s. They are sent again, one half before that, one half after.
  std::vector<Sent> sent = {{0, 16, 1}};
  const auto send = [&](double at_s, uint64_t prompt) {
    sent.push_back({at_s, 32, 1, {100 + 2 * prompt, 101 + 2 * prompt}});
  };
  for (uint64_t i = 0; i < 20; ++i) send(0.1, i);
  for (uint64_t i = 0; i < 10; ++i) send(3.1, i);
  for (uint64_t i = 10; i < 20; ++i) send(3.2, i);
  SimulationOptions options = ModelFleet(1);
  options.engine.max_batched_tokens = 2000;
  options.routers = 2;
  options.kv_events = GENERATE(true, false);
  options.kv_event_delay_s = 0.5;
  CAPTURE(options.kv_events);
  std::vector<Sight> sights;
  WatchSlot(&options, &sights);
  const SimulationResult result = Run(MakeWorkload(sent), options);
  REQUIRE(result.requests[1].first_token_s == Approx(2.656));
  REQUIRE(sights.size() == sent.size());
  int by_another = 0;
  for (size_t i = 1; i <= 20; ++i) {
    const bool late = i > 10;
    if (result.requests[i].router == result.requests[20 + i].router) {
      if (late) CHECK(sights[20 + i].cached == 2);
    } else {
      CHECK(sights[20 + i].cached == (late && options.kv_events ? 2 : 0));
      ++by_another;
    }
    CHECK(result.requests[20 + i].cached_tokens == 16);  // the last token is computed anew
  }
  CHECK(by_another > 5);
}

TEST_CASE("KV events of evicted blocks reach the router", "[sim]") {
  // An instance that holds two prompts, while the router believes that it holds twenty. The third
  // evicts the first.
  const auto blocks = [](uint64_t first) {
    std::vector<uint64_t> ids(10);
    std::iota(ids.begin(), ids.end(), first);
    return ids;
  };
  const auto workload = MakeWorkload({{0, 160, 1, blocks(100)},
                                      {10, 160, 1, blocks(200)},
                                      {20, 160, 1, blocks(300)},
                                      {30, 160, 1, blocks(200)},
                                      {40, 160, 1, blocks(100)}});
  SimulationOptions options = ModelFleet(1);
  options.engine.kv_capacity_tokens = 320;
  options.instances[0].configured_capacity = 10;
  options.kv_events = GENERATE(true, false);
  CAPTURE(options.kv_events);
  std::vector<Sight> sights;
  WatchSlot(&options, &sights);
  const SimulationResult result = Run(workload, options);
  CHECK(sights[3].cached == 10);
  CHECK(result.requests[3].cached_tokens == 144);
  CHECK(sights[4].cached == (options.kv_events ? 0 : 10));
  CHECK(result.requests[4].cached_tokens == 0);
}

TEST_CASE("an instance that comes back is empty, and its earlier KV events are lost", "[sim]") {
  const bool fails = GENERATE(true, false);
  CAPTURE(fails);
  // What the first step stores is published at 1.032 s, and on its way until 1.532 s.
  const auto workload = MakeWorkload({{0, 32, 1, {1, 2}}, {2, 32, 1, {1, 2}}, {6, 32, 1, {1, 2}}});
  SimulationOptions options = ModelFleet(1);
  options.kv_events = true;
  options.kv_event_delay_s = 0.5;
  options.events = {{1.2, fails ? FleetChange::kFail : FleetChange::kLeave, 0},
                    {1.3, fails ? FleetChange::kRestart : FleetChange::kJoin, 0}};
  std::vector<Sight> sights;
  WatchSlot(&options, &sights);
  const SimulationResult result = Run(workload, options);
  CHECK(sights[1].cached == 0);
  CHECK(result.requests[1].cached_tokens == 0);
  CHECK(sights[2].cached == 2);
  CHECK(result.requests[2].cached_tokens == 16);
}

TEST_CASE("with KV events several routers find what one finds, and again the same", "[sim]") {
  const Result<Trace> trace = SmallTrace("agents", 1000);
  REQUIRE(trace.ok());
  const auto workload = *Workload::Create(*trace, {});
  SimulationOptions options;
  options.engine = *EnginePreset("llama-8b-h100");
  const auto run = [&](uint32_t routers, bool kv_events) {
    options.routers = routers;
    options.kv_events = kv_events;
    return Run(workload, options).summary;
  };
  const SimulationSummary one = run(1, false);
  // What the router predicts is right here, so there is little to learn.
  CHECK(run(1, true).ttft_mean_s == Approx(one.ttft_mean_s).epsilon(0.1));
  const SimulationSummary four = run(4, false);
  const SimulationSummary informed = run(4, true);
  CHECK(informed.cached_token_share > four.cached_token_share);
  CHECK(informed.cached_token_share > 0.98 * one.cached_token_share);
  CHECK(informed.ttft_mean_s < four.ttft_mean_s);
  CHECK(run(4, true).ttft_mean_s == informed.ttft_mean_s);
}

TEST_CASE("several routers without KV events find nearly what one finds", "[sim]") {
  const Result<Trace> trace = SmallTrace("agents", 1000);
  REQUIRE(trace.ok());
  const auto workload = *Workload::Create(*trace, {});
  SimulationOptions options;
  options.engine = *EnginePreset("llama-8b-h100");
  const SimulationSummary one = Run(workload, options).summary;
  options.routers = 4;
  const SimulationSummary four = Run(workload, options).summary;
  CHECK(four.cached_token_share > 0.97 * one.cached_token_share);
  options.router.policy = "multiplicative";  // remembers what each has sent itself
  CHECK(Run(workload, options).summary.cached_token_share < 0.9 * one.cached_token_share);
}

// ---- Closed loop -------------------------------------------------------------------------------

TEST_CASE("in the closed loop a turn follows the end of the one before and the delay", "[sim]") {
  const auto workload = MakeWorkload({
      {0, 50, 10, {}, "a"},
      {1, 50, 1, {}, "a", 3},  // 3 s after the end
      {7, 50, 1, {}, "a"},     // 6 s after the arrival, of which 1 token took 0.02 s
      {0.5, 16, 1, {}, ""},
  });
  SimulationOptions options = ModelFleet(1);
  const SimulationResult open = Run(workload, options);
  CHECK(open.requests[2].arrival_s == 1);
  options.closed_loop = true;
  const SimulationResult closed = Run(workload, options);
  // As in the workload: sorted by arrival.
  CHECK(closed.requests[1].arrival_s == 0.5);
  CHECK(closed.requests[2].arrival_s == Approx(closed.requests[0].end_s + 3));
  CHECK(closed.requests[3].arrival_s == Approx(closed.requests[2].end_s + 6 - 0.02));
  CHECK(closed.summary.requests == 4);
}

TEST_CASE("a session goes on after a turn that was rejected", "[sim]") {
  const auto workload = MakeWorkload({{0, 20'000, 1, {}, "a"}, {5, 16, 1, {}, "a", 2}});
  SimulationOptions options = ModelFleet(1);
  options.closed_loop = true;
  const SimulationResult result = Run(workload, options);
  CHECK(result.requests[0].outcome == Outcome::kTooLong);
  CHECK(result.requests[1].outcome == Outcome::kDone);
  CHECK(result.requests[1].arrival_s == 2);
  CHECK(result.summary.rejected == 1);
  CHECK(result.summary.requests == 1);
}

// ---- Fleet -------------------------------------------------------------------------------------

TEST_CASE("requests of an instance that fails are sent again elsewhere", "[sim]") {
  std::vector<Sent> sent;
  for (int i = 0; i < 40; ++i) sent.push_back({0.5 * i, 50, 5});
  SimulationOptions options = ModelFleet(2);
  options.router.policy = "round_robin";
  options.feedback_delay_s = 0.25;
  options.events = {{4.9, FleetChange::kFail, 0}};
  const SimulationResult result = Run(MakeWorkload(sent), options);
  CHECK(result.summary.requests == 40);
  CHECK(result.summary.resent > 0);
  size_t elsewhere = 0;
  for (const RequestResult& request : result.requests) {
    CHECK(request.outcome == Outcome::kDone);
    if (request.instance == 0) CHECK(request.end_s <= 4.9);
    // Errors are known 0.25 s later; from then on nothing is sent there.
    if (request.arrival_s > 5.2) CHECK(request.sends == 1);
    elsewhere += request.sends == 2 ? 1 : 0;
  }
  CHECK(elsewhere == result.summary.resent);
}

TEST_CASE("without any instance requests are rejected, and a restarted one is empty", "[sim]") {
  std::vector<Sent> sent;
  for (int i = 0; i < 30; ++i) sent.push_back({1.0 * i, 64, 1, {1, 2, 3, 4}});
  SimulationOptions options = ModelFleet(1);
  options.engine.linear = {0.1, 0, 0, 0, 0};
  options.events = {{20.5, FleetChange::kRestart, 0}, {9.5, FleetChange::kFail, 0}};
  const SimulationResult result = Run(MakeWorkload(sent), options);
  for (size_t i = 0; i < sent.size(); ++i) {
    CAPTURE(i);
    const RequestResult& request = result.requests[i];
    CHECK(request.outcome == (i >= 10 && i <= 20 ? Outcome::kRejected : Outcome::kDone));
    if (request.outcome != Outcome::kDone) continue;
    // All but the last block: one token at least is computed.
    CHECK(request.cached_tokens == (i == 0 || i == 21 ? 0 : 48));
    CHECK(request.predicted_tokens == (i == 0 || i == 21 ? 0 : 64));
  }
  CHECK(result.summary.rejected == 11);
}

TEST_CASE("an instance joins when its time has come, and one that leaves ends its work", "[sim]") {
  std::vector<Sent> sent;
  for (int i = 0; i < 60; ++i) sent.push_back({0.5 * i, 16, 6});
  SimulationOptions options = ModelFleet(3);
  options.router.policy = "least_requests";
  options.events = {{10, FleetChange::kJoin, 2}, {20, FleetChange::kLeave, 0}};
  const SimulationResult result = Run(MakeWorkload(sent), options);
  CHECK(result.summary.requests == 60);
  std::map<uint32_t, double> first, last, end;
  for (const RequestResult& request : result.requests) {
    CHECK(request.sends == 1);
    first.try_emplace(request.instance, request.arrival_s);
    last[request.instance] = request.arrival_s;
    end[request.instance] = std::max(end[request.instance], request.end_s);
  }
  CHECK(first[0] < 2);
  CHECK(first[2] >= 10);
  CHECK(first[2] < 12);
  CHECK(last[0] <= 20);
  CHECK(last[0] > 17);
  CHECK(end[0] > 20);
  CHECK(last[1] > 28);
}

// ---- Results -----------------------------------------------------------------------------------

TEST_CASE("a simulation is a function of its arguments, seed included", "[sim]") {
  const Result<Trace> trace = SmallTrace("chat");
  REQUIRE(trace.ok());
  const auto workload = *Workload::Create(*trace, {});
  SimulationOptions options;
  options.engine = *EnginePreset("llama-8b-h100");
  options.routers = 3;
  options.feedback_delay_s = 0.01;
  const auto run = [&](uint64_t seed) {
    options.seed = seed;
    std::vector<std::pair<uint32_t, double>> trail;
    for (const RequestResult& request : Run(workload, options).requests) {
      trail.emplace_back(request.instance, request.end_s);
    }
    return trail;
  };
  const auto first = run(1);
  CHECK(run(1) == first);
  CHECK(run(2) != first);
}

TEST_CASE("with every policy each request ends, and shares and series add up", "[sim]") {
  const auto policies = SimulatedPolicies();
  const std::string policy = GENERATE_COPY(from_range(policies)).name;
  CAPTURE(policy);
  const Result<Trace> trace = SmallTrace("agents", 300);
  REQUIRE(trace.ok());
  const auto workload = *Workload::Create(*trace, {});
  SimulationOptions options;
  options.engine = *EnginePreset("llama-70b-8xh100-roofline");
  options.router.policy = policy;
  const SimulationResult result = Run(workload, options);
  const SimulationSummary& summary = result.summary;
  CHECK(summary.requests == workload->requests().size());
  CHECK(summary.rejected == 0);
  CHECK(summary.ttft_p50_s <= summary.ttft_p90_s);
  CHECK(summary.ttft_p90_s <= summary.ttft_p99_s);
  CHECK(summary.ttft_mean_s < summary.e2e_mean_s);
  CHECK(summary.cached_token_share > 0);
  CHECK(summary.cached_token_share <= summary.best_possible_share);
  CHECK(summary.max_over_mean_work >= 1);
  CHECK(summary.max_over_mean_work <= 4);

  uint64_t cached = 0, prompt = 0, prefilled = 0, decoded = 0, output = 0;
  for (const RequestResult& request : result.requests) {
    CHECK(request.first_token_s > request.arrival_s);
    CHECK(request.end_s >= request.first_token_s);
    CHECK(request.instance < 4);
    cached += request.cached_tokens;
    prompt += request.prompt_tokens;
    output += request.output_tokens;
  }
  double busy_s = 0;
  for (const auto& samples : result.series) {
    CHECK(samples.size() == result.series[0].size());
    for (const InstanceSample& sample : samples) {
      prefilled += sample.prefill_tokens;
      decoded += sample.decode_tokens;
      busy_s += sample.busy_s;
      CHECK(sample.kv_usage <= 1);
    }
  }
  if (summary.preemptions == 0) {  // these compute again
    CHECK(prefilled == prompt - cached);
    CHECK(decoded == output - workload->requests().size());
  }
  CHECK(busy_s > 0);
  CHECK(busy_s <= 4 * summary.end_s);
}

TEST_CASE("requests above the bound on predicted time to first token are rejected", "[sim]") {
  std::vector<Sent> sent;
  for (int i = 0; i < 50; ++i) sent.push_back({0.001 * i, 96, 1});
  SimulationOptions options = ModelFleet(1);
  options.max_ttft_s = 0.05;  // of 10,000 tokens/s: five prompts are ahead at the most
  const SimulationResult result = Run(MakeWorkload(sent), options);
  CHECK(result.summary.rejected >= 40);
  CHECK(result.summary.requests + result.summary.rejected == 50);
}

TEST_CASE("load levels: the knee's time to first token is twice that at half of capacity",
          "[sim]") {
  const Result<Trace> trace = SmallTrace("unique", 1500);
  REQUIRE(trace.ok());
  const auto workload = *Workload::Create(*trace, {});
  SimulationOptions options;
  options.engine = *EnginePreset("llama-70b-8xh100");
  const Result<LoadLevels> levels = FindLoadLevels(*workload, options);
  REQUIRE(levels.ok());
  CHECK(levels->half_scale == levels->capacity_scale / 2);
  CHECK(levels->knee_scale > levels->half_scale);
  CHECK(levels->knee_scale < 1.2 * levels->capacity_scale);
  CHECK(levels->past_scale == kPastKnee * levels->knee_scale);
  CHECK(levels->knee_ttft_s == Approx(2 * levels->half_ttft_s).epsilon(0.051));
  options.router.policy = "least_requests";
  options.arrival_scale = levels->knee_scale;
  CHECK(Run(workload, options).summary.ttft_mean_s == levels->knee_ttft_s);
  // At capacity the queue never empties: the last request ends long after the last arrival.
  options.arrival_scale = 1.5 * levels->capacity_scale;
  const double span_s = workload->arrivals().span_s / options.arrival_scale;
  CHECK(Run(workload, options).summary.end_s > 1.3 * span_s);
}

// ---- What is refused ---------------------------------------------------------------------------

TEST_CASE("options out of range are refused by name and value", "[sim]") {
  using O = SimulationOptions;
  constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
  struct Case {
    std::string named;
    std::function<void(O&)> set;
  };
  const std::vector<Case> cases = {
      {"number of instances must be 1 to 65536, got 0", [](O& o) { o.instances.clear(); }},
      {"instances[1].speed must be 0.001 to 1000, got 0", [](O& o) { o.instances[1].speed = 0; }},
      {"instances[0].capacity must be", [](O& o) { o.instances[0].capacity = kNan; }},
      {"instances[0].configured_capacity", [](O& o) { o.instances[0].configured_capacity = -1; }},
      {"configured_prefill_tokens_s must be 1 to 1e+09, got 0.5",
       [](O& o) { o.instances[0].configured_prefill_tokens_s = 0.5; }},
      {"engine.kv_capacity_tokens", [](O& o) { o.engine.kv_capacity_tokens = 0; }},
      {"engine.max_batched_tokens", [](O& o) { o.engine.max_batched_tokens = 0; }},
      {"engine.max_running_requests", [](O& o) { o.engine.max_running_requests = 0; }},
      {"engine.page_tokens", [](O& o) { o.engine.page_tokens = 0; }},
      {"engine.linear.step_s", [](O& o) { o.engine.linear.step_s = -1; }},
      {"engine.linear.prefill_token_s", [](O& o) { o.engine.linear.prefill_token_s = kNan; }},
      {"engine.roofline.flops_per_s", [](O& o) { o.engine.roofline.flops_per_s = 0; }},
      {"engine costs must not all be 0", [](O& o) { o.engine.linear = LinearCost(); }},
      {"engine.cost_model", [](O& o) { o.engine.cost_model = static_cast<CostModel>(7); }},
      {"routers must be 1 to 1024, got 0", [](O& o) { o.routers = 0; }},
      {"arrival_scale", [](O& o) { o.arrival_scale = 0; }},
      {"feedback_delay_s", [](O& o) { o.feedback_delay_s = -0.1; }},
      {"metrics_period_s", [](O& o) { o.metrics_period_s = 1e-6; }},
      {"metrics_age_s", [](O& o) { o.metrics_age_s = kNan; }},
      {"kv_event_delay_s", [](O& o) { o.kv_event_delay_s = -1; }},
      {"measure_from_s", [](O& o) { o.measure_from_s = -1; }},
      {"series_step_s", [](O& o) { o.series_step_s = -1; }},
      {"max_ttft_s", [](O& o) { o.max_ttft_s = -1; }},
      {"got \"best\"", [](O& o) { o.router.policy = "best"; }},
      {"custom_policy", [](O& o) { o.router.custom_policy = std::make_shared<Watch>(nullptr, 0); }},
      {"hash_ring_points", [](O& o) { o.router.policy_options.hash_ring_points = 0; }},
      {"session_ttl_s", [](O& o) { o.router.session_ttl_s = 0; }},
      {"events: instance must be 0 to 1, got 2",
       [](O& o) {
         o.events = {{0, FleetChange::kFail, 2}};
       }},
      {"events: time_s",
       [](O& o) {
         o.events = {{-1, FleetChange::kFail, 0}};
       }},
      {"a restart of instance 0 at 3 s",
       [](O& o) {
         o.events = {{3, FleetChange::kRestart, 0}};
       }},
      {"a failure of instance 1 at 2 s",
       [](O& o) {
         o.events = {{1, FleetChange::kFail, 1}, {2, FleetChange::kFail, 1}};
       }},
      {"a join of instance 0 at 2 s",
       [](O& o) {
         o.events = {{1, FleetChange::kFail, 0}, {2, FleetChange::kJoin, 0}};
       }},
      {"a leave of instance 0 at 2 s",
       [](O& o) {
         o.events = {{1, FleetChange::kLeave, 0}, {2, FleetChange::kLeave, 0}};
       }},
  };
  const auto workload = MakeWorkload({{0, 16, 1}});
  for (const Case& wrong : cases) {
    SimulationOptions options = ModelFleet(2);
    REQUIRE(Simulate(*workload, options).ok());
    wrong.set(options);
    const Result<SimulationResult> result = Simulate(*workload, options);
    CAPTURE(wrong.named);
    REQUIRE_FALSE(result.ok());
    CHECK(result.status().code() == StatusCode::kInvalidArgument);
    CAPTURE(result.status().message());
    CHECK(result.status().message().find(wrong.named) != std::string::npos);
  }
}

TEST_CASE("progress is told of requests that are over, changes nothing, and stops a simulation") {
  std::vector<Sent> sent;
  for (int i = 0; i < 500; ++i) sent.push_back({i * 0.5, 100, 100});
  const auto workload = MakeWorkload(sent);
  SimulationOptions options = ModelFleet(4);
  const SimulationResult expected = Run(workload, options);

  std::vector<uint64_t> told;
  options.progress = [&](uint64_t over) {
    told.push_back(over);
    return true;
  };
  const SimulationResult result = Run(workload, options);
  REQUIRE(told.size() >= 3);
  CHECK(std::is_sorted(told.begin(), told.end()));
  CHECK(told.front() < told.back());
  CHECK(told.back() <= 500);
  CHECK(result.summary.end_s == expected.summary.end_s);
  CHECK(result.summary.ttft_mean_s == expected.summary.ttft_mean_s);

  told.clear();
  options.progress = [&](uint64_t over) {
    told.push_back(over);
    return told.size() < 2;
  };
  CHECK(Simulate(*workload, options).status().code() == StatusCode::kCancelled);
  CHECK(told.size() == 2);
  CHECK(FindLoadLevels(*workload, options).status().code() == StatusCode::kCancelled);
}

}  // namespace prefixrouter
