// KV events and requests in several threads at once. Each test says what must be true in spite of
// every interleaving, and why; under the thread sanitizer they also show that there is no race.
#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/build_kind.h"
#include "tests/support/fleet.h"
#include "tests/support/kv_event_batch.h"
#include "tests/support/threads.h"

namespace prefixrouter::testing {
namespace {

constexpr uint32_t kBlock = 16;

}  // namespace

// Two threads apply the events of two instances each, two others route and look.
//
// What must hold: a prompt that all engines have stored and never remove is matched in full by
// every look, because a match is one moment under the lock. And when all is quiet and predictions
// have expired, each instance holds just what the thread that applied its events knows, because an
// instance's events are applied in the order in which its own thread sends them.
TEST_CASE("Events are applied exactly while others route", "[stress]") {
  const uint64_t seed = TestSeed(1101);
  CAPTURE(seed);
  RouterOptions options;
  options.confirm_window_s = 1;
  Fleet fleet(4, options);
  PrefixRouter& router = fleet.router();
  PromptMaker maker(seed);
  const Tokens fixed = maker.Random(kBlock * 40);
  std::vector<Tokens> family;
  for (size_t i = 0; i < 60; ++i) {
    family.push_back(
        maker.Extend(Head(fixed, kBlock * maker.Below(41)), kBlock * (1 + maker.Below(600))));
  }
  // Blocks of each instance have numbers 1 to 40 for `fixed`, and for prompt p, whose own blocks
  // begin behind its common part, from (p + 1) * 1000 on.
  std::vector<size_t> common(family.size());
  for (size_t p = 0; p < family.size(); ++p) {
    while (common[p] < 40 &&
           Head(fixed, (common[p] + 1) * kBlock) == Head(family[p], (common[p] + 1) * kBlock)) {
      ++common[p];
    }
  }
  for (InstanceId id : fleet.ids()) {
    EventBatch batch;
    batch.Stored(Ids(1, 40), fixed, kBlock);
    REQUIRE(router.ApplyKvEvents(id, batch.Get()).ok());
  }

  std::vector<std::vector<size_t>> held(4, std::vector<size_t>(family.size()));  // own blocks
  std::atomic<size_t> wrong{0};
  std::atomic<size_t> applying{2};
  std::atomic<size_t> looks{0};
  RunThreads(4, [&](size_t thread) {
    PromptMaker random(seed * 10 + thread);
    if (thread < 2) {
      for (size_t step = 0; step < Sized(6000u, 600u) || (looks <= kEnough && wrong == 0); ++step) {
        const size_t i = thread * 2 + random.Below(2);
        const size_t p = random.Below(family.size());
        const size_t blocks = family[p].size() / kBlock - common[p];
        size_t& now = held[i][p];
        const uint64_t first_id = (p + 1) * 1000;
        EventBatch batch;
        KvEventOutcome outcome = KvEventOutcome::kStored;
        size_t count;
        if (now < blocks && random.Chance(0.6)) {
          count = 1 + random.Below(blocks - now);
          const size_t begin = (common[p] + now) * kBlock;
          const auto tokens = family[p].begin() + static_cast<std::ptrdiff_t>(begin);
          std::optional<uint64_t> parent;
          if (now != 0) parent = first_id + now - 1;
          if (now == 0 && common[p] != 0) parent = common[p];
          batch.Stored(Ids(first_id + now, count),
                       Tokens(tokens, tokens + static_cast<std::ptrdiff_t>(count * kBlock)), kBlock,
                       parent);
          now += count;
        } else {
          outcome = KvEventOutcome::kRemoved;
          count = random.Below(now + 1);
          now -= count;
          batch.Removed(Ids(first_id + now, count));
        }
        const Result<KvEventResult> result = router.ApplyKvEvents(fleet[i], batch.Get());
        wrong += !result.ok() || result->counts[outcome] != count || result->needs_replay;
      }
      --applying;
      return;
    }
    while (applying.load() > 0) {
      const Tokens& prompt = family[random.Below(family.size())];
      wrong += !router.Route(Request::FromTokens(prompt)).ok();
      const Result<ScoreTable> table = router.Score(Request::FromTokens(fixed));
      wrong += !table.ok();
      if (!table.ok()) continue;
      for (const ScoreRow& row : table->rows) wrong += row.cached_tokens != fixed.size();
      if (random.Chance(0.05)) wrong += router.Stats().instances.size() != 4;
      ++looks;
    }
  });
  CHECK(wrong.load() == 0);
  CHECK(looks.load() > kEnough);

  fleet.clock().AdvanceSeconds(10);
  for (size_t i = 0; i < 4; ++i) {
    for (size_t p = 0; p < family.size(); ++p) {
      CAPTURE(i, p);
      CHECK(fleet.CachedTokens(i, Request::FromTokens(family[p])) ==
            (common[p] + held[i][p]) * kBlock);
    }
  }
}

// An instance that is removed and added again in the middle of its events: those of the old one are
// counted and have no effect, whatever they meet.
TEST_CASE("Events of an instance that goes meanwhile have no effect", "[stress]") {
  const uint64_t seed = TestSeed(1102);
  CAPTURE(seed);
  Fleet fleet(1);
  PrefixRouter& router = fleet.router();
  PromptMaker maker(seed);
  const Tokens prompt = maker.Random(kBlock * 2000);
  std::atomic<uint64_t> current{0};
  std::atomic<size_t> wrong{0};
  std::atomic<size_t> late{0};  // events that came when their instance had gone
  std::atomic<bool> done{false};
  InstanceOptions instance;
  instance.name = "changing";
  RunThreads(3, [&](size_t thread) {
    if (thread == 0) {
      for (size_t round = 0; round < Sized(600u, 100u) || (late <= kEnough && wrong == 0);
           ++round) {
        const Result<InstanceId> added = router.AddInstance(instance);
        wrong += !added.ok();
        if (!added.ok()) break;
        current = added->value;
        std::this_thread::yield();
        wrong += !router.RemoveInstance(*added).ok();
      }
      done = true;
      return;
    }
    EventBatch batch;
    batch.Stored(Ids(1, 2000), prompt, kBlock);
    batch.Removed(Ids(1, 2000));
    while (!done) {
      const InstanceId id = {current.load()};
      if (id.value == 0) continue;  // none was added yet
      const Result<KvEventResult> result = router.ApplyKvEvents(id, batch.Get());
      wrong += !result.ok();
      if (result.ok()) late += result->counts[KvEventOutcome::kOldGeneration];
    }
  });
  CHECK(wrong.load() == 0);
  const RouterStats stats = router.Stats();
  CHECK(stats.instances.size() == 1);
  CHECK(stats.blocks_held == 0);
  CHECK(stats.index_blocks == 0);
  CHECK(late.load() > kEnough);
  CHECK(stats.kv_events[KvEventOutcome::kOldGeneration] == late.load());
}

}  // namespace prefixrouter::testing
