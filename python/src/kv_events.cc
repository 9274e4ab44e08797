#include "kv_events.h"

#include <optional>
#include <utility>

#include "arguments.h"
#include "errors.h"
#include "gil.h"
#include "instance.h"
#include "made_by_init.h"
#include "prompt.h"

namespace prefixrouter::python {
namespace {

constexpr const char* kKindNames[] = {"stored", "removed", "cleared"};
constexpr const char* kTierNames[] = {"gpu", "cpu", "disk", "external"};
static_assert(std::size(kTierNames) == kKvTierCount);
constexpr const char* kAttentionNames[] = {"full", "partial", "not_prefix"};
constexpr const char* kEncodingNames[] = {"arrays", "arrays_short", "maps", "sglang_arrays"};

constexpr const char* kEventDoc =
    "What an engine says about some of its KV blocks: they were stored, one copy of each was\n"
    "removed, or everything was cleared. Read-only.\n";

constexpr const char* kEventInitDoc =
    "__init__(self, kind, block_ids=(), *, parent_id=None, block_size=0, tokens=(), tier='gpu', "
    "group=0, attention='full', adapter='', salt='', multimodal=())\n--\n\n"
    "Makes an event, for tests and for relays. Engines' own come from ``KvEventDecoder``.\n"
    "\n"
    "Args:\n"
    "    kind (str): ``stored``, ``removed`` or ``cleared``.\n"
    "    block_ids (Iterable[int]): The engine's numbers of the blocks, of 64 bits.\n"
    "    parent_id (int | None): Stored: the block before the first one. None: that is the first\n"
    "        of a prompt.\n"
    "    block_size (int): Stored: tokens a block, in the engine.\n"
    "    tokens: Stored: those of all blocks, of shape ``(n,)``; arrays, lists and tuples as in\n"
    "        ``PrefixRouter.route``. Or none, for blocks that are held in another tier.\n"
    "    tier (str): ``gpu``, ``cpu``, ``disk`` or ``external``.\n"
    "    group (int): Group of layers, in hybrid models.\n"
    "    attention (str): Stored: ``full``, ``partial`` or ``not_prefix``.\n"
    "    adapter (str | bytes): Stored: name of the LoRA adapter.\n"
    "    salt (str | bytes): Stored: cache salt.\n"
    "    multimodal (Iterable[tuple[int, str | bytes, int | None]]): Stored: images and the like,\n"
    "        as in the attribute.\n"
    "\n"
    "Raises:\n"
    "    TypeError, ValueError: A wrong argument.\n";

constexpr const char* kBatchDoc =
    "The events of one message of an engine. Read-only.\n"
    "\n"
    "``len(batch)`` is the number of its events, and iterating gives them.\n";

constexpr const char* kBatchInitDoc =
    "__init__(self, events=(), *, timestamp_s=None, rank=None)\n--\n\n"
    "Makes a batch, for tests and for relays.\n"
    "\n"
    "Args:\n"
    "    events (Iterable[KvEvent]): Its events, in their order.\n"
    "    timestamp_s (float | None): When it was sent, in seconds since 1970.\n"
    "    rank (int | None): Data-parallel rank that it is of.\n"
    "\n"
    "Raises:\n"
    "    TypeError, ValueError: A wrong argument.\n";

constexpr const char* kEncodeDoc =
    "encode_kv_events(batch, encoding='maps', *, bytes_ids=False)\n--\n\n"
    "Writes a batch as msgpack that ``KvEventDecoder`` and the engines' own clients read.\n"
    "\n"
    "Args:\n"
    "    batch (KvEventBatch): The events.\n"
    "    encoding (str): ``maps`` as vLLM from 0.24 and SGLang, ``arrays`` as vLLM up to 0.23,\n"
    "        ``arrays_short`` as vLLM 0.8.5 to 0.10, ``sglang_arrays``.\n"
    "    bytes_ids (bool): Block numbers as 32 bytes, of which the last 8 count.\n"
    "\n"
    "Returns:\n"
    "    bytes: The payload of a message.\n"
    "\n"
    "Raises:\n"
    "    ValueError: The batch has something that the encoding cannot say; it is named.\n"
    "    TypeError: A wrong argument.\n";

struct PyKvEvent : MadeByInit {
  std::shared_ptr<const KvEventStore> store;
  size_t index;

  PyKvEvent(std::shared_ptr<const KvEventStore> all, size_t place)
      : store(std::move(all)), index(place) {}
  const KvEvent& event() const { return store->batch().events[index]; }
};

struct PyKvEventBatch : MadeByInit {
  std::shared_ptr<const KvEventStore> store;

  explicit PyKvEventBatch(std::shared_ptr<const KvEventStore> all) : store(std::move(all)) {}
  const KvEventBatch& batch() const { return store->batch(); }
};

std::vector<uint64_t> ToBlockIds(py::handle value) {
  std::vector<uint64_t> ids;
  ForEachItem(value, "block_ids", "a list of ints",
              [&](py::handle item, auto&& name) { ids.push_back(ToUint64(item, name())); });
  return ids;
}

struct Content {
  uint32_t block;
  std::string identifier;
  int64_t offset;
};

std::vector<Content> ToMultimodal(py::handle value) {
  std::vector<Content> all;
  ForEachItem(value, "multimodal", "a list of (block, identifier, offset)",
              [&](py::handle item, auto&& name) {
                if (!PyTuple_Check(item.ptr()) || PyTuple_GET_SIZE(item.ptr()) != 3) {
                  throw py::type_error(name() + " must be (block, identifier, offset), got " +
                                       ShownWithType(item));
                }
                const auto fields = py::reinterpret_borrow<py::tuple>(item);
                const py::object offset = fields[2];
                all.push_back({ToInteger<uint32_t>(fields[0], name() + " block"),
                               ToEngineText(fields[1], name() + " identifier"),
                               offset.is_none() ? KvMultimodal::kUnknownOffset
                                                : ToInt64(offset, name() + " offset",
                                                          std::numeric_limits<int64_t>::min() + 1,
                                                          std::numeric_limits<int64_t>::max())});
              });
  return all;
}

std::unique_ptr<PyKvEvent> MakeEvent(py::handle kind, py::handle block_ids, py::handle parent_id,
                                     py::handle block_size, py::handle tokens, py::handle tier,
                                     py::handle group, py::handle attention, py::handle adapter,
                                     py::handle salt, py::handle multimodal) {
  KvEvent event;
  event.kind = static_cast<KvEventKind>(ToChoice(kind, "kind", kKindNames));
  const std::vector<uint64_t> ids = ToBlockIds(block_ids);
  event.block_ids = ids;
  event.has_parent = !parent_id.is_none();
  if (event.has_parent) event.parent_id = ToUint64(parent_id, "parent_id");
  event.block_size = ToInteger<uint32_t>(block_size, "block_size");
  Prompt prompt(tokens);
  Request request;
  RaiseUnlessOk(prompt.Put(&request));
  if (request.form != PromptForm::kTokens) {
    throw py::type_error("tokens must be token ids, got " + ShownWithType(tokens));
  }
  event.tokens = request.tokens;
  event.tier = static_cast<KvTier>(ToChoice(tier, "tier", kTierNames));
  event.group = ToInteger<uint32_t>(group, "group");
  event.attention = static_cast<KvAttention>(ToChoice(attention, "attention", kAttentionNames));
  const std::string adapter_text = ToEngineText(adapter, "adapter");
  const std::string salt_text = ToEngineText(salt, "salt");
  event.adapter = adapter_text;
  event.salt = salt_text;
  const std::vector<Content> contents = ToMultimodal(multimodal);
  std::vector<KvMultimodal> items;
  for (const Content& content : contents) {
    items.push_back({content.block, content.identifier, content.offset});
  }
  event.multimodal = items;

  KvEventBatch batch;
  batch.events = {&event, 1};
  return MakeContent<PyKvEvent>(std::make_shared<const KvEventStore>(batch), 0);
}

std::unique_ptr<PyKvEventBatch> MakeBatch(py::handle events, py::handle timestamp_s,
                                          py::handle rank) {
  std::vector<std::shared_ptr<const KvEventStore>> held;  // the iterable may make them one by one
  std::vector<KvEvent> all;
  ForEachItem(events, "events", "a list of KvEvent", [&](py::handle item, auto&& name) {
    if (!py::isinstance<PyKvEvent>(item)) {
      throw py::type_error(name() + " must be a KvEvent, got " + ShownWithType(item));
    }
    const auto& event = item.cast<const PyKvEvent&>();
    held.push_back(event.store);
    all.push_back(event.event());
  });
  KvEventBatch batch;
  batch.events = all;
  if (!timestamp_s.is_none()) batch.timestamp_s = ToDouble(timestamp_s, "timestamp_s");
  batch.has_rank = !rank.is_none();
  if (batch.has_rank) batch.rank = ToInteger<uint32_t>(rank, "rank");
  return MakeContent<PyKvEventBatch>(std::make_shared<const KvEventStore>(batch));
}

template <typename T>
py::tuple ToTuple(Span<const T> items) {
  py::tuple all(items.size());
  for (size_t i = 0; i < items.size(); ++i) all[i] = items[i];
  return all;
}

py::tuple ShowMultimodal(const KvEvent& event) {
  py::tuple all(event.multimodal.size());
  for (size_t i = 0; i < all.size(); ++i) {
    const KvMultimodal& item = event.multimodal[i];
    py::object offset = py::none();
    if (item.offset != KvMultimodal::kUnknownOffset) offset = py::int_(item.offset);
    all[i] = py::make_tuple(item.block, FromEngineText(item.identifier), offset);
  }
  return all;
}

std::string Describe(const KvEvent& event) {
  std::string text = kKindNames[static_cast<int>(event.kind)];
  if (event.kind == KvEventKind::kCleared) return text;
  text += ": " + std::to_string(event.block_ids.size()) + " blocks";
  if (event.kind == KvEventKind::kStored) {
    text += " of " + std::to_string(event.block_size) + " tokens";
  }
  return text + ", " + KvTierName(event.tier);
}

void BindEvent(py::module_& module) {
  py::class_<PyKvEvent> cls(module, "KvEvent", py::is_final(), kEventDoc);
  using Self = PyKvEvent;
  cls.def(py::init(&MakeEvent), py::arg("kind"), py::arg("block_ids") = py::tuple(), py::kw_only(),
          py::arg("parent_id") = py::none(), py::arg("block_size") = 0,
          py::arg("tokens") = py::tuple(), py::arg("tier") = "gpu", py::arg("group") = 0,
          py::arg("attention") = "full", py::arg("adapter") = "", py::arg("salt") = "",
          py::arg("multimodal") = py::tuple(), kEventInitDoc);
  cls.def_property_readonly(
      "kind", [](const Self& self) { return kKindNames[static_cast<int>(self.event().kind)]; },
      "str: ``stored``, ``removed`` (one copy of each block is gone) or ``cleared`` (everything\n"
      "is gone, in all tiers and groups).");
  cls.def_property_readonly(
      "block_ids", [](const Self& self) { return ToTuple(self.event().block_ids); },
      "tuple[int, ...]: the engine's numbers of the blocks, as 64 bits without a sign.");
  cls.def_property_readonly(
      "parent_id",
      [](const Self& self) -> py::object {
        if (!self.event().has_parent) return py::none();
        return py::int_(self.event().parent_id);
      },
      "int or None: the block before the first one; None or 0: that is the first of a prompt.");
  cls.def_property_readonly(
      "block_size", [](const Self& self) { return self.event().block_size; },
      "int: tokens a block, in the engine.");
  cls.def_property_readonly(
      "tokens", [](const Self& self) { return ToTuple(self.event().tokens); },
      "tuple[int, ...]: those of all blocks, or none.");
  cls.def_property_readonly(
      "tier", [](const Self& self) { return KvTierName(self.event().tier); },
      "str: where the blocks lie: ``gpu``, ``cpu``, ``disk`` or ``external``.");
  cls.def_property_readonly(
      "group", [](const Self& self) { return self.event().group; },
      "int: group of layers, in hybrid models.");
  cls.def_property_readonly(
      "attention",
      [](const Self& self) { return kAttentionNames[static_cast<int>(self.event().attention)]; },
      "str: of that group: ``full``, ``partial`` (sliding windows, states) or ``not_prefix``.\n"
      "Only ``full`` counts as held.");
  cls.def_property_readonly(
      "adapter", [](const Self& self) { return FromEngineText(self.event().adapter); },
      "str: LoRA adapter; empty: none.");
  cls.def_property_readonly(
      "salt", [](const Self& self) { return FromEngineText(self.event().salt); },
      "str: cache salt; empty: none, or that of the parent.");
  cls.def_property_readonly(
      "multimodal", [](const Self& self) { return ShowMultimodal(self.event()); },
      "tuple[tuple[int, str, int | None], ...]: images and the like, as the block that they are\n"
      "in, counted from 0, the engine's name for the content, and the offset of its first\n"
      "placeholder from the block's beginning: negative where it began in an earlier block, None\n"
      "where an older engine does not say.");
  cls.def("__repr__", [](const Self& self) { return "<KvEvent " + Describe(self.event()) + ">"; });
}

py::tuple EventsOf(const PyKvEventBatch& self) {
  py::tuple all(self.batch().events.size());
  for (size_t i = 0; i < all.size(); ++i) all[i] = MakeObject<PyKvEvent>(self.store, i);
  return all;
}

void BindBatch(py::module_& module) {
  py::class_<PyKvEventBatch> cls(module, "KvEventBatch", py::is_final(), kBatchDoc);
  using Self = PyKvEventBatch;
  cls.def(py::init(&MakeBatch), py::arg("events") = py::tuple(), py::kw_only(),
          py::arg("timestamp_s") = py::none(), py::arg("rank") = py::none(), kBatchInitDoc);
  cls.def_property_readonly("events", &EventsOf, "tuple[KvEvent, ...]: in their order.");
  cls.def_property_readonly(
      "timestamp_s",
      [](const Self& self) -> py::object {
        const double time_s = self.batch().timestamp_s;
        if (time_s != time_s) return py::none();
        return py::float_(time_s);
      },
      "float or None: when the engine sent it, in seconds since 1970 by its clock.");
  cls.def_property_readonly(
      "rank",
      [](const Self& self) -> py::object {
        if (!self.batch().has_rank) return py::none();
        return py::int_(self.batch().rank);
      },
      "int or None: data-parallel rank that it is of.");
  cls.def_property_readonly(
      "skipped", [](const Self& self) { return ByOutcome(self.batch().skipped); },
      "dict[str, int]: what the decoder left out, by the reason, as in\n"
      "``KvApplyResult.counts``.");
  cls.def(
      "__len__", [](const Self& self) { return self.batch().events.size(); },
      "__len__(self)\n--\n\nEvents.");
  cls.def(
      "__iter__", [](const Self& self) { return py::iter(EventsOf(self)); },
      "__iter__(self)\n--\n\nThe events.");
  cls.def("__repr__", [](const Self& self) {
    return "<KvEventBatch of " + std::to_string(self.batch().events.size()) + " events>";
  });
}

py::bytes Encode(py::handle batch, py::handle encoding, py::handle bytes_ids) {
  const auto store = ToKvEventStore(batch);
  if (store == nullptr) {
    throw py::type_error("batch must be a KvEventBatch, got " + ShownWithType(batch));
  }
  const auto form = static_cast<KvEventEncoding>(ToChoice(encoding, "encoding", kEncodingNames));
  const bool as_bytes = ToBool(bytes_ids, "bytes_ids");
  return Take(WithoutGil(true, [&] { return EncodeKvEvents(store->batch(), form, as_bytes); }));
}

}  // namespace

const char* KvTierName(KvTier tier) { return kTierNames[static_cast<int>(tier)]; }

py::dict ByOutcome(const KvEventCounts& counts) {
  py::dict by_outcome;
  for (int i = 0; i < kKvEventOutcomeCount; ++i) {
    by_outcome[KvEventOutcomeName(static_cast<KvEventOutcome>(i))] = counts.counts[i];
  }
  return by_outcome;
}

KvEventStore::KvEventStore(const KvEventBatch& batch) : batch_(batch) {
  size_t block_ids = 0, tokens = 0, multimodal = 0, text = 0;
  for (const KvEvent& event : batch.events) {
    block_ids += event.block_ids.size();
    tokens += event.tokens.size();
    multimodal += event.multimodal.size();
    text += event.adapter.size() + event.salt.size();
    for (const KvMultimodal& item : event.multimodal) text += item.identifier.size();
  }
  // Nothing moves from here on.
  block_ids_.reserve(block_ids);
  tokens_.reserve(tokens);
  multimodal_.reserve(multimodal);
  text_.reserve(text);
  const auto keep = [](auto* all, auto items) {
    const size_t begin = all->size();
    all->insert(all->end(), items.begin(), items.end());
    return decltype(items)(all->data() + begin, items.size());
  };
  events_.assign(batch.events.begin(), batch.events.end());
  for (KvEvent& event : events_) {
    event.block_ids = keep(&block_ids_, event.block_ids);
    event.tokens = keep(&tokens_, event.tokens);
    event.adapter = keep(&text_, event.adapter);
    event.salt = keep(&text_, event.salt);
    const size_t first = multimodal_.size();
    event.multimodal = keep(&multimodal_, event.multimodal);
    for (size_t i = first; i < multimodal_.size(); ++i) {
      multimodal_[i].identifier = keep(&text_, multimodal_[i].identifier);
    }
  }
  batch_.events = events_;
}

py::object MakeKvEventBatch(std::shared_ptr<const KvEventStore> store) {
  return MakeObject<PyKvEventBatch>(std::move(store));
}

std::shared_ptr<const KvEventStore> ToKvEventStore(py::handle value) {
  if (!py::isinstance<PyKvEventBatch>(value)) return nullptr;
  return value.cast<const PyKvEventBatch&>().store;
}

py::str FromEngineText(std::string_view text) {
  PyObject* const decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

std::string ToEngineText(py::handle value, const std::string& name) {
  if (PyBytes_Check(value.ptr())) {
    return {PyBytes_AS_STRING(value.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(value.ptr()))};
  }
  if (!PyUnicode_Check(value.ptr())) {
    throw py::type_error(name + " must be a str or bytes, got " + ShownWithType(value));
  }
  const py::object bytes = py::reinterpret_steal<py::object>(
      PyUnicode_AsEncodedString(value.ptr(), "utf-8", "surrogateescape"));
  if (!bytes) throw py::error_already_set();
  return {PyBytes_AS_STRING(bytes.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(bytes.ptr()))};
}

void BindKvEvents(py::module_& module) {
  BindEvent(module);
  BindBatch(module);
  module.def("encode_kv_events", &Encode, py::arg("batch"), py::arg("encoding") = "maps",
             py::kw_only(), py::arg("bytes_ids") = false, kEncodeDoc);
  module.def(
      "multimodal_hash",
      [](py::handle identifier) { return MultimodalHash(ToEngineText(identifier, "identifier")); },
      py::arg("identifier"),
      "multimodal_hash(identifier)\n--\n\n"
      "The hash, in the argument ``multimodal`` of ``PrefixRouter.route``, of content that the\n"
      "engine's KV events know by this identifier.\n"
      "\n"
      "Args:\n"
      "    identifier (str | bytes): As in ``KvEvent.multimodal``.\n"
      "\n"
      "Returns:\n"
      "    int: The hash, of 64 bits.\n");
}

}  // namespace prefixrouter::python
