#include "simulate.h"

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "arguments.h"
#include "errors.h"
#include "gil.h"
#include "instance.h"
#include "options.h"
#include "policy.h"
#include "prefixrouter/simulator.h"
#include "simulation_result.h"
#include "workload.h"

namespace prefixrouter::python {
namespace {

// ---- Values ------------------------------------------------------------------------------------

constexpr const char* kCostModels[] = {"linear", "roofline"};             // CostModel
constexpr const char* kChanges[] = {"fail", "restart", "join", "leave"};  // FleetChange
constexpr const char* kKinds[] = {"router", "gateway", "research"};       // SimulatedPolicy

// The place of `value` in `words`, as an enum.
template <typename Enum, size_t kCount>
Enum ToWord(py::handle value, const std::string& name, const char* const (&words)[kCount]) {
  const std::string_view text = ToText(value, name);
  std::string known;
  for (size_t i = 0; i < kCount; ++i) {
    if (text == words[i]) return static_cast<Enum>(i);
    known += (i == 0 ? "" : ", ") + std::string(words[i]);
  }
  throw py::value_error(name + " must be one of " + known + ", got " + Shown(value));
}

void Read(py::handle value, const std::string& name, double* field) {
  *field = ToDouble(value, name);
}
void Read(py::handle value, const std::string& name, uint32_t* field) {
  *field = ToInteger<uint32_t>(value, name);
}
void Read(py::handle value, const std::string& name, uint64_t* field) {
  *field = ToUint64(value, name);
}
void Read(py::handle value, const std::string& name, bool* field) { *field = ToBool(value, name); }
void Read(py::handle value, const std::string& name, std::string* field) {
  *field = ToText(value, name);
}

// ---- Engines -----------------------------------------------------------------------------------

// Calls visit(name, field) for the terms of a cost model.
template <typename Visit>
void ForEachTerm(LinearCost& cost, Visit&& visit) {
  visit("step_s", cost.step_s);
  visit("prefill_token_s", cost.prefill_token_s);
  visit("prefill_pair_s", cost.prefill_pair_s);
  visit("decode_request_s", cost.decode_request_s);
  visit("decode_context_token_s", cost.decode_context_token_s);
}
template <typename Visit>
void ForEachTerm(RooflineCost& cost, Visit&& visit) {
  visit("flops_per_token", cost.flops_per_token);
  visit("flops_per_pair", cost.flops_per_pair);
  visit("weight_bytes", cost.weight_bytes);
  visit("kv_token_bytes", cost.kv_token_bytes);
  visit("flops_per_s", cost.flops_per_s);
  visit("bytes_per_s", cost.bytes_per_s);
  visit("step_overhead_s", cost.step_overhead_s);
  visit("token_overhead_s", cost.token_overhead_s);
}
// The same for what else an engine has, but its cost model.
template <typename Visit>
void ForEachNumber(EngineOptions& engine, Visit&& visit) {
  visit("kv_capacity_tokens", engine.kv_capacity_tokens);
  visit("max_batched_tokens", engine.max_batched_tokens);
  visit("max_running_requests", engine.max_running_requests);
  visit("page_tokens", engine.page_tokens);
}

// Reads the attributes of `object`, a Python EngineOptions or one of its costs.
auto ReadFrom(py::handle object, const std::string& path) {
  return [object, path](const char* name, auto& field) {
    Read(object.attr(name), path + name, &field);
  };
}

EngineOptions ToEngine(py::handle value) {
  if (PyUnicode_Check(value.ptr())) return Take(EnginePreset(std::string(ToText(value, "engine"))));
  if (!py::hasattr(value, "cost_model")) {
    throw py::type_error("engine must be a str or an EngineOptions, got " + ShownWithType(value));
  }
  EngineOptions engine;
  Read(value.attr("name"), "engine.name", &engine.name);
  engine.cost_model = ToWord<CostModel>(value.attr("cost_model"), "engine.cost_model", kCostModels);
  ForEachTerm(engine.linear, ReadFrom(value.attr("linear"), "engine.linear."));
  ForEachTerm(engine.roofline, ReadFrom(value.attr("roofline"), "engine.roofline."));
  ForEachNumber(engine, ReadFrom(value, "engine."));
  return engine;
}

// All presets, as what the Python classes are made of.
py::dict GetEnginePresets() {
  py::dict presets;
  for (const std::string& name : EnginePresetNames()) {
    EngineOptions engine = Take(EnginePreset(name));
    py::dict linear, roofline, all;
    ForEachTerm(engine.linear, [&](const char* term, double value) { linear[term] = value; });
    ForEachTerm(engine.roofline, [&](const char* term, double value) { roofline[term] = value; });
    ForEachNumber(engine, [&](const char* field, auto value) { all[field] = value; });
    all["name"] = engine.name;
    all["cost_model"] = kCostModels[static_cast<size_t>(engine.cost_model)];
    all["linear"] = linear;
    all["roofline"] = roofline;
    presets[name.c_str()] = all;
  }
  return presets;
}

double GetStepSeconds(py::handle engine, py::handle prefill_tokens, py::handle prefill_pairs,
                      py::handle decode_requests, py::handle decode_context) {
  StepWork work;
  Read(prefill_tokens, "prefill_tokens", &work.prefill_tokens);
  Read(prefill_pairs, "prefill_pairs", &work.prefill_pairs);
  Read(decode_requests, "decode_requests", &work.decode_requests);
  Read(decode_context, "decode_context", &work.decode_context);
  return StepSeconds(ToEngine(engine), work);
}

// ---- Fleet -------------------------------------------------------------------------------------

std::vector<SimulatedInstance> ToInstances(py::handle value) {
  if (PyIndex_Check(value.ptr())) {
    return std::vector<SimulatedInstance>(
        static_cast<size_t>(ToInt64(value, "instances", 1, 65536)));
  }
  if (!py::isinstance<py::iterable>(value)) {
    throw py::type_error("instances must be an int or a sequence of SimulatedInstance, got " +
                         ShownWithType(value));
  }
  std::vector<SimulatedInstance> instances;
  for (const py::handle item : py::iter(value)) {
    const std::string name = "instances[" + std::to_string(instances.size()) + "]";
    if (!py::hasattr(item, "configured_capacity")) {
      throw py::type_error(name + " must be a SimulatedInstance, got " + ShownWithType(item));
    }
    SimulatedInstance& instance = instances.emplace_back();
    const auto read = ReadFrom(item, name + ".");
    read("speed", instance.speed);
    read("capacity", instance.capacity);
    read("configured_capacity", instance.configured_capacity);
    read("configured_prefill_tokens_per_s", instance.configured_prefill_tokens_s);
  }
  return instances;
}

std::vector<FleetEvent> ToEvents(py::handle value) {
  if (!py::isinstance<py::iterable>(value)) {
    throw py::type_error("events must be a sequence of FleetEvent, got " + ShownWithType(value));
  }
  std::vector<FleetEvent> events;
  for (const py::handle item : py::iter(value)) {
    const std::string name = "events[" + std::to_string(events.size()) + "]";
    if (!py::hasattr(item, "change")) {
      throw py::type_error(name + " must be a FleetEvent, got " + ShownWithType(item));
    }
    FleetEvent& event = events.emplace_back();
    Read(item.attr("time_s"), name + ".time_s", &event.time_s);
    event.change = ToWord<FleetChange>(item.attr("change"), name + ".change", kChanges);
    Read(item.attr("instance"), name + ".instance", &event.instance);
  }
  return events;
}

// ---- Runs --------------------------------------------------------------------------------------

void SetRouterOptions(py::handle value, RouterOptions* options) {
  if (value.is_none()) return;
  if (!py::hasattr(value, "keys")) {
    throw py::type_error("router_options must be a mapping, got " + ShownWithType(value));
  }
  for (const auto& [key, option] : py::dict(py::reinterpret_borrow<py::object>(value))) {
    const std::string_view name = ToText(key, "router_options: a name");
    for (const char* set_by_simulation :
         {"block_size", "key_seed", "random_seed", "routers", "lease_ttl_s"}) {
      if (name == set_by_simulation) {
        throw py::value_error("router_options: " + std::string(name) + " is set by the simulation");
      }
    }
    if (!SetOption(options, name, option)) {
      throw py::type_error("router_options: there is no option " + Shown(key));
    }
  }
}

// What simulate() and find_load_levels() are called with, read with the GIL.
struct Call {
  std::shared_ptr<const Workload> workload;
  SimulationOptions options;
  py::object policy;                 // if it is a callable
  py::object progress = py::none();  // or callable

  Call(const PyWorkload& from, const py::dict& arguments) : workload(from.workload) {
    for (const auto& [key, value] : arguments) SetArgument(std::string(ToText(key, "")), value);
    if (!progress.is_none() && PyCallable_Check(progress.ptr()) == 0) {
      throw py::type_error("progress must be callable, got " + ShownWithType(progress));
    }
    options.progress = [this](uint64_t over) { return GoOn(over); };
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;

 private:
  void SetArgument(const std::string& name, py::handle value) {
    if (name == "policy" && PyCallable_Check(value.ptr()) != 0) {
      policy = py::reinterpret_borrow<py::object>(value);
      options.make_policy = [this]() -> std::shared_ptr<Policy> {
        const GilHeld gil;
        return std::make_shared<SimulatedPythonPolicy>(policy);
      };
    } else if (name == "engine") {
      options.engine = ToEngine(value);
    } else if (name == "instances") {
      options.instances = ToInstances(value);
    } else if (name == "events") {
      options.events = ToEvents(value);
    } else if (name == "router_options") {
      SetRouterOptions(value, &options.router);
    } else if (name == "progress") {
      progress = py::reinterpret_borrow<py::object>(value);
    } else if (!SetPlain(name, value)) {
      throw py::type_error("there is no argument " + name);
    }
  }

  // False when there is none of that name.
  bool SetPlain(const std::string& name, py::handle value) {
    bool found = false;
    const auto visit = [&](const char* argument, auto& field) {
      if (name != argument) return;
      Read(value, name, &field);
      found = true;
    };
    visit("policy", options.router.policy);
    visit("routers", options.routers);
    visit("session_keys", options.session_keys);
    visit("max_ttft_s", options.max_ttft_s);
    visit("arrival_scale", options.arrival_scale);
    visit("closed_loop", options.closed_loop);
    visit("feedback_delay_s", options.feedback_delay_s);
    visit("report_cached_tokens", options.report_cached_tokens);
    visit("metrics_period_s", options.metrics_period_s);
    visit("metrics_age_s", options.metrics_age_s);
    visit("kv_events", options.kv_events);
    visit("kv_event_delay_s", options.kv_event_delay_s);
    visit("measure_from_s", options.measure_from_s);
    visit("series_step_s", options.series_step_s);
    visit("seed", options.seed);
    return found;
  }

  // Between events of the simulation, without the GIL. Signals stop it, and what `progress` raises.
  bool GoOn(uint64_t over) {
    const GilHeld gil;
    try {
      if (PyErr_CheckSignals() != 0) throw py::error_already_set();
      if (!progress.is_none()) progress(over, workload->requests().size());
      return true;
    } catch (...) {
      StashCurrentException();
      return false;
    }
  }
};

py::object RunSimulation(const PyWorkload& workload, const py::dict& arguments) {
  Call call(workload, arguments);
  Result<SimulationResult> result =
      WithoutGil(true, [&] { return Simulate(*call.workload, call.options); });
  return MakeSimulationResult(Take(std::move(result)));
}

py::object RunFindLoadLevels(const PyWorkload& workload, const py::dict& arguments) {
  Call call(workload, arguments);
  const Result<LoadLevels> levels =
      WithoutGil(true, [&] { return FindLoadLevels(*call.workload, call.options); });
  return MakeLoadLevels(Take(levels));
}

// ---- Policies ----------------------------------------------------------------------------------

constexpr const char* kPolicyDoc =
    "A rule that a simulation can use: a policy of the router, or the rule of another router.\n"
    "Read-only.\n";

void BindPolicies(py::module_& module) {
  using P = SimulatedPolicy;
  py::class_<P> cls(module, "SimulatedPolicy", py::is_final(), kPolicyDoc);
  ForbidNew(cls);
  cls.def_readonly("name", &P::name, "str: what ``simulate(policy=...)`` takes.")
      .def_property_readonly(
          "kind", [](const P& self) { return kKinds[static_cast<size_t>(self.kind)]; },
          "str: ``router`` (of this library, and nobody's rule in particular), ``gateway`` (what "
          "a\n"
          "gateway or service does today) or ``research`` (nobody's default).")
      .def_readonly("rule", &P::rule, "str: in one line, with its defaults.")
      .def_readonly("source", &P::source, "str: whose it is.")
      .def("__repr__", [](const P& self) { return "<SimulatedPolicy " + self.name + ">"; });
  module.def(
      "policies",
      [] {
        py::list policies;
        for (P& policy : SimulatedPolicies()) policies.append(py::cast(std::move(policy)));
        return policies;
      },
      "policies()\n--\n\n"
      "What a simulation can use: the policies of the router, and the rules of other routers.\n"
      "\n"
      "Returns:\n"
      "    list[SimulatedPolicy]: Of all; ``policy_names`` has those that a router takes.\n");
}

}  // namespace

void BindSimulate(py::module_& module) {
  BindPolicies(module);
  module.def("_simulate", &RunSimulation, py::arg("workload"), py::arg("arguments"));
  module.def("_find_load_levels", &RunFindLoadLevels, py::arg("workload"), py::arg("arguments"));
  module.def("_engine_presets", &GetEnginePresets);
  module.def("_step_seconds", &GetStepSeconds, py::arg("engine"), py::arg("prefill_tokens"),
             py::arg("prefill_pairs"), py::arg("decode_requests"), py::arg("decode_context"));
}

}  // namespace prefixrouter::python
