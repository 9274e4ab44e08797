// Leases through the public calls: what they hold, how they end, what outlives what, and what the
// router learns from them.
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/fleet.h"

namespace prefixrouter::testing {
namespace {

static_assert(!std::is_copy_constructible_v<Lease>);
static_assert(!std::is_copy_assignable_v<Lease>);
static_assert(std::is_nothrow_move_constructible_v<Lease>);
static_assert(std::is_nothrow_move_assignable_v<Lease>);

TEST_CASE("A lease of no request does nothing", "[api][lease]") {
  Lease lease;
  CHECK_FALSE(lease.id().valid());
  CHECK_FALSE(lease.instance().valid());
  CHECK_FALSE(lease.FirstToken());
  CHECK_FALSE(lease.Finish());
  CHECK_FALSE(lease.Cancel());
  CHECK_FALSE(lease.Release().valid());
}

TEST_CASE("A lease holds its load until it ends", "[api][lease]") {
  Fleet fleet(1);
  const Tokens prompt = PromptMaker(1).Random(1000);
  Request request = Request::FromTokens(prompt);
  request.expected_output_tokens = 300;
  Lease lease = fleet.Acquire(request);
  CHECK(lease.id().valid());
  CHECK(lease.instance() == fleet[0]);
  CHECK(lease.decision().prompt_tokens == 1000);
  CHECK(lease.decision().cached_tokens == 0);

  InstanceStats stats = fleet.StatsOf(0);
  CHECK(stats.requests_in_flight == 1);
  CHECK(stats.requests_waiting == 1);
  CHECK(stats.pending_tokens == 1000);
  CHECK(stats.kv_tokens == 1300);
  CHECK(stats.fluid_tokens == 0);

  fleet.clock().AdvanceSeconds(0.1);
  CHECK(lease.FirstToken());
  CHECK_FALSE(lease.FirstToken());
  stats = fleet.StatsOf(0);
  CHECK(stats.requests_in_flight == 1);
  CHECK(stats.requests_waiting == 0);
  CHECK(stats.pending_tokens == 0);
  CHECK(stats.kv_tokens == 1300);

  // A second request for the same prompt counts only what is not cached.
  Lease second = fleet.Acquire(request);
  CHECK(second.decision().cached_tokens == 992);
  CHECK(fleet.StatsOf(0).pending_tokens == 8);

  CHECK(lease.Finish());
  CHECK(second.Cancel());
  stats = fleet.StatsOf(0);
  CHECK(stats.requests_in_flight == 0);
  CHECK(stats.pending_tokens == 0);
  CHECK(stats.kv_tokens == 0);
  const RouterStats all = fleet.router().Stats();
  CHECK(all.leases_finished == 1);
  CHECK(all.leases_cancelled == 1);
  CHECK(all.leases_active == 0);
  // The prompt stays remembered after the lease.
  CHECK(fleet.CachedTokens(0, request) == 992);
}

TEST_CASE("Moving a lease moves its one end", "[api][lease]") {
  Fleet fleet(1);
  const Tokens prompt = PromptMaker(2).Random(100);
  const Request request = Request::FromTokens(prompt);

  Lease first = fleet.Acquire(request);
  const LeaseId id = first.id();
  Lease second = std::move(first);
  CHECK(second.id().value == id.value);
  CHECK_FALSE(first.id().valid());
  CHECK_FALSE(first.Finish());
  CHECK(fleet.InFlight(0) == 1);

  // Assignment ends what was there before.
  Lease third = fleet.Acquire(request);
  CHECK(fleet.InFlight(0) == 2);
  third = std::move(second);
  CHECK(fleet.InFlight(0) == 1);
  CHECK(fleet.router().Stats().leases_cancelled == 1);
  CHECK(third.id().value == id.value);

  // Onto itself.
  Lease& same = third;
  third = std::move(same);
  CHECK(fleet.InFlight(0) == 1);
  CHECK(third.id().value == id.value);

  third = Lease();
  CHECK(fleet.InFlight(0) == 0);
  CHECK_FALSE(fleet.router().Finish(id));
}

TEST_CASE("A released lease lives on by its number", "[api][lease]") {
  Fleet fleet(1);
  const Tokens prompt = PromptMaker(3).Random(100);
  LeaseId id;
  {
    Lease lease = fleet.Acquire(Request::FromTokens(prompt));
    const LeaseId number = lease.id();
    id = lease.Release();
    CHECK(id.value == number.value);
    CHECK_FALSE(lease.id().valid());
    CHECK_FALSE(lease.FirstToken());
    CHECK_FALSE(lease.Cancel());
  }
  CHECK(fleet.InFlight(0) == 1);
  CHECK(fleet.router().FirstToken(id));
  CHECK_FALSE(fleet.router().FirstToken(id));
  CHECK(fleet.router().Finish(id));
  CHECK_FALSE(fleet.router().Finish(id));
  CHECK_FALSE(fleet.router().Cancel(id));
  CHECK_FALSE(fleet.router().FirstToken(id));
  CHECK(fleet.InFlight(0) == 0);
}

TEST_CASE("Numbers that are no lease are refused", "[api][lease]") {
  Fleet fleet(1);
  const Tokens prompt = PromptMaker(4).Random(100);
  Lease lease = fleet.Acquire(Request::FromTokens(prompt));
  for (uint64_t number :
       {uint64_t{0}, lease.id().value + 1, lease.id().value - 1, UINT64_MAX,
        lease.id().value ^ (uint64_t{1} << 32), lease.id().value ^ (uint64_t{1} << 63)}) {
    CAPTURE(number);
    CHECK_FALSE(fleet.router().FirstToken({number}));
    CHECK_FALSE(fleet.router().Finish({number}));
    CHECK_FALSE(fleet.router().Cancel({number}));
  }
  CHECK(fleet.InFlight(0) == 1);
  CHECK(lease.Finish());
}

TEST_CASE("A lease may outlive its router", "[api][lease]") {
  Lease active;
  Lease finished;
  const Tokens prompt = PromptMaker(5).Random(500);
  {
    Fleet fleet(1);
    active = fleet.Acquire(Request::FromTokens(prompt));
    finished = fleet.Acquire(Request::FromTokens(prompt));
    CHECK(finished.Finish());
  }
  CHECK(active.decision().prompt_tokens == 500);
  CHECK_FALSE(active.FirstToken());
  CHECK_FALSE(active.Finish());
  CHECK_FALSE(active.Cancel());
  CHECK_FALSE(finished.Finish());
}

TEST_CASE("A lease may outlive its instance", "[api][lease]") {
  Fleet fleet(2);
  PromptMaker prompts(6);
  const Tokens prompt = prompts.Random(500);
  std::vector<Lease> leases = fleet.AcquireOn(0, Request::FromTokens(prompt), 4);
  const LeaseId by_number = leases[3].Release();
  REQUIRE(fleet.router().RemoveInstance(fleet[0]).ok());
  CHECK(fleet.router().Stats().instances.size() == 1);

  // A new instance takes the slot over; what is late must not touch it.
  InstanceOptions again;
  again.name = "i0";
  const Result<InstanceId> added = fleet.router().AddInstance(again);
  REQUIRE(added.ok());
  Request request = Request::FromTokens(prompt);
  request.allowed = {&*added, 1};
  Lease fresh = fleet.Acquire(request);
  CHECK(fresh.decision().cached_tokens == 0);
  const std::string before = Describe(fleet.router().Stats());
  CHECK_FALSE(leases[0].FirstToken());
  CHECK_FALSE(leases[0].Finish());
  CHECK_FALSE(leases[1].Cancel());
  CHECK_FALSE(fleet.router().Finish(by_number));
  leases.clear();
  CHECK(Describe(fleet.router().Stats()) == before);
  CHECK(fresh.Finish());
}

TEST_CASE("Prefill rates are learned from first tokens", "[api][lease][calibration]") {
  PromptMaker prompts(7);
  RouterOptions options;
  options.calibrate = GENERATE(true, false);
  CAPTURE(options.calibrate);
  Fleet fleet(2, options);
  CHECK(fleet.StatsOf(0).prefill_tokens_per_s == 10000);
  CHECK_FALSE(fleet.StatsOf(0).prefill_rate_learned);
  // i0 prefills 40,000 tokens a second, i1 5,000; one request after the other.
  for (int i = 0; i < 100; ++i) {
    for (size_t instance = 0; instance < 2; ++instance) {
      const Tokens prompt = prompts.Random(2000);
      Lease lease = fleet.AcquireOn(instance, Request::FromTokens(prompt));
      fleet.clock().AdvanceSeconds(2000.0 / (instance == 0 ? 40000 : 5000));
      CHECK(lease.FirstToken());
      CHECK(lease.Finish());
    }
  }
  if (!options.calibrate) {
    CHECK(fleet.StatsOf(0).prefill_tokens_per_s == 10000);
    CHECK(fleet.StatsOf(1).prefill_tokens_per_s == 10000);
    return;
  }
  CHECK(fleet.StatsOf(0).prefill_rate_learned);
  CHECK(fleet.StatsOf(0).prefill_tokens_per_s > 40000 * 0.8);
  CHECK(fleet.StatsOf(0).prefill_tokens_per_s < 40000 * 1.25);
  CHECK(fleet.StatsOf(1).prefill_tokens_per_s > 5000 * 0.8);
  CHECK(fleet.StatsOf(1).prefill_tokens_per_s < 5000 * 1.25);
  // Of a burst, each then gets what it can do: about 8 : 1.
  const std::vector<uint64_t> before = fleet.RequestCounts();
  std::vector<Lease> burst;
  for (int i = 0; i < 180; ++i) {
    burst.push_back(fleet.Acquire(Request::FromTokens(prompts.Random(2000))));
  }
  const std::vector<uint64_t> after = fleet.RequestCounts();
  CHECK(after[0] - before[0] > 140);
  CHECK(after[1] - before[1] > 10);
}

TEST_CASE("First-token times that cannot be true teach nothing absurd",
          "[api][lease][calibration]") {
  PromptMaker prompts(8);
  Fleet fleet(1);
  for (int i = 0; i < 50; ++i) {
    Lease at_once = fleet.Acquire(Request::FromTokens(prompts.Random(5000)));
    at_once.FirstToken();  // in no time
    FinishInfo info;
    info.output_tokens = INT64_MAX;
    info.engine_cached_tokens = INT64_MAX;
    CHECK(at_once.Finish(info));
    Lease late = fleet.Acquire(Request::FromTokens(prompts.Random(5000)));
    fleet.clock().AdvanceSeconds(500);
    late.FirstToken();
    CHECK(late.Finish());
  }
  const InstanceStats stats = fleet.StatsOf(0);
  CHECK(stats.prefill_tokens_per_s >= 1);
  CHECK(stats.prefill_tokens_per_s <= 1e9);
  CHECK(stats.kv_tokens == 0);
  CHECK(stats.capacity_scale > 0);
  const Tokens prompt = prompts.Random(100);
  CHECK(fleet.Route(Request::FromTokens(prompt)).predicted_ttft_s < 1e6);
}

TEST_CASE("Reported cached tokens show how good the prediction was", "[api][lease]") {
  Fleet fleet(1);
  const Tokens prompt = PromptMaker(9).Random(1600);
  const Request request = Request::FromTokens(prompt);
  const auto finish_with = [&](int64_t engine_cached_tokens) {
    Lease lease = fleet.Acquire(request);
    FinishInfo info;
    info.engine_cached_tokens = engine_cached_tokens;
    CHECK(lease.Finish(info));
  };
  finish_with(100);   // predicted 0
  finish_with(1600);  // predicted 1600 from now on
  finish_with(600);
  finish_with(5000);  // counts as the whole prompt
  finish_with(-1);    // not reported
  {
    Lease cancelled = fleet.Acquire(request);
    CHECK(cancelled.Cancel());
  }
  const RouterStats stats = fleet.router().Stats();
  CHECK(stats.reported_requests == 4);
  CHECK(stats.reported_cached_tokens == 100 + 1600 + 600 + 1600);
  CHECK(stats.predicted_cached_tokens == 3 * 1600);
  CHECK(stats.over_predicted_tokens == 1000);
  CHECK(stats.under_predicted_tokens == 100);
}

TEST_CASE("Blocks of running requests are not evicted before others", "[api][lease]") {
  InstanceOptions instance;
  instance.capacity_blocks = 100;
  Fleet fleet(1, {}, instance);
  PromptMaker prompts(10);
  const Tokens running = prompts.Random(16 * 60);
  const Tokens idle = prompts.Random(16 * 40);
  Lease lease = fleet.Acquire(Request::FromTokens(running));
  fleet.Place(0, Request::FromTokens(idle));  // the more recent one
  fleet.Place(0, Request::FromTokens(prompts.Random(16 * 30)));
  CHECK(fleet.CachedTokens(0, Request::FromTokens(running)) == 16 * 60);
  CHECK(fleet.CachedTokens(0, Request::FromTokens(idle)) == 16 * 10);
  // More than fits beside it is not remembered.
  fleet.Place(0, Request::FromTokens(prompts.Random(16 * 90)));
  CHECK(fleet.CachedTokens(0, Request::FromTokens(running)) == 16 * 60);
  CHECK(fleet.StatsOf(0).blocks_held == 100);
  CHECK(fleet.router().Stats().blocks_not_remembered == 50);
  CHECK(lease.Finish());
  // Now it is as evictable as others; its end counted as its last use.
  fleet.Place(0, Request::FromTokens(prompts.Random(16 * 90)));
  CHECK(fleet.CachedTokens(0, Request::FromTokens(running)) == 16 * 10);
}

// What engines report as cached shows that the true capacity is smaller than configured. While a
// request runs its blocks stay; when it has ended, the instance holds no more than it can.
TEST_CASE("A capacity that is learned to be smaller holds once leases end",
          "[api][lease][calibration]") {
  InstanceOptions instance;
  instance.capacity_blocks = 100;
  Fleet fleet(1, {}, instance);
  PromptMaker prompts(11);
  const Tokens prompt = prompts.Random(16 * 100);
  const Request request = Request::FromTokens(prompt);
  Lease running = fleet.Acquire(request);
  FinishInfo nothing_cached;
  nothing_cached.engine_cached_tokens = 0;
  for (int i = 0; i < 5; ++i) {
    Lease lease = fleet.Acquire(request);
    CHECK(lease.decision().cached_tokens == 1600);
    CHECK(lease.Finish(nothing_cached));
  }
  CHECK(fleet.StatsOf(0).capacity_scale < 0.9);
  CHECK(fleet.StatsOf(0).blocks_held == 100);
  CHECK(running.Finish());
  const InstanceStats stats = fleet.StatsOf(0);
  CHECK(static_cast<double>(stats.blocks_held) <= 100 * stats.capacity_scale + 1);
}

}  // namespace
}  // namespace prefixrouter::testing
