// Buffer: a Python object's memory, read through the buffer protocol.
#ifndef PREFIXROUTER_PYTHON_SRC_BUFFER_H_
#define PREFIXROUTER_PYTHON_SRC_BUFFER_H_

#include <pybind11/pybind11.h>

#include <cstddef>

namespace prefixrouter::python {

namespace py = pybind11;

class Buffer {
 public:
  enum class Kind { kUnsigned, kSigned, kFloat, kOther };

  Buffer() = default;
  ~Buffer() {
    if (held_) PyBuffer_Release(&view_);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Holds the memory of `value`, which is `name` in messages, until the end of this object. Throws
  // TypeError when it has none that can be read.
  void Hold(py::handle value, const char* name);

  // What one item is: kOther unless it is one number in native byte order.
  Kind kind() const;
  // Never null.
  const char* format() const { return view_.format == nullptr ? "B" : view_.format; }
  size_t item_bytes() const { return static_cast<size_t>(view_.itemsize); }
  const char* data() const { return static_cast<const char*>(view_.buf); }
  size_t size_bytes() const { return static_cast<size_t>(view_.len); }
  int dimensions() const { return view_.ndim; }
  const Py_ssize_t* shape() const { return view_.shape; }
  // Of the one dimension. REQUIRES: dimensions() == 1
  size_t size() const { return static_cast<size_t>(view_.shape[0]); }
  // An exporter may leave out the strides of contiguous memory, as ctypes does.
  Py_ssize_t stride_bytes() const {
    return view_.strides == nullptr ? view_.itemsize : view_.strides[0];
  }

 private:
  bool held_ = false;
  Py_buffer view_;
};

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_BUFFER_H_
