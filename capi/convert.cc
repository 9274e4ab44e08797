#include "capi/convert.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>

#include "capi/boundary.h"
#include "capi/callbacks.h"
#include "capi/prefix_router.h"

namespace prefixrouter::capi {
namespace {

// Arrays of these are passed on as they are.
static_assert(sizeof(MultimodalItem) == sizeof(prefix_router_multimodal_item) &&
              offsetof(MultimodalItem, offset) == offsetof(prefix_router_multimodal_item, offset) &&
              offsetof(MultimodalItem, content_hash) ==
                  offsetof(prefix_router_multimodal_item, content_hash));
static_assert(sizeof(InstanceId) == sizeof(uint64_t) && std::is_standard_layout_v<InstanceId>);

// Constants are the C++ ones.
static_assert(PREFIX_ROUTER_UNAVAILABLE == static_cast<int>(StatusCode::kUnavailable));
static_assert(PREFIX_ROUTER_TEXT == static_cast<int>(PromptForm::kText) &&
              PREFIX_ROUTER_BLOCK_KEYS == static_cast<int>(PromptForm::kBlockKeys));
static_assert(PREFIX_ROUTER_DRAINING == static_cast<int>(InstanceState::kDraining) &&
              PREFIX_ROUTER_DOWN == static_cast<int>(InstanceState::kDown));
static_assert(PREFIX_ROUTER_NEAR_TIE == static_cast<int>(Rule::kNearTie) &&
              PREFIX_ROUTER_ONLY_CANDIDATE == static_cast<int>(Rule::kOnlyCandidate) &&
              PREFIX_ROUTER_SESSION == static_cast<int>(Rule::kSession));
static_assert(PREFIX_ROUTER_SGLANG == static_cast<int>(Engine::kSglang) &&
              PREFIX_ROUTER_TENSORRT_LLM == static_cast<int>(Engine::kTensorRtLlm) &&
              PREFIX_ROUTER_TRITON == static_cast<int>(Engine::kTriton));
static_assert(PREFIX_ROUTER_DURATION_BUCKETS == DurationHistogram::kBuckets);
static_assert(std::string_view(PREFIX_ROUTER_METRICS_CONTENT_TYPE) == kMetricsContentType);

double OrZero(double value) { return value == 0 ? PREFIX_ROUTER_ZERO : value; }

int32_t ReadRank(const prefix_router_engine_rank_metrics* in, size_t struct_size, const char* name,
                 EngineRankMetrics* out) {
  Input<prefix_router_engine_rank_metrics> input;
  if (int32_t status = input.Read(in, struct_size, name); status != 0) return status;
  const prefix_router_engine_rank_metrics& c = *input;
  if (int32_t status = CheckUnused(c.reserved, "reserved"); status != 0) return status;
  out->rank = c.rank;
  out->load.running_requests = c.running_requests;
  out->load.waiting_requests = c.waiting_requests;
  out->load.kv_usage = c.kv_usage;
  return 0;
}

}  // namespace

// ---- Reading ------------------------------------------------------------------------------------

int32_t ReadOptions(const prefix_router_options* in, RouterOptions* out) {
  Input<prefix_router_options> input;
  if (int32_t status = input.Read(in, "options"); status != 0) return status;
  const prefix_router_options& c = *input;
  if (int32_t status = CheckFlag(c.has_key_seed, "has_key_seed"); status != 0) return status;
  if (int32_t status = CheckFlag(c.has_random_seed, "has_random_seed"); status != 0) return status;
  if (int32_t status = CheckFlag(c.disable_calibration, "disable_calibration"); status != 0) {
    return status;
  }
  if (int32_t status = CheckUnused(c.reserved, "reserved"); status != 0) return status;
  if (int32_t status = CheckUnused(c.reserved2, "reserved2"); status != 0) return status;
  std::string_view policy;
  if (int32_t status = ReadString(c.policy, c.policy_size, "policy", &policy); status != 0) {
    return status;
  }
  if (c.policy_callback != nullptr) {
    if (!(c.policy_tie_tolerance >= 0)) {
      return Invalid("policy_tie_tolerance must be 0 or more, got " +
                     std::to_string(c.policy_tie_tolerance));
    }
    out->policy = policy.empty() ? "custom" : policy;
    out->custom_policy = std::make_shared<CallbackPolicy>(out->policy, c);
  } else if (!policy.empty()) {
    out->policy = policy;
  }

  PolicyOptions& p = out->policy_options;
  SetUnlessZero(&p.hash_ring_points, c.hash_ring_points);
  SetUnlessZero(&p.hash_prefix_tokens, c.hash_prefix_tokens);
  SetUnlessZero(&p.hash_max_requests, c.hash_max_requests);
  SetUnlessZero(&p.hash_load_factor, c.hash_load_factor);
  SetUnlessZero(&p.threshold_match, c.threshold_match);
  SetUnlessZero(&p.threshold_requests, c.threshold_requests);
  SetUnlessZero(&p.threshold_ratio, c.threshold_ratio);
  SetUnlessZero(&p.weight_match, c.weight_match);
  SetUnlessZero(&p.weight_queue, c.weight_queue);
  SetUnlessZero(&p.weight_kv, c.weight_kv);
  SetUnlessZero(&p.block_credit, c.block_credit);

  SetUnlessZero(&out->block_size, c.block_size);
  SetUnlessZero(&out->text_block_bytes, c.text_block_bytes);
  SetUnlessZero(&out->text_bytes_per_token, c.text_bytes_per_token);
  if (c.has_key_seed != 0) out->key_seed = c.key_seed;
  if (c.has_random_seed != 0) out->random_seed = c.random_seed;
  out->calibrate = c.disable_calibration == 0;
  SetUnlessZero(&out->predicted_ttl_s, c.predicted_ttl_s);
  SetUnlessZero(&out->confirm_window_s, c.confirm_window_s);
  SetUnlessZero(&out->default_prefill_tokens_per_s, c.default_prefill_tokens_per_s);
  SetUnlessZero(&out->report_max_age_s, c.report_max_age_s);
  SetUnlessZero(&out->lease_ttl_s, c.lease_ttl_s);
  SetUnlessZero(&out->session_ttl_s, c.session_ttl_s);
  SetUnlessZero(&out->session_slack_s, c.session_slack_s);
  SetUnlessZero(&out->index_budget_bytes, c.index_budget_bytes);
  SetUnlessZero(&out->max_prompt_tokens, c.max_prompt_tokens);
  SetUnlessZero(&out->max_instances, c.max_instances);
  SetUnlessZero(&out->max_sessions, c.max_sessions);
  if (c.max_sessions == PREFIX_ROUTER_NO_SESSIONS) out->max_sessions = 0;
  if (c.clock_callback != nullptr) {
    out->clock = std::make_shared<CallbackClock>(c);
  }
  SetUnlessZero(&out->latency_interval_s, c.latency_interval_s);
  SetUnlessZero(&out->cpu_tier_weight, c.cpu_tier_weight);
  SetUnlessZero(&out->disk_tier_weight, c.disk_tier_weight);
  SetUnlessZero(&out->external_tier_weight, c.external_tier_weight);
  SetUnlessZero(&out->routers, c.routers);
  return 0;
}

int32_t ReadInstanceOptions(const prefix_router_instance_options* in, InstanceOptions* out) {
  Input<prefix_router_instance_options> input;
  if (int32_t status = input.Read(in, "options"); status != 0) return status;
  const prefix_router_instance_options& c = *input;
  std::string_view name;
  if (int32_t status = ReadString(c.name, c.name_size, "name", &name); status != 0) return status;
  std::string_view model;
  if (int32_t status = ReadString(c.model, c.model_size, "model", &model); status != 0) {
    return status;
  }
  out->name = name;
  out->model = model;
  out->rank = c.rank;
  SetUnlessZero(&out->capacity_blocks, c.capacity_blocks);
  SetUnlessZero(&out->prefill_tokens_per_s, c.prefill_tokens_per_s);
  SetUnlessZero(&out->weight, c.weight);
  return 0;
}

int32_t ReadEngineLoad(const prefix_router_engine_load* in, EngineLoad* out) {
  Input<prefix_router_engine_load> input;
  if (int32_t status = input.Read(in, "load"); status != 0) return status;
  const prefix_router_engine_load& c = *input;
  constexpr uint32_t kKnown = PREFIX_ROUTER_REPORTS_RUNNING | PREFIX_ROUTER_REPORTS_WAITING |
                              PREFIX_ROUTER_REPORTS_KV_USAGE;
  if (int32_t status = CheckUnused(c.reported & ~kKnown, "reported"); status != 0) return status;
  if (int32_t status = CheckUnused(c.reserved, "reserved"); status != 0) return status;
  const auto read_count = [](int64_t value, const char* name, int64_t* member) {
    if (value < 0)
      return Invalid(std::string(name) + " must be 0 or more, got " + std::to_string(value));
    *member = value;
    return 0;
  };
  if ((c.reported & PREFIX_ROUTER_REPORTS_RUNNING) != 0) {
    const int32_t status =
        read_count(c.running_requests, "running_requests", &out->running_requests);
    if (status != 0) return status;
  }
  if ((c.reported & PREFIX_ROUTER_REPORTS_WAITING) != 0) {
    const int32_t status =
        read_count(c.waiting_requests, "waiting_requests", &out->waiting_requests);
    if (status != 0) return status;
  }
  if ((c.reported & PREFIX_ROUTER_REPORTS_KV_USAGE) != 0) {
    if (c.kv_usage < 0) {
      return Invalid("kv_usage must be 0 to 1, got " + std::to_string(c.kv_usage));
    }
    out->kv_usage = c.kv_usage;
  }
  out->age_s = c.age_s;
  return 0;
}

int32_t ReadFinishInfo(const prefix_router_finish_info* in, FinishInfo* out) {
  Input<prefix_router_finish_info> input;
  if (int32_t status = input.Read(in, "info"); status != 0) return status;
  const prefix_router_finish_info& c = *input;
  constexpr uint32_t kKnown =
      PREFIX_ROUTER_REPORTS_OUTPUT_TOKENS | PREFIX_ROUTER_REPORTS_CACHED_TOKENS;
  if (int32_t status = CheckUnused(c.reported & ~kKnown, "reported"); status != 0) return status;
  if (int32_t status = CheckUnused(c.reserved, "reserved"); status != 0) return status;
  const auto read_count = [](uint64_t value, const char* name, int64_t* member) {
    if (value > INT64_MAX)
      return Invalid(std::string(name) + " must be less than 2^63, got " + std::to_string(value));
    *member = static_cast<int64_t>(value);
    return 0;
  };
  if ((c.reported & PREFIX_ROUTER_REPORTS_OUTPUT_TOKENS) != 0) {
    const int32_t status = read_count(c.output_tokens, "output_tokens", &out->output_tokens);
    if (status != 0) return status;
  }
  if ((c.reported & PREFIX_ROUTER_REPORTS_CACHED_TOKENS) != 0) {
    return read_count(c.engine_cached_tokens, "engine_cached_tokens", &out->engine_cached_tokens);
  }
  return 0;
}

int32_t ReadRequestStrings(const prefix_router_request& c, RequestStrings* out) {
  KeySpace& space = out->key_space;
  int32_t status = CheckUnused(c.reserved, "reserved");
  if (status == 0) status = ReadString(c.text, c.text_size, "text", &out->text);
  if (status == 0) status = ReadString(c.model, c.model_size, "model", &space.model);
  if (status == 0) status = ReadString(c.adapter, c.adapter_size, "adapter", &space.adapter);
  if (status == 0) status = ReadString(c.salt, c.salt_size, "salt", &space.salt);
  if (status == 0) {
    status = ReadString(c.session_key, c.session_key_size, "session_key", &out->session_key);
  }
  return status;
}

int32_t ReadEngineMetricsOptions(const prefix_router_engine_metrics_options* in,
                                 EngineMetricsOptions* out) {
  if (in == nullptr) return 0;
  Input<prefix_router_engine_metrics_options> input;
  if (int32_t status = input.Read(in, "options"); status != 0) return status;
  const prefix_router_engine_metrics_options& c = *input;
  if (int32_t status = CheckUnused(c.reserved, "reserved"); status != 0) return status;
  if (int32_t status = ReadString(c.model, c.model_size, "model", &out->model); status != 0) {
    return status;
  }
  SetUnlessZero(&out->max_bytes, c.max_bytes);
  SetUnlessZero(&out->max_line_bytes, c.max_line_bytes);
  SetUnlessZero(&out->max_ranks, c.max_ranks);
  return 0;
}

int32_t ReadMetricsOptions(const prefix_router_metrics_options* in, MetricsOptions* out) {
  if (in == nullptr) return 0;
  Input<prefix_router_metrics_options> input;
  if (int32_t status = input.Read(in, "options"); status != 0) return status;
  const prefix_router_metrics_options& c = *input;
  if (int32_t status = CheckFlag(c.omit_instances, "omit_instances"); status != 0) return status;
  if (int32_t status = CheckUnused(c.reserved, "reserved"); status != 0) return status;
  out->per_instance = c.omit_instances == 0;
  return 0;
}

int32_t ReadRank(const prefix_router_engine_rank_metrics* in, EngineRankMetrics* out) {
  if (in == nullptr) return FailNull("rank");
  return ReadRank(in, in->struct_size, "rank", out);
}

int32_t ReadRanks(const prefix_router_engine_rank_metrics* in, size_t count,
                  std::vector<EngineRankMetrics>* out) {
  for (size_t i = 0; i < count; ++i) {
    EngineRankMetrics& rank = out->emplace_back();
    const int32_t status =
        ReadRank(Element(in, i), in->struct_size, ElementName("ranks", i).c_str(), &rank);
    if (status != 0) return status;
  }
  return 0;
}

int32_t ReadSources(const prefix_router_metrics_source* in, size_t count,
                    std::vector<LabelledRouter>* out) {
  for (size_t i = 0; i < count; ++i) {
    const std::string name = ElementName("sources", i);
    Input<prefix_router_metrics_source> input;
    int32_t status = input.Read(Element(in, i), in->struct_size, name.c_str());
    if (status != 0) return status;
    const prefix_router_metrics_source& c = *input;
    if (c.router == nullptr) return FailNull((name + ".router").c_str());
    LabelledRouter& source = out->emplace_back();
    source.router = c.router;
    status = CheckArray(c.labels, c.label_count, (name + ".labels").c_str());
    for (size_t j = 0; status == 0 && j < c.label_count; ++j) {
      const prefix_router_label& label = c.labels[j];
      std::string_view label_name, label_value;
      status = ReadString(label.name, label.name_size, "label name", &label_name);
      if (status == 0) {
        status = ReadString(label.value, label.value_size, "label value", &label_value);
      }
      if (status == 0) source.labels.emplace_back(label_name, label_value);
    }
    if (status != 0) return status;
  }
  return 0;
}

// ---- Writing ------------------------------------------------------------------------------------

void Fill(const RouterOptions& o, prefix_router_options* out) {
  auto& c = *out;
  c.block_size = o.block_size;
  c.text_block_bytes = o.text_block_bytes;
  c.text_bytes_per_token = o.text_bytes_per_token;
  c.policy = o.policy.c_str();
  c.policy_size = o.policy.size();
  // Routers of the C library have no other policies and clocks than these.
  const auto* const policy = static_cast<const CallbackPolicy*>(o.custom_policy.get());
  c.policy_callback = policy != nullptr ? policy->callback() : nullptr;
  c.policy_user_data = policy != nullptr ? policy->user_data() : nullptr;
  c.policy_tie_tolerance = policy != nullptr ? policy->tie_tolerance() : 0;
  const PolicyOptions& p = o.policy_options;
  c.hash_ring_points = p.hash_ring_points;
  c.hash_prefix_tokens = p.hash_prefix_tokens;
  c.hash_max_requests = p.hash_max_requests;
  c.hash_load_factor = p.hash_load_factor;
  c.threshold_match = OrZero(p.threshold_match);
  c.threshold_requests = OrZero(p.threshold_requests);
  c.threshold_ratio = p.threshold_ratio;
  c.weight_match = OrZero(p.weight_match);
  c.weight_queue = OrZero(p.weight_queue);
  c.weight_kv = OrZero(p.weight_kv);
  c.block_credit = OrZero(p.block_credit);
  c.has_key_seed = 1;
  c.key_seed = *o.key_seed;
  c.has_random_seed = 1;
  c.random_seed = *o.random_seed;
  c.disable_calibration = o.calibrate ? 0 : 1;
  c.reserved = 0;
  c.predicted_ttl_s = o.predicted_ttl_s;
  c.confirm_window_s = o.confirm_window_s;
  c.default_prefill_tokens_per_s = o.default_prefill_tokens_per_s;
  c.report_max_age_s = o.report_max_age_s;
  c.lease_ttl_s = o.lease_ttl_s;
  c.session_ttl_s = o.session_ttl_s;
  c.session_slack_s = OrZero(o.session_slack_s);
  c.index_budget_bytes = o.index_budget_bytes;
  c.max_prompt_tokens = o.max_prompt_tokens;
  c.max_instances = o.max_instances;
  c.max_sessions = o.max_sessions == 0 ? PREFIX_ROUTER_NO_SESSIONS : o.max_sessions;
  const auto* const clock = dynamic_cast<const CallbackClock*>(o.clock.get());
  c.clock_callback = clock != nullptr ? clock->callback() : nullptr;
  c.clock_user_data = clock != nullptr ? clock->user_data() : nullptr;
  c.latency_interval_s = OrZero(o.latency_interval_s);
  c.cpu_tier_weight = OrZero(o.cpu_tier_weight);
  c.disk_tier_weight = OrZero(o.disk_tier_weight);
  c.external_tier_weight = OrZero(o.external_tier_weight);
  c.routers = o.routers;
  c.reserved2 = 0;
}

void Fill(const Decision& d, prefix_router_decision* out) {
  auto& c = *out;
  c.instance = d.instance.value;
  c.prompt_tokens = d.prompt_tokens;
  c.cached_tokens = d.cached_tokens;
  c.best_cached_tokens = d.best_cached_tokens;
  c.predicted_ttft_s = d.predicted_ttft_s;
  c.cost_pending = d.cost.pending;
  c.cost_uncached = d.cost.uncached;
  c.cost_requests = d.cost.requests;
  c.cost_pressure = d.cost.pressure;
  c.cost_total = d.cost.total;
  c.miss_weight = d.miss_weight;
  c.runner_up = d.runner_up.value;
  c.runner_up_cost = d.runner_up_cost;
  c.rule = static_cast<int32_t>(d.rule);
  c.candidates = d.candidates;
  c.stale_report = d.stale_report ? 1 : 0;
  c.reserved = 0;
  c.cached_credit_tokens = d.cached_credit_tokens;
  c.home_tokens = d.home_tokens;
}

void Fill(const ScoreTable& t, prefix_router_score_table* out) {
  out->prompt_tokens = t.prompt_tokens;
  out->miss_weight = t.miss_weight;
}

void Fill(const ScoreRow& r, prefix_router_score_row* out) {
  auto& c = *out;
  c.instance = r.instance.value;
  c.eligible = r.eligible ? 1 : 0;
  c.stale_report = r.stale_report ? 1 : 0;
  c.cached_tokens = r.cached_tokens;
  c.predicted_ttft_s = r.predicted_ttft_s;
  c.cost_pending = r.cost.pending;
  c.cost_uncached = r.cost.uncached;
  c.cost_requests = r.cost.requests;
  c.cost_pressure = r.cost.pressure;
  c.cost_total = r.cost.total;
  c.requests_in_flight = r.requests_in_flight;
  c.pending_tokens = r.pending_tokens;
  c.cached_credit_tokens = r.cached_credit_tokens;
  c.home_tokens = r.home_tokens;
}

void Fill(const RouterStats& s, prefix_router_stats* out) {
  auto& c = *out;
  const auto decided_by = [&s](Rule rule) { return s.decisions_by_rule[static_cast<int>(rule)]; };
  c.requests = s.requests;
  c.rejected = s.rejected;
  c.prompt_tokens = s.prompt_tokens;
  c.cached_tokens = s.cached_tokens;
  c.decided_by_lowest_cost = decided_by(Rule::kLowestCost);
  c.decided_by_near_tie = decided_by(Rule::kNearTie);
  c.decided_by_only_candidate = decided_by(Rule::kOnlyCandidate);
  c.decided_by_session = decided_by(Rule::kSession);
  c.leases_finished = s.leases_finished;
  c.leases_cancelled = s.leases_cancelled;
  c.leases_expired = s.leases_expired;
  c.output_tokens = s.output_tokens;
  c.reported_requests = s.reported_requests;
  c.reported_cached_tokens = s.reported_cached_tokens;
  c.predicted_cached_tokens = s.predicted_cached_tokens;
  c.over_predicted_tokens = s.over_predicted_tokens;
  c.under_predicted_tokens = s.under_predicted_tokens;
  c.index_bytes = s.index_bytes;
  c.index_budget_bytes = s.index_budget_bytes;
  c.index_runs = s.index_runs;
  c.index_blocks = s.index_blocks;
  c.blocks_held = s.blocks_held;
  c.blocks_evicted = s.blocks_evicted;
  c.blocks_evicted_by_budget = s.blocks_evicted_by_budget;
  c.blocks_not_remembered = s.blocks_not_remembered;
  c.leases_active = s.leases_active;
  c.sessions = s.sessions;
  c.unavailable = s.unavailable;
  c.best_cached_tokens = s.best_cached_tokens;
  c.stale_report_decisions = s.stale_report_decisions;
  std::copy(std::begin(s.route_duration.counts), std::end(s.route_duration.counts),
            c.route_duration_counts);
  c.route_duration_sum_s = s.route_duration.sum_s;
  c.kv_event_batches = s.kv_event_batches;
  FillCounts(s.kv_events, c.kv_events);
  c.requests_at_home = s.requests_at_home;
  c.home_share = s.home_share;
}

void Fill(const InstanceStats& s, prefix_router_instance_stats* out) {
  auto& c = *out;
  const auto decided_by = [&s](Rule rule) { return s.requests_by_rule[static_cast<int>(rule)]; };
  c.instance = s.id.value;
  c.rank = s.rank;
  c.state = static_cast<int32_t>(s.state);
  c.requests_in_flight = s.requests_in_flight;
  c.requests_waiting = s.requests_waiting;
  c.pending_tokens = s.pending_tokens;
  c.kv_tokens = s.kv_tokens;
  c.fluid_tokens = s.fluid_tokens;
  c.blocks_held = s.blocks_held;
  c.capacity_blocks = s.capacity_blocks;
  c.capacity_scale = s.capacity_scale;
  c.prefill_tokens_per_s = s.prefill_tokens_per_s;
  c.report_age_s = s.report_age_s;
  c.requests = s.requests;
  c.prompt_tokens = s.prompt_tokens;
  c.cached_tokens = s.cached_tokens;
  c.prefill_rate_learned = s.prefill_rate_learned ? 1 : 0;
  c.reserved = 0;
  c.decided_by_lowest_cost = decided_by(Rule::kLowestCost);
  c.decided_by_near_tie = decided_by(Rule::kNearTie);
  c.decided_by_only_candidate = decided_by(Rule::kOnlyCandidate);
  c.decided_by_session = decided_by(Rule::kSession);
  c.reported_running_requests = s.reported_running_requests;
  c.reported_waiting_requests = s.reported_waiting_requests;
  c.reported_kv_usage = s.reported_kv_usage;
  const auto confirmed = [&s](KvTier tier) { return s.confirmed_blocks[static_cast<int>(tier)]; };
  c.event_driven = s.event_driven ? 1 : 0;
  c.reserved2 = 0;
  c.last_event_age_s = s.last_event_age_s;
  c.engine_blocks = s.engine_blocks;
  c.confirmed_gpu_blocks = confirmed(KvTier::kGpu);
  c.confirmed_cpu_blocks = confirmed(KvTier::kCpu);
  c.confirmed_disk_blocks = confirmed(KvTier::kDisk);
  c.confirmed_external_blocks = confirmed(KvTier::kExternal);
  FillCounts(s.kv_events, c.kv_events);
}

void Fill(const EngineMetrics& m, prefix_router_engine_metrics* out) {
  auto& c = *out;
  c.engine = static_cast<int32_t>(m.engine);
  c.reserved = 0;
  c.prompt_tokens = m.prompt_tokens;
  c.cached_tokens = m.cached_tokens;
  c.external_cached_tokens = m.external_cached_tokens;
  c.samples = m.samples;
  c.unusable_values = m.unusable_values;
  c.malformed_lines = m.malformed_lines;
  c.first_malformed_line = m.first_malformed_line;
  const std::string& reason = m.first_malformed_reason;
  std::memset(c.first_malformed_reason, 0, sizeof c.first_malformed_reason);
  reason.copy(c.first_malformed_reason, sizeof c.first_malformed_reason - 1);
}

void Fill(const EngineRankMetrics& m, prefix_router_engine_rank_metrics* out) {
  auto& c = *out;
  c.rank = m.rank;
  c.reserved = 0;
  c.running_requests = m.load.running_requests;
  c.waiting_requests = m.load.waiting_requests;
  c.kv_usage = m.load.kv_usage;
  c.block_size = m.block_size;
  c.capacity_tokens = m.capacity_tokens;
  c.prompt_tokens = m.prompt_tokens;
  c.cached_tokens = m.cached_tokens;
  c.external_cached_tokens = m.external_cached_tokens;
}

}  // namespace prefixrouter::capi
