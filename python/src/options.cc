#include "options.h"

#include <optional>
#include <string>
#include <type_traits>

#include "arguments.h"

namespace prefixrouter::python {
namespace {

void Read(py::handle value, const std::string& name, uint32_t* field) {
  *field = ToInteger<uint32_t>(value, name);
}
void Read(py::handle value, const std::string& name, uint64_t* field) {
  *field = ToUint64(value, name);
}
void Read(py::handle value, const std::string& name, double* field) {
  *field = ToDouble(value, name);
}
void Read(py::handle value, const std::string& name, bool* field) { *field = ToBool(value, name); }
void Read(py::handle value, const std::string& name, std::optional<uint64_t>* field) {
  if (value.is_none()) {
    field->reset();
  } else {
    *field = ToUint64(value, name);
  }
}

void Read(py::handle value, const std::string& name, PolicyOptions* field);

template <typename T>
py::object Show(const T& field) {
  return py::cast(field);
}
py::object Show(const std::optional<uint64_t>& field) {
  return field ? py::object(py::int_(*field)) : py::object(py::none());
}
py::object Show(const PolicyOptions& field);

// Calls visit(name, field) for each option.
template <typename Options, typename Visit>
void ForEachPolicyOption(Options& options, Visit&& visit) {
  visit("hash_load_factor", options.hash_load_factor);
  visit("hash_ring_points", options.hash_ring_points);
  visit("hash_prefix_tokens", options.hash_prefix_tokens);
  visit("hash_max_requests", options.hash_max_requests);
  visit("threshold_match", options.threshold_match);
  visit("threshold_requests", options.threshold_requests);
  visit("threshold_ratio", options.threshold_ratio);
  visit("weight_match", options.weight_match);
  visit("weight_queue", options.weight_queue);
  visit("weight_kv", options.weight_kv);
  visit("block_credit", options.block_credit);
}

template <typename Options, typename Visit>
void ForEachOption(Options& options, Visit&& visit) {
  visit("block_size", options.block_size);
  visit("text_block_bytes", options.text_block_bytes);
  visit("text_bytes_per_token", options.text_bytes_per_token);
  visit("policy_options", options.policy_options);
  visit("key_seed", options.key_seed);
  visit("routers", options.routers);
  visit("random_seed", options.random_seed);
  visit("predicted_ttl_s", options.predicted_ttl_s);
  visit("confirm_window_s", options.confirm_window_s);
  visit("cpu_tier_weight", options.cpu_tier_weight);
  visit("disk_tier_weight", options.disk_tier_weight);
  visit("external_tier_weight", options.external_tier_weight);
  visit("default_prefill_tokens_per_s", options.default_prefill_tokens_per_s);
  visit("calibrate", options.calibrate);
  visit("report_max_age_s", options.report_max_age_s);
  visit("lease_ttl_s", options.lease_ttl_s);
  visit("session_ttl_s", options.session_ttl_s);
  visit("session_slack_s", options.session_slack_s);
  visit("index_budget_bytes", options.index_budget_bytes);
  visit("max_prompt_tokens", options.max_prompt_tokens);
  visit("max_instances", options.max_instances);
  visit("max_sessions", options.max_sessions);
  visit("latency_interval_s", options.latency_interval_s);
}

void Read(py::handle value, const std::string& name, PolicyOptions* field) {
  if (value.is_none()) return;
  if (!PyDict_Check(value.ptr())) {
    throw py::type_error(name + " must be a dict or None, got " + ShownWithType(value));
  }
  // A copy, because what reads a number may run code that changes the dict.
  const auto items = py::reinterpret_steal<py::dict>(PyDict_Copy(value.ptr()));
  if (!items) throw py::error_already_set();
  for (const auto& [key, number] : items) {
    const std::string_view wanted = ToText(key, "a key of " + name);
    bool found = false;
    std::string known;
    ForEachPolicyOption(*field, [&](const char* option, auto& policy_field) {
      known += (known.empty() ? "" : ", ") + std::string(option);
      if (wanted != option) return;
      Read(number, option, &policy_field);
      found = true;
    });
    if (!found) {
      throw py::value_error("the keys of " + name + " are " + known + "; got " + Shown(key));
    }
  }
}

py::object Show(const PolicyOptions& field) {
  py::dict all;
  ForEachPolicyOption(field,
                      [&](const char* option, const auto& number) { all[option] = Show(number); });
  return all;
}

}  // namespace

bool SetOption(RouterOptions* options, std::string_view name, py::handle value) {
  bool found = false;
  ForEachOption(*options, [&](const char* option, auto& field) {
    if (name != option) return;
    Read(value, option, &field);
    found = true;
  });
  return found;
}

py::dict GetOptions(const RouterOptions& options) {
  py::dict all;
  ForEachOption(options, [&](const char* option, const auto& field) { all[option] = Show(field); });
  return all;
}

}  // namespace prefixrouter::python
