#include "column.h"

#include "instance.h"

namespace prefixrouter::python {

void BindColumn(py::module_& module) {
  py::class_<Column> cls(module, "_Column", py::buffer_protocol(), py::is_final());
  ForbidNew(cls);
  cls.def_buffer([](const Column& self) {
    return py::buffer_info(const_cast<void*>(self.data), self.item_bytes, self.format,
                           static_cast<py::ssize_t>(self.shape.size()), self.shape,
                           self.stride_bytes, /*readonly=*/true);
  });
}

py::object MakeView(Column column) {
  const py::object owner = py::cast(std::move(column));
  py::object view = py::reinterpret_steal<py::object>(PyMemoryView_FromObject(owner.ptr()));
  if (!view) throw py::error_already_set();
  return view;
}

}  // namespace prefixrouter::python
