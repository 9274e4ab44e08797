// Routing through the public calls: the forms of a request, what a decision says, sessions, states,
// custom policies, and that the same history gives the same answers.
#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <future>
#include <limits>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/build_kind.h"
#include "tests/support/fleet.h"

namespace prefixrouter::testing {
namespace {

constexpr uint32_t kBlock = 16;

TEST_CASE("The short form of Route is the long one", "[api]") {
  Fleet short_form(4);
  Fleet long_form(4);
  PromptMaker prompts(1);
  for (int i = 0; i < 500; ++i) {
    const Tokens prompt = prompts.Random(prompts.Below(500));
    const Result<InstanceId> id = short_form.router().Route(prompt);
    REQUIRE(id.ok());
    CHECK(*id == long_form.Route(Request::FromTokens(prompt)).instance);
    short_form.clock().AdvanceSeconds(0.01);
    long_form.clock().AdvanceSeconds(0.01);
  }
  CHECK(Describe(short_form.router().Stats()) == Describe(long_form.router().Stats()));
}

TEST_CASE("Ready-made keys of the router's hasher match its own", "[api]") {
  Fleet fleet(2);
  const Tokens prompt = PromptMaker(2).Random(kBlock * 300 + 7);
  fleet.Place(1, Request::FromTokens(prompt));
  const BlockHasher& hasher = fleet.router().hasher();
  std::vector<uint64_t> keys(hasher.BlockCount(prompt.size()));
  REQUIRE(keys.size() == 300);
  hasher.TokenBlockKeys({}, prompt, {}, keys);
  const Request by_keys = Request::FromBlockKeys(keys, prompt.size());
  CHECK(fleet.CachedTokens(1, by_keys) == kBlock * 300);
  CHECK(fleet.CachedTokens(0, by_keys) == 0);
  fleet.Place(0, Request::FromBlockKeys({keys.data(), 123}));
  CHECK(fleet.CachedTokens(0, Request::FromTokens(prompt)) == kBlock * 123);
  CHECK(fleet.Route(by_keys).prompt_tokens == prompt.size());
  CHECK(fleet.Route(Request::FromBlockKeys(keys)).prompt_tokens == kBlock * 300);
}

TEST_CASE("Score has no effect", "[api]") {
  const std::string policy = GENERATE(from_range(PolicyNames()));
  CAPTURE(policy);
  RouterOptions options;
  options.policy = policy;
  Fleet scored(5, options);
  Fleet plain(5, options);
  PromptMaker prompts(3);
  size_t different = 0;
  for (int i = 0; i < 300; ++i) {
    const Tokens prompt = prompts.Random(prompts.Below(800));
    const std::string session = "s" + std::to_string(prompts.Below(20));
    Request request = Request::FromTokens(prompt);
    if (i % 3 == 0) request.session_key = session;
    const std::string before = Describe(scored.router().Stats());
    const Result<ScoreTable> first = scored.router().Score(request);
    const Result<ScoreTable> second = scored.router().Score(request);
    REQUIRE(first.ok());
    REQUIRE(second.ok());
    different += Describe(*first) != Describe(*second);
    different += Describe(scored.router().Stats()) != before;
    // A router that was never asked for scores decides the same.
    different += Describe(scored.Route(request)) != Describe(plain.Route(request));
    scored.clock().AdvanceSeconds(0.02);
    plain.clock().AdvanceSeconds(0.02);
  }
  CHECK(different == 0);
}

TEST_CASE("A decision agrees with the score table before it", "[api]") {
  Fleet fleet(6);
  PromptMaker prompts(4);
  std::vector<Tokens> pool;
  for (int i = 0; i < 30; ++i) pool.push_back(prompts.Random(500 + prompts.Below(3000)));
  size_t wrong = 0;
  for (int i = 0; i < 1000; ++i) {
    const Tokens& prompt = pool[prompts.Below(pool.size())];
    const Request request = Request::FromTokens(prompt);
    const Result<ScoreTable> table = fleet.router().Score(request);
    REQUIRE(table.ok());
    const Decision decision = fleet.Route(request);
    double lowest = std::numeric_limits<double>::infinity();
    double chosen_cost = 0;
    uint64_t most_cached = 0;
    for (const ScoreRow& row : table->rows) {
      lowest = std::min(lowest, row.cost.total);
      most_cached = std::max(most_cached, row.cached_tokens);
      if (row.instance != decision.instance) {
        wrong += row.instance == decision.runner_up &&
                 std::abs(row.cost.total - decision.runner_up_cost) > 1e-9;
        continue;
      }
      chosen_cost = row.cost.total;
      wrong += row.cached_tokens != decision.cached_tokens;
      wrong += row.predicted_ttft_s != decision.predicted_ttft_s;
      wrong += row.cost.total != decision.cost.total;
    }
    wrong += most_cached != decision.best_cached_tokens;
    wrong += decision.candidates != 6;
    wrong += decision.uncached_tokens() != prompt.size() - decision.cached_tokens;
    wrong += decision.rule == Rule::kLowestCost && chosen_cost > lowest;
    // Near-ties are worth at most 32 tokens here: 3.2 ms.
    wrong += decision.rule == Rule::kNearTie && chosen_cost > lowest + 0.0033;
    wrong += decision.rule != Rule::kLowestCost && decision.rule != Rule::kNearTie;
    fleet.clock().AdvanceSeconds(0.05);
  }
  CHECK(wrong == 0);
  const RouterStats stats = fleet.router().Stats();
  CHECK(stats.decisions_by_rule[static_cast<size_t>(Rule::kLowestCost)] > 0);
  CHECK(stats.decisions_by_rule[static_cast<size_t>(Rule::kNearTie)] > 0);
}

TEST_CASE("The parts of a cost add up", "[api]") {
  Fleet fleet(3);
  PromptMaker prompts(5);
  const std::vector<Lease> load = fleet.AcquireOn(1, Request::FromTokens(prompts.Random(2000)), 3);
  EngineLoad report;
  report.kv_usage = 0.97;
  report.waiting_requests = 2;
  report.running_requests = 5;
  REQUIRE(fleet.router().ReportLoad(fleet[2], report).ok());
  const Tokens prompt = prompts.Random(1000);
  for (size_t i = 0; i < 3; ++i) {
    const CostParts cost = fleet.Row(i, Request::FromTokens(prompt)).cost;
    CHECK(cost.total > 0);
    CHECK(std::abs(cost.pending + cost.uncached + cost.requests + cost.pressure - cost.total) <
          1e-4 * cost.total);
  }
}

TEST_CASE("An only candidate is named as such", "[api]") {
  Fleet fleet(2);
  const Tokens prompt = PromptMaker(6).Random(100);
  const Decision forced = fleet.Place(1, Request::FromTokens(prompt));
  CHECK(forced.rule == Rule::kOnlyCandidate);
  CHECK(forced.candidates == 1);
  CHECK_FALSE(forced.runner_up.valid());
  CHECK(fleet.Route(Request::FromTokens(prompt)).runner_up.valid());
  for (Rule rule : {Rule::kLowestCost, Rule::kNearTie, Rule::kOnlyCandidate, Rule::kSession}) {
    CHECK(std::string(RuleName(rule)).size() > 3);
  }
  CHECK(std::string(RuleName(Rule::kLowestCost)) == "lowest_cost");
}

TEST_CASE("Instances are found by name and rank while they live", "[api]") {
  Fleet fleet(0);
  InstanceOptions options;
  options.name = "server";
  const Result<InstanceId> rank0 = fleet.router().AddInstance(options);
  options.rank = 1;
  const Result<InstanceId> rank1 = fleet.router().AddInstance(options);
  REQUIRE(rank0.ok());
  REQUIRE(rank1.ok());
  CHECK(*rank0 != *rank1);
  const auto find = [&](std::string_view name, uint32_t rank) {
    return fleet.router().FindInstance(name, rank);
  };
  CHECK(find("server", 0).value_or({}) == *rank0);
  CHECK(find("server", 1).value_or({}) == *rank1);
  CHECK(find("server", 2).status().code() == StatusCode::kNotFound);
  CHECK(find("serve", 0).status().code() == StatusCode::kNotFound);
  CHECK(find("", 0).status().code() == StatusCode::kNotFound);
  REQUIRE(fleet.router().RemoveInstance(*rank0).ok());
  CHECK(find("server", 0).status().code() == StatusCode::kNotFound);
  CHECK(find("server", 1).value_or({}) == *rank1);
  options.rank = 0;
  const Result<InstanceId> again = fleet.router().AddInstance(options);
  REQUIRE(again.ok());
  CHECK(*again != *rank0);
  CHECK(find("server", 0).value_or({}) == *again);
}

TEST_CASE("Two routers with the same history decide the same", "[api]") {
  const std::string policy = GENERATE(from_range(PolicyNames()));
  CAPTURE(policy);
  const uint64_t seed = TestSeed(7);
  CAPTURE(seed);
  const auto run = [&] {
    PromptMaker random(seed);
    RouterOptions options;
    options.policy = policy;
    options.index_budget_bytes = 1 << 20;
    options.max_sessions = 40;
    InstanceOptions instance;
    instance.capacity_blocks = 2000;
    Fleet fleet(8, options, instance);
    std::vector<Tokens> pool;
    for (int i = 0; i < 50; ++i) pool.push_back(random.Random(random.Below(1500)));
    std::vector<Lease> leases;
    std::vector<uint64_t> chosen;
    for (size_t i = 0; i < Sized(10000u, 1500u); ++i) {
      fleet.clock().AdvanceSeconds(static_cast<double>(random.Below(100)) / 1000);
      const Tokens& base = pool[random.Below(pool.size())];
      const Tokens prompt = random.Extend(base, random.Below(200));
      Request request = Request::FromTokens(prompt);
      const std::string session = "s" + std::to_string(random.Below(80));
      if (random.Chance(0.3)) request.session_key = session;
      if (random.Chance(0.5)) {
        chosen.push_back(fleet.Route(request).instance.value);
      } else {
        leases.push_back(fleet.Acquire(request));
        chosen.push_back(leases.back().instance().value);
      }
      if (leases.size() > 40) {
        Lease& lease = leases[random.Below(leases.size())];
        lease.FirstToken();
        FinishInfo info;
        info.output_tokens = 10;
        info.engine_cached_tokens = static_cast<int64_t>(random.Below(1000));
        lease.Finish(info);
        std::swap(lease, leases.back());
        leases.pop_back();
      }
      if (random.Chance(0.02)) {
        EngineLoad load;
        load.running_requests = static_cast<int64_t>(random.Below(20));
        load.kv_usage = 0.9;
        REQUIRE(fleet.router().ReportLoad(fleet[random.Below(8)], load).ok());
      }
      if (random.Chance(0.01)) {
        REQUIRE(fleet.router()
                    .SetInstanceState(fleet[1 + random.Below(7)], InstanceState::kDown, 1)
                    .ok());
      }
    }
    return std::pair(chosen, Describe(fleet.router().Stats()));
  };
  const auto first = run();
  const auto second = run();
  CHECK(first.first == second.first);
  CHECK(first.second == second.second);
  CHECK(std::set<uint64_t>(first.first.begin(), first.first.end()).size() == 8);
}

// ---- Sessions
// ------------------------------------------------------------------------------------

struct SessionFleet : Fleet {
  explicit SessionFleet(RouterOptions options = {}) : Fleet(4, options), prompts(8) {}
  // A request of the session, with a prompt that nobody has seen, and no load left behind.
  Decision Ask(const std::string& session, std::vector<InstanceId> allowed = {}) {
    const Tokens prompt = prompts.Random(200);
    Request request = Request::FromTokens(prompt);
    request.session_key = session;
    request.allowed = allowed;
    return Acquire(request).decision();
  }
  PromptMaker prompts;
};

TEST_CASE("A session stays on its instance", "[api][session]") {
  SessionFleet fleet;
  std::set<uint64_t> homes;
  for (int s = 0; s < 40; ++s) {
    const std::string session = "session " + std::to_string(s);
    const InstanceId home = fleet.Ask(session).instance;
    homes.insert(home.value);
    for (int i = 0; i < 10; ++i) {
      const Decision decision = fleet.Ask(session);
      CHECK(decision.instance == home);
      CHECK(decision.rule == Rule::kSession);
    }
  }
  CHECK(homes.size() == 4);
  CHECK(fleet.router().Stats().sessions == 40);
}

TEST_CASE("A session leaves an instance that is much slower", "[api][session]") {
  RouterOptions options;
  options.session_slack_s = 0.5;
  SessionFleet fleet(options);
  const InstanceId home = fleet.Ask("s").instance;
  const size_t index = fleet.IndexOf(home);
  // Up to half a second, 5,000 tokens, it stays.
  const Tokens work = fleet.prompts.Random(4500);
  const std::vector<Lease> some = fleet.AcquireOn(index, Request::FromTokens(work), 1);
  CHECK(fleet.Ask("s").instance == home);
  const Tokens more_work = fleet.prompts.Random(1000);
  const std::vector<Lease> more = fleet.AcquireOn(index, Request::FromTokens(more_work), 1);
  const InstanceId next = fleet.Ask("s").instance;
  CHECK(next != home);
  // And there it stays.
  CHECK(fleet.Ask("s").instance == next);
}

TEST_CASE("A session key that all requests share does not pile them up", "[api][session]") {
  SessionFleet fleet;
  std::vector<Lease> leases;
  for (int i = 0; i < 200; ++i) {
    const Tokens prompt = fleet.prompts.Random(1000);
    Request request = Request::FromTokens(prompt);
    request.session_key = "the system prompt";
    leases.push_back(fleet.Acquire(request));
  }
  // At any moment the session's instance is at most 0.25 s, 2,500 tokens, behind the best.
  const std::vector<uint64_t> counts = fleet.RequestCounts();
  CAPTURE(counts);
  CHECK(Spread(counts) <= 5);
}

TEST_CASE("A session moves when its instance may not be chosen", "[api][session]") {
  SessionFleet fleet;
  const InstanceId home = fleet.Ask("s").instance;
  const size_t index = fleet.IndexOf(home);
  const InstanceId other = fleet[(index + 1) % 4];
  SECTION("it is not allowed") { CHECK(fleet.Ask("s", {other}).instance == other); }
  SECTION("it is draining") {
    REQUIRE(fleet.router().SetInstanceState(home, InstanceState::kDraining).ok());
    const InstanceId next = fleet.Ask("s").instance;
    CHECK(next != home);
    CHECK(fleet.Ask("s").instance == next);
  }
  SECTION("it is removed") {
    REQUIRE(fleet.router().RemoveInstance(home).ok());
    InstanceOptions again;
    again.name = "in its slot";
    REQUIRE(fleet.router().AddInstance(again).ok());
    const Decision decision = fleet.Ask("s");
    CHECK(decision.instance != home);
    CHECK(decision.rule != Rule::kSession);  // the new one is not the old one
    CHECK(fleet.Ask("s").instance == decision.instance);
  }
}

TEST_CASE("Sessions are forgotten when they are silent or too many", "[api][session]") {
  RouterOptions options;
  options.session_ttl_s = 100;
  options.max_sessions = 3;
  SessionFleet fleet(options);
  SECTION("silent") {
    fleet.Ask("s");
    for (int i = 0; i < 5; ++i) {
      fleet.clock().AdvanceSeconds(90);  // each use counts anew
      CHECK(fleet.Ask("s").rule == Rule::kSession);
    }
    fleet.clock().AdvanceSeconds(101);
    CHECK(fleet.Ask("s").rule != Rule::kSession);
    CHECK(fleet.router().Stats().sessions == 1);
  }
  SECTION("too many") {
    for (const char* session : {"a", "b", "c"}) {
      fleet.Ask(session);
      fleet.clock().AdvanceSeconds(1);
    }
    CHECK(fleet.Ask("a").rule == Rule::kSession);
    fleet.Ask("d");  // "b" has been silent for the longest
    CHECK(fleet.router().Stats().sessions == 3);
    CHECK(fleet.Ask("a").rule == Rule::kSession);
    CHECK(fleet.Ask("c").rule == Rule::kSession);
    CHECK(fleet.Ask("d").rule == Rule::kSession);
    CHECK(fleet.Ask("b").rule != Rule::kSession);
  }
  SECTION("none at all") {
    options.max_sessions = 0;
    SessionFleet forgetful(options);
    forgetful.Ask("s");
    CHECK(forgetful.Ask("s").rule != Rule::kSession);
    CHECK(forgetful.router().Stats().sessions == 0);
  }
}

// ---- Custom policies
// -----------------------------------------------------------------------------

// Costs that the test sets, one for each slot; notes what it is told.
class ScriptedPolicy final : public Policy {
 public:
  const char* name() const override { return "scripted"; }
  void Score(const PolicyInput& in, float* cost) const override {
    const std::lock_guard<std::mutex> lock(mutex);
    for (size_t i = 0; i < in.size; ++i) {
      cost[i] = i < costs.size() ? costs[i] : 0;
    }
    last_size = in.size;
    last_prompt_tokens = in.prompt_tokens;
    last_priority = in.priority;
    last_cached.assign(in.cached_blocks, in.cached_blocks + in.size);
    last_requests.assign(in.requests, in.requests + in.size);
    last_eligible.assign(in.eligible, in.eligible + in.size);
    last_weight.assign(in.weight, in.weight + in.size);
    if (during_score) during_score();
  }

  mutable std::mutex mutex;
  std::vector<float> costs;
  std::function<void()> during_score;
  mutable size_t last_size = 0;
  mutable float last_prompt_tokens = 0;
  mutable int32_t last_priority = 0;
  mutable std::vector<uint32_t> last_cached;
  mutable std::vector<float> last_requests;
  mutable std::vector<uint8_t> last_eligible;
  mutable std::vector<float> last_weight;
};

struct ScriptedFleet {
  explicit ScriptedFleet(size_t instances) : policy(std::make_shared<ScriptedPolicy>()) {
    RouterOptions options;
    options.policy = "ignored when there is a custom one";
    options.custom_policy = policy;
    InstanceOptions instance;
    instance.weight = 2;
    fleet = std::make_unique<Fleet>(instances, options, instance);
  }
  std::shared_ptr<ScriptedPolicy> policy;
  std::unique_ptr<Fleet> fleet;
};

TEST_CASE("A custom policy sees the fleet and decides", "[api][policy]") {
  ScriptedFleet scripted(4);
  Fleet& fleet = *scripted.fleet;
  const Tokens prompt = PromptMaker(9).Random(160);
  fleet.Place(3, Request::FromTokens(prompt));
  Lease lease = fleet.AcquireOn(1, Request::FromTokens(prompt));
  REQUIRE(fleet.router().SetInstanceState(fleet[2], InstanceState::kDown).ok());

  scripted.policy->costs = {3, 2, 1, 4};
  Request request = Request::FromTokens(prompt);
  request.priority = 7;
  const Decision decision = fleet.Route(request);
  CHECK(decision.instance == fleet[1]);  // i2 is cheaper but down
  CHECK(decision.cost.total == 2);
  CHECK(decision.runner_up == fleet[0]);
  CHECK(decision.runner_up_cost == 3);
  CHECK(decision.candidates == 3);
  const ScriptedPolicy& saw = *scripted.policy;
  CHECK(saw.last_size == 4);
  CHECK(saw.last_prompt_tokens == 160);
  CHECK(saw.last_priority == 7);
  CHECK(saw.last_cached == std::vector<uint32_t>{0, 10, 0, 10});
  CHECK(saw.last_requests == std::vector<float>{0, 1, 0, 0});
  CHECK(saw.last_eligible == std::vector<uint8_t>{1, 1, 0, 1});
  CHECK(saw.last_weight == std::vector<float>{2, 2, 2, 2});
}

TEST_CASE("A custom policy may answer with infinity and NaN", "[api][policy]") {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinity = std::numeric_limits<float>::infinity();
  ScriptedFleet scripted(3);
  Fleet& fleet = *scripted.fleet;
  const Tokens prompt = PromptMaker(10).Random(160);
  const Request request = Request::FromTokens(prompt);

  scripted.policy->costs = {nan, 1e30f, infinity};
  for (int i = 0; i < 20; ++i) CHECK(fleet.Route(request).instance == fleet[1]);
  const Result<ScoreTable> table = fleet.router().Score(request);
  REQUIRE(table.ok());
  CHECK(table->rows[0].cost.total == std::numeric_limits<double>::infinity());

  // With nothing better, those are taken, and not always the same.
  scripted.policy->costs = {nan, infinity, nan};
  std::set<uint64_t> chosen;
  for (int i = 0; i < 100; ++i) {
    const Result<Decision> decision = fleet.router().Route(request);
    REQUIRE(decision.ok());
    chosen.insert(decision->instance.value);
  }
  CHECK(chosen.size() == 3);
  scripted.policy->costs = {-infinity, -5, nan};
  CHECK(fleet.Route(request).instance == fleet[0]);
  scripted.policy->costs = {5, -5, nan};
  CHECK(fleet.Route(request).instance == fleet[1]);
}

TEST_CASE("No lock is held while a custom policy runs", "[api][policy]") {
  ScriptedFleet scripted(3);
  Fleet& fleet = *scripted.fleet;
  const Tokens prompt = PromptMaker(11).Random(160);
  // From another thread, every kind of call gets through while the policy is in the middle of its
  // work. If one did not, it would wait for the policy, and the policy for it: after ten seconds
  // the policy gives up and the test fails.
  std::atomic<int> got_through{0};
  std::atomic<int> calls{0};
  std::vector<std::future<void>> helpers;
  scripted.policy->during_score = [&] {
    if (calls++ >= 3) return;
    helpers.push_back(std::async(std::launch::async, [&] {
      (void)fleet.router().Stats();
      (void)fleet.router().FindInstance("i1");
      EngineLoad load;
      load.running_requests = 1;
      (void)fleet.router().ReportLoad(fleet[0], load);
      (void)fleet.router().SetInstanceState(fleet[0], InstanceState::kReady);
      (void)fleet.router().Finish(LeaseId{12345});
    }));
    if (helpers.back().wait_for(std::chrono::seconds(10)) == std::future_status::ready) {
      ++got_through;
    }
  };
  fleet.Route(Request::FromTokens(prompt));
  Lease lease = fleet.Acquire(Request::FromTokens(prompt));
  CHECK(fleet.router().Score(Request::FromTokens(prompt)).ok());
  CHECK(got_through == 3);
}

TEST_CASE("An instance that goes while a custom policy runs is not chosen", "[api][policy]") {
  ScriptedFleet scripted(3);
  Fleet& fleet = *scripted.fleet;
  const Tokens prompt = PromptMaker(12).Random(160);
  bool removed = false;
  scripted.policy->costs = {1, 2, 3};
  std::future<Status> remover;
  scripted.policy->during_score = [&] {
    if (remover.valid()) return;
    remover =
        std::async(std::launch::async, [&] { return fleet.router().RemoveInstance(fleet[0]); });
    removed = remover.wait_for(std::chrono::seconds(10)) == std::future_status::ready;
  };
  const Result<Decision> decision = fleet.router().Route(Request::FromTokens(prompt));
  REQUIRE(removed);
  REQUIRE(remover.get().ok());
  REQUIRE(decision.ok());
  CHECK(decision->instance != fleet[0]);
  CHECK(fleet.router().Stats().instances.size() == 2);
}

}  // namespace
}  // namespace prefixrouter::testing
