// Writes events as engines of several ages do, byte for byte where they say the same thing.
#if !defined(MSGPACK_NO_BOOST)
#define MSGPACK_NO_BOOST
#endif
#include <bit>
#include <msgpack.hpp>
#include <string>

#include "lib/base/guard.h"
#include "lib/events/event_limits.h"
#include "lib/events/event_names.h"
#include "prefixrouter/kv_events.h"

namespace prefixrouter {
namespace {

// What msgpack::packer writes to.
struct StringSink {
  void write(const char* bytes, size_t size) { text.append(bytes, size); }
  std::string text;
};

class Encoder {
 public:
  Encoder(KvEventEncoding encoding, bool bytes_ids) : encoding_(encoding), bytes_ids_(bytes_ids) {}

  std::string Encode(const KvEventBatch& batch) {
    // Not with NaN.
    if (batch.timestamp_s > kMaxSeconds) Refuse("timestamp_s is no time in seconds");
    packer_.pack_array(3);
    WriteTime(batch.timestamp_s);
    packer_.pack_array(Size(batch.events.size()));
    for (const KvEvent& event : batch.events) {
      where_ = "event " + std::to_string(&event - batch.events.begin()) + ": ";
      WriteEvent(event);
    }
    if (batch.has_rank) {
      packer_.pack_uint32(batch.rank);
    } else {
      packer_.pack_nil();
    }
    return std::move(sink_.text);
  }

 private:
  bool maps() const { return encoding_ == KvEventEncoding::kMaps; }
  bool sglang() const { return encoding_ == KvEventEncoding::kSglangArrays; }
  bool all_fields() const { return maps() || encoding_ == KvEventEncoding::kArrays; }

  [[noreturn]] void Refuse(const std::string& what) const {
    throw StatusError(Status(StatusCode::kInvalidArgument, where_ + what));
  }
  void RequirePlaceFor(bool wanted, bool place, const char* what) const {
    if (wanted && !place) Refuse(std::string("the encoding has no place for ") + what);
  }

  // The packer would write 2.0 as the integer 2.
  void WriteTime(double time_s) {
    const uint64_t bits = std::bit_cast<uint64_t>(time_s);
    sink_.text += '\xcb';
    for (int shift = 56; shift >= 0; shift -= 8) sink_.text += static_cast<char>(bits >> shift);
  }

  void WriteEvent(const KvEvent& event) {
    RequirePlaceFor(event.group != 0 && event.kind != KvEventKind::kCleared, all_fields(),
                    "a group of layers");
    switch (event.kind) {
      case KvEventKind::kStored:
        return WriteStored(event);
      case KvEventKind::kRemoved:
        return WriteRemoved(event);
      case KvEventKind::kCleared:
        WriteHead(1);
        WriteTag(kClearedTag);
        return;
    }
    Refuse("kind is " + std::to_string(static_cast<int>(event.kind)));
  }

  void WriteStored(const KvEvent& event) {
    CheckStored(event);
    const bool root = !event.has_parent || event.parent_id == 0;
    // Beside what tells a salt from an identifier in the extra keys, see msgpack_decoder.cc.
    const bool salt_in_keys = all_fields() && !event.salt.empty() && !event.block_ids.empty() &&
                              (root || !event.multimodal.empty());
    const bool salt_field = !event.salt.empty() && !salt_in_keys;
    RequirePlaceFor(salt_field, maps() || sglang(), "a salt of blocks that have a parent");
    const bool extra_keys = all_fields() && !event.block_ids.empty() &&
                            (salt_in_keys || !event.adapter.empty() || !event.multimodal.empty());
    const bool attention = event.attention != KvAttention::kFull;

    if (maps()) {
      WriteHead(8 + extra_keys + (event.group != 0) + attention + salt_field);
    } else {
      WriteHead(encoding_ == KvEventEncoding::kArrays ? 12 : 7 + salt_field);
    }
    WriteTag(kStoredTag);
    WriteName("block_hashes");
    WriteIds(event.block_ids);
    WriteName("parent_block_hash");
    if (event.has_parent) {
      WriteId(event.parent_id);
    } else {
      packer_.pack_nil();
    }
    WriteName("token_ids");
    packer_.pack_array(Size(event.tokens.size()));
    for (uint32_t token : event.tokens) packer_.pack_uint32(token);
    WriteName("block_size");
    packer_.pack_uint32(event.block_size);
    WriteName("lora_id");
    packer_.pack_nil();
    WriteName("medium");
    WriteText(Medium(event.tier));
    if (all_fields()) {
      WriteName("lora_name");
      WriteTextOrNil(event.adapter);
    }
    if (maps()) {
      if (extra_keys) {
        WriteName("extra_keys");
        WriteExtraKeys(event, salt_in_keys);
      }
      if (event.group != 0) WriteGroup(event.group);
      if (attention) WriteAttention(event.attention);
      if (salt_field) {
        WriteName("cache_salt");
        WriteText(event.salt);
      }
    } else if (encoding_ == KvEventEncoding::kArrays) {
      if (extra_keys) {
        WriteExtraKeys(event, salt_in_keys);
      } else {
        packer_.pack_nil();
      }
      WriteGroup(event.group);
      WriteAttention(event.attention);
      packer_.pack_nil();  // the sliding window's length, which KvEvent does not have
    } else if (salt_field) {
      packer_.pack_map(1);
      WriteText("cache_salt");
      WriteText(event.salt);
    }
  }

  // What the decoder would not take, or the encoding cannot say.
  void CheckStored(const KvEvent& event) const {
    if (event.block_size == 0 || event.block_size > kMaxBlockSize) {
      Refuse("block_size is " + std::to_string(event.block_size));
    }
    if (!event.tokens.empty() &&
        event.tokens.size() != uint64_t{event.block_ids.size()} * event.block_size) {
      Refuse(std::to_string(event.tokens.size()) + " tokens do not cover " +
             std::to_string(event.block_ids.size()) + " blocks of " +
             std::to_string(event.block_size));
    }
    RequirePlaceFor(event.attention != KvAttention::kFull, all_fields(), "a kind of attention");
    RequirePlaceFor(!event.adapter.empty(), all_fields(), "an adapter");
    RequirePlaceFor(!event.multimodal.empty(), all_fields(), "content");
    RequirePlaceFor(!event.salt.empty(), all_fields() || sglang(), "a salt");
    uint32_t block = 0;
    for (const KvMultimodal& item : event.multimodal) {
      if (item.block < block || item.block >= event.block_ids.size()) {
        Refuse("content in block " + std::to_string(item.block) + " of " +
               std::to_string(event.block_ids.size()) + ", behind block " + std::to_string(block));
      }
      block = item.block;
      if (item.offset != KvMultimodal::kUnknownOffset &&
          (item.offset < -kMaxContentOffset || item.offset > kMaxContentOffset)) {
        Refuse("content at offset " + std::to_string(item.offset));
      }
    }
  }

  void WriteRemoved(const KvEvent& event) {
    const bool group = encoding_ == KvEventEncoding::kArrays || (maps() && event.group != 0);
    WriteHead(3 + group);
    WriteTag(kRemovedTag);
    WriteName("block_hashes");
    WriteIds(event.block_ids);
    WriteName("medium");
    WriteText(Medium(event.tier));
    if (group) WriteGroup(event.group);
  }

  // For each block a list of the adapter, the contents, and in the first the salt.
  void WriteExtraKeys(const KvEvent& event, bool salt_in_keys) {
    packer_.pack_array(Size(event.block_ids.size()));
    const KvMultimodal* item = event.multimodal.begin();
    for (uint32_t block = 0; block < event.block_ids.size(); ++block) {
      const KvMultimodal* end = item;
      while (end != event.multimodal.end() && end->block == block) ++end;
      const bool salt = salt_in_keys && block == 0;
      const uint32_t keys =
          static_cast<uint32_t>(end - item) + uint32_t{!event.adapter.empty()} + uint32_t{salt};
      if (keys == 0) {
        packer_.pack_nil();
        continue;
      }
      packer_.pack_array(keys);
      if (!event.adapter.empty()) WriteText(event.adapter);
      for (; item != end; ++item) {
        packer_.pack_array(2);
        WriteIdentifier(item->identifier);
        if (item->offset == KvMultimodal::kUnknownOffset) {
          packer_.pack_nil();
        } else {
          packer_.pack_int64(item->offset);
        }
      }
      if (salt) WriteText(event.salt);
    }
  }

  // A digest is not text, and clients refuse text that is not UTF-8.
  void WriteIdentifier(std::string_view identifier) {
    for (char byte : identifier) {
      if (static_cast<unsigned char>(byte) >= 0x80) {
        packer_.pack_bin(Size(identifier.size()));
        packer_.pack_bin_body(identifier.data(), Size(identifier.size()));
        return;
      }
    }
    WriteText(identifier);
  }

  void WriteGroup(uint32_t group) {
    WriteName("group_idx");
    packer_.pack_uint32(group);
  }
  void WriteAttention(KvAttention attention) {
    WriteName("kv_cache_spec_kind");
    switch (attention) {
      case KvAttention::kFull:
        return WriteText("full_attention");
      case KvAttention::kPartial:
        return WriteText("sliding_window");
      case KvAttention::kNotPrefix:
        return WriteText("cross_attention");
    }
    Refuse("attention is " + std::to_string(static_cast<int>(attention)));
  }
  std::string_view Medium(KvTier tier) const {
    switch (tier) {
      case KvTier::kGpu:
        return "GPU";
      case KvTier::kCpu:
        return sglang() ? "CPU_PINNED" : "CPU";
      case KvTier::kDisk:
        return sglang() ? "DISK" : "STORAGE";
      case KvTier::kExternal:
        return "EXTERNAL";
    }
    Refuse("tier is " + std::to_string(static_cast<int>(tier)));
  }

  void WriteIds(Span<const uint64_t> ids) {
    packer_.pack_array(Size(ids.size()));
    for (uint64_t id : ids) WriteId(id);
  }
  void WriteId(uint64_t id) {
    if (bytes_ids_) {
      char bytes[32] = {};
      for (int i = 0; i < 8; ++i) bytes[31 - i] = static_cast<char>(id >> (8 * i));
      packer_.pack_bin(sizeof bytes);
      packer_.pack_bin_body(bytes, sizeof bytes);
    } else if (sglang()) {
      packer_.pack_int64(static_cast<int64_t>(id));
    } else {
      packer_.pack_uint64(id);
    }
  }

  void WriteHead(uint32_t fields) {
    if (maps()) {
      packer_.pack_map(fields);
    } else {
      packer_.pack_array(fields);
    }
  }
  void WriteTag(std::string_view tag) {
    WriteName("type");
    WriteText(tag);
  }
  // Of the field that follows, in maps.
  void WriteName(std::string_view name) {
    if (maps()) WriteText(name);
  }
  void WriteText(std::string_view text) {
    packer_.pack_str(Size(text.size()));
    packer_.pack_str_body(text.data(), Size(text.size()));
  }
  void WriteTextOrNil(std::string_view text) {
    if (text.empty()) {
      packer_.pack_nil();
    } else {
      WriteText(text);
    }
  }

  uint32_t Size(size_t size) const {
    if (size > UINT32_MAX) Refuse(std::to_string(size) + " elements are too many");
    return static_cast<uint32_t>(size);
  }

  const KvEventEncoding encoding_;
  const bool bytes_ids_;
  std::string where_;  // for messages
  StringSink sink_;
  msgpack::packer<StringSink> packer_{sink_};
};

}  // namespace

Result<std::string> EncodeKvEvents(const KvEventBatch& batch, KvEventEncoding encoding,
                                   bool bytes_ids) {
  return Guard([&]() -> Result<std::string> {
    if (encoding < KvEventEncoding::kArrays || encoding > KvEventEncoding::kSglangArrays) {
      return Status(StatusCode::kInvalidArgument,
                    "encoding is " + std::to_string(static_cast<int>(encoding)));
    }
    return Encoder(encoding, bytes_ids).Encode(batch);
  });
}

}  // namespace prefixrouter
