// KvEventDecoder: the memory that messages are decoded into, and the choice of the format.
#include <new>

#include "lib/base/guard.h"
#include "lib/events/event_buffer.h"
#include "lib/events/msgpack_decoder.h"
#include "lib/events/trt_llm_decoder.h"
#include "prefixrouter/kv_events.h"

namespace prefixrouter {

class KvEventDecoder::Impl {
 public:
  Impl(KvEventFormat format, const TrtLlmOptions& trt_llm) : format_(format), trt_llm_(trt_llm) {}

  Status Decode(std::string_view payload) {
    return Guard([&] {
      // An adapter's number can have twice as many digits as it has bytes.
      buffer_.Clear(2 * payload.size());
      if (format_ == KvEventFormat::kTrtLlmJson) {
        trt_llm_.Decode(payload, &buffer_);
      } else {
        DecodeMsgpack(payload, &buffer_);
      }
      buffer_.Finish();
      return Status();
    });
  }
  const KvEventBatch* batch() const { return &buffer_.batch; }
  const TrtLlmDecoder& trt_llm() const { return trt_llm_; }

 private:
  const KvEventFormat format_;
  TrtLlmDecoder trt_llm_;
  KvEventBuffer buffer_;
};

KvEventDecoder::KvEventDecoder(KvEventFormat format, const TrtLlmOptions& trt_llm)
    : impl_(new (std::nothrow) Impl(format, trt_llm)) {}
KvEventDecoder::~KvEventDecoder() = default;

Result<const KvEventBatch*> KvEventDecoder::Decode(std::string_view payload) {
  if (impl_ == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for a decoder");
  Status status = impl_->Decode(payload);
  if (!status.ok()) return status;
  return impl_->batch();
}

int64_t KvEventDecoder::last_event_id() const {
  return impl_ == nullptr ? -1 : impl_->trt_llm().state().last_event_id;
}

uint64_t KvEventDecoder::lost_events() const {
  return impl_ == nullptr ? 0 : impl_->trt_llm().state().lost_events;
}

}  // namespace prefixrouter
