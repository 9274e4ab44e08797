// The JSON parser calls a handler for each value; it keeps no tree and does not recurse. The
// handler knows its place by the objects and arrays around it, as far as they are known; what is in
// others is passed over. Fields come in any order, so an event is made when its object ends.
#include "lib/events/trt_llm_decoder.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lib/base/exceptions.h"
#include "lib/events/event_limits.h"

namespace prefixrouter {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kMaxLevel = 31;

[[noreturn]] void Fail(const std::string& message) {
  throw StatusError(Status(StatusCode::kInvalidArgument, message));
}

enum class Place : uint8_t {
  kMessage,
  kEvents,
  kEvent,
  kData,
  kBlocks,
  kBlock,
  kTokens,
  kToken,
  kContents,
  kContent,
  kHashes,
  kLevelChange,
};

// Names of fields that have a use, or of which is known that they have none here.
enum class Key : uint8_t {
  kEventId,
  kData,
  kWindow,
  kRank,
  kGroup,
  kType,
  kParentHash,
  kBlocks,
  kBlockHash,
  kBlockHashes,
  kTokens,
  kTokenId,
  kTokenExtraId,
  kLevel,
  kContents,
  kContentHash,
  kStartOffset,
  kOldValue,
  kNewValue,
  kIgnored,
  kUnknown,
};

Key KeyOfName(std::string_view name) {
  static constexpr struct {
    std::string_view name;
    Key key;
  } kKeys[] = {
      {"token_id", Key::kTokenId},
      {"token_extra_id", Key::kTokenExtraId},
      {"type", Key::kType},
      {"event_id", Key::kEventId},
      {"data", Key::kData},
      {"window_size", Key::kWindow},
      {"attention_dp_rank", Key::kRank},
      {"layer_group_id", Key::kGroup},
      {"parent_hash", Key::kParentHash},
      {"blocks", Key::kBlocks},
      {"block_hash", Key::kBlockHash},
      {"block_hashes", Key::kBlockHashes},
      {"tokens", Key::kTokens},
      {"cache_level", Key::kLevel},
      {"mm_keys", Key::kContents},
      {"hash", Key::kContentHash},
      {"start_offset", Key::kStartOffset},
      {"old_value", Key::kOldValue},
      {"new_value", Key::kNewValue},
      {"priority", Key::kIgnored},
      {"num_blocks_per_cache_level", Key::kIgnored},
      {"hash_algo", Key::kIgnored},
  };
  for (const auto& known : kKeys) {
    if (known.name == name) return known.key;
  }
  return Key::kUnknown;
}

struct Scalar {
  enum class Kind : uint8_t { kNull, kUnsigned, kNegative, kString, kOther };

  bool IsNull() const { return kind == Kind::kNull; }
  // False: it is no number from 0 to `max`.
  bool To(uint64_t max, uint64_t* number) const {
    *number = integer;
    return kind == Kind::kUnsigned && integer <= max;
  }
  // A block number: an integer, or hexadecimal digits of which the last 16 count.
  bool ToHash(uint64_t* hash) const {
    *hash = integer;
    if (kind != Kind::kString) return kind == Kind::kUnsigned || kind == Kind::kNegative;
    for (char digit : text) {
      const char lower = digit >= 'A' && digit <= 'F' ? static_cast<char>(digit + 32) : digit;
      if (lower >= '0' && lower <= '9') {
        *hash = *hash << 4 | static_cast<uint64_t>(lower - '0');
      } else if (lower >= 'a' && lower <= 'f') {
        *hash = *hash << 4 | static_cast<uint64_t>(lower - 'a' + 10);
      } else {
        return false;
      }
    }
    return !text.empty();
  }

  Kind kind = Kind::kOther;
  uint64_t integer = 0;
  std::string_view text;
};

KvTier TierOfLevel(uint64_t level) {
  constexpr KvTier kTiers[] = {KvTier::kGpu, KvTier::kCpu, KvTier::kDisk};
  return level < std::size(kTiers) ? kTiers[level] : KvTier::kExternal;
}

// What the fields of one event say. Its memory is used again for the next.
struct Draft {
  enum class Type : uint8_t { kNone, kUnknown, kCreated, kStored, kRemoved, kUpdated };
  struct Block {
    bool has_hash = false;
    uint64_t hash = 0;
    uint64_t level = 0;
    size_t tokens_end = 0;
    size_t contents_end = 0;
  };

  void Clear() {
    type = Type::kNone;
    malformed = has_id = has_rank = has_window = has_list = has_parent = false;
    has_hash = has_old = has_new = false;
    unknown_fields = group = 0;
    blocks.clear();
    tokens.clear();
    extra_ids.clear();
    contents.clear();
    hashes.clear();
  }

  Type type = Type::kNone;
  bool malformed = false;
  uint64_t unknown_fields = 0;
  bool has_id = false;
  uint64_t id = 0;
  bool has_rank = false;
  uint64_t rank = 0;
  bool has_window = false;
  uint64_t window = 0;
  uint64_t group = 0;
  bool has_list = false;  // of blocks, or of hashes
  // Stored.
  bool has_parent = false;
  uint64_t parent = 0;
  std::vector<Block> blocks;
  std::vector<uint32_t> tokens;
  std::vector<uint64_t> extra_ids;     // one for each token
  std::vector<KvMultimodal> contents;  // `block` is not set
  // Removed.
  std::vector<uint64_t> hashes;
  // Updated.
  bool has_hash = false;
  uint64_t hash = 0;
  bool has_old = false;
  uint64_t old_level = 0;
  bool has_new = false;
  uint64_t new_level = 0;
};

// What nlohmann::json::sax_parse calls.
class Handler {
 public:
  Handler(const TrtLlmOptions& options, size_t message_size, TrtLlmDecoder::State* state,
          KvEventBuffer* buffer)
      : options_(options), message_size_(message_size), state_(*state), buffer_(*buffer) {
    places_.push_back(Place::kMessage);
  }

  bool null() {
    Scalar value;
    value.kind = Scalar::Kind::kNull;
    return Take(value);
  }
  bool boolean(bool) { return Take({}); }
  bool number_integer(int64_t number) {
    Scalar value;
    value.kind = number < 0 ? Scalar::Kind::kNegative : Scalar::Kind::kUnsigned;
    value.integer = static_cast<uint64_t>(number);
    return Take(value);
  }
  bool number_unsigned(uint64_t number) {
    Scalar value;
    value.kind = Scalar::Kind::kUnsigned;
    value.integer = number;
    return Take(value);
  }
  bool number_float(double, const std::string&) { return Take({}); }
  bool string(std::string& text) {
    Scalar value;
    value.kind = Scalar::Kind::kString;
    value.text = text;
    return Take(value);
  }
  // Of binary formats; JSON has none. Older versions of the library do not ask for it.
  template <typename Binary>
  bool binary(Binary&) {
    return Take({});
  }

  bool start_object(size_t) { return Enter(/*object=*/true); }
  bool start_array(size_t) { return Enter(/*object=*/false); }
  bool end_object() { return Leave(); }
  bool end_array() { return Leave(); }
  bool key(std::string& name) {
    if (passed_over_ == 0) key_ = KeyOfName(name);
    return true;
  }

  bool parse_error(size_t position, const std::string&, const nlohmann::detail::exception&) {
    // The position is that behind the byte which is wrong.
    Fail("no JSON at byte " + std::to_string(position > 0 ? position - 1 : 0) + " of " +
         std::to_string(message_size_));
  }

 private:
  using Type = Draft::Type;

  Place place() const { return places_.back(); }

  bool Enter(bool object) {
    if (passed_over_ > 0) {
      ++passed_over_;
      return true;
    }
    switch (place()) {
      case Place::kMessage:
        if (object) return EnterEvent();
        return Enter(Place::kEvents);
      case Place::kEvents:
        if (object) return EnterEvent();
        break;
      case Place::kEvent:
        if (key_ == Key::kData && object) return Enter(Place::kData);
        break;
      case Place::kData:
        if ((key_ == Key::kBlocks || key_ == Key::kBlockHashes) && !object && !draft_.has_list) {
          draft_.has_list = true;
          return Enter(key_ == Key::kBlocks ? Place::kBlocks : Place::kHashes);
        }
        if (key_ == Key::kLevel && object) return Enter(Place::kLevelChange);
        break;
      case Place::kBlocks:
        if (!object) break;
        draft_.blocks.emplace_back();
        return Enter(Place::kBlock);
      case Place::kBlock:
        if (key_ == Key::kTokens && !object) return Enter(Place::kTokens);
        if (key_ == Key::kContents && !object) return Enter(Place::kContents);
        break;
      case Place::kTokens:
        if (!object) break;
        has_token_ = false;
        extra_id_ = 0;
        return Enter(Place::kToken);
      case Place::kContents:
        if (!object) break;
        content_ = {};
        content_.offset = KvMultimodal::kUnknownOffset;
        return Enter(Place::kContent);
      default:
        break;
    }
    PassOver();
    passed_over_ = 1;
    return true;
  }
  bool Enter(Place place) {
    places_.push_back(place);
    return true;
  }
  bool EnterEvent() {
    draft_.Clear();
    return Enter(Place::kEvent);
  }

  bool Leave() {
    if (passed_over_ > 0) {
      --passed_over_;
      return true;
    }
    switch (place()) {
      case Place::kEvent:
        EndEvent();
        break;
      case Place::kBlock:
        draft_.blocks.back().tokens_end = draft_.tokens.size();
        draft_.blocks.back().contents_end = draft_.contents.size();
        draft_.malformed |= !draft_.blocks.back().has_hash;
        break;
      case Place::kToken:
        if (!has_token_) draft_.malformed = true;
        draft_.tokens.push_back(token_);
        draft_.extra_ids.push_back(extra_id_);
        break;
      case Place::kContent:
        if (content_.identifier.data() == nullptr) {
          draft_.malformed = true;
        } else {
          draft_.contents.push_back(content_);
        }
        break;
      default:
        break;
    }
    places_.pop_back();
    return true;
  }

  // A value, or an array or object, that has no use where it stands.
  void PassOver() {
    switch (place()) {
      case Place::kMessage:
        Fail("no event of TensorRT-LLM and no array of them");
      case Place::kEvents:
        ++buffer_.batch.skipped[KvEventOutcome::kMalformedEvent];
        return;
      case Place::kBlocks:
      case Place::kTokens:
      case Place::kContents:
      case Place::kHashes:
        draft_.malformed = true;
        return;
      default:
        break;
    }
    if (key_ == Key::kUnknown) {
      ++draft_.unknown_fields;
    } else if (key_ != Key::kIgnored && key_ != Key::kType) {
      draft_.malformed = true;  // a field that should be something else
    }
  }

  bool Take(const Scalar& value) {
    if (passed_over_ > 0) return true;
    bool good = true;
    switch (place()) {
      case Place::kEvent:
        good = TakeOfEvent(value);
        break;
      case Place::kData:
        good = TakeOfData(value);
        break;
      case Place::kBlock:
        good = TakeOfBlock(value);
        break;
      case Place::kToken:
        good = TakeOfToken(value);
        break;
      case Place::kContent:
        good = TakeOfContent(value);
        break;
      case Place::kHashes:
        draft_.hashes.emplace_back();
        good = value.ToHash(&draft_.hashes.back());
        break;
      case Place::kLevelChange:
        if (key_ == Key::kOldValue) {
          good = value.To(kMaxLevel, &draft_.old_level);
          draft_.has_old = true;
        } else if (key_ == Key::kNewValue) {
          good = value.To(kMaxLevel, &draft_.new_level);
          draft_.has_new = true;
        } else {
          PassOver();
        }
        break;
      default:
        PassOver();
    }
    if (!good) draft_.malformed = true;
    return true;
  }

  bool TakeOfEvent(const Scalar& value) {
    switch (key_) {
      case Key::kEventId:
        draft_.has_id = true;
        return value.To(INT64_MAX - 1, &draft_.id);
      case Key::kWindow:
        draft_.has_window = !value.IsNull();
        return value.IsNull() || value.To(UINT64_MAX, &draft_.window);
      case Key::kRank:
        draft_.has_rank = value.To(UINT32_MAX, &draft_.rank);
        return value.IsNull() || draft_.has_rank;
      case Key::kGroup:
        if (value.IsNull()) return true;
        return value.To(UINT32_MAX, &draft_.group);
      default:
        PassOver();
        return true;
    }
  }

  bool TakeOfData(const Scalar& value) {
    switch (key_) {
      case Key::kType:
        draft_.type = value.text == "stored"    ? Type::kStored
                      : value.text == "removed" ? Type::kRemoved
                      : value.text == "updated" ? Type::kUpdated
                      : value.text == "created" ? Type::kCreated
                                                : Type::kUnknown;
        return value.kind == Scalar::Kind::kString;
      case Key::kParentHash:
        draft_.has_parent = !value.IsNull();
        return value.IsNull() || value.ToHash(&draft_.parent);
      case Key::kBlockHash:
        draft_.has_hash = true;
        return value.ToHash(&draft_.hash);
      case Key::kLevel:  // of an event that changes another thing
        return value.IsNull();
      default:
        PassOver();
        return true;
    }
  }

  bool TakeOfBlock(const Scalar& value) {
    Draft::Block& block = draft_.blocks.back();
    switch (key_) {
      case Key::kBlockHash:
        block.has_hash = true;
        return value.ToHash(&block.hash);
      case Key::kLevel:
        return value.IsNull() || value.To(kMaxLevel, &block.level);
      default:
        PassOver();
        return true;
    }
  }

  bool TakeOfToken(const Scalar& value) {
    uint64_t token;
    switch (key_) {
      case Key::kTokenId:
        has_token_ = value.To(UINT32_MAX, &token);
        token_ = static_cast<uint32_t>(token);
        return has_token_;
      case Key::kTokenExtraId:
        return value.IsNull() || value.To(UINT64_MAX, &extra_id_);
      default:
        PassOver();
        return true;
    }
  }

  bool TakeOfContent(const Scalar& value) {
    uint64_t passed;
    switch (key_) {
      case Key::kContentHash:
        content_.identifier = buffer_.AddText(value.text);
        return value.kind == Scalar::Kind::kString;
      case Key::kStartOffset:  // how much of it is in earlier blocks; 0: where it begins is not
                               // said
        if (!value.To(kMaxContentOffset, &passed)) return false;
        if (passed > 0) content_.offset = -static_cast<int64_t>(passed);
        return true;
      default:
        PassOver();
        return true;
    }
  }

  // ---- Whole events -----------------------------------------------------------------------------

  void EndEvent() {
    KvEventCounts& skipped = buffer_.batch.skipped;
    if (draft_.has_rank) {
      if (options_.rank >= 0 && draft_.rank != static_cast<uint64_t>(options_.rank)) return;
      if (buffer_.batch.has_rank && buffer_.batch.rank != draft_.rank) {
        Fail("events of attention_dp_rank " + std::to_string(buffer_.batch.rank) + " and " +
             std::to_string(draft_.rank) + " in one message; each rank needs a decoder");
      }
      buffer_.batch.has_rank = true;
      buffer_.batch.rank = static_cast<uint32_t>(draft_.rank);
    }
    const bool needs_list = draft_.type == Type::kStored || draft_.type == Type::kRemoved;
    if (draft_.malformed || draft_.type == Type::kNone || (needs_list && !draft_.has_list)) {
      ++skipped[KvEventOutcome::kMalformedEvent];
      return;
    }
    if (draft_.has_id) FollowId(static_cast<int64_t>(draft_.id));
    if (draft_.type == Type::kUnknown) {
      ++skipped[KvEventOutcome::kUnknownEvent];
      return;
    }
    if (draft_.has_window && draft_.window > state_.largest_window) {
      // What was stored until now was of a smaller one.
      if (state_.has_stored) EmitCleared();
      state_.largest_window = draft_.window;
    } else if (draft_.has_window && draft_.window < state_.largest_window) {
      ++skipped[KvEventOutcome::kSmallerWindow];
      return;
    }
    skipped[KvEventOutcome::kUnknownField] += draft_.unknown_fields;
    if (draft_.type == Type::kCreated) EmitCleared();  // the engine begins
    if (draft_.type == Type::kStored) EmitStored();
    if (draft_.type == Type::kRemoved) EmitRemoved(draft_.hashes);
    if (draft_.type == Type::kUpdated) EmitUpdated();
  }

  void FollowId(int64_t id) {
    if (state_.last_event_id >= 0 && id <= state_.last_event_id) {  // the engine has restarted
      const uint64_t lost_events = state_.lost_events;
      state_ = {};
      state_.lost_events = lost_events;
      state_.tokens_per_block = options_.tokens_per_block;
      EmitCleared();
    } else if (state_.last_event_id >= 0) {
      state_.lost_events += static_cast<uint64_t>(id - state_.last_event_id - 1);
    }
    state_.last_event_id = id;
  }

  void EmitCleared() {
    buffer_.Commit({});
    state_.has_stored = false;
  }

  void EmitStored() {
    // A block that is full has a power of 2 of tokens.
    size_t begin = 0;
    for (const Draft::Block& block : draft_.blocks) {
      const size_t count = block.tokens_end - begin;
      begin = block.tokens_end;
      if (options_.tokens_per_block == 0 && count > state_.tokens_per_block &&
          count <= kMaxBlockSize && (count & (count - 1)) == 0) {
        state_.tokens_per_block = static_cast<uint32_t>(count);
      }
    }

    KvEvent event;
    event.kind = KvEventKind::kStored;
    event.block_size = state_.tokens_per_block;
    event.group = static_cast<uint32_t>(draft_.group);
    event.has_parent = draft_.has_parent;
    event.parent_id = draft_.has_parent ? draft_.parent : 0;
    run_begin_ = 0;
    size_t tokens_begin = 0;
    size_t contents_begin = 0;
    for (const Draft::Block& block : draft_.blocks) {
      const bool full =
          block.tokens_end - tokens_begin == state_.tokens_per_block && state_.tokens_per_block > 0;
      const KvTier tier = TierOfLevel(block.level);
      if (!full) ++buffer_.batch.skipped[KvEventOutcome::kPartialBlock];
      // An event is of one tier, and of blocks that follow one another.
      if (!full || tier != event.tier) {
        const bool had_blocks = buffer_.event_ids() > 0;
        const uint64_t last_id = had_blocks ? buffer_.ids.back() : 0;
        if (had_blocks) {
          buffer_.Commit(event);
          event.has_parent = true;
          event.parent_id = last_id;
        }
        event.tier = tier;
      }
      if (full) {
        AddContents(tokens_begin, block.tokens_end, contents_begin, block.contents_end);
        buffer_.ids.push_back(block.hash);
        buffer_.tokens.insert(buffer_.tokens.end(), draft_.tokens.begin() + tokens_begin,
                              draft_.tokens.begin() + block.tokens_end);
        state_.levels_seen |= uint32_t{1} << block.level;
        state_.has_stored = true;
      } else {
        event.has_parent = true;
        event.parent_id = block.hash;
        run_begin_ = block.tokens_end;
      }
      tokens_begin = block.tokens_end;
      contents_begin = block.contents_end;
    }
    if (buffer_.event_ids() > 0) buffer_.Commit(event);
  }

  // The contents of the block that comes next: those that have keys, and runs of tokens with an
  // extra id, which stands for what is in their place.
  void AddContents(size_t tokens_begin, size_t tokens_end, size_t contents_begin,
                   size_t contents_end) {
    const uint32_t block = static_cast<uint32_t>(buffer_.event_ids());
    for (size_t i = contents_begin; i < contents_end; ++i) {
      buffer_.multimodal.push_back(draft_.contents[i]);
      buffer_.multimodal.back().block = block;
    }
    for (size_t i = tokens_begin; i < tokens_end; ++i) {
      const uint64_t extra_id = draft_.extra_ids[i];
      if (i > 0 && extra_id != draft_.extra_ids[i - 1]) run_begin_ = i;
      if (extra_id == 0 || (i > tokens_begin && run_begin_ != i)) continue;
      KvMultimodal item;
      item.block = block;
      item.identifier = buffer_.AddText(std::to_string(extra_id));
      item.offset = static_cast<int64_t>(run_begin_) - static_cast<int64_t>(tokens_begin);
      // It may have begun in the parent.
      if (run_begin_ == 0 && draft_.has_parent) item.offset = KvMultimodal::kUnknownOffset;
      buffer_.multimodal.push_back(item);
    }
  }

  // They are gone from wherever they were, which is not said.
  void EmitRemoved(const std::vector<uint64_t>& hashes) {
    uint32_t tiers_done = 0;
    for (uint32_t level = 0; level <= kMaxLevel; ++level) {
      const KvTier tier = TierOfLevel(level);
      const uint32_t tier_bit = uint32_t{1} << static_cast<int>(tier);
      if ((state_.levels_seen >> level & 1) == 0 || (tiers_done & tier_bit) != 0) continue;
      tiers_done |= tier_bit;
      EmitRemovedFrom(tier, hashes);
    }
  }
  void EmitRemovedFrom(KvTier tier, Span<const uint64_t> hashes) {
    KvEvent event;
    event.kind = KvEventKind::kRemoved;
    event.tier = tier;
    event.group = static_cast<uint32_t>(draft_.group);
    buffer_.ids.insert(buffer_.ids.end(), hashes.begin(), hashes.end());
    buffer_.Commit(event);
  }

  // From one level to another, or of no interest.
  void EmitUpdated() {
    if (!draft_.has_old || !draft_.has_new || !draft_.has_hash) return;
    const KvTier old_tier = TierOfLevel(draft_.old_level);
    KvEvent event;
    event.kind = KvEventKind::kStored;
    event.tier = TierOfLevel(draft_.new_level);
    if (event.tier == old_tier) return;
    event.group = static_cast<uint32_t>(draft_.group);
    event.block_size = std::max<uint32_t>(state_.tokens_per_block, 1);
    buffer_.ids.push_back(draft_.hash);
    buffer_.Commit(event);
    EmitRemovedFrom(old_tier, {&draft_.hash, 1});
    state_.levels_seen |= uint32_t{1} << draft_.new_level | uint32_t{1} << draft_.old_level;
  }

  const TrtLlmOptions& options_;
  const size_t message_size_;
  TrtLlmDecoder::State& state_;
  KvEventBuffer& buffer_;

  std::vector<Place> places_;  // known ones, from the outermost on
  uint64_t passed_over_ = 0;   // objects and arrays around that are not
  Key key_ = Key::kUnknown;    // the last one
  Draft draft_;
  bool has_token_ = false;
  uint32_t token_ = 0;
  uint64_t extra_id_ = 0;
  KvMultimodal content_;
  size_t run_begin_ = 0;  // of the tokens with the extra id of the last one
};

}  // namespace

void TrtLlmDecoder::Decode(std::string_view message, KvEventBuffer* buffer) {
  State state = state_;
  Handler handler(options_, message.size(), &state, buffer);
  Json::sax_parse(message.begin(), message.end(), &handler);
  state_ = state;
}

}  // namespace prefixrouter
