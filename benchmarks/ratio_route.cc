// Route against one XXH3 pass over the prompt, and against itself at other sizes.
#include <algorithm>
#include <cstdint>

#include "benchmarks/fleet.h"
#include "benchmarks/heap.h"
#include "benchmarks/ratios.h"
#include "lib/hash/xxh3.h"

namespace prefixrouter::bench {
namespace {

constexpr size_t kPromptTokens = 8192;
constexpr uint64_t kFillBlocks = 1'000'000;
constexpr int kPrompts = 64;  // known prompts, measured in turns
constexpr int kQuick = 10;    // times as many repetitions where one takes under a millisecond

double RouteNanos(Fleet& fleet, PromptFamily& prompts, uint64_t first, int count) {
  return NanosPerCall(count, [&](int i) {
    Keep(fleet.router().Route(Request::FromTokens(prompts.Get(first + i))));
  });
}

double Xxh3Nanos(PromptFamily& prompts, int count) {
  return NanosPerCall(count, [&](int i) {
    const Span<const uint32_t> tokens = prompts.Get(i);
    Keep(Xxh3(tokens.data(), tokens.size() * sizeof(uint32_t)));
  });
}

// Members 0 to kPrompts - 1 of the family, each held by one instance.
void MakeKnown(Fleet& fleet, PromptFamily& prompts) {
  for (int i = 0; i < kPrompts; ++i) {
    fleet.RouteTo(i * fleet.size() / kPrompts, prompts.Get(i));
  }
  fleet.Drain();
}

// Guards against measuring something else: every known prompt is found whole, where it was put.
void RequireKnown(Fleet& fleet, PromptFamily& prompts) {
  for (int i = 0; i < kPrompts; ++i) {
    const Decision decision = fleet.Route(prompts.Get(i));
    Require(decision.cached_tokens == decision.prompt_tokens,
            "a known prompt was routed elsewhere");
  }
}

// Time of Route on `large` over time on `small`, the worse of known prompts and of new ones.
void MeasureLargeVsSmall(const char* name, int repetitions, int prompts_a_repetition, Fleet& large,
                         PromptFamily& large_prompts, Fleet& small, PromptFamily& small_prompts,
                         Report& report) {
  const int count = prompts_a_repetition;
  RequireKnown(large, large_prompts);
  RequireKnown(small, small_prompts);
  const PairResult known = MeasurePair(
      repetitions, [&] { return RouteNanos(large, large_prompts, 0, count); },
      [&] { return RouteNanos(small, small_prompts, 0, count); });
  RequireKnown(large, large_prompts);

  uint64_t next_large = kPrompts, next_small = kPrompts;
  const PairResult fresh = MeasurePair(
      repetitions,
      [&] { return RouteNanos(large, large_prompts, (next_large += count) - count, count); },
      [&] { return RouteNanos(small, small_prompts, (next_small += count) - count, count); });
  report.Figure(name, std::max(known.ratio, fresh.ratio));
  report.Detail(name, "known prompts %.0f / %.0f ns = %.3f, new %.0f / %.0f ns = %.3f; the worse",
                known.a, known.b, known.ratio, fresh.a, fresh.b, fresh.ratio);
}

}  // namespace

void MeasureRouteKnown(const RatioOptions& options, Report& report) {
  Fleet fleet({.instances = 64});
  fleet.Fill(kFillBlocks, kPromptTokens);
  PromptFamily prompts(kPromptTokens);
  MakeKnown(fleet, prompts);
  RequireKnown(fleet, prompts);
  const PairResult result = MeasurePair(
      options.repetitions * kQuick, [&] { return RouteNanos(fleet, prompts, 0, kPrompts); },
      [&] { return Xxh3Nanos(prompts, kPrompts); });
  RequireKnown(fleet, prompts);
  report.Figure("route_known_8k", result.ratio);
  report.Detail("route_known_8k", "Route %.0f ns, XXH3 pass %.0f ns", result.a, result.b);
}

void MeasureRouteNew(const RatioOptions& options, Report& report) {
  // Full instances: each new prompt evicts as many blocks as it brings.
  Fleet fleet({.instances = 64, .capacity_blocks = kFillBlocks / 64});
  fleet.Fill(kFillBlocks * 5 / 4, kPromptTokens);
  fleet.Drain();
  PromptFamily prompts(kPromptTokens);
  uint64_t next = 0;
  const uint64_t evicted_before = fleet.router().Stats().blocks_evicted;
  const PairResult result = MeasurePair(
      options.repetitions * kQuick,
      [&] { return RouteNanos(fleet, prompts, (next += kPrompts) - kPrompts, kPrompts); },
      [&] { return Xxh3Nanos(prompts, kPrompts); });
  const RouterStats stats = fleet.router().Stats();
  Require(stats.blocks_evicted > evicted_before, "nothing was evicted");
  report.Figure("route_new_8k", result.ratio);
  report.Detail("route_new_8k", "Route %.0f ns, XXH3 pass %.0f ns, %llu blocks held", result.a,
                result.b, static_cast<unsigned long long>(stats.blocks_held));
}

void MeasureRouteManyInstances(const RatioOptions& options, Report& report) {
  // Both indexes are equally big, and full: new prompts need no fresh memory, whose page faults
  // would be most of what is measured.
  constexpr uint32_t kLarge = 4096, kSmall = 64;
  constexpr uint32_t kLargeCapacity = kPromptTokens / kBlockSize * 5 / 4;
  constexpr size_t kSystemTokens = 2048;
  PromptFamily prompts(kPromptTokens, kSystemTokens);
  const auto prepare = [&](Fleet& fleet) {
    fleet.Fill(uint64_t{kLarge} * kLargeCapacity, kPromptTokens);
    const Span<const uint32_t> system = prompts.Get(0).subspan(0, kSystemTokens);
    for (size_t i = 0; i < fleet.size(); ++i) fleet.RouteTo(i, system);
    MakeKnown(fleet, prompts);
  };
  Fleet large({.instances = kLarge, .capacity_blocks = kLargeCapacity});
  Fleet small({.instances = kSmall, .capacity_blocks = kLarge / kSmall * kLargeCapacity});
  prepare(large);
  prepare(small);
  MeasureLargeVsSmall("route_4096_vs_64", options.repetitions * kQuick, kPrompts, large, prompts,
                      small, prompts, report);
}

void MeasureRouteLongPrompt(const RatioOptions& options, Report& report) {
  // Full instances, as above. Each has room for one known prompt of either length.
  constexpr size_t kLongTokens = 128 * 1024;
  constexpr size_t kHalfTokens = 64 * 1024;
  constexpr uint32_t kCapacityBlocks = (kLongTokens + kHalfTokens) / kBlockSize;
  Fleet fleet({.instances = 64, .capacity_blocks = kCapacityBlocks});
  fleet.Fill(64 * kCapacityBlocks, kPromptTokens);
  PromptFamily long_prompts(kLongTokens, 0, kSeed);
  PromptFamily half_prompts(kHalfTokens, 0, kSeed + 2);
  MakeKnown(fleet, long_prompts);
  MakeKnown(fleet, half_prompts);
  MeasureLargeVsSmall("route_128k_vs_64k", options.repetitions * 2, 16, fleet, long_prompts, fleet,
                      half_prompts, report);
}

void MeasureRouteAllocations(const RatioOptions& options, Report& report) {
  Fleet fleet({.instances = 64});
  fleet.Fill(kFillBlocks / 10, kPromptTokens);
  PromptFamily prompts(kPromptTokens);
  MakeKnown(fleet, prompts);
  // Twice: the first few are still hashed like new ones, and learn their chunk keys at the second.
  RequireKnown(fleet, prompts);
  RequireKnown(fleet, prompts);
  const int calls = options.repetitions * kPrompts;
  const auto allocations = [&](uint64_t first, uint64_t distinct) {
    const uint64_t before = AllocationCount();
    for (int i = 0; i < calls; ++i) {
      Keep(fleet.router().Route(Request::FromTokens(prompts.Get(first + i % distinct))));
    }
    return static_cast<double>(AllocationCount() - before) / calls;
  };
  report.Figure("route_allocations", allocations(0, kPrompts));
  report.Detail("route_allocations", "a call, mean of %d on known prompts; on new ones %.2f", calls,
                allocations(kPrompts, UINT64_MAX));
}

}  // namespace prefixrouter::bench
