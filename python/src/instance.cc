#include "instance.h"

#include <pybind11/native_enum.h>

#include <stdexcept>
#include <string>
#include <utility>

namespace prefixrouter::python {
namespace {

constexpr const char* kInstanceDoc =
    "One routing target with one KV cache, as ``PrefixRouter.add_instance`` made it.\n"
    "\n"
    "Valid until it is removed; an instance that is added again under the same name is another\n"
    "one. Compared and hashed by identity. Methods that take an instance also take its name, "
    "which\n"
    "stands for rank 0.\n"
    "\n"
    "Attributes:\n"
    "    name (str): As given to ``add_instance``.\n"
    "    rank (int): Data-parallel rank.\n"
    "    id (int): Number of the instance, never used again by its router.\n";

constexpr const char* kStateDoc =
    "READY takes requests. DRAINING takes no new ones: running ones, the load and the cached\n"
    "blocks stay. DOWN is the same to the router; the name tells operators that it failed.";

}  // namespace

void ForbidNew(py::handle cls) { reinterpret_cast<PyTypeObject*>(cls.ptr())->tp_new = nullptr; }

void BindInstance(py::module_& module) {
  py::native_enum<InstanceState>(module, "InstanceState", "enum.Enum", kStateDoc)
      .value("READY", InstanceState::kReady)
      .value("DRAINING", InstanceState::kDraining)
      .value("DOWN", InstanceState::kDown)
      .finalize();
  py::class_<Instance> cls(module, "Instance", py::is_final(), kInstanceDoc);
  ForbidNew(cls);
  cls.def_property_readonly(
         "name", [](const Instance& self) { return self.name; },
         "Name, as given to ``add_instance``.")
      .def_property_readonly(
          "rank", [](const Instance& self) { return self.rank; }, "Data-parallel rank.")
      .def_property_readonly(
          "id", [](const Instance& self) { return self.id.value; },
          "Number of the instance, never used again by its router.")
      .def("__repr__", [](const Instance& self) {
        return py::str("<Instance {!r} rank {}>").format(self.name, self.rank);
      });
}

void InstanceDirectory::Reserve() {
  for (std::vector<Entry>* entries : {&entries_, &replaced_}) {
    if (entries->size() == entries->capacity()) entries->reserve(entries->size() * 2 + 4);
  }
}

void InstanceDirectory::Add(py::object instance, InstanceId id) {
  const uint32_t slot = id.slot();
  // The router gives slots without gaps.
  if (slot >= entries_.size()) entries_.resize(slot + 1);
  Entry& entry = entries_[slot];
  if (entry.object) replaced_.push_back(std::move(entry));
  const Instance* const held = &instance.cast<const Instance&>();
  entry = {id, true, std::move(instance), held};
}

void InstanceDirectory::MarkRemoved(InstanceId id) {
  Entry& entry = entries_[id.slot()];
  if (entry.id == id) entry.live = false;
}

const InstanceDirectory::Entry& InstanceDirectory::At(InstanceId id) const {
  if (id.slot() < entries_.size() && entries_[id.slot()].id == id) return entries_[id.slot()];
  for (const Entry& entry : replaced_) {
    if (entry.id == id) return entry;
  }
  throw std::logic_error("instance " + std::to_string(id.value) + " has no Python object");
}

py::handle InstanceDirectory::Find(InstanceId id) const { return At(id).object; }

py::handle InstanceDirectory::Name(InstanceId id) const { return At(id).instance->name; }

py::list InstanceDirectory::Live() const {
  py::list live;
  for (const Entry& entry : entries_) {
    if (entry.live) live.append(entry.object);
  }
  return live;
}

}  // namespace prefixrouter::python
