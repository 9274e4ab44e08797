// The Python objects of KV events: KvEvent and KvEventBatch, KvApplyResult, KvEventDecoder.
#ifndef PREFIXROUTER_PYTHON_SRC_KV_EVENTS_H_
#define PREFIXROUTER_PYTHON_SRC_KV_EVENTS_H_

#include <pybind11/pybind11.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "prefixrouter/kv_events.h"
#include "prefixrouter/prefix_router.h"

namespace prefixrouter::python {

namespace py = pybind11;

// KvEvent, KvEventBatch, encode_kv_events, multimodal_hash.
void BindKvEvents(py::module_& module);
// KvEventDecoder, KvApplyResult.
void BindKvEventDecoder(py::module_& module);

const char* KvTierName(KvTier tier);  // "gpu" and so on

// All outcomes by name.
py::dict ByOutcome(const KvEventCounts& counts);

// A batch that owns what its events point at, and never changes.
class KvEventStore {
 public:
  explicit KvEventStore(const KvEventBatch& batch);
  KvEventStore(const KvEventStore&) = delete;
  KvEventStore& operator=(const KvEventStore&) = delete;

  const KvEventBatch& batch() const { return batch_; }

 private:
  KvEventBatch batch_;
  std::vector<KvEvent> events_;
  std::vector<uint64_t> block_ids_;
  std::vector<uint32_t> tokens_;
  std::vector<KvMultimodal> multimodal_;
  std::string text_;
};

py::object MakeKvEventBatch(std::shared_ptr<const KvEventStore> store);
// Null: `value` is no KvEventBatch.
std::shared_ptr<const KvEventStore> ToKvEventStore(py::handle value);

// A bytes as it is, the bytes of a bytearray or memoryview copied. TypeError: it is something else;
// `wanted` begins the message: "payload must be ".
py::bytes ToBytes(py::handle value, const std::string& wanted);

// The bytes of a message while it is read. Those of a bytes or str are borrowed from it, others are
// copied: what Python code may change meanwhile is not read without the GIL.
class Payload {
 public:
  // TypeError: it is neither bytes, bytearray nor memoryview, nor a str where `text_too`.
  Payload(py::handle value, const char* wanted, bool text_too);

  std::string_view bytes() const { return bytes_; }

 private:
  py::object held_;
  std::string_view bytes_;
};

// Text that engines have sent, which need not be UTF-8: what is not stands in a str as by Python's
// "surrogateescape".
py::str FromEngineText(std::string_view text);
// The other way round, and bytes as they are.
std::string ToEngineText(py::handle value, const std::string& name);

// PrefixRouter.apply_kv_events. The instance's router must outlive the call.
py::object ApplyKvEvents(PrefixRouter& router, InstanceId instance, py::handle events,
                         py::handle decoder);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_KV_EVENTS_H_
