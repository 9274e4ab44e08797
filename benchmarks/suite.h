// What the files of the Google Benchmark suite share: the sizes that they go through, and fixtures
// that are kept between calls.
#ifndef PREFIXROUTER_BENCHMARKS_SUITE_H_
#define PREFIXROUTER_BENCHMARKS_SUITE_H_

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace prefixrouter::bench {

// ---- Sizes --------------------------------------------------------------------------------------

inline const std::vector<int64_t> kPromptTokens = {256, 2048, 8192, 32768, 131072};
inline const std::vector<int64_t> kInstances = {8, 64, 512, 4096};
// In the index, besides the prompts that are measured.
inline const std::vector<int64_t> kIndexBlocks = {0, 100'000, 5'000'000};
inline constexpr uint64_t kFillTokens = 8192;  // of the prompts that they belong to

inline void PromptLengths(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgName("tokens")->ArgsProduct({kPromptTokens});
}

inline void AllSizes(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"tokens", "instances", "blocks"})
      ->ArgsProduct({kPromptTokens, kInstances, kIndexBlocks});
}

// For the baseline, which takes seconds to fill.
inline void SizesOfOneFleet(benchmark::internal::Benchmark* benchmark) {
  benchmark->ArgNames({"tokens", "instances", "blocks"})
      ->ArgsProduct({kPromptTokens, {64}, kIndexBlocks});
}

// The arguments of a run, by name.
struct Sizes {
  explicit Sizes(const benchmark::State& state)
      : tokens(static_cast<uint64_t>(state.range(0))),
        instances(static_cast<uint32_t>(state.range(1))),
        blocks(static_cast<uint64_t>(state.range(2))) {}

  // Of an instance that is full when all together hold `blocks`; one prompt fits at least.
  uint32_t CapacityBlocks(uint32_t block_size) const {
    return static_cast<uint32_t>(std::max(blocks / instances, tokens / block_size));
  }
  std::string ToString() const {
    return std::to_string(tokens) + "/" + std::to_string(instances) + "/" + std::to_string(blocks);
  }

  uint64_t tokens;
  uint32_t instances;
  uint64_t blocks;
};

// ---- Fixtures -----------------------------------------------------------------------------------

namespace internal {
inline std::shared_ptr<void> prepared;
inline std::string prepared_key;
}  // namespace internal

// Google Benchmark calls a function several times for one line of its output. Prepared<T>(key,
// make) is what make() returned (a unique_ptr<T>) at the first call with this key; there is one at
// a time, so that big ones do not add up.
template <typename T, typename Make>
T& Prepared(const std::string& key, Make make) {
  if (internal::prepared_key != key) {
    internal::prepared.reset();
    internal::prepared = std::shared_ptr<T>(make());
    internal::prepared_key = key;
  }
  return *static_cast<T*>(internal::prepared.get());
}

}  // namespace prefixrouter::bench

#endif  // PREFIXROUTER_BENCHMARKS_SUITE_H_
