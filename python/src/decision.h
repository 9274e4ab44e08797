// The Python objects Decision, CostParts, ScoreTable and ScoreRow.
#ifndef PREFIXROUTER_PYTHON_SRC_DECISION_H_
#define PREFIXROUTER_PYTHON_SRC_DECISION_H_

#include <pybind11/pybind11.h>

#include "instance.h"
#include "prefixrouter/decision.h"

namespace prefixrouter::python {

namespace py = pybind11;

void BindDecision(py::module_& module);

// REQUIRES, of both: they are answers of the router of `instances` in a call that is not over.
py::object MakeDecision(const Decision& decision, const InstanceDirectory& instances);
py::object MakeScoreTable(const ScoreTable& table, const InstanceDirectory& instances);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_DECISION_H_
