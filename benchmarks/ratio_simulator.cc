// How long a simulation takes.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/conversation.h"
#include "benchmarks/fleet.h"
#include "benchmarks/ratios.h"
#include "prefixrouter/simulator.h"

namespace prefixrouter::bench {

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
    const Result<SimulationResult> result = Simulate(**workload, simulation);
    seconds.push_back(static_cast<double>(NowNanos() - begin) / 1e9);
    Require(result.ok(), result.status().message().c_str());
    Require(result->summary.requests == conversation.requests().size(), "requests were lost");
    ttft_mean_s = result->summary.ttft_mean_s;
  }
  std::nth_element(seconds.begin(), seconds.begin() + seconds.size() / 2, seconds.end());
  report.Figure("simulator_seconds", seconds[seconds.size() / 2]);
  report.Detail("simulator_seconds",
                "%s, %zu requests, 4 instances, prefix_cost; %.3f s of it to hash the trace; mean "
                "time to first token %.3f s",
                conversation.source().c_str(), conversation.requests().size(), prepare_s,
                ttft_mean_s);
}

}  // namespace prefixrouter::bench
