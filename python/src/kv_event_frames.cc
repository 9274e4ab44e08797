#include "kv_event_frames.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.h"
#include "errors.h"
#include "instance.h"
#include "kv_events.h"
#include "prefixrouter/kv_event_frames.h"

namespace prefixrouter::python {
namespace {

constexpr const char* kFramesDoc =
    "What a message of KV events on a ZeroMQ socket holds, from ``parse_kv_live_frames`` or\n"
    "``parse_kv_replay_frames``. Read-only.\n";

constexpr const char* kTopicDoc =
    "What a topic says of its sender, from ``parse_kv_topic``. Read-only.\n";

constexpr const char* kLiveDoc =
    "parse_kv_live_frames(frames)\n--\n\n"
    "Reads the frames of a live message: topic, number and payload, or topic and payload of\n"
    "senders without numbers.\n"
    "\n"
    "Args:\n"
    "    frames (Iterable[bytes | bytearray | memoryview]): As a SUB socket has received them, "
    "for\n"
    "        example by ``recv_multipart`` of pyzmq.\n"
    "\n"
    "Returns:\n"
    "    KvFrames: For ``KvEventStream.push_live``.\n"
    "\n"
    "Raises:\n"
    "    ValueError: Not 2 or 3 frames, a number that is not 8 bytes long, or the number that "
    "ends\n"
    "        replays.\n"
    "    TypeError: A wrong argument.\n";

constexpr const char* kReplayDoc =
    "parse_kv_replay_frames(frames)\n--\n\n"
    "Reads the frames of one message of a reply to a request for a replay: an empty frame, a "
    "topic\n"
    "in newer engines, number and payload. The empty frame may be missing, because a REQ socket\n"
    "takes it off.\n"
    "\n"
    "Args:\n"
    "    frames (Iterable[bytes | bytearray | memoryview]): As they were received.\n"
    "\n"
    "Returns:\n"
    "    KvFrames: For ``KvEventStream.push_replayed``. Its ``seq`` is ``KV_END_OF_REPLAY`` at "
    "the\n"
    "    end, which is for ``KvEventStream.replay_ended``.\n"
    "\n"
    "Raises:\n"
    "    ValueError: Not 2 to 4 frames, a number that is not 8 bytes long, or another first frame\n"
    "        than an empty one where there are 3 or 4.\n"
    "    TypeError: A wrong argument.\n";

constexpr const char* kSeqDoc =
    "kv_seq_frame(seq)\n--\n\n"
    "A number's frame. A request for a replay is an empty frame and that of the first number.\n"
    "\n"
    "Args:\n"
    "    seq (int): The number, 0 to 2**64 - 1.\n"
    "\n"
    "Returns:\n"
    "    bytes: 8 bytes, the highest first.\n"
    "\n"
    "Raises:\n"
    "    TypeError, ValueError: A wrong argument.\n";

constexpr const char* kParseTopicDoc =
    "parse_kv_topic(topic)\n--\n\n"
    "Reads a topic: ``kv@10.0.0.7:8000@org/model`` or ``kv@10.0.0.7@org/model``. An empty one "
    "says\n"
    "nothing.\n"
    "\n"
    "Args:\n"
    "    topic (str | bytes): As in ``KvFrames.topic``.\n"
    "\n"
    "Returns:\n"
    "    KvTopic: Who sent it.\n"
    "\n"
    "Raises:\n"
    "    ValueError: It is neither empty nor of one of these forms.\n"
    "    TypeError: A wrong argument.\n";

struct PyKvFrames {
  py::str topic;
  py::object seq;  // int or None
  py::bytes payload;
};

struct PyKvTopic {
  py::str address, host;
  py::object port;  // int or None
  py::str model;
};

template <typename Parse>
PyKvFrames ParseFrames(py::handle frames, Parse&& parse) {
  std::vector<py::bytes> held;
  ForEachItem(frames, "frames", "a list of bytes", [&](py::handle item, auto&& name) {
    held.push_back(ToBytes(item, name() + " must be "));
  });
  const std::vector<std::string_view> views(held.begin(), held.end());
  const KvFrames parsed = Take(parse(Span<const std::string_view>(views)));
  PyKvFrames made{FromEngineText(parsed.topic), py::none(), held.back()};  // the payload is last
  if (parsed.has_seq) made.seq = py::int_(parsed.seq);
  return made;
}

PyKvTopic ParseTopic(py::handle topic) {
  const std::string text = ToEngineText(topic, "topic");
  const KvTopic parsed = Take(ParseKvTopic(text));
  PyKvTopic made{FromEngineText(parsed.address), FromEngineText(parsed.host), py::none(),
                 FromEngineText(parsed.model)};
  if (parsed.port != 0) made.port = py::int_(parsed.port);
  return made;
}

void BindFrames(py::module_& module) {
  py::class_<PyKvFrames> cls(module, "KvFrames", py::is_final(), kFramesDoc);
  ForbidNew(cls);
  using Self = PyKvFrames;
  cls.def_property_readonly(
      "topic", [](const Self& self) { return self.topic; },
      "str: what ``parse_kv_topic`` reads; empty: none.");
  cls.def_property_readonly(
      "seq", [](const Self& self) { return self.seq; },
      "int or None: the message's number; ``KV_END_OF_REPLAY`` ends a replay. None: it has none.");
  cls.def_property_readonly(
      "payload", [](const Self& self) { return self.payload; },
      "bytes: the events, for ``KvEventDecoder``.");
  cls.def("__repr__", [](const Self& self) {
    return "<KvFrames: seq " + py::str(self.seq).cast<std::string>() + ", " +
           std::to_string(py::len(self.payload)) + " bytes>";
  });
}

void BindTopic(py::module_& module) {
  py::class_<PyKvTopic> cls(module, "KvTopic", py::is_final(), kTopicDoc);
  ForbidNew(cls);
  using Self = PyKvTopic;
  cls.def_property_readonly(
      "address", [](const Self& self) { return self.address; },
      "str: what names an instance: ``10.0.0.7:8000``.");
  cls.def_property_readonly(
      "host", [](const Self& self) { return self.host; },
      "str: of the address, without the brackets of IPv6: ``10.0.0.7``.");
  cls.def_property_readonly(
      "port", [](const Self& self) { return self.port; },
      "int or None: of the address; None: not given.");
  cls.def_property_readonly(
      "model", [](const Self& self) { return self.model; },
      "str: name of the model; may hold ``/`` and ``@``.");
  cls.def("__repr__", [](const Self& self) {
    return "<KvTopic of " + Shown(self.address) + ", model " + Shown(self.model) + ">";
  });
}

}  // namespace

void BindKvEventFrames(py::module_& module) {
  module.attr("KV_END_OF_REPLAY") = kKvEndOfReplay;
  BindFrames(module);
  BindTopic(module);
  module.def(
      "parse_kv_live_frames",
      [](py::handle frames) { return ParseFrames(frames, ParseKvLiveFrames); }, py::arg("frames"),
      kLiveDoc);
  module.def(
      "parse_kv_replay_frames",
      [](py::handle frames) { return ParseFrames(frames, ParseKvReplayFrames); }, py::arg("frames"),
      kReplayDoc);
  module.def(
      "kv_seq_frame", [](py::handle seq) { return py::bytes(KvSeqFrame(ToUint64(seq, "seq"))); },
      py::arg("seq"), kSeqDoc);
  module.def("parse_kv_topic", &ParseTopic, py::arg("topic"), kParseTopicDoc);
}

}  // namespace prefixrouter::python
