// prefixrouter.KvEventSubscriber and its statistics.
#ifndef PREFIXROUTER_PYTHON_SRC_SUBSCRIBER_H_
#define PREFIXROUTER_PYTHON_SRC_SUBSCRIBER_H_

#include <pybind11/pybind11.h>

namespace prefixrouter::python {

namespace py = pybind11;

void BindSubscriber(py::module_& module);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_SUBSCRIBER_H_
