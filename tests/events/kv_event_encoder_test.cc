// EncodeKvEvents: what it writes is what engines write, and KvEventDecoder reads it back.
#include <cmath>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <vector>

#include "prefixrouter/kv_events.h"
#include "tests/catch.h"
#include "tests/support/kv_events.h"

namespace prefixrouter::testing {
namespace {

constexpr KvEventEncoding kEncodings[] = {KvEventEncoding::kArrays, KvEventEncoding::kArraysShort,
                                          KvEventEncoding::kMaps, KvEventEncoding::kSglangArrays};

std::string Encode(const KvEventBatch& batch, KvEventEncoding encoding, bool bytes_ids = false) {
  Result<std::string> message = EncodeKvEvents(batch, encoding, bytes_ids);
  INFO(message.status().ToString());
  REQUIRE(message.ok());
  return *std::move(message);
}

// A sample message, decoded and written again.
std::string Again(const std::string& message, KvEventEncoding encoding, bool bytes_ids = false) {
  KvEventDecoder decoder;
  const auto batch = decoder.Decode(message);
  REQUIRE(batch.ok());
  return Encode(**batch, encoding, bytes_ids);
}

void Replace(std::string* bytes, const std::string& from_hex, const std::string& to_hex) {
  const std::string from = FromHex(from_hex);
  const size_t at = bytes->find(from);
  REQUIRE(at != std::string::npos);
  bytes->replace(at, from.size(), FromHex(to_hex));
}

// Random events that an encoding can say, and all that they borrow from.
class RandomBatch {
 public:
  RandomBatch(std::mt19937_64& random, KvEventEncoding encoding)
      : random_(random),
        arrays_or_maps_(encoding == KvEventEncoding::kArrays || encoding == KvEventEncoding::kMaps),
        maps_(encoding == KvEventEncoding::kMaps),
        sglang_(encoding == KvEventEncoding::kSglangArrays) {
    batch_.timestamp_s = static_cast<double>(Below(1'000'000'000)) / 8;
    batch_.has_rank = Below(2) == 0;
    if (batch_.has_rank) batch_.rank = static_cast<uint32_t>(random_());
    const size_t count = Below(5);
    for (size_t i = 0; i < count; ++i) events_.push_back(MakeEvent());
    batch_.events = events_;
  }

  const KvEventBatch& batch() const { return batch_; }

 private:
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  // Of all widths.
  uint64_t Number() { return random_() >> Below(64); }
  std::string_view Text() {
    texts_.emplace_back();
    const size_t size = 1 + Below(40);
    for (size_t i = 0; i < size; ++i) texts_.back() += static_cast<char>(Below(256));
    return texts_.back();
  }

  KvEvent MakeEvent() {
    KvEvent event;
    event.kind = static_cast<KvEventKind>(Below(3));
    if (event.kind == KvEventKind::kCleared) return event;
    event.tier = static_cast<KvTier>(Below(kKvTierCount));
    if (arrays_or_maps_) event.group = static_cast<uint32_t>(Number());
    ids_.emplace_back();
    const size_t blocks = Below(40);
    for (size_t i = 0; i < blocks; ++i) ids_.back().push_back(Number());
    event.block_ids = ids_.back();
    if (event.kind == KvEventKind::kRemoved) return event;

    event.has_parent = Below(2) == 0;
    if (event.has_parent) event.parent_id = Number();
    event.block_size = 1 + static_cast<uint32_t>(Below(40));
    if (Below(4) != 0) {
      tokens_.emplace_back();
      for (size_t i = 0; i < blocks * event.block_size; ++i) {
        tokens_.back().push_back(static_cast<uint32_t>(Number()));
      }
      event.tokens = tokens_.back();
    }
    if (arrays_or_maps_) {
      event.attention = static_cast<KvAttention>(Below(3));
      if (Below(3) == 0) event.adapter = Text();
      if (Below(3) == 0) event.multimodal = MakeContents(blocks);
    }
    // Arrays have a place for it only in the first block of a prompt, or beside other content.
    const bool root = !event.has_parent || event.parent_id == 0;
    const bool salt_has_place =
        maps_ || sglang_ || (arrays_or_maps_ && blocks > 0 && (root || !event.multimodal.empty()));
    if (salt_has_place && Below(3) == 0) {
      event.salt = !event.adapter.empty() && Below(2) == 0 ? event.adapter : Text();
    }
    return event;
  }

  Span<const KvMultimodal> MakeContents(size_t blocks) {
    contents_.emplace_back();
    for (uint32_t block = 0; block < blocks; ++block) {
      for (uint64_t left = Below(3); left > 0; --left) {
        KvMultimodal item;
        item.block = block;
        item.identifier = Text();
        item.offset =
            Below(3) == 0 ? KvMultimodal::kUnknownOffset : static_cast<int64_t>(Below(1000)) - 500;
        contents_.back().push_back(item);
      }
    }
    return contents_.back();
  }

  std::mt19937_64& random_;
  const bool arrays_or_maps_;
  const bool maps_;
  const bool sglang_;
  std::deque<std::vector<uint64_t>> ids_;
  std::deque<std::vector<uint32_t>> tokens_;
  std::deque<std::vector<KvMultimodal>> contents_;
  std::deque<std::string> texts_;
  std::vector<KvEvent> events_;
  KvEventBatch batch_;
};

}  // namespace

TEST_CASE("encoded events are byte for byte what engines send") {
  CHECK(Again(Sample("vllm_0.10"), KvEventEncoding::kArraysShort) == Sample("vllm_0.10"));
  CHECK(Again(Sample("sglang"), KvEventEncoding::kSglangArrays) == Sample("sglang"));
  CHECK(Again(Sample("empty"), KvEventEncoding::kArrays) == Sample("empty"));

  std::string map = Sample("map");
  Replace(&map, "9189a474797065", "9188a474797065");
  Replace(&map, "a37a7a7a81a16101", "");
  CHECK(Again(Sample("map"), KvEventEncoding::kMaps) == map);

  // Without what a batch does not hold: the first bytes of digests, the adapter's number, the
  // window's length, the event that is not known.
  std::string full = Sample("vllm_0.20");
  for (int i = 0; i < 2; ++i) {
    Replace(&full, "c420000102030405060708090a0b0c0d0e0f1011121314151617",
            "c420000000000000000000000000000000000000000000000000");
  }
  Replace(&full, "0507a3435055", "05c0a3435055");
  Replace(&full, "77696e646f77cd0200", "77696e646f77c0");
  Replace(&full, "92ab4675747572654576656e7401", "");
  Replace(&full, "00939cab", "00929cab");
  CHECK(Again(Sample("vllm_0.20"), KvEventEncoding::kArrays, /*bytes_ids=*/true) == full);
}

TEST_CASE("encoded events are decoded to the same, in each encoding") {
  const uint64_t seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  KvEventDecoder decoder;
  for (int round = 0; round < 2000; ++round) {
    for (KvEventEncoding encoding : kEncodings) {
      const RandomBatch made(random, encoding);
      const std::string message = Encode(made.batch(), encoding, random() % 4 == 0);
      const auto batch = decoder.Decode(message);
      INFO(batch.status().ToString());
      REQUIRE(batch.ok());
      REQUIRE(ToText(**batch) == ToText(made.batch()));
      REQUIRE(ToText((*batch)->skipped).empty());
    }
  }
}

TEST_CASE("a batch without a time or a rank is encoded as such") {
  const KvEventBatch batch;
  KvEventDecoder decoder;
  const auto decoded = decoder.Decode(Encode(batch, KvEventEncoding::kMaps));
  REQUIRE(decoded.ok());
  CHECK(std::isnan((*decoded)->timestamp_s));
  CHECK_FALSE((*decoded)->has_rank);
}

TEST_CASE("what an encoding cannot say is refused by name") {
  const uint64_t ids[] = {7, 8};
  const uint32_t tokens[] = {1, 2, 3, 4};
  KvEvent good;
  good.kind = KvEventKind::kStored;
  good.block_ids = ids;
  good.block_size = 2;
  good.tokens = tokens;
  const auto error = [](const KvEvent& event, KvEventEncoding encoding) {
    KvEventBatch batch;
    batch.events = {&event, 1};
    const auto message = EncodeKvEvents(batch, encoding);
    if (message.ok()) return std::string();
    CHECK(message.status().code() == StatusCode::kInvalidArgument);
    return message.status().message();
  };
  for (KvEventEncoding encoding : kEncodings) CHECK(error(good, encoding) == "");

  const KvMultimodal content[] = {{0, "cat", 1}, {1, "dog", 0}};
  KvEvent event = good;
  event.multimodal = content;
  CHECK(error(event, KvEventEncoding::kArrays) == "");
  CHECK(error(event, KvEventEncoding::kArraysShort) ==
        "event 0: the encoding has no place for content");
  CHECK(error(event, KvEventEncoding::kSglangArrays) ==
        "event 0: the encoding has no place for content");
  event = good;
  event.adapter = "ad";
  CHECK(error(event, KvEventEncoding::kArraysShort) ==
        "event 0: the encoding has no place for an adapter");
  event = good;
  event.salt = "s";
  CHECK(error(event, KvEventEncoding::kArraysShort) ==
        "event 0: the encoding has no place for a salt");
  event.has_parent = true;
  event.parent_id = 3;
  CHECK(error(event, KvEventEncoding::kArrays) ==
        "event 0: the encoding has no place for a salt of blocks that have a parent");
  CHECK(error(event, KvEventEncoding::kMaps) == "");
  event = good;
  event.group = 1;
  CHECK(error(event, KvEventEncoding::kArraysShort) ==
        "event 0: the encoding has no place for a group of layers");
  event = good;
  event.attention = KvAttention::kPartial;
  CHECK(error(event, KvEventEncoding::kSglangArrays) ==
        "event 0: the encoding has no place for a kind of attention");
  event = good;
  event.block_size = 0;
  CHECK(error(event, KvEventEncoding::kMaps) == "event 0: block_size is 0");
  event.block_size = 3;
  CHECK(error(event, KvEventEncoding::kMaps) == "event 0: 4 tokens do not cover 2 blocks of 3");
  const KvMultimodal behind[] = {{2, "cat", 1}};
  event = good;
  event.multimodal = behind;
  CHECK(error(event, KvEventEncoding::kMaps) == "event 0: content in block 2 of 2, behind block 0");
  const KvMultimodal far[] = {{0, "cat", INT64_MAX}};
  event.multimodal = far;
  CHECK(error(event, KvEventEncoding::kMaps) == "event 0: content at offset 9223372036854775807");
  event = good;
  event.kind = static_cast<KvEventKind>(9);
  CHECK(error(event, KvEventEncoding::kMaps) == "event 0: kind is 9");
  event = good;
  event.tier = static_cast<KvTier>(9);
  CHECK(error(event, KvEventEncoding::kMaps) == "event 0: tier is 9");
  CHECK(error(good, static_cast<KvEventEncoding>(9)) == "encoding is 9");
  KvEventBatch late;
  late.timestamp_s = 1e12;
  CHECK(EncodeKvEvents(late, KvEventEncoding::kMaps).status().message() ==
        "timestamp_s is no time in seconds");
}

}  // namespace prefixrouter::testing
