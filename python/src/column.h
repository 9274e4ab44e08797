// Column: one field of an array of structs, or a plain array, as a Python memoryview.
//
// The memory stays with its owner, which lives as long as any view of it: nothing is copied, and
// `numpy.asarray` takes the view without a copy too.
#ifndef PREFIXROUTER_PYTHON_SRC_COLUMN_H_
#define PREFIXROUTER_PYTHON_SRC_COLUMN_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace prefixrouter::python {

namespace py = pybind11;

struct Column {
  std::shared_ptr<const void> owner;
  const void* data;
  std::string format;  // of an item, as in Python's module `struct`
  py::ssize_t item_bytes;
  std::vector<py::ssize_t> shape;
  std::vector<py::ssize_t> stride_bytes;
};

void BindColumn(py::module_& module);

// A read-only memoryview.
py::object MakeView(Column column);

// The field of each element of `*structs`.
template <typename Struct, typename Field>
py::object MakeFieldView(std::shared_ptr<const std::vector<Struct>> structs, Field Struct::*field) {
  static const Struct kEmpty{};
  const Struct& first = structs->empty() ? kEmpty : structs->front();
  const auto count = static_cast<py::ssize_t>(structs->size());
  const void* const data = &(first.*field);
  return MakeView({std::move(structs),
                   data,
                   py::format_descriptor<Field>::format(),
                   static_cast<py::ssize_t>(sizeof(Field)),
                   {count},
                   {static_cast<py::ssize_t>(sizeof(Struct))}});
}

// An array of `rows` rows of equal length. A single array is one without rows: pass `rows` < 0.
template <typename T>
py::object MakeArrayView(std::vector<T> values, py::ssize_t rows = -1) {
  auto owned = std::make_shared<const std::vector<T>>(std::move(values));
  const auto count = static_cast<py::ssize_t>(owned->size());
  constexpr auto kBytes = static_cast<py::ssize_t>(sizeof(T));
  const T* const data = owned->data();
  Column column{std::move(owned), data,    py::format_descriptor<T>::format(),
                kBytes,           {count}, {kBytes}};
  if (rows >= 0) {
    const py::ssize_t columns = rows == 0 ? 0 : count / rows;
    column.shape = {rows, columns};
    column.stride_bytes = {columns * kBytes, kBytes};
  }
  return MakeView(std::move(column));
}

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_COLUMN_H_
