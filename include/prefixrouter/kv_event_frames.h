// The frames around KV events on ZeroMQ sockets: live messages, replays, topics. They read and
// write bytes alone; zmq_subscriber.h has the sockets, kv_event_stream.h the order of messages.
//
//   live     [topic, number, payload]           or [topic, payload] of senders without numbers
//   request  ["", first number]
//   reply    ["", number, payload]              vLLM up to 0.25, SGLang
//            ["", topic, number, payload]       vLLM from 0.26
//   its end  number ff ff ff ff ff ff ff ff, empty payload
//
// Numbers are 8 bytes, big-endian. All functions are thread-safe.
#ifndef PREFIXROUTER_KV_EVENT_FRAMES_H_
#define PREFIXROUTER_KV_EVENT_FRAMES_H_

#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

#include "prefixrouter/span.h"
#include "prefixrouter/status.h"

namespace prefixrouter {

// The number that ends a replay. No message has it.
inline constexpr uint64_t kKvEndOfReplay = std::numeric_limits<uint64_t>::max();

// Borrows from the frames.
struct KvFrames {
  std::string_view topic;
  bool has_seq = false;
  uint64_t seq = 0;
  std::string_view payload;
};

// kInvalidArgument: not 2 or 3 frames, a number that is not 8 bytes long, or the number that ends
// replays.
Result<KvFrames> ParseKvLiveFrames(Span<const std::string_view> frames);

// One message of a reply; seq is kKvEndOfReplay for its end. The empty frame in front may be
// missing. kInvalidArgument: not 2 to 4 frames, a number that is not 8 bytes long, or another first
// frame than an empty one where there are 3 or 4.
Result<KvFrames> ParseKvReplayFrames(Span<const std::string_view> frames);

// A number's frame: the second frame of a request, behind an empty one.
std::string KvSeqFrame(uint64_t seq);

// What a topic says of its sender: "kv@10.0.0.7:8000@org/model", or "kv@10.0.0.7@org/model".
// Borrows from the topic.
struct KvTopic {
  std::string_view address;  // "10.0.0.7:8000": what names an instance
  std::string_view host;     // "10.0.0.7"; without the brackets of IPv6
  uint16_t port = 0;         // 0: not given
  std::string_view model;    // may hold '/' and '@'
};

// An empty topic says nothing: all is empty. kInvalidArgument: any other that is not of one of the
// two forms.
Result<KvTopic> ParseKvTopic(std::string_view topic);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_KV_EVENT_FRAMES_H_
