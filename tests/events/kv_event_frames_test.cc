// The frames of live messages and replays, and topics.
#include "prefixrouter/kv_event_frames.h"

#include <string>
#include <string_view>
#include <vector>

#include "tests/catch.h"

namespace prefixrouter {
namespace {

using Frames = std::vector<std::string_view>;

const std::string kSeven = KvSeqFrame(7);
const std::string kEnd(8, '\xff');

}  // namespace

TEST_CASE("a sequence number is 8 bytes, the highest first") {
  CHECK(KvSeqFrame(0) == std::string(8, '\0'));
  CHECK(KvSeqFrame(0x0102030405060708) == "\x01\x02\x03\x04\x05\x06\x07\x08");
  CHECK(KvSeqFrame(kKvEndOfReplay) == kEnd);
  for (const uint64_t seq : {uint64_t{0}, uint64_t{200}, uint64_t{1} << 63, kKvEndOfReplay - 1}) {
    const std::string frame = KvSeqFrame(seq);
    auto frames = ParseKvLiveFrames(Frames{"", frame, "p"});
    REQUIRE(frames.ok());
    CHECK(frames->seq == seq);
  }
}

TEST_CASE("a live message has a topic, a number and a payload, or no number") {
  auto numbered = ParseKvLiveFrames(Frames{"kv@a@m", kSeven, "payload"});
  REQUIRE(numbered.ok());
  CHECK(numbered->topic == "kv@a@m");
  CHECK(numbered->has_seq);
  CHECK(numbered->seq == 7);
  CHECK(numbered->payload == "payload");

  auto unnumbered = ParseKvLiveFrames(Frames{"", "payload"});
  REQUIRE(unnumbered.ok());
  CHECK(unnumbered->topic.empty());
  CHECK_FALSE(unnumbered->has_seq);
  CHECK(unnumbered->payload == "payload");
}

TEST_CASE("a live message of a wrong form is refused, and the text says what is wrong") {
  const auto message = [](const Frames& frames) {
    auto parsed = ParseKvLiveFrames(frames);
    CHECK(parsed.status().code() == StatusCode::kInvalidArgument);
    return parsed.status().message();
  };
  CHECK(message({}) == "a message of events has 0 frames instead of 2 or 3");
  CHECK(message({"p"}) == "a message of events has 1 frames instead of 2 or 3");
  CHECK(message({"", kSeven, "p", "q"}) == "a message of events has 4 frames instead of 2 or 3");
  CHECK(message({"", "1234567", "p"}) == "the sequence number's frame has 7 bytes instead of 8");
  CHECK(message({"", "", "p"}) == "the sequence number's frame has 0 bytes instead of 8");
  CHECK(message({"", kEnd, "p"}) == "the sequence number 2^64 - 1 ends replays");
}

TEST_CASE("a replayed message is read in both framings, and so is its end") {
  auto old_form = ParseKvReplayFrames(Frames{"", kSeven, "payload"});
  REQUIRE(old_form.ok());
  CHECK(old_form->seq == 7);
  CHECK(old_form->payload == "payload");
  auto new_form = ParseKvReplayFrames(Frames{"", "kv@a@m", kSeven, "payload"});
  REQUIRE(new_form.ok());
  CHECK(new_form->topic == "kv@a@m");
  CHECK(new_form->seq == 7);
  CHECK(new_form->payload == "payload");
  auto without_delimiter = ParseKvReplayFrames(Frames{kSeven, "payload"});
  REQUIRE(without_delimiter.ok());
  CHECK(without_delimiter->seq == 7);

  auto old_end = ParseKvReplayFrames(Frames{"", kEnd, ""});
  REQUIRE(old_end.ok());
  CHECK(old_end->seq == kKvEndOfReplay);
  auto new_end = ParseKvReplayFrames(Frames{"", "", kEnd, ""});
  REQUIRE(new_end.ok());
  CHECK(new_end->seq == kKvEndOfReplay);
}

TEST_CASE("a replayed message of a wrong form is refused, and the text says what is wrong") {
  const auto message = [](const Frames& frames) {
    auto parsed = ParseKvReplayFrames(frames);
    CHECK(parsed.status().code() == StatusCode::kInvalidArgument);
    return parsed.status().message();
  };
  CHECK(message({""}) == "a replayed message has 1 frames instead of 3 or 4");
  CHECK(message({"", "", kSeven, "p", ""}) == "a replayed message has 5 frames instead of 3 or 4");
  CHECK(message({"topic", kSeven, "p"}) ==
        "the first frame of a replayed message has 5 bytes instead of none");
  CHECK(message({"", "123", "p"}) == "the sequence number's frame has 3 bytes instead of 8");
}

TEST_CASE("a topic names address and model, which may hold slashes and at signs") {
  struct Case {
    std::string_view topic, address, host;
    uint16_t port;
    std::string_view model;
  };
  for (const Case& c : std::vector<Case>{
           {"kv@10.0.0.7:8000@org/model", "10.0.0.7:8000", "10.0.0.7", 8000, "org/model"},
           {"kv@10.0.0.7@org/model", "10.0.0.7", "10.0.0.7", 0, "org/model"},
           {"kv@pod-1:65535@a@b/c@d", "pod-1:65535", "pod-1", 65535, "a@b/c@d"},
           {"kv@pod-1@", "pod-1", "pod-1", 0, ""},
           {"kv@[::1]:8000@m", "[::1]:8000", "::1", 8000, "m"},
           {"kv@[fe80::1]@m", "[fe80::1]", "fe80::1", 0, "m"},
           {"kv@fe80::1@m", "fe80::1", "fe80::1", 0, "m"},
           {"", "", "", 0, ""},
       }) {
    INFO(c.topic);
    auto topic = ParseKvTopic(c.topic);
    REQUIRE(topic.ok());
    CHECK(topic->address == c.address);
    CHECK(topic->host == c.host);
    CHECK(topic->port == c.port);
    CHECK(topic->model == c.model);
  }
}

TEST_CASE("topics of other forms are refused by name") {
  for (const std::string_view topic :
       {"kv-events", "kv@", "kv@a", "kv@@m", "kv@:8000@m", "kv@a:@m", "kv@a:0@m", "kv@a:65536@m",
        "kv@a:80x@m", "kv@[::1@m", "kv@[::1]8000@m", "kv@[]:1@m", "KV@a@m", "load"}) {
    INFO(topic);
    auto parsed = ParseKvTopic(topic);
    CHECK(parsed.status().code() == StatusCode::kInvalidArgument);
    CHECK(parsed.status().message().find(topic) != std::string::npos);
  }
}

}  // namespace prefixrouter
