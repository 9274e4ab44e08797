// The Python objects Trace and Workload, and the functions that read and generate traces.
#ifndef PREFIXROUTER_PYTHON_SRC_WORKLOAD_H_
#define PREFIXROUTER_PYTHON_SRC_WORKLOAD_H_

#include <pybind11/pybind11.h>

#include <memory>
#include <utility>

#include "made_by_init.h"
#include "prefixrouter/workload.h"

namespace prefixrouter::python {

namespace py = pybind11;

struct PyWorkload : MadeByInit {
  explicit PyWorkload(std::shared_ptr<const Workload> made) : workload(std::move(made)) {}

  std::shared_ptr<const Workload> workload;
};

void BindWorkload(py::module_& module);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_WORKLOAD_H_
