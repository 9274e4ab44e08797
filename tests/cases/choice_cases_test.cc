// What broke in other routers around the set of instances to choose from: states, masks, reports of
// the engines, and hash rings.
//
// Each test restates one public report (named above it) as input and right result, and checks the
// whole kind of fault rather than the one example. The tag [case-NN] is the number that docs and
// commit messages use.
#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/build_kind.h"
#include "tests/support/fleet.h"

namespace prefixrouter::testing {
namespace {

constexpr uint32_t kBlock = 16;

// vllm router 197: a health check reset the counter of running requests.
// Mark an instance down and up while 5 requests are in flight: still 5, and its blocks are still
// there.
TEST_CASE("Going down and up keeps requests in flight and cached blocks", "[cases][case-24]") {
  const InstanceState state = GENERATE(InstanceState::kDown, InstanceState::kDraining);
  const bool by_itself = GENERATE(false, true);
  const uint64_t seed = TestSeed(24);
  CAPTURE(seed, static_cast<int32_t>(state), by_itself);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const Tokens prompt = prompts.Random(800);
  const Request request = Request::FromTokens(prompt);
  std::vector<Lease> leases = fleet.AcquireOn(0, request, 5);
  leases[0].FirstToken();
  const InstanceStats before = fleet.StatsOf(0);
  REQUIRE(before.requests_in_flight == 5);
  const auto check_unchanged = [&] {
    const InstanceStats now = fleet.StatsOf(0);
    CHECK(now.requests_in_flight == before.requests_in_flight);
    CHECK(now.requests_waiting == before.requests_waiting);
    CHECK(now.pending_tokens == before.pending_tokens);
    CHECK(now.kv_tokens == before.kv_tokens);
    CHECK(now.blocks_held == before.blocks_held);
    CHECK(fleet.CachedTokens(0, request) == 800);
  };

  REQUIRE(fleet.router().SetInstanceState(fleet[0], state, by_itself ? 10 : 0).ok());
  CHECK(fleet.StatsOf(0).state == state);
  check_unchanged();
  CHECK(fleet.Route(request).instance == fleet[1]);
  if (by_itself) {
    fleet.clock().AdvanceSeconds(11);
  } else {
    REQUIRE(fleet.router().SetInstanceState(fleet[0], InstanceState::kReady).ok());
  }
  CHECK(fleet.StatsOf(0).state == InstanceState::kReady);
  check_unchanged();
  for (Lease& lease : leases) CHECK(lease.Finish());
  CHECK(fleet.InFlight(0) == 0);
}

// smg 1621: an engine with no KV memory left still drew every request with its prefix.
// Equal request counts, KV use {0.98, 0.2}, the prefix on the first: the second.
TEST_CASE("An engine without free KV memory loses the requests it has cached", "[cases][case-30]") {
  const size_t length = GENERATE(64, 512, 1024);
  const size_t requests = GENERATE(0, 4);
  CAPTURE(length, requests);
  const uint64_t seed = TestSeed(30);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const Tokens prompt = prompts.Random(length);
  const Request request = Request::FromTokens(prompt);
  fleet.Place(0, request);
  fleet.Drain();
  std::vector<Lease> leases;
  for (size_t i = 0; i < requests; ++i) {
    for (size_t instance = 0; instance < 2; ++instance) {
      leases.push_back(fleet.AcquireOn(instance, Request::FromTokens(prompts.Random(300))));
    }
  }
  REQUIRE(fleet.CachedTokens(0, request) == length);
  const auto report = [&](size_t instance, double kv_usage) {
    EngineLoad load;
    load.running_requests = static_cast<int64_t>(requests);
    load.waiting_requests = 0;
    load.kv_usage = kv_usage;
    REQUIRE(fleet.router().ReportLoad(fleet[instance], load).ok());
  };
  const auto cheapest = [&] {
    return fleet.Row(0, request).cost.total < fleet.Row(1, request).cost.total ? fleet[0]
                                                                               : fleet[1];
  };
  // With the same use on both, the prefix decides.
  report(0, 0.2);
  report(1, 0.2);
  CHECK(cheapest() == fleet[0]);
  report(0, 0.98);
  CHECK(cheapest() == fleet[1]);
  CHECK(fleet.Route(request).instance == fleet[1]);
}

// sglang 38814: a filter of the caller was applied after the choice, or not at all.
// The mask excludes the best holder: the best inside the mask; never an instance outside.
TEST_CASE("Only allowed instances are chosen and the best of them", "[cases][case-31]") {
  const uint64_t seed = TestSeed(31);
  CAPTURE(seed);

  SECTION("the second best holder when the best is excluded") {
    PromptMaker prompts(seed);
    Fleet fleet(4);
    const Tokens prompt = prompts.Random(4000);
    fleet.Place(0, Request::FromTokens(prompt));
    fleet.Place(1, Request::FromTokens(Head(prompt, 3200)));
    fleet.Place(2, Request::FromTokens(Head(prompt, 1600)));
    fleet.Drain();
    Request request = Request::FromTokens(prompt);
    const std::vector<InstanceId> without_best = {fleet[3], fleet[2], fleet[1]};
    request.allowed = without_best;
    const Decision decision = fleet.Route(request);
    CHECK(decision.instance == fleet[1]);
    CHECK(decision.cached_tokens == 3200);
    CHECK(decision.candidates == 3);
    CHECK_FALSE(fleet.Row(0, request).eligible);
    CHECK(fleet.Row(2, request).eligible);
  }

  SECTION("in random histories under every policy") {
    const std::string policy = GENERATE(from_range(PolicyNames()));
    CAPTURE(policy);
    PromptMaker prompts(seed);
    RouterOptions options;
    options.policy = policy;
    Fleet fleet(9, options);
    std::vector<Tokens> pool;
    for (int i = 0; i < 20; ++i) pool.push_back(prompts.Random(200 + prompts.Below(2000)));
    std::vector<Lease> leases;
    size_t outside = 0;
    for (size_t i = 0; i < Sized(3000u, 500u); ++i) {
      std::vector<InstanceId> allowed;
      for (InstanceId id : fleet.ids()) {
        if (prompts.Chance(0.3)) allowed.push_back(id);
      }
      if (allowed.empty()) allowed.push_back(fleet[prompts.Below(9)]);
      Request request = Request::FromTokens(pool[prompts.Below(pool.size())]);
      request.allowed = allowed;
      // The session may have its home outside of the mask.
      const std::string session = "s" + std::to_string(prompts.Below(30));
      if (prompts.Chance(0.5)) request.session_key = session;
      Lease lease = fleet.Acquire(request);
      outside += std::count(allowed.begin(), allowed.end(), lease.instance()) == 0;
      outside += lease.decision().candidates != allowed.size();
      if (prompts.Chance(0.3)) leases.push_back(std::move(lease));
      if (leases.size() > 50) leases.erase(leases.begin(), leases.begin() + 25);
      fleet.clock().AdvanceSeconds(0.01);
    }
    CHECK(outside == 0);
  }

  SECTION("and none when no allowed one can take requests") {
    PromptMaker prompts(seed);
    Fleet fleet(3);
    const Tokens prompt = prompts.Random(100);
    Request request = Request::FromTokens(prompt);
    const std::vector<InstanceId> one = {fleet[1]};
    request.allowed = one;
    REQUIRE(fleet.router().SetInstanceState(fleet[1], InstanceState::kDown).ok());
    CHECK(fleet.router().Route(request).status().code() == StatusCode::kUnavailable);
    REQUIRE(fleet.router().RemoveInstance(fleet[1]).ok());
    CHECK(fleet.router().Route(request).status().code() == StatusCode::kUnavailable);
    // Another instance in the same slot is not the one that was allowed.
    fleet.Add();
    CHECK(fleet.router().Route(request).status().code() == StatusCode::kUnavailable);
    const std::vector<InstanceId> stale_and_live = {fleet[1], fleet[2]};
    request.allowed = stale_and_live;
    CHECK(fleet.Route(request).instance == fleet[2]);
  }
}

RouterOptions RingOptions() {
  RouterOptions options;
  options.policy = "consistent_hash";
  options.max_sessions = 0;  // so that the ring alone decides, not the memory of sessions
  return options;
}

Request WithSession(const Tokens& tokens, const std::string& session) {
  Request request = Request::FromTokens(tokens);
  request.session_key = session;
  return request;
}

// prime-rl 3255, kubeai 447 and 519: overflow went to a random replica, so that nothing was cached
// there the next time; names "a" + "11" and "a1" + "1" shared ring points; the bound was below one
// request on a large idle fleet, and one replica got everything.
TEST_CASE("Consistent hashing overflows to the next position and always the same",
          "[cases][case-32]") {
  const uint64_t seed = TestSeed(32);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  const Tokens prompt = prompts.Random(100);

  SECTION("a key goes home, over the bound to one other, and home again") {
    Fleet fleet(8, RingOptions());
    std::map<InstanceId, int> overflow;
    for (int k = 0; k < 40; ++k) {
      const std::string session = "session " + std::to_string(k);
      const auto now = [&] { return fleet.Acquire(WithSession(prompt, session)).instance(); };
      const InstanceId home = now();
      CHECK(now() == home);
      const std::vector<Lease> overload =
          fleet.AcquireOn(fleet.IndexOf(home), Request::FromTokens(prompt), 50);
      const InstanceId next = now();
      CHECK(next != home);
      for (int again = 0; again < 5; ++again) CHECK(now() == next);
      ++overflow[next];
      // With the second full as well, a third, also always the same.
      const std::vector<Lease> more =
          fleet.AcquireOn(fleet.IndexOf(next), Request::FromTokens(prompt), 50);
      const InstanceId third = now();
      CHECK(third != home);
      CHECK(third != next);
      CHECK(now() == third);
      // When the home is down, its keys go where its overflow went.
      REQUIRE(fleet.router().SetInstanceState(home, InstanceState::kDown).ok());
      CHECK(fleet.Route(WithSession(prompt, session)).instance == third);
      REQUIRE(fleet.router().SetInstanceState(home, InstanceState::kReady).ok());
    }
    // Keys of different homes do not overflow to one instance.
    CHECK(overflow.size() >= 4);
  }

  SECTION("without a session the first block is the key") {
    Fleet fleet(8, RingOptions());
    std::map<InstanceId, int> homes;
    for (int k = 0; k < 100; ++k) {
      const Tokens first_block = prompts.Random(kBlock);
      const InstanceId home =
          fleet.Acquire(Request::FromTokens(prompts.Extend(first_block, 50))).instance();
      ++homes[home];
      for (int again = 0; again < 3; ++again) {
        CHECK(fleet.Acquire(Request::FromTokens(prompts.Extend(first_block, 200))).instance() ==
              home);
      }
    }
    CHECK(homes.size() == 8);
  }

  SECTION("an instance that goes moves its own keys only") {
    Fleet fleet(10, RingOptions());
    std::vector<InstanceId> homes;
    const auto home_of = [&](int k) {
      return fleet.Acquire(WithSession(prompt, std::to_string(k))).instance();
    };
    constexpr int kKeys = 2000;
    for (int k = 0; k < kKeys; ++k) homes.push_back(home_of(k));
    REQUIRE(fleet.router().RemoveInstance(fleet[3]).ok());
    int moved = 0;
    int moved_without_need = 0;
    for (int k = 0; k < kKeys; ++k) {
      const bool needed = homes[k] == fleet[3];
      moved += needed;
      moved_without_need += !needed && home_of(k) != homes[k];
    }
    CHECK(moved > kKeys / 10 / 3);
    CHECK(moved_without_need == 0);
  }

  SECTION("names and ranks that look alike do not share ring points") {
    // Every one of these would collide with another if name, rank and point were just joined.
    const std::vector<std::pair<std::string, uint32_t>> names = {
        {"a", 0},   {"a1", 0},  {"a11", 0}, {"a", 1},   {"a", 11},  {"a1", 1},
        {"a#1", 0}, {"a:1", 0}, {"a-1", 0}, {"a_1", 0}, {"a/1", 0}, {"a 1", 0}};
    Fleet fleet(0, RingOptions());
    for (const auto& [name, rank] : names) {
      InstanceOptions instance;
      instance.name = name;
      instance.rank = rank;
      REQUIRE(fleet.router().AddInstance(instance).ok());
    }
    constexpr int kKeys = 12000;
    std::map<InstanceId, int> shares;
    for (int k = 0; k < kKeys; ++k) {
      ++shares[fleet.Acquire(WithSession(prompt, std::to_string(k))).instance()];
    }
    CHECK(shares.size() == names.size());
    for (const auto& [id, count] : shares) {
      CAPTURE(id.value);
      CHECK(count > kKeys / 12 / 2);
      CHECK(count < kKeys / 12 * 2);
    }
  }

  SECTION("on 300 instances with ten requests in flight each") {
    const bool hot_key = GENERATE(false, true);
    CAPTURE(hot_key);
    Fleet fleet(300, RingOptions());
    std::vector<Lease> leases;
    const auto most_in_flight = [&] {
      int64_t most = 0;
      for (const InstanceStats& instance : fleet.router().Stats().instances) {
        most = std::max(most, instance.requests_in_flight);
      }
      return most;
    };
    for (int i = 0; i < 3000; ++i) {
      const std::string session = hot_key ? "hot" : std::to_string(i);
      leases.push_back(fleet.Acquire(WithSession(prompt, session)));
      // Ten requests in all: the mean is far below one, and still nobody gets a pile.
      if (i == 9) CHECK(most_in_flight() <= 2);
    }
    CHECK(most_in_flight() <= 20);
  }
}

// llm-d 2408: pods with old metrics were dropped from the candidates, until none was left.
// Metrics older than the limit: the instance is still eligible, own counts are used, and the
// decision says so.
TEST_CASE("An instance with stale metrics stays eligible and the decision says so",
          "[cases][case-33]") {
  const uint64_t seed = TestSeed(33);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  options.report_max_age_s = 5;
  Fleet fleet(2, options);
  const Tokens prompt = prompts.Random(2000);
  const Request request = Request::FromTokens(prompt);
  fleet.Place(0, request);
  fleet.Drain();
  CHECK_FALSE(fleet.Row(0, request).stale_report);  // never reported is not stale

  EngineLoad overload;
  overload.running_requests = 200;
  overload.waiting_requests = 300;
  overload.kv_usage = 0.99;

  SECTION("a report that is fresh counts, and no longer when it is old") {
    REQUIRE(fleet.router().ReportLoad(fleet[0], overload).ok());
    CHECK(fleet.StatsOf(0).report_age_s == 0);
    CHECK_FALSE(fleet.Row(0, request).stale_report);
    CHECK(fleet.Row(0, request).cost.total > fleet.Row(1, request).cost.total);
    fleet.clock().AdvanceSeconds(6);
    CHECK(fleet.Row(0, request).stale_report);
    CHECK(fleet.Row(0, request).eligible);
    CHECK_FALSE(fleet.Row(1, request).stale_report);
    const Decision decision = fleet.Route(request);
    CHECK(decision.instance == fleet[0]);
    CHECK(decision.stale_report);
    CHECK(decision.cost.pressure == 0);
  }
  SECTION("a report may be old when it arrives") {
    overload.age_s = 7;
    REQUIRE(fleet.router().ReportLoad(fleet[0], overload).ok());
    CHECK(fleet.StatsOf(0).report_age_s > 6.999);
    CHECK(fleet.StatsOf(0).report_age_s < 7.001);
    const Decision decision = fleet.Route(request);
    CHECK(decision.instance == fleet[0]);
    CHECK(decision.stale_report);
  }
  SECTION("own counts decide when all reports are old") {
    REQUIRE(fleet.router().ReportLoad(fleet[0], overload).ok());
    REQUIRE(fleet.router().ReportLoad(fleet[1], overload).ok());
    fleet.clock().AdvanceSeconds(60);
    std::vector<Lease> queue;
    for (int i = 0; i < 7; ++i) {
      queue.push_back(fleet.AcquireOn(0, Request::FromTokens(prompts.Random(2000))));
    }
    const Decision decision = fleet.Route(request);
    CHECK(decision.instance == fleet[1]);
    CHECK(decision.stale_report);
    CHECK(decision.candidates == 2);
  }
  SECTION("a new report ends the staleness") {
    REQUIRE(fleet.router().ReportLoad(fleet[0], overload).ok());
    fleet.clock().AdvanceSeconds(60);
    CHECK(fleet.Row(0, request).stale_report);
    EngineLoad idle;
    idle.running_requests = 0;
    idle.waiting_requests = 0;
    idle.kv_usage = 0;
    REQUIRE(fleet.router().ReportLoad(fleet[0], idle).ok());
    const Decision decision = fleet.Route(request);
    CHECK(decision.instance == fleet[0]);
    CHECK_FALSE(decision.stale_report);
  }
}

// dynamo 12138: a worker that was marked overloaded stayed so when the marker died.
// A mark carries its own end and clears by itself.
TEST_CASE("A mark of overload ends by itself", "[cases][case-35]") {
  const InstanceState state = GENERATE(InstanceState::kDown, InstanceState::kDraining);
  CAPTURE(static_cast<int32_t>(state));
  const uint64_t seed = TestSeed(35);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const Tokens prompt = prompts.Random(1000);
  const Request request = Request::FromTokens(prompt);
  fleet.Place(0, request);
  fleet.Drain();
  const auto set = [&](size_t index, InstanceState to, double for_s) {
    REQUIRE(fleet.router().SetInstanceState(fleet[index], to, for_s).ok());
  };
  const auto ready = [&](size_t index) {
    const bool eligible = fleet.Row(index, request).eligible;
    CHECK(eligible == (fleet.StatsOf(index).state == InstanceState::kReady));
    return eligible;
  };

  SECTION("after its time, to the millisecond") {
    set(0, state, 3);
    CHECK_FALSE(ready(0));
    CHECK(fleet.Route(request).instance == fleet[1]);
    fleet.clock().AdvanceSeconds(2.999);
    CHECK_FALSE(ready(0));
    fleet.clock().AdvanceSeconds(0.002);
    CHECK(ready(0));
    set(1, state, 0);
    CHECK(fleet.Route(request).instance == fleet[0]);
  }
  SECTION("also when every instance is marked") {
    set(0, state, 3);
    set(1, state, 5);
    CHECK(fleet.router().Route(request).status().code() == StatusCode::kUnavailable);
    fleet.clock().AdvanceSeconds(4);
    CHECK(fleet.Route(request).instance == fleet[0]);
    fleet.clock().AdvanceSeconds(2);
    CHECK(ready(1));
  }
  SECTION("the latest mark counts, shorter or longer") {
    set(0, state, 100);
    set(0, state, 1);
    fleet.clock().AdvanceSeconds(2);
    CHECK(ready(0));
    set(0, state, 1);
    set(0, state, 100);
    fleet.clock().AdvanceSeconds(2);
    CHECK_FALSE(ready(0));
    set(0, InstanceState::kReady, 0);
    CHECK(ready(0));
    fleet.clock().AdvanceSeconds(1000);
    CHECK(ready(0));
  }
  SECTION("but not without an end") {
    set(0, state, 1);
    set(0, state, 0);
    fleet.clock().AdvanceSeconds(1e6);
    CHECK_FALSE(ready(0));
  }
}

}  // namespace
}  // namespace prefixrouter::testing
