// prefix_router_ratios: measures the figures that bound the router's cost, each against something
// measured in the same run. scripts/bench.sh runs it and prints the figures beside their bars;
// benchmarks/README.md says how to read them.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "benchmarks/measure.h"
#include "benchmarks/ratios.h"

namespace prefixrouter::bench {
namespace {

struct Measurement {
  std::vector<std::string> names;  // of the figures that it reports
  void (*measure)(const RatioOptions& options, Report& report);
};

int Main(int argc, char** argv) {
  const std::vector<Measurement> measurements = {
      {{"route_known_8k"}, MeasureRouteKnown},
      {{"route_new_8k"}, MeasureRouteNew},
      {{"trace_vs_block_map"}, MeasureTraceVsBlockMap},
      {{"route_4096_vs_64"}, MeasureRouteManyInstances},
      {{"route_128k_vs_64k"}, MeasureRouteLongPrompt},
      {{"bytes_per_holder_block_trace", "index_bytes_vs_allocator"}, MeasureTraceBytes},
      {{"bytes_per_holder_block_shared"}, MeasureSharedPromptBytes},
      {{"threads_2_vs_1"}, MeasureThreads},
      {{"evict_5m_vs_100k"}, MeasureEvict},
      {{"route_allocations"}, MeasureRouteAllocations},
      {{"event_block_ops_per_s", "event_apply_vs_decode"}, MeasureEvents},
      {{"replay_1m_blocks_s"}, MeasureReplay},
      {{"match_p99_under_events"}, MeasureMatchUnderEvents},
      {{"bytes_per_membership_events"}, MeasureEventBytes},
#ifdef PREFIX_ROUTER_HAVE_CAPI
      {{"c_overhead_ns"}, MeasureCOverhead},
#endif
      {{"cached_share_conversation", "balance_conversation"}, MeasureConversation},
      {{"simulator_seconds"}, MeasureSimulator},
  };

  std::vector<std::string> all_names;
  for (const Measurement& measurement : measurements) {
    all_names.insert(all_names.end(), measurement.names.begin(), measurement.names.end());
  }

  RatioOptions options;
  options.trace_dir = PREFIX_ROUTER_TRACE_DIR;
  std::vector<std::string> wanted = all_names;
  CLI::App app(
      "Measures the figures of benchmarks/bars.tsv. Output: lines `name value`, and lines "
      "`# name text` with what is behind them.");
  app.add_option("--repetitions", options.repetitions,
                 "Repetitions of the slow measurements; quick ones make 10 times as many")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option(
         "--trace-dir", options.trace_dir,
         "Where mooncake_conversation_trace.jsonl.gz is; without it the trace figures are of "
         "a generated workload")
      ->capture_default_str();
  app.add_option("--only", wanted, "Figures to measure; default: all")
      ->check(CLI::IsMember(all_names));
  CLI11_PARSE(app, argc, argv);

  Report report;
  report.Detail("compiler", "%s", __VERSION__);
  for (const Measurement& measurement : measurements) {
    if (std::find_first_of(wanted.begin(), wanted.end(), measurement.names.begin(),
                           measurement.names.end()) == wanted.end()) {
      continue;
    }
    std::fprintf(stderr, "measuring %s\n", measurement.names.front().c_str());
    measurement.measure(options, report);
  }
  return 0;
}

}  // namespace
}  // namespace prefixrouter::bench

int main(int argc, char** argv) { return prefixrouter::bench::Main(argc, argv); }
