// A message is [time, [event...], rank], or a map of these. An event is an array, whose first
// element is its tag and whose fields have their places, or a map with the tag under "type". Both
// are read field by field into a Draft, so what the fields mean is written down once.
//
// An event that something is wrong with is read a second time, to pass over it as a whole.
#include "lib/events/msgpack_decoder.h"

#include <algorithm>
#include <optional>
#include <string>

#include "lib/events/event_limits.h"
#include "lib/events/event_names.h"
#include "lib/events/msgpack_reader.h"

namespace prefixrouter {
namespace {

// Offset of a string among the extra keys that stands alone: an identifier, the adapter, the salt.
constexpr int64_t kAlone = KvMultimodal::kUnknownOffset + 1;

enum class Field : uint8_t {
  kBlockHashes,
  kParent,
  kTokens,
  kBlockSize,
  kLoraId,
  kMedium,
  kLoraName,
  kExtraKeys,
  kGroup,
  kAttention,
  kLocality,
  kBlockOffsets,
  kCacheSalt,
  kIgnored,  // known, and of no use here
  kUnknown,
};

// By place in an array, from behind the tag on.
constexpr Field kStoredFields[] = {
    Field::kBlockHashes, Field::kParent,   Field::kTokens,    Field::kBlockSize, Field::kLoraId,
    Field::kMedium,      Field::kLoraName, Field::kExtraKeys, Field::kGroup,     Field::kAttention,
    Field::kIgnored,  // the sliding window's length
    Field::kLocality,
    Field::kIgnored,  // ownership
    Field::kIgnored,  // session
};
constexpr Field kRemovedFields[] = {
    Field::kBlockHashes, Field::kMedium, Field::kGroup, Field::kLocality,
    Field::kIgnored,  // ownership
};

// By name in a map.
constexpr struct {
  std::string_view name;
  Field field;
} kFieldNames[] = {
    {"block_hashes", Field::kBlockHashes},
    {"parent_block_hash", Field::kParent},
    {"token_ids", Field::kTokens},
    {"block_size", Field::kBlockSize},
    {"lora_id", Field::kLoraId},
    {"medium", Field::kMedium},
    {"lora_name", Field::kLoraName},
    {"extra_keys", Field::kExtraKeys},
    {"group_idx", Field::kGroup},
    {"kv_cache_spec_kind", Field::kAttention},
    {"locality", Field::kLocality},
    {"block_offsets", Field::kBlockOffsets},
    {"cache_salt", Field::kCacheSalt},
    {"type", Field::kIgnored},
    {"kv_cache_spec_sliding_window", Field::kIgnored},
    {"ownership", Field::kIgnored},
    {"session_id", Field::kIgnored},
};

Field FieldOfName(std::string_view name) {
  for (const auto& known : kFieldNames) {
    if (known.name == name) return known.field;
  }
  return Field::kUnknown;
}

// What the fields of one event say.
struct Draft {
  bool Has(Field field) const { return (seen & Bit(field)) != 0; }
  // False: it was seen before.
  bool See(Field field) {
    if (Has(field)) return false;
    if (field != Field::kIgnored && field != Field::kUnknown) seen |= Bit(field);
    return true;
  }
  static uint32_t Bit(Field field) { return uint32_t{1} << static_cast<int>(field); }

  KvEvent event;
  uint32_t seen = 0;
  uint64_t unknown_fields = 0;
  bool remote = false;
  std::string_view lora_name;
  std::optional<uint64_t> lora_id;
  std::string_view salt;
  size_t extra_keys = 0;                // how many blocks have some, or none
  bool extra_pairs = false;             // some are identifiers with offsets
  std::optional<size_t> block_offsets;  // how many
  size_t leading_offsets = 0;           // how many of them are their own number
};

class Decoder {
 public:
  Decoder(std::string_view message, KvEventBuffer* buffer) : reader_(message), buffer_(*buffer) {}

  void DecodeMessage() {
    const MsgpackValue head = reader_.Read();
    if (head.IsArray()) {
      if (head.count < 2) reader_.Fail("no batch of events: the array is too short");
      ReadTime();
      ReadEvents();
      if (head.count > 2) ReadRank();
      SkipUnknownFields(head.count > 3 ? head.count - 3 : 0);
    } else if (head.IsMap()) {
      DecodeMessageMap(head.count);
    } else {
      reader_.Fail("no batch of events: neither an array nor a map");
    }
    if (!reader_.AtEnd()) reader_.Fail("something behind the message");
  }

 private:
  KvEventCounts& skipped() { return buffer_.batch.skipped; }

  void DecodeMessageMap(uint32_t count) {
    bool has_events = false;
    for (uint32_t i = 0; i < count; ++i) {
      const std::string_view name = ReadKey();
      if (name == "ts") {
        ReadTime();
      } else if (name == "events") {
        if (has_events) reader_.Fail("no batch of events: it has events twice");
        has_events = true;
        ReadEvents();
      } else if (name == "data_parallel_rank" || name == "attn_dp_rank" || name == "dp_rank") {
        ReadRank();
      } else {
        SkipUnknownFields(1);
      }
    }
    if (!has_events) reader_.Fail("no batch of events: the map has none");
  }

  // A map's next key. One that is no string is passed over, with what is in it, and empty here.
  std::string_view ReadKey() {
    const MsgpackValue key = reader_.Read();
    reader_.Skip(uint64_t{key.count} * (key.IsMap() ? 2 : 1));
    return key.IsString() ? key.text : std::string_view();
  }

  void SkipUnknownFields(uint64_t count) {
    reader_.Skip(count);
    skipped()[KvEventOutcome::kUnknownField] += count;
  }

  void ReadTime() {
    if (reader_.ReadNil()) return;
    const size_t begin = reader_.position();
    const MsgpackValue value = reader_.Read();
    double time;
    if (value.kind == MsgpackValue::Kind::kFloat) {
      time = value.number;
    } else if (value.IsInteger()) {
      time = static_cast<double>(static_cast<int64_t>(value.integer));
    } else {
      reader_.Seek(begin);
      reader_.Fail("the batch's time is no number");
    }
    // Mooncake sends milliseconds.
    buffer_.batch.timestamp_s = time > kMaxSeconds ? time / 1000 : time;
  }

  void ReadRank() {
    if (reader_.ReadNil()) return;
    const size_t begin = reader_.position();
    const MsgpackValue value = reader_.Read();
    if (!value.IsUnsigned() || value.integer > UINT32_MAX) {
      reader_.Seek(begin);
      reader_.Fail("the batch's rank is no number of 32 bits");
    }
    buffer_.batch.has_rank = true;
    buffer_.batch.rank = static_cast<uint32_t>(value.integer);
  }

  void ReadEvents() {
    const size_t begin = reader_.position();
    const MsgpackValue events = reader_.Read();
    if (!events.IsArray()) {
      reader_.Seek(begin);
      reader_.Fail("the batch's events are no array");
    }
    for (uint32_t i = 0; i < events.count; ++i) {
      const size_t event_begin = reader_.position();
      draft_ = {};
      const std::optional<KvEventOutcome> fault = ReadEvent();
      if (!fault) {
        skipped()[KvEventOutcome::kUnknownField] += draft_.unknown_fields;
        buffer_.Commit(draft_.event);
        continue;
      }
      ++skipped()[*fault];
      buffer_.Discard();
      reader_.Seek(event_begin);
      reader_.Skip(1);
    }
  }

  // Returns what is wrong with it, if something is; then the reader stands anywhere in it.
  std::optional<KvEventOutcome> ReadEvent() {
    const MsgpackValue head = reader_.Read();
    if (head.count == 0) return KvEventOutcome::kMalformedEvent;  // neither array nor map, or empty
    const size_t fields = reader_.position();
    std::string_view tag;
    if (head.IsArray()) {
      const MsgpackValue value = reader_.Read();
      if (!value.IsString()) return KvEventOutcome::kMalformedEvent;
      tag = value.text;
    } else {
      const std::optional<std::string_view> type = FindType(head.count);
      if (!type) return KvEventOutcome::kMalformedEvent;
      tag = *type;
      reader_.Seek(fields);
    }
    if (tag == kStoredTag) {
      draft_.event.kind = KvEventKind::kStored;
    } else if (tag == kRemovedTag) {
      draft_.event.kind = KvEventKind::kRemoved;
    } else if (tag == kClearedTag) {
      draft_.event.kind = KvEventKind::kCleared;
    } else {
      return KvEventOutcome::kUnknownEvent;
    }
    if (!(head.IsArray() ? ReadFieldsInPlace(head.count - 1) : ReadNamedFields(head.count))) {
      return KvEventOutcome::kMalformedEvent;
    }
    return Complete();
  }

  // The tag of an event that is a map. It is the first field, but other orders mean the same.
  std::optional<std::string_view> FindType(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      if (ReadKey() == "type") {
        const MsgpackValue type = reader_.Read();
        if (!type.IsString()) return std::nullopt;
        return type.text;
      }
      reader_.Skip(1);
    }
    return std::nullopt;
  }

  bool ReadFieldsInPlace(uint32_t count) {
    const Field* known = kStoredFields;
    size_t known_count = std::size(kStoredFields);
    if (draft_.event.kind == KvEventKind::kRemoved) {
      known = kRemovedFields;
      known_count = std::size(kRemovedFields);
    } else if (draft_.event.kind == KvEventKind::kCleared) {
      known_count = 0;
    }
    for (uint32_t i = 0; i < count; ++i) {
      if (!ReadField(i < known_count ? known[i] : Field::kUnknown)) return false;
    }
    return true;
  }

  bool ReadNamedFields(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
      if (!ReadField(FieldOfName(ReadKey()))) return false;
    }
    return true;
  }

  bool ReadField(Field field) {
    // Of the other kinds, only what BlockRemoved has is of use.
    if (draft_.event.kind != KvEventKind::kStored && field != Field::kIgnored &&
        (draft_.event.kind == KvEventKind::kCleared ||
         std::find(std::begin(kRemovedFields), std::end(kRemovedFields), field) ==
             std::end(kRemovedFields))) {
      field = Field::kUnknown;
    }
    if (!draft_.See(field)) return false;
    switch (field) {
      case Field::kBlockHashes:
        return ReadBlockHashes();
      case Field::kParent:
        return ReadParent();
      case Field::kTokens:
        return ReadTokens();
      case Field::kBlockSize: {
        const MsgpackValue value = reader_.Read();
        if (!value.IsUnsigned() || value.integer == 0 || value.integer > kMaxBlockSize)
          return false;
        draft_.event.block_size = static_cast<uint32_t>(value.integer);
        return true;
      }
      case Field::kLoraId: {
        if (reader_.ReadNil()) return true;
        const MsgpackValue value = reader_.Read();
        draft_.lora_id = value.integer;
        return value.IsInteger();
      }
      case Field::kMedium: {
        if (reader_.ReadNil()) return true;
        const MsgpackValue value = reader_.Read();
        draft_.event.tier = TierOfMedium(value.text);
        return value.IsString();
      }
      case Field::kLoraName:
        return ReadLoraName();
      case Field::kExtraKeys:
        return ReadExtraKeys();
      case Field::kGroup: {
        if (reader_.ReadNil()) return true;
        const MsgpackValue value = reader_.Read();
        if (!value.IsUnsigned() || value.integer > UINT32_MAX) return false;
        draft_.event.group = static_cast<uint32_t>(value.integer);
        return true;
      }
      case Field::kAttention: {
        if (reader_.ReadNil()) return true;
        const MsgpackValue value = reader_.Read();
        draft_.event.attention = AttentionOfKind(value.text);
        return value.IsString();
      }
      case Field::kLocality: {
        if (reader_.ReadNil()) return true;
        const MsgpackValue value = reader_.Read();
        draft_.remote = value.text == "REMOTE";
        return value.IsString();
      }
      case Field::kBlockOffsets:
        return ReadBlockOffsets();
      case Field::kCacheSalt:
        return ReadSalt();
      case Field::kUnknown:
        ++draft_.unknown_fields;
        [[fallthrough]];
      case Field::kIgnored:
        reader_.Skip(1);
        return true;
    }
    return false;
  }

  bool ReadBlockHashes() {
    const MsgpackValue hashes = reader_.Read();
    if (!hashes.IsArray()) return false;
    const size_t begin = buffer_.ids.size();
    buffer_.ids.resize(begin + hashes.count);
    return reader_.ReadBlockIds(hashes.count, buffer_.ids.data() + begin);
  }

  bool ReadParent() {
    if (reader_.ReadNil()) return true;
    draft_.event.has_parent = true;
    return MsgpackReader::ToBlockId(reader_.Read(), &draft_.event.parent_id);
  }

  bool ReadTokens() {
    if (reader_.ReadNil()) return true;
    const MsgpackValue tokens = reader_.Read();
    if (!tokens.IsArray()) return false;
    const size_t begin = buffer_.tokens.size();
    buffer_.tokens.resize(begin + tokens.count);
    return reader_.ReadTokens(tokens.count, buffer_.tokens.data() + begin);
  }

  // A name. In SGLang's arrays a map stands in its place, with the salt in it.
  bool ReadLoraName() {
    if (reader_.ReadNil()) return true;
    const MsgpackValue value = reader_.Read();
    draft_.lora_name = value.text;
    if (!value.IsMap()) return value.IsString();
    for (uint32_t i = 0; i < value.count; ++i) {
      const Field field = FieldOfName(ReadKey());
      if (field == Field::kCacheSalt) {
        if (!draft_.See(field) || !ReadSalt()) return false;
        continue;
      }
      if (field != Field::kIgnored) ++draft_.unknown_fields;
      reader_.Skip(1);
    }
    return true;
  }

  bool ReadSalt() {
    if (reader_.ReadNil()) return true;
    const MsgpackValue value = reader_.Read();
    draft_.salt = value.text;
    return value.IsString();
  }

  // The number of each block among those that the tokens are of, some of which are left out.
  bool ReadBlockOffsets() {
    if (reader_.ReadNil()) return true;
    const MsgpackValue offsets = reader_.Read();
    if (!offsets.IsArray()) return false;
    draft_.block_offsets = offsets.count;
    for (uint32_t i = 0; i < offsets.count; ++i) {
      const MsgpackValue offset = reader_.Read();
      if (!offset.IsUnsigned()) return false;
      if (draft_.leading_offsets == i && offset.integer == i) ++draft_.leading_offsets;
    }
    return true;
  }

  // What the hash of each block is made of beside its tokens: a list of the adapter's name,
  // identifiers of content with or without offsets, the salt in the first block of a prompt, and
  // digests of embeddings that stand for tokens. Which is which is found out in SortExtraKeys.
  bool ReadExtraKeys() {
    if (reader_.ReadNil()) return true;
    const MsgpackValue blocks = reader_.Read();
    if (!blocks.IsArray()) return false;
    draft_.extra_keys = blocks.count;
    for (uint32_t block = 0; block < blocks.count; ++block) {
      if (reader_.ReadNil()) continue;
      const MsgpackValue keys = reader_.Read();
      if (!keys.IsArray()) return false;
      for (uint32_t i = 0; i < keys.count; ++i) {
        if (!ReadExtraKey(block)) return false;
      }
    }
    return true;
  }

  bool ReadExtraKey(uint32_t block) {
    KvMultimodal item;
    item.block = block;
    item.offset = KvMultimodal::kUnknownOffset;
    MsgpackValue key = reader_.Read();
    if (key.IsArray() && key.count > 0) {
      const uint32_t parts = key.count;
      draft_.extra_pairs = true;
      key = reader_.Read();
      if (!key.IsText()) return false;
      if (parts > 1 && !reader_.ReadNil()) {
        const MsgpackValue offset = reader_.Read();
        item.offset = static_cast<int64_t>(offset.integer);
        if (!offset.IsInteger() || item.offset < -kMaxContentOffset ||
            item.offset > kMaxContentOffset || offset.IsUnsigned() != (item.offset >= 0)) {
          return false;
        }
      }
      reader_.Skip(parts > 2 ? parts - 2 : 0);
    } else if (key.IsString()) {
      item.offset = kAlone;
    } else if (key.kind != MsgpackValue::Kind::kBinary) {
      // An adapter's number adds nothing to the event's own; anything else is not known.
      if (!key.IsInteger() || key.integer != draft_.lora_id) ++draft_.unknown_fields;
      reader_.Skip(uint64_t{key.count} * 2 * key.IsMap());
      return true;
    }
    item.identifier = buffer_.AddText(key.text);
    buffer_.multimodal.push_back(item);
    return true;
  }

  // Of the strings that stand alone, the first of a block is the adapter if it is named so. The
  // last one of block 0 is the salt if other content has offsets, as newer engines write it, or if
  // a prompt begins with this block and the next block, which content would reach into, does not
  // repeat it. All others are identifiers, as older engines write them.
  void SortExtraKeys() {
    KvMultimodal* const items = buffer_.event_multimodal_data();
    const size_t count = buffer_.event_multimodal();
    const bool root = !draft_.event.has_parent || draft_.event.parent_id == 0;
    const KvMultimodal* salt = nullptr;
    for (size_t i = 0; i < count && items[i].block == 0; ++i) {
      if (items[i].offset == kAlone && !IsAdapter(items, i)) salt = &items[i];
    }
    bool repeated = false;
    for (size_t i = 0; i < count && salt != nullptr && items[i].block <= 1; ++i) {
      repeated |= items[i].block == 1 && items[i].offset == kAlone && !IsAdapter(items, i) &&
                  items[i].identifier == salt->identifier;
    }
    if (!draft_.extra_pairs && (!root || repeated)) salt = nullptr;
    if (salt != nullptr && draft_.salt.empty()) draft_.event.salt = salt->identifier;

    size_t kept = 0;
    bool is_adapter = count > 0 && IsAdapter(items, 0);
    for (size_t i = 0; i < count; ++i) {
      const bool drop = is_adapter || &items[i] == salt;
      if (i + 1 < count) is_adapter = IsAdapter(items, i + 1);  // before items[i] is moved
      if (drop) continue;
      if (items[i].offset == kAlone) items[i].offset = KvMultimodal::kUnknownOffset;
      items[kept++] = items[i];
    }
    buffer_.ShrinkEventMultimodal(kept);
  }

  bool IsAdapter(const KvMultimodal* items, size_t i) const {
    return items[i].offset == kAlone && !draft_.event.adapter.empty() &&
           items[i].identifier == draft_.event.adapter &&
           (i == 0 || items[i - 1].block != items[i].block);
  }

  std::optional<KvEventOutcome> Complete() {
    KvEvent& event = draft_.event;
    if (draft_.remote) event.tier = KvTier::kExternal;
    if (event.kind == KvEventKind::kCleared) return std::nullopt;
    if (!draft_.Has(Field::kBlockHashes)) return KvEventOutcome::kMalformedEvent;
    if (event.kind == KvEventKind::kRemoved) return std::nullopt;

    const size_t blocks = buffer_.event_ids();
    if (!draft_.Has(Field::kTokens) || !draft_.Has(Field::kBlockSize) ||
        (draft_.extra_keys != 0 && draft_.extra_keys != blocks) ||
        (draft_.block_offsets && draft_.block_offsets != blocks)) {
      return KvEventOutcome::kMalformedEvent;
    }
    if (!draft_.lora_name.empty()) {
      event.adapter = buffer_.AddText(draft_.lora_name);
    } else if (draft_.lora_id) {
      event.adapter = buffer_.AddText(std::to_string(*draft_.lora_id));
    }
    if (!draft_.salt.empty()) event.salt = buffer_.AddText(draft_.salt);
    if (buffer_.event_multimodal() > 0) SortExtraKeys();
    return draft_.block_offsets ? PlaceByOffsets() : PlaceDensely();
  }

  std::optional<KvEventOutcome> PlaceDensely() {
    const size_t tokens = buffer_.event_tokens();
    if (tokens != 0 && tokens != uint64_t{buffer_.event_ids()} * draft_.event.block_size) {
      return KvEventOutcome::kNotDense;
    }
    return std::nullopt;
  }

  // Blocks up to the first one that was left out follow one another. Those behind it could match
  // nothing, because that one is not held.
  std::optional<KvEventOutcome> PlaceByOffsets() {
    const size_t blocks = draft_.leading_offsets;
    const uint64_t tokens = uint64_t{blocks} * draft_.event.block_size;
    if (buffer_.event_tokens() == 0) return std::nullopt;
    if (tokens > buffer_.event_tokens() || (blocks == 0 && *draft_.block_offsets > 0)) {
      return KvEventOutcome::kNotDense;
    }
    if (blocks < buffer_.event_ids()) ++skipped()[KvEventOutcome::kNotDense];
    buffer_.ShrinkEventIds(blocks);
    buffer_.ShrinkEventTokens(static_cast<size_t>(tokens));
    size_t items = buffer_.event_multimodal();
    while (items > 0 && buffer_.event_multimodal_data()[items - 1].block >= blocks) --items;
    buffer_.ShrinkEventMultimodal(items);
    return std::nullopt;
  }

  MsgpackReader reader_;
  KvEventBuffer& buffer_;
  Draft draft_;
};

}  // namespace

void DecodeMsgpack(std::string_view message, KvEventBuffer* buffer) {
  Decoder(message, buffer).DecodeMessage();
}

}  // namespace prefixrouter
