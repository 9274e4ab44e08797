// PyRequest: the arguments of route, decide, acquire and score, read from Python.
//
// These four are called for each request, and have many keyword arguments. pybind11 takes 0.3 us to
// fill in nine defaults and 1.3 us once a keyword is given; reading the arguments of CPython's own
// calling convention (METH_FASTCALL) takes 0.02 us.
#ifndef PREFIXROUTER_PYTHON_SRC_REQUEST_H_
#define PREFIXROUTER_PYTHON_SRC_REQUEST_H_

#include <pybind11/pybind11.h>

#include <vector>

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

  const Request& request() const { return request_; }
  // Worth leaving the GIL for.
  bool is_long() const;

 private:
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
