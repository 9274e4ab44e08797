#include "capi/convert_events.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <string_view>

namespace prefixrouter::capi {
namespace {

// Constants are the C++ ones.
static_assert(kKvEventOutcomeCount <= PREFIX_ROUTER_KV_OUTCOMES);
static_assert(PREFIX_ROUTER_KV_OUTCOME_BUDGET_FULL ==
                  static_cast<int>(KvEventOutcome::kBudgetFull) &&
              PREFIX_ROUTER_KV_OUTCOME_CLEARED == static_cast<int>(KvEventOutcome::kCleared) &&
              PREFIX_ROUTER_KV_OUTCOME_OLD_GENERATION ==
                  static_cast<int>(KvEventOutcome::kOldGeneration));
static_assert(PREFIX_ROUTER_KV_TRT_LLM_JSON == static_cast<int>(KvEventFormat::kTrtLlmJson));
static_assert(PREFIX_ROUTER_KV_REMOVED == static_cast<int>(KvEventKind::kRemoved) &&
              PREFIX_ROUTER_KV_CLEARED == static_cast<int>(KvEventKind::kCleared));
static_assert(PREFIX_ROUTER_KV_CPU == static_cast<int>(KvTier::kCpu) &&
              PREFIX_ROUTER_KV_DISK == static_cast<int>(KvTier::kDisk) &&
              PREFIX_ROUTER_KV_EXTERNAL == static_cast<int>(KvTier::kExternal));
static_assert(PREFIX_ROUTER_KV_PARTIAL == static_cast<int>(KvAttention::kPartial) &&
              PREFIX_ROUTER_KV_NOT_PREFIX == static_cast<int>(KvAttention::kNotPrefix));
static_assert(PREFIX_ROUTER_KV_ARRAYS_SHORT == static_cast<int>(KvEventEncoding::kArraysShort) &&
              PREFIX_ROUTER_KV_MAPS == static_cast<int>(KvEventEncoding::kMaps) &&
              PREFIX_ROUTER_KV_SGLANG_ARRAYS == static_cast<int>(KvEventEncoding::kSglangArrays));
static_assert(PREFIX_ROUTER_KV_ACTION_APPLY == static_cast<int>(KvStreamActionKind::kApply) + 1 &&
              PREFIX_ROUTER_KV_ACTION_CLEAR == static_cast<int>(KvStreamActionKind::kClear) + 1 &&
              PREFIX_ROUTER_KV_ACTION_FETCH == static_cast<int>(KvStreamActionKind::kFetch) + 1);
static_assert(PREFIX_ROUTER_KV_STATE_LIVE == static_cast<int>(KvStreamState::kLive) &&
              PREFIX_ROUTER_KV_STATE_REPLAYING == static_cast<int>(KvStreamState::kReplaying) &&
              PREFIX_ROUTER_KV_STATE_RETIRED == static_cast<int>(KvStreamState::kRetired));
static_assert(PREFIX_ROUTER_KV_END_OF_REPLAY == kKvEndOfReplay);
static_assert(PREFIX_ROUTER_KV_UNKNOWN_OFFSET == KvMultimodal::kUnknownOffset);

constexpr uint32_t kMaxEngineBlockSize = 1 << 20;

int32_t CheckRange(int64_t value, int64_t least, int64_t most, const std::string& name) {
  if (value >= least && value <= most) return 0;
  return Invalid(name + " must be " + std::to_string(least) + " to " + std::to_string(most) +
                 ", got " + std::to_string(value));
}

int32_t ReadMultimodal(const prefix_router_kv_event& c, const std::string& name,
                       std::vector<KvMultimodal>* out) {
  for (size_t i = 0; i < c.multimodal_count; ++i) {
    const prefix_router_kv_multimodal& in = c.multimodal[i];
    const std::string item_name = ElementName((name + ".multimodal").c_str(), i);
    KvMultimodal item;
    int32_t status = CheckUnused(in.reserved, (item_name + ".reserved").c_str());
    if (status == 0 && (in.block >= c.block_count || (i > 0 && in.block < out->back().block))) {
      status = Invalid(item_name + ".block must ascend below block_count, which is " +
                       std::to_string(c.block_count) + ", got " + std::to_string(in.block));
    }
    if (status == 0) {
      status = ReadString(in.identifier, in.identifier_size, (item_name + ".identifier").c_str(),
                          &item.identifier);
    }
    if (status != 0) return status;
    item.block = in.block;
    item.offset = in.offset;
    out->push_back(item);
  }
  return 0;
}

int32_t ReadEvent(const prefix_router_kv_event* in, size_t struct_size, const std::string& name,
                  KvEvent* out, std::vector<KvMultimodal>* multimodal) {
  Input<prefix_router_kv_event> input;
  int32_t status = input.Read(in, struct_size, name.c_str());
  if (status != 0) return status;
  const prefix_router_kv_event& c = *input;
  const bool stored = c.kind == PREFIX_ROUTER_KV_STORED;
  const auto member = [&name](const char* text) { return name + "." + text; };
  status = CheckRange(c.kind, 0, PREFIX_ROUTER_KV_CLEARED, member("kind"));
  if (status == 0) status = CheckRange(c.tier, 0, PREFIX_ROUTER_KV_EXTERNAL, member("tier"));
  if (status == 0) {
    status = CheckRange(c.attention, 0, PREFIX_ROUTER_KV_NOT_PREFIX, member("attention"));
  }
  if (status == 0) status = CheckFlag(c.has_parent, member("has_parent").c_str());
  if (status == 0 && stored) {
    status = CheckRange(c.block_size, 1, kMaxEngineBlockSize, member("block_size"));
  }
  if (status == 0) status = CheckArray(c.block_ids, c.block_count, member("block_ids").c_str());
  if (status == 0) status = CheckArray(c.tokens, c.token_count, member("tokens").c_str());
  if (status == 0) {
    status = CheckArray(c.multimodal, c.multimodal_count, member("multimodal").c_str());
  }
  if (status == 0) {
    status = ReadString(c.adapter, c.adapter_size, member("adapter").c_str(), &out->adapter);
  }
  if (status == 0) status = ReadString(c.salt, c.salt_size, member("salt").c_str(), &out->salt);
  if (status == 0) status = ReadMultimodal(c, name, multimodal);
  if (status != 0) return status;
  out->kind = static_cast<KvEventKind>(c.kind);
  out->tier = static_cast<KvTier>(c.tier);
  out->group = c.group;
  out->block_ids = {c.block_ids, c.block_count};
  out->attention = static_cast<KvAttention>(c.attention);
  out->has_parent = c.has_parent != 0;
  out->parent_id = c.parent_id;
  out->block_size = c.block_size;
  out->tokens = {c.tokens, c.token_count};
  out->multimodal = {multimodal->data(), multimodal->size()};
  return 0;
}

}  // namespace

int32_t ReadEvents(const prefix_router_kv_event* in, size_t count, EventList* out) {
  if (int32_t status = CheckArray(in, count, "events"); status != 0) return status;
  for (size_t i = 0; i < count; ++i) {
    const int32_t status = ReadEvent(Element(in, i), in->struct_size, ElementName("events", i),
                                     &out->events.emplace_back(), &out->multimodal.emplace_back());
    if (status != 0) return status;
  }
  return 0;
}

int32_t ReadDecoderOptions(const prefix_router_kv_decoder_options* in, DecoderOptions* out) {
  if (in == nullptr) return 0;
  Input<prefix_router_kv_decoder_options> input;
  int32_t status = input.Read(in, "options");
  if (status != 0) return status;
  const prefix_router_kv_decoder_options& c = *input;
  status = CheckRange(c.format, 0, PREFIX_ROUTER_KV_TRT_LLM_JSON, "format");
  if (status == 0) {
    status = CheckRange(c.tokens_per_block, 0, kMaxEngineBlockSize, "tokens_per_block");
  }
  if (status == 0) status = CheckFlag(c.has_rank, "has_rank");
  if (status != 0) return status;
  out->format = static_cast<KvEventFormat>(c.format);
  out->trt_llm.tokens_per_block = c.tokens_per_block;
  if (c.has_rank != 0) out->trt_llm.rank = c.rank;
  return 0;
}

int32_t ReadEncoderOptions(const prefix_router_kv_encoder_options* in, EncoderOptions* out,
                           KvEventBatch* batch) {
  batch->timestamp_s = 0;
  if (in == nullptr) return 0;
  Input<prefix_router_kv_encoder_options> input;
  int32_t status = input.Read(in, "options");
  if (status != 0) return status;
  const prefix_router_kv_encoder_options& c = *input;
  status = CheckRange(c.encoding, 0, PREFIX_ROUTER_KV_SGLANG_ARRAYS, "encoding");
  if (status == 0) status = CheckFlag(c.bytes_ids, "bytes_ids");
  if (status == 0) status = CheckFlag(c.has_rank, "has_rank");
  if (status != 0) return status;
  out->encoding = static_cast<KvEventEncoding>(c.encoding);
  out->bytes_ids = c.bytes_ids != 0;
  batch->timestamp_s = c.timestamp_s;
  batch->has_rank = c.has_rank != 0;
  batch->rank = c.rank;
  return 0;
}

void FillCounts(const KvEventCounts& counts, uint64_t* out) {
  std::fill(std::copy(std::begin(counts.counts), std::end(counts.counts), out),
            out + PREFIX_ROUTER_KV_OUTCOMES, 0);
}

void FillResult(const KvEventResult& result, const KvEventBatch& batch,
                const KvEventDecoder* decoder, prefix_router_kv_result* out) {
  auto& c = *out;
  c.needs_replay = result.needs_replay ? 1 : 0;
  c.has_rank = batch.has_rank ? 1 : 0;
  c.rank = batch.rank;
  c.reserved = 0;
  c.timestamp_s = batch.timestamp_s;
  c.events = batch.events.size();
  c.last_event_id = decoder != nullptr ? decoder->last_event_id() : -1;
  c.lost_events = decoder != nullptr ? decoder->lost_events() : 0;
  FillCounts(result.counts, c.counts);
}

// ---- Streams ------------------------------------------------------------------------------------

int32_t ReadStreamOptions(const prefix_router_kv_stream_options* in, KvEventStreamOptions* out) {
  if (in == nullptr) return 0;
  Input<prefix_router_kv_stream_options> input;
  int32_t status = input.Read(in, "options");
  if (status != 0) return status;
  const prefix_router_kv_stream_options& c = *input;
  status = CheckFlag(c.no_replay, "no_replay");
  if (status == 0) status = CheckFlag(c.keep_on_loss, "keep_on_loss");
  if (status != 0) return status;
  out->has_replay = c.no_replay == 0;
  out->clear_on_loss = c.keep_on_loss == 0;
  SetUnlessZero(&out->max_held_messages, c.max_held_messages);
  SetUnlessZero(&out->max_held_bytes, c.max_held_bytes);
  SetUnlessZero(&out->replay_attempts, c.replay_attempts);
  SetUnlessZero(&out->retry_delay_s, c.retry_delay_s);
  return 0;
}

int32_t ReadFrames(const prefix_router_kv_frame* in, size_t count,
                   std::vector<std::string_view>* out) {
  if (int32_t status = CheckArray(in, count, "frames"); status != 0) return status;
  for (size_t i = 0; i < count; ++i) {
    const int32_t status =
        CheckArray(in[i].data, in[i].size, (ElementName("frames", i) + ".data").c_str());
    if (status != 0) return status;
    out->emplace_back(static_cast<const char*>(in[i].data), in[i].size);
  }
  return 0;
}

void Fill(const KvStreamAction& a, prefix_router_kv_action* out) {
  auto& c = *out;
  const bool fetch = a.kind == KvStreamActionKind::kFetch;
  c.kind = static_cast<int32_t>(a.kind) + 1;
  c.has_seq = fetch || a.has_seq ? 1 : 0;
  c.seq = a.seq;
  c.payload = a.payload.data();
  c.payload_size = a.payload.size();
  c.fetch = a.fetch;
  c.delay_s = a.delay_s;
}

void Fill(const KvFrames& f, prefix_router_kv_message* out) {
  auto& c = *out;
  c.topic = f.topic.data();
  c.topic_size = f.topic.size();
  c.payload = f.payload.data();
  c.payload_size = f.payload.size();
  c.seq = f.seq;
  c.has_seq = f.has_seq ? 1 : 0;
  c.reserved = 0;
}

void Fill(const KvTopic& t, prefix_router_kv_topic* out) {
  auto& c = *out;
  c.address = t.address.data();
  c.address_size = t.address.size();
  c.host = t.host.data();
  c.host_size = t.host.size();
  c.model = t.model.data();
  c.model_size = t.model.size();
  c.port = t.port;
  c.reserved = 0;
}

void Fill(const KvEventStreamStats& s, prefix_router_kv_stream_stats* out) {
  auto& c = *out;
  c.state = static_cast<int32_t>(s.state);
  c.connected = s.connected ? 1 : 0;
  c.complete = s.complete ? 1 : 0;
  c.has_last = s.has_last ? 1 : 0;
  c.last_applied = s.last_applied;
  c.behind = s.behind;
  c.held = s.held;
  c.held_bytes = s.held_bytes;
  c.last_live_s = s.last_live_s;
  c.last_applied_s = s.last_applied_s;
  c.applied = s.applied;
  c.applied_replay = s.applied_replay;
  c.unnumbered = s.unnumbered;
  c.duplicates = s.duplicates;
  c.gaps = s.gaps;
  c.lost = s.lost;
  c.restarts = s.restarts;
  c.clears = s.clears;
  c.replays = s.replays;
  c.replays_ended = s.replays_ended;
  c.replays_failed = s.replays_failed;
  c.dropped = s.dropped;
  c.malformed = s.malformed;
  c.ignored = s.ignored;
}

}  // namespace prefixrouter::capi
