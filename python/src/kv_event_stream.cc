#include "kv_event_stream.h"

#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "arguments.h"
#include "errors.h"
#include "instance.h"
#include "kv_events.h"
#include "made_by_init.h"

namespace prefixrouter::python {
namespace {

constexpr const char* kActionNames[] = {"apply", "clear", "fetch"};

constexpr const char* kDoc =
    "The order of one publisher's event messages, without any I/O: for transports of your own.\n"
    "\n"
    "It is told what came, and answers with a list of KvStreamAction: what to do, in order. One\n"
    "stream for each publisher, which is each data-parallel rank. docs/python.md has an example;\n"
    "``KvEventSubscriber`` does all of this over ZeroMQ.\n"
    "\n"
    "``now_s`` is the time in seconds by any clock, the same one for all calls. None: the "
    "system's\n"
    "monotonic clock.\n";

constexpr const char* kInitDoc =
    "__init__(self, instance, *, has_replay=True, max_held_messages=10000, "
    "max_held_bytes=67108864, replay_attempts=3, retry_delay_s=0.1, clear_on_loss=True)\n--\n\n"
    "Args:\n"
    "    instance (Instance): Whose events they are.\n"
    "    has_replay (bool): Missing messages can be fetched.\n"
    "    max_held_messages (int): Most live messages that are held during a replay. At least 1.\n"
    "    max_held_bytes (int): The same in bytes. At least 1.\n"
    "    replay_attempts (int): How often a replay is tried before what it should bring is given\n"
    "        up. At least 1.\n"
    "    retry_delay_s (float): Delay before the second attempt, in seconds; it doubles with each\n"
    "        further one. 0 to 3600.\n"
    "    clear_on_loss (bool): Clear the instance when messages are lost for good. False: keep\n"
    "        blocks whose removal may have been missed.\n"
    "\n"
    "Raises:\n"
    "    TypeError, ValueError: A wrong argument.\n";

constexpr const char* kActionDoc = "One thing to do, from a KvEventStream. Read-only.\n";

constexpr const char* kStatsDoc = "Counters of a KvEventStream. Read-only.\n";

#define PREFIX_ROUTER_ACTIONS_DOC                     \
  "Returns:\n"                                        \
  "    list[KvStreamAction]: What to do, in order.\n" \
  "\n"                                                \
  "Raises:\n"                                         \
  "    TypeError, ValueError: A wrong argument.\n"

#define PREFIX_ROUTER_NOW_DOC "    now_s (float | None): The time; see KvEventStream.\n"

struct PyStreamAction {
  KvStreamAction action;  // without its payload
  py::object payload;     // bytes or None
};

class PyKvEventStream : public MadeByInit {
 public:
  PyKvEventStream(KvEventStream stream, py::object instance)
      : stream_(std::move(stream)), instance_(std::move(instance)) {}

  KvEventStream& stream() { return stream_; }
  const py::object& instance() const { return instance_; }
  void Bind(py::object instance) {
    stream_.Bind(instance.cast<const Instance&>().id);
    instance_ = std::move(instance);
  }

 private:
  KvEventStream stream_;
  py::object instance_;
};

py::object CheckedInstance(py::handle value) {
  if (!py::isinstance<Instance>(value)) {
    throw py::type_error("instance must be an Instance, got " + ShownWithType(value));
  }
  return py::reinterpret_borrow<py::object>(value);
}

std::unique_ptr<PyKvEventStream> MakeStream(py::handle instance, py::handle has_replay,
                                            py::object max_held_messages, py::object max_held_bytes,
                                            py::object replay_attempts, py::object retry_delay_s,
                                            py::object clear_on_loss) {
  py::object owner = CheckedInstance(instance);
  KvEventStreamOptions options = ToStreamOptions(
      {std::move(max_held_messages), std::move(max_held_bytes), std::move(replay_attempts),
       std::move(retry_delay_s), std::move(clear_on_loss)});
  options.has_replay = ToBool(has_replay, "has_replay");
  return MakeContent<PyKvEventStream>(
      Take(KvEventStream::Create(owner.cast<const Instance&>().id, options)), owner);
}

double ToNow(py::handle now_s) {
  if (!now_s.is_none()) return ToDouble(now_s, "now_s");
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

uint64_t ToSeq(py::handle value) {
  // The number that ends replays is refused by the stream itself, and counted.
  return ToUint64(value, "seq");
}

py::list ToActions(KvEventStream::Actions actions, py::handle message = {},
                   std::string_view message_bytes = {}) {
  py::list all;
  for (const KvStreamAction& action : actions) {
    PyStreamAction made{action, py::none()};
    if (action.kind == KvStreamActionKind::kApply) {
      // What came and is applied at once is not copied.
      const bool same = message && PyBytes_Check(message.ptr()) &&
                        action.payload.data() == message_bytes.data() &&
                        action.payload.size() == message_bytes.size();
      made.payload = same ? py::reinterpret_borrow<py::object>(message)
                          : py::object(py::bytes(action.payload.data(), action.payload.size()));
    }
    made.action.payload = {};
    all.append(py::cast(std::move(made)));
  }
  return all;
}

py::list PushLive(PyKvEventStream& self, py::handle seq, py::handle payload, py::handle now_s) {
  const Payload message(payload, "payload must be ", true);
  const double now = ToNow(now_s);
  if (seq.is_none()) {
    return ToActions(self.stream().LiveUnnumbered(message.bytes(), now), payload, message.bytes());
  }
  return ToActions(self.stream().Live(ToSeq(seq), message.bytes(), now), payload, message.bytes());
}

py::list PushReplayed(PyKvEventStream& self, py::handle fetch, py::handle seq, py::handle payload,
                      py::handle now_s) {
  const Payload message(payload, "payload must be ", true);
  const uint64_t number = ToUint64(fetch, "fetch");
  return ToActions(self.stream().Replayed(number, ToSeq(seq), message.bytes(), ToNow(now_s)),
                   payload, message.bytes());
}

void BindAction(py::module_& module) {
  py::class_<PyStreamAction> cls(module, "KvStreamAction", py::is_final(), kActionDoc);
  ForbidNew(cls);
  using Self = PyStreamAction;
  cls.def_property_readonly(
      "kind", [](const Self& self) { return kActionNames[static_cast<int>(self.action.kind)]; },
      "str: ``apply``: decode ``payload`` and apply it. ``clear``: the instance holds nothing "
      "that\n"
      "is known; apply ``KvEventBatch([KvEvent('cleared')])``. ``fetch``: after ``delay_s``, ask\n"
      "for everything from number ``seq`` on, and pass on what comes with ``fetch``; any earlier\n"
      "replay is of no use now.");
  cls.def_property_readonly(
      "seq",
      [](const Self& self) -> py::object {
        if (self.action.kind == KvStreamActionKind::kFetch || self.action.has_seq) {
          return py::int_(self.action.seq);
        }
        return py::none();
      },
      "int or None: of ``apply``, number of the message, if it has one; of ``fetch``, the first\n"
      "number to ask for.");
  cls.def_property_readonly(
      "payload", [](const Self& self) { return self.payload; }, "bytes or None: of ``apply``.");
  cls.def_property_readonly(
      "fetch",
      [](const Self& self) -> py::object {
        if (self.action.kind != KvStreamActionKind::kFetch) return py::none();
        return py::int_(self.action.fetch);
      },
      "int or None: of ``fetch``, its own number, from 1.");
  cls.def_property_readonly(
      "delay_s", [](const Self& self) { return self.action.delay_s; },
      "float: of ``fetch``, how long to wait before asking, in seconds.");
  cls.def("__repr__", [](const Self& self) {
    std::string text = kActionNames[static_cast<int>(self.action.kind)];
    if (self.action.kind == KvStreamActionKind::kFetch) {
      text += " " + std::to_string(self.action.fetch) + " from";
    }
    if (self.action.kind == KvStreamActionKind::kFetch || self.action.has_seq) {
      text += " " + std::to_string(self.action.seq);
    }
    return "<KvStreamAction " + text + ">";
  });
}

template <typename Field>
void BindField(py::class_<KvEventStreamStats>& cls, const char* name,
               Field KvEventStreamStats::*field, const char* doc) {
  cls.def_property_readonly(
      name, [field](const KvEventStreamStats& self) { return self.*field; }, doc);
}

void BindStatsClass(py::module_& module) {
  using Stats = KvEventStreamStats;
  py::class_<Stats> cls(module, "KvEventStreamStats", py::is_final(), kStatsDoc);
  ForbidNew(cls);
  cls.def_property_readonly(
      "state", [](const Stats& self) { return KvStreamStateName(self.state); },
      "str: ``waiting`` (nothing has come yet), ``live`` (in order), ``replaying`` (a replay is\n"
      "wanted; live messages are held) or ``retired`` (its instance was removed).");
  BindField(cls, "connected", &Stats::connected, "bool: the live connection is there.");
  BindField(cls, "complete", &Stats::complete,
            "bool: in order, and nothing is missing since the publisher's start.");
  cls.def_property_readonly(
      "last_applied",
      [](const Stats& self) -> py::object {
        if (!self.has_last) return py::none();
        return py::int_(self.last_applied);
      },
      "int or None: number of the last message that was applied.");
  BindField(cls, "behind", &Stats::behind, "int: numbers between that and the last live message.");
  BindField(cls, "held", &Stats::held, "int: messages that are held now.");
  BindField(cls, "held_bytes", &Stats::held_bytes, "int: their bytes.");
  cls.def_property_readonly(
      "last_live_s", [](const Stats& self) { return NoneIfNegative(self.last_live_s); },
      "float or None: when the last live message came.");
  cls.def_property_readonly(
      "last_applied_s", [](const Stats& self) { return NoneIfNegative(self.last_applied_s); },
      "float or None: when the last message was applied.");
  BindField(cls, "applied", &Stats::applied, "int: messages that were applied, of all kinds.");
  BindField(cls, "applied_replay", &Stats::applied_replay, "int: of them, from replays.");
  BindField(cls, "unnumbered", &Stats::unnumbered, "int: of them, without a number.");
  BindField(cls, "duplicates", &Stats::duplicates, "int: live messages that had been applied.");
  BindField(cls, "gaps", &Stats::gaps, "int: times that numbers were missing.");
  BindField(cls, "lost", &Stats::lost,
            "int: messages that will never come, after the first applied one.");
  BindField(cls, "restarts", &Stats::restarts, "int: of the publisher.");
  BindField(cls, "clears", &Stats::clears, "int: asked for.");
  BindField(cls, "replays", &Stats::replays, "int: asked for, with further attempts.");
  BindField(cls, "replays_ended", &Stats::replays_ended, "int: replays that came to their end.");
  BindField(cls, "replays_failed", &Stats::replays_failed, "int: replays that did not.");
  BindField(cls, "dropped", &Stats::dropped, "int: live messages beyond the bounds.");
  BindField(cls, "malformed", &Stats::malformed,
            "int: messages of a number that none has, or counted by ``count_malformed``.");
  BindField(cls, "ignored", &Stats::ignored,
            "int: messages that came after ``retire``, or from a replay that is not wanted any\n"
            "more.");
  cls.def("__repr__", [](const Stats& self) {
    return std::string("<KvEventStreamStats: ") + KvStreamStateName(self.state) + ", " +
           std::to_string(self.applied) + " applied, " + std::to_string(self.lost) + " lost, " +
           std::to_string(self.restarts) + " restarts>";
  });
}

void BindPushes(py::class_<PyKvEventStream>& cls) {
  cls.def("push_live", &PushLive, py::arg("seq"), py::arg("payload"), py::arg("now_s") = py::none(),
          "push_live(self, seq, payload, now_s=None)\n--\n\n"
          "A message came over the live connection.\n"
          "\n"
          "Args:\n"
          "    seq (int | None): Its number. None: it has none.\n"
          "    payload (bytes | bytearray | memoryview | str): What is to be "
          "applied.\n" PREFIX_ROUTER_NOW_DOC "\n" PREFIX_ROUTER_ACTIONS_DOC)
      .def("push_replayed", &PushReplayed, py::arg("fetch"), py::arg("seq"), py::arg("payload"),
           py::arg("now_s") = py::none(),
           "push_replayed(self, fetch, seq, payload, now_s=None)\n--\n\n"
           "A replay has brought a message.\n"
           "\n"
           "Args:\n"
           "    fetch (int): ``KvStreamAction.fetch`` of what asked for it. What has another "
           "number\n"
           "        than ``KvEventStream.fetch`` is ignored.\n"
           "    seq (int): Number of the message.\n"
           "    payload (bytes | bytearray | memoryview | str): What is to be "
           "applied.\n" PREFIX_ROUTER_NOW_DOC "\n" PREFIX_ROUTER_ACTIONS_DOC)
      .def(
          "replay_ended",
          [](PyKvEventStream& self, py::handle fetch, py::handle now_s) {
            return ToActions(self.stream().ReplayEnded(ToUint64(fetch, "fetch"), ToNow(now_s)));
          },
          py::arg("fetch"), py::arg("now_s") = py::none(),
          "replay_ended(self, fetch, now_s=None)\n--\n\n"
          "A replay's end mark came.\n"
          "\n"
          "Args:\n"
          "    fetch (int): As for ``push_replayed``.\n" PREFIX_ROUTER_NOW_DOC
          "\n" PREFIX_ROUTER_ACTIONS_DOC)
      .def(
          "replay_failed",
          [](PyKvEventStream& self, py::handle fetch, py::handle now_s) {
            return ToActions(self.stream().ReplayFailed(ToUint64(fetch, "fetch"), ToNow(now_s)));
          },
          py::arg("fetch"), py::arg("now_s") = py::none(),
          "replay_failed(self, fetch, now_s=None)\n--\n\n"
          "A replay's end mark did not come, in time.\n"
          "\n"
          "Args:\n"
          "    fetch (int): As for ``push_replayed``.\n" PREFIX_ROUTER_NOW_DOC
          "\n" PREFIX_ROUTER_ACTIONS_DOC);
}

}  // namespace

KvEventStreamOptions ToStreamOptions(const StreamArguments& arguments) {
  KvEventStreamOptions options;
  options.max_held_messages = ToInteger<uint32_t>(arguments.max_held_messages, "max_held_messages");
  options.max_held_bytes = ToUint64(arguments.max_held_bytes, "max_held_bytes");
  options.replay_attempts = ToInteger<uint32_t>(arguments.replay_attempts, "replay_attempts");
  options.retry_delay_s = ToDouble(arguments.retry_delay_s, "retry_delay_s");
  options.clear_on_loss = ToBool(arguments.clear_on_loss, "clear_on_loss");
  return options;
}

void BindKvEventStream(py::module_& module) {
  BindAction(module);
  BindStatsClass(module);
  py::class_<PyKvEventStream> cls(module, "KvEventStream", py::is_final(), kDoc);
  using Self = PyKvEventStream;
  const KvEventStreamOptions defaults;
  cls.def(py::init(&MakeStream), py::arg("instance"), py::kw_only(),
          py::arg("has_replay") = defaults.has_replay,
          py::arg("max_held_messages") = defaults.max_held_messages,
          py::arg("max_held_bytes") = defaults.max_held_bytes,
          py::arg("replay_attempts") = defaults.replay_attempts,
          py::arg("retry_delay_s") = defaults.retry_delay_s,
          py::arg("clear_on_loss") = defaults.clear_on_loss, kInitDoc);
  BindPushes(cls);
  cls.def(
         "connected",
         [](Self& self, py::handle now_s) {
           return ToActions(self.stream().Connected(ToNow(now_s)));
         },
         py::arg("now_s") = py::none(),
         "connected(self, now_s=None)\n--\n\n"
         "The live connection is there, for the first time or again. Transports that know no\n"
         "connections need not say so; gaps then show with the next message.\n"
         "\n"
         "Args:\n" PREFIX_ROUTER_NOW_DOC "\n" PREFIX_ROUTER_ACTIONS_DOC)
      .def(
          "disconnected", [](Self& self) { self.stream().Disconnected(); },
          "disconnected(self)\n--\n\n"
          "The live connection is gone. What comes until ``connected`` may be of another process:\n"
          "with a replay source it is held.\n")
      .def(
          "check",
          [](Self& self, py::handle now_s) { return ToActions(self.stream().Check(ToNow(now_s))); },
          py::arg("now_s") = py::none(),
          "check(self, now_s=None)\n--\n\n"
          "Asks for a replay, to see whether anything was missed that no later message has shown:\n"
          "some time after ``connected``, because publishers send nothing until they know of a\n"
          "subscription.\n"
          "\n"
          "Args:\n" PREFIX_ROUTER_NOW_DOC "\n" PREFIX_ROUTER_ACTIONS_DOC)
      .def(
          "retire", [](Self& self) { self.stream().Retire(); },
          "retire(self)\n--\n\nThe instance was removed: from now on nothing is applied.\n")
      .def(
          "bind", [](Self& self, py::handle instance) { self.Bind(CheckedInstance(instance)); },
          py::arg("instance"),
          "bind(self, instance)\n--\n\n"
          "Begins anew for an instance that was added again: as a new stream, with these\n"
          "statistics.\n"
          "\n"
          "Args:\n"
          "    instance (Instance): The instance.\n"
          "\n"
          "Raises:\n"
          "    TypeError: It is none.\n")
      .def(
          "count_malformed", [](Self& self) { self.stream().CountMalformed(); },
          "count_malformed(self)\n--\n\n"
          "Counts a message that could not be read and is not in any other figure.\n")
      .def(
          "stats", [](Self& self) { return self.stream().Stats(); },
          "stats(self)\n--\n\n"
          "Its counters.\n"
          "\n"
          "Returns:\n"
          "    KvEventStreamStats: A copy.\n")
      .def_property_readonly(
          "instance", [](const Self& self) { return self.instance(); },
          "Instance: whose events they are.")
      .def_property_readonly(
          "fetch",
          [](Self& self) -> py::object {
            if (self.stream().fetch() == 0) return py::none();
            return py::int_(self.stream().fetch());
          },
          "int or None: number of the replay that is wanted now.")
      .def("__repr__", [](Self& self) {
        return "<KvEventStream of " + Shown(self.instance()) + ": " +
               KvStreamStateName(self.stream().Stats().state) + ">";
      });
}

}  // namespace prefixrouter::python
