// What broke in other routers when they read the events of engines: events and fields that are not
// known, several forms in one stream, tokens that do not cover the blocks, malformed messages.
//
// Each test restates one public report (named above it) as input and right result. The tag
// [case-NN] is the number that docs and commit messages use.
#include <cstdint>
#include <string>
#include <vector>

#include "prefixrouter/kv_events.h"
#include "tests/catch.h"
#include "tests/support/kv_events.h"
#include "tests/support/msgpack.h"

namespace prefixrouter::testing {
namespace {

using namespace pack;  // NOLINT: a test's own words

std::string Decode(const std::string& message, KvEventFormat format = KvEventFormat::kMsgpack) {
  KvEventDecoder decoder(format);
  const auto batch = decoder.Decode(message);
  INFO(batch.status().ToString());
  REQUIRE(batch.ok());
  const std::string skipped = ToText((*batch)->skipped);
  return ToText(**batch) + (skipped.empty() ? "" : "\n  skipped: " + skipped);
}

bool IsMessage(const std::string& message, KvEventFormat format = KvEventFormat::kMsgpack) {
  KvEventDecoder decoder(format);
  const auto batch = decoder.Decode(message);
  if (!batch.ok()) {
    CHECK(batch.status().code() == StatusCode::kInvalidArgument);
    CHECK_FALSE(batch.status().message().empty());
  }
  return batch.ok();
}

std::string RemovedMap(uint64_t id) {
  return Map({Str("type"), Str("BlockRemoved"), Str("block_hashes"), Uints({id})});
}
std::string RemovedArray(uint64_t id) { return Array({Str("BlockRemoved"), Uints({id})}); }

}  // namespace

// dynamo 14530
TEST_CASE("An unknown event or field costs itself alone", "[cases][case-46]") {
  const std::string unknown = Array({Str("BlockPinned"), Uints({1}), Map({Str("a"), Array({})})});
  const std::string unknown_map =
      Map({Str("why"), Array({Nil()}), Str("type"), Str("BlockPinned")});
  const std::string field =
      Map({Str("type"), Str("BlockRemoved"), Str("new"),
           Array({Array({Nil()}), Map({Uint(1), Nil()})}), Str("block_hashes"), Uints({2})});
  const std::string element = Array(
      {Str("BlockRemoved"), Uints({3}), Nil(), Nil(), Nil(), Nil(), Map({Str("a"), Array({})})});
  CHECK(Decode(Batch({RemovedArray(1), unknown, field, unknown_map, element, RemovedMap(4)})) ==
        "1.500000 rank 0:\n"
        "  removed gpu ids 1\n"
        "  removed gpu ids 2\n"
        "  removed gpu ids 3\n"
        "  removed gpu ids 4\n"
        "  skipped: unknown_event 2, unknown_field 2");
}

// vllm 42892, dynamo 3180
TEST_CASE("Arrays and maps mixed, signed and unsigned numbers, are the same events",
          "[cases][case-47]") {
  const auto stored_array = [](const std::string& id, const std::string& parent) {
    return Stored({Array({id}), parent, Uints({1, 70000}), Uint(2), Nil(), Str("GPU")});
  };
  const auto stored_map = [](const std::string& id, const std::string& parent) {
    return Map({Str("type"), Str("BlockStored"), Str("block_hashes"), Array({id}),
                Str("parent_block_hash"), parent, Str("token_ids"), Uints({1, 70000}),
                Str("block_size"), Uint(2), Str("lora_id"), Nil(), Str("medium"), Str("GPU"),
                Str("lora_name"), Nil()});
  };
  const std::string minus_one = "\xff";
  const std::string expected =
      "1.500000 rank 0:\n"
      "  stored gpu ids 18446744073709551615 size 2 tokens 1,70000\n"
      "  stored gpu ids 9223372036854775808 parent 18446744073709551615 size 2 tokens 1,70000\n"
      "  removed gpu ids 7";
  const std::string low = Int64(INT64_MIN);
  const std::string high = Uint64(uint64_t{1} << 63);
  for (const auto& first : {stored_array(minus_one, Nil()), stored_map(minus_one, Nil()),
                            stored_array(Uint64(UINT64_MAX), Nil())}) {
    for (const auto& second : {stored_array(low, Int64(-1)), stored_map(high, minus_one),
                               stored_map(Bin(high.substr(1)), Uint64(UINT64_MAX))}) {
      for (const auto& third : {RemovedArray(7), RemovedMap(7)}) {
        CHECK(Decode(Batch({first, second, third})) == expected);
      }
    }
  }
}

// vllm 44451
TEST_CASE("An event whose tokens do not cover its blocks is left out alone", "[cases][case-49]") {
  const std::string dense = Stored({Uints({1, 2}), Nil(), Uints({1, 2, 3, 4}), Uint(2)});
  const std::string masked = Stored({Uints({3, 4}), Uint(2), Uints({5, 6, 7, 8, 9, 10}), Uint(2)});
  CHECK(Decode(Batch({dense, masked, RemovedArray(9)})) ==
        "1.500000 rank 0:\n"
        "  stored gpu ids 1,2 size 2 tokens 1,2,3,4\n"
        "  removed gpu ids 9\n"
        "  skipped: not_dense 1");
}

// llm-d 2927
TEST_CASE("An adapter that is repeated among the extra keys is no content", "[cases][case-52]") {
  CHECK(Decode(Batch({Stored({Uints({1, 2}), Nil(), Uints({1, 2}), Uint(1), Uint(3), Nil(),
                              Str("ad"), Array({Array({Str("ad")}), Array({Str("ad")})})})})) ==
        "1.500000 rank 0:\n  stored gpu ids 1,2 size 1 tokens 1,2 adapter ad");
}

// dynamo 866, TensorRT-LLM 5580
TEST_CASE("Partial blocks and smaller windows of TensorRT-LLM are left out", "[cases][case-57]") {
  const auto tokens = [](int count) {
    std::string text = "[";
    for (int i = 0; i < count; ++i) {
      text += (i == 0 ? "" : ",") + std::string(R"({"token_id":)") + std::to_string(i) + "}";
    }
    return text + "]";
  };
  const auto event = [](int id, int window, const std::string& blocks) {
    return R"({"event_id":)" + std::to_string(id) + R"(,"window_size":)" + std::to_string(window) +
           R"(,"data":{"type":"stored","parent_hash":null,"blocks":[)" + blocks + "]}}";
  };
  const auto block = [&](int hash, int count) {
    return R"({"block_hash":)" + std::to_string(hash) + R"(,"tokens":)" + tokens(count) + "}";
  };
  KvEventDecoder decoder(KvEventFormat::kTrtLlmJson);
  const auto batch =
      decoder.Decode("[" + event(0, 4096, block(1, 32) + "," + block(2, 20)) + "," +
                     event(1, 512, block(3, 32)) + "," + event(2, 4096, block(4, 20)) + "]");
  REQUIRE(batch.ok());
  REQUIRE((*batch)->events.size() == 1);
  CHECK((*batch)->events[0].block_ids.size() == 1);
  CHECK((*batch)->events[0].block_ids[0] == 1);
  CHECK((*batch)->events[0].tokens.size() == 32);
  CHECK(ToText((*batch)->skipped) == "partial_block 2, smaller_window 1");
}

// decoders in general
TEST_CASE("A message that ends anywhere is refused, and the next is read", "[cases][case-58]") {
  for (const SampleMessage& sample : SampleMessages()) {
    KvEventDecoder decoder;
    for (size_t size = 0; size < sample.bytes.size(); ++size) {
      CAPTURE(sample.name, size);
      CHECK_FALSE(IsMessage(sample.bytes.substr(0, size)));
      CHECK_FALSE(decoder.Decode(sample.bytes.substr(0, size)).ok());
    }
    const auto batch = decoder.Decode(sample.bytes);
    REQUIRE(batch.ok());
    CHECK(ToText(**batch) == Decode(sample.bytes).substr(0, ToText(**batch).size()));
  }
}

TEST_CASE("Lengths that the message has no bytes for are refused", "[cases][case-58]") {
  const std::string huge = Big(0xffffffff, 4);
  const std::string head = ArrayHead(3) + Float(1);
  const std::vector<std::string> values = {"\xdd" + huge, "\xdf" + huge, "\xdb" + huge,
                                           "\xc6" + huge, "\xc9" + huge};
  for (const std::string& value : values) {
    CHECK_FALSE(IsMessage(value));
    CHECK_FALSE(IsMessage(head + value));
    const std::string events = head + ArrayHead(1);
    CHECK_FALSE(IsMessage(events + value));
    const std::string stored = events + ArrayHead(5) + Str("BlockStored");
    CHECK_FALSE(IsMessage(stored + value));
    CHECK_FALSE(IsMessage(stored + Uints({1}) + Nil() + value));
    CHECK_FALSE(IsMessage(events + MapHead(1) + value));
    CHECK_FALSE(IsMessage(events + ArrayHead(2) + Str("BlockPinned") + value));
  }
}

TEST_CASE("Nesting takes no stack", "[cases][case-58]") {
  for (size_t depth : {1000, 1000000}) {
    const std::string arrays = std::string(depth, '\x91') + Nil();
    std::string maps;
    for (size_t i = 0; i < depth; ++i) maps += "\x81\x01";
    maps += Nil();
    for (const std::string& deep : {arrays, maps}) {
      const std::string event = Map(
          {Str("type"), Str("BlockRemoved"), Str("zzz"), deep, Str("block_hashes"), Uints({1})});
      CHECK(Decode(Batch({event, Array({Str("BlockPinned"), deep}), RemovedArray(2)})) ==
            "1.500000 rank 0:\n"
            "  removed gpu ids 1\n"
            "  removed gpu ids 2\n"
            "  skipped: unknown_event 1, unknown_field 1");
    }
  }
}

}  // namespace prefixrouter::testing
