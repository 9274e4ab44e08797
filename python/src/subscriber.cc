#include "subscriber.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "errors.h"
#include "gil.h"
#include "instance.h"
#include "kv_event_stream.h"
#include "kv_events.h"
#include "made_by_init.h"
#include "prefixrouter/zmq_subscriber.h"
#include "router.h"

namespace prefixrouter::python {
namespace {

constexpr const char* kDoc =
    "Takes the KV events of engines from ZeroMQ to a router.\n"
    "\n"
    "``start`` makes one thread, which receives, keeps each publisher's messages in order\n"
    "(KvEventStream), fetches what was missed, decodes and applies, all without the GIL. As a\n"
    "context manager it runs within the block. All methods may be called from any thread.\n"
    "\n"
    "When its router is closed, nothing more is applied.\n"
    "\n"
    "Example:\n"
    "    >>> subscriber = KvEventSubscriber(router)\n"
    "    >>> subscriber.add(\"tcp://10.0.0.7:5557\", instance,\n"
    "    ...                replay_endpoint=\"tcp://10.0.0.7:5558\")\n"
    "    1\n"
    "    >>> subscriber.start()\n";

constexpr const char* kInitDoc =
    "__init__(self, router, *, replay_timeout_s=5.0, reconnect_s=0.1, max_reconnect_s=5.0, "
    "receive_high_water_mark=100000, max_message_bytes=268435456, max_held_messages=10000, "
    "max_held_bytes=67108864, replay_attempts=3, retry_delay_s=0.1, clear_on_loss=True)\n--\n\n"
    "Args:\n"
    "    router (PrefixRouter): Which the events are for.\n"
    "    replay_timeout_s (float): How long a replay may be silent before it has failed, in\n"
    "        seconds. 0.001 to 3600.\n"
    "    reconnect_s (float): Pause before a broken connection is tried again, in seconds; it\n"
    "        doubles up to\n"
    "    max_reconnect_s (float): this. Each 0.001 to 3600.\n"
    "    receive_high_water_mark (int): Messages of a publisher that ZeroMQ keeps while the "
    "thread\n"
    "        is busy; beyond it they are dropped, and fetched again. 1 to 2**31 - 1.\n"
    "    max_message_bytes (int): Larger messages end the connection. 1 to 2**40.\n"
    "    max_held_messages (int): This and the following as for KvEventStream.\n"
    "    max_held_bytes (int): As for KvEventStream.\n"
    "    replay_attempts (int): As for KvEventStream.\n"
    "    retry_delay_s (float): As for KvEventStream.\n"
    "    clear_on_loss (bool): As for KvEventStream.\n"
    "\n"
    "Raises:\n"
    "    Error: UNIMPLEMENTED when the package was built without libzmq; FAILED_PRECONDITION when\n"
    "        the router is closed.\n"
    "    TypeError, ValueError: A wrong argument.\n";

constexpr const char* kAddDoc =
    "add(self, endpoint, instances, *, replay_endpoint='', bind=False, ipv6=False, topic='')\n"
    "--\n\n"
    "Adds a source of events, also while it runs.\n"
    "\n"
    "Args:\n"
    "    endpoint (str): The engine's ``endpoint``: ``tcp://10.0.0.7:5557``,\n"
    "        ``tcp://[fd00::7]:5557``, ``ipc:///run/engine.sock``. With ``bind`` the own address,\n"
    "        ``tcp://*:5557``, which engines connect to.\n"
    "    instances (Instance | str | Iterable[Instance | str]): The instance of each rank, rank 0\n"
    "        first. Rank r publishes at the endpoints' ports plus r. A name means rank 0.\n"
    "    replay_endpoint (str): The engine's ``replay_endpoint``, where missed messages are\n"
    "        fetched. Empty: nowhere; what is missed is lost.\n"
    "    bind (bool): Listen, rather than connect, at ``endpoint``. Sources with one endpoint "
    "share\n"
    "        a socket, and are told apart by their topics.\n"
    "    ipv6 (bool): Host names mean IPv6 addresses, and with ``bind`` ``*`` takes both kinds.\n"
    "    topic (str | bytes): Only messages whose topic begins so.\n"
    "\n"
    "Returns:\n"
    "    int: The number of the source.\n"
    "\n"
    "Raises:\n"
    "    ValueError: A malformed endpoint, no instances, or several ranks where ports cannot be\n"
    "        counted up.\n"
    "    KeyError: There is no instance of this name.\n"
    "    Error: ALREADY_EXISTS when another source has the same endpoint and topic, or the "
    "address\n"
    "        to listen at is in use.\n"
    "    TypeError: A wrong argument.\n";

constexpr const char* kStatsDoc = "Counters of a KvEventSubscriber. Read-only.\n";

constexpr const char* kPublisherDoc =
    "Counters of one publisher, in ``KvEventSubscriberStats.publishers``. Read-only.\n";

class PySubscriber : public MadeByInit {
 public:
  PySubscriber(py::object router, std::unique_ptr<ZmqSubscriber> subscriber)
      : router_(std::move(router)), subscriber_(std::move(subscriber)) {}
  ~PySubscriber() {
    const GilReleased released;  // it waits for the thread
    subscriber_.reset();
  }

  PyRouter& router() const {
    if (!router_) RaiseFailedPrecondition("the garbage collector has taken the router");
    return router_.cast<PyRouter&>();
  }
  int Traverse(visitproc visit, void* arg) const {
    Py_VISIT(router_.ptr());
    return 0;
  }
  void Clear() { router_ = py::object(); }

  // REQUIRES: the calling thread keeps the object alive, as pybind11 does during a call.
  ZmqSubscriber& subscriber() const { return *subscriber_; }

 private:
  py::object router_;
  std::unique_ptr<ZmqSubscriber> subscriber_;
};

std::unique_ptr<PySubscriber> Make(py::handle router, py::handle replay_timeout_s,
                                   py::handle reconnect_s, py::handle max_reconnect_s,
                                   py::handle receive_high_water_mark, py::handle max_message_bytes,
                                   py::object max_held_messages, py::object max_held_bytes,
                                   py::object replay_attempts, py::object retry_delay_s,
                                   py::object clear_on_loss) {
  if (!py::isinstance<PyRouter>(router)) {
    throw py::type_error("router must be a PrefixRouter, got " + ShownWithType(router));
  }
  ZmqSubscriberOptions options;
  options.replay_timeout_s = ToDouble(replay_timeout_s, "replay_timeout_s");
  options.reconnect_s = ToDouble(reconnect_s, "reconnect_s");
  options.max_reconnect_s = ToDouble(max_reconnect_s, "max_reconnect_s");
  options.receive_high_water_mark =
      ToInteger<uint32_t>(receive_high_water_mark, "receive_high_water_mark");
  options.max_message_bytes = ToUint64(max_message_bytes, "max_message_bytes");
  options.stream = ToStreamOptions({std::move(max_held_messages), std::move(max_held_bytes),
                                    std::move(replay_attempts), std::move(retry_delay_s),
                                    std::move(clear_on_loss)});
  // The router may be closed while the thread runs.
  std::weak_ptr<PrefixRouter> sink = router.cast<PyRouter&>().Share();
  auto subscriber = Take(ZmqSubscriber::Create(
      [sink = std::move(sink)](InstanceId instance, const KvEventBatch& batch) -> Status {
        const std::shared_ptr<PrefixRouter> open = sink.lock();
        if (open == nullptr) return Status(StatusCode::kNotFound, "the router is closed");
        const Result<KvEventResult> result = open->ApplyKvEvents(instance, batch);
        if (!result.ok()) return result.status();
        if (result->counts[KvEventOutcome::kOldGeneration] == 0) return Status();
        return Status(StatusCode::kNotFound, "the instance was removed");
      },
      options));
  return MakeContent<PySubscriber>(py::reinterpret_borrow<py::object>(router),
                                   std::move(subscriber));
}

uint64_t Add(PySubscriber& self, py::handle endpoint, py::handle instances,
             py::handle replay_endpoint, py::handle bind, py::handle ipv6, py::handle topic) {
  ZmqSource source;
  source.endpoint = ToText(endpoint, "endpoint");
  source.replay_endpoint = ToText(replay_endpoint, "replay_endpoint");
  source.bind = ToBool(bind, "bind");
  source.ipv6 = ToBool(ipv6, "ipv6");
  source.topic = ToEngineText(topic, "topic");
  {
    const PyRouter::Call call(self.router());
    if (PyUnicode_Check(instances.ptr()) || py::isinstance<Instance>(instances)) {
      source.instances.push_back(self.router().ToInstanceId(instances, "instances"));
    } else if (py::isinstance<py::iterable>(instances)) {
      for (py::handle instance : py::iter(instances)) {
        const std::string name = "instances[" + std::to_string(source.instances.size()) + "]";
        source.instances.push_back(self.router().ToInstanceId(instance, name));
      }
    } else {
      throw py::type_error("instances must be an Instance, a name, or a list of them, got " +
                           ShownWithType(instances));
    }
  }
  return Take(WithoutGil(true, [&] { return self.subscriber().Add(source); }));
}

void Start(PySubscriber& self) {
  RaiseUnlessOk(WithoutGil(true, [&] { return self.subscriber().Start(); }));
}

void Stop(PySubscriber& self) {
  RaiseUnlessOk(WithoutGil(true, [&] { return self.subscriber().Stop(); }));
}

template <typename Field>
void Bind(py::class_<ZmqPublisherStats>& cls, const char* name, Field ZmqPublisherStats::*field,
          const char* doc) {
  cls.def_property_readonly(
      name, [field](const ZmqPublisherStats& self) { return self.*field; }, doc);
}

void SetUpGarbageCollection(PyHeapTypeObject* heap_type) {
  PyTypeObject* const type = &heap_type->ht_type;
  type->tp_flags |= Py_TPFLAGS_HAVE_GC;
  type->tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!py::detail::is_holder_constructed(self)) return 0;
    return py::handle(self).cast<const PySubscriber&>().Traverse(visit, arg);
  };
  type->tp_clear = [](PyObject* self) {
    if (py::detail::is_holder_constructed(self)) py::handle(self).cast<PySubscriber&>().Clear();
    return 0;
  };
}

void BindStatsClasses(py::module_& module) {
  py::class_<ZmqPublisherStats> cls(module, "KvPublisherStats", py::is_final(), kPublisherDoc);
  ForbidNew(cls);
  using Stats = ZmqPublisherStats;
  Bind(cls, "source", &Stats::source, "int: number of its source.");
  Bind(cls, "rank", &Stats::rank, "int: rank, of the source's instances.");
  Bind(cls, "endpoint", &Stats::endpoint, "str: where it publishes, with the rank's port.");
  Bind(cls, "stream", &Stats::stream,
       "KvEventStreamStats: the order of its messages. Its times are those of the system's\n"
       "monotonic clock.");
  Bind(cls, "connects", &Stats::connects, "int: connections made.");
  Bind(cls, "disconnects", &Stats::disconnects, "int: connections lost.");
  Bind(cls, "messages", &Stats::messages, "int: received, live and replayed.");
  Bind(cls, "bytes", &Stats::bytes, "int: of their payloads.");
  Bind(cls, "bad_frames", &Stats::bad_frames, "int: not of the form of a message.");
  Bind(cls, "undecodable", &Stats::undecodable, "int: payloads that are no message.");
  Bind(cls, "refused", &Stats::refused, "int: batches that the router did not take.");
  cls.def_property_readonly(
      "skipped", [](const Stats& self) { return ByOutcome(self.skipped); },
      "dict[str, int]: what the decoder left out, by the reason, as in ``KvApplyResult.counts``.");
  cls.def_property_readonly(
      "last_error", [](const Stats& self) { return FromEngineText(self.last_error); },
      "str: of any of these; empty: none.");
  cls.def_property_readonly(
      "lag_s",
      [](const Stats& self) -> py::object {
        if (self.lag_s != self.lag_s) return py::none();
        return py::float_(self.lag_s);
      },
      "float or None: when the last live message was applied: seconds since the engine sent it,\n"
      "by the two clocks.");
  cls.def_property_readonly(
      "silent_s", [](const Stats& self) { return NoneIfNegative(self.silent_s); },
      "float or None: seconds since the last message came, live or replayed.");
  cls.def("__repr__", [](const Stats& self) {
    return "<KvPublisherStats of " + Shown(py::str(self.endpoint)) + ": " +
           KvStreamStateName(self.stream.state) + ", " + std::to_string(self.messages) +
           " messages>";
  });

  py::class_<ZmqSubscriberStats> all(module, "KvEventSubscriberStats", py::is_final(), kStatsDoc);
  ForbidNew(all);
  all.def_property_readonly(
      "running", [](const ZmqSubscriberStats& self) { return self.running; },
      "bool: its thread runs.");
  all.def_property_readonly(
      "publishers",
      [](const ZmqSubscriberStats& self) {
        py::tuple publishers(self.publishers.size());
        for (size_t i = 0; i < publishers.size(); ++i) {
          publishers[i] = py::cast(self.publishers[i]);
        }
        return publishers;
      },
      "tuple[KvPublisherStats, ...]: in the order of ``add``, then of ranks.");
  all.def("__repr__", [](const ZmqSubscriberStats& self) {
    return "<KvEventSubscriberStats of " + std::to_string(self.publishers.size()) + " publishers" +
           (self.running ? ", running>" : ">");
  });
}

}  // namespace

void BindSubscriber(py::module_& module) {
  BindStatsClasses(module);
  py::class_<PySubscriber> cls(module, "KvEventSubscriber", py::is_final(),
                               py::custom_type_setup(SetUpGarbageCollection), kDoc);
  const ZmqSubscriberOptions defaults;
  cls.def(py::init(&Make), py::arg("router"), py::kw_only(),
          py::arg("replay_timeout_s") = defaults.replay_timeout_s,
          py::arg("reconnect_s") = defaults.reconnect_s,
          py::arg("max_reconnect_s") = defaults.max_reconnect_s,
          py::arg("receive_high_water_mark") = defaults.receive_high_water_mark,
          py::arg("max_message_bytes") = defaults.max_message_bytes,
          py::arg("max_held_messages") = defaults.stream.max_held_messages,
          py::arg("max_held_bytes") = defaults.stream.max_held_bytes,
          py::arg("replay_attempts") = defaults.stream.replay_attempts,
          py::arg("retry_delay_s") = defaults.stream.retry_delay_s,
          py::arg("clear_on_loss") = defaults.stream.clear_on_loss, kInitDoc);
  cls.def("add", &Add, py::arg("endpoint"), py::arg("instances"), py::kw_only(),
          py::arg("replay_endpoint") = "", py::arg("bind") = false, py::arg("ipv6") = false,
          py::arg("topic") = "", kAddDoc)
      .def(
          "remove",
          [](PySubscriber& self, py::handle source) {
            const uint64_t number = ToUint64(source, "source");
            RaiseUnlessOk(WithoutGil(true, [&] { return self.subscriber().Remove(number); }));
          },
          py::arg("source"),
          "remove(self, source)\n--\n\n"
          "Removes a source; afterwards nothing more comes from it.\n"
          "\n"
          "Args:\n"
          "    source (int): What ``add`` has returned.\n"
          "\n"
          "Raises:\n"
          "    KeyError: There is no such source.\n"
          "    TypeError, ValueError: A wrong argument.\n")
      .def("start", &Start,
           "start(self)\n--\n\n"
           "Makes the thread.\n"
           "\n"
           "Raises:\n"
           "    Error: FAILED_PRECONDITION when it runs already; otherwise what is wrong with the\n"
           "        first source that cannot be opened, and it does not run.\n")
      .def(
          "stop", &Stop,
          "stop(self)\n--\n\n"
          "Returns when the thread has ended. After another ``start`` what was missed is fetched.\n"
          "Stopping what does not run does nothing.\n")
      .def(
          "stats",
          [](PySubscriber& self) {
            return WithoutGil(true, [&] { return self.subscriber().Stats(); });
          },
          "stats(self)\n--\n\n"
          "Health of the sources.\n"
          "\n"
          "Returns:\n"
          "    KvEventSubscriberStats: A copy.\n")
      .def(
          "__enter__",
          [](py::object self) {
            Start(self.cast<PySubscriber&>());
            return self;
          },
          "__enter__(self)\n--\n\n")
      .def(
          "__exit__", [](PySubscriber& self, py::handle, py::handle, py::handle) { Stop(self); },
          py::arg("exc_type"), py::arg("exc_value"), py::arg("traceback"),
          "__exit__(self, exc_type, exc_value, traceback)\n--\n\n");
}

}  // namespace prefixrouter::python
