#include "errors.h"

#include <pybind11/native_enum.h>

#include <string>

namespace prefixrouter::python {
namespace {

// Made when the module is, and kept for the life of the process.
PyObject* error_type = nullptr;

thread_local std::exception_ptr stashed;

constexpr const char* kErrorDoc =
    "What the router refuses although the arguments are well formed.\n"
    "\n"
    "Wrong arguments raise the built-in TypeError, ValueError or KeyError instead.\n"
    "\n"
    "Attributes:\n"
    "    code (StatusCode): UNAVAILABLE when no instance can take the request (a gateway answers\n"
    "        503), RESOURCE_EXHAUSTED when none is below ``max_ttft_s`` (429) or a limit is\n"
    "        reached, ALREADY_EXISTS, FAILED_PRECONDITION when the router is closed or the lease\n"
    "        has ended.\n";

constexpr const char* kStatusCodeDoc =
    "Why a call failed. The numbers are those of gRPC and do not change.";

}  // namespace

void BindErrors(py::module_& module) {
  py::native_enum<StatusCode> codes(module, "StatusCode", "enum.IntEnum", kStatusCodeDoc);
  for (int32_t code = 0; code <= static_cast<int32_t>(StatusCode::kUnavailable); ++code) {
    codes.value(StatusCodeName(static_cast<StatusCode>(code)), static_cast<StatusCode>(code));
  }
  codes.finalize();

  py::dict members;
  members["code"] = py::cast(StatusCode::kUnknown);
  error_type =
      PyErr_NewExceptionWithDoc("prefixrouter.Error", kErrorDoc, PyExc_Exception, members.ptr());
  if (error_type == nullptr) throw py::error_already_set();
  module.add_object("Error", error_type);
}

void Raise(const Status& status) {
  if (stashed != nullptr) std::rethrow_exception(std::exchange(stashed, nullptr));
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
      throw py::value_error(status.message());
    case StatusCode::kNotFound:
      throw py::key_error(status.message());
    default:
      break;
  }
  // The library reports a failed allocation by this code and text.
  if (status.code() == StatusCode::kResourceExhausted && status.message() == "out of memory") {
    throw std::bad_alloc();
  }
  RaiseError(status.code(), status.message());
}

void RaiseError(StatusCode code, const std::string& message) {
  const py::object error = py::handle(error_type)(message);
  error.attr("code") = py::cast(code);
  PyErr_SetObject(error_type, error.ptr());
  throw py::error_already_set();
}

void RaiseFailedPrecondition(const std::string& message) {
  RaiseError(StatusCode::kFailedPrecondition, message);
}

void StashCurrentException() { stashed = std::current_exception(); }

}  // namespace prefixrouter::python
