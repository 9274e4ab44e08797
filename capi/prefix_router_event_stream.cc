// The functions of prefix_router_event_stream.h; see prefix_router.cc.
#include "capi/prefix_router_event_stream.h"

#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/boundary.h"
#include "capi/convert_events.h"
#include "capi/handles.h"
#include "prefixrouter/kv_event_frames.h"
#include "prefixrouter/kv_event_stream.h"

using namespace prefixrouter;
using namespace prefixrouter::capi;

namespace {

// Keeps the actions of input(KvEventStream&), unless some of the last input wait.
template <typename InputCall>
int32_t Give(prefix_router_kv_stream* stream, InputCall input) {
  return Guard([&] {
    if (stream == nullptr) return FailNull("stream");
    const size_t waiting = stream->actions.size() - stream->taken;
    if (waiting != 0) {
      return Fail(StatusCode::kFailedPrecondition,
                  std::to_string(waiting) + " actions of the last input wait");
    }
    stream->actions = input(stream->cpp);
    stream->taken = 0;
    return 0;
  });
}

template <typename InputCall>
int32_t GivePayload(prefix_router_kv_stream* stream, const void* payload, size_t size,
                    InputCall input) {
  return Guard([&] {
    if (int32_t status = CheckArray(payload, size, "payload"); status != 0) return status;
    const std::string_view view(static_cast<const char*>(payload), size);
    return Give(stream, [&](KvEventStream& cpp) { return input(cpp, view); });
  });
}

// A router that takes what a stream asks for.
class Driver {
 public:
  Driver(prefix_router_kv_stream* stream, PrefixRouter* router, KvEventDecoder* decoder)
      : stream_(*stream), router_(*router), decoder_(*decoder) {}

  // The first failure, or OK.
  Status Drive() {
    Status first;
    while (stream_.taken < stream_.actions.size() && !retired_) {
      Status status = Do(stream_.actions[stream_.taken++]);
      if (first.ok()) first = std::move(status);
    }
    if (retired_) {  // what waits is of no use, and its payloads go
      stream_.actions = {};
      stream_.taken = 0;
      stream_.cpp.Retire();
      fetch_ = {};
    }
    return first;
  }

  void Fill(prefix_router_kv_driven* out) const {
    auto& c = *out;
    c.applied = applied_;
    c.undecodable = undecodable_;
    c.clears = clears_;
    c.fetch = fetch_.fetch;
    c.fetch_seq = fetch_.seq;
    c.fetch_delay_s = fetch_.delay_s;
    c.needs_replay = result_.needs_replay ? 1 : 0;
    c.retired = retired_ ? 1 : 0;
    FillCounts(result_.counts, c.counts);
  }

 private:
  Status Do(const KvStreamAction& action) {
    switch (action.kind) {
      case KvStreamActionKind::kApply: {
        const auto batch = decoder_.Decode(action.payload);
        if (!batch.ok()) {
          if (batch.status().code() != StatusCode::kInvalidArgument) return batch.status();
          ++undecodable_;
          stream_.cpp.CountMalformed();
          return Status();
        }
        ++applied_;
        return Apply(**batch);
      }
      case KvStreamActionKind::kClear: {
        const KvEvent cleared;  // of kCleared
        KvEventBatch batch;
        batch.events = {&cleared, 1};
        ++clears_;
        return Apply(batch);
      }
      case KvStreamActionKind::kFetch:
        fetch_ = action;
        break;
    }
    return Status();
  }

  Status Apply(const KvEventBatch& batch) {
    const Result<KvEventResult> applied = router_.ApplyKvEvents(stream_.cpp.instance(), batch);
    if (!applied.ok()) return applied.status();
    result_.counts += applied->counts;
    result_.needs_replay |= applied->needs_replay;
    retired_ = applied->counts[KvEventOutcome::kOldGeneration] != 0;
    return Status();
  }

  prefix_router_kv_stream& stream_;
  PrefixRouter& router_;
  KvEventDecoder& decoder_;
  KvEventResult result_;
  KvStreamAction fetch_;  // without one its number is 0
  uint64_t applied_ = 0;
  uint64_t undecodable_ = 0;
  uint64_t clears_ = 0;
  bool retired_ = false;
};

template <typename Parse>
int32_t ParseFrames(const prefix_router_kv_frame* frames, size_t count,
                    prefix_router_kv_message* message, Parse parse) {
  return Guard([&] {
    if (int32_t status = CheckOutput(message, "message"); status != 0) return status;
    std::vector<std::string_view> views;
    if (int32_t status = ReadFrames(frames, count, &views); status != 0) return status;
    const Result<KvFrames> parsed = parse(Span<const std::string_view>(views.data(), views.size()));
    if (!parsed.ok()) return Fail(parsed.status());
    WriteOutput(message, message->struct_size,
                [&](prefix_router_kv_message* whole) { Fill(*parsed, whole); });
    return 0;
  });
}

}  // namespace

// ---- Streams ------------------------------------------------------------------------------------

int32_t prefix_router_kv_stream_create(uint64_t instance,
                                       const prefix_router_kv_stream_options* options,
                                       prefix_router_kv_stream** stream) {
  return Guard([&] {
    if (stream == nullptr) return FailNull("stream");
    *stream = nullptr;
    KvEventStreamOptions cpp_options;
    if (int32_t status = ReadStreamOptions(options, &cpp_options); status != 0) return status;
    Result<KvEventStream> created = KvEventStream::Create({instance}, cpp_options);
    if (!created.ok()) return Fail(created.status());
    *stream = new prefix_router_kv_stream{*std::move(created), {}, 0};
    return 0;
  });
}

void prefix_router_kv_stream_destroy(prefix_router_kv_stream* stream) { delete stream; }

int32_t prefix_router_kv_stream_bind(prefix_router_kv_stream* stream, uint64_t instance) {
  return Guard([&] {
    if (stream == nullptr) return FailNull("stream");
    stream->actions = {};
    stream->taken = 0;
    stream->cpp.Bind({instance});
    return 0;
  });
}

// ---- Inputs -------------------------------------------------------------------------------------

int32_t prefix_router_kv_stream_connected(prefix_router_kv_stream* stream, double now_s) {
  return Give(stream, [&](KvEventStream& cpp) { return cpp.Connected(now_s); });
}

int32_t prefix_router_kv_stream_disconnected(prefix_router_kv_stream* stream) {
  return Guard([&] {
    if (stream == nullptr) return FailNull("stream");
    stream->cpp.Disconnected();
    return 0;
  });
}

int32_t prefix_router_kv_stream_live(prefix_router_kv_stream* stream, uint64_t seq,
                                     const void* payload, size_t payload_size, double now_s) {
  return GivePayload(stream, payload, payload_size, [&](KvEventStream& cpp, std::string_view view) {
    return cpp.Live(seq, view, now_s);
  });
}

int32_t prefix_router_kv_stream_live_unnumbered(prefix_router_kv_stream* stream,
                                                const void* payload, size_t payload_size,
                                                double now_s) {
  return GivePayload(stream, payload, payload_size, [&](KvEventStream& cpp, std::string_view view) {
    return cpp.LiveUnnumbered(view, now_s);
  });
}

int32_t prefix_router_kv_stream_replayed(prefix_router_kv_stream* stream, uint64_t fetch,
                                         uint64_t seq, const void* payload, size_t payload_size,
                                         double now_s) {
  return GivePayload(stream, payload, payload_size, [&](KvEventStream& cpp, std::string_view view) {
    return cpp.Replayed(fetch, seq, view, now_s);
  });
}

int32_t prefix_router_kv_stream_replay_ended(prefix_router_kv_stream* stream, uint64_t fetch,
                                             double now_s) {
  return Give(stream, [&](KvEventStream& cpp) { return cpp.ReplayEnded(fetch, now_s); });
}

int32_t prefix_router_kv_stream_replay_failed(prefix_router_kv_stream* stream, uint64_t fetch,
                                              double now_s) {
  return Give(stream, [&](KvEventStream& cpp) { return cpp.ReplayFailed(fetch, now_s); });
}

// ---- What is to be done -------------------------------------------------------------------------

int32_t prefix_router_kv_stream_next(prefix_router_kv_stream* stream,
                                     prefix_router_kv_action* action) {
  return Guard([&] {
    if (stream == nullptr) return FailNull("stream");
    if (int32_t status = CheckOutput(action, "action"); status != 0) return status;
    const bool any = stream->taken < stream->actions.size();
    WriteOutput(action, action->struct_size, [&](prefix_router_kv_action* whole) {
      if (any) {
        Fill(stream->actions[stream->taken], whole);
      } else {
        *whole = {};  // PREFIX_ROUTER_KV_ACTION_NONE
      }
    });
    if (any) ++stream->taken;
    return 0;
  });
}

int32_t prefix_router_kv_stream_drive(prefix_router_kv_stream* stream, prefix_router* router,
                                      prefix_router_kv_decoder* decoder,
                                      prefix_router_kv_driven* driven) {
  return Guard([&] {
    if (stream == nullptr) return FailNull("stream");
    if (router == nullptr) return FailNull("router");
    if (decoder == nullptr) return FailNull("decoder");
    if (int32_t status = CheckOutput(driven, "driven"); status != 0) return status;
    Driver driver(stream, router->cpp.get(), &decoder->cpp);
    const Status status = driver.Drive();
    WriteOutput(driven, driven->struct_size,
                [&](prefix_router_kv_driven* whole) { driver.Fill(whole); });
    return status.ok() ? 0 : Fail(status);
  });
}

// ---- Statistics ---------------------------------------------------------------------------------

int32_t prefix_router_kv_stream_get_stats(const prefix_router_kv_stream* stream,
                                          prefix_router_kv_stream_stats* stats) {
  return Guard([&] {
    if (stream == nullptr) return FailNull("stream");
    if (int32_t status = CheckOutput(stats, "stats"); status != 0) return status;
    WriteOutput(stats, stats->struct_size, [&](prefix_router_kv_stream_stats* whole) {
      Fill(stream->cpp.Stats(), whole);
      whole->instance = stream->cpp.instance().value;
      whole->fetch = stream->cpp.fetch();
    });
    return 0;
  });
}

const char* prefix_router_kv_stream_state_name(int32_t state) {
  return KvStreamStateName(static_cast<KvStreamState>(state));
}

// ---- Frames -------------------------------------------------------------------------------------

int32_t prefix_router_parse_kv_live(const prefix_router_kv_frame* frames, size_t frame_count,
                                    prefix_router_kv_message* message) {
  return ParseFrames(frames, frame_count, message, ParseKvLiveFrames);
}

int32_t prefix_router_parse_kv_replay(const prefix_router_kv_frame* frames, size_t frame_count,
                                      prefix_router_kv_message* message) {
  return ParseFrames(frames, frame_count, message, ParseKvReplayFrames);
}

int32_t prefix_router_kv_seq_frame(uint64_t seq, uint8_t* frame) {
  return Guard([&] {
    if (frame == nullptr) return FailNull("frame");
    const std::string bytes = KvSeqFrame(seq);
    std::memcpy(frame, bytes.data(), bytes.size());
    return 0;
  });
}

int32_t prefix_router_parse_kv_topic(const char* text, size_t text_size,
                                     prefix_router_kv_topic* topic) {
  return Guard([&] {
    if (int32_t status = CheckOutput(topic, "topic"); status != 0) return status;
    std::string_view view;
    if (int32_t status = ReadString(text, text_size, "text", &view); status != 0) return status;
    const Result<KvTopic> parsed = ParseKvTopic(view);
    if (!parsed.ok()) return Fail(parsed.status());
    WriteOutput(topic, topic->struct_size,
                [&](prefix_router_kv_topic* whole) { Fill(*parsed, whole); });
    return 0;
  });
}
