// PyLease: prefixrouter.Lease.
#ifndef PREFIXROUTER_PYTHON_SRC_LEASE_H_
#define PREFIXROUTER_PYTHON_SRC_LEASE_H_

#include <pybind11/pybind11.h>

#include "prefixrouter/lease.h"

namespace prefixrouter::python {

namespace py = pybind11;

void BindLease(py::module_& module);

// `router` is the PrefixRouter that gave the lease; `decision` its Decision.
py::object MakeLease(Lease lease, py::handle router, py::object decision);

// From an int or None each; None is unknown.
FinishInfo ToFinishInfo(py::handle output_tokens, py::handle engine_cached_tokens);
LeaseId ToLeaseId(py::handle value);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_LEASE_H_
