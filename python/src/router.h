// PyRouter: prefixrouter.PrefixRouter, and what its leases and policies need to know of it.
//
// All members are guarded by the GIL. The library's own router is thread-safe, and is called with
// and without the GIL. It never calls Python while it holds its lock, so a thread that waits for
// that lock may hold the GIL: a custom policy is called without the lock, and the clock is read
// here, before the library is called.
#ifndef PREFIXROUTER_PYTHON_SRC_ROUTER_H_
#define PREFIXROUTER_PYTHON_SRC_ROUTER_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>

#include "instance.h"
#include "prefixrouter/prefix_router.h"

namespace prefixrouter::python {

namespace py = pybind11;

void BindRouter(py::module_& module);

class PyRouter {
 public:
  explicit PyRouter(const py::dict& options);
  ~PyRouter();
  PyRouter(const PyRouter&) = delete;
  PyRouter& operator=(const PyRouter&) = delete;

  // pybind11 allocates the content of an object when it is used before __init__ has made it (after
  // PrefixRouter.__new__ alone), and would go on with memory that nobody has initialised. Routers
  // are made with `::new`.
  static void* operator new(size_t) {
    throw py::type_error("PrefixRouter.__init__() has not been called");
  }
  static void operator delete(void* router) { ::operator delete(router); }

  // One call on the router, which stays alive until the call is over. Reads the clock first.
  class Call {
   public:
    // Throws what the clock raises, and prefixrouter.Error when the router is closed.
    explicit Call(PyRouter& router);
    ~Call();
    Call(const Call&) = delete;
    Call& operator=(const Call&) = delete;

    PrefixRouter* operator->() const { return router_.router_.get(); }
    PrefixRouter& operator*() const { return *router_.router_; }

   private:
    PyRouter& router_;
  };

  // Ends the router once the calls that are on their way are over. Further ones are refused.
  void Close();
  bool closed() const { return closed_; }
  // The library's router, for threads that are none of Python's: to be held by a weak_ptr, and only
  // for the length of a call by more. Throws prefixrouter.Error when it is closed.
  std::shared_ptr<PrefixRouter> Share() const;

  // Takes the time of the custom clock, if there is one, over to the library. Throws what it
  // raises.
  void ReadClock() const {
    if (clock_callable_) ReadCustomClock();
  }

  // The id of an Instance of this router or of a name, which means rank 0. KeyError: it is unknown;
  // an Instance that was removed is known. TypeError: it is neither.
  InstanceId ToInstanceId(py::handle value, const std::string& argument);

  py::object AddInstance(py::handle name, py::handle rank, py::handle capacity_blocks,
                         py::handle prefill_tokens_per_s, py::handle weight, py::handle model);
  void RemoveInstance(py::handle instance);
  py::object FindInstance(py::handle name, py::handle rank);
  void SetInstanceState(py::handle instance, py::handle state, py::handle for_s);
  void ReportLoad(py::handle instance, py::handle running_requests, py::handle waiting_requests,
                  py::handle kv_usage, py::handle age_s);
  uint32_t ReportEngineMetrics(py::handle name, py::handle metrics, py::handle age_s);
  py::object ApplyKvEvents(py::handle instance, py::handle events, py::handle decoder);
  py::object Stats();
  py::object Metrics(py::handle per_instance);

  const InstanceDirectory& instances() const { return instances_; }
  // The custom policy; null when there is none.
  const py::object& policy() const { return policy_; }
  // The options as the library uses them, by name.
  py::dict Options();

  // For the garbage collector.
  int Traverse(visitproc visit, void* argument) const;
  void Clear();

 private:
  void ReadCustomClock() const;
  // KeyError for an Instance, where the library would name a number.
  void RaiseUnlessOk(const Status& status, py::handle instance) const;

  std::shared_ptr<PrefixRouter> router_;
  InstanceDirectory instances_;
  py::object policy_;
  py::object clock_callable_;
  std::shared_ptr<ManualClock> clock_;  // shows what clock_callable_ has said
  uint64_t number_;                     // of this router, in this process
  int calls_ = 0;                       // on their way
  bool closed_ = false;
};

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_ROUTER_H_
