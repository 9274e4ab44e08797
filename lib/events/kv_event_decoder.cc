// KvEventDecoder: the memory that messages are decoded into, and the choice of the format.
#include <new>

#include "lib/base/guard.h"
#include "lib/events/event_buffer.h"
#include "lib/events/msgpack_decoder.h"
#include "prefixrouter/kv_events.h"

namespace prefixrouter {

class KvEventDecoder::Impl {
 public:
  explicit Impl(KvEventFormat format) : format_(format) {}

  Status Decode(std::string_view payload) {
    return Guard([&] {
      // An adapter's number can have twice as many digits as it has bytes.
      buffer_.Clear(2 * payload.size());
      if (format_ == KvEventFormat::kMsgpack) DecodeMsgpack(payload, &buffer_);
      buffer_.Finish();
      return Status();
    });
  }
  const KvEventBatch* batch() const { return &buffer_.batch; }

 private:
  const KvEventFormat format_;
  KvEventBuffer buffer_;
};

KvEventDecoder::KvEventDecoder(KvEventFormat format, const TrtLlmOptions&)
    : impl_(new (std::nothrow) Impl(format)) {}
KvEventDecoder::~KvEventDecoder() = default;

Result<const KvEventBatch*> KvEventDecoder::Decode(std::string_view payload) {
  if (impl_ == nullptr) return Status(StatusCode::kResourceExhausted, "no memory for a decoder");
  Status status = impl_->Decode(payload);
  if (!status.ok()) return status;
  return impl_->batch();
}

int64_t KvEventDecoder::last_event_id() const { return -1; }
uint64_t KvEventDecoder::lost_events() const { return 0; }

}  // namespace prefixrouter
