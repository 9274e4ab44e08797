#include "lib/sim/agents.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "lib/sim/generated_text.h"
#include "lib/sim/random.h"

namespace prefixrouter {
namespace {

constexpr uint32_t kBlockTokens = kGeneratedBlockTokens;
constexpr uint64_t kContextTokens = 131072;
constexpr double kToolSeconds = 4;  // mean run time of a tool

// Mostly a few hundred tokens; now and then a file or a long log.
uint64_t ToolOutputTokens(SplitMix64* random) {
  return random->Uniform() < 0.15 ? random->Between(2000, 8000) : random->Between(50, 1200);
}

}  // namespace

Trace AgentTrace(const AgentTraceOptions& options) {
  SplitMix64 random(options.seed);
  uint64_t next_id = 0;

  std::vector<std::vector<uint64_t>> instructions(options.agent_kinds);  // and tool definitions
  for (std::vector<uint64_t>& ids : instructions) {
    ids.resize(random.Between(2048, 16384) / kBlockTokens);
    for (uint64_t& id : ids) id = next_id++;
  }

  Trace trace;
  trace.name = "generated agent workload, seed " + std::to_string(options.seed);
  trace.block_tokens = kBlockTokens;
  for (uint32_t session = 0; session < options.sessions; ++session) {
    // The lower of two draws: some kinds are much more popular than others.
    const uint64_t last_kind = options.agent_kinds - 1;
    const uint64_t kind = std::min(random.Between(0, last_kind), random.Between(0, last_kind));
    GeneratedText history(instructions[kind]);
    history.Append(random.Between(50, 1500), &next_id);  // the task

    double time_s = random.Uniform() * options.session_window_s;
    const uint64_t steps = random.Between(4, 40);
    for (uint64_t step = 0; step < steps && history.tokens() < kContextTokens; ++step) {
      TraceRequest request;
      request.timestamp_ns = std::llround(time_s * 1e9);
      request.prompt_tokens = history.tokens();
      request.output_tokens = random.Between(40, 500);
      request.hash_ids = history.ids();
      request.session_id = std::to_string(session);
      history.Append(request.output_tokens + ToolOutputTokens(&random), &next_id);
      time_s += 1 + kNominalOutputTokenSeconds * static_cast<double>(request.output_tokens) -
                kToolSeconds * std::log1p(-random.Uniform());
      trace.requests.push_back(std::move(request));
    }
  }
  std::stable_sort(trace.requests.begin(), trace.requests.end(),
                   [](const auto& a, const auto& b) { return a.timestamp_ns < b.timestamp_ns; });
  return trace;
}

}  // namespace prefixrouter
