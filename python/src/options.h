// The options of a router by name, as Python's keyword arguments.
#ifndef PREFIXROUTER_PYTHON_SRC_OPTIONS_H_
#define PREFIXROUTER_PYTHON_SRC_OPTIONS_H_

#include <pybind11/pybind11.h>

#include "prefixrouter/options.h"

namespace prefixrouter::python {

namespace py = pybind11;

// Sets the option `name` of those that are plain values; policy and clock are not. False when there
// is none of that name. Throws TypeError or ValueError.
bool SetOption(RouterOptions* options, std::string_view name, py::handle value);

// All plain options, by name.
py::dict GetOptions(const RouterOptions& options);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_OPTIONS_H_
