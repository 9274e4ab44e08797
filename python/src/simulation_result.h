// The Python objects that a simulation is answered with: SimulationResult and its parts.
#ifndef PREFIXROUTER_PYTHON_SRC_SIMULATION_RESULT_H_
#define PREFIXROUTER_PYTHON_SRC_SIMULATION_RESULT_H_

#include <pybind11/pybind11.h>

#include "prefixrouter/simulator.h"

namespace prefixrouter::python {

namespace py = pybind11;

void BindSimulationResult(py::module_& module);

py::object MakeSimulationResult(SimulationResult result);
py::object MakeLoadLevels(const LoadLevels& levels);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_SIMULATION_RESULT_H_
