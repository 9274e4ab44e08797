// What broke in the indexes of other routers: truth, and how much memory it takes.
//
// Each test restates one public report (named above it) as input and right result, and checks the
// whole kind of fault rather than the one example. The tag [case-NN] is the number that docs and
// commit messages use. The cost of growing is in index_cost_cases_test.cc.
#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/build_kind.h"
#include "tests/support/fleet.h"

namespace prefixrouter::testing {
namespace {

constexpr uint32_t kBlock = 16;  // the default block size

// smg 2126: a prompt that was inserted again was counted again, and eviction began far too early.
// One 160-token prompt 1,000 times: its size is counted once, and a room of 200 tokens evicts
// nothing.
TEST_CASE("A prompt that is routed a thousand times is counted once", "[cases][case-01]") {
  const uint64_t seed = TestSeed(1);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  InstanceOptions instance;
  instance.capacity_blocks = 200 / kBlock;
  Fleet fleet(2, {}, instance);
  const Tokens prompt = prompts.Random(160);
  const Request request = Request::FromTokens(prompt);

  fleet.Place(0, request);
  const RouterStats first = fleet.router().Stats();
  CHECK(first.index_blocks == 10);
  CHECK(first.blocks_held == 10);

  for (int i = 0; i < 999; ++i) {
    if (i % 3 == 0) {
      CHECK(fleet.AcquireOn(0, request).Finish());
    } else if (i % 3 == 1) {
      // Its beginnings are the same blocks too.
      const Tokens beginning = Head(prompt, prompts.Below(161));
      fleet.Place(0, Request::FromTokens(beginning));
    } else {
      fleet.Place(0, request);
    }
  }
  const RouterStats last = fleet.router().Stats();
  CHECK(last.index_blocks == first.index_blocks);
  CHECK(last.blocks_held == first.blocks_held);
  CHECK(last.index_runs == first.index_runs);
  CHECK(last.index_bytes == first.index_bytes);
  CHECK(last.blocks_evicted == 0);
  CHECK(last.blocks_evicted_by_budget == 0);
  CHECK(last.blocks_not_remembered == 0);
  CHECK(fleet.CachedTokens(0, request) == 160);
  CHECK(fleet.CachedTokens(1, request) == 0);
}

// smg 2132: a removed worker stayed in the tree.
// Insert on A, remove A: match 0, A's bytes 0, the memory is back. Add A again: still 0.
TEST_CASE("A removed instance leaves nothing behind and comes back empty", "[cases][case-02]") {
  const uint64_t seed = TestSeed(2);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  // B holds half of A's prompts, and prompts of its own.
  Fleet fleet(2);
  std::vector<Tokens> shared;
  std::vector<Tokens> only_on_a;
  for (int i = 0; i < 50; ++i) {
    shared.push_back(prompts.Random(kBlock * (1 + prompts.Below(40))));
    only_on_a.push_back(prompts.Extend(shared.back(), kBlock * (1 + prompts.Below(40))));
    fleet.Place(1, Request::FromTokens(shared.back()));
  }
  const RouterStats before = fleet.router().Stats();
  for (int i = 0; i < 50; ++i) {
    fleet.Place(0, Request::FromTokens(shared[i]));
    fleet.Place(0, Request::FromTokens(only_on_a[i]));
    fleet.Place(0, Request::FromTokens(prompts.Random(kBlock * (1 + prompts.Below(40)))));
  }
  REQUIRE(fleet.router().Stats().blocks_held > before.blocks_held);

  REQUIRE(fleet.router().RemoveInstance(fleet[0]).ok());
  const RouterStats after = fleet.router().Stats();
  CHECK(after.instances.size() == 1);
  CHECK(after.blocks_held == before.blocks_held);
  CHECK(after.index_blocks == before.index_blocks);
  CHECK(after.index_runs == before.index_runs);
  // What is left of A's visits is at most the chunk keys of B's runs that its longer prompts have
  // brought along: 8 bytes for 2 KiB of prompt, in an allocation of at least 32.
  CHECK(after.index_bytes <= before.index_bytes + 32 * before.index_runs);

  InstanceOptions again;
  again.name = "i0";
  const Result<InstanceId> readded = fleet.router().AddInstance(again);
  REQUIRE(readded.ok());
  CHECK(*readded != fleet[0]);
  for (int i = 0; i < 50; ++i) {
    const Result<ScoreTable> table = fleet.router().Score(Request::FromTokens(only_on_a[i]));
    REQUIRE(table.ok());
    REQUIRE(table->rows.size() == 2);
    for (const ScoreRow& row : table->rows) {
      CHECK(row.cached_tokens == (row.instance == *readded ? 0 : shared[i].size()));
    }
  }
}

// smg 2137, sglang 16734: memory grew between two maintenance calls, and with the number of
// workers. 1,000 instances with unique prompts under a budget of N bytes: at most N at every step,
// also in a burst of ten times N, also with a prompt that alone is larger than N.
TEST_CASE("The index never exceeds its budget at any step of a burst", "[cases][case-03]") {
  const uint64_t seed = TestSeed(3);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  options.index_budget_bytes = Sized(size_t{1} << 20, size_t{1} << 18);
  Fleet fleet(Sized(1000, 200), options);

  // Each block takes at least its 8-byte key, so this is ten times what the budget can hold.
  const size_t burst_blocks = 10 * options.index_budget_bytes / 8;
  size_t blocks = 0;
  size_t steps_over_budget = 0;
  size_t newest_forgotten = 0;
  for (size_t step = 0; blocks < burst_blocks; ++step) {
    const Tokens prompt = prompts.Random(kBlock * (1 + prompts.Below(128)));
    const size_t instance = prompts.Below(fleet.size());
    fleet.Place(instance, Request::FromTokens(prompt));
    blocks += prompt.size() / kBlock;
    if (fleet.router().Stats().index_bytes > options.index_budget_bytes) ++steps_over_budget;
    if (step % 64 == 0 &&
        fleet.CachedTokens(instance, Request::FromTokens(prompt)) != prompt.size()) {
      ++newest_forgotten;
    }
  }
  CHECK(steps_over_budget == 0);
  CHECK(newest_forgotten == 0);
  const RouterStats stats = fleet.router().Stats();
  CHECK(stats.index_budget_bytes == options.index_budget_bytes);
  CHECK(stats.blocks_evicted_by_budget > 0);
  // The budget is used, not just kept.
  CHECK(stats.index_bytes > options.index_budget_bytes / 2);

  const Tokens giant = prompts.Random(kBlock * options.index_budget_bytes / 4);
  fleet.Place(0, Request::FromTokens(giant));
  CHECK(fleet.router().Stats().index_bytes <= options.index_budget_bytes);
}

// smg 2568: concurrent insert, split and eviction of sibling prefixes corrupted the tree.
// Each thread works on an instance of its own, but all prompts share beginnings, so that the
// threads split, extend and shrink each other's runs. What an instance holds depends on its own
// operations alone, so the final state must be that of the same operations in one thread.
TEST_CASE("Concurrent work on sibling prefixes ends in the state of one thread",
          "[cases][case-04]") {
  const uint64_t seed = TestSeed(4);
  CAPTURE(seed);
  constexpr size_t kThreads = 4;
  const size_t operations = Sized(20000, 1500);
  InstanceOptions instance;
  instance.capacity_blocks = 300;  // evicts all the time

  PromptMaker prompts(seed);
  std::vector<Tokens> family;  // a tree of prompts: each extends a beginning of an earlier one
  family.push_back(prompts.Random(kBlock * 20));
  while (family.size() < 200) {
    const Tokens& parent = family[prompts.Below(family.size())];
    const Tokens beginning = Head(parent, prompts.Below(parent.size() + 1));
    family.push_back(prompts.Extend(beginning, prompts.Below(kBlock * 12)));
  }

  const auto work = [&](Fleet& fleet, size_t thread) {
    PromptMaker choice(seed * 100 + thread);
    size_t failures = 0;
    for (size_t i = 0; i < operations; ++i) {
      Request request = Request::FromTokens(family[choice.Below(family.size())]);
      const InstanceId own = fleet[thread];
      request.allowed = {&own, 1};
      if (!fleet.router().Route(request).ok()) ++failures;
    }
    return failures;
  };

  Fleet concurrent(kThreads, {}, instance);
  std::vector<size_t> failures(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] { failures[t] = work(concurrent, t); });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(failures == std::vector<size_t>(kThreads, 0));

  Fleet sequential(kThreads, {}, instance);
  for (size_t t = 0; t < kThreads; ++t) REQUIRE(work(sequential, t) == 0);

  size_t different = 0;
  for (const Tokens& prompt : family) {
    for (size_t t = 0; t < kThreads; ++t) {
      const Request request = Request::FromTokens(prompt);
      different += concurrent.CachedTokens(t, request) != sequential.CachedTokens(t, request);
    }
  }
  CHECK(different == 0);
  const RouterStats found = concurrent.router().Stats();
  const RouterStats expected = sequential.router().Stats();
  CHECK(found.blocks_held == expected.blocks_held);
  CHECK(found.index_blocks == expected.index_blocks);
  CHECK(found.index_runs == expected.index_runs);
  CHECK(expected.blocks_evicted > 0);
}

// smg 1706: ids ran out and the process aborted.
// 3,000 live instances and 5,000 cycles of remove and add: every id is new, slots are used again,
// one instance too many is a clear error.
TEST_CASE("Thousands of instances come and go without running out of ids", "[cases][case-08]") {
  const uint64_t seed = TestSeed(8);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  constexpr uint32_t kLive = 3000;
  RouterOptions options;
  options.max_instances = kLive;
  Fleet fleet(kLive, options);
  std::vector<InstanceId> live = fleet.ids();
  std::set<InstanceId> seen(live.begin(), live.end());
  REQUIRE(seen.size() == kLive);

  InstanceOptions extra;
  extra.name = "one too many";
  const std::string before = Describe(fleet.router().Stats());
  const Result<InstanceId> refused = fleet.router().AddInstance(extra);
  CHECK(refused.status().code() == StatusCode::kResourceExhausted);
  CHECK(refused.status().message().find("max_instances") != std::string::npos);
  CHECK(refused.status().message().find("3000") != std::string::npos);
  CHECK(Describe(fleet.router().Stats()) == before);

  size_t wrong = 0;
  const Tokens prompt = prompts.Random(kBlock * 4);
  for (int cycle = 0; cycle < 5000; ++cycle) {
    const size_t victim = prompts.Below(live.size());
    const InstanceId gone = live[victim];
    wrong += !fleet.router().RemoveInstance(gone).ok();
    wrong += fleet.router().RemoveInstance(gone).code() != StatusCode::kNotFound;
    InstanceOptions fresh;
    fresh.name = "fresh " + std::to_string(cycle);
    const Result<InstanceId> added = fleet.router().AddInstance(fresh);
    REQUIRE(added.ok());
    wrong += !seen.insert(*added).second;
    wrong += added->slot() >= kLive;
    live[victim] = *added;
    // The old handle stays without meaning.
    wrong +=
        fleet.router().SetInstanceState(gone, InstanceState::kDown).code() != StatusCode::kNotFound;
    const Result<Decision> decision = fleet.router().Route(Request::FromTokens(prompt));
    wrong += !decision.ok() || decision->instance == gone;
  }
  CHECK(wrong == 0);
  CHECK(fleet.router().Stats().instances.size() == kLive);
}

// dynamo 10774, 11678: a tree that had split stayed split, and grew with every churn.
// Random insert, split and removal that ends with the same contents: as many runs and bytes as a
// router that was given the contents directly.
TEST_CASE("An index is as small after churn as one that is built fresh", "[cases][case-09]") {
  const uint64_t seed = TestSeed(9);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  const size_t churn = Sized(20000, 2000);

  std::vector<Tokens> kept;
  kept.push_back(prompts.Random(kBlock * 30));
  while (kept.size() < 40) {
    const Tokens& parent = kept[prompts.Below(kept.size())];
    kept.push_back(prompts.Extend(Head(parent, prompts.Below(parent.size() + 1)),
                                  kBlock + prompts.Below(kBlock * 20)));
  }
  const auto foreign = [&] {
    const Tokens& parent = kept[prompts.Below(kept.size())];
    return prompts.Extend(Head(parent, prompts.Below(parent.size() + 1)),
                          prompts.Below(kBlock * 20));
  };
  const auto build = [&](Fleet& fleet) {
    for (const Tokens& prompt : kept) fleet.Place(0, Request::FromTokens(prompt));
  };
  const auto check_equal = [&](const Fleet& churned, const Fleet& fresh) {
    const RouterStats found = churned.router().Stats();
    const RouterStats expected = fresh.router().Stats();
    CHECK(found.blocks_held == expected.blocks_held);
    CHECK(found.index_blocks == expected.index_blocks);
    CHECK(found.index_runs == expected.index_runs);
    CHECK(found.index_bytes == expected.index_bytes);
    for (const Tokens& prompt : kept) {
      const Request request = Request::FromTokens(prompt);
      CHECK(churned.CachedTokens(0, request) == fresh.CachedTokens(0, request));
    }
  };

  SECTION("by an instance that is removed") {
    Fleet fresh(2);
    build(fresh);
    REQUIRE(fresh.router().RemoveInstance(fresh[1]).ok());
    Fleet churned(2);
    for (size_t i = 0; i < churn; ++i) churned.Place(1, Request::FromTokens(foreign()));
    build(churned);
    for (size_t i = 0; i < churn; ++i) churned.Place(1, Request::FromTokens(foreign()));
    REQUIRE(churned.router().RemoveInstance(churned[1]).ok());
    check_equal(churned, fresh);
  }

  SECTION("by evictions of one instance") {
    // With room for exactly the kept prompts, routing them pushes out all that is not theirs.
    Fleet measure(1);
    build(measure);
    InstanceOptions instance;
    instance.capacity_blocks = static_cast<uint32_t>(measure.router().Stats().blocks_held);
    Fleet fresh(1, {}, instance);
    build(fresh);
    REQUIRE(fresh.router().Stats().blocks_evicted == 0);
    Fleet churned(1, {}, instance);
    for (size_t i = 0; i < churn; ++i) churned.Place(0, Request::FromTokens(foreign()));
    REQUIRE(churned.router().Stats().blocks_evicted > 0);
    build(churned);
    check_equal(churned, fresh);
  }
}

// aibrix 917: blocks were matched by their content, whatever stood before them.
// [X, Y] on A, [Z, Y] on B: for [Z, Y] A has nothing and B both.
TEST_CASE("A block counts only behind the blocks that it was stored behind", "[cases][case-10]") {
  const uint64_t seed = TestSeed(10);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  const size_t x_blocks = GENERATE(1, 2, 17);
  const size_t y_blocks = GENERATE(1, 3, 40);
  const Tokens x = prompts.Random(kBlock * x_blocks);
  const Tokens z = prompts.Random(kBlock * x_blocks);
  const Tokens y = prompts.Random(kBlock * y_blocks);
  const auto joined = [](Tokens left, const Tokens& right) {
    left.insert(left.end(), right.begin(), right.end());
    return left;
  };
  const Tokens xy = joined(x, y);
  const Tokens zy = joined(z, y);

  Fleet fleet(2);
  fleet.Place(0, Request::FromTokens(xy));
  fleet.Place(1, Request::FromTokens(zy));
  CHECK(fleet.CachedTokens(0, Request::FromTokens(zy)) == 0);
  CHECK(fleet.CachedTokens(1, Request::FromTokens(zy)) == zy.size());
  CHECK(fleet.CachedTokens(0, Request::FromTokens(xy)) == xy.size());
  CHECK(fleet.CachedTokens(1, Request::FromTokens(xy)) == 0);
  // The common end alone, and in another place, is on neither.
  const Tokens yy = joined(y, y);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(fleet.CachedTokens(i, Request::FromTokens(y)) == 0);
    CHECK(fleet.CachedTokens(i, Request::FromTokens(yy)) == 0);
  }
}

// llm-d, approximate prefix index: an instance was credited with the end of a prompt that could not
// fit. Capacity 4 blocks, insert 10: at most 4 blocks match, the leading ones; after removal
// nothing.
TEST_CASE("A prompt longer than the capacity keeps its leading blocks", "[cases][case-12]") {
  const uint64_t seed = TestSeed(12);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  const uint32_t capacity = GENERATE(1u, 2u, 4u, 7u, 100u);
  const bool with_lease = GENERATE(false, true);
  CAPTURE(capacity, with_lease);
  InstanceOptions instance;
  instance.capacity_blocks = capacity;
  Fleet fleet(1, {}, instance);

  for (size_t blocks : {1u, 3u, 4u, 5u, 10u, 99u, 100u, 101u, 300u}) {
    CAPTURE(blocks);
    const Tokens prompt = prompts.Random(kBlock * blocks);
    const Request request = Request::FromTokens(prompt);
    if (with_lease) {
      Lease lease = fleet.AcquireOn(0, request);
      CHECK(fleet.StatsOf(0).blocks_held <= capacity);
    } else {
      fleet.Place(0, request);
    }
    // The cached tokens of a prompt are its leading blocks, so this says which blocks are kept.
    CHECK(fleet.CachedTokens(0, request) == kBlock * std::min<size_t>(capacity, blocks));
    CHECK(fleet.StatsOf(0).blocks_held <= capacity);
  }
  REQUIRE(fleet.router().RemoveInstance(fleet[0]).ok());
  const RouterStats stats = fleet.router().Stats();
  CHECK(stats.blocks_held == 0);
  CHECK(stats.index_blocks == 0);
  CHECK(stats.index_runs == 0);
}

// llm-d kv-cache 41: the number of holders of a block was capped.
// 64 (and 4,096) instances hold the same blocks: all of them match, and stay when others go.
TEST_CASE("Any number of instances may hold the same blocks", "[cases][case-13]") {
  const size_t holders = GENERATE(1, 2, 63, 64, 65, 255, 256, 257, 4096);
  CAPTURE(holders);
  const uint64_t seed = TestSeed(13);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  const Tokens prompt = prompts.Random(kBlock * 3);
  const Tokens longer = prompts.Extend(prompt, kBlock * 2);
  Fleet fleet(holders);
  for (size_t i = 0; i < holders; ++i) fleet.Place(i, Request::FromTokens(prompt));
  fleet.Place(holders / 2, Request::FromTokens(longer));

  const auto wrong_rows = [&](size_t expected_rows) {
    const Result<ScoreTable> table = fleet.router().Score(Request::FromTokens(longer));
    REQUIRE(table.ok());
    CHECK(table->rows.size() == expected_rows);
    size_t wrong = 0;
    for (const ScoreRow& row : table->rows) {
      wrong += row.cached_tokens != (row.instance == fleet[holders / 2] ? kBlock * 5 : kBlock * 3);
    }
    return wrong;
  };
  CHECK(wrong_rows(holders) == 0);
  CHECK(fleet.router().Stats().index_blocks == 5);
  CHECK(fleet.router().Stats().blocks_held == holders * 3 + 2);

  size_t removed = 0;
  for (size_t i = 0; i < holders; i += 2) {
    if (i == holders / 2) continue;
    REQUIRE(fleet.router().RemoveInstance(fleet[i]).ok());
    ++removed;
  }
  CHECK(wrong_rows(holders - removed) == 0);
  CHECK(fleet.router().Stats().blocks_held == (holders - removed) * 3 + 2);
}

// llm-d 1217: two pods with different shares of a long prefix were taken as equal.
// A 100k-token prefix, of which A has 10k and B 90k: B is chosen, and the cached tokens are exact.
TEST_CASE("The instance that holds more of a long prefix gets it and its share is exact",
          "[cases][case-14]") {
  const uint32_t block_size = GENERATE(1u, 16u, 64u, 1000u, 1024u);
  const bool longer_first = GENERATE(false, true);
  CAPTURE(block_size, longer_first);
  const uint64_t seed = TestSeed(14);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  options.block_size = block_size;
  InstanceOptions instance;
  instance.capacity_blocks = 200000;
  Fleet fleet(3, options, instance);
  const Tokens prompt = prompts.Random(100000);
  const Tokens tenth = Head(prompt, 10000);
  const Tokens most = Head(prompt, 90000);
  if (longer_first) fleet.Place(1, Request::FromTokens(most));
  fleet.Place(0, Request::FromTokens(tenth));
  if (!longer_first) fleet.Place(1, Request::FromTokens(most));
  fleet.Drain();

  const Request request = Request::FromTokens(prompt);
  const auto full_blocks = [&](uint64_t tokens) { return tokens / block_size * block_size; };
  CHECK(fleet.CachedTokens(0, request) == full_blocks(10000));
  CHECK(fleet.CachedTokens(1, request) == full_blocks(90000));
  CHECK(fleet.CachedTokens(2, request) == 0);
  const Decision decision = fleet.Route(request);
  CHECK(decision.instance == fleet[1]);
  CHECK(decision.cached_tokens == full_blocks(90000));
  CHECK(decision.best_cached_tokens == full_blocks(90000));
  CHECK(decision.prompt_tokens == 100000);
  CHECK(fleet.CachedTokens(1, request) == full_blocks(100000));
}

// dynamo 1589: odd block sizes and a capacity of zero crashed.
// Block sizes 0, 1, 3 and 2^15 and capacity 0: a clear error or correct work.
TEST_CASE("Odd block sizes and capacities are refused by name or work", "[cases][case-15]") {
  for (uint32_t block_size : {0u, 32769u, UINT32_MAX}) {
    CAPTURE(block_size);
    RouterOptions options;
    options.block_size = block_size;
    const auto router = PrefixRouter::Create(options);
    CHECK(router.status().code() == StatusCode::kInvalidArgument);
    CHECK(router.status().message().find("block_size") != std::string::npos);
    CHECK(router.status().message().find(std::to_string(block_size)) != std::string::npos);
  }
  for (uint32_t capacity : {0u, 1u << 31, UINT32_MAX}) {
    CAPTURE(capacity);
    Fleet fleet(0);
    InstanceOptions instance;
    instance.name = "a";
    instance.capacity_blocks = capacity;
    const auto id = fleet.router().AddInstance(instance);
    CHECK(id.status().code() == StatusCode::kInvalidArgument);
    CHECK(id.status().message().find("capacity_blocks") != std::string::npos);
    CHECK(id.status().message().find(std::to_string(capacity)) != std::string::npos);
    CHECK(fleet.router().Stats().instances.empty());
  }

  const uint64_t seed = TestSeed(15);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  for (uint32_t block_size : {1u, 2u, 3u, 5u, 16u, 255u, 256u, 257u, 32767u, 32768u}) {
    for (uint32_t capacity : {1u, 2u, (1u << 31) - 1}) {
      RouterOptions options;
      options.block_size = block_size;
      InstanceOptions instance;
      instance.capacity_blocks = capacity;
      Fleet fleet(1, options, instance);
      const size_t b = block_size;
      for (size_t length : {size_t{0}, size_t{1}, b - 1, b, b + 1, 2 * b - 1, 2 * b, 3 * b + 1}) {
        CAPTURE(block_size, capacity, length);
        const Tokens prompt = prompts.Random(length);
        const Request request = Request::FromTokens(prompt);
        CHECK(fleet.Route(request).prompt_tokens == length);
        const uint64_t expected = std::min<uint64_t>(length / b, capacity) * b;
        CHECK(fleet.CachedTokens(0, request) == expected);
        CHECK(fleet.Route(request).cached_tokens == expected);
      }
    }
  }
}

}  // namespace
}  // namespace prefixrouter::testing
