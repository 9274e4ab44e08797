// The Python objects Stats and InstanceStats.
#ifndef PREFIXROUTER_PYTHON_SRC_STATS_H_
#define PREFIXROUTER_PYTHON_SRC_STATS_H_

#include <pybind11/pybind11.h>

#include "instance.h"
#include "prefixrouter/stats.h"

namespace prefixrouter::python {

namespace py = pybind11;

void BindStats(py::module_& module);

// REQUIRES: an answer of the router of `instances` in a call that is not over.
py::object MakeStats(RouterStats stats, const InstanceDirectory& instances);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_STATS_H_
