// All calls of a router from several threads at once. Each test says what must be true in spite of
// every interleaving, and why; under the thread sanitizer the tests also show that there is no
// race.
//
// Threads count what is wrong; the test checks the counts at the end. Every choice comes from the
// printed seed, but the interleaving does not, so a failure may need several runs to show again.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/build_kind.h"
#include "tests/support/fleet.h"
#include "tests/support/threads.h"

namespace prefixrouter::testing {
namespace {

constexpr uint32_t kBlock = 16;

InstanceOptions Named(const std::string& name) {
  InstanceOptions instance;
  instance.name = name;
  return instance;
}

// Everything at once: instances that come and go, a budget that is always exceeded, sessions,
// masks, leases that are kept, dropped, expired and ended by number.
//
// What must hold: the index is within its budget whenever anyone looks; nothing is ever negative;
// and when all leases have ended, no load is left, because each lease took away exactly what it
// added.
TEST_CASE("After a storm of all calls no load is left", "[stress]") {
  const uint64_t seed = TestSeed(1001);
  CAPTURE(seed);
  const std::string policy = GENERATE(from_range(PolicyNames()));
  CAPTURE(policy);
  RouterOptions options;
  options.routers = 3;
  options.policy = policy;
  options.index_budget_bytes = 1 << 18;
  options.max_sessions = 50;
  options.lease_ttl_s = 5;
  InstanceOptions instance;
  instance.capacity_blocks = 500;
  Fleet fleet(6, options, instance);
  PrefixRouter& router = fleet.router();

  // i0 to i2 stay for the whole test, so that there is always an answer.
  std::mutex changing_mutex;
  std::vector<InstanceId> changing(fleet.ids().begin() + 3, fleet.ids().end());
  std::atomic<size_t> wrong{0};
  std::atomic<uint64_t> acquired{0};
  std::atomic<uint64_t> routed{0};

  PromptMaker maker(seed);
  std::vector<Tokens> family = {maker.Random(kBlock * 30)};
  while (family.size() < 100) {
    const Tokens& parent = family[maker.Below(family.size())];
    family.push_back(
        maker.Extend(Head(parent, maker.Below(parent.size() + 1)), maker.Below(kBlock * 20)));
  }

  RunThreads(4, [&](size_t thread) {
    PromptMaker random(seed * 10 + thread);
    std::vector<Lease> leases;
    for (size_t step = 0; step < Sized(30000u, 3000u); ++step) {
      const Tokens& known = family[random.Below(family.size())];
      const Tokens prompt =
          random.Chance(0.7) ? known : random.Extend(known, random.Below(kBlock * 8));
      Request request = Request::FromTokens(prompt);
      const std::string session = "s" + std::to_string(random.Below(100));
      if (random.Chance(0.3)) request.session_key = session;
      const std::vector<InstanceId> mask = {fleet[0], fleet[random.Below(6)]};
      if (random.Chance(0.2)) request.allowed = mask;

      switch (random.Below(16)) {
        case 0:
        case 1:
        case 2:
        case 3: {
          const Result<Decision> decision = router.Route(request);
          wrong += !decision.ok() || decision->cached_tokens > decision->prompt_tokens ||
                   decision->cached_tokens > decision->best_cached_tokens;
          routed += decision.ok();
          break;
        }
        case 4:
        case 5:
        case 6:
        case 7: {
          Result<Lease> lease = router.Acquire(request);
          wrong += !lease.ok();
          if (!lease.ok()) break;
          ++acquired;
          leases.push_back(*std::move(lease));
          break;
        }
        case 8:
          if (!leases.empty()) leases[random.Below(leases.size())].FirstToken();
          break;
        case 9:
        case 10:
        case 11:
          if (!leases.empty()) {
            std::swap(leases[random.Below(leases.size())], leases.back());
            FinishInfo info;
            info.output_tokens = static_cast<int64_t>(random.Below(500));
            info.engine_cached_tokens = static_cast<int64_t>(random.Below(500));
            if (random.Chance(0.6)) leases.back().Finish(info);
            if (random.Chance(0.3)) leases.back().Cancel();
            // Given up without an end: it expires.
            if (random.Chance(0.1)) leases.back().Release();
            leases.pop_back();
          }
          break;
        case 12: {
          const Result<ScoreTable> table = router.Score(request);
          wrong += !table.ok();
          if (!table.ok()) break;
          for (const ScoreRow& row : table->rows) {
            wrong += row.cached_tokens > table->prompt_tokens || row.requests_in_flight < 0 ||
                     row.pending_tokens < 0;
          }
          break;
        }
        case 13: {
          const RouterStats stats = router.Stats();
          wrong += stats.index_bytes > options.index_budget_bytes;
          wrong += stats.sessions > options.max_sessions;
          wrong += stats.instances.size() < 3;
          for (const InstanceStats& i : stats.instances) {
            wrong += i.requests_in_flight < 0 || i.requests_waiting < 0 || i.pending_tokens < 0 ||
                     i.kv_tokens < 0 || i.fluid_tokens < 0;
          }
          break;
        }
        case 14: {
          EngineLoad load;
          load.running_requests = static_cast<int64_t>(random.Below(30));
          load.kv_usage = 0.5;
          wrong += !router.ReportLoad(fleet[random.Below(3)], load).ok();
          wrong += !router
                        .SetInstanceState(
                            fleet[1],
                            random.Chance(0.5) ? InstanceState::kReady : InstanceState::kDown, 0.05)
                        .ok();
          fleet.clock().AdvanceSeconds(0.02);
          break;
        }
        case 15: {
          const std::lock_guard<std::mutex> lock(changing_mutex);
          const size_t pick = random.Below(changing.size());
          wrong += !router.RemoveInstance(changing[pick]).ok();
          InstanceOptions again = Named("t" + std::to_string(thread) + "s" + std::to_string(step));
          again.capacity_blocks = 500;
          const Result<InstanceId> added = router.AddInstance(again);
          wrong += !added.ok();
          if (added.ok()) changing[pick] = *added;
          break;
        }
      }
      if (leases.size() > 60) leases.erase(leases.begin(), leases.begin() + 30);
    }
  });

  CHECK(wrong.load() == 0);
  fleet.clock().AdvanceSeconds(6);  // those that were given up expire
  const RouterStats stats = router.Stats();
  CHECK(stats.leases_active == 0);
  CHECK(stats.leases_finished + stats.leases_cancelled + stats.leases_expired == acquired);
  CHECK(stats.requests == acquired + routed);
  CHECK(stats.instances.size() == 6);
  for (const InstanceStats& i : stats.instances) {
    CAPTURE(i.name);
    CHECK(i.requests_in_flight == 0);
    CHECK(i.requests_waiting == 0);
    CHECK(i.pending_tokens == 0);
    CHECK(i.kv_tokens == 0);
    // What engines report moves the capacity that the router believes in.
    CHECK(static_cast<double>(i.blocks_held) <=
          static_cast<double>(i.capacity_blocks) * i.capacity_scale + 1);
  }
  uint64_t held = 0;
  for (const InstanceStats& i : stats.instances) held += i.blocks_held;
  CHECK(held == stats.blocks_held);
}

// Threads that route prompts of their own to instances of their choice, with room for everything.
// Such operations commute, so whatever the interleaving, the index must end as if one thread had
// done them all, one after the other.
TEST_CASE("Operations that commute end as in one thread", "[stress]") {
  const uint64_t seed = TestSeed(1002);
  CAPTURE(seed);
  constexpr size_t kThreads = 4;
  constexpr size_t kInstances = 5;
  const size_t steps = Sized(6000u, 1200u);
  PromptMaker maker(seed);
  // All prompts begin with this, so that the threads meet in the same runs.
  const Tokens shared = maker.Random(kBlock * 50);

  const auto prompts_of = [&](size_t thread) {
    PromptMaker random(seed * 10 + thread);
    std::vector<std::pair<size_t, Tokens>> placed;
    for (size_t step = 0; step < steps; ++step) {
      const Tokens& base = placed.empty() || random.Chance(0.3)
                               ? shared
                               : placed[random.Below(placed.size())].second;
      const Tokens head = Head(base, random.Below(std::min<size_t>(base.size(), 3000) + 1));
      placed.emplace_back(random.Below(kInstances), random.Extend(head, random.Below(kBlock * 9)));
    }
    return placed;
  };
  std::vector<std::vector<std::pair<size_t, Tokens>>> work;
  for (size_t t = 0; t < kThreads; ++t) work.push_back(prompts_of(t));

  InstanceOptions roomy;
  roomy.capacity_blocks = 10'000'000;
  Fleet concurrent(kInstances, {}, roomy);
  std::atomic<size_t> wrong{0};
  RunThreads(kThreads, [&](size_t thread) {
    for (const auto& [instance, prompt] : work[thread]) {
      const InstanceId only = concurrent[instance];
      Request request = Request::FromTokens(prompt);
      request.allowed = {&only, 1};
      // Read your writes: what this call stored is there when it returns. No other thread can take
      // it away.
      wrong += !concurrent.router().Route(request).ok();
      const Result<Decision> again = concurrent.router().Route(request);
      wrong += !again.ok() || again->cached_tokens != prompt.size() / kBlock * kBlock;
    }
  });
  CHECK(wrong.load() == 0);

  Fleet sequential(kInstances, {}, roomy);
  for (const auto& of_thread : work) {
    for (const auto& [instance, prompt] : of_thread) {
      sequential.Place(instance, Request::FromTokens(prompt));
    }
  }
  const RouterStats found = concurrent.router().Stats();
  const RouterStats expected = sequential.router().Stats();
  CHECK(found.index_blocks == expected.index_blocks);
  CHECK(found.index_runs == expected.index_runs);
  CHECK(found.blocks_held == expected.blocks_held);
  CHECK(found.index_bytes == expected.index_bytes);
  CHECK(found.blocks_evicted == 0);
  size_t different = 0;
  for (const auto& of_thread : work) {
    for (size_t i = 0; i < of_thread.size(); i += 7) {
      const Request request = Request::FromTokens(of_thread[i].second);
      const Result<ScoreTable> a = concurrent.router().Score(request);
      const Result<ScoreTable> b = sequential.router().Score(request);
      REQUIRE(a.ok());
      REQUIRE(b.ok());
      for (size_t row = 0; row < kInstances; ++row) {
        different += a->rows[row].cached_tokens != b->rows[row].cached_tokens;
      }
    }
  }
  CHECK(different == 0);
}

// One thread removes instances; the others route. A removal that has returned is seen by every call
// that begins later, so an id that was published as removed before a call never comes out of it.
TEST_CASE("A removed instance is never chosen by a later call", "[stress]") {
  const uint64_t seed = TestSeed(1003);
  CAPTURE(seed);
  const std::string policy =
      GENERATE(as<std::string>(), "prefix_cost", "consistent_hash", "round_robin", "power_of_two");
  CAPTURE(policy);
  RouterOptions options;
  options.policy = policy;
  Fleet fleet(8, options);
  const size_t removals = Sized(4000u, 1000u);
  // removed[0, removed_count) may be read by anyone: an element is written before it is counted.
  std::vector<uint64_t> removed(removals);
  std::atomic<size_t> removed_count{0};
  std::atomic<size_t> wrong{0};
  std::atomic<size_t> calls{0};
  PromptMaker maker(seed);
  const Tokens shared = maker.Random(kBlock * 10);

  RunThreads(4, [&](size_t thread) {
    PromptMaker random(seed * 10 + thread);
    if (thread == 0) {
      std::vector<InstanceId> live = fleet.ids();
      for (size_t i = 0; i < removals; ++i) {
        InstanceId& victim = live[random.Below(live.size())];
        wrong += !fleet.router().RemoveInstance(victim).ok();
        removed[i] = victim.value;
        removed_count.store(i + 1);
        const Result<InstanceId> added =
            fleet.router().AddInstance(Named("again " + std::to_string(i)));
        wrong += !added.ok();
        if (!added.ok()) return;
        victim = *added;
        // Gives the others a chance to see this one.
        while (calls.load() < i * 2) std::this_thread::yield();
      }
      return;
    }
    std::unordered_set<uint64_t> known_removed;
    size_t read = 0;
    while (read < removals) {
      const size_t count = removed_count.load();
      for (; read < count; ++read) known_removed.insert(removed[read]);
      const Tokens prompt = random.Extend(shared, random.Below(200));
      Request request = Request::FromTokens(prompt);
      const std::string session = "s" + std::to_string(random.Below(20));
      if (random.Chance(0.5)) request.session_key = session;
      if (random.Chance(0.5)) {
        const Result<Decision> decision = fleet.router().Route(request);
        wrong += !decision.ok() || known_removed.count(decision->instance.value) != 0 ||
                 known_removed.count(decision->runner_up.value) != 0;
      } else {
        const Result<Lease> lease = fleet.router().Acquire(request);
        wrong += !lease.ok() || known_removed.count(lease->instance().value) != 0;
      }
      ++calls;
    }
  });
  CHECK(wrong.load() == 0);
  CHECK(calls.load() >= removals);
  const RouterStats stats = fleet.router().Stats();
  CHECK(stats.instances.size() == 8);
  CHECK(stats.leases_active == 0);
}

// Several threads end the same leases by number. Each lease has one end, so over all threads
// exactly one call is told that it made it, and exactly one that it reported the first token.
TEST_CASE("Of many calls that end one lease exactly one succeeds", "[stress]") {
  const uint64_t seed = TestSeed(1004);
  CAPTURE(seed);
  constexpr size_t kThreads = 4;
  const size_t count = Sized(20000u, 5000u);
  PromptMaker prompts(seed);
  Fleet fleet(3);
  const Tokens prompt = prompts.Random(200);
  std::vector<LeaseId> leases;
  std::vector<uint64_t> numbers;
  for (size_t i = 0; i < count; ++i) {
    leases.push_back(fleet.Acquire(Request::FromTokens(prompt)).Release());
    numbers.push_back(leases.back().value);
  }
  std::sort(numbers.begin(), numbers.end());
  REQUIRE(std::adjacent_find(numbers.begin(), numbers.end()) == numbers.end());

  std::vector<std::atomic<int>> ended(count);
  std::vector<std::atomic<int>> first_tokens(count);
  std::atomic<uint64_t> finished{0};
  RunThreads(kThreads, [&](size_t thread) {
    for (size_t i = 0; i < count; ++i) {
      first_tokens[i] += fleet.router().FirstToken(leases[i]);
      if ((i + thread) % 2 == 0) {
        const bool ended_here = fleet.router().Finish(leases[i]);
        ended[i] += ended_here;
        finished += ended_here;
      } else {
        ended[i] += fleet.router().Cancel(leases[i]);
      }
    }
  });
  size_t wrong = 0;
  for (size_t i = 0; i < count; ++i) {
    wrong += ended[i] != 1;
    wrong += first_tokens[i] > 1;
  }
  CHECK(wrong == 0);
  const RouterStats stats = fleet.router().Stats();
  CHECK(stats.leases_active == 0);
  CHECK(stats.leases_finished == finished);
  CHECK(stats.leases_finished + stats.leases_cancelled == count);
  for (size_t i = 0; i < 3; ++i) CHECK(fleet.InFlight(i) == 0);
}

// Concurrent cold requests of equal length. Score, choice and reservation are one step, so each
// request sees all that were placed before it, and the counts differ by at most one: no herd.
TEST_CASE("Concurrent cold requests do not form a herd", "[stress]") {
  const uint64_t seed = TestSeed(1005);
  CAPTURE(seed);
  for (int round = 0; round < Sized(20, 3); ++round) {
    Fleet fleet(7);
    std::atomic<size_t> wrong{0};
    std::vector<std::vector<Lease>> leases(4);
    RunThreads(4, [&](size_t thread) {
      PromptMaker random(seed * 1000 + static_cast<uint64_t>(round) * 10 + thread);
      for (int i = 0; i < 175; ++i) {
        const Tokens prompt = random.Random(640);
        Result<Lease> lease = fleet.router().Acquire(Request::FromTokens(prompt));
        wrong += !lease.ok();
        if (lease.ok()) leases[thread].push_back(*std::move(lease));
      }
    });
    CHECK(wrong.load() == 0);
    const std::vector<uint64_t> counts = fleet.RequestCounts();
    CAPTURE(counts);
    CHECK(Spread(counts) <= 1);
  }
}

// New prompts behind one system prompt, on instances so small that it is evicted again and again:
// each thread hashes ahead by what it remembers of a prefix that others make known, evict and
// divide meanwhile.
//
// What must hold: where nothing is evicted, every prompt is held whole by its instance. Where it
// is, what an instance holds of any prompt is what its blocks are, so a prompt with another
// beginning finds nothing.
TEST_CASE("Threads that share a prefix keep what each of them has routed", "[stress]") {
  const uint64_t seed = TestSeed(1007);
  CAPTURE(seed);
  for (const uint32_t capacity_blocks : {300u, 1u << 30}) {
    RouterOptions options;
    options.index_budget_bytes = size_t{64} << 20;
    InstanceOptions instance;
    instance.capacity_blocks = capacity_blocks;
    Fleet fleet(4, options, instance);
    const Tokens head = PromptMaker(seed).Random(1000);
    std::atomic<size_t> wrong{0};
    std::vector<std::vector<std::pair<Tokens, InstanceId>>> routed(4);
    RunThreads(4, [&](size_t thread) {
      PromptMaker random(seed * 10 + thread);
      for (int i = 0; i < Sized(2000, 200); ++i) {
        Tokens prompt = random.Extend(head, random.Below(600));
        const Result<Decision> decision = fleet.router().Route(Request::FromTokens(prompt));
        wrong += !decision.ok();
        if (decision.ok()) routed[thread].emplace_back(std::move(prompt), decision->instance);
        Tokens other = random.Random(700);
        const Result<ScoreTable> table = fleet.router().Score(Request::FromTokens(other));
        wrong += !table.ok();
        if (!table.ok()) continue;
        for (const ScoreRow& row : table->rows) wrong += row.cached_tokens != 0;
      }
    });
    if (capacity_blocks > 300) {
      for (const auto& of_thread : routed) {
        for (const auto& [prompt, id] : of_thread) {
          const uint64_t whole = prompt.size() / kBlock * kBlock;
          wrong += fleet.CachedTokens(fleet.IndexOf(id), Request::FromTokens(prompt)) != whole;
        }
      }
    }
    CHECK(wrong.load() == 0);
    CHECK((fleet.router().Stats().blocks_evicted > 0) == (capacity_blocks == 300));
  }
}

// Statistics are one consistent copy: every total equals the sum of its parts at the same moment,
// whatever the other threads do.
TEST_CASE("Statistics are consistent in the middle of the work", "[stress]") {
  const uint64_t seed = TestSeed(1006);
  CAPTURE(seed);
  InstanceOptions small;
  small.capacity_blocks = 200;
  Fleet fleet(4, {}, small);
  std::atomic<bool> done{false};
  std::atomic<size_t> working{3};
  std::atomic<size_t> wrong{0};
  std::atomic<size_t> observations{0};
  RunThreads(4, [&](size_t thread) {
    if (thread == 0) {
      while (!done.load()) {
        const RouterStats stats = fleet.router().Stats();
        uint64_t in_flight = 0, held = 0, requests = 0, prompt_tokens = 0, cached_tokens = 0;
        for (const InstanceStats& i : stats.instances) {
          in_flight += static_cast<uint64_t>(i.requests_in_flight);
          held += i.blocks_held;
          requests += i.requests;
          prompt_tokens += i.prompt_tokens;
          cached_tokens += i.cached_tokens;
          wrong += i.blocks_held > i.capacity_blocks;
          wrong += i.requests_waiting > i.requests_in_flight;
        }
        wrong += in_flight != stats.leases_active;
        wrong += held != stats.blocks_held;
        wrong += requests != stats.requests;
        wrong += prompt_tokens != stats.prompt_tokens;
        wrong += cached_tokens != stats.cached_tokens;
        uint64_t by_rule = 0;
        for (uint64_t count : stats.decisions_by_rule) by_rule += count;
        wrong += by_rule != stats.requests;
        ++observations;
      }
      return;
    }
    PromptMaker random(seed * 10 + thread);
    std::vector<Lease> leases;
    for (size_t i = 0; i < Sized(15000u, 3000u) || (observations <= kEnough && wrong == 0); ++i) {
      const Tokens prompt = random.Random(random.Below(400));
      Result<Lease> lease = fleet.router().Acquire(Request::FromTokens(prompt));
      wrong += !lease.ok();
      if (lease.ok()) leases.push_back(*std::move(lease));
      if (!leases.empty() && random.Chance(0.3)) leases.back().FirstToken();
      if (leases.size() > 20) leases.erase(leases.begin(), leases.begin() + 10);
    }
    if (--working == 0) done.store(true);
  });
  CHECK(wrong.load() == 0);
  CHECK(observations.load() > kEnough);
}

}  // namespace
}  // namespace prefixrouter::testing
