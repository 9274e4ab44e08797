#include "router.h"

#include <pybind11/native_enum.h>

#include <atomic>
#include <limits>
#include <string>
#include <utility>

#include "arguments.h"
#include "engine_metrics.h"
#include "errors.h"
#include "gil.h"
#include "kv_events.h"
#include "options.h"
#include "policy.h"
#include "router_metrics.h"
#include "stats.h"

namespace prefixrouter::python {
namespace {

std::atomic<uint64_t> router_count{0};

InstanceState ToState(py::handle value) {
  py::detail::make_caster<InstanceState> caster;
  if (!caster.load(value, false)) {
    throw py::type_error("state must be an InstanceState, got " + ShownWithType(value));
  }
  return py::detail::cast_op<InstanceState>(caster);
}

// Without the GIL, because an index of millions of blocks takes a while.
void End(std::shared_ptr<PrefixRouter> router) {
  const GilReleased released(router != nullptr);
  router.reset();
}

}  // namespace

PyRouter::PyRouter(const py::dict& arguments) : number_(++router_count) {
  RouterOptions options;
  for (const auto& [key, value] : arguments) {
    const std::string_view name = ToText(key, "keyword");
    if (name == "policy") {
      if (PyUnicode_Check(value.ptr())) {
        options.policy = ToText(value, "policy");
      } else if (PyCallable_Check(value.ptr()) != 0) {
        policy_ = py::reinterpret_borrow<py::object>(value);
        options.custom_policy = std::make_shared<PythonPolicy>(*this);
      } else {
        throw py::type_error("policy must be a name or a callable, got " + ShownWithType(value));
      }
    } else if (name == "clock") {
      if (value.is_none()) continue;
      if (PyCallable_Check(value.ptr()) == 0) {
        throw py::type_error("clock must be a callable or None, got " + ShownWithType(value));
      }
      clock_callable_ = py::reinterpret_borrow<py::object>(value);
      clock_ = std::make_shared<ManualClock>();
      options.clock = clock_;
    } else if (!SetOption(&options, name, value)) {
      throw py::type_error("PrefixRouter() got an unexpected keyword argument " + Shown(key));
    }
  }
  router_ = Take(PrefixRouter::Create(options));
}

PyRouter::~PyRouter() { End(std::move(router_)); }

PyRouter::Call::Call(PyRouter& router) : router_(router) {
  router.ReadClock();
  if (router.closed_) RaiseFailedPrecondition("the router is closed");
  ++router.calls_;
}

PyRouter::Call::~Call() {
  PyRouter& router = router_;
  if (--router.calls_ != 0) return;
  if (router.instances_.needs_forgetting()) router.instances_.Forget();
  if (router.closed_ && router.router_ != nullptr) {
    End(std::move(router.router_));
  }
}

void PyRouter::Close() {
  if (closed_) return;
  closed_ = true;
  if (calls_ != 0) return;
  End(std::move(router_));
}

std::shared_ptr<PrefixRouter> PyRouter::Share() const {
  if (closed_) RaiseFailedPrecondition("the router is closed");
  return router_;
}

void PyRouter::ReadCustomClock() const {
  const py::object clock = clock_callable_;  // held: it may run any code
  const py::object nanos = py::reinterpret_steal<py::object>(
      WithGilOrNever([&] { return PyObject_CallNoArgs(clock.ptr()); }));
  if (!nanos) throw py::error_already_set();
  clock_->SetNanos(ToInt64(nanos, "what the clock returns", std::numeric_limits<int64_t>::min(),
                           std::numeric_limits<int64_t>::max()));
}

InstanceId PyRouter::ToInstanceId(py::handle value, const std::string& argument) {
  if (py::isinstance<Instance>(value)) {
    const auto& instance = value.cast<const Instance&>();
    if (instance.router_number == number_) return instance.id;
    throw py::key_error("no such instance: " + Shown(value) + " is of another router");
  }
  if (!PyUnicode_Check(value.ptr())) {
    throw py::type_error(argument + " must be an Instance or the name of one, got " +
                         ShownWithType(value));
  }
  return Take(router_->FindInstance(ToText(value, argument)));
}

void PyRouter::RaiseUnlessOk(const Status& status, py::handle instance) const {
  if (status.ok()) return;
  if (status.code() == StatusCode::kNotFound) {
    throw py::key_error("no such instance: " + Shown(instance) + " was removed");
  }
  Raise(status);
}

py::object PyRouter::AddInstance(py::handle name, py::handle rank, py::handle capacity_blocks,
                                 py::handle prefill_tokens_per_s, py::handle weight,
                                 py::handle model) {
  InstanceOptions options;
  options.name = ToText(name, "name");
  options.rank = ToInteger<uint32_t>(rank, "rank");
  options.capacity_blocks = ToInteger<uint32_t>(capacity_blocks, "capacity_blocks");
  options.prefill_tokens_per_s = ToDouble(prefill_tokens_per_s, "prefill_tokens_per_s");
  options.weight = ToDouble(weight, "weight");
  options.model = ToText(model, "model");

  // Once the router has the instance, other threads may choose it and look for its object. So the
  // object is made before, and from there to the end nothing can fail or run Python code.
  const py::object object = py::cast(Instance{py::str(options.name), options.rank, {}, number_});
  const Call call(*this);
  instances_.Reserve();
  const InstanceId id = Take(call->AddInstance(options));
  object.cast<Instance&>().id = id;
  instances_.Add(object, id);
  return object;
}

void PyRouter::RemoveInstance(py::handle instance) {
  const Call call(*this);
  const InstanceId id = ToInstanceId(instance, "instance");
  Status status;
  {
    const GilReleased released;  // it may hold millions of blocks
    status = call->RemoveInstance(id);
  }
  RaiseUnlessOk(status, instance);
  instances_.MarkRemoved(id);
}

py::object PyRouter::FindInstance(py::handle name, py::handle rank) {
  const Call call(*this);
  const InstanceId id =
      Take(call->FindInstance(ToText(name, "name"), ToInteger<uint32_t>(rank, "rank")));
  return py::reinterpret_borrow<py::object>(instances_.Find(id));
}

void PyRouter::SetInstanceState(py::handle instance, py::handle state, py::handle for_s) {
  const Call call(*this);
  RaiseUnlessOk(call->SetInstanceState(ToInstanceId(instance, "instance"), ToState(state),
                                       ToDouble(for_s, "for_s")),
                instance);
}

void PyRouter::ReportLoad(py::handle instance, py::handle running_requests,
                          py::handle waiting_requests, py::handle kv_usage, py::handle age_s) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
  const Call call(*this);
  EngineLoad load;
  if (!running_requests.is_none()) {
    load.running_requests = ToInt64(running_requests, "running_requests", 0, kMost);
  }
  if (!waiting_requests.is_none()) {
    load.waiting_requests = ToInt64(waiting_requests, "waiting_requests", 0, kMost);
  }
  if (!kv_usage.is_none()) {
    load.kv_usage = ToDouble(kv_usage, "kv_usage");
    if (load.kv_usage < 0) {
      throw py::value_error("kv_usage must be 0 to 1, or None for not reported, got " +
                            Shown(kv_usage));
    }
  }
  load.age_s = ToDouble(age_s, "age_s");
  RaiseUnlessOk(call->ReportLoad(ToInstanceId(instance, "instance"), load), instance);
}

uint32_t PyRouter::ReportEngineMetrics(py::handle name, py::handle metrics, py::handle age_s) {
  const Call call(*this);
  const std::string_view name_text = ToText(name, "name");
  const double age = ToDouble(age_s, "age_s");
  const py::object parsed = ToEngineMetrics(metrics);
  return Take(prefixrouter::ReportEngineMetrics(*call, name_text, EngineMetricsOf(parsed), age));
}

py::object PyRouter::ApplyKvEvents(py::handle instance, py::handle events, py::handle decoder) {
  const Call call(*this);
  return python::ApplyKvEvents(*call, ToInstanceId(instance, "instance"), events, decoder);
}

py::object PyRouter::Stats() {
  const Call call(*this);
  RouterStats stats;
  {
    const GilReleased released;
    stats = call->Stats();
  }
  return MakeStats(std::move(stats), instances_);
}

py::object PyRouter::Metrics(py::handle per_instance) {
  const Call call(*this);
  MetricsOptions options;
  options.per_instance = ToBool(per_instance, "per_instance");
  return ToPage(WithoutGil(true, [&] { return RenderMetrics(call->Stats(), options); }));
}

py::dict PyRouter::Options() {
  const Call call(*this);
  py::dict options = GetOptions(call->options());
  options["policy"] = policy_ ? policy_ : py::object(py::str(call->options().policy));
  options["clock"] = clock_callable_ ? clock_callable_ : py::object(py::none());
  return options;
}

int PyRouter::Traverse(visitproc visit, void* arg) const {
  Py_VISIT(policy_.ptr());
  Py_VISIT(clock_callable_.ptr());
  return 0;
}

void PyRouter::Clear() {
  policy_ = py::object();
  clock_callable_ = py::object();
}

}  // namespace prefixrouter::python
