// Reading Python values as C++ ones, with exceptions that name the argument and what it was.
//
//   TypeError    not of the kind that is asked for: None, a float or a bool for an integer
//   ValueError   of that kind, but out of range
#ifndef PREFIXROUTER_PYTHON_SRC_ARGUMENTS_H_
#define PREFIXROUTER_PYTHON_SRC_ARGUMENTS_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "prefixrouter/span.h"

namespace prefixrouter::python {

namespace py = pybind11;

// A value as an exception shows it: its repr, at most 80 characters of it.
std::string Shown(py::handle value);
// The same with its type: "1.5 (float)".
std::string ShownWithType(py::handle value);

// Anything with __index__ but bool, in [low, high].
int64_t ToInt64(py::handle value, const std::string& name, int64_t low, int64_t high);
uint64_t ToUint64(py::handle value, const std::string& name);

// An integer in the range of T.
template <typename T>
T ToInteger(py::handle value, const std::string& name) {
  static_assert(sizeof(T) < 8, "ToInt64 and ToUint64");
  return static_cast<T>(
      ToInt64(value, name, std::numeric_limits<T>::min(), std::numeric_limits<T>::max()));
}

// A float or an integer.
double ToDouble(py::handle value, const std::string& name);
// True or False.
bool ToBool(py::handle value, const std::string& name);
// The UTF-8 text of a str, valid as long as the str is.
std::string_view ToText(py::handle value, const std::string& name);

// Which of the names it is, by its place among them.
int ToChoice(py::handle value, const std::string& name, Span<const char* const> names);

// use(item, name) for the items of an iterable that is no text; name() is "name[0]" and so on.
template <typename Use>
void ForEachItem(py::handle value, const char* name, const char* wanted, Use&& use) {
  if (PyUnicode_Check(value.ptr()) || PyBytes_Check(value.ptr()) ||
      !py::isinstance<py::iterable>(value)) {
    throw py::type_error(std::string(name) + " must be " + wanted + ", got " +
                         ShownWithType(value));
  }
  size_t i = 0;
  for (py::handle item : py::iter(value)) {
    use(item, [name, i] { return std::string(name) + "[" + std::to_string(i) + "]"; });
    ++i;
  }
}

// The other way round: what the library says is not known, as None.
template <typename T>
py::object NoneIfNegative(T value) {
  if (value < 0) return py::none();
  return py::cast(value);
}

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_ARGUMENTS_H_
