// The functions of prefix_router_zmq.h; see ../prefix_router.cc. The router is another library's:
// it is reached by the public functions of C, like that of any caller.
#include "capi/zmq/prefix_router_zmq.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/boundary.h"
#include "capi/convert_events.h"
#include "prefixrouter/zmq_subscriber.h"

using namespace prefixrouter;
using namespace prefixrouter::capi;

struct prefix_router_zmq_subscriber {
  std::unique_ptr<ZmqSubscriber> cpp;
};

namespace {

// Applies batches; it keeps its memory from one to the next. Runs in the subscriber's thread.
class Sink {
 public:
  explicit Sink(prefix_router* router) : router_(router) {}

  Status operator()(InstanceId instance, const KvEventBatch& batch) {
    events_.clear();
    multimodal_.clear();
    multimodal_.reserve(batch.events.size());  // events point into it
    for (const KvEvent& event : batch.events) Add(event);
    prefix_router_kv_result result;
    result.struct_size = sizeof result;
    const int32_t status = prefix_router_apply_kv_events(router_, instance.value, events_.data(),
                                                         events_.size(), &result);
    if (status != 0) return Status(static_cast<StatusCode>(status), prefix_router_last_error());
    if (result.counts[PREFIX_ROUTER_KV_OUTCOME_OLD_GENERATION] == 0) return Status();
    return Status(StatusCode::kNotFound,
                  "instance " + std::to_string(instance.value) + " was removed");
  }

 private:
  void Add(const KvEvent& event) {
    std::vector<prefix_router_kv_multimodal>& items = multimodal_.emplace_back();
    for (const KvMultimodal& item : event.multimodal) {
      items.push_back({item.identifier.data(), item.identifier.size(), item.offset, item.block, 0});
    }
    prefix_router_kv_event& c = events_.emplace_back();
    c = {};
    c.struct_size = sizeof c;
    c.kind = static_cast<int32_t>(event.kind);
    c.tier = static_cast<int32_t>(event.tier);
    c.group = event.group;
    c.block_size = event.block_size;
    c.block_ids = event.block_ids.data();
    c.block_count = event.block_ids.size();
    c.parent_id = event.parent_id;
    c.has_parent = event.has_parent ? 1 : 0;
    c.attention = static_cast<int32_t>(event.attention);
    c.tokens = event.tokens.data();
    c.token_count = event.tokens.size();
    c.adapter = event.adapter.data();
    c.adapter_size = event.adapter.size();
    c.salt = event.salt.data();
    c.salt_size = event.salt.size();
    c.multimodal = items.data();
    c.multimodal_count = items.size();
  }

  prefix_router* router_;
  std::vector<prefix_router_kv_event> events_;
  std::vector<std::vector<prefix_router_kv_multimodal>> multimodal_;
};

int32_t ReadOptions(const prefix_router_zmq_options* in, ZmqSubscriberOptions* out) {
  if (in == nullptr) return 0;
  Input<prefix_router_zmq_options> input;
  if (int32_t status = input.Read(in, "options"); status != 0) return status;
  const prefix_router_zmq_options& c = *input;
  if (int32_t status = CheckFlag(c.keep_on_loss, "keep_on_loss"); status != 0) return status;
  out->stream.clear_on_loss = c.keep_on_loss == 0;
  SetUnlessZero(&out->stream.max_held_messages, c.max_held_messages);
  SetUnlessZero(&out->stream.max_held_bytes, c.max_held_bytes);
  SetUnlessZero(&out->stream.retry_delay_s, c.retry_delay_s);
  SetUnlessZero(&out->stream.replay_attempts, c.replay_attempts);
  SetUnlessZero(&out->receive_high_water_mark, c.receive_high_water_mark);
  SetUnlessZero(&out->replay_timeout_s, c.replay_timeout_s);
  SetUnlessZero(&out->reconnect_s, c.reconnect_s);
  SetUnlessZero(&out->max_reconnect_s, c.max_reconnect_s);
  SetUnlessZero(&out->max_message_bytes, c.max_message_bytes);
  return 0;
}

int32_t ReadSource(const prefix_router_zmq_source* in, ZmqSource* out) {
  Input<prefix_router_zmq_source> input;
  int32_t status = input.Read(in, "source");
  if (status != 0) return status;
  const prefix_router_zmq_source& c = *input;
  std::string_view endpoint, replay_endpoint, topic;
  status = CheckFlag(c.bind, "bind");
  if (status == 0) status = CheckFlag(c.ipv6, "ipv6");
  if (status == 0) status = ReadString(c.endpoint, c.endpoint_size, "endpoint", &endpoint);
  if (status == 0) {
    status =
        ReadString(c.replay_endpoint, c.replay_endpoint_size, "replay_endpoint", &replay_endpoint);
  }
  if (status == 0) status = ReadString(c.topic, c.topic_size, "topic", &topic);
  if (status == 0) status = CheckArray(c.instances, c.instance_count, "instances");
  if (status != 0) return status;
  out->endpoint = endpoint;
  out->replay_endpoint = replay_endpoint;
  out->topic = topic;
  out->bind = c.bind != 0;
  out->ipv6 = c.ipv6 != 0;
  for (size_t i = 0; i < c.instance_count; ++i) out->instances.push_back({c.instances[i]});
  return 0;
}

template <size_t kSize>
void FillText(const std::string& text, char (&out)[kSize]) {
  std::memset(out, 0, kSize);
  text.copy(out, kSize - 1);
}

void FillPublisher(const ZmqPublisherStats& s, prefix_router_zmq_stats* out) {
  auto& c = *out;
  c.source = s.source;
  c.rank = s.rank;
  c.reserved = 0;
  c.connects = s.connects;
  c.disconnects = s.disconnects;
  c.messages = s.messages;
  c.bytes = s.bytes;
  c.bad_frames = s.bad_frames;
  c.undecodable = s.undecodable;
  c.refused = s.refused;
  c.lag_s = s.lag_s;
  c.silent_s = s.silent_s;
  FillCounts(s.skipped, c.skipped);
  FillText(s.endpoint, c.endpoint);
  FillText(s.last_error, c.last_error);
}

// Element `index` of a caller's list, written by fill(T*). REQUIRES: it fits
template <typename T, typename FillStruct>
void WriteRow(T* first, size_t index, FillStruct fill) {
  const size_t size = first->struct_size;
  WriteOutput(reinterpret_cast<T*>(reinterpret_cast<char*>(first) + index * size), size, fill);
}

int32_t Answer(const Status& status) { return status.ok() ? 0 : Fail(status); }

}  // namespace

int32_t prefix_router_zmq_create(prefix_router* router, const prefix_router_zmq_options* options,
                                 prefix_router_zmq_subscriber** subscriber) {
  return Guard([&] {
    if (subscriber == nullptr) return FailNull("subscriber");
    *subscriber = nullptr;
    if (router == nullptr) return FailNull("router");
    ZmqSubscriberOptions cpp_options;
    if (int32_t status = ReadOptions(options, &cpp_options); status != 0) return status;
    auto handle = std::make_unique<prefix_router_zmq_subscriber>();
    auto created = ZmqSubscriber::Create(Sink(router), cpp_options);
    if (!created.ok()) return Fail(created.status());
    handle->cpp = *std::move(created);
    *subscriber = handle.release();
    return 0;
  });
}

void prefix_router_zmq_destroy(prefix_router_zmq_subscriber* subscriber) { delete subscriber; }

int32_t prefix_router_zmq_add(prefix_router_zmq_subscriber* subscriber,
                              const prefix_router_zmq_source* source, uint64_t* number) {
  return Guard([&] {
    if (number == nullptr) return FailNull("number");
    *number = 0;
    if (subscriber == nullptr) return FailNull("subscriber");
    ZmqSource cpp_source;
    if (int32_t status = ReadSource(source, &cpp_source); status != 0) return status;
    const Result<uint64_t> added = subscriber->cpp->Add(cpp_source);
    if (!added.ok()) return Fail(added.status());
    *number = *added;
    return 0;
  });
}

int32_t prefix_router_zmq_remove(prefix_router_zmq_subscriber* subscriber, uint64_t number) {
  return Guard([&] {
    if (subscriber == nullptr) return FailNull("subscriber");
    return Answer(subscriber->cpp->Remove(number));
  });
}

int32_t prefix_router_zmq_start(prefix_router_zmq_subscriber* subscriber) {
  return Guard([&] {
    if (subscriber == nullptr) return FailNull("subscriber");
    return Answer(subscriber->cpp->Start());
  });
}

int32_t prefix_router_zmq_stop(prefix_router_zmq_subscriber* subscriber) {
  return Guard([&] {
    if (subscriber == nullptr) return FailNull("subscriber");
    return Answer(subscriber->cpp->Stop());
  });
}

int32_t prefix_router_zmq_get_stats(const prefix_router_zmq_subscriber* subscriber,
                                    int32_t* running, prefix_router_zmq_stats* rows,
                                    prefix_router_kv_stream_stats* streams, size_t capacity,
                                    size_t* count) {
  return Guard([&] {
    int32_t status = CheckList(rows, capacity, count, "rows");
    if (status == 0 && capacity != 0) status = CheckOutput(rows, "rows[0]");
    if (status == 0 && capacity != 0 && streams != nullptr) {
      status = CheckOutput(streams, "streams[0]");
    }
    if (status != 0) return status;
    if (subscriber == nullptr) return FailNull("subscriber");
    const ZmqSubscriberStats stats = subscriber->cpp->Stats();
    status = CheckCapacity(stats.publishers.size(), capacity, count);
    if (status != 0) return status;
    if (running != nullptr) *running = stats.running ? 1 : 0;
    for (size_t i = 0; i < stats.publishers.size(); ++i) {
      const ZmqPublisherStats& publisher = stats.publishers[i];
      WriteRow(rows, i, [&](prefix_router_zmq_stats* whole) { FillPublisher(publisher, whole); });
      if (streams == nullptr) continue;
      WriteRow(streams, i, [&](prefix_router_kv_stream_stats* whole) {
        Fill(publisher.stream, whole);
        whole->instance = whole->fetch = 0;
      });
    }
    return 0;
  });
}

const char* prefix_router_zmq_last_error(void) { return LastError(); }
