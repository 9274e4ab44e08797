#include "benchmarks/replay/report.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "benchmarks/table.h"

namespace prefixrouter::replay {
namespace {

// 1234567 as "1,234,567".
std::string Grouped(uint64_t value) {
  std::string text = std::to_string(value);
  for (int64_t at = static_cast<int64_t>(text.size()) - 3; at > 0; at -= 3) {
    text.insert(static_cast<size_t>(at), 1, ',');
  }
  return text;
}

std::string ArrivalText(const ArrivalSummary& arrivals) {
  std::string text;
  if (arrivals.shifted_sessions > 0) {
    text = std::to_string(arrivals.shifted_sessions) + " sessions started within " +
           Fixed(arrivals.session_window_s, 0) + " s";
  }
  if (arrivals.tick_s > 0) {
    if (!text.empty()) text += ", ";
    text += "spread inside ticks of " + Fixed(arrivals.tick_s, 3) + " s";
  }
  return text.empty() ? "as in the trace" : text;
}

}  // namespace

std::string TableText(const Report& report) {
  const Trace& trace = report.trace;
  const FleetOptions& fleet = report.fleet;
  const ReplaySummary& summary = report.summary;
  const uint64_t requests = trace.requests.size();

  std::string text = "trace      " + trace.name + "\n";
  text += "requests   " + Grouped(requests) + " within " + Fixed(report.arrivals.span_s, 0) +
          " s, " + Grouped(summary.prompt_tokens) + " prompt tokens, " +
          Grouped(summary.prompt_tokens / std::max<uint64_t>(requests, 1)) + " each\n";
  if (trace.skipped_lines > 0) {
    text += "skipped    " + Grouped(trace.skipped_lines) + " malformed lines\n";
  }
  if (trace.cut_lines > 0) {
    text += "cut        " + Grouped(trace.cut_lines) +
            " prompts whose length and ids do not agree, to the shorter\n";
  }
  text += "arrivals   " + ArrivalText(report.arrivals) + "\n";
  text += "fleet      " + Grouped(fleet.instances) + " instances of " +
          Grouped(fleet.capacity_tokens) + " tokens, in blocks of " + Grouped(fleet.block_size) +
          ", " + Fixed(fleet.prefill_tokens_per_s, 0) + " prefill tokens/s\n";
  text += std::string("load       ") +
          (fleet.leases ? "leases, ended as predicted" : "predicted to drain (no leases)") +
          ", seed " + std::to_string(fleet.seed) + "\n\n";

  std::vector<Row> rows;
  rows.push_back({"policy", "cached", "best", "work", "share", "max/", "route us", "", "index",
                  "blocks", "wall"});
  rows.push_back({"", "share", "possible", "min", "max", "mean", "p50", "p99", "MiB", "held", "s"});
  for (const PolicyResult& policy : summary.policies) {
    rows.push_back({policy.name, Fixed(policy.cached_token_share, 3),
                    Fixed(summary.best_possible_share, 3), Fixed(policy.work_share_min, 3),
                    Fixed(policy.work_share_max, 3), Fixed(policy.max_over_mean_work, 3),
                    Fixed(policy.route_p50_us, 1), Fixed(policy.route_p99_us, 1),
                    Fixed(static_cast<double>(policy.index_bytes) / (1 << 20), 1),
                    Grouped(policy.blocks_held), Fixed(policy.wall_s, 2)});
  }
  text += Aligned(rows);
  text +=
      "\n"
      "cached share   prompt tokens that the router predicts to be cached where it sent them\n"
      "best possible  the same with one cache without limit\n"
      "work           uncached prompt tokens of an instance, as a share of the fleet's\n"
      "route us       one call of the router, in microseconds\n";
  return text;
}

std::string JsonText(const Report& report) {
  using Json = nlohmann::ordered_json;
  const ReplaySummary& summary = report.summary;
  const FleetOptions& fleet = report.fleet;

  Json policies = Json::array();
  for (const PolicyResult& policy : summary.policies) {
    Json instances = Json::array();
    for (const InstanceResult& instance : policy.instances) {
      instances.push_back({{"name", instance.name},
                           {"requests", instance.requests},
                           {"prompt_tokens", instance.prompt_tokens},
                           {"cached_tokens", instance.cached_tokens}});
    }
    policies.push_back({{"name", policy.name},
                        {"cached_token_share", policy.cached_token_share},
                        {"best_possible_share", summary.best_possible_share},
                        {"work_share_min", policy.work_share_min},
                        {"work_share_max", policy.work_share_max},
                        {"max_over_mean_work", policy.max_over_mean_work},
                        {"route_p50_us", policy.route_p50_us},
                        {"route_p99_us", policy.route_p99_us},
                        {"index_bytes", policy.index_bytes},
                        {"index_blocks", policy.index_blocks},
                        {"blocks_held", policy.blocks_held},
                        {"wall_s", policy.wall_s},
                        {"instances", std::move(instances)}});
  }
  const Json json = {{"trace", report.trace.name},
                     {"requests", report.trace.requests.size()},
                     {"prompt_tokens", summary.prompt_tokens},
                     {"skipped_lines", report.trace.skipped_lines},
                     {"cut_lines", report.trace.cut_lines},
                     {"trace_block", report.trace.block_tokens},
                     {"span_s", report.arrivals.span_s},
                     {"tick_s", report.arrivals.tick_s},
                     {"shifted_sessions", report.arrivals.shifted_sessions},
                     {"session_window_s", report.arrivals.session_window_s},
                     {"instances", fleet.instances},
                     {"capacity_tokens", fleet.capacity_tokens},
                     {"block_size", fleet.block_size},
                     {"prefill_tokens_per_s", fleet.prefill_tokens_per_s},
                     {"leases", fleet.leases},
                     {"session_keys", fleet.session_keys},
                     {"seed", fleet.seed},
                     {"policies", std::move(policies)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace prefixrouter::replay
