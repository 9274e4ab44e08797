// Match, insert and evict of the prefix index, and of the baseline of one map entry a block. The
// keys of the prompts are made before the clock starts: hash_bench.cc has the cost of that.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>

#include "benchmarks/fleet.h"
#include "benchmarks/index_under_test.h"
#include "benchmarks/measure.h"
#include "benchmarks/suite.h"

namespace prefixrouter::bench {
namespace {

constexpr uint64_t kKnownPrompts = 16;

// An index with `sizes.blocks` blocks of other prompts.
template <typename Index>
struct Filled {
  Filled(const Sizes& sizes, uint32_t capacity_blocks)
      : index(sizes.instances, capacity_blocks), prompts(sizes.tokens) {
    PromptFamily fill(kFillTokens, 0, kSeed + 1);
    uint64_t number = 0;
    const uint64_t reachable = uint64_t{sizes.instances} * capacity_blocks;
    FillIndex(index, fill, number, std::min(sizes.blocks, reachable));
  }

  Index index;
  PromptFamily prompts;  // that are measured
  uint64_t next = 0;
};

template <typename Index>
std::string Key(const char* operation, const Sizes& sizes) {
  return std::string(std::is_same_v<Index, BlockMapUnderTest> ? "BlockMap" : "Run") + operation +
         sizes.ToString();
}

// A known prompt.
template <typename Index>
void Match(benchmark::State& state) {
  const Sizes sizes(state);
  auto& filled = Prepared<Filled<Index>>(Key<Index>("Match", sizes), [&] {
    auto made = std::make_unique<Filled<Index>>(sizes, kUnboundedBlocks);
    for (uint64_t i = 0; i < 2 * kKnownPrompts;
         ++i) {  // PrefixIndex learns chunk keys the second time
      const uint64_t n = i % kKnownPrompts;
      made->index.SetPrompt(made->prompts.Get(n));
      made->index.Insert(static_cast<uint32_t>(n % sizes.instances));
    }
    return made;
  });
  for (auto _ : state) {
    filled.index.SetPrompt(filled.prompts.Get(filled.next++ % kKnownPrompts));
    const int64_t begin = NowNanos();
    filled.index.Match();
    state.SetIterationTime(static_cast<double>(NowNanos() - begin) * 1e-9);
  }
}

// A new prompt: into an index with room, or into full instances, where it evicts as much.
template <typename Index>
void InsertNew(benchmark::State& state, const char* operation, bool full) {
  const Sizes sizes(state);
  auto& filled = Prepared<Filled<Index>>(Key<Index>(operation, sizes), [&] {
    return std::make_unique<Filled<Index>>(
        sizes, full ? sizes.CapacityBlocks(kBlockSize) : kUnboundedBlocks);
  });
  for (auto _ : state) {
    filled.index.SetPrompt(filled.prompts.Get(filled.next));
    const auto slot = static_cast<uint32_t>(filled.next++ % sizes.instances);
    const int64_t begin = NowNanos();
    filled.index.Insert(slot);
    state.SetIterationTime(static_cast<double>(NowNanos() - begin) * 1e-9);
  }
}

template <typename Index>
void Insert(benchmark::State& state) {
  InsertNew<Index>(state, "Insert", false);
}

template <typename Index>
void InsertFull(benchmark::State& state) {
  InsertNew<Index>(state, "InsertFull", true);
}

// As many blocks as a prompt has. It is put back before the next time.
template <typename Index>
void Evict(benchmark::State& state) {
  const Sizes sizes(state);
  auto& filled = Prepared<Filled<Index>>(Key<Index>("Evict", sizes), [&] {
    return std::make_unique<Filled<Index>>(sizes, kUnboundedBlocks);
  });
  const uint64_t blocks = sizes.tokens / kBlockSize;
  for (auto _ : state) {
    filled.index.SetPrompt(filled.prompts.Get(filled.next));
    const auto slot = static_cast<uint32_t>(filled.next++ % sizes.instances);
    filled.index.Insert(slot);
    const int64_t begin = NowNanos();
    filled.index.Evict(slot, blocks);
    state.SetIterationTime(static_cast<double>(NowNanos() - begin) * 1e-9);
  }
  state.SetItemsProcessed(state.iterations() * static_cast<int64_t>(blocks));
}

void ManualTime(benchmark::internal::Benchmark* benchmark) { benchmark->UseManualTime(); }

#define PREFIX_ROUTER_INDEX_BENCHMARKS(name, index, sizes)                                 \
  BENCHMARK(Match<index>)->Name(name "_Match")->Apply(sizes)->Apply(ManualTime);           \
  BENCHMARK(Insert<index>)->Name(name "_Insert")->Apply(sizes)->Apply(ManualTime);         \
  BENCHMARK(InsertFull<index>)->Name(name "_InsertFull")->Apply(sizes)->Apply(ManualTime); \
  BENCHMARK(Evict<index>)->Name(name "_Evict")->Apply(sizes)->Apply(ManualTime)

PREFIX_ROUTER_INDEX_BENCHMARKS("PrefixIndex", RunIndexUnderTest, AllSizes);
PREFIX_ROUTER_INDEX_BENCHMARKS("BlockMapIndex", BlockMapUnderTest, SizesOfOneFleet);

}  // namespace
}  // namespace prefixrouter::bench
