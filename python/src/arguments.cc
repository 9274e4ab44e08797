#include "arguments.h"

namespace prefixrouter::python {
namespace {

[[noreturn]] void RaiseWrongType(py::handle value, const std::string& name, const char* wanted) {
  throw py::type_error(name + " must be " + wanted + ", got " + ShownWithType(value));
}

[[noreturn]] void RaiseOutOfRange(py::handle value, const std::string& name, bool below,
                                  const std::string& bound) {
  throw py::value_error(name + " must be " + (below ? "at least " : "at most ") + bound + ", got " +
                        Shown(value));
}

// `value` as an exact int.
py::object ToIndex(py::handle value, const std::string& name) {
  if (PyLong_CheckExact(value.ptr())) return py::reinterpret_borrow<py::object>(value);
  if (PyBool_Check(value.ptr()) || !PyIndex_Check(value.ptr())) {
    RaiseWrongType(value, name, "an int");
  }
  py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(value.ptr()));
  if (!index) throw py::error_already_set();
  return index;
}

}  // namespace

std::string Shown(py::handle value) {
  constexpr Py_ssize_t kLongest = 80;
  const py::object text = py::reinterpret_steal<py::object>(PyObject_Repr(value.ptr()));
  // A repr may fail: that of an int with thousands of digits does.
  if (!text) {
    PyErr_Clear();
    return std::string("an object of type ") + Py_TYPE(value.ptr())->tp_name;
  }
  const Py_ssize_t length = PyUnicode_GetLength(text.ptr());
  const py::object head =
      py::reinterpret_steal<py::object>(PyUnicode_Substring(text.ptr(), 0, kLongest));
  const py::object bytes = py::reinterpret_steal<py::object>(
      head ? PyUnicode_AsEncodedString(head.ptr(), "utf-8", "backslashreplace") : nullptr);
  if (!bytes) {
    PyErr_Clear();
    return std::string("an object of type ") + Py_TYPE(value.ptr())->tp_name;
  }
  std::string shown = PyBytes_AS_STRING(bytes.ptr());
  if (length > kLongest) shown += "...";
  return shown;
}

std::string ShownWithType(py::handle value) {
  if (value.is_none()) return "None";
  return Shown(value) + " (" + Py_TYPE(value.ptr())->tp_name + ")";
}

int64_t ToInt64(py::handle value, const std::string& name, int64_t low, int64_t high) {
  const py::object index = ToIndex(value, name);
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (overflow < 0 || (overflow == 0 && number < low)) {
    RaiseOutOfRange(value, name, true, std::to_string(low));
  }
  if (overflow > 0 || number > high) RaiseOutOfRange(value, name, false, std::to_string(high));
  return number;
}

uint64_t ToUint64(py::handle value, const std::string& name) {
  const py::object index = ToIndex(value, name);
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (number == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (overflow == 0 && number >= 0) return static_cast<uint64_t>(number);
  if (overflow <= 0) RaiseOutOfRange(value, name, true, "0");
  const unsigned long long large = PyLong_AsUnsignedLongLong(index.ptr());
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    RaiseOutOfRange(value, name, false, std::to_string(UINT64_MAX));
  }
  return large;
}

double ToDouble(py::handle value, const std::string& name) {
  if (PyFloat_CheckExact(value.ptr())) return PyFloat_AS_DOUBLE(value.ptr());
  const PyNumberMethods* methods = Py_TYPE(value.ptr())->tp_as_number;
  const bool number =
      PyIndex_Check(value.ptr()) || (methods != nullptr && methods->nb_float != nullptr);
  if (PyBool_Check(value.ptr()) || !number) RaiseWrongType(value, name, "a number");
  const double result = PyFloat_AsDouble(value.ptr());
  if (result == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  return result;
}

bool ToBool(py::handle value, const std::string& name) {
  if (!PyBool_Check(value.ptr())) RaiseWrongType(value, name, "True or False");
  return value.ptr() == Py_True;
}

std::string_view ToText(py::handle value, const std::string& name) {
  if (!PyUnicode_Check(value.ptr())) RaiseWrongType(value, name, "a str");
  Py_ssize_t size = 0;
  const char* const text = PyUnicode_AsUTF8AndSize(value.ptr(), &size);
  if (text == nullptr) throw py::error_already_set();
  return {text, static_cast<size_t>(size)};
}

int ToChoice(py::handle value, const std::string& name, Span<const char* const> names) {
  const std::string_view text = ToText(value, name);
  std::string known;
  for (size_t i = 0; i < names.size(); ++i) {
    if (text == names[i]) return static_cast<int>(i);
    known += (i == 0 ? "" : ", ") + std::string(names[i]);
  }
  throw py::value_error(name + " must be one of " + known + "; got " + Shown(value));
}

}  // namespace prefixrouter::python
