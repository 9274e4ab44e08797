// How failures become Python exceptions.
//
//   status of the library     Python exception
//   INVALID_ARGUMENT          ValueError
//   NOT_FOUND                 KeyError
//   out of memory             MemoryError
//   all others                prefixrouter.Error, whose `code` is the StatusCode
//
// What a Python callable raised inside the library (a custom policy) comes out as it was raised.
#ifndef PREFIXROUTER_PYTHON_SRC_ERRORS_H_
#define PREFIXROUTER_PYTHON_SRC_ERRORS_H_

#include <pybind11/pybind11.h>

#include <exception>
#include <new>
#include <string>
#include <utility>

#include "prefixrouter/status.h"

namespace prefixrouter::python {

namespace py = pybind11;

// Adds StatusCode and Error to the module.
void BindErrors(py::module_& module);

// REQUIRES: !status.ok(), and the GIL.
[[noreturn]] void Raise(const Status& status);

inline void RaiseUnlessOk(const Status& status) {
  if (!status.ok()) Raise(status);
}

// The value, or the exception for the status.
template <typename T>
T Take(Result<T> result) {
  if (!result.ok()) Raise(result.status());
  return *std::move(result);
}

// prefixrouter.Error with this code, whatever it is.
[[noreturn]] void RaiseError(StatusCode code, const std::string& message);
// The same with code FAILED_PRECONDITION.
[[noreturn]] void RaiseFailedPrecondition(const std::string& message);

// Keeps the exception that is being handled for the next Raise on this thread. For callables that
// the library calls, and through which no exception may pass.
void StashCurrentException();

// Runs the body of a function that Python calls directly: what it throws becomes the thread's
// Python error and a null result. pybind11 does the same for functions that it binds.
template <typename Body>
PyObject* Guarded(Body&& body) {
  try {
    return body();
  } catch (py::error_already_set& error) {
    error.restore();
  } catch (const py::builtin_exception& error) {
    error.set_error();
  } catch (const std::bad_alloc&) {
    PyErr_NoMemory();
  } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_ERRORS_H_
