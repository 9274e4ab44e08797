// C structs of KV events from and to the C++ ones; see convert.h.
#ifndef PREFIXROUTER_CAPI_CONVERT_EVENTS_H_
#define PREFIXROUTER_CAPI_CONVERT_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "capi/boundary.h"
#include "capi/convert.h"
#include "capi/prefix_router_event_stream.h"
#include "capi/prefix_router_events.h"
#include "prefixrouter/kv_event_frames.h"
#include "prefixrouter/kv_event_stream.h"
#include "prefixrouter/kv_events.h"

namespace prefixrouter::capi {

// Events that point into the caller's arrays and strings, but for the multimodal items.
struct EventList {
  std::vector<KvEvent> events;
  std::vector<std::vector<KvMultimodal>> multimodal;
};
int32_t ReadEvents(const prefix_router_kv_event* in, size_t count, EventList* out);

// `in` may be null: all defaults.
struct DecoderOptions {
  KvEventFormat format = KvEventFormat::kMsgpack;
  TrtLlmOptions trt_llm;
};
int32_t ReadDecoderOptions(const prefix_router_kv_decoder_options* in, DecoderOptions* out);
struct EncoderOptions {
  KvEventEncoding encoding = KvEventEncoding::kArrays;
  bool bytes_ids = false;
};
// What is of the batch goes there.
int32_t ReadEncoderOptions(const prefix_router_kv_encoder_options* in, EncoderOptions* out,
                           KvEventBatch* batch);

// What a call tells of a batch. decoder: null when there was none.
void FillResult(const KvEventResult& result, const KvEventBatch& batch,
                const KvEventDecoder* decoder, prefix_router_kv_result* out);

// `in` may be null: all defaults.
int32_t ReadStreamOptions(const prefix_router_kv_stream_options* in, KvEventStreamOptions* out);
int32_t ReadFrames(const prefix_router_kv_frame* in, size_t count,
                   std::vector<std::string_view>* out);

// All members but struct_size.
void Fill(const KvStreamAction& action, prefix_router_kv_action* out);
void Fill(const KvFrames& frames, prefix_router_kv_message* out);
void Fill(const KvTopic& topic, prefix_router_kv_topic* out);
// But for instance and fetch, which a stream tells apart from its statistics.
void Fill(const KvEventStreamStats& stats, prefix_router_kv_stream_stats* out);

}  // namespace prefixrouter::capi

#endif  // PREFIXROUTER_CAPI_CONVERT_EVENTS_H_
