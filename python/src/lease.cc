#include "lease.h"

#include <limits>
#include <string>
#include <utility>

#include "arguments.h"
#include "errors.h"
#include "router.h"

namespace prefixrouter::python {
namespace {

class PyLease {
 public:
  PyLease(Lease lease, py::object router, py::object decision)
      : lease_(std::move(lease)),
        id_(lease_.id()),
        router_(std::move(router)),
        decision_(std::move(decision)) {}

  const py::object& decision() const { return decision_; }
  uint64_t id() const { return id_.value; }
  bool active() const { return active_; }
  const InstanceId instance() const { return lease_.instance(); }

  bool FirstToken() {
    RequireActive();
    ReadClock();
    return lease_.FirstToken();
  }
  bool Finish(const FinishInfo& info) {
    RequireActive();
    ReadClock();
    active_ = false;
    return lease_.Finish(info);
  }
  bool Cancel() {
    if (!active_) return false;
    ReadClock();
    active_ = false;
    return lease_.Cancel();
  }
  uint64_t Release() {
    RequireActive();
    active_ = false;
    return lease_.Release().value;
  }

  std::string Text() const {
    return "<Lease " + std::to_string(id_.value) + (active_ ? "" : ", ended") + ": " +
           py::str(decision_).cast<std::string>() + ">";
  }

  int Traverse(visitproc visit, void* arg) const {
    Py_VISIT(router_.ptr());
    Py_VISIT(decision_.ptr());
    return 0;
  }
  // Ends the lease. Called only when nothing can use it any more.
  void Clear() {
    lease_ = Lease();
    active_ = false;
    router_ = py::object();
  }

 private:
  void RequireActive() const {
    if (active_) return;
    RaiseFailedPrecondition("lease " + std::to_string(id_.value) +
                            " has been finished, cancelled or released already");
  }
  void ReadClock() const {
    if (router_) router_.cast<const PyRouter&>().ReadClock();
  }

  Lease lease_;
  LeaseId id_;
  bool active_ = true;  // this object has not ended the lease
  py::object router_;
  py::object decision_;
};

constexpr const char* kDoc =
    "What a routed request holds until it is finished.\n"
    "\n"
    "While it lives, the load of its instance counts the request, and the blocks of its prompt\n"
    "are not evicted. What it is told teaches the router the instance's true speed and capacity.\n"
    "\n"
    "As a context manager, with ``with`` or ``async with``, it is finished at the end of the\n"
    "block, or cancelled when an exception leaves the block; ending it before is allowed. A lease\n"
    "that is dropped unfinished is cancelled. One that is not ended within ``lease_ttl_s``\n"
    "expires. It may outlive the instance and ``PrefixRouter.close``: its methods then return\n"
    "False.\n"
    "\n"
    "Example:\n"
    "    >>> with router.acquire(tokens) as lease:\n"
    "    ...     reply = send(lease.name, tokens)     # your own code\n"
    "    ...     lease.first_token()\n"
    "    ...     lease.finish(output_tokens=len(reply))\n";

void SetUpGarbageCollection(PyHeapTypeObject* heap_type) {
  PyTypeObject* const type = &heap_type->ht_type;
  type->tp_flags |= Py_TPFLAGS_HAVE_GC;
  type->tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!py::detail::is_holder_constructed(self)) return 0;
    return py::handle(self).cast<const PyLease&>().Traverse(visit, arg);
  };
  type->tp_clear = [](PyObject* self) {
    if (py::detail::is_holder_constructed(self)) py::handle(self).cast<PyLease&>().Clear();
    return 0;
  };
}

}  // namespace

FinishInfo ToFinishInfo(py::handle output_tokens, py::handle engine_cached_tokens) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  FinishInfo info;
  if (!output_tokens.is_none()) {
    info.output_tokens = ToInt64(output_tokens, "output_tokens", 0, kMost);
  }
  if (!engine_cached_tokens.is_none()) {
    info.engine_cached_tokens = ToInt64(engine_cached_tokens, "engine_cached_tokens", 0, kMost);
  }
  return info;
}

LeaseId ToLeaseId(py::handle value) { return LeaseId{ToUint64(value, "lease")}; }

void BindLease(py::module_& module) {
  py::class_<PyLease> cls(module, "Lease", py::is_final(),
                          py::custom_type_setup(SetUpGarbageCollection), kDoc);
  ForbidNew(cls);
  cls.def_property_readonly("decision", &PyLease::decision,
                            "Decision: the chosen instance, and why it was chosen.")
      .def_property_readonly(
          "instance", [](const PyLease& self) { return self.decision().attr("instance"); },
          "Instance: the chosen one.")
      .def_property_readonly(
          "name", [](const PyLease& self) { return self.decision().attr("name"); },
          "str: name of the chosen instance.")
      .def_property_readonly(
          "rank", [](const PyLease& self) { return self.decision().attr("rank"); },
          "int: data-parallel rank of the chosen instance.")
      .def_property_readonly("id", &PyLease::id, "int: number of the lease in its router.")
      .def_property_readonly(
          "active", &PyLease::active,
          "bool: not finished, cancelled or released yet, though it may have expired.")
      .def("first_token", &PyLease::FirstToken,
           "first_token(self)\n--\n\n"
           "Says that the first output token has arrived: prefill is over.\n"
           "\n"
           "Returns:\n"
           "    bool: True for the first call; False after that, or when the lease has expired or\n"
           "    its instance or router is gone.\n"
           "\n"
           "Raises:\n"
           "    Error: FAILED_PRECONDITION; the lease was finished, cancelled or released.\n")
      .def(
          "finish",
          [](PyLease& self, py::handle output_tokens, py::handle engine_cached_tokens) {
            return self.Finish(ToFinishInfo(output_tokens, engine_cached_tokens));
          },
          py::kw_only(), py::arg("output_tokens") = py::none(),
          py::arg("engine_cached_tokens") = py::none(),
          "finish(self, *, output_tokens=None, engine_cached_tokens=None)\n--\n\n"
          "Says that the request is complete.\n"
          "\n"
          "Args:\n"
          "    output_tokens (int | None): Tokens generated; None when not known.\n"
          "    engine_cached_tokens (int | None): Prompt tokens that the engine says it found\n"
          "        cached (``usage.prompt_tokens_details.cached_tokens`` of OpenAI's interface).\n"
          "\n"
          "Returns:\n"
          "    bool: False when the lease has expired, or its instance or router is gone.\n"
          "\n"
          "Raises:\n"
          "    Error: FAILED_PRECONDITION; the lease was finished, cancelled or released.\n"
          "    TypeError, ValueError: An argument is no int, or negative.\n")
      .def("cancel", &PyLease::Cancel,
           "cancel(self)\n--\n\n"
           "Says that the request failed or its client went away: nothing is learned from it.\n"
           "\n"
           "Returns:\n"
           "    bool: True if this call ended the lease. It may be called any number of times.\n")
      .def("release", &PyLease::Release,
           "release(self)\n--\n\n"
           "Gives up the object without ending the lease.\n"
           "\n"
           "Returns:\n"
           "    int: The number by which ``PrefixRouter.first_token``, ``finish_lease`` and\n"
           "    ``cancel_lease`` know it.\n"
           "\n"
           "Raises:\n"
           "    Error: FAILED_PRECONDITION; the lease was finished, cancelled or released.\n")
      .def(
          "__enter__", [](py::object self) { return self; }, "__enter__(self)\n--\n\n")
      .def(
          "__exit__",
          [](PyLease& self, py::handle type, py::handle, py::handle) {
            if (!self.active()) return;
            if (type.is_none()) {
              self.Finish({});
            } else {
              self.Cancel();
            }
          },
          py::arg("exc_type"), py::arg("exc_value"), py::arg("traceback"),
          "__exit__(self, exc_type, exc_value, traceback)\n--\n\n")
      .def("__repr__", &PyLease::Text);
}

py::object MakeLease(Lease lease, py::handle router, py::object decision) {
  return py::cast(
      PyLease(std::move(lease), py::reinterpret_borrow<py::object>(router), std::move(decision)));
}

}  // namespace prefixrouter::python
