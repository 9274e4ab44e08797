// Instance: the Python object that stands for one instance of one router, and InstanceDirectory,
// which finds it by the id that the library answers with.
#ifndef PREFIXROUTER_PYTHON_SRC_INSTANCE_H_
#define PREFIXROUTER_PYTHON_SRC_INSTANCE_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <vector>

#include "prefixrouter/instance.h"

namespace prefixrouter::python {

namespace py = pybind11;

// prefixrouter.Instance. Two are equal only if they are the same object.
struct Instance {
  py::str name;
  uint32_t rank = 0;
  InstanceId id;               // not valid() until the router has added it
  uint64_t router_number = 0;  // PyRouter::number of its router
};

// Makes a class one of which Python can make no objects, in no way: those are made here, with their
// content. (A pybind11 object made by __new__ would have a content that is never initialised.)
void ForbidNew(py::handle cls);

// Adds Instance and InstanceState to the module.
void BindInstance(py::module_& module);

// The Instance of each id, for one router. Guarded by the GIL.
//
// A call that has left the GIL may choose an instance which is removed, and whose slot is given
// away, before the call is back. So an object stays in its slot after the removal, and when it is
// replaced there it is kept until no such call is left.
class InstanceDirectory {
 public:
  // Makes room for one more, so that Add does not fail. May throw.
  void Reserve();
  // REQUIRES: Reserve() was called since the last Add. `instance` is an Instance with a valid id.
  void Add(py::object instance, InstanceId id);
  void MarkRemoved(InstanceId id);
  // No call is on its way.
  void Forget() { replaced_.clear(); }
  bool needs_forgetting() const { return !replaced_.empty(); }

  // REQUIRES: the router has answered with `id` in a call that is not over. Borrowed.
  py::handle Find(InstanceId id) const;
  // The name as a str. REQUIRES: as for Find. Borrowed.
  py::handle Name(InstanceId id) const;
  // The live ones, in the order of their slots.
  py::list Live() const;

 private:
  struct Entry {
    InstanceId id;
    bool live = false;
    py::object object;
    const Instance* instance = nullptr;  // what `object` holds
  };

  const Entry& At(InstanceId id) const;

  std::vector<Entry> entries_;   // by slot
  std::vector<Entry> replaced_;  // those that calls on their way may still ask for
};

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_INSTANCE_H_
