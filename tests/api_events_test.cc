// What instances that are followed by their KV events are believed to hold, and what that changes
// in decisions. What becomes of single events is in cases/kv_event_cases_test.cc.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/fleet.h"
#include "tests/support/kv_event_batch.h"

namespace prefixrouter::testing {
namespace {

constexpr uint32_t kBlock = 16;

void Apply(Fleet& fleet, size_t index, EventBatch& batch) {
  REQUIRE(fleet.router().ApplyKvEvents(fleet[index], batch.Get()).ok());
}

void FollowEvents(Fleet& fleet, size_t index) {
  EventBatch heartbeat;
  Apply(fleet, index, heartbeat);
}

uint64_t Blocks(const Fleet& fleet, size_t index, const Tokens& prompt) {
  return fleet.CachedTokens(index, Request::FromTokens(prompt)) / kBlock;
}

}  // namespace

TEST_CASE("a leased prompt counts while it waits, and confirm_window_s from its first token on") {
  PromptMaker prompts(1);
  RouterOptions options;
  options.confirm_window_s = 2;
  Fleet fleet(1, options);
  FollowEvents(fleet, 0);
  const Tokens first = prompts.Random(kBlock * 10);
  const Tokens second = prompts.Random(kBlock * 20);
  Lease a = fleet.AcquireOn(0, Request::FromTokens(first));
  fleet.clock().AdvanceSeconds(5);  // a long queue
  Lease b = fleet.AcquireOn(0, Request::FromTokens(second));
  fleet.clock().AdvanceSeconds(5);
  CHECK(Blocks(fleet, 0, first) == 10);
  CHECK(Blocks(fleet, 0, second) == 20);

  a.FirstToken();
  fleet.clock().AdvanceSeconds(1.9);
  CHECK(Blocks(fleet, 0, first) == 10);
  fleet.clock().AdvanceSeconds(0.2);  // the engine has not said that it has it
  CHECK(Blocks(fleet, 0, first) == 0);
  CHECK(Blocks(fleet, 0, second) == 20);

  SECTION("confirmed meanwhile") {
    EventBatch batch;
    batch.Stored(Ids(1, 15), Head(second, kBlock * 15), kBlock);
    Apply(fleet, 0, batch);
    b.FirstToken();
    fleet.clock().AdvanceSeconds(2.1);
    CHECK(Blocks(fleet, 0, second) == 15);
  }
  SECTION("ended without a first token") {
    b.Cancel();
    fleet.clock().AdvanceSeconds(1.9);
    CHECK(Blocks(fleet, 0, second) == 20);
    fleet.clock().AdvanceSeconds(0.2);
    CHECK(Blocks(fleet, 0, second) == 0);
  }
  SECTION("the instance is gone") {
    REQUIRE(fleet.router().RemoveInstance(fleet[0]).ok());
    InstanceOptions again;
    again.name = "i0";
    const InstanceId added = *fleet.router().AddInstance(again);
    REQUIRE(added.slot() == fleet[0].slot());
    EventBatch heartbeat;
    REQUIRE(fleet.router().ApplyKvEvents(added, heartbeat.Get()).ok());
    (void)fleet.Route(Request::FromTokens(first));
    b.Finish();
    fleet.clock().AdvanceSeconds(2.1);
    CHECK(fleet.router().Stats().blocks_held == 0);
  }
}

TEST_CASE("reported cached tokens say nothing about a capacity that events show") {
  PromptMaker prompts(2);
  Fleet fleet(2);
  FollowEvents(fleet, 0);
  const Tokens prompt = prompts.Random(kBlock * 10);
  for (const size_t index : {0, 1}) {
    fleet.AcquireOn(index, Request::FromTokens(prompt)).Finish();
    Lease lease = fleet.AcquireOn(index, Request::FromTokens(prompt));
    REQUIRE(lease.decision().cached_tokens == prompt.size());
    FinishInfo nothing_cached;
    nothing_cached.engine_cached_tokens = 0;
    lease.Finish(nothing_cached);
  }
  CHECK(fleet.StatsOf(0).capacity_scale == 1);
  CHECK(fleet.StatsOf(1).capacity_scale < 1);
  CHECK(fleet.router().Stats().over_predicted_tokens == 2 * prompt.size());
}

TEST_CASE("an instance has room for what its engine has held at once") {
  PromptMaker prompts(3);
  InstanceOptions small;
  small.capacity_blocks = 8;
  Fleet fleet(1, {}, small);
  const Tokens stored = prompts.Random(kBlock * 50);
  const Tokens routed = prompts.Random(kBlock * 60);
  FollowEvents(fleet, 0);
  (void)fleet.Route(Request::FromTokens(routed));
  CHECK(Blocks(fleet, 0, routed) == 8);
  EventBatch batch;
  batch.Stored(Ids(1, 50), stored, kBlock);
  batch.Removed(Ids(41, 10));
  Apply(fleet, 0, batch);
  (void)fleet.Route(Request::FromTokens(routed));
  CHECK(Blocks(fleet, 0, routed) >= 40);
}

TEST_CASE("work goes where it pushes out nothing that is asked for again") {
  PromptMaker prompts(4);
  std::vector<Tokens> sessions;
  for (int i = 0; i < 20; ++i) sessions.push_back(prompts.Random(kBlock * 100));
  const Tokens unknown = prompts.Random(kBlock * 100);
  const Request request = Request::FromTokens(unknown);
  // Both instances store as much. Instance 0 evicts each session when the next one comes.
  const bool wanted = GENERATE(false, true);
  CAPTURE(wanted);
  Fleet fleet(2);
  for (uint64_t round = 0; round < 40; ++round) {
    const Tokens prompt = wanted ? sessions[round % sessions.size()] : prompts.Random(kBlock * 100);
    EventBatch full;
    if (round > 0) full.Removed(Ids(round * 1000, 100));
    full.Stored(Ids((round + 1) * 1000, 100), prompt, kBlock);
    Apply(fleet, 0, full);
    EventBatch with_room;
    with_room.Stored(Ids((round + 1) * 1000, 100), prompts.Random(kBlock * 100), kBlock);
    Apply(fleet, 1, with_room);
  }
  const ScoreRow full = fleet.Row(0, request);
  const ScoreRow with_room = fleet.Row(1, request);
  if (!wanted) {
    CHECK(full.cost.total == with_room.cost.total);
    return;
  }
  CHECK(full.cost.total > 1.3 * with_room.cost.total);
  CHECK(full.cost.uncached > 1.3 * with_room.cost.uncached);
  CHECK(fleet.Route(request).instance == fleet[1]);
}

}  // namespace prefixrouter::testing
