// The Python objects Stats, InstanceStats and DurationHistogram.
#ifndef PREFIXROUTER_PYTHON_SRC_STATS_H_
#define PREFIXROUTER_PYTHON_SRC_STATS_H_

#include <pybind11/pybind11.h>

#include <memory>
#include <string>

#include "instance.h"
#include "prefixrouter/stats.h"

namespace prefixrouter::python {

namespace py = pybind11;

void BindStats(py::module_& module);

// REQUIRES: an answer of the router of `instances` in a call that is not over.
py::object MakeStats(RouterStats stats, const InstanceDirectory& instances);

// What a Stats holds. TypeError: `value` is none.
std::shared_ptr<const RouterStats> ToStats(py::handle value, const std::string& name);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_STATS_H_
