// PyRequest: the arguments of route, decide, acquire and score, read from Python.
//
// These four are called for each request, and have many keyword arguments. pybind11 takes 0.3 us to
// fill in nine defaults and 1.3 us once a keyword is given; reading the arguments of CPython's own
// calling convention (METH_FASTCALL) takes 0.02 us.
#ifndef PREFIXROUTER_PYTHON_SRC_REQUEST_H_
#define PREFIXROUTER_PYTHON_SRC_REQUEST_H_

#include <pybind11/pybind11.h>

#include <optional>
#include <type_traits>
#include <vector>

#include "gil.h"
#include "prefixrouter/request.h"
#include "prompt.h"
#include "router.h"

namespace prefixrouter::python {

namespace py = pybind11;

// The keyword arguments, with defaults, for the signatures in doc strings.
#define PREFIX_ROUTER_REQUEST_SIGNATURE                                             \
  "($self, tokens, *, model='', adapter='', salt='', multimodal=(), allowed=None, " \
  "session_key='', expected_output_tokens=0, priority=0, max_ttft_s=0.0)\n--\n\n"

class PyRequest {
 public:
  // Once, when the module is made.
  static void MakeNames();

  // Arguments as of METH_FASTCALL | METH_KEYWORDS, which must outlive this object. `function` is
  // for messages. Throws TypeError, ValueError or KeyError.
  PyRequest(PyRouter& router, const char* function, PyObject* const* arguments, Py_ssize_t count,
            PyObject* keywords);

  // The value of call(Request), a Result, without the GIL if that pays. Once.
  template <typename Call>
  std::invoke_result_t<Call, const Request&> Perform(Call&& call) {
    return WithoutGil(prompt_->bytes_left() >= kLongBytes,
                      [&]() -> std::invoke_result_t<Call, const Request&> {
                        if (Status put = prompt_->Put(&request_); !put.ok()) return put;
                        return call(request_);
                      });
  }

 private:
  // From this length on the work takes longer than leaving and taking the GIL.
  static constexpr size_t kLongBytes = 8192;

  void ReadKeyword(PyRouter& router, const char* function, PyObject* name, py::handle value);
  void ReadMultimodal(py::handle value);
  void ReadAllowed(PyRouter& router, py::handle value);

  std::optional<Prompt> prompt_;
  std::vector<MultimodalItem> multimodal_;
  std::vector<InstanceId> allowed_;
  Request request_;
};

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_REQUEST_H_
