#include "prefixrouter/kv_event_frames.h"

#include <utility>

#include "lib/base/guard.h"

namespace prefixrouter {
namespace {

constexpr size_t kSeqBytes = 8;

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

Result<uint64_t> ParseSeq(std::string_view frame) {
  if (frame.size() != kSeqBytes) {
    return Invalid("the sequence number's frame has " + std::to_string(frame.size()) +
                   " bytes instead of 8");
  }
  uint64_t seq = 0;
  for (const char byte : frame) seq = seq << 8 | static_cast<uint8_t>(byte);
  return seq;
}

// Digits that fit, and nothing else.
bool ParsePort(std::string_view digits, uint16_t* port) {
  if (digits.empty() || digits.size() > 5) return false;
  uint32_t value = 0;
  for (const char digit : digits) {
    if (digit < '0' || digit > '9') return false;
    value = value * 10 + static_cast<uint32_t>(digit - '0');
  }
  if (value == 0 || value > 65535) return false;
  *port = static_cast<uint16_t>(value);
  return true;
}

// "host", "host:port", "[v6]", "[v6]:port", or a bare IPv6 address.
bool ParseAddress(std::string_view address, KvTopic* topic) {
  topic->address = address;
  std::string_view port;
  bool has_port = false;
  if (!address.empty() && address.front() == '[') {
    const size_t end = address.find(']');
    if (end == std::string_view::npos) return false;
    topic->host = address.substr(1, end - 1);
    const std::string_view rest = address.substr(end + 1);
    has_port = !rest.empty();
    if (has_port && rest.front() != ':') return false;
    if (has_port) port = rest.substr(1);
  } else {
    const size_t colon = address.find(':');
    has_port = colon != std::string_view::npos && colon == address.rfind(':');
    topic->host = has_port ? address.substr(0, colon) : address;
    if (has_port) port = address.substr(colon + 1);
  }
  return !topic->host.empty() && (!has_port || ParsePort(port, &topic->port));
}

}  // namespace

Result<KvFrames> ParseKvLiveFrames(Span<const std::string_view> frames) {
  return Guard([&]() -> Result<KvFrames> {
    if (frames.size() != 2 && frames.size() != 3) {
      return Invalid("a message of events has " + std::to_string(frames.size()) +
                     " frames instead of 2 or 3");
    }
    KvFrames parsed;
    parsed.topic = frames[0];
    parsed.payload = frames[frames.size() - 1];
    if (frames.size() == 3) {
      const Result<uint64_t> seq = ParseSeq(frames[1]);
      if (!seq.ok()) return seq.status();
      if (*seq == kKvEndOfReplay) return Invalid("the sequence number 2^64 - 1 ends replays");
      parsed.has_seq = true;
      parsed.seq = *seq;
    }
    return parsed;
  });
}

Result<KvFrames> ParseKvReplayFrames(Span<const std::string_view> frames) {
  return Guard([&]() -> Result<KvFrames> {
    const size_t count = frames.size();
    if (count < 2 || count > 4) {
      return Invalid("a replayed message has " + std::to_string(count) +
                     " frames instead of 3 or 4");
    }
    if (count > 2 && !frames[0].empty()) {
      return Invalid("the first frame of a replayed message has " +
                     std::to_string(frames[0].size()) + " bytes instead of none");
    }
    const Result<uint64_t> seq = ParseSeq(frames[count - 2]);
    if (!seq.ok()) return seq.status();
    KvFrames parsed;
    if (count == 4) parsed.topic = frames[1];
    parsed.has_seq = true;
    parsed.seq = *seq;
    parsed.payload = frames[count - 1];
    return parsed;
  });
}

std::string KvSeqFrame(uint64_t seq) {
  std::string frame(kSeqBytes, '\0');  // short enough to need no memory
  for (size_t i = 0; i < kSeqBytes; ++i) {
    frame[i] = static_cast<char>(seq >> (8 * (kSeqBytes - 1 - i)) & 0xff);
  }
  return frame;
}

Result<KvTopic> ParseKvTopic(std::string_view topic) {
  return Guard([&]() -> Result<KvTopic> {
    KvTopic parsed;
    if (topic.empty()) return parsed;
    constexpr std::string_view kPrefix = "kv@";
    const size_t second_at = topic.find('@', kPrefix.size());
    if (topic.substr(0, kPrefix.size()) != kPrefix || second_at == std::string_view::npos ||
        !ParseAddress(topic.substr(kPrefix.size(), second_at - kPrefix.size()), &parsed)) {
      return Invalid("topic '" + std::string(topic.substr(0, 200)) +
                     "' is not kv@host:port@model or kv@host@model");
    }
    parsed.model = topic.substr(second_at + 1);
    return parsed;
  });
}

}  // namespace prefixrouter
