// KvEventDecoder on the JSON of TensorRT-LLM.
#include <string>
#include <vector>

#include "prefixrouter/kv_events.h"
#include "tests/catch.h"
#include "tests/support/kv_events.h"

namespace prefixrouter::testing {
namespace {

// An event of this number with this data, in a window of 4096.
std::string Event(int id, const std::string& data, const std::string& more = "") {
  return R"({"event_id": )" + std::to_string(id) + R"(, "data": )" + data +
         R"(, "window_size": 4096)" + more + "}";
}
std::string Tokens(int first, int count) {
  std::string text;
  for (int i = 0; i < count; ++i) {
    text += (i == 0 ? "" : ", ") + std::string(R"({"type": "unique_token", "token_id": )") +
            std::to_string(first + i) + R"(, "token_extra_id": 0})";
  }
  return "[" + text + "]";
}
std::string Block(const std::string& hash, const std::string& tokens, int level = 0,
                  const std::string& more = "") {
  return R"({"type": "stored_block", "block_hash": )" + hash + R"(, "tokens": )" + tokens +
         R"(, "cache_level": )" + std::to_string(level) + R"(, "priority": 35)" + more + "}";
}
std::string Stored(const std::string& parent, const std::vector<std::string>& blocks) {
  std::string text;
  for (const std::string& block : blocks) text += (text.empty() ? "" : ", ") + block;
  return R"({"type": "stored", "parent_hash": )" + parent + R"(, "blocks": [)" + text + "]}";
}
std::string Removed(const std::string& hashes) {
  return R"({"type": "removed", "block_hashes": [)" + hashes + "]}";
}
std::string Updated(const std::string& hash, int from, int to) {
  return R"({"type": "updated", "block_hash": )" + hash +
         R"(, "cache_level": {"type": "event_diff", "new_value": )" + std::to_string(to) +
         R"(, "old_value": )" + std::to_string(from) + R"(}, "priority": null})";
}
const char* const kCreated = R"({"type": "created", "num_blocks_per_cache_level": [100, 20]})";

std::string Decode(KvEventDecoder& decoder, const std::string& message) {
  const auto batch = decoder.Decode(message);
  INFO(batch.status().ToString());
  REQUIRE(batch.ok());
  std::string text = ToText(**batch);
  const std::string skipped = ToText((*batch)->skipped);
  if (!skipped.empty()) text += "\n  skipped: " + skipped;
  return text;
}
std::string DecodeOne(const std::string& message) {
  KvEventDecoder decoder(KvEventFormat::kTrtLlmJson);
  return Decode(decoder, message);
}

}  // namespace

TEST_CASE("TensorRT-LLM events: one object, and an array of them") {
  KvEventDecoder decoder(KvEventFormat::kTrtLlmJson);
  CHECK(decoder.last_event_id() == -1);
  CHECK(Decode(decoder, "[]") == "no time:");
  CHECK(Decode(decoder, Event(0, kCreated)) == "no time:\n  cleared");
  const std::string events =
      "[" + Event(1, Stored("null", {Block("7", Tokens(1, 4)), Block("8", Tokens(5, 4))})) + ", " +
      Event(2, Stored("8", {Block("9", Tokens(9, 4), 1)})) + ", " + Event(3, Updated("9", 1, 0)) +
      ", " + Event(4, Removed("7, 8")) + "]";
  CHECK(Decode(decoder, events) ==
        "no time:\n"
        "  stored gpu ids 7,8 size 4 tokens 1,2,3,4,5,6,7,8\n"
        "  stored cpu ids 9 parent 8 size 4 tokens 9,10,11,12\n"
        "  stored gpu ids 9 size 4 tokens none\n"
        "  removed cpu ids 9\n"
        "  removed gpu ids 7,8\n"
        "  removed cpu ids 7,8");
  CHECK(decoder.last_event_id() == 4);
  CHECK(decoder.lost_events() == 0);
}

TEST_CASE("TensorRT-LLM events: a chain over cache levels is divided where the level changes") {
  CHECK(DecodeOne(Event(0, Stored("5", {Block("7", Tokens(1, 2)), Block("8", Tokens(3, 2), 1),
                                        Block("9", Tokens(5, 2), 1)}))) ==
        "no time:\n"
        "  stored gpu ids 7 parent 5 size 2 tokens 1,2\n"
        "  stored cpu ids 8,9 parent 7 size 2 tokens 3,4,5,6");
}

TEST_CASE("TensorRT-LLM events: numbers that were left out are counted as lost") {
  KvEventDecoder decoder(KvEventFormat::kTrtLlmJson);
  Decode(decoder, Event(10, Removed("1")));
  CHECK(decoder.lost_events() == 0);
  Decode(decoder, "[" + Event(11, Removed("1")) + "," + Event(14, Removed("1")) + "]");
  CHECK(decoder.last_event_id() == 14);
  CHECK(decoder.lost_events() == 2);
  // A message that is refused changes nothing: its events are lost.
  CHECK_FALSE(decoder.Decode("[" + Event(15, Removed("1")) + ",").ok());
  CHECK(decoder.last_event_id() == 14);
  Decode(decoder, Event(16, Removed("1")));
  CHECK(decoder.lost_events() == 3);
}

TEST_CASE("TensorRT-LLM events: an engine that has restarted holds nothing") {
  KvEventDecoder decoder(KvEventFormat::kTrtLlmJson);
  Decode(decoder, Event(7, Stored("null", {Block("7", Tokens(1, 4))})));
  CHECK(Decode(decoder, Event(3, Stored("null", {Block("8", Tokens(1, 2))}))) ==
        "no time:\n  cleared\n  stored gpu ids 8 size 2 tokens 1,2");
  CHECK(decoder.lost_events() == 0);
}

TEST_CASE("TensorRT-LLM events: the number of tokens a block has is given, or learned") {
  TrtLlmOptions options;
  options.tokens_per_block = 4;
  KvEventDecoder given(KvEventFormat::kTrtLlmJson, options);
  CHECK(Decode(given, Event(0, Stored("null", {Block("7", Tokens(1, 2))}))) ==
        "no time:\n  skipped: partial_block 1");
  KvEventDecoder learned(KvEventFormat::kTrtLlmJson);
  CHECK(Decode(learned, Event(0, Stored("null", {Block("7", Tokens(1, 3))}))) ==
        "no time:\n  skipped: partial_block 1");
  CHECK(Decode(learned,
               Event(1, Stored("null", {Block("7", Tokens(1, 4)), Block("8", Tokens(5, 2))}))) ==
        "no time:\n  stored gpu ids 7 size 4 tokens 1,2,3,4\n  skipped: partial_block 1");
  // What stands behind a partial block cannot be placed behind another.
  CHECK(Decode(learned,
               Event(2, Stored("null", {Block("7", Tokens(1, 2)), Block("8", Tokens(5, 4))}))) ==
        "no time:\n  stored gpu ids 8 parent 7 size 4 tokens 5,6,7,8\n  skipped: partial_block 1");
}

TEST_CASE("TensorRT-LLM events: blocks of a window that turns out to be small are taken back") {
  const auto windowed = [](int id, int window, const std::string& hash) {
    return R"({"event_id": )" + std::to_string(id) + R"(, "window_size": )" +
           std::to_string(window) + R"(, "data": )" + Stored("null", {Block(hash, Tokens(1, 2))}) +
           "}";
  };
  KvEventDecoder decoder(KvEventFormat::kTrtLlmJson);
  CHECK(Decode(decoder, windowed(0, 512, "7")) == "no time:\n  stored gpu ids 7 size 2 tokens 1,2");
  CHECK(Decode(decoder, windowed(1, 4096, "8")) ==
        "no time:\n  cleared\n  stored gpu ids 8 size 2 tokens 1,2");
  CHECK(Decode(decoder, windowed(2, 512, "9")) == "no time:\n  skipped: smaller_window 1");
}

TEST_CASE("TensorRT-LLM events: each rank has a decoder") {
  const std::string rank0 = Event(0, Removed("1"), R"(, "attention_dp_rank": 0)");
  const std::string rank1 = Event(0, Removed("2"), R"(, "attention_dp_rank": 1)");
  const std::string both = "[" + rank0 + ", " + rank1 + "]";
  KvEventDecoder any(KvEventFormat::kTrtLlmJson);
  CHECK(Decode(any, rank1) == "no time rank 1:\n  removed gpu ids 2");
  const auto mixed = any.Decode(both);
  REQUIRE_FALSE(mixed.ok());
  CHECK(mixed.status().message() ==
        "events of attention_dp_rank 0 and 1 in one message; each rank needs a decoder");
  TrtLlmOptions options;
  options.rank = 1;
  KvEventDecoder second(KvEventFormat::kTrtLlmJson, options);
  CHECK(Decode(second, both) == "no time rank 1:\n  removed gpu ids 2");
  CHECK(Decode(second, rank0) == "no time:");
}

TEST_CASE("TensorRT-LLM events: content has keys, or tokens with extra ids") {
  const auto contents = [](const std::string& parent, const std::vector<std::string>& blocks) {
    const std::string text = DecodeOne(Event(0, Stored(parent, blocks)));
    return text.substr(text.find("tokens"));
  };
  CHECK(contents(
            "null",
            {Block("7", Tokens(1, 2), 0,
                   R"(, "mm_keys": [{"type": "mm_key", "hash": "ab", "start_offset": 0}])"),
             Block("8", Tokens(1, 2), 0, R"(, "mm_keys": [{"start_offset": 2, "hash": "ab"}])")}) ==
        "tokens 1,2,1,2 content 0:ab content 1:ab@-2");
  const auto token = [](int extra) {
    return R"({"token_id": 1, "token_extra_id": )" + std::to_string(extra) + "}";
  };
  const std::string first = "[" + token(0) + "," + token(5) + "]";
  const std::string second = "[" + token(5) + "," + token(6) + "]";
  CHECK(contents("null", {Block("7", first), Block("8", second)}) ==
        "tokens 1,1,1,1 content 0:5@1 content 1:5@-1 content 1:6@1");
  CHECK(contents("3", {Block("7", second), Block("8", first)}) ==
        "tokens 1,1,1,1 content 0:5 content 0:6@1 content 1:5@1");
}

TEST_CASE("TensorRT-LLM events: hashes as digits, groups of layers, and levels") {
  CHECK(DecodeOne(Event(0, Removed(R"("00ff", "0123456789abcdef0000000000000001", -1)"),
                        R"(, "layer_group_id": 2, "hash_algo": "v2_sha256")")) ==
        "no time:\n  removed gpu ids 255,1,18446744073709551615 group 2");
  CHECK(DecodeOne(Event(0, Updated("3", 0, 2))) ==
        "no time:\n  stored disk ids 3 size 1 tokens none\n  removed gpu ids 3");
  CHECK(DecodeOne(Event(0, Updated("3", 3, 4))) == "no time:");
}

TEST_CASE("TensorRT-LLM events: a missing or wrong field costs its event alone") {
  const std::string good = Event(0, Removed("3"));
  for (const std::string& bad : {
           std::string("null"),
           std::string("7"),
           std::string("[]"),
           std::string("{}"),
           std::string(R"({"event_id": 1})"),
           std::string(R"({"event_id": 1, "data": null})"),
           Event(1, R"({"type": 5})"),
           Event(1, R"({"type": "removed"})"),
           Event(1, R"({"type": "removed", "block_hashes": 5})"),
           Event(1, R"({"type": "removed", "block_hashes": [1], "block_hashes": [2]})"),
           Event(1, Removed("1.5")),
           Event(1, Removed("null")),
           Event(1, Removed(R"("xyz")")),
           Event(1, Removed(R"("")")),
           Event(1, Removed("18446744073709551616")),
           Event(1, Stored("true", {})),
           Event(1, Stored("null", {"5"})),
           Event(1, Stored("null", {R"({"tokens": []})"})),
           Event(1, Stored("null", {Block("1", "[5]")})),
           Event(1, Stored("null", {Block("1", "[{}]")})),
           Event(1, Stored("null", {Block("1", R"([{"token_id": -1}])")})),
           Event(1, Stored("null", {Block("1", R"([{"token_id": 4294967296}])")})),
           Event(1, Stored("null", {Block("1", Tokens(1, 2), 32)})),
           Event(1, Updated("null", 0, 1)),
           Event(-1, Removed("1")),
           Event(1, Removed("1"), R"(, "attention_dp_rank": -1)"),
       }) {
    CAPTURE(bad);
    CHECK(DecodeOne("[" + good + "," + bad + "," + good.substr(0, 13) + "2" + good.substr(14) +
                    "]") ==
          "no time:\n  removed gpu ids 3\n  removed gpu ids 3\n  skipped: malformed_event 1");
  }
  CHECK(DecodeOne(Event(0, R"({"type": "paused"})")) == "no time:\n  skipped: unknown_event 1");
  CHECK(DecodeOne(Event(0, Removed("3"), R"(, "new": {"data": [{"event_id": 1}]})")) ==
        "no time:\n  removed gpu ids 3\n  skipped: unknown_field 1");
}

TEST_CASE("TensorRT-LLM events: what is no message as a whole is refused") {
  const auto error = [](const std::string& message) {
    KvEventDecoder decoder(KvEventFormat::kTrtLlmJson);
    const auto batch = decoder.Decode(message);
    REQUIRE_FALSE(batch.ok());
    CHECK(batch.status().code() == StatusCode::kInvalidArgument);
    return batch.status().message();
  };
  CHECK(error("") == "no JSON at byte 0 of 0");
  CHECK(error("5") == "no event of TensorRT-LLM and no array of them");
  CHECK(error("[1 2]") == "no JSON at byte 3 of 5");
  CHECK(error("[] []") == "no JSON at byte 3 of 5");
  const std::string message =
      "[" + Event(1, Stored("null", {Block("7", Tokens(1, 2))})) + "," + Event(2, kCreated) + "]";
  for (size_t size = 0; size < message.size(); ++size) error(message.substr(0, size));
}

TEST_CASE("TensorRT-LLM events: nesting is passed over") {
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += R"([{"a":)";
  deep += "1";
  for (int i = 0; i < 100000; ++i) deep += "}]";
  CHECK(DecodeOne(Event(0, Removed("3"), R"(, "new": )" + deep)) ==
        "no time:\n  removed gpu ids 3\n  skipped: unknown_field 1");
}

}  // namespace prefixrouter::testing
