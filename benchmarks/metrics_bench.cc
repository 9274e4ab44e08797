// Metrics: reading the page of an engine, and rendering that of a router.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>

#include "benchmarks/fleet.h"
#include "benchmarks/suite.h"
#include "prefixrouter/engine_metrics.h"
#include "prefixrouter/router_metrics.h"

namespace prefixrouter::bench {
namespace {

// What vLLM serves, as far as size goes: of each rank some 30 gauges and counters, of which 7 are
// understood, and 20 histograms of 20 buckets; about 65 KB a rank.
std::string VllmPage(int64_t ranks) {
  constexpr int kOthers = 23, kHistograms = 20, kBuckets = 20;
  std::string page;
  const auto family = [&](const std::string& name, const char* type) {
    page += "# HELP vllm:" + name + " What it counts, said in a line of the usual length.\n";
    page += "# TYPE vllm:" + name + " " + type + "\n";
  };
  const auto sample = [&](const std::string& name, int64_t rank, const std::string& labels,
                          double value) {
    page += "vllm:" + name + "{engine=\"" + std::to_string(rank) +
            "\",model_name=\"some-org/some-model-70b-instruct\"" + labels + "} " +
            std::to_string(value) + "\n";
  };
  const auto single = [&](const std::string& name, const char* type, double value) {
    family(name, type);
    for (int64_t rank = 0; rank < ranks; ++rank) sample(name, rank, "", value);
  };
  single("num_requests_running", "gauge", 12);
  single("num_requests_waiting", "gauge", 3);
  single("kv_cache_usage_perc", "gauge", 0.4375);
  single("prefix_cache_queries_total", "counter", 1048576);
  single("prefix_cache_hits_total", "counter", 786432);
  single("external_prefix_cache_hits_total", "counter", 4096);
  family("cache_config_info", "gauge");
  for (int64_t rank = 0; rank < ranks; ++rank) {
    sample("cache_config_info", rank,
           ",block_size=\"16\",cache_dtype=\"auto\",enable_prefix_caching=\"True\","
           "num_gpu_blocks=\"28966\",sliding_window=\"None\"",
           1);
  }
  for (int i = 0; i < kOthers; ++i) {
    single("another_figure_" + std::to_string(i) + "_total", "counter", 1e6 + i);
  }
  for (int i = 0; i < kHistograms; ++i) {
    const std::string name = "request_duration_" + std::to_string(i) + "_seconds";
    family(name, "histogram");
    for (int64_t rank = 0; rank < ranks; ++rank) {
      for (int bucket = 0; bucket < kBuckets; ++bucket) {
        sample(name + "_bucket", rank, ",le=\"" + std::to_string(0.01 * (1 << bucket)) + "\"",
               1000 + bucket);
      }
      sample(name + "_bucket", rank, ",le=\"+Inf\"", 1100);
      sample(name + "_count", rank, "", 1100);
      sample(name + "_sum", rank, "", 123.456);
    }
  }
  return page;
}

void EngineMetrics_Parse(benchmark::State& state) {
  const std::string page = VllmPage(state.range(0));
  const Result<EngineMetrics> parsed = ParseEngineMetrics(page);
  Require(parsed.ok() && static_cast<int64_t>(parsed->ranks.size()) == state.range(0) &&
              parsed->ranks.back().load.waiting_requests == 3 && parsed->malformed_lines == 0,
          "the page is read");
  for (auto _ : state) benchmark::DoNotOptimize(ParseEngineMetrics(page));
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(page.size()));
  state.counters["page_bytes"] = static_cast<double>(page.size());
}
BENCHMARK(EngineMetrics_Parse)->ArgName("ranks")->Arg(1)->Arg(8);

// All series of each instance, without the time of PrefixRouter::Stats.
void RouterMetrics_Render(benchmark::State& state) {
  const auto instances = static_cast<uint64_t>(state.range(0));
  Fleet fleet({.instances = instances});
  PromptFamily prompts(kFillTokens);
  for (uint64_t n = 0; n < 4 * instances; ++n) fleet.Route(prompts.Get(n));
  EngineLoad load;
  load.running_requests = 12;
  load.waiting_requests = 3;
  load.kv_usage = 0.4375;
  for (const InstanceStats& instance : fleet.router().Stats().instances) {
    Require(fleet.router().ReportLoad(instance.id, load).ok(), "loads are reported");
  }
  const RouterStats stats = fleet.router().Stats();
  const Result<std::string> page = RenderMetrics(stats);
  Require(page.ok(), "the page is rendered");
  for (auto _ : state) benchmark::DoNotOptimize(RenderMetrics(stats));
  state.SetItemsProcessed(state.iterations() * state.range(0));
  state.counters["page_bytes"] = static_cast<double>(page->size());
}
BENCHMARK(RouterMetrics_Render)->ArgName("instances")->Arg(64)->Arg(4096);

}  // namespace
}  // namespace prefixrouter::bench
