#include <mutex>
#include <utility>

#include "arguments.h"
#include "errors.h"
#include "gil.h"
#include "instance.h"
#include "kv_events.h"
#include "made_by_init.h"

namespace prefixrouter::python {
namespace {

constexpr const char* kFormatNames[] = {"msgpack", "trtllm_json"};

constexpr const char* kDecoderDoc =
    "Reads messages of KV events. It keeps its memory from one message to the next, so use one\n"
    "again and again; of TensorRT-LLM, one for each server and rank.\n"
    "\n"
    "May be used by several threads, which then wait for each other.\n";

constexpr const char* kDecoderInitDoc =
    "__init__(self, format='msgpack', *, tokens_per_block=0, rank=None)\n--\n\n"
    "Args:\n"
    "    format (str): ``msgpack``: vLLM (0.8.5 on), SGLang, and Mooncake's envelope.\n"
    "        ``trtllm_json``: TensorRT-LLM, one event object or an array of them.\n"
    "    tokens_per_block (int): TensorRT-LLM: tokens in a full block; others are left out. 0 to\n"
    "        2**20. 0: the largest power of 2 that a block has had so far.\n"
    "    rank (int | None): TensorRT-LLM: only events of this ``attention_dp_rank``, and those\n"
    "        without one, are read. None: all, and a message with events of several ranks is\n"
    "        refused.\n"
    "\n"
    "Raises:\n"
    "    TypeError, ValueError: A wrong argument.\n";

constexpr const char* kDecodeDoc =
    "decode(self, payload)\n--\n\n"
    "The events of one message.\n"
    "\n"
    "A bad item costs itself alone: it is left out and counted in ``KvEventBatch.skipped``.\n"
    "\n"
    "Args:\n"
    "    payload (bytes | bytearray | memoryview | str): The message; a str only as JSON.\n"
    "\n"
    "Returns:\n"
    "    KvEventBatch: Its events.\n"
    "\n"
    "Raises:\n"
    "    ValueError: It is not a message of this format; the text says at which byte.\n"
    "    TypeError: A wrong argument.\n";

constexpr const char* kResultDoc = "What ``PrefixRouter.apply_kv_events`` has done. Read-only.\n";

class PyKvEventDecoder : public MadeByInit {
 public:
  PyKvEventDecoder(KvEventFormat format, const TrtLlmOptions& options)
      : format_(format), decoder_(format, options) {}

  bool reads_text() const { return format_ == KvEventFormat::kTrtLlmJson; }
  const char* format_name() const { return kFormatNames[static_cast<int>(format_)]; }

  // use(batch), which needs no GIL, or the error of the message. Whoever has the mutex gives it
  // back before waiting for the GIL, so it may be waited for with the GIL.
  template <typename Use>
  Status Decode(std::string_view payload, bool release_gil, Use&& use) {
    return WithoutGil(release_gil, [&]() -> Status {
      const std::lock_guard<std::mutex> lock(mutex_);
      const Result<const KvEventBatch*> batch = decoder_.Decode(payload);
      if (!batch.ok()) return batch.status();
      return use(**batch);
    });
  }

  int64_t last_event_id() {
    return WithoutGil(true, [this] {
      const std::lock_guard<std::mutex> lock(mutex_);
      return decoder_.last_event_id();
    });
  }
  uint64_t lost_events() {
    return WithoutGil(true, [this] {
      const std::lock_guard<std::mutex> lock(mutex_);
      return decoder_.lost_events();
    });
  }

 private:
  const KvEventFormat format_;
  std::mutex mutex_;
  KvEventDecoder decoder_;
};

std::unique_ptr<PyKvEventDecoder> MakeDecoder(py::handle format, py::handle tokens_per_block,
                                              py::handle rank) {
  constexpr int64_t kMostTokens = int64_t{1} << 20;
  TrtLlmOptions options;
  const auto chosen = static_cast<KvEventFormat>(ToChoice(format, "format", kFormatNames));
  options.tokens_per_block =
      static_cast<uint32_t>(ToInt64(tokens_per_block, "tokens_per_block", 0, kMostTokens));
  if (!rank.is_none()) options.rank = ToInteger<uint32_t>(rank, "rank");
  return MakeContent<PyKvEventDecoder>(chosen, options);
}

py::object Decode(PyKvEventDecoder& self, py::handle payload) {
  // Below that it takes less time than leaving the GIL may.
  constexpr size_t kLongEnough = 4096;
  const Payload message(payload, "payload must be ", self.reads_text());
  std::shared_ptr<const KvEventStore> store;
  RaiseUnlessOk(self.Decode(message.bytes(), message.bytes().size() >= kLongEnough,
                            [&](const KvEventBatch& batch) {
                              store = std::make_shared<const KvEventStore>(batch);
                              return Status();
                            }));
  return MakeKvEventBatch(std::move(store));
}

// The decoder to be used by a call that names none.
PyKvEventDecoder& ToDecoder(py::handle decoder, std::unique_ptr<PyKvEventDecoder>* own) {
  if (decoder.is_none()) {
    *own = MakeContent<PyKvEventDecoder>(KvEventFormat::kMsgpack, TrtLlmOptions());
    return **own;
  }
  if (!py::isinstance<PyKvEventDecoder>(decoder)) {
    throw py::type_error("decoder must be a KvEventDecoder or None, got " + ShownWithType(decoder));
  }
  return decoder.cast<PyKvEventDecoder&>();
}

}  // namespace

py::bytes ToBytes(py::handle value, const std::string& wanted) {
  if (PyByteArray_Check(value.ptr()) || PyMemoryView_Check(value.ptr())) {
    const py::object copy = py::reinterpret_steal<py::object>(PyBytes_FromObject(value.ptr()));
    if (!copy) throw py::error_already_set();
    return copy;
  }
  if (!PyBytes_Check(value.ptr())) {
    throw py::type_error(wanted + "bytes, a bytearray or a memoryview, got " +
                         ShownWithType(value));
  }
  return py::reinterpret_borrow<py::bytes>(value);
}

Payload::Payload(py::handle value, const char* wanted, bool text_too) {
  if (text_too && PyUnicode_Check(value.ptr())) {
    bytes_ = ToText(value, "payload");
    return;
  }
  const py::bytes bytes = ToBytes(value, wanted);
  held_ = bytes;
  bytes_ = bytes;
}

// Always without the GIL: batches of one router are applied one after the other.
py::object ApplyKvEvents(PrefixRouter& router, InstanceId instance, py::handle events,
                         py::handle decoder) {
  Result<KvEventResult> result = KvEventResult();
  const auto apply = [&](const KvEventBatch& batch) {
    result = router.ApplyKvEvents(instance, batch);
    return result.status();
  };
  std::unique_ptr<PyKvEventDecoder> own;
  if (const auto store = ToKvEventStore(events)) {
    RaiseUnlessOk(WithoutGil(true, [&] { return apply(store->batch()); }));
  } else {
    PyKvEventDecoder& reader = ToDecoder(decoder, &own);
    const Payload message(events, "events must be a KvEventBatch, ", reader.reads_text());
    RaiseUnlessOk(reader.Decode(message.bytes(), true, apply));
  }
  return py::cast(*result);
}

void BindKvEventDecoder(py::module_& module) {
  py::class_<PyKvEventDecoder> cls(module, "KvEventDecoder", py::is_final(), kDecoderDoc);
  cls.def(py::init(&MakeDecoder), py::arg("format") = "msgpack", py::kw_only(),
          py::arg("tokens_per_block") = 0, py::arg("rank") = py::none(), kDecoderInitDoc);
  cls.def("decode", &Decode, py::arg("payload"), kDecodeDoc);
  cls.def_property_readonly("format", &PyKvEventDecoder::format_name,
                            "str: ``msgpack`` or ``trtllm_json``.");
  cls.def_property_readonly(
      "last_event_id", [](PyKvEventDecoder& self) { return NoneIfNegative(self.last_event_id()); },
      "int or None: TensorRT-LLM: number of the last event. When numbers begin again, the engine\n"
      "has restarted, and a ``cleared`` stands before its events.");
  cls.def_property_readonly(
      "lost_events", &PyKvEventDecoder::lost_events,
      "int: TensorRT-LLM: numbers that were left out between events. More than before: events\n"
      "were lost, so that blocks may count as held which are not.");
  cls.def("__repr__", [](const PyKvEventDecoder& self) {
    return std::string("<KvEventDecoder of ") + self.format_name() + ">";
  });

  py::class_<KvEventResult> result(module, "KvApplyResult", py::is_final(), kResultDoc);
  ForbidNew(result);
  result.def_property_readonly(
      "counts", [](const KvEventResult& self) { return ByOutcome(self.counts); },
      "dict[str, int]: what became of the blocks, events and messages, with what the decoder left\n"
      "out.");
  result.def_readonly("needs_replay", &KvEventResult::needs_replay,
                      "bool: blocks could not be placed because an event before them is missing:\n"
                      "replay the engine's events, or clear the instance.");
  result.def("__repr__", [](const KvEventResult& self) {
    std::string text;
    for (int i = 0; i < kKvEventOutcomeCount; ++i) {
      if (self.counts.counts[i] == 0) continue;
      text += (text.empty() ? "" : ", ") +
              std::string(KvEventOutcomeName(static_cast<KvEventOutcome>(i))) + " " +
              std::to_string(self.counts.counts[i]);
    }
    return "<KvApplyResult: " + (text.empty() ? "nothing" : text) +
           (self.needs_replay ? "; needs a replay>" : ">");
  });
}

}  // namespace prefixrouter::python
