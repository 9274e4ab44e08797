// The extension module prefixrouter._core. The package prefixrouter re-exports what it defines.
#include <pybind11/pybind11.h>

#include "decision.h"
#include "engine_metrics.h"
#include "errors.h"
#include "instance.h"
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
  BindStats(module);
  BindPolicy(module);
  BindLease(module);
  BindRouter(module);
  BindKvEvents(module);
  BindKvEventDecoder(module);
  BindKvEventStream(module);
  BindSubscriber(module);
  BindEngineMetrics(module);
  BindRouterMetrics(module);
  BindWorkload(module);
  BindSimulationResult(module);
  BindSimulate(module);
  module.def("policy_names", &GetPolicyNames,
             "policy_names()\n--\n\n"
             "The names of the built-in policies.\n"
             "\n"
             "Returns:\n"
             "    list[str]: What ``PrefixRouter(policy=...)`` takes.\n");
  // Users know what is public by the package's name.
  for (const auto& [name, member] : py::dict(module.attr("__dict__"))) {
    if (py::hasattr(member, "__module__") && !name.cast<std::string>().starts_with("_")) {
      member.attr("__module__") = "prefixrouter";
    }
  }
}
