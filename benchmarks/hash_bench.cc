// Hashing of prompts, beside one XXH3 pass over the same bytes.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <vector>

#include "benchmarks/fleet.h"
#include "benchmarks/suite.h"
#include "lib/hash/prompt_keys.h"
#include "lib/hash/xxh3.h"

namespace prefixrouter::bench {
namespace {

void SetBytes(benchmark::State& state, Span<const uint32_t> tokens) {
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(tokens.size() * sizeof(uint32_t)));
}

// The yardstick: what nothing that reads the prompt can be faster than.
void Xxh3_Pass(benchmark::State& state) {
  PromptFamily prompts(static_cast<size_t>(state.range(0)));
  const Span<const uint32_t> tokens = prompts.Get(0);
  for (auto _ : state) {
    benchmark::DoNotOptimize(Xxh3(tokens.data(), tokens.size() * sizeof(uint32_t)));
  }
  SetBytes(state, tokens);
}
BENCHMARK(Xxh3_Pass)->Apply(PromptLengths);

// A key for each block.
void BlockHasher_TokenBlockKeys(benchmark::State& state) {
  PromptFamily prompts(static_cast<size_t>(state.range(0)));
  const Span<const uint32_t> tokens = prompts.Get(0);
  const BlockHasher hasher(kBlockSize, kSeed);
  std::vector<uint64_t> keys(hasher.BlockCount(tokens.size()));
  for (auto _ : state) {
    hasher.TokenBlockKeys({}, tokens, {}, keys);
    benchmark::DoNotOptimize(keys.data());
    benchmark::ClobberMemory();
  }
  SetBytes(state, tokens);
}
BENCHMARK(BlockHasher_TokenBlockKeys)->Apply(PromptLengths);

// What Route hashes of a prompt that may be known: a key for each chunk.
void PromptKeys_Chunks(benchmark::State& state) {
  PromptFamily prompts(static_cast<size_t>(state.range(0)));
  const Span<const uint32_t> tokens = prompts.Get(0);
  const BlockHasher hasher(kBlockSize, kSeed);
  for (auto _ : state) {
    PromptKeys keys(hasher, Request::FromTokens(tokens));
    keys.Hash(/*first_block_known=*/true);
    benchmark::DoNotOptimize(keys.chunk_keys().data());
    benchmark::ClobberMemory();
  }
  SetBytes(state, tokens);
}
BENCHMARK(PromptKeys_Chunks)->Apply(PromptLengths);

}  // namespace
}  // namespace prefixrouter::bench
