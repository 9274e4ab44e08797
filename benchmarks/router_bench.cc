// Route and Score through the public interface, with one and two threads.
//
// Known prompts are held by an instance already; new ones are routed to full instances, where each
// evicts as many blocks as it brings. Prompts are distinct or share their first half.
#include <benchmark/benchmark.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "benchmarks/fleet.h"
#include "benchmarks/suite.h"

namespace prefixrouter::bench {
namespace {

enum class Prompts { kKnown, kNew };
enum class Prefix { kDistinct, kShared };

constexpr uint64_t kKnownPrompts = 16;  // of each thread

// A fleet, and what the threads send to it.
class Traffic {
 public:
  Traffic(const Sizes& sizes, Prompts prompts, Prefix prefix, int threads)
      : sizes_(sizes),
        prompts_(prompts),
        prefix_(prefix),
        fleet_({.instances = sizes.instances,
                .capacity_blocks = prompts == Prompts::kKnown ? FleetOptions().capacity_blocks
                                                              : sizes.CapacityBlocks(kBlockSize)}) {
    fleet_.Fill(sizes.blocks, kFillTokens);
    if (prompts == Prompts::kKnown) {
      for (int thread = 0; thread < threads; ++thread) {
        PromptFamily family = Family(thread);
        for (uint64_t n = 0; n < kKnownPrompts; ++n) {
          fleet_.RouteTo(n % fleet_.size(), family.Get(First(thread) + n));
        }
      }
    }
    fleet_.Drain();
  }

  PrefixRouter& router() { return fleet_.router(); }
  PromptFamily Family(int thread) const {
    if (prefix_ == Prefix::kShared) return PromptFamily(sizes_.tokens, sizes_.tokens / 2);
    return PromptFamily(sizes_.tokens, 0, kSeed + 10 + static_cast<uint64_t>(thread));
  }
  // Number of the first prompt of a run in this thread: of new prompts, one that no other run had.
  uint64_t FirstOfRun(int thread) {
    return First(thread) + (prompts_ == Prompts::kKnown ? 0 : runs_.fetch_add(1) << 32);
  }
  uint64_t DistinctPrompts() const {
    return prompts_ == Prompts::kKnown ? kKnownPrompts : UINT64_MAX;
  }

 private:
  static uint64_t First(int thread) { return static_cast<uint64_t>(thread + 1) << 48; }

  Sizes sizes_;
  Prompts prompts_;
  Prefix prefix_;
  Fleet fleet_;
  std::atomic<uint64_t> runs_{0};
};

// What all benchmarks here do: thread 0 prepares the traffic, then every thread sends its prompts.
template <typename Call>
void Send(benchmark::State& state, const char* name, Prompts prompts, Prefix prefix, Call&& call) {
  static Traffic* traffic = nullptr;
  if (state.thread_index() == 0) {
    const Sizes sizes(state);
    traffic = &Prepared<Traffic>(
        name + sizes.ToString() + "/" + std::to_string(state.threads()),
        [&] { return std::make_unique<Traffic>(sizes, prompts, prefix, state.threads()); });
  }
  std::optional<PromptFamily> family;
  uint64_t first = 0, distinct = 0, n = 0;
  for (auto _ : state) {  // the threads begin together, when thread 0 is here
    if (!family) {
      family = traffic->Family(state.thread_index());
      first = traffic->FirstOfRun(state.thread_index());
      distinct = traffic->DistinctPrompts();
    }
    benchmark::DoNotOptimize(
        call(traffic->router(), Request::FromTokens(family->Get(first + n++ % distinct))));
  }
  state.SetItemsProcessed(state.iterations());
}

void AllSizesAndThreads(benchmark::internal::Benchmark* benchmark) {
  AllSizes(benchmark);
  benchmark->Threads(1)->Threads(2)->UseRealTime();
}

Result<Decision> Route(PrefixRouter& router, const Request& request) {
  return router.Route(request);
}

void PrefixRouter_RouteKnown(benchmark::State& state) {
  Send(state, "RouteKnown", Prompts::kKnown, Prefix::kDistinct, Route);
}
BENCHMARK(PrefixRouter_RouteKnown)->Apply(AllSizesAndThreads);

void PrefixRouter_RouteKnownSharedPrefix(benchmark::State& state) {
  Send(state, "RouteKnownSharedPrefix", Prompts::kKnown, Prefix::kShared, Route);
}
BENCHMARK(PrefixRouter_RouteKnownSharedPrefix)->Apply(AllSizesAndThreads);

void PrefixRouter_RouteNew(benchmark::State& state) {
  Send(state, "RouteNew", Prompts::kNew, Prefix::kDistinct, Route);
}
BENCHMARK(PrefixRouter_RouteNew)->Apply(AllSizesAndThreads);

void PrefixRouter_RouteNewSharedPrefix(benchmark::State& state) {
  Send(state, "RouteNewSharedPrefix", Prompts::kNew, Prefix::kShared, Route);
}
BENCHMARK(PrefixRouter_RouteNewSharedPrefix)->Apply(AllSizesAndThreads);

void PrefixRouter_Score(benchmark::State& state) {
  Send(state, "Score", Prompts::kKnown, Prefix::kDistinct,
       [](PrefixRouter& router, const Request& request) { return router.Score(request); });
}
BENCHMARK(PrefixRouter_Score)->Apply(AllSizesAndThreads);

}  // namespace
}  // namespace prefixrouter::bench
