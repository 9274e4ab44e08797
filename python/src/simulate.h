// The functions of the simulator. Their public faces, with signatures and documentation, are in
// prefixrouter/_simulator.py.
#ifndef PREFIXROUTER_PYTHON_SRC_SIMULATE_H_
#define PREFIXROUTER_PYTHON_SRC_SIMULATE_H_

#include <pybind11/pybind11.h>

namespace prefixrouter::python {

namespace py = pybind11;

void BindSimulate(py::module_& module);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_SIMULATE_H_
