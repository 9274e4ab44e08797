// MadeByInit: base of classes that Python code makes, and that are also made here.
//
// pybind11 allocates the content of an object when it is used before __init__ has made it (after
// __new__ alone), and would go on with memory that nobody has initialised. These classes refuse
// that; they are made by MakeObject and MakeContent.
#ifndef PREFIXROUTER_PYTHON_SRC_MADE_BY_INIT_H_
#define PREFIXROUTER_PYTHON_SRC_MADE_BY_INIT_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <utility>

namespace prefixrouter::python {

namespace py = pybind11;

struct MadeByInit {
  static void* operator new(size_t) { throw py::type_error("__init__() has not been called"); }
  static void operator delete(void* content) { ::operator delete(content); }
};

// For py::init.
template <typename T, typename... Arguments>
std::unique_ptr<T> MakeContent(Arguments&&... arguments) {
  return std::unique_ptr<T>(::new T(std::forward<Arguments>(arguments)...));
}

template <typename T, typename... Arguments>
py::object MakeObject(Arguments&&... arguments) {
  return py::cast(MakeContent<T>(std::forward<Arguments>(arguments)...));
}

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_MADE_BY_INIT_H_
