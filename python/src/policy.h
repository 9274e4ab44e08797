// Custom policies that are Python callables, of a router and of a simulation, and PolicyInput, what
// they are called with.
#ifndef PREFIXROUTER_PYTHON_SRC_POLICY_H_
#define PREFIXROUTER_PYTHON_SRC_POLICY_H_

#include <pybind11/pybind11.h>

#include <string>
#include <utility>

#include "instance.h"
#include "prefixrouter/policy.h"

namespace prefixrouter::python {

namespace py = pybind11;

class PyRouter;

void BindPolicy(py::module_& module);

// Calls the policy of `router`. What it raises, or returns wrongly, fails the call of the library,
// and Raise (errors.h) brings it back.
class PythonPolicy final : public Policy {
 public:
  // `router` must live while Score may be called.
  explicit PythonPolicy(const PyRouter& router) : router_(router) {}

  const char* name() const override { return "python"; }
  // On a thread of Python's, which may have left the GIL by GilReleased.
  void Score(const PolicyInput& in, float* cost) const override;

 private:
  const PyRouter& router_;
};

// The same for one router of a simulation, which Python does not see: it has Instances of its own.
class SimulatedPythonPolicy final : public Policy {
 public:
  // REQUIRES: the GIL.
  explicit SimulatedPythonPolicy(py::object policy) : policy_(std::move(policy)) {}
  ~SimulatedPythonPolicy() override;

  const char* name() const override { return "python"; }
  void Score(const PolicyInput& in, float* cost) const override;
  void InstanceAdded(InstanceId id, const std::string& name, uint32_t rank) override;

 private:
  py::object policy_;
  InstanceDirectory instances_;
};

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_POLICY_H_
