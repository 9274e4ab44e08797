// The frames around KV events on ZeroMQ sockets: KvFrames and KvTopic, and what reads and writes
// them.
#ifndef PREFIXROUTER_PYTHON_SRC_KV_EVENT_FRAMES_H_
#define PREFIXROUTER_PYTHON_SRC_KV_EVENT_FRAMES_H_

#include <pybind11/pybind11.h>

namespace prefixrouter::python {

namespace py = pybind11;

void BindKvEventFrames(py::module_& module);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_KV_EVENT_FRAMES_H_
