// The functions of prefix_router_events.h; see prefix_router.cc.
#include "capi/prefix_router_events.h"

#include <cstring>
#include <string>
#include <string_view>

#include "capi/boundary.h"
#include "capi/convert_events.h"
#include "capi/handles.h"
#include "prefixrouter/kv_events.h"

using namespace prefixrouter;
using namespace prefixrouter::capi;

namespace {

// result may be null.
int32_t Apply(prefix_router* router, uint64_t instance, const KvEventBatch& batch,
              const KvEventDecoder* decoder, prefix_router_kv_result* result) {
  const Result<KvEventResult> applied = router->cpp->ApplyKvEvents({instance}, batch);
  if (!applied.ok()) return Fail(applied.status());
  if (result != nullptr) {
    WriteOutput(result, result->struct_size, [&](prefix_router_kv_result* whole) {
      FillResult(*applied, batch, decoder, whole);
    });
  }
  return 0;
}

}  // namespace

int32_t prefix_router_kv_decoder_create(const prefix_router_kv_decoder_options* options,
                                        prefix_router_kv_decoder** decoder) {
  return Guard([&] {
    if (decoder == nullptr) return FailNull("decoder");
    *decoder = nullptr;
    DecoderOptions cpp_options;
    if (int32_t status = ReadDecoderOptions(options, &cpp_options); status != 0) return status;
    *decoder =
        new prefix_router_kv_decoder{KvEventDecoder(cpp_options.format, cpp_options.trt_llm)};
    return 0;
  });
}

void prefix_router_kv_decoder_destroy(prefix_router_kv_decoder* decoder) { delete decoder; }

int32_t prefix_router_apply_kv_payload(prefix_router* router, uint64_t instance,
                                       prefix_router_kv_decoder* decoder, const void* payload,
                                       size_t payload_size, prefix_router_kv_result* result) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    if (decoder == nullptr) return FailNull("decoder");
    if (int32_t status = CheckArray(payload, payload_size, "payload"); status != 0) return status;
    if (result != nullptr) {
      if (int32_t status = CheckOutput(result, "result"); status != 0) return status;
    }
    const auto batch =
        decoder->cpp.Decode(std::string_view(static_cast<const char*>(payload), payload_size));
    if (!batch.ok()) return Fail(batch.status());
    return Apply(router, instance, **batch, &decoder->cpp, result);
  });
}

int32_t prefix_router_apply_kv_events(prefix_router* router, uint64_t instance,
                                      const prefix_router_kv_event* events, size_t event_count,
                                      prefix_router_kv_result* result) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    if (result != nullptr) {
      if (int32_t status = CheckOutput(result, "result"); status != 0) return status;
    }
    EventList list;
    if (int32_t status = ReadEvents(events, event_count, &list); status != 0) return status;
    KvEventBatch batch;
    batch.events = {list.events.data(), list.events.size()};
    return Apply(router, instance, batch, nullptr, result);
  });
}

int32_t prefix_router_encode_kv_events(const prefix_router_kv_event* events, size_t event_count,
                                       const prefix_router_kv_encoder_options* options,
                                       void* buffer, size_t capacity, size_t* size) {
  return Guard([&] {
    if (size == nullptr) return FailNull("size");
    if (int32_t status = CheckList(buffer, capacity, size, "buffer"); status != 0) return status;
    KvEventBatch batch;
    EncoderOptions cpp_options;
    int32_t status = ReadEncoderOptions(options, &cpp_options, &batch);
    if (status != 0) return status;
    EventList list;
    if (status = ReadEvents(events, event_count, &list); status != 0) return status;
    batch.events = {list.events.data(), list.events.size()};
    const Result<std::string> message =
        EncodeKvEvents(batch, cpp_options.encoding, cpp_options.bytes_ids);
    if (!message.ok()) return Fail(message.status());
    if (status = CheckCapacity(message->size(), capacity, size); status != 0) return status;
    std::memcpy(buffer, message->data(), message->size());
    return 0;
  });
}

int32_t prefix_router_multimodal_hash(const char* identifier, size_t identifier_size,
                                      uint64_t* hash) {
  return Guard([&] {
    if (hash == nullptr) return FailNull("hash");
    std::string_view text;
    const int32_t status = ReadString(identifier, identifier_size, "identifier", &text);
    if (status == 0) *hash = MultimodalHash(text);
    return status;
  });
}

const char* prefix_router_kv_outcome_name(int32_t outcome) {
  return KvEventOutcomeName(static_cast<KvEventOutcome>(outcome));
}
