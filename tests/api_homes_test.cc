// Several routers in front of the same instances (RouterOptions::routers): without a word they
// agree where a session goes, and learn whether that comes true.
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/fleet.h"
#include "tests/support/kv_event_batch.h"

namespace prefixrouter::testing {
namespace {

constexpr uint32_t kBlock = 16;

RouterOptions OneOf(uint32_t routers) {
  RouterOptions options;
  options.routers = routers;
  return options;
}

// Routers of one fleet, with chances of their own.
std::vector<std::unique_ptr<Fleet>> Routers(size_t count, uint32_t told, size_t instances) {
  std::vector<std::unique_ptr<Fleet>> routers;
  for (size_t i = 0; i < count; ++i) {
    RouterOptions options = OneOf(told);
    options.random_seed = i + 1;
    routers.push_back(std::make_unique<Fleet>(instances, options));
  }
  return routers;
}

// Sends the turns of sessions that share a system prompt to one router after the other; returns how
// many sessions stayed on one instance.
int SessionsOnOneInstance(uint32_t told, bool session_keys) {
  const auto routers = Routers(3, told, 8);
  PromptMaker prompts(1);
  const Tokens system = prompts.Random(500);
  for (const auto& router : routers) {  // all know the system prompt
    for (int i = 0; i < 3; ++i) {
      const Tokens prompt = prompts.Extend(system, 100);
      (void)router->Route(Request::FromTokens(prompt));
    }
    router->Drain();
  }
  int whole = 0;
  for (int session = 0; session < 40; ++session) {
    Tokens prompt = prompts.Extend(system, 200);
    std::set<size_t> instances;
    for (int turn = 0; turn < 6; ++turn) {
      Fleet& router = *routers[(static_cast<size_t>(turn) * 2 + 1) % routers.size()];
      const std::string key = "session " + std::to_string(session);
      Request request = Request::FromTokens(prompt);
      if (session_keys) request.session_key = key;
      Lease lease = router.Acquire(request);
      instances.insert(router.IndexOf(lease.instance()));
      FinishInfo info;  // all but what is new
      info.engine_cached_tokens =
          static_cast<int64_t>(turn == 0 ? system.size() : prompt.size() - 200);
      lease.Finish(info);
      prompt = prompts.Extend(prompt, 200);
    }
    if (instances.size() == 1) ++whole;
  }
  return whole;
}

}  // namespace

TEST_CASE("several routers place all turns of a session on one instance", "[api]") {
  const bool session_keys = GENERATE(false, true);
  CAPTURE(session_keys);
  // Not quite all: a first turn may go where its system prompt is.
  CHECK(SessionsOnOneInstance(3, session_keys) >= 30);
  CHECK(SessionsOnOneInstance(1, session_keys) < 10);
}

TEST_CASE("new sessions spread over their homes, and a decision says what its home is worth",
          "[api]") {
  Fleet fleet(8, OneOf(4));
  PromptMaker prompts(2);
  std::map<size_t, int> times;
  for (int i = 0; i < 400; ++i) {
    const Tokens prompt = prompts.Random(640);
    const Request request = Request::FromTokens(prompt);
    double row_tokens = 0;
    for (size_t row = 0; row < fleet.size(); ++row) {
      const double tokens = fleet.Row(row, request).home_tokens;
      if (tokens > 0) CHECK(row_tokens == 0);  // one home
      row_tokens += tokens;
    }
    const Decision decision = fleet.Route(request);
    // Half of the prompt, and three times half of it: nothing is learned yet.
    CHECK(decision.home_tokens == row_tokens);
    CHECK(decision.home_tokens == 4 * 320);
    ++times[fleet.IndexOf(decision.instance)];
    fleet.Drain();
  }
  REQUIRE(times.size() == 8);
  for (const auto& [instance, count] : times) CHECK(count > 20);  // of 50 on average
  const RouterStats stats = fleet.router().Stats();
  CHECK(stats.requests_at_home == 400);
  CHECK(stats.home_share == 0.5);
}

TEST_CASE("a home that is busy gives new sessions away", "[api]") {
  Fleet fleet(4, OneOf(2));
  PromptMaker prompts(3);
  const Tokens prompt = prompts.Random(160);
  const size_t home = fleet.IndexOf(fleet.Acquire(Request::FromTokens(prompt)).instance());
  std::vector<Tokens> others;
  std::vector<Lease> leases;
  for (int i = 0; i < 20; ++i) {
    others.push_back(prompts.Random(1600));
    leases.push_back(fleet.AcquireOn(home, Request::FromTokens(others.back())));
  }
  Tokens other;  // another prompt of the same home
  do {
    other = prompts.Random(160);
  } while (fleet.Row(home, Request::FromTokens(other)).home_tokens == 0);
  const Decision decision = fleet.Route(Request::FromTokens(other));
  CHECK(decision.instance != fleet[home]);
  CHECK(decision.home_tokens == 0);
}

TEST_CASE("what does not come true is not believed for long", "[api]") {
  Fleet fleet(4, OneOf(4));
  PromptMaker prompts(4);
  const auto send = [&](int count, bool found) {
    for (int i = 0; i < count; ++i) {
      const Tokens prompt = prompts.Random(640);
      Lease lease = fleet.Acquire(Request::FromTokens(prompt));
      FinishInfo info;
      info.engine_cached_tokens = found ? 600 : 0;
      lease.Finish(info);
    }
    return fleet.router().Stats().home_share;
  };
  CHECK(send(200, false) < 0.05);
  CHECK(send(200, true) > 0.8);
  // Without a report nothing is learned.
  const double before = fleet.router().Stats().home_share;
  const Tokens prompt = prompts.Random(640);
  fleet.Acquire(Request::FromTokens(prompt)).Finish();
  CHECK(fleet.router().Stats().home_share == before);
}

TEST_CASE("only candidates are homes", "[api]") {
  Fleet fleet(4, OneOf(2));
  PromptMaker prompts(5);
  for (int i = 0; i < 50; ++i) {
    const Tokens prompt = prompts.Random(320);
    Request request = Request::FromTokens(prompt);
    request.allowed = {fleet.ids().data() + 1, 2};
    const Decision decision = fleet.Route(request);
    CHECK(decision.home_tokens > 0);
    CHECK((decision.instance == fleet[1] || decision.instance == fleet[2]));
    fleet.Drain();
  }
  REQUIRE(fleet.router().SetInstanceState(fleet[2], InstanceState::kDraining).ok());
  REQUIRE(fleet.router().RemoveInstance(fleet[1]).ok());
  for (int i = 0; i < 50; ++i) {
    const Tokens prompt = prompts.Random(320);
    const Decision decision = fleet.Route(Request::FromTokens(prompt));
    CHECK((decision.instance == fleet[0] || decision.instance == fleet[3]));
    CHECK(decision.home_tokens > 0);
    fleet.Drain();
  }
}

TEST_CASE("a bound on the time to first token does not move the home", "[api]") {
  Fleet fleet(4, OneOf(2));
  PromptMaker prompts(8);
  const Tokens prompt = prompts.Random(1600);
  Request request = Request::FromTokens(prompt);
  size_t home = 0;
  while (fleet.Row(home, request).home_tokens == 0) ++home;
  const Tokens other = prompts.Random(10'000);
  const std::vector<Lease> busy = fleet.AcquireOn(home, Request::FromTokens(other), 3);
  CHECK(fleet.Row(home, request).home_tokens > 0);
  request.max_ttft_s = 0.5;
  for (size_t i = 0; i < fleet.size(); ++i) CHECK(fleet.Row(i, request).home_tokens == 0);
  CHECK(fleet.Route(request).home_tokens == 0);
  CHECK(fleet.router().Stats().requests_at_home <= busy.size());
  request.max_ttft_s = 0.01;  // nobody
  CHECK(fleet.router().Route(request).status().code() == StatusCode::kResourceExhausted);
}

TEST_CASE("a session key names the home of a session that is rewritten", "[api]") {
  // Other routers have not seen the turns whose reasoning is left out of the next.
  const auto routers = Routers(2, 2, 8);
  PromptMaker prompts(9);
  for (int session = 0; session < 20; ++session) {
    const std::string key = "session " + std::to_string(session);
    const Tokens question = prompts.Random(320);
    std::set<size_t> instances;
    for (int turn = 0; turn < 3; ++turn) {
      for (size_t r = 0; r < (turn == 2 ? 2 : 1); ++r) {
        const Tokens prompt = prompts.Extend(question, 320);
        Request request = Request::FromTokens(prompt);
        request.session_key = key;
        instances.insert(routers[r]->IndexOf(routers[r]->Acquire(request).instance()));
      }
    }
    CHECK(instances.size() == 1);
  }
}

TEST_CASE("where KV events tell that another one holds a session, it does not go home", "[api]") {
  Fleet fleet(4, OneOf(4));
  for (size_t i = 0; i < 4; ++i) {
    EventBatch heartbeat;
    REQUIRE(fleet.router().ApplyKvEvents(fleet[i], heartbeat.Get()).ok());
  }
  PromptMaker prompts(6);
  for (int i = 0; i < 20; ++i) {
    const Tokens prompt = prompts.Random(kBlock * 40);
    const Request request = Request::FromTokens(prompt);
    size_t home = 0;
    while (fleet.Row(home, request).home_tokens == 0) ++home;
    const size_t holder = (home + 1) % 4;
    EventBatch batch;
    const auto first = static_cast<uint64_t>(i) * 100;
    batch.Stored(Ids(first + 1, 30), Head(prompt, kBlock * 30), kBlock);
    REQUIRE(fleet.router().ApplyKvEvents(fleet[holder], batch.Get()).ok());
    const Decision decision = fleet.Route(request);
    CHECK(decision.instance == fleet[holder]);
    CHECK(decision.home_tokens == 0);
    fleet.Drain();

    // Of a session at home more may be on its way there.
    EventBatch at_home;
    at_home.Stored(Ids(first + 1, 30), Head(prompt, kBlock * 30), kBlock);
    REQUIRE(fleet.router().ApplyKvEvents(fleet[home], at_home.Get()).ok());
    CHECK(fleet.Row(home, request).home_tokens == 0.5 * 160 + 3 * 0.5 * 640);
  }
}

TEST_CASE("policies that do not look at what is cached have no homes, but custom ones do",
          "[api]") {
  PromptMaker prompts(7);
  const Tokens prompt = prompts.Random(320);
  RouterOptions options = OneOf(4);
  options.policy = "consistent_hash";
  Fleet hashed(4, options);
  CHECK(hashed.Route(Request::FromTokens(prompt)).home_tokens == 0);
  CHECK(hashed.router().Stats().requests_at_home == 0);
  CHECK(hashed.router().Stats().home_share == 0);

  class Home final : public Policy {
   public:
    const char* name() const override { return "home"; }
    void Score(const PolicyInput& in, float* cost) const override {
      for (size_t i = 0; i < in.size; ++i) cost[i] = i == in.home ? -in.home_tokens : 0;
    }
  };
  options.custom_policy = std::make_shared<Home>();
  Fleet custom(4, options);
  for (int i = 0; i < 20; ++i) {  // what it wants, not where the session was or is at home
    const std::string key = "session " + std::to_string(i);
    const Tokens tokens = prompts.Random(320);
    Request request = Request::FromTokens(tokens);
    request.session_key = key;
    CHECK(custom.Route(request).home_tokens == 4 * 160);
  }
  const Decision decision = custom.Route(Request::FromTokens(prompt));
  CHECK(decision.home_tokens == 4 * 160);
  CHECK(decision.cost.total == -decision.home_tokens);
}

TEST_CASE("routers must be in range, and need one key_seed", "[api]") {
  RouterOptions options;
  const auto message = [&] { return PrefixRouter::Create(options).status().message(); };
  options.key_seed = 1;
  options.routers = 0;
  CHECK(message() == "routers must be 1 to 1000000, got 0");
  options.routers = 1'000'001;
  CHECK(message() == "routers must be 1 to 1000000, got 1000001");
  options.routers = 2;
  CHECK(PrefixRouter::Create(options).ok());
  options.key_seed.reset();
  CHECK(message() == "routers is 2, so key_seed must be set, to the same in all of them");
  options.routers = 1;
  CHECK(PrefixRouter::Create(options).ok());
}

}  // namespace prefixrouter::testing
