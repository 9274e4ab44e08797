// Reading of KV events: messages of 64-block stores and of removes, as engines send them.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "benchmarks/suite.h"
#include "prefixrouter/kv_events.h"

namespace prefixrouter::bench {
namespace {

constexpr uint32_t kEventBlockSize = 16;
constexpr uint32_t kBlocksAnEvent = 64;
constexpr uint32_t kEventsAMessage = 16;

// How the token ids of a prompt are spread over a vocabulary of 128,000. Their widths in msgpack
// decide what reading them costs.
enum TokenSpread : int64_t {
  kUniform = 0,   // half of two bytes, half of four: the worst for prediction
  kTwoBytes = 1,  // all from 256 to 65,535
  kText = 2,      // frequent ids are small: one in five has four bytes, a few have one
};

uint32_t MakeToken(std::mt19937_64& random, int64_t spread) {
  switch (spread) {
    case kUniform:
      return static_cast<uint32_t>(random() % 128'000);
    case kTwoBytes:
      return static_cast<uint32_t>(256 + random() % 65'000);
    default: {
      const double share = static_cast<double>(random() >> 11) * 0x1p-53;
      return static_cast<uint32_t>(128'000 * share * share * share);
    }
  }
}

std::string Encode(Span<const KvEvent> events, int64_t encoding) {
  KvEventBatch batch;
  batch.timestamp_s = 1.78e9;
  batch.events = events;
  Result<std::string> message = EncodeKvEvents(batch, static_cast<KvEventEncoding>(encoding));
  if (!message.ok()) std::abort();
  return *std::move(message);
}

void Decode(benchmark::State& state, const std::string& message, int64_t blocks) {
  KvEventDecoder decoder;
  for (auto _ : state) {
    const auto batch = decoder.Decode(message);
    if (!batch.ok()) {
      state.SkipWithError(batch.status().message().c_str());
      return;
    }
    benchmark::DoNotOptimize((*batch)->events.data());
    benchmark::ClobberMemory();
  }
  state.SetItemsProcessed(state.iterations() * blocks);
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(message.size()));
}

// Items are blocks.
void KvEventDecoder_Stores(benchmark::State& state) {
  std::mt19937_64 random(1);
  std::vector<std::vector<uint64_t>> ids(kEventsAMessage);
  std::vector<std::vector<uint32_t>> tokens(kEventsAMessage);
  std::vector<KvEvent> events(kEventsAMessage);
  for (uint32_t i = 0; i < kEventsAMessage; ++i) {
    for (uint32_t block = 0; block < kBlocksAnEvent; ++block) ids[i].push_back(random());
    for (uint32_t token = 0; token < kBlocksAnEvent * kEventBlockSize; ++token) {
      tokens[i].push_back(MakeToken(random, state.range(1)));
    }
    events[i].kind = KvEventKind::kStored;
    events[i].block_ids = ids[i];
    events[i].has_parent = true;
    events[i].parent_id = random();
    events[i].block_size = kEventBlockSize;
    events[i].tokens = tokens[i];
  }
  Decode(state, Encode(events, state.range(0)), kEventsAMessage * kBlocksAnEvent);
}
BENCHMARK(KvEventDecoder_Stores)
    ->ArgNames({"encoding", "tokens"})
    ->ArgsProduct({{static_cast<int64_t>(KvEventEncoding::kArrays),
                    static_cast<int64_t>(KvEventEncoding::kMaps)},
                   {kUniform, kTwoBytes, kText}});

// Engines send the hashes of removed blocks one an event, or many.
void KvEventDecoder_Removes(benchmark::State& state) {
  std::mt19937_64 random(1);
  const auto blocks = static_cast<size_t>(state.range(1));
  std::vector<std::vector<uint64_t>> ids(kEventsAMessage);
  std::vector<KvEvent> events(kEventsAMessage);
  for (uint32_t i = 0; i < kEventsAMessage; ++i) {
    for (size_t block = 0; block < blocks; ++block) ids[i].push_back(random());
    events[i].kind = KvEventKind::kRemoved;
    events[i].block_ids = ids[i];
  }
  Decode(state, Encode(events, state.range(0)), static_cast<int64_t>(kEventsAMessage * blocks));
}
BENCHMARK(KvEventDecoder_Removes)
    ->ArgNames({"encoding", "blocks"})
    ->ArgsProduct({{static_cast<int64_t>(KvEventEncoding::kArrays),
                    static_cast<int64_t>(KvEventEncoding::kMaps)},
                   {1, 64}});

}  // namespace
}  // namespace prefixrouter::bench
