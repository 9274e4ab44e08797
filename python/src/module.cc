// The extension module prefixrouter._core, with a submodule for each topic that a gateway may do
// without. The package prefixrouter re-exports what they define.
#include <pybind11/pybind11.h>

#include "decision.h"
#include "engine_metrics.h"
#include "errors.h"
#include "instance.h"
#include "kv_event_frames.h"
#include "kv_event_stream.h"
#include "kv_events.h"
#include "lease.h"
#include "policy.h"
#include "prefixrouter/policy.h"
#include "prefixrouter/version.h"
#include "router.h"
#include "router_metrics.h"
#include "simulate.h"
#include "simulation_result.h"
#include "stats.h"
#include "subscriber.h"
#include "workload.h"

namespace prefixrouter::python {
namespace {

py::list GetPolicyNames() {
  py::list names;
  for (const std::string& name : PolicyNames()) names.append(name);
  return names;
}

// Users know what is public by the package's name.
void NameAfterPackage(const py::module_& module) {
  for (const auto& [name, member] : py::dict(module.attr("__dict__"))) {
    if (py::hasattr(member, "__module__") && !name.cast<std::string>().starts_with("_")) {
      member.attr("__module__") = "prefixrouter";
    }
  }
}

}  // namespace
}  // namespace prefixrouter::python

PYBIND11_MODULE(_core, module) {
  using namespace prefixrouter::python;
  // Doc strings begin with signatures of their own, in the form that `inspect` reads.
  py::options options;
  options.disable_function_signatures();

  module.doc() = "The compiled part of the package prefixrouter.";
  module.attr("__version__") = PREFIX_ROUTER_VERSION_STRING;
  BindErrors(module);
  BindInstance(module);
  BindDecision(module);
  BindPolicy(module);
  BindLease(module);
  BindRouter(module);
  module.def("policy_names", &GetPolicyNames,
             "policy_names()\n--\n\n"
             "The names of the built-in policies.\n"
             "\n"
             "Returns:\n"
             "    list[str]: What ``PrefixRouter(policy=...)`` takes.\n");

  py::module_ events = module.def_submodule("events", "KV events of engines.");
  BindKvEvents(events);
  BindKvEventDecoder(events);
  BindKvEventFrames(events);
  BindKvEventStream(events);
  BindSubscriber(events);

  py::module_ metrics = module.def_submodule("metrics", "Statistics and metrics.");
  BindStats(metrics);
  BindEngineMetrics(metrics);
  BindRouterMetrics(metrics);

  py::module_ simulation = module.def_submodule("simulation", "The simulator.");
  BindWorkload(simulation);
  BindSimulationResult(simulation);
  BindSimulate(simulation);

  for (const py::module_& each : {module, events, metrics, simulation}) NameAfterPackage(each);
}
