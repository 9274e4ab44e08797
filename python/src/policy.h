// PythonPolicy: a custom policy that is a Python callable, and PolicyInput, what it is called with.
#ifndef PREFIXROUTER_PYTHON_SRC_POLICY_H_
#define PREFIXROUTER_PYTHON_SRC_POLICY_H_

#include <pybind11/pybind11.h>

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

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_POLICY_H_
