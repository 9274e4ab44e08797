// render_metrics and METRICS_CONTENT_TYPE.
#ifndef PREFIXROUTER_PYTHON_SRC_ROUTER_METRICS_H_
#define PREFIXROUTER_PYTHON_SRC_ROUTER_METRICS_H_

#include <pybind11/pybind11.h>

#include <string>

#include "prefixrouter/router_metrics.h"

namespace prefixrouter::python {

namespace py = pybind11;

void BindRouterMetrics(py::module_& module);

// The page as a str, or the exception for the status.
py::str ToPage(const Result<std::string>& page);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_ROUTER_METRICS_H_
