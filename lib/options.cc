#include "lib/options.h"

#include <cmath>
#include <cstdio>
#include <string>

namespace prefixrouter {
namespace {

std::string Text(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof(buffer), "%g", value);
  return buffer;
}
std::string Text(uint64_t value) { return std::to_string(value); }
std::string Text(uint32_t value) { return std::to_string(value); }

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

template <typename T>
Status CheckRange(const char* field, T value, T low, T high) {
  if (value >= low && value <= high) return Status();  // false for NaN
  return Invalid(std::string(field) + " must be " + Text(low) + " to " + Text(high) + ", got " +
                 Text(value));
}

}  // namespace

Status CheckPolicyOptions(const PolicyOptions& o) {
  const Status checks[] = {
      CheckRange("hash_load_factor", o.hash_load_factor, 1.0, 1e6),
      CheckRange("hash_ring_points", o.hash_ring_points, 1u, 4096u),
      CheckRange("hash_prefix_tokens", o.hash_prefix_tokens, 1u, 1u << 24),
      CheckRange("hash_max_requests", o.hash_max_requests, 1u, 1'000'000u),
      CheckRange("threshold_match", o.threshold_match, 0.0, 1.0),
      CheckRange("threshold_requests", o.threshold_requests, 0.0, 1e9),
      CheckRange("threshold_ratio", o.threshold_ratio, 1.0, 1e9),
      CheckRange("weight_match", o.weight_match, 0.0, 1e6),
      CheckRange("weight_queue", o.weight_queue, 0.0, 1e6),
      CheckRange("weight_kv", o.weight_kv, 0.0, 1e6),
      CheckRange("block_credit", o.block_credit, 0.0, 1000.0),
  };
  for (const Status& check : checks) {
    if (!check.ok()) return check;
  }
  if (o.weight_match + o.weight_queue + o.weight_kv == 0) {
    return Invalid("weight_match, weight_queue and weight_kv must not all be 0");
  }
  return Status();
}

Status CheckOptions(const RouterOptions& o) {
  const Status checks[] = {
      CheckRange("block_size", o.block_size, 1u, 32768u),
      CheckRange("text_block_bytes", o.text_block_bytes, 1u, 131072u),
      CheckRange("text_bytes_per_token", o.text_bytes_per_token, 0.25, 64.0),
      CheckRange("predicted_ttl_s", o.predicted_ttl_s, 0.0, 1e9),
      CheckRange("routers", o.routers, 1u, 1000000u),
      CheckRange("confirm_window_s", o.confirm_window_s, 0.001, 3600.0),
      CheckRange("cpu_tier_weight", o.cpu_tier_weight, 0.0, 1.0),
      CheckRange("disk_tier_weight", o.disk_tier_weight, 0.0, 1.0),
      CheckRange("external_tier_weight", o.external_tier_weight, 0.0, 1.0),
      CheckRange("default_prefill_tokens_per_s", o.default_prefill_tokens_per_s, 1.0, 1e9),
      CheckRange("report_max_age_s", o.report_max_age_s, 0.001, 1e6),
      CheckRange("lease_ttl_s", o.lease_ttl_s, 0.001, 1e9),
      CheckRange("session_ttl_s", o.session_ttl_s, 0.001, 1e9),
      CheckRange("session_slack_s", o.session_slack_s, 0.0, 1e9),
      CheckRange<double>("latency_interval_s", o.latency_interval_s, 0.0, INFINITY),
      CheckRange<uint64_t>("max_prompt_tokens", o.max_prompt_tokens, 1, uint64_t{1} << 24),
      CheckRange("max_instances", o.max_instances, 1u, 1u << 20),
      CheckRange("max_sessions", o.max_sessions, 0u, 1u << 31),
  };
  for (const Status& check : checks) {
    if (!check.ok()) return check;
  }
  if (o.routers > 1 && !o.key_seed) {
    return Invalid("routers is " + std::to_string(o.routers) +
                   ", so key_seed must be set, to the same in all of them");
  }
  constexpr size_t kSmallestBudget = 65536;
  if (o.index_budget_bytes < kSmallestBudget) {
    return Invalid("index_budget_bytes must be at least 65536, got " +
                   std::to_string(o.index_budget_bytes));
  }
  if (Status check = CheckPolicyOptions(o.policy_options); !check.ok()) return check;
  if (o.custom_policy == nullptr) {
    std::string known;
    for (const std::string& name : PolicyNames()) {
      if (name == o.policy) return Status();
      known += (known.empty() ? "" : ", ") + name;
    }
    return Invalid("policy must be one of " + known + ", got \"" + o.policy + "\"");
  }
  return Status();
}

Status CheckInstance(const InstanceOptions& o) {
  constexpr size_t kLongestName = 65535;
  if (o.name.empty()) return Invalid("name must not be empty");
  if (o.name.size() > kLongestName) {
    return Invalid("name must be at most 65535 bytes, got " + std::to_string(o.name.size()));
  }
  if (o.model.size() > kLongestName) {
    return Invalid("model must be at most 65535 bytes, got " + std::to_string(o.model.size()));
  }
  Status check = CheckRange("capacity_blocks", o.capacity_blocks, 1u, (1u << 31) - 1);
  if (!check.ok()) return check;
  if (o.prefill_tokens_per_s != 0) {
    check = CheckRange("prefill_tokens_per_s", o.prefill_tokens_per_s, 1.0, 1e9);
    if (!check.ok()) {
      return Invalid(check.message() + " (0 for unknown is allowed)");
    }
  }
  if (!(o.weight > 0 && o.weight <= 1000)) {
    return Invalid("weight must be more than 0 and at most 1000, got " + Text(o.weight));
  }
  return Status();
}

Status CheckLoad(const EngineLoad& load) {
  if (std::isnan(load.kv_usage) || load.kv_usage > 1) {
    return Invalid("kv_usage must be 0 to 1, or negative for not reported, got " +
                   Text(load.kv_usage));
  }
  if (!(load.age_s >= 0)) return Invalid("age_s must be 0 or more, got " + Text(load.age_s));
  return Status();
}

Status CheckEvents(const KvEventBatch& batch) {
  const auto check = [](const char* field, const auto& span) {
    if (span.empty() || span.data() != nullptr) return Status();
    return Invalid(std::string(field) + " is null with a size of " + std::to_string(span.size()));
  };
  if (Status events = check("events", batch.events); !events.ok()) return events;
  for (const KvEvent& event : batch.events) {
    for (const Status& status : {check("block_ids", event.block_ids), check("tokens", event.tokens),
                                 check("multimodal", event.multimodal)}) {
      if (!status.ok()) return status;
    }
  }
  return Status();
}

int64_t Nanos(double seconds) {
  return seconds >= 9e9 ? INT64_MAX / 4 : static_cast<int64_t>(seconds * 1e9);
}

uint64_t PromptTokens(const Request& request, const RouterOptions& options) {
  switch (request.form) {
    case PromptForm::kTokens:
      return request.tokens.size();
    case PromptForm::kText:
      return static_cast<uint64_t>(
          std::ceil(static_cast<double>(request.text.size()) / options.text_bytes_per_token));
    case PromptForm::kBlockKeys:
      return request.prompt_tokens != 0 ? request.prompt_tokens
                                        : uint64_t{request.block_keys.size()} * options.block_size;
  }
  return 0;
}

Status CheckRequest(const Request& request, const RouterOptions& options) {
  size_t size = 0;
  const void* data = nullptr;
  const char* field = "tokens";
  switch (request.form) {
    case PromptForm::kTokens:
      size = request.tokens.size();
      data = request.tokens.data();
      break;
    case PromptForm::kText:
      size = request.text.size();
      data = request.text.data();
      field = "text";
      break;
    case PromptForm::kBlockKeys:
      size = request.block_keys.size();
      data = request.block_keys.data();
      field = "block_keys";
      break;
    default:
      return Invalid("form must be tokens, text or block_keys, got " +
                     std::to_string(static_cast<int32_t>(request.form)));
  }
  if (size != 0 && data == nullptr) {
    return Invalid(std::string(field) + " is null with a size of " + std::to_string(size));
  }
  // Before the multiplication that PromptTokens does for keys.
  const uint64_t prompt_tokens =
      size > options.max_prompt_tokens * 64 ? size : PromptTokens(request, options);
  if (prompt_tokens > options.max_prompt_tokens) {
    return Invalid("the prompt has " + std::to_string(prompt_tokens) +
                   " tokens, max_prompt_tokens is " + std::to_string(options.max_prompt_tokens));
  }
  if (request.form == PromptForm::kBlockKeys &&
      prompt_tokens < uint64_t{size} * options.block_size) {
    return Invalid("prompt_tokens is " + std::to_string(prompt_tokens) + ", fewer than " +
                   std::to_string(size) + " block_keys stand for");
  }
  if (!request.multimodal.empty() && request.multimodal.data() == nullptr) {
    return Invalid("multimodal is null with a size of " +
                   std::to_string(request.multimodal.size()));
  }
  uint64_t previous = 0;
  for (const MultimodalItem& item : request.multimodal) {
    if (request.form == PromptForm::kBlockKeys) break;
    if (item.offset >= size) {
      return Invalid("multimodal offset " + std::to_string(item.offset) +
                     " is past the end of the prompt, " + std::to_string(size));
    }
    if (item.offset < previous) {
      return Invalid("multimodal offsets must ascend, got " + std::to_string(item.offset) +
                     " after " + std::to_string(previous));
    }
    previous = item.offset;
  }
  if (!request.allowed.empty() && request.allowed.data() == nullptr) {
    return Invalid("allowed is null with a size of " + std::to_string(request.allowed.size()));
  }
  if (!(request.max_ttft_s >= 0)) {
    return Invalid("max_ttft_s must be 0 or more, got " + Text(request.max_ttft_s));
  }
  return Status();
}

}  // namespace prefixrouter
