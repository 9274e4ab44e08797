// Memory of a prompt that all instances hold, and the cost of eviction.
#include <cstdint>

#include "benchmarks/fleet.h"
#include "benchmarks/index_under_test.h"
#include "benchmarks/ratios.h"

namespace prefixrouter::bench {

void MeasureSharedPromptBytes(const RatioOptions&, Report& report) {
  constexpr size_t kPromptTokens = 100'000;
  Fleet fleet({.instances = 64});
  PromptFamily prompts(kPromptTokens);
  for (size_t i = 0; i < fleet.size(); ++i) fleet.RouteTo(i, prompts.Get(0));
  const RouterStats stats = fleet.router().Stats();
  Require(stats.blocks_held == fleet.size() * (kPromptTokens / kBlockSize),
          "not all instances hold the prompt");
  report.Figure("bytes_per_holder_block_shared",
                static_cast<double>(stats.index_bytes) / static_cast<double>(stats.blocks_held));
  report.Detail("bytes_per_holder_block_shared", "%zu bytes for %llu blocks held",
                stats.index_bytes, static_cast<unsigned long long>(stats.blocks_held));
}

// The cost of eviction alone, in steps of what a new 8k prompt needs. Rounds of filling up and
// evicting follow each other so often that each index is in the caches as far as it can be.
void MeasureEvict(const RatioOptions& options, Report& report) {
  constexpr uint32_t kSlots = 16;
  constexpr size_t kPromptTokens = 8192;
  constexpr uint64_t kStepBlocks = kPromptTokens / kBlockSize;
  constexpr uint64_t kRounds = 16;
  constexpr uint64_t kStepsARound = 2;  // in each slot
  struct Side {
    explicit Side(uint64_t fill_blocks) : blocks(fill_blocks) {}

    double NanosPerBlock() {
      int64_t nanos = 0;
      const uint64_t before = index.blocks_evicted();
      for (uint64_t round = 0; round < kRounds; ++round) {
        FillIndex(index, prompts, next, blocks);
        const int64_t begin = NowNanos();
        for (uint64_t step = 0; step < kStepsARound; ++step) {
          for (uint32_t slot = 0; slot < kSlots; ++slot) index.Evict(slot, kStepBlocks);
        }
        nanos += NowNanos() - begin;
      }
      const uint64_t evicted = index.blocks_evicted() - before;
      Require(evicted == kRounds * kStepsARound * kSlots * kStepBlocks,
              "not as many blocks were evicted as asked for");
      return static_cast<double>(nanos) / static_cast<double>(evicted);
    }

    const uint64_t blocks;
    PromptFamily prompts{kPromptTokens};
    uint64_t next = 0;
    RunIndexUnderTest index{kSlots, kUnboundedBlocks};
  };
  Side large(5'000'000);
  Side small(100'000);
  const PairResult result = MeasurePair(
      options.repetitions, [&] { return large.NanosPerBlock(); },
      [&] { return small.NanosPerBlock(); });
  report.Figure("evict_5m_vs_100k", result.ratio);
  report.Detail("evict_5m_vs_100k", "%.2f and %.2f ns a block, prompts of %zu tokens", result.a,
                result.b, kPromptTokens);
}

}  // namespace prefixrouter::bench
