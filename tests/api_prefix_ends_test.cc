// A thread remembers where the known part of recent prompts ended (lib/hash/prefix_ends.h), for all
// routers that it calls. No decision may depend on that: each test compares with routers whose
// calls come from a new thread each, which remembers nothing.
#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/catch.h"
#include "tests/support/build_kind.h"
#include "tests/support/fleet.h"

namespace prefixrouter::testing {
namespace {

RouterOptions Options(uint64_t key_seed, uint32_t block_size) {
  RouterOptions options;
  options.key_seed = key_seed;
  options.block_size = block_size;
  options.latency_interval_s = INFINITY;  // a new thread times its first call
  return options;
}

// Two routers that are asked the same, one by this thread and one by new threads.
struct Twins {
  Twins(const RouterOptions& options, const InstanceOptions& instance)
      : same_thread(4, options, instance), new_threads(4, options, instance) {}

  void Route(const Request& request) {
    same_thread.clock().AdvanceSeconds(0.01);
    new_threads.clock().AdvanceSeconds(0.01);
    const Decision mine = same_thread.Route(request);
    Result<Decision> theirs = Status();
    std::thread([&] { theirs = new_threads.router().Route(request); }).join();
    REQUIRE(theirs.ok());
    REQUIRE(Describe(mine) == Describe(*theirs));
  }
  void Compare() {
    CHECK(Describe(same_thread.router().Stats()) == Describe(new_threads.router().Stats()));
  }

  Fleet same_thread;
  Fleet new_threads;
};

}  // namespace

TEST_CASE("Decisions do not depend on what a thread has routed before", "[api]") {
  const uint64_t seed = TestSeed(31);
  CAPTURE(seed);
  PromptMaker random(seed);
  // What shares tokens but no keys: key seeds, block sizes and key spaces. Capacities so small that
  // prefixes are evicted, too.
  InstanceOptions small;
  small.capacity_blocks = 600;
  std::vector<std::unique_ptr<Twins>> twins;
  twins.push_back(std::make_unique<Twins>(Options(1, 16), small));
  twins.push_back(std::make_unique<Twins>(Options(2, 16), InstanceOptions()));
  twins.push_back(std::make_unique<Twins>(Options(1, 32), InstanceOptions()));
  RouterOptions tight = Options(1, 16);
  tight.index_budget_bytes = 64 << 10;
  twins.push_back(std::make_unique<Twins>(tight, InstanceOptions()));
  const KeySpace spaces[] = {
      {}, {"model", "", ""}, {"model", "adapter", ""}, {"model", "", "salt"}};
  std::vector<Tokens> heads;
  for (const size_t tokens : {100u, 512u, 1024u, 1300u}) heads.push_back(random.Random(tokens));
  heads.push_back(random.Extend(Head(heads[3], 1100), 200));  // as long, with the same whole chunks
  heads.push_back(random.Extend(heads[3], 700));

  for (size_t i = 0; i < Sized(1500u, 300u); ++i) {
    // Long enough in a row that ends are believed, with some that are wrong.
    const Tokens& head = heads[i / 25 % heads.size()];
    const KeySpace& space = spaces[random.Chance(0.8) ? 0 : random.Below(4)];
    const Tokens tokens = random.Extend(head, random.Below(500));
    Request request = Request::FromTokens(random.Chance(0.9) ? tokens : head);
    request.key_space = space;
    const MultimodalItem image{random.Below(head.size()), random.Below(2)};
    if (random.Chance(0.05)) request.multimodal = {&image, 1};
    for (const auto& twin : twins) {
      if (random.Chance(0.8)) twin->Route(request);
    }
  }
  for (const auto& twin : twins) twin->Compare();
  CHECK(twins[0]->same_thread.router().Stats().blocks_evicted > 0);
  CHECK(twins[3]->same_thread.router().Stats().blocks_evicted_by_budget > 0);
}

TEST_CASE("Decisions on text do not depend on what a thread has routed before", "[api]") {
  PromptMaker random(32);
  Twins twins(Options(1, 16), InstanceOptions());
  const std::string head = random.RandomBytes(5000);
  for (size_t i = 0; i < Sized(200u, 60u); ++i) {
    const std::string text = head + random.RandomBytes(random.Below(2000));
    twins.Route(Request::FromText(text));
  }
  twins.Compare();
}

TEST_CASE("A prefix that is gone since a thread has seen it is not taken for known", "[api]") {
  PromptMaker random(33);
  Twins twins(Options(1, 16), InstanceOptions());
  const Tokens head = random.Random(1000);
  const auto route = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const Tokens tokens = random.Extend(head, 600);
      twins.Route(Request::FromTokens(tokens));
    }
  };
  route(20);
  for (Fleet* fleet : {&twins.same_thread, &twins.new_threads}) {
    for (InstanceId id : fleet->ids()) REQUIRE(fleet->router().RemoveInstance(id).ok());
    fleet->Add();
  }
  route(1);
  twins.Compare();
  CHECK(twins.same_thread.router().Stats().index_runs == 1);
  route(20);
  twins.Compare();
}

}  // namespace prefixrouter::testing
