// The metrics of a router, one row a metric: name, type, help, and how its samples are made.
#include "prefixrouter/router_metrics.h"

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "lib/base/guard.h"
#include "lib/metrics/exposition_writer.h"
#include "prefixrouter/version.h"

namespace prefixrouter {
namespace {

// The samples of one metric of one router or instance.
class Samples {
 public:
  Samples(ExpositionWriter& writer, const std::string& labels) : writer_(writer), labels_(labels) {}

  template <typename Value>
  void Add(Value value) {
    writer_.Add("", labels_, value);
  }
  template <typename Value>
  void Add(std::string_view label, std::string_view label_value, Value value) {
    writer_.Add("", With(label, label_value), value);
  }
  void Add(const DurationHistogram& histogram) {
    uint64_t count = 0;
    for (int i = 0; i < DurationHistogram::kBuckets; ++i) {
      count += histogram.counts[i];
      const std::string bound = FormatValue(DurationHistogram::UpperBound(i));
      writer_.Add("_bucket", With("le", bound), count);
    }
    writer_.Add("_sum", labels_, histogram.sum_s);
    writer_.Add("_count", labels_, count);
  }

 private:
  std::string With(std::string_view label, std::string_view label_value) const {
    std::string labels = labels_;
    AppendLabel(label, label_value, &labels);
    return labels;
  }

  ExpositionWriter& writer_;
  const std::string& labels_;
};

template <typename Stats>
struct Metric {
  const char* name;
  const char* type;
  const char* help;
  void (*add)(const Stats& stats, Samples& samples);
};

constexpr char kCounter[] = "counter";
constexpr char kGauge[] = "gauge";
constexpr char kHistogram[] = "histogram";

using RouterMetric = Metric<RouterStats>;
using InstanceMetric = Metric<InstanceStats>;

void AddByRule(const uint64_t (&counts)[kRuleCount], Samples& samples) {
  for (int rule = 0; rule < kRuleCount; ++rule) {
    samples.Add("rule", RuleName(static_cast<Rule>(rule)), counts[rule]);
  }
}

constexpr RouterMetric kRouterMetrics[] = {
    {"prefix_router_build_info", kGauge, "1, with the version of the library.",
     [](const RouterStats&, Samples& out) { out.Add("version", PREFIX_ROUTER_VERSION_STRING, 1); }},

    // Decisions
    {"prefix_router_decisions_total", kCounter,
     "Requests that got an instance, by the rule that chose it.",
     [](const RouterStats& s, Samples& out) { AddByRule(s.decisions_by_rule, out); }},
    {"prefix_router_refused_total", kCounter,
     "Requests that got no instance: none below the caller's bound on the time to first token, or "
     "none ready and allowed.",
     [](const RouterStats& s, Samples& out) {
       out.Add("reason", "ttft_bound", s.rejected);
       out.Add("reason", "no_instance", s.unavailable);
     }},
    {"prefix_router_route_duration_seconds", kHistogram,
     "Time that choosing an instance took; of a sample of the requests where they are many.",
     [](const RouterStats& s, Samples& out) { out.Add(s.route_duration); }},
    {"prefix_router_stale_report_decisions_total", kCounter,
     "Decisions for an instance whose engine report was too old to be used.",
     [](const RouterStats& s, Samples& out) { out.Add(s.stale_report_decisions); }},
    {"prefix_router_sessions", kGauge, "Sessions that are remembered.",
     [](const RouterStats& s, Samples& out) { out.Add(s.sessions); }},

    // What the cache saves
    {"prefix_router_prompt_tokens_total", kCounter, "Prompt tokens of placed requests.",
     [](const RouterStats& s, Samples& out) { out.Add(s.prompt_tokens); }},
    {"prefix_router_cached_tokens_total", kCounter,
     "Of the prompt tokens, those predicted to be cached on the chosen instance.",
     [](const RouterStats& s, Samples& out) { out.Add(s.cached_tokens); }},
    {"prefix_router_best_cached_tokens_total", kCounter,
     "Of the prompt tokens, the most that any instance had cached; more than cached tokens where "
     "load spoke against it.",
     [](const RouterStats& s, Samples& out) { out.Add(s.best_cached_tokens); }},

    // Whether predictions come true, of finished leases whose engine told
    {"prefix_router_reported_requests_total", kCounter,
     "Finished requests whose engine reported its cached tokens.",
     [](const RouterStats& s, Samples& out) { out.Add(s.reported_requests); }},
    {"prefix_router_reported_cached_tokens_total", kCounter, "Cached tokens that engines reported.",
     [](const RouterStats& s, Samples& out) { out.Add(s.reported_cached_tokens); }},
    {"prefix_router_predicted_cached_tokens_total", kCounter,
     "Cached tokens that were predicted for the same requests.",
     [](const RouterStats& s, Samples& out) { out.Add(s.predicted_cached_tokens); }},
    {"prefix_router_over_predicted_tokens_total", kCounter,
     "Tokens that were predicted to be cached and were not, request by request.",
     [](const RouterStats& s, Samples& out) { out.Add(s.over_predicted_tokens); }},
    {"prefix_router_under_predicted_tokens_total", kCounter,
     "Tokens that were cached and not predicted to be, request by request.",
     [](const RouterStats& s, Samples& out) { out.Add(s.under_predicted_tokens); }},

    // Several routers
    {"prefix_router_requests_at_home_total", kCounter,
     "Requests that were placed where other routers look for them.",
     [](const RouterStats& s, Samples& out) { out.Add(s.requests_at_home); }},
    {"prefix_router_home_share_ratio", kGauge,
     "Share of what the router did not know to be there that engines then reported as cached, as "
     "learned; 0 with one router.",
     [](const RouterStats& s, Samples& out) { out.Add(s.home_share); }},

    // KV events
    {"prefix_router_kv_event_batches_total", kCounter, "Batches of KV events that were applied.",
     [](const RouterStats& s, Samples& out) { out.Add(s.kv_event_batches); }},
    {"prefix_router_kv_events_total", kCounter,
     "Blocks in KV events, by what has become of them; and events and messages that have no blocks "
     "or could not be used.",
     [](const RouterStats& s, Samples& out) {
       for (int i = 0; i < kKvEventOutcomeCount; ++i) {
         const auto outcome = static_cast<KvEventOutcome>(i);
         out.Add("outcome", KvEventOutcomeName(outcome), s.kv_events[outcome]);
       }
     }},

    // Leases
    {"prefix_router_leases", kGauge, "Leases that have not ended.",
     [](const RouterStats& s, Samples& out) { out.Add(s.leases_active); }},
    {"prefix_router_leases_ended_total", kCounter, "Leases that have ended, by how.",
     [](const RouterStats& s, Samples& out) {
       out.Add("outcome", "finished", s.leases_finished);
       out.Add("outcome", "cancelled", s.leases_cancelled);
       out.Add("outcome", "expired", s.leases_expired);
     }},
    {"prefix_router_output_tokens_total", kCounter, "Output tokens of finished leases.",
     [](const RouterStats& s, Samples& out) { out.Add(s.output_tokens); }},

    // Index
    {"prefix_router_index_bytes", kGauge, "Memory of the prefix index.",
     [](const RouterStats& s, Samples& out) { out.Add(s.index_bytes); }},
    {"prefix_router_index_budget_bytes", kGauge, "What the prefix index may use.",
     [](const RouterStats& s, Samples& out) { out.Add(s.index_budget_bytes); }},
    {"prefix_router_index_blocks", kGauge, "Distinct blocks in the index.",
     [](const RouterStats& s, Samples& out) { out.Add(s.index_blocks); }},
    {"prefix_router_index_runs", kGauge, "Stretches of blocks without a branch in the index.",
     [](const RouterStats& s, Samples& out) { out.Add(s.index_runs); }},
    {"prefix_router_index_held_blocks", kGauge, "Pairs of a block and an instance that holds it.",
     [](const RouterStats& s, Samples& out) { out.Add(s.blocks_held); }},
    {"prefix_router_evicted_blocks_total", kCounter,
     "Pairs forgotten: for the capacity or time to live of an instance, or for the memory budget.",
     [](const RouterStats& s, Samples& out) {
       out.Add("reason", "instance", s.blocks_evicted);
       out.Add("reason", "budget", s.blocks_evicted_by_budget);
     }},
    {"prefix_router_not_remembered_blocks_total", kCounter,
     "Pairs that found no room beside the blocks of running requests.",
     [](const RouterStats& s, Samples& out) { out.Add(s.blocks_not_remembered); }},
};

const char* StateName(InstanceState state) {
  switch (state) {
    case InstanceState::kReady:
      return "ready";
    case InstanceState::kDraining:
      return "draining";
    case InstanceState::kDown:
      return "down";
  }
  return "unknown";
}

const char* TierName(KvTier tier) {
  switch (tier) {
    case KvTier::kGpu:
      return "gpu";
    case KvTier::kCpu:
      return "cpu";
    case KvTier::kDisk:
      return "disk";
    case KvTier::kExternal:
      return "external";
  }
  return "unknown";
}

constexpr InstanceMetric kInstanceMetrics[] = {
    {"prefix_router_instance_state", kGauge, "1, with the state that the instance is in.",
     [](const InstanceStats& s, Samples& out) { out.Add("state", StateName(s.state), 1); }},
    {"prefix_router_instance_decisions_total", kCounter,
     "Requests that went to the instance, by the rule that chose it.",
     [](const InstanceStats& s, Samples& out) { AddByRule(s.requests_by_rule, out); }},
    {"prefix_router_instance_prompt_tokens_total", kCounter, "Prompt tokens of those requests.",
     [](const InstanceStats& s, Samples& out) { out.Add(s.prompt_tokens); }},
    {"prefix_router_instance_cached_tokens_total", kCounter,
     "Of the prompt tokens, those predicted to be cached there.",
     [](const InstanceStats& s, Samples& out) { out.Add(s.cached_tokens); }},

    // Load, as the router counts it
    {"prefix_router_instance_requests_in_flight", kGauge, "Leases on the instance.",
     [](const InstanceStats& s, Samples& out) { out.Add(s.requests_in_flight); }},
    {"prefix_router_instance_requests_waiting", kGauge, "Leases before their first token.",
     [](const InstanceStats& s, Samples& out) { out.Add(s.requests_waiting); }},
    {"prefix_router_instance_pending_tokens", kGauge,
     "Uncached prompt tokens that are not prefilled yet, of leases and of requests without a "
     "lease.",
     [](const InstanceStats& s, Samples& out) {
       out.Add(static_cast<double>(s.pending_tokens) + s.fluid_tokens);
     }},
    {"prefix_router_instance_kv_tokens", kGauge, "Prompt and output tokens of leases.",
     [](const InstanceStats& s, Samples& out) { out.Add(s.kv_tokens); }},
    {"prefix_router_instance_prefill_tokens_per_second", kGauge,
     "Prefill rate that decisions go by.",
     [](const InstanceStats& s, Samples& out) { out.Add(s.prefill_tokens_per_s); }},

    // Load, as the engine reports it; no sample where it did not
    {"prefix_router_instance_report_age_seconds", kGauge, "Age of the last engine report.",
     [](const InstanceStats& s, Samples& out) {
       if (s.report_age_s >= 0) out.Add(s.report_age_s);
     }},
    {"prefix_router_instance_reported_requests", kGauge,
     "Requests that the engine reported, in its batch and in its queue.",
     [](const InstanceStats& s, Samples& out) {
       if (s.reported_running_requests >= 0)
         out.Add("phase", "running", s.reported_running_requests);
       if (s.reported_waiting_requests >= 0)
         out.Add("phase", "waiting", s.reported_waiting_requests);
     }},
    {"prefix_router_instance_reported_kv_usage_ratio", kGauge,
     "Share of its KV blocks that the engine reported to be in use.",
     [](const InstanceStats& s, Samples& out) {
       if (s.reported_kv_usage >= 0) out.Add(s.reported_kv_usage);
     }},

    // Index
    {"prefix_router_instance_held_blocks", kGauge, "Blocks that the instance is known to hold.",
     [](const InstanceStats& s, Samples& out) { out.Add(s.blocks_held); }},
    {"prefix_router_instance_capacity_blocks", kGauge,
     "Blocks that its cache is configured to hold.",
     [](const InstanceStats& s, Samples& out) { out.Add(s.capacity_blocks); }},
    {"prefix_router_instance_learned_capacity_ratio", kGauge,
     "True capacity over the configured one, as learned from reported cached tokens.",
     [](const InstanceStats& s, Samples& out) { out.Add(s.capacity_scale); }},

    // KV events; no sample where there were none
    {"prefix_router_instance_kv_event_age_seconds", kGauge,
     "Time since a batch of the instance's KV events was applied.",
     [](const InstanceStats& s, Samples& out) {
       if (s.event_driven) out.Add(s.last_event_age_s);
     }},
    {"prefix_router_instance_confirmed_blocks", kGauge,
     "Of the held blocks, those that KV events have confirmed, by the best tier that they are in.",
     [](const InstanceStats& s, Samples& out) {
       for (int tier = 0; s.event_driven && tier < kKvTierCount; ++tier) {
         out.Add("tier", TierName(static_cast<KvTier>(tier)), s.confirmed_blocks[tier]);
       }
     }},
};

// Labels that the tables above use.
constexpr std::string_view kOwnLabels[] = {"version", "rule",  "reason", "le",   "outcome",
                                           "state",   "phase", "tier",   "rank", "instance_name"};

bool ValidLabelName(std::string_view name) {
  const auto valid = [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; };
  return !name.empty() && std::all_of(name.begin(), name.end(), valid) &&
         std::isdigit(static_cast<unsigned char>(name[0])) == 0 && name.substr(0, 2) != "__" &&
         std::find(std::begin(kOwnLabels), std::end(kOwnLabels), name) == std::end(kOwnLabels);
}

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

Status CheckSources(Span<const MetricsSource> sources) {
  std::vector<std::vector<std::pair<std::string, std::string>>> all_labels;
  for (size_t i = 0; i < sources.size(); ++i) {
    const std::string which = "source " + std::to_string(i);
    if (sources[i].stats == nullptr) return Invalid("the statistics of " + which + " are null");
    auto labels = sources[i].labels;
    std::sort(labels.begin(), labels.end());
    for (size_t j = 0; j < labels.size(); ++j) {
      const std::string& name = labels[j].first;
      if (!ValidLabelName(name)) return Invalid(which + " cannot have a label \"" + name + "\"");
      if (j > 0 && labels[j - 1].first == name) {
        return Invalid(which + " has two labels \"" + name + "\"");
      }
    }
    const auto same = std::find(all_labels.begin(), all_labels.end(), labels);
    if (same != all_labels.end()) {
      return Invalid(which + " has the same labels as source " +
                     std::to_string(same - all_labels.begin()));
    }
    all_labels.push_back(std::move(labels));
  }
  return Status();
}

// A router or an instance, and its labels ready to be written.
template <typename Stats>
struct Labelled {
  const Stats* stats;
  std::string labels;
};

template <typename Stats, size_t size>
void Write(const Metric<Stats> (&metrics)[size], const std::vector<Labelled<Stats>>& all,
           ExpositionWriter* writer) {
  if (all.empty()) return;
  for (const Metric<Stats>& metric : metrics) {
    writer->Family(metric.name, metric.type, metric.help);
    for (const Labelled<Stats>& one : all) {
      Samples samples(*writer, one.labels);
      metric.add(*one.stats, samples);
    }
  }
}

Result<std::string> Render(Span<const MetricsSource> sources, const MetricsOptions& options) {
  if (Status check = CheckSources(sources); !check.ok()) return check;
  std::vector<Labelled<RouterStats>> routers;
  std::vector<Labelled<InstanceStats>> instances;
  for (const MetricsSource& source : sources) {
    std::string labels;
    for (const auto& [name, value] : source.labels) AppendLabel(name, value, &labels);
    routers.push_back({source.stats, labels});
    if (!options.per_instance) continue;
    for (const InstanceStats& instance : source.stats->instances) {
      std::string instance_labels = labels;
      AppendLabel("instance_name", instance.name, &instance_labels);
      AppendLabel("rank", std::to_string(instance.rank), &instance_labels);
      instances.push_back({&instance, std::move(instance_labels)});
    }
  }
  ExpositionWriter writer;
  Write(kRouterMetrics, routers, &writer);
  Write(kInstanceMetrics, instances, &writer);
  return writer.TakePage();
}

}  // namespace

Result<std::string> RenderMetrics(const RouterStats& stats, const MetricsOptions& options) {
  return Guard([&]() -> Result<std::string> {
    MetricsSource source;
    source.stats = &stats;
    return Render({&source, 1}, options);
  });
}

Result<std::string> RenderMetrics(Span<const MetricsSource> sources,
                                  const MetricsOptions& options) {
  return Guard([&] { return Render(sources, options); });
}

}  // namespace prefixrouter
