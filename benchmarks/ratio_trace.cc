// The figures on the conversation trace.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/block_map_index.h"
#include "benchmarks/block_map_router.h"
#include "benchmarks/conversation.h"
#include "benchmarks/fleet.h"
#include "benchmarks/heap.h"
#include "benchmarks/ratios.h"

namespace prefixrouter::bench {
namespace {

// Of all instances here. On trace_vs_block_map it decides how work is spread, not what it costs.
constexpr double kPrefillTokensPerSecond = 12'000;
constexpr uint32_t kUnbounded = 1u << 30;  // blocks of an instance, when nothing is to be evicted

struct TraceFleet {
  TraceFleet(uint32_t instance_count, uint32_t capacity_blocks) {
    RouterOptions options;
    options.block_size = kBlockSize;
    options.key_seed = kSeed;
    options.random_seed = kSeed;
    options.clock = clock;
    Result<std::unique_ptr<PrefixRouter>> created = PrefixRouter::Create(options);
    Require(created.ok(), "the router was not created");
    router = *std::move(created);
    for (uint32_t i = 0; i < instance_count; ++i) {
      InstanceOptions instance;
      instance.name = "instance-" + std::to_string(i);
      instance.capacity_blocks = capacity_blocks;
      instance.prefill_tokens_per_s = kPrefillTokensPerSecond;
      Require(router->AddInstance(instance).ok(), "an instance was not added");
    }
  }

  // The whole trace. Returns the nanoseconds spent in Route.
  double Replay(Conversation& conversation) {
    return conversation.Replay(*clock, [this](Span<const uint32_t> prompt) {
      Require(router->Route(Request::FromTokens(prompt)).ok(), "a prompt was refused");
    });
  }

  std::shared_ptr<ManualClock> clock = std::make_shared<ManualClock>();
  std::unique_ptr<PrefixRouter> router;
};

double CachedShare(const RouterStats& stats) {
  return static_cast<double>(stats.cached_tokens) / static_cast<double>(stats.prompt_tokens);
}

// The baseline is a fair one only if it knows what the router knows: without eviction, both must
// find the same blocks on every instance.
void RequireSameMatches(Conversation& conversation, uint32_t instance_count) {
  constexpr size_t kRequests = 1000;
  TraceFleet fleet(instance_count, kUnbounded);
  BlockMapIndex index(instance_count, kUnbounded);
  std::vector<uint64_t> keys;
  std::vector<uint32_t> depths(instance_count);
  for (size_t n = 0; n < std::min(kRequests, conversation.requests().size()); ++n) {
    const Span<const uint32_t> prompt = conversation.Prompt(conversation.requests()[n]);
    keys.resize(prompt.size() / kBlockSize);
    fleet.router->hasher().TokenBlockKeys({}, prompt, {}, keys);
    index.Match(keys, depths);
    const Result<ScoreTable> scores = fleet.router->Score(Request::FromTokens(prompt));
    Require(scores.ok() && scores->rows.size() == instance_count, "a prompt was not scored");
    for (const ScoreRow& row : scores->rows) {
      Require(row.cached_tokens == uint64_t{depths[row.instance.slot()]} * kBlockSize,
              "router and baseline differ in what an instance holds");
    }
    const Result<Decision> decision = fleet.router->Route(Request::FromTokens(prompt));
    Require(decision.ok(), "a prompt was refused");
    index.Insert(decision->instance.slot(), keys);
  }
}

}  // namespace

void MeasureTraceVsBlockMap(const RatioOptions& options, Report& report) {
  constexpr uint32_t kInstances = 16;
  constexpr uint32_t kCapacityBlocks = 40'000;
  Conversation conversation(options.trace_dir);
  RequireSameMatches(conversation, kInstances);

  double router_share = 0, baseline_share = 0;
  const PairResult result = MeasurePair(
      options.repetitions,
      [&] {
        TraceFleet fleet(kInstances, kCapacityBlocks);
        const double nanos = fleet.Replay(conversation);
        router_share = CachedShare(fleet.router->Stats());
        return nanos;
      },
      [&] {
        ManualClock clock;
        BlockMapRouter router(kInstances, kCapacityBlocks, kPrefillTokensPerSecond);
        const double nanos = conversation.Replay(
            clock, [&](Span<const uint32_t> prompt) { router.Route(prompt, clock.NowNanos()); });
        baseline_share = router.cached_share();
        std::fprintf(stderr, ".");
        return nanos;
      });
  std::fprintf(stderr, "\n");
  const double requests = static_cast<double>(conversation.requests().size());
  report.Figure("trace_vs_block_map", result.ratio);
  report.Detail("trace_vs_block_map",
                "1/%.1f: %.2f us a request against %.1f; cached share %.4f and %.4f",
                1 / result.ratio, result.a / requests / 1e3, result.b / requests / 1e3,
                router_share, baseline_share);
  report.Detail("trace_vs_block_map_source", "%s", conversation.source().c_str());
}

void MeasureTraceBytes(const RatioOptions& options, Report& report) {
  constexpr uint32_t kInstances = 16;
  constexpr uint32_t kCapacityBlocks = 40'000;
  Conversation conversation(options.trace_dir);
  {  // What threads and buffers allocate once is not the index.
    TraceFleet fleet(kInstances, kCapacityBlocks);
    const Span<const uint32_t> prompt = conversation.Prompt(conversation.longest());
    Require(fleet.router->Route(Request::FromTokens(prompt)).ok(), "a prompt was refused");
  }
  TraceFleet fleet(kInstances, kCapacityBlocks);
  const size_t index_before = fleet.router->Stats().index_bytes;
  const std::optional<size_t> heap_before = AllocatedBytes();
  fleet.Replay(conversation);
  const std::optional<size_t> heap_after = AllocatedBytes();
  const RouterStats stats = fleet.router->Stats();

  report.Figure("bytes_per_holder_block_trace",
                static_cast<double>(stats.index_bytes) / static_cast<double>(stats.blocks_held));
  report.Detail("bytes_per_holder_block_trace",
                "%zu bytes, %llu blocks held, %llu distinct, %llu runs", stats.index_bytes,
                static_cast<unsigned long long>(stats.blocks_held),
                static_cast<unsigned long long>(stats.index_blocks),
                static_cast<unsigned long long>(stats.index_runs));
  report.Detail("bytes_per_holder_block_trace_source", "%s", conversation.source().c_str());
  if (!heap_after) {
    report.Detail("index_bytes_vs_allocator", "skipped: this C library does not say");
    return;
  }
  const auto index_growth = static_cast<double>(stats.index_bytes - index_before);
  const auto heap_growth = static_cast<double>(*heap_after - *heap_before);
  report.Figure("index_bytes_vs_allocator", std::abs(index_growth - heap_growth) / heap_growth);
  report.Detail("index_bytes_vs_allocator", "growth of the index %.0f bytes, of the heap %.0f",
                index_growth, heap_growth);
}

void MeasureConversation(const RatioOptions& options, Report& report) {
  constexpr uint32_t kInstances = 4;
  constexpr uint32_t kCapacityBlocks = 3'000'000 / kBlockSize;
  Conversation conversation(options.trace_dir);
  TraceFleet fleet(kInstances, kCapacityBlocks);
  fleet.Replay(conversation);
  const RouterStats stats = fleet.router->Stats();
  double most = 0, sum = 0;
  for (const InstanceStats& instance : stats.instances) {
    const auto uncached = static_cast<double>(instance.prompt_tokens - instance.cached_tokens);
    most = std::max(most, uncached);
    sum += uncached;
  }
  report.Figure("cached_share_conversation", CachedShare(stats));
  report.Detail("cached_share_conversation", "of a best possible %.4f",
                conversation.best_cached_share());
  report.Detail("cached_share_conversation_source", "%s", conversation.source().c_str());
  report.Figure("balance_conversation", most / (sum / kInstances));
}

}  // namespace prefixrouter::bench
