// The Python objects EngineMetrics and EngineRankMetrics, and parse_engine_metrics.
#ifndef PREFIXROUTER_PYTHON_SRC_ENGINE_METRICS_H_
#define PREFIXROUTER_PYTHON_SRC_ENGINE_METRICS_H_

#include <pybind11/pybind11.h>

#include "prefixrouter/engine_metrics.h"

namespace prefixrouter::python {

namespace py = pybind11;

void BindEngineMetrics(py::module_& module);

// `value` as an EngineMetrics: itself, or what the page that it is says. TypeError: it is neither.
py::object ToEngineMetrics(py::handle value);
// REQUIRES: `metrics` is an EngineMetrics. Lives as long as it does.
const EngineMetrics& EngineMetricsOf(py::handle metrics);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_ENGINE_METRICS_H_
