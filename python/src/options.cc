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

template <typename T>
py::object Show(const T& field) {
  return py::cast(field);
}
py::object Show(const std::optional<uint64_t>& field) {
  return field ? py::object(py::int_(*field)) : py::object(py::none());
}

// Calls visit(name, field) for each option.
template <typename Options, typename Visit>
void ForEachOption(Options& options, Visit&& visit) {
  visit("block_size", options.block_size);
  visit("text_block_bytes", options.text_block_bytes);
  visit("text_bytes_per_token", options.text_bytes_per_token);
  visit("key_seed", options.key_seed);
  visit("random_seed", options.random_seed);
  visit("predicted_ttl_s", options.predicted_ttl_s);
  visit("confirm_window_s", options.confirm_window_s);
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
