// DlpackTensor: token ids in a tensor that speaks DLPack (PyTorch, JAX, PyArrow, ...), borrowed.
//
// The layout of the structures in dlpack.cc is that of the DLPack specification, versions 0 and 1:
// https://dmlc.github.io/dlpack/latest/
#ifndef PREFIXROUTER_PYTHON_SRC_DLPACK_H_
#define PREFIXROUTER_PYTHON_SRC_DLPACK_H_

#include <pybind11/pybind11.h>

#include "token_array.h"

namespace prefixrouter::python {

namespace py = pybind11;

class DlpackTensor {
 public:
  // Whether DlpackTensor takes the object: it has a method __dlpack__.
  static bool Accepts(py::handle value);

  // REQUIRES: Accepts(value). Throws TypeError when it is not in memory that the processor reads or
  // not of integers, ValueError when it is not one-dimensional, and what the object itself throws.
  explicit DlpackTensor(py::handle value);
  ~DlpackTensor();
  DlpackTensor(const DlpackTensor&) = delete;
  DlpackTensor& operator=(const DlpackTensor&) = delete;

  const ArrayView& view() const { return view_; }

 private:
  ArrayView view_;
  void* managed_ = nullptr;  // the structure that was taken out of the capsule
  bool versioned_ = false;   // which of the two it is
};

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_DLPACK_H_
