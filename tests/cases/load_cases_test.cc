// What broke in other routers when requests pile up: uneven load, hot spots, ties that are always
// broken the same way, counts that drift.
//
// Each test restates one public report (named above it) as input and right result, and checks the
// whole kind of fault rather than the one example. The tag [case-NN] is the number that docs and
// commit messages use. Masks, states and reports are in choice_cases_test.cc.
#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/build_kind.h"
#include "tests/support/fleet.h"
#include "tests/support/measure.h"

namespace prefixrouter::testing {
namespace {

RouterOptions WithPolicy(const std::string& name) {
  RouterOptions options;
  options.policy = name;
  return options;
}

// sglang 14305: an instance with an empty tree got nearly all of the unique prompts (or none).
// 4 equal instances, one of them empty, 100 unique prompts: each within 20 % of even.
TEST_CASE("An empty instance among warm ones gets its even share of unique prompts",
          "[cases][case-18]") {
  const size_t empty = GENERATE(0, 2, 3);
  const bool with_lease = GENERATE(true, false);
  const uint64_t seed = TestSeed(18) + GENERATE(0, 1, 2);
  CAPTURE(empty, with_lease, seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  options.random_seed = seed;
  Fleet fleet(4, options);
  for (int i = 0; i < 300; ++i) {
    const size_t warm = (empty + 1 + prompts.Below(3)) % 4;
    fleet.Place(warm, Request::FromTokens(prompts.Random(64 + prompts.Below(2000))));
  }
  fleet.Drain();
  const std::vector<uint64_t> before = fleet.RequestCounts();

  std::vector<Lease> leases;
  for (int i = 0; i < 100; ++i) {
    const Tokens prompt = prompts.Random(1000);
    if (with_lease) {
      leases.push_back(fleet.Acquire(Request::FromTokens(prompt)));
    } else {
      fleet.Route(Request::FromTokens(prompt));
    }
  }
  const std::vector<uint64_t> after = fleet.RequestCounts();
  for (size_t i = 0; i < 4; ++i) {
    CAPTURE(i);
    CHECK(after[i] - before[i] >= 20);
    CHECK(after[i] - before[i] <= 30);
  }
}

// The distribution of 1,000 unique prompts over 4 instances, each finished before the next.
// speedup: the engines' true prefill rate relative to the configured one.
std::vector<uint64_t> SequentialCounts(Fleet& fleet, PromptMaker& prompts, bool first_tokens,
                                       double speedup) {
  for (int i = 0; i < 1000; ++i) {
    const Tokens prompt = prompts.Random(500);
    Lease lease = fleet.Acquire(Request::FromTokens(prompt));
    if (first_tokens) {
      fleet.clock().AdvanceSeconds(500 / (10000 * speedup));
      lease.FirstToken();
    }
    fleet.clock().AdvanceSeconds(0.2);
    lease.Finish();
  }
  return fleet.RequestCounts();
}

// smg 1714, dynamo 6253: ties were always broken in favour of the first instance.
// 1,000 unique prompts, each finished before the next, 4 instances: each gets 200 to 300; the same
// sequence for the same seed, uniform over seeds.
TEST_CASE("Ties between idle instances are broken evenly", "[cases][case-19]") {
  const uint64_t seed = TestSeed(19);
  CAPTURE(seed);

  SECTION("whatever the router is told about the requests") {
    const bool first_tokens = GENERATE(false, true);
    // Engines that are faster or slower than configured: the first one whose rate is known must not
    // win or lose every tie from then on.
    const double speedup = GENERATE(1.0, 2.0, 0.5);
    CAPTURE(first_tokens, speedup);
    PromptMaker prompts(seed);
    Fleet fleet(4);
    for (uint64_t count : SequentialCounts(fleet, prompts, first_tokens, speedup)) {
      CHECK(count >= 200);
      CHECK(count <= 300);
    }
  }

  SECTION("without leases, when the work has drained") {
    PromptMaker prompts(seed);
    Fleet fleet(4);
    for (int i = 0; i < 1000; ++i) {
      fleet.Route(Request::FromTokens(prompts.Random(500)));
      fleet.clock().AdvanceSeconds(1);
    }
    for (uint64_t count : fleet.RequestCounts()) {
      CHECK(count >= 200);
      CHECK(count <= 300);
    }
  }

  SECTION("equally for equal seeds, differently for others") {
    std::map<uint64_t, std::vector<InstanceId>> sequences;
    for (int run = 0; run < 2; ++run) {
      for (uint64_t random_seed = 1; random_seed <= 3; ++random_seed) {
        PromptMaker prompts(seed);
        RouterOptions options;
        options.random_seed = random_seed;
        Fleet fleet(4, options);
        std::vector<InstanceId> sequence;
        for (int i = 0; i < 200; ++i) {
          Lease lease = fleet.Acquire(Request::FromTokens(prompts.Random(500)));
          sequence.push_back(lease.instance());
        }
        if (run == 0) {
          sequences[random_seed] = sequence;
        } else {
          CHECK(sequences[random_seed] == sequence);
        }
      }
    }
    CHECK(sequences[1] != sequences[2]);
    CHECK(sequences[2] != sequences[3]);
  }

  SECTION("uniformly over seeds") {
    constexpr size_t kSeeds = 400;
    constexpr size_t kInstances = 4;
    std::vector<uint64_t> first(kInstances, 0);
    std::vector<uint64_t> all(kInstances, 0);
    for (size_t i = 0; i < kSeeds; ++i) {
      RouterOptions options;
      options.random_seed = seed + i;
      Fleet fleet(kInstances, options);
      PromptMaker prompts(seed);
      for (int request = 0; request < 10; ++request) {
        Lease lease = fleet.Acquire(Request::FromTokens(prompts.Random(500)));
        const size_t index = fleet.IndexOf(lease.instance());
        if (request == 0) ++first[index];
        ++all[index];
      }
    }
    CAPTURE(first, all);
    CHECK(ChiSquareUniform(first) < ChiSquareLimit(kInstances - 1));
    CHECK(ChiSquareUniform(all) < ChiSquareLimit(kInstances - 1));
  }
}

// sglang 15473, llm-d 1950: in-flight counters leaked, or went below zero.
// Acquire 10 without finishing: in-flight sums to 10; after finish or cancel it is 0; a second
// finish is harmless. Then the same for a random history against plain counters.
TEST_CASE("In-flight counts follow every end of a lease exactly once", "[cases][case-20]") {
  const uint64_t seed = TestSeed(20);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(3);
  const auto in_flight_sum = [&] {
    int64_t sum = 0;
    for (size_t i = 0; i < fleet.size(); ++i) sum += fleet.InFlight(i);
    return sum;
  };

  std::vector<Lease> leases;
  for (int i = 0; i < 10; ++i) {
    leases.push_back(fleet.Acquire(Request::FromTokens(prompts.Random(300))));
  }
  CHECK(in_flight_sum() == 10);
  CHECK(fleet.router().Stats().leases_active == 10);
  for (size_t i = 0; i < leases.size(); ++i) {
    CHECK((i % 2 == 0 ? leases[i].Finish() : leases[i].Cancel()));
    CHECK(in_flight_sum() == static_cast<int64_t>(9 - i));
    CHECK_FALSE(leases[i].Finish());
    CHECK_FALSE(leases[i].Cancel());
    CHECK_FALSE(leases[i].FirstToken());
    CHECK_FALSE(fleet.router().Finish(leases[i].id()));
    CHECK(in_flight_sum() == static_cast<int64_t>(9 - i));
  }

  // A random history. counts: what must be in flight, by instance.
  struct Open {
    Lease lease;
    size_t instance;
    bool first_token;
  };
  std::vector<Open> open;
  std::vector<int64_t> counts(fleet.size(), 0);
  std::vector<int64_t> waiting(fleet.size(), 0);
  size_t wrong = 0;
  for (size_t step = 0; step < Sized(20000u, 2000u); ++step) {
    const uint64_t action = prompts.Below(8);
    if (action < 3 || open.empty()) {
      Lease lease = fleet.Acquire(Request::FromTokens(prompts.Random(prompts.Below(100))));
      const size_t instance = fleet.IndexOf(lease.instance());
      ++counts[instance];
      ++waiting[instance];
      open.push_back({std::move(lease), instance, false});
    } else {
      const size_t pick = prompts.Below(open.size());
      Open& chosen = open[pick];
      if (action == 3) {
        wrong += chosen.lease.FirstToken() != !chosen.first_token;
        waiting[chosen.instance] -= !chosen.first_token;
        chosen.first_token = true;
      } else {
        --counts[chosen.instance];
        waiting[chosen.instance] -= !chosen.first_token;
        if (action == 4) wrong += !chosen.lease.Finish();
        if (action == 5) wrong += !chosen.lease.Cancel();
        if (action == 6) wrong += !fleet.router().Finish(chosen.lease.Release());
        // Otherwise it is ended by its destruction.
        std::swap(chosen, open.back());
        open.pop_back();
      }
    }
    for (size_t i = 0; i < fleet.size(); ++i) {
      const InstanceStats stats = fleet.StatsOf(i);
      wrong += stats.requests_in_flight != counts[i];
      wrong += stats.requests_waiting != waiting[i];
      wrong += stats.pending_tokens < 0 || stats.kv_tokens < 0;
      wrong += counts[i] == 0 && (stats.pending_tokens != 0 || stats.kv_tokens != 0);
    }
  }
  CHECK(wrong == 0);
  open.clear();
  CHECK(in_flight_sum() == 0);
  CHECK(fleet.router().Stats().leases_active == 0);
}

// sglang 32195: one overloaded worker switched the whole fleet to shortest-queue.
// C is overloaded, the prompt's prefix is on healthy A: A gets it.
TEST_CASE("An overload elsewhere does not throw affinity away", "[cases][case-21]") {
  const bool reported = GENERATE(false, true);
  CAPTURE(reported);
  const uint64_t seed = TestSeed(21);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(3);
  const Tokens prefix = prompts.Random(2000);
  const Tokens prompt = prompts.Extend(prefix, 200);
  fleet.Place(0, Request::FromTokens(prefix));
  fleet.Drain();

  std::vector<Lease> overload;
  if (reported) {
    EngineLoad load;
    load.running_requests = 64;
    load.waiting_requests = 500;
    load.kv_usage = 1;
    REQUIRE(fleet.router().ReportLoad(fleet[2], load).ok());
  } else {
    for (int i = 0; i < 200; ++i) {
      overload.push_back(fleet.AcquireOn(2, Request::FromTokens(prompts.Random(4000))));
    }
  }
  const Decision decision = fleet.Route(Request::FromTokens(prompt));
  CHECK(decision.instance == fleet[0]);
  CHECK(decision.cached_tokens == 2000);
}

// sglang 6164, ray 64326: short and empty prompts failed, or all went to one worker.
// Prompts shorter than a block, and empty ones: match 0, spread by load, no error.
TEST_CASE("Prompts without a full block are routed by load", "[cases][case-22]") {
  const size_t length = GENERATE(0, 1, 8, 15);
  const int form = GENERATE(0, 1, 2);
  CAPTURE(length, form);
  const uint64_t seed = TestSeed(22);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  const Tokens tokens = prompts.Random(length);
  const std::string text = prompts.RandomBytes(length);
  Request request;
  if (form == 0) request = Request::FromTokens(tokens);
  if (form == 1) request = Request::FromText(text);
  if (form == 2) request = Request::FromBlockKeys({}, length);

  SECTION("with leases") {
    Fleet fleet(4);
    std::vector<Lease> leases;
    for (int i = 0; i < 400; ++i) {
      leases.push_back(fleet.Acquire(request));
      CHECK(leases.back().decision().cached_tokens == 0);
      CHECK(leases.back().decision().best_cached_tokens == 0);
    }
    // The same tiny prompt again and again: fewest in flight decides, so the spread is at most 1.
    CHECK(Spread(fleet.RequestCounts()) <= 1);
    CHECK(fleet.router().Stats().index_blocks == 0);
  }
  SECTION("without leases") {
    Fleet fleet(4);
    for (int i = 0; i < 400; ++i) CHECK(fleet.Route(request).cached_tokens == 0);
    for (uint64_t count : fleet.RequestCounts()) {
      CHECK(count >= 60);
      CHECK(count <= 140);
    }
  }
}

// dynamo 737, vllm router 179: everything that begins with the system prompt went to one worker.
// One shared system prompt on A, 800 requests, at most 100 in flight an instance: no instance above
// twice the mean.
TEST_CASE("A shared system prompt does not draw all requests to its holder", "[cases][case-23]") {
  constexpr size_t kInstances = 8;
  constexpr size_t kRequests = 800;
  constexpr int64_t kMostInFlight = 100;
  const size_t system_tokens = GENERATE(512, 2048, 16384);
  CAPTURE(system_tokens);
  const uint64_t seed = TestSeed(23);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(kInstances);
  const Tokens system_prompt = prompts.Random(system_tokens);
  fleet.Place(0, Request::FromTokens(system_prompt));
  fleet.Drain();
  const std::vector<InstanceStats> before = fleet.router().Stats().instances;
  std::vector<Lease> leases;

  SECTION("in one burst") {
    for (size_t i = 0; i < kRequests; ++i) {
      leases.push_back(fleet.Acquire(Request::FromTokens(prompts.Extend(system_prompt, 256))));
    }
  }
  SECTION("in a stream that keeps the fleet busy") {
    // Each engine prefills one request after the other and decodes for 5 s.
    struct Running {
      Lease lease;
      double prefilled_at;
      bool first_token;
    };
    std::vector<std::deque<Running>> engines(kInstances);
    std::vector<double> free_at(kInstances, 0);
    std::vector<InstanceId> allowed;
    double now = 0;
    for (size_t i = 0; i < kRequests; ++i) {
      now += 0.002;
      fleet.clock().AdvanceSeconds(0.002);
      allowed.clear();
      for (size_t e = 0; e < kInstances; ++e) {
        for (Running& running : engines[e]) {
          if (!running.first_token && running.prefilled_at <= now) {
            running.first_token = running.lease.FirstToken();
          }
        }
        while (!engines[e].empty() && engines[e].front().prefilled_at + 5 <= now) {
          engines[e].front().lease.Finish();
          engines[e].pop_front();
        }
        if (static_cast<int64_t>(engines[e].size()) < kMostInFlight) allowed.push_back(fleet[e]);
      }
      if (allowed.empty()) continue;
      const Tokens prompt = prompts.Extend(system_prompt, 256);
      Request request = Request::FromTokens(prompt);
      request.allowed = allowed;
      Lease lease = fleet.Acquire(request);
      const size_t e = fleet.IndexOf(lease.instance());
      const double work_s = static_cast<double>(lease.decision().uncached_tokens()) / 10000;
      free_at[e] = std::max(free_at[e], now) + work_s;
      engines[e].push_back({std::move(lease), free_at[e], false});
    }
    // Ended here, while the fleet is still there.
    engines.clear();
  }

  const std::vector<InstanceStats> after = fleet.router().Stats().instances;
  uint64_t requests = 0, most_requests = 0, work = 0, most_work = 0;
  for (size_t i = 0; i < kInstances; ++i) {
    const uint64_t of_instance = after[i].requests - before[i].requests;
    const uint64_t uncached = (after[i].prompt_tokens - after[i].cached_tokens) -
                              (before[i].prompt_tokens - before[i].cached_tokens);
    requests += of_instance;
    most_requests = std::max(most_requests, of_instance);
    work += uncached;
    most_work = std::max(most_work, uncached);
  }
  CAPTURE(requests, most_requests, work, most_work);
  CHECK(requests >= kRequests / 2);
  CHECK(most_work * kInstances <= 2 * work);
  // A system prompt as long as 64 of these requests is worth waiting for, as long as the work is
  // even.
  if (system_tokens < 16384) CHECK(most_requests * kInstances <= 2 * requests);
}

// vllm router 215: the load of clients that had gone stayed for ever.
// Client gone: cancel, or the lease's expiry, returns the load to 0.
TEST_CASE("The load of a client that went away returns to zero", "[cases][case-25]") {
  const uint64_t seed = TestSeed(25);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  options.lease_ttl_s = 30;
  Fleet fleet(1, options);
  const bool first_token = GENERATE(false, true);
  CAPTURE(first_token);
  Request request;
  const Tokens prompt = prompts.Random(1000);
  request = Request::FromTokens(prompt);
  request.expected_output_tokens = 500;
  const auto check_idle = [&] {
    const InstanceStats stats = fleet.StatsOf(0);
    CHECK(stats.requests_in_flight == 0);
    CHECK(stats.requests_waiting == 0);
    CHECK(stats.pending_tokens == 0);
    CHECK(stats.kv_tokens == 0);
    CHECK(fleet.router().Stats().leases_active == 0);
    const ScoreRow row = fleet.Row(0, request);
    CHECK(row.requests_in_flight == 0);
    CHECK(row.pending_tokens == 0);
  };

  SECTION("by cancelling") {
    Lease lease = fleet.Acquire(request);
    if (first_token) lease.FirstToken();
    CHECK(fleet.StatsOf(0).kv_tokens >= 1000);
    CHECK(lease.Cancel());
    check_idle();
    CHECK(fleet.router().Stats().leases_cancelled == 1);
  }
  SECTION("by forgetting the object") {
    { Lease lease = fleet.Acquire(request); }
    check_idle();
    CHECK(fleet.router().Stats().leases_cancelled == 1);
  }
  SECTION("by expiry") {
    Lease kept = fleet.Acquire(request);
    const LeaseId by_number = fleet.Acquire(request).Release();
    if (first_token) {
      kept.FirstToken();
      fleet.router().FirstToken(by_number);
    }
    fleet.clock().AdvanceSeconds(29);
    CHECK(fleet.InFlight(0) == 2);
    Lease later = fleet.Acquire(request);  // has its own 30 s
    CHECK(fleet.InFlight(0) == 3);
    fleet.clock().AdvanceSeconds(2);
    CHECK(fleet.InFlight(0) == 1);
    CHECK(fleet.router().Stats().leases_expired == 2);
    CHECK_FALSE(kept.Finish());
    CHECK_FALSE(fleet.router().Finish(by_number));
    CHECK(later.Finish());
    check_idle();
    CHECK(fleet.router().Stats().leases_finished == 1);
  }
  SECTION("by expiry that only Score sees") {
    const LeaseId forgotten = fleet.Acquire(request).Release();
    CHECK(forgotten.valid());
    fleet.clock().AdvanceSeconds(31);
    check_idle();
  }
}

// production-stack 1035: a prefix match won against any queue.
// A matches 30 % under a load of 50, B 0 % and idle: B. A matches 90 % under a load of 1: A.
TEST_CASE("A small match loses against a queue and a large one wins against one request",
          "[cases][case-26]") {
  const uint64_t seed = TestSeed(26);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  const size_t length = GENERATE(1000, 4096, 32768);
  CAPTURE(length);
  const Tokens prompt = prompts.Random(length);
  const Request request = Request::FromTokens(prompt);

  SECTION("30 percent and 50 requests") {
    const bool prefilled = GENERATE(false, true);
    CAPTURE(prefilled);
    Fleet fleet(2);
    fleet.Place(0, Request::FromTokens(Head(prompt, length * 3 / 10)));
    fleet.Drain();
    std::vector<Lease> load;
    for (int i = 0; i < 50; ++i) {
      load.push_back(fleet.AcquireOn(0, Request::FromTokens(prompts.Random(length))));
    }
    if (prefilled) {
      // Half of them are past their prefill.
      fleet.clock().AdvanceSeconds(static_cast<double>(length) * 25 / 10000);
      for (size_t i = 0; i < 25; ++i) load[i].FirstToken();
    }
    CHECK(fleet.Route(request).instance == fleet[1]);
  }
  SECTION("90 percent and one request") {
    const bool prefilled = GENERATE(false, true);
    CAPTURE(prefilled);
    Fleet fleet(2);
    fleet.Place(0, Request::FromTokens(Head(prompt, length * 9 / 10)));
    fleet.Drain();
    Lease load = fleet.AcquireOn(0, Request::FromTokens(prompts.Random(length / 2)));
    if (prefilled) {
      fleet.clock().AdvanceSeconds(static_cast<double>(length) / 2 / 10000);
      load.FirstToken();
    }
    CHECK(fleet.Route(request).instance == fleet[0]);
  }
}

// aibrix 1393: the most loaded pod was picked again.
// Loads {3, 0, 0}, unique prompts: the loaded instance gets none until the others have reached 3.
TEST_CASE("A loaded instance gets nothing until the others have caught up", "[cases][case-27]") {
  const std::string policy =
      GENERATE(as<std::string>(), "prefix_cost", "least_requests", "least_tokens");
  const size_t loaded = GENERATE(0, 1, 2);
  const bool prefilled = GENERATE(false, true);
  const size_t length = GENERATE(10, 16, 100, 3000);
  CAPTURE(policy, loaded, prefilled, length);
  const uint64_t seed = TestSeed(27);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(3, WithPolicy(policy));
  std::vector<Lease> leases;
  const auto acquired = [&](Lease lease) {
    if (prefilled) {
      fleet.clock().AdvanceSeconds(static_cast<double>(length) / 10000);
      lease.FirstToken();
    }
    const size_t index = fleet.IndexOf(lease.instance());
    leases.push_back(std::move(lease));
    return index;
  };
  for (int i = 0; i < 3; ++i) {
    acquired(fleet.AcquireOn(loaded, Request::FromTokens(prompts.Random(length))));
  }
  for (int i = 0; i < 6; ++i) {
    CAPTURE(i);
    CHECK(acquired(fleet.Acquire(Request::FromTokens(prompts.Random(length)))) != loaded);
  }
  for (size_t i = 0; i < 3; ++i) CHECK(fleet.InFlight(i) == 3);
}

// tpu-inference 3307: one matching block outweighed a busy rank.
// A match of one block on a busy rank, the other rank idle: the idle rank.
TEST_CASE("One matching block does not send a request to a busy rank", "[cases][case-28]") {
  struct Setting {
    uint32_t block_size;
    size_t blocks;  // of the prompt
  };
  const Setting setting = GENERATE(Setting{16, 256}, Setting{256, 1}, Setting{256, 16});
  const int busy_with = GENERATE(0, 1, 2);
  CAPTURE(setting.block_size, setting.blocks, busy_with);
  const uint64_t seed = TestSeed(28);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  options.block_size = setting.block_size;
  Fleet fleet(0, options);
  InstanceOptions rank;
  rank.name = "server";
  const InstanceId busy = fleet.router().AddInstance(rank).value_or(InstanceId{});
  rank.rank = 1;
  const InstanceId idle = fleet.router().AddInstance(rank).value_or(InstanceId{});
  REQUIRE(busy.valid());
  REQUIRE(idle.valid());

  const Tokens prompt = prompts.Random(setting.block_size * setting.blocks);
  const auto on_busy = [&](const Tokens& tokens) {
    Request request = Request::FromTokens(tokens);
    request.allowed = {&busy, 1};
    return fleet.Acquire(request);
  };
  { Lease first_block = on_busy(Head(prompt, setting.block_size)); }
  std::vector<Lease> load;
  if (busy_with == 0) {
    load.push_back(on_busy(prompts.Random(4096)));
  } else if (busy_with == 1) {
    for (int i = 0; i < 8; ++i) load.push_back(on_busy(prompts.Random(512)));
  } else {
    EngineLoad report;
    report.running_requests = 8;
    report.waiting_requests = 20;
    REQUIRE(fleet.router().ReportLoad(busy, report).ok());
  }
  const Decision decision = fleet.Route(Request::FromTokens(prompt));
  CHECK(decision.best_cached_tokens == setting.block_size);
  CHECK(decision.instance == idle);
}

// Infera 103: short requests that share their first block all went to one instance.
// 448 short sequential requests that share one block: more than one instance is used.
TEST_CASE("Short requests that share one block use more than one instance", "[cases][case-29]") {
  const uint32_t block_size = GENERATE(16u, 32u, 64u);
  const size_t tail = GENERATE(0, 8, 40);
  const bool with_lease = GENERATE(true, false);
  CAPTURE(block_size, tail, with_lease);
  const uint64_t seed = TestSeed(29);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  options.block_size = block_size;
  Fleet fleet(4, options);
  const Tokens shared = prompts.Random(block_size);
  for (int i = 0; i < 448; ++i) {
    const Tokens prompt = prompts.Extend(shared, tail);
    if (with_lease) {
      Lease lease = fleet.Acquire(Request::FromTokens(prompt));
      const double work = static_cast<double>(lease.decision().uncached_tokens());
      fleet.clock().AdvanceSeconds(work / 10000);
      lease.FirstToken();
      fleet.clock().AdvanceSeconds(0.1);
      lease.Finish();
    } else {
      fleet.Route(Request::FromTokens(prompt));
      fleet.clock().AdvanceSeconds(0.1);
    }
  }
  const std::vector<uint64_t> counts = fleet.RequestCounts();
  CAPTURE(counts);
  CHECK(std::count(counts.begin(), counts.end(), 0u) < 3);
  CHECK(*std::max_element(counts.begin(), counts.end()) < 448 * 9 / 10);
}

// llm-d 298: requests of one instant all saw the same idle instance.
// 100 cold requests in one instant: the counts of instances differ by at most 1.
TEST_CASE("Cold requests of one instant are spread evenly", "[cases][case-34]") {
  const size_t instances = GENERATE(2, 3, 4, 7, 8, 100);
  const size_t length = GENERATE(1, 16, 200, 5000);
  const bool with_lease = GENERATE(true, false);
  CAPTURE(instances, length, with_lease);
  const uint64_t seed = TestSeed(34);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(instances);
  std::vector<Lease> leases;
  for (int i = 0; i < 100; ++i) {
    const Tokens prompt = prompts.Random(length);
    if (with_lease) {
      leases.push_back(fleet.Acquire(Request::FromTokens(prompt)));
    } else {
      fleet.Route(Request::FromTokens(prompt));
    }
  }
  const std::vector<uint64_t> counts = fleet.RequestCounts();
  CAPTURE(counts);
  CHECK(Spread(counts) <= 1);
}

}  // namespace
}  // namespace prefixrouter::testing
