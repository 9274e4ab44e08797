#include "numpy_array.h"

#include <pybind11/numpy.h>

#include <cstdint>
#include <cstring>

#include "buffer.h"

namespace prefixrouter::python {
namespace {

// Set once, when the first array is seen, and kept for the life of the process.
PyTypeObject* array_type = nullptr;
PyObject* uint32_type = nullptr;
bool may_be_known = true;  // until it turns out that arrays look otherwise than they should

bool IsUint32Array(py::handle value) {
  return Py_IS_TYPE(value.ptr(), array_type) &&
         py::detail::array_proxy(value.ptr())->descr == uint32_type;
}

// What an array's own members say; they are part of numpy's ABI.
ArrayView ViewOf(py::handle array) {
  const auto* const members = py::detail::array_proxy(array.ptr());
  ArrayView view;
  view.data = members->data;
  view.size = static_cast<size_t>(members->dimensions[0]);
  view.stride_bytes = members->strides[0];
  view.item_bytes = sizeof(uint32_t);
  return view;
}

// Compares the members of an array of this type with what numpy says of it.
void GetToKnow(PyTypeObject* type) {
  const py::module_ numpy = py::module_::import("numpy");
  if (numpy.attr("ndarray").ptr() != reinterpret_cast<PyObject*>(type)) return;
  py::object uint32 = numpy.attr("dtype")("uint32");
  const py::object array = numpy.attr("arange")(8, py::arg("dtype") = uint32)[py::slice(1, 8, 2)];
  if (!Py_IS_TYPE(array.ptr(), type)) return;
  Buffer buffer;
  buffer.Hold(array, "numpy.arange");
  const auto* const members = py::detail::array_proxy(array.ptr());
  if (members->descr != uint32.ptr() || members->nd != 1 || buffer.dimensions() != 1) return;
  const ArrayView view = ViewOf(array);
  if (view.data != buffer.data() || view.size != buffer.size() ||
      view.stride_bytes != buffer.stride_bytes() || view.item_bytes != buffer.item_bytes()) {
    return;
  }
  Py_INCREF(type);
  array_type = type;
  uint32_type = uint32.release().ptr();
}

}  // namespace

bool ViewNumpyUint32(py::handle value, ArrayView* view) {
  if (array_type == nullptr) {
    PyTypeObject* const type = Py_TYPE(value.ptr());
    if (!may_be_known || std::strcmp(type->tp_name, "numpy.ndarray") != 0) return false;
    may_be_known = false;
    try {
      GetToKnow(type);
    } catch (const py::error_already_set&) {  // a module numpy that is not what it says
    } catch (const py::builtin_exception&) {
    }
    if (array_type == nullptr) return false;
  }
  if (!IsUint32Array(value) || py::detail::array_proxy(value.ptr())->nd != 1) return false;
  *view = ViewOf(value);
  return true;
}

}  // namespace prefixrouter::python
