// Simulate and FindLoadLevels: checks of what callers pass in, and the search for loads.
#include "prefixrouter/simulator.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <string>
#include <utility>

#include "lib/sim/baselines.h"
#include "lib/sim/simulation.h"

namespace prefixrouter {
namespace {

// ---- Checks ------------------------------------------------------------------------------------

std::string Text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%g", value);
  return text;
}

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

// False for NaN. `what` continues with the range's text.
Status CheckRange(const std::string& field, double value, double low, double high) {
  if (value >= low && value <= high) return Status();
  return Invalid(field + " must be " + Text(low) + " to " + Text(high) + ", got " + Text(value));
}

Status First(const std::vector<Status>& checks) {
  for (const Status& check : checks) {
    if (!check.ok()) return check;
  }
  return Status();
}

Status CheckEngine(const EngineOptions& engine) {
  if (engine.cost_model != CostModel::kLinear && engine.cost_model != CostModel::kRoofline) {
    return Invalid("engine.cost_model must be linear or roofline, got " +
                   std::to_string(static_cast<int32_t>(engine.cost_model)));
  }
  const auto cost = [](const char* field, double value) {
    return CheckRange(std::string("engine.") + field, value, 0, 1e30);
  };
  const LinearCost& linear = engine.linear;
  const RooflineCost& roofline = engine.roofline;
  Status check = First({
      CheckRange("engine.kv_capacity_tokens", static_cast<double>(engine.kv_capacity_tokens), 1,
                 std::pow(2, 40)),
      CheckRange("engine.max_batched_tokens", engine.max_batched_tokens, 1, 1 << 24),
      CheckRange("engine.max_running_requests", engine.max_running_requests, 1, 65536),
      CheckRange("engine.page_tokens", engine.page_tokens, 1, 32768),
      cost("linear.step_s", linear.step_s),
      cost("linear.prefill_token_s", linear.prefill_token_s),
      cost("linear.prefill_pair_s", linear.prefill_pair_s),
      cost("linear.decode_request_s", linear.decode_request_s),
      cost("linear.decode_context_token_s", linear.decode_context_token_s),
      cost("roofline.flops_per_token", roofline.flops_per_token),
      cost("roofline.flops_per_pair", roofline.flops_per_pair),
      cost("roofline.weight_bytes", roofline.weight_bytes),
      cost("roofline.kv_token_bytes", roofline.kv_token_bytes),
      CheckRange("engine.roofline.flops_per_s", roofline.flops_per_s, 1e-30, 1e30),
      CheckRange("engine.roofline.bytes_per_s", roofline.bytes_per_s, 1e-30, 1e30),
      cost("roofline.step_overhead_s", roofline.step_overhead_s),
      cost("roofline.token_overhead_s", roofline.token_overhead_s),
  });
  if (!check.ok()) return check;
  // Every step must take time, whatever is in it, or a simulation would not get on.
  for (const StepWork& work : {StepWork{1, 1.0, 0, 0.0}, StepWork{0, 0.0, 1, 1.0}}) {
    if (!(StepSeconds(engine, work) > 0)) return Invalid("engine costs must not all be 0");
  }
  return Status();
}

Status CheckFleet(const SimulationOptions& options) {
  const size_t count = options.instances.size();
  Status check = CheckRange("the number of instances", static_cast<double>(count), 1, 65536);
  for (size_t i = 0; i < count && check.ok(); ++i) {
    const SimulatedInstance& instance = options.instances[i];
    const std::string field = "instances[" + std::to_string(i) + "].";
    check = First({
        CheckRange(field + "speed", instance.speed, 0.001, 1000),
        CheckRange(field + "capacity", instance.capacity, 1e-6, 1e6),
        CheckRange(field + "configured_capacity", instance.configured_capacity, 1e-6, 1e6),
    });
    if (check.ok() && instance.configured_prefill_tokens_s != 0) {
      check = CheckRange(field + "configured_prefill_tokens_s",
                         instance.configured_prefill_tokens_s, 1, 1e9);
    }
  }
  if (!check.ok()) return check;

  enum class At { kThere, kFailed, kAbsent, kUnknown };
  std::vector<At> at(count, At::kUnknown);
  std::vector<FleetEvent> events = options.events;
  for (const FleetEvent& event : events) {
    check =
        First({CheckRange("events: time_s", event.time_s, 0, 1e9),
               CheckRange("events: instance", event.instance, 0, static_cast<double>(count) - 1)});
    if (!check.ok()) return check;
  }
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.time_s < b.time_s; });
  for (const FleetEvent& event : events) {
    At& state = at[event.instance];
    const bool first = state == At::kUnknown;
    const std::string where =
        " of instance " + std::to_string(event.instance) + " at " + Text(event.time_s) + " s: ";
    switch (event.change) {
      case FleetChange::kFail:
        if (!first && state != At::kThere) return Invalid("a failure" + where + "it is not there");
        state = At::kFailed;
        break;
      case FleetChange::kRestart:
        if (state != At::kFailed) return Invalid("a restart" + where + "it has not failed");
        state = At::kThere;
        break;
      case FleetChange::kJoin:
        if (!first && state != At::kAbsent) return Invalid("a join" + where + "it is there");
        state = At::kThere;
        break;
      case FleetChange::kLeave:
        if (!first && state != At::kThere) return Invalid("a leave" + where + "it is not there");
        state = At::kAbsent;
        break;
      default:
        return Invalid("events: change must be fail, restart, join or leave, got " +
                       std::to_string(static_cast<int32_t>(event.change)));
    }
  }
  return Status();
}

Status Check(const SimulationOptions& options) {
  Status check = First({
      CheckEngine(options.engine),
      CheckFleet(options),
      CheckRange("routers", options.routers, 1, 1024),
      CheckRange("arrival_scale", options.arrival_scale, 1e-6, 1e6),
      CheckRange("feedback_delay_s", options.feedback_delay_s, 0, 1e6),
      CheckRange("metrics_age_s", options.metrics_age_s, 0, 1e6),
      CheckRange("kv_event_delay_s", options.kv_event_delay_s, 0, 1e6),
      CheckRange("max_ttft_s", options.max_ttft_s, 0, 1e9),
      CheckRange("measure_from_s", options.measure_from_s, 0, 1e9),
      CheckRange("series_step_s", options.series_step_s, 0, 1e9),
  });
  if (!check.ok()) return check;
  if (options.metrics_period_s != 0) {
    check = CheckRange("metrics_period_s", options.metrics_period_s, 0.001, 1e6);
    if (!check.ok()) return check;
  }
  if (options.router.custom_policy != nullptr && !options.make_policy) {
    return Invalid("router.custom_policy cannot be set: make_policy makes one for each router");
  }
  if (options.make_policy) return Status();
  return ChoosePolicy(options.router.policy, options.router.policy_options).status();
}

// ---- Load levels -------------------------------------------------------------------------------

constexpr double kKneeTolerance = 0.05;

}  // namespace

Result<SimulationResult> Simulate(const Workload& workload, const SimulationOptions& options) {
  try {
    if (Status check = Check(options); !check.ok()) return check;
    return Simulation(workload, options).Run();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "out of memory");
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, error.what());
  }
}

Result<LoadLevels> FindLoadLevels(const Workload& workload, const SimulationOptions& given) {
  SimulationOptions options = given;
  options.router.policy = "least_requests";
  options.make_policy = nullptr;
  options.closed_loop = false;
  options.kv_events = false;  // least_requests does not look at caches
  Status status;
  const auto simulate = [&](double scale) {
    options.arrival_scale = scale;
    Result<SimulationResult> result = Simulate(workload, options);
    if (!result.ok()) status = result.status();
    return result;
  };
  const double span_s = workload.arrivals().span_s;
  if (span_s <= 0) return Invalid(workload.name() + ": all requests arrive at one time");

  // Everything at once: how long the fleet takes for the first nine tenths of it.
  LoadLevels levels;
  Result<SimulationResult> all = simulate(1e6);
  if (!all.ok()) return status;
  std::vector<double> ends;
  for (const RequestResult& request : all->requests) {
    if (request.outcome == Outcome::kDone) ends.push_back(request.end_s);
  }
  if (ends.empty()) return Invalid(workload.name() + ": no request fits this fleet");
  const auto at = ends.begin() + static_cast<int64_t>(0.9 * static_cast<double>(ends.size()));
  std::nth_element(ends.begin(), at, ends.end());
  levels.capacity_scale = std::clamp(0.9 * span_s / *at, 2e-6, 1e5);
  levels.half_scale = levels.capacity_scale / 2;

  Result<SimulationResult> half = simulate(levels.half_scale);
  if (!half.ok()) return status;
  levels.half_ttft_s = half->summary.ttft_mean_s;
  const double wanted_s = 2 * levels.half_ttft_s;
  double low = levels.half_scale, high = levels.half_scale;
  do {
    low = high;
    high *= 1.3;
    Result<SimulationResult> result = simulate(high);
    if (!result.ok()) return status;
    levels.knee_ttft_s = result->summary.ttft_mean_s;
  } while (levels.knee_ttft_s < wanted_s && high < 5e5);
  levels.knee_scale = high;
  for (int i = 0; i < 12 && std::abs(levels.knee_ttft_s / wanted_s - 1) > kKneeTolerance; ++i) {
    levels.knee_scale = std::sqrt(low * high);
    Result<SimulationResult> result = simulate(levels.knee_scale);
    if (!result.ok()) return status;
    levels.knee_ttft_s = result->summary.ttft_mean_s;
    (levels.knee_ttft_s < wanted_s ? low : high) = levels.knee_scale;
  }
  levels.past_scale = kPastKnee * levels.knee_scale;
  return levels;
}

}  // namespace prefixrouter
