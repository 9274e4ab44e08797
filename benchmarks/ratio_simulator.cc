// How long a simulation takes, and what KV events are worth in one.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "benchmarks/conversation.h"
#include "benchmarks/fleet.h"
#include "benchmarks/ratios.h"
#include "prefixrouter/simulator.h"

namespace prefixrouter::bench {
namespace {

SimulationResult Simulated(const Workload& workload, const SimulationOptions& options) {
  Result<SimulationResult> result = Simulate(workload, options);
  Require(result.ok(), result.status().message().c_str());
  return *std::move(result);
}

// Generated workloads whose sessions come back after others have used the cache.
constexpr const char* kSharing[] = {"chat", "agents"};
// Capacity matters where it does not hold everything: an instance has this part of the engine's KV
// memory.
constexpr uint64_t kMemoryParts[] = {4, 8, 16};

}  // namespace

void MeasureSimulator(const RatioOptions& options, Report& report) {
  const Conversation conversation(options.trace_dir);
  SimulationOptions simulation;
  simulation.engine = EnginePreset("llama-70b-8xh100").value_or({});
  std::vector<double> seconds;
  double ttft_mean_s = 0, prepare_s = 0;
  for (int i = 0; i < options.repetitions; ++i) {
    const int64_t begin = NowNanos();
    const auto workload = Workload::Create(conversation.trace(), {});
    Require(workload.ok(), workload.status().message().c_str());
    prepare_s = static_cast<double>(NowNanos() - begin) / 1e9;
    const SimulationResult result = Simulated(**workload, simulation);
    seconds.push_back(static_cast<double>(NowNanos() - begin) / 1e9);
    Require(result.summary.requests == conversation.requests().size(), "requests were lost");
    ttft_mean_s = result.summary.ttft_mean_s;
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  report.Figure("simulator_seconds", seconds[seconds.size() / 2]);
  report.Detail("simulator_seconds",
                "%s, %zu requests, 4 instances, prefix_cost; %.3f s of it to hash the trace; mean "
                "time to first token %.3f s",
                conversation.source().c_str(), conversation.requests().size(), prepare_s,
                ttft_mean_s);
}

void MeasureEventsVsWrongPrediction(const RatioOptions&, Report& report) {
  const char* const name = "events_vs_wrong_prediction";
  const EngineOptions engine = EnginePreset("llama-70b-8xh100").value_or({});
  // Sums of logarithms: engines report cached tokens or not; told too much or too little.
  double logs[2][2] = {};
  std::vector<std::string> cases;
  for (const char* generator : kSharing) {
    const Result<Trace> trace = GenerateTrace(generator, {});
    Require(trace.ok(), trace.status().message().c_str());
    const auto workload = Workload::Create(*trace, {});
    Require(workload.ok(), workload.status().message().c_str());
    for (const uint64_t part : kMemoryParts) {
      SimulationOptions options;
      options.engine = engine;
      options.engine.kv_capacity_tokens /= part;
      const Result<LoadLevels> levels = FindLoadLevels(**workload, options);
      Require(levels.ok(), levels.status().message().c_str());
      options.arrival_scale = levels->knee_scale;
      double ratios[2][2];
      double share = 0;  // that events have led to
      for (const int reported : {0, 1}) {
        for (const int too_little : {0, 1}) {
          options.report_cached_tokens = reported == 1;
          for (SimulatedInstance& instance : options.instances) {
            instance.configured_capacity = too_little == 1 ? 0.5 : 2;
          }
          options.kv_events = false;
          const SimulationSummary without = Simulated(**workload, options).summary;
          options.kv_events = true;
          const SimulationSummary with = Simulated(**workload, options).summary;
          share = with.cached_token_share;
          ratios[reported][too_little] = with.ttft_mean_s / without.ttft_mean_s;
          logs[reported][too_little] += std::log(ratios[reported][too_little]);
        }
      }
      char text[200];
      std::snprintf(text, sizeof text,
                    "%s, 1/%d of the KV memory: %.3f, %.3f; reported: %.3f, %.3f; cached share "
                    "%.2f of %.2f",
                    generator, static_cast<int>(part), ratios[0][0], ratios[0][1], ratios[1][0],
                    ratios[1][1], share, (*workload)->best_possible_share());
      cases.emplace_back(text);
    }
  }
  const auto mean = [&](int reported, int too_little) {
    return std::exp(logs[reported][too_little] / static_cast<double>(cases.size()));
  };
  report.Figure(name, std::max(mean(0, 0), mean(0, 1)));
  report.Detail(name, "geometric means: told twice the capacity %.3f, half of it %.3f", mean(0, 0),
                mean(0, 1));
  report.Detail(name,
                "where engines report cached tokens, from which capacities are learned: %.3f, %.3f",
                mean(1, 0), mean(1, 1));
  for (const std::string& text : cases) report.Detail(name, "%s", text.c_str());
}

}  // namespace prefixrouter::bench
