// KvEventDecoder on msgpack: the samples of formats, each field in each of its forms, and what is
// left out.
#include <cmath>
#include <string>

#include "prefixrouter/kv_events.h"
#include "tests/catch.h"
#include "tests/support/kv_events.h"
#include "tests/support/msgpack.h"

namespace prefixrouter::testing {
namespace {

using namespace pack;  // NOLINT: a test's own words

struct Decoded {
  std::string text;
  std::string skipped;
};

Decoded Decode(const std::string& message) {
  KvEventDecoder decoder;
  const auto batch = decoder.Decode(message);
  INFO(batch.status().ToString());
  REQUIRE(batch.ok());
  return {ToText(**batch), ToText((*batch)->skipped)};
}

// Of a message with one event.
Decoded DecodeEvent(const std::string& event) {
  const Decoded decoded = Decode(Batch({event}));
  const std::string head = "1.500000 rank 0:";
  REQUIRE(decoded.text.substr(0, head.size()) == head);
  const std::string rest = decoded.text.substr(head.size());
  return {rest.empty() ? rest : rest.substr(3), decoded.skipped};
}

std::string Error(const std::string& message) {
  KvEventDecoder decoder;
  const auto batch = decoder.Decode(message);
  REQUIRE_FALSE(batch.ok());
  CHECK(batch.status().code() == StatusCode::kInvalidArgument);
  return batch.status().message();
}

// Stored: one block of two tokens, and these fields in place of the ones that it has.
std::string StoredMap(std::vector<std::string> fields) {
  std::vector<std::string> all = {
      Str("type"),      Str("BlockStored"), Str("block_hashes"), Uints({9}),
      Str("token_ids"), Uints({1, 2}),      Str("block_size"),   Uint(2)};
  all.insert(all.end(), fields.begin(), fields.end());
  return Map(all);
}
const std::string kStoredText = "stored gpu ids 9 size 2 tokens 1,2";

}  // namespace

TEST_CASE("msgpack events: the samples") {
  const Decoded old = Decode(Sample("vllm_0.10"));
  CHECK(old.text ==
        "1.500000 rank 0:\n"
        "  stored gpu ids 1,9223372036854775813 size 4 tokens 1,2,3,4,5,6,7,8\n"
        "  removed gpu ids 7\n"
        "  cleared");
  CHECK(old.skipped.empty());

  const Decoded full = Decode(Sample("vllm_0.20"));
  CHECK(full.text ==
        "2.500000 rank 3:\n"
        "  stored cpu ids 1736447835066146335 size 5 tokens 1,2,3,300,70000 group 1 partial"
        " adapter ad salt salt content 0:mmid@-2\n"
        "  removed cpu ids 1736447835066146335 group 1");
  CHECK(full.skipped == "unknown_event 1");

  const Decoded map = Decode(Sample("map"));
  CHECK(map.text ==
        "2.500000 rank 0:\n  stored gpu ids 9223372036854775813 parent 5 size 2 tokens 1,2");
  CHECK(map.skipped == "unknown_field 1");

  const Decoded sglang = Decode(Sample("sglang"));
  CHECK(sglang.text ==
        "2.500000 rank 0:\n"
        "  stored gpu ids 14850945156136412735 parent 8635429971592222890 size 1 tokens 1 salt t\n"
        "  removed cpu ids 18446744073709551615");
  CHECK(sglang.skipped.empty());

  CHECK(Decode(Sample("empty")).text == "0.000000:");
  CHECK(Decode(Sample("empty_0.8.5")).text == "0.000000:");
}

TEST_CASE("msgpack events: the forms of a message") {
  const std::string events = Array({Array({Str("AllBlocksCleared")})});
  // Milliseconds, as Mooncake sends them, and whole seconds.
  CHECK(Decode(Array({Uint64(1780000000500), events, Uint(2)})).text ==
        "1780000000.500000 rank 2:\n  cleared");
  CHECK(Decode(Array({Uint(1780000000), events, Nil()})).text == "1780000000.000000:\n  cleared");
  CHECK(Decode(Array({Nil(), events})).text == "no time:\n  cleared");
  const Decoded more = Decode(Array({Float(1), events, Uint(1), Str("new"), Array({Nil()})}));
  CHECK(more.text == "1.000000 rank 1:\n  cleared");
  CHECK(more.skipped == "unknown_field 2");
  const Decoded map = Decode(Map({Str("data_parallel_rank"), Uint(1), Array({Nil()}), Nil(),
                                  Str("events"), events, Str("ts"), Float(2)}));
  CHECK(map.text == "2.000000 rank 1:\n  cleared");
  CHECK(map.skipped == "unknown_field 1");
}

TEST_CASE("msgpack events: what is no batch as a whole is refused, and the text says where") {
  CHECK(Error("") == "the message ends at byte 0 of 0");
  CHECK(Error(Uint(7)) == "no batch of events: neither an array nor a map at byte 1 of 1");
  CHECK(Error(Array({Float(1)})) == "no batch of events: the array is too short at byte 1 of 10");
  CHECK(Error(Array({Str("now"), Array({})})) == "the batch's time is no number at byte 1 of 6");
  CHECK(Error(Array({Float(1), Uint(3)})) == "the batch's events are no array at byte 10 of 11");
  CHECK(Error(Array({Float(1), Array({}), Int64(-1)})) ==
        "the batch's rank is no number of 32 bits at byte 11 of 20");
  CHECK(Error(Sample("map") + "\x01") == "something behind the message at byte 136 of 137");
  CHECK(Error(Map({Str("ts"), Float(1)})) ==
        "no batch of events: the map has none at byte 13 of 13");
  CHECK(Error("\xc1") == "no msgpack at byte 0 of 1");
}

TEST_CASE("msgpack events: block numbers in each form are the same 64 bits") {
  const std::string bytes16 = std::string(8, 'x') + Big(77, 8);
  const auto removed = [](const std::string& id) {
    return DecodeEvent(Array({Str("BlockRemoved"), Array({id})})).text;
  };
  CHECK(removed(Uint(77)) == "removed gpu ids 77");
  CHECK(removed(Uint64(77)) == "removed gpu ids 77");
  CHECK(removed(Int64(77)) == "removed gpu ids 77");
  CHECK(removed("\xd0\x4d") == "removed gpu ids 77");
  CHECK(removed("\xd1" + Big(77, 2)) == "removed gpu ids 77");
  CHECK(removed("\xd2" + Big(77, 4)) == "removed gpu ids 77");
  CHECK(removed(Bin(bytes16)) == "removed gpu ids 77");
  CHECK(removed(Str(bytes16)) == "removed gpu ids 77");
  CHECK(removed(Bin(std::string(24, '\0') + Big(77, 8))) == "removed gpu ids 77");
  CHECK(removed(Bin("\x4d")) == "removed gpu ids 77");
  for (const std::string& minus_one :
       {std::string("\xff"), Int64(-1), "\xd0\xff" + std::string(), Uint64(UINT64_MAX)}) {
    CHECK(removed(minus_one) == "removed gpu ids 18446744073709551615");
  }
}

TEST_CASE("msgpack events: token ids of each width, side by side") {
  std::vector<uint64_t> tokens;
  for (uint64_t i = 0; i < 64; ++i) {
    for (uint64_t token :
         {uint64_t{5}, uint64_t{0x7f}, uint64_t{0x80}, uint64_t{0xff}, uint64_t{0x100},
          uint64_t{0xffff}, uint64_t{0x10000}, uint64_t{0xffffffff}}) {
      // Runs of equal widths, of all lengths, and mixtures.
      for (uint64_t repeat = 0; repeat <= i % 7; ++repeat) tokens.push_back(token);
      if (i % 3 == 0) tokens.push_back(i);
    }
  }
  std::string expected = "stored gpu ids 9 size " + std::to_string(tokens.size()) + " tokens ";
  for (size_t i = 0; i < tokens.size(); ++i) {
    expected += (i == 0 ? "" : ",") + std::to_string(tokens[i]);
  }
  std::string wide = ArrayHead(tokens.size());
  std::string some_wide = ArrayHead(tokens.size());
  for (size_t i = 0; i < tokens.size(); ++i) {
    wide += Uint64(tokens[i]);
    some_wide += i % 5 == 0 ? Int64(static_cast<int64_t>(tokens[i])) : Uint(tokens[i]);
  }
  for (const std::string& form : {Uints(tokens), wide, some_wide}) {
    CHECK(DecodeEvent(Stored({Uints({9}), Nil(), form, Uint(tokens.size())})).text == expected);
  }
  for (const std::string& bad :
       {Uint64(uint64_t{1} << 32), Int64(-1), std::string("\xff"), Str("5"), Nil(), Float(5)}) {
    for (size_t at : {0, 1, 15}) {
      std::string array = ArrayHead(16);
      for (size_t i = 0; i < 16; ++i) array += i == at ? bad : Uint(i);
      const Decoded decoded = DecodeEvent(Stored({Uints({9}), Nil(), array, Uint(16)}));
      CHECK(decoded.text.empty());
      CHECK(decoded.skipped == "malformed_event 1");
    }
  }
}

TEST_CASE("msgpack events: tiers, in any case, and where none is named") {
  const auto tier = [](const std::string& medium) {
    const std::string text = DecodeEvent(Array({Str("BlockRemoved"), Uints({9}), medium})).text;
    return text.substr(8, text.find(" ids") - 8);
  };
  CHECK(tier(Nil()) == "gpu");
  CHECK(tier(Str("GPU")) == "gpu");
  CHECK(tier(Str("gpu")) == "gpu");
  CHECK(tier(Str("CPU")) == "cpu");
  CHECK(tier(Str("cpu_pinned")) == "cpu");
  CHECK(tier(Str("DISK")) == "disk");
  CHECK(tier(Str("storage")) == "disk");
  CHECK(tier(Str("EXTERNAL")) == "external");
  CHECK(tier(Str("SHARED_STORAGE")) == "external");
  CHECK(tier(Str("TAPE")) == "external");
  // Held by another machine, whatever it is held in.
  CHECK(
      DecodeEvent(Array({Str("BlockRemoved"), Uints({9}), Str("CPU"), Nil(), Str("REMOTE"), Nil()}))
          .text == "removed external ids 9");
  CHECK(DecodeEvent(StoredMap({Str("locality"), Str("LOCAL")})).text == kStoredText);
}

TEST_CASE("msgpack events: kinds of attention") {
  const auto kind = [](const std::string& name) {
    return DecodeEvent(StoredMap({Str("kv_cache_spec_kind"), Str(name)})).text;
  };
  for (const char* full : {"full_attention", "mla_attention", "sink_full_attention"}) {
    CHECK(kind(full) == kStoredText);
  }
  for (const char* partial :
       {"sliding_window", "sliding_window_mla", "chunked_local_attention", "mamba"}) {
    CHECK(kind(partial) == kStoredText + " partial");
  }
  for (const char* other : {"encoder_only_attention", "cross_attention", "new_attention"}) {
    CHECK(kind(other) == kStoredText + " not_prefix");
  }
}

TEST_CASE("msgpack events: adapters by name, and by number where there is no name") {
  CHECK(DecodeEvent(StoredMap({Str("lora_id"), Uint(7), Str("lora_name"), Str("ad")})).text ==
        kStoredText + " adapter ad");
  CHECK(DecodeEvent(StoredMap({Str("lora_id"), Uint(7), Str("lora_name"), Nil()})).text ==
        kStoredText + " adapter 7");
  CHECK(DecodeEvent(Stored({Uints({9}), Nil(), Uints({1, 2}), Uint(2), Uint(1234567)})).text ==
        kStoredText + " adapter 1234567");
  CHECK(DecodeEvent(StoredMap({Str("lora_id"), Nil(), Str("lora_name"), Nil()})).text ==
        kStoredText);
}

TEST_CASE("msgpack events: extra keys are adapter, content and salt") {
  // Of an event with three blocks of one token.
  const auto extras = [](const std::vector<std::string>& blocks, bool root = true,
                         const std::string& adapter = Nil()) {
    const Decoded decoded = DecodeEvent(Map(
        {Str("type"), Str("BlockStored"), Str("block_hashes"), Uints({7, 8, 9}), Str("token_ids"),
         Uints({1, 2, 3}), Str("block_size"), Uint(1), Str("parent_block_hash"),
         root ? Nil() : Uint(6), Str("lora_name"), adapter, Str("extra_keys"), Array(blocks)}));
    const size_t tokens = decoded.text.find("tokens 1,2,3");
    const std::string rest =
        tokens == std::string::npos ? "nothing" : decoded.text.substr(tokens + 12);
    return rest + (decoded.skipped.empty() ? "" : "; " + decoded.skipped);
  };
  const auto item = [](const std::string& id, int offset) {
    return Array({Str(id), offset < 0 ? Int64(offset) : Uint(static_cast<uint64_t>(offset))});
  };
  CHECK(extras({Nil(), Nil(), Nil()}) == "");
  CHECK(extras({Array({}), Nil(), Array({})}) == "");
  // The adapter is no identifier; an identifier that is named like it is one.
  CHECK(extras({Array({Str("ad")}), Array({Str("ad")}), Array({Str("ad")})}, true, Str("ad")) ==
        " adapter ad");
  CHECK(extras({Array({Str("ad"), item("ad", 0)}), Nil(), Nil()}, true, Str("ad")) ==
        " adapter ad content 0:ad@0");
  // Newer engines: offsets. What stands alone behind them is the salt.
  CHECK(extras({Array({item("cat", 3), item("dog", 5), Str("s")}), Array({item("dog", -2)}),
                Nil()}) == " salt s content 0:cat@3 content 0:dog@5 content 1:dog@-2");
  CHECK(extras({Array({Str("ad"), Str("s")}), Array({Str("ad"), item("cat", 0)}), Nil()}, true,
               Str("ad")) == " adapter ad salt s content 1:cat@0");
  CHECK(extras({Array({Str("s")}), Nil(), Nil()}) == " salt s");
  CHECK(extras({Array({Str("s"), Bin("digest")}), Array({Bin("digest")}), Nil()}) ==
        " salt s content 0:digest content 1:digest");
  // Older engines: identifiers alone. Content that goes on in the next block is no salt, and a
  // salt is only in the first block of a prompt.
  CHECK(extras({Array({Str("cat")}), Array({Str("cat")}), Nil()}) ==
        " content 0:cat content 1:cat");
  CHECK(extras({Array({Str("cat"), Str("s")}), Array({Str("cat")}), Nil()}) ==
        " salt s content 0:cat content 1:cat");
  CHECK(extras({Array({Str("cat")}), Nil(), Nil()}, false) == " content 0:cat");
  CHECK(extras({Nil(), Array({Str("cat")}), Nil()}) == " content 1:cat");
  // What is not known is left out.
  CHECK(extras({Array({Uint(4), Float(1), Map({Str("a"), Nil()}), Str("s")}), Nil(), Nil()}) ==
        " salt s; unknown_field 3");
  CHECK(extras({Nil(), Nil()}) == "nothing; malformed_event 1");
  CHECK(extras({Nil(), Str("cat"), Nil()}) == "nothing; malformed_event 1");
  CHECK(extras({Array({Array({Nil(), Uint(1)})}), Nil(), Nil()}) == "nothing; malformed_event 1");
  CHECK(extras({Array({Array({Str("cat"), Uint64(UINT64_MAX)})}), Nil(), Nil()}) ==
        "nothing; malformed_event 1");
}

TEST_CASE("msgpack events: salts of SGLang") {
  const auto salted = [](const std::string& metadata) {
    return DecodeEvent(Stored({Uints({9}), Nil(), Uints({1, 2}), Uint(2), Nil(), Nil(), metadata}));
  };
  CHECK(salted(Map({Str("cache_salt"), Str("s"), Str("session_id"), Str("x")})).text ==
        kStoredText + " salt s");
  CHECK(salted(Map({Str("cache_salt"), Nil()})).text == kStoredText);
  CHECK(salted(Map({Str("new"), Array({Nil()})})).skipped == "unknown_field 1");
  CHECK(salted(Map({Str("cache_salt"), Uint(1)})).skipped == "malformed_event 1");
  CHECK(DecodeEvent(StoredMap({Str("cache_salt"), Str("s")})).text == kStoredText + " salt s");
}

TEST_CASE("msgpack events: blocks that are placed by offsets, up to the first that is left out") {
  const auto placed = [](const std::vector<uint64_t>& offsets) {
    const Decoded decoded = DecodeEvent(
        Map({Str("type"), Str("BlockStored"), Str("block_hashes"), Uints({7, 8, 9}),
             Str("token_ids"), Uints({1, 2, 3, 4, 5, 6, 7, 8}), Str("block_size"), Uint(2),
             Str("extra_keys"), Array({Nil(), Nil(), Array({Array({Str("cat"), Uint(0)})})}),
             Str("block_offsets"), Uints(offsets)}));
    return decoded.text + (decoded.skipped.empty() ? "" : "; " + decoded.skipped);
  };
  CHECK(placed({0, 1, 2}) == "stored gpu ids 7,8,9 size 2 tokens 1,2,3,4,5,6 content 2:cat@0");
  CHECK(placed({0, 1, 3}) == "stored gpu ids 7,8 size 2 tokens 1,2,3,4; not_dense 1");
  CHECK(placed({0, 2, 3}) == "stored gpu ids 7 size 2 tokens 1,2; not_dense 1");
  CHECK(placed({1, 2, 3}) == "; not_dense 1");
  CHECK(placed({0, 1}) == "; malformed_event 1");
}

TEST_CASE("msgpack events: a missing or wrong field costs its event alone") {
  const std::string good = Array({Str("BlockRemoved"), Uints({3})});
  const std::string base = "1.500000 rank 0:\n  removed gpu ids 3\n  removed gpu ids 3";
  const auto stored = [](const std::vector<std::string>& fields) { return Stored(fields); };
  const std::vector<std::string> bad = {
      Nil(),
      Uint(4),
      Array({}),
      Map({}),
      Array({Uint(1), Uints({1})}),
      Array({Str("BlockRemoved")}),
      Array({Str("BlockRemoved"), Nil()}),
      Array({Str("BlockRemoved"), Array({Nil()})}),
      Array({Str("BlockRemoved"), Array({Str("")})}),
      Array({Str("BlockRemoved"), Array({Float(1)})}),
      Array({Str("BlockRemoved"), Uints({1}), Uint(1)}),
      Array({Str("BlockRemoved"), Uints({1}), Nil(), Int64(-1)}),
      Array({Str("BlockRemoved"), Uints({1}), Nil(), Uint64(uint64_t{1} << 32)}),
      Map({Str("block_hashes"), Uints({1})}),
      Map({Str("type"), Uint(1)}),
      Map({Str("type"), Str("BlockRemoved"), Str("block_hashes"), Uints({1}), Str("block_hashes"),
           Uints({2})}),
      stored({Uints({1}), Nil(), Uints({1})}),
      stored({Uints({1}), Nil(), Uints({1}), Uint(0)}),
      stored({Uints({1}), Nil(), Uints({1}), Int64(-1)}),
      stored({Uints({1}), Nil(), Uints({1}), Uint((1 << 20) + 1)}),
      stored({Uints({1}), Nil(), Uints({1}), Nil()}),
      stored({Uints({1}), Float(1), Uints({1}), Uint(1)}),
      stored({Uints({1}), Nil(), Uint(1), Uint(1)}),
      stored({Uints({1}), Nil(), Uints({1}), Uint(1), Str("1")}),
      stored({Uints({1}), Nil(), Uints({1}), Uint(1), Nil(), Nil(), Uint(1)}),
      stored({Uints({1}), Nil(), Uints({1}), Uint(1), Nil(), Nil(), Nil(), Uint(1)}),
  };
  for (const std::string& event : bad) {
    const Decoded decoded = Decode(Batch({good, event, good}));
    CAPTURE(&event - bad.data());
    CHECK(decoded.text == base);
    CHECK(decoded.skipped == "malformed_event 1");
  }
}

TEST_CASE("msgpack events: the type of a map may stand behind other fields") {
  CHECK(DecodeEvent(Map({Str("block_hashes"), Uints({1}), Array({Nil(), Nil()}), Uint(1),
                         Str("type"), Str("BlockRemoved")}))
            .text == "removed gpu ids 1");
}

TEST_CASE("msgpack events: blocks without tokens, and events without blocks") {
  CHECK(DecodeEvent(Stored({Uints({1, 2}), Nil(), Uints({}), Uint(16), Nil(), Str("CPU")})).text ==
        "stored cpu ids 1,2 size 16 tokens none");
  CHECK(DecodeEvent(Stored({Uints({}), Nil(), Uints({}), Uint(16)})).text ==
        "stored gpu ids none size 16 tokens none");
  CHECK(DecodeEvent(Stored({Uints({}), Nil(), Uints({1}), Uint(1)})).skipped == "not_dense 1");
}

TEST_CASE("a decoder's events do not need the payload, and are those of the last message") {
  KvEventDecoder decoder;
  for (int round = 0; round < 3; ++round) {
    for (const SampleMessage& sample : SampleMessages()) {
      std::string payload = sample.bytes;
      const auto batch = decoder.Decode(payload);
      REQUIRE(batch.ok());
      std::fill(payload.begin(), payload.end(), '\xee');
      CHECK(ToText(**batch) == Decode(sample.bytes).text);
    }
    CHECK_FALSE(decoder.Decode("\x93").ok());
  }
}

TEST_CASE("the names of outcomes differ, and equal identifiers have equal hashes") {
  for (int i = 0; i < kKvEventOutcomeCount; ++i) {
    const std::string name = KvEventOutcomeName(static_cast<KvEventOutcome>(i));
    CHECK(name != "unknown");
    for (int j = 0; j < i; ++j) CHECK(name != KvEventOutcomeName(static_cast<KvEventOutcome>(j)));
  }
  CHECK(KvEventOutcomeName(static_cast<KvEventOutcome>(-1)) == std::string("unknown"));
  CHECK(MultimodalHash("cat") == MultimodalHash(std::string("cat")));
  CHECK(MultimodalHash("cat") != MultimodalHash("dog"));
  CHECK(MultimodalHash(std::string(1000, 'x')) != MultimodalHash(std::string(1001, 'x')));
}

}  // namespace prefixrouter::testing
