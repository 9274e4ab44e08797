// Any bytes are a page of metrics: what is read from it is in range, and a router takes it.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "prefixrouter/engine_metrics.h"
#include "prefixrouter/prefix_router.h"

namespace {

using prefixrouter::EngineMetrics;
using prefixrouter::EngineRankMetrics;

void Require(bool condition) {
  if (!condition) std::abort();
}

void CheckCount(int64_t count) { Require(count >= -1); }

void Check(const EngineMetrics& metrics) {
  Require(!metrics.ranks.empty());
  int64_t prompt_tokens = 0;
  for (size_t i = 0; i < metrics.ranks.size(); ++i) {
    const EngineRankMetrics& rank = metrics.ranks[i];
    Require(i == 0 || metrics.ranks[i - 1].rank < rank.rank);
    CheckCount(rank.load.running_requests);
    CheckCount(rank.load.waiting_requests);
    Require(rank.load.kv_usage == -1 || (rank.load.kv_usage >= 0 && rank.load.kv_usage <= 1));
    Require(rank.block_size != 0 && rank.capacity_tokens != 0);
    CheckCount(rank.block_size);
    CheckCount(rank.capacity_tokens);
    CheckCount(rank.prompt_tokens);
    CheckCount(rank.cached_tokens);
    CheckCount(rank.external_cached_tokens);
    Require(rank.CapacityBlocks(1) <= INT32_MAX);
    if (rank.prompt_tokens > 0) prompt_tokens += rank.prompt_tokens;
  }
  Require(metrics.prompt_tokens == -1 || metrics.prompt_tokens >= prompt_tokens);
  Require((metrics.malformed_lines == 0) == (metrics.first_malformed_line == 0));
  Require((metrics.malformed_lines == 0) == metrics.first_malformed_reason.empty());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view page(reinterpret_cast<const char*>(data), size);
  prefixrouter::EngineMetricsOptions options;
  options.max_line_bytes = 4096;  // so that the fuzzer gets there
  options.max_ranks = 8;
  const auto metrics = prefixrouter::ParseEngineMetrics(page, options);
  if (!metrics.ok()) {
    Require(!metrics.status().message().empty());
    return 0;
  }
  Check(*metrics);

  auto router = prefixrouter::PrefixRouter::Create({});
  Require(router.ok());
  for (const EngineRankMetrics& rank : metrics->ranks) {
    prefixrouter::InstanceOptions instance;
    instance.name = "a";
    instance.rank = rank.rank;
    Require((*router)->AddInstance(instance).ok());
  }
  const auto reported = prefixrouter::ReportEngineMetrics(**router, "a", *metrics, 0.5);
  Require(reported.ok() && *reported <= metrics->ranks.size());
  const uint32_t prompt[64] = {};
  Require((*router)->Route({prompt, 64}).ok());
  return 0;
}
