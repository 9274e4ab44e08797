#include "lib/events/msgpack_reader.h"

#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string>

#if !defined(MSGPACK_NO_BOOST)
#define MSGPACK_NO_BOOST
#endif
// The parser's stack stays empty, because no visit goes into an array or a map.
#define MSGPACK_EMBED_STACK_SIZE 0
#include <msgpack.hpp>

#include "lib/base/exceptions.h"

namespace prefixrouter {
namespace {

// Takes one scalar, or the head of an array or a map, at which it stops the parser.
class OneValue : public msgpack::null_visitor {
 public:
  explicit OneValue(MsgpackValue* value) : value_(*value) {}

  bool at_head() const { return at_head_; }
  bool truncated() const { return truncated_; }

  bool visit_nil() { return Take(MsgpackValue::Kind::kNil); }
  bool visit_boolean(bool) { return Take(MsgpackValue::Kind::kBoolean); }
  bool visit_positive_integer(uint64_t integer) {
    value_.integer = integer;
    return Take(MsgpackValue::Kind::kUnsigned);
  }
  bool visit_negative_integer(int64_t integer) {
    value_.integer = static_cast<uint64_t>(integer);
    // Wide signed forms hold positive numbers too.
    return Take(integer < 0 ? MsgpackValue::Kind::kNegative : MsgpackValue::Kind::kUnsigned);
  }
  bool visit_float32(float number) { return visit_float64(number); }
  bool visit_float64(double number) {
    value_.number = number;
    return Take(MsgpackValue::Kind::kFloat);
  }
  bool visit_str(const char* text, uint32_t size) {
    value_.text = {text, size};
    return Take(MsgpackValue::Kind::kString);
  }
  bool visit_bin(const char* text, uint32_t size) {
    value_.text = {text, size};
    return Take(MsgpackValue::Kind::kBinary);
  }
  bool visit_ext(const char*, uint32_t) { return Take(MsgpackValue::Kind::kExtension); }
  bool start_array(uint32_t count) { return Stop(MsgpackValue::Kind::kArray, count); }
  bool start_map(uint32_t count) { return Stop(MsgpackValue::Kind::kMap, count); }
  void insufficient_bytes(size_t, size_t) { truncated_ = true; }

 private:
  bool Take(MsgpackValue::Kind kind) {
    value_.kind = kind;
    return true;
  }
  bool Stop(MsgpackValue::Kind kind, uint32_t count) {
    value_.kind = kind;
    value_.count = count;
    at_head_ = true;
    return false;
  }

  MsgpackValue& value_;
  bool at_head_ = false;
  bool truncated_ = false;
};

// Bytes of the head of an array or a map that begins with `first`.
size_t HeadBytes(uint8_t first) {
  if (first < 0xa0) return 1;
  return first == 0xdc || first == 0xde ? 3 : 5;
}

uint64_t LoadBigEndian(const uint8_t* bytes) {
  uint64_t word;
  std::memcpy(&word, bytes, sizeof word);
  if constexpr (std::endian::native == std::endian::little) word = __builtin_bswap64(word);
  return word;
}

// By first byte: how long a small unsigned integer is. 0: it is something else.
constexpr std::array<uint8_t, 256> kTokenBytes = [] {
  std::array<uint8_t, 256> bytes{};
  for (int i = 0; i < 0x80; ++i) bytes[i] = 1;
  bytes[0xcc] = 2;
  bytes[0xcd] = 3;
  bytes[0xce] = 5;
  return bytes;
}();
// By that length: which bits of its last four bytes are the number's.
constexpr uint32_t kTokenMask[] = {0, 0x7f, 0xff, 0xffff, 0, 0xffffffff};

}  // namespace

void MsgpackReader::Fail(const char* what) const {
  throw StatusError(Status(StatusCode::kInvalidArgument, std::string(what) + " at byte " +
                                                             std::to_string(position_) + " of " +
                                                             std::to_string(message_.size())));
}

MsgpackValue MsgpackReader::Read() {
  MsgpackValue value;
  OneValue visitor(&value);
  size_t end = position_;
  if (msgpack::parse(message_.data(), message_.size(), end, visitor)) {
    position_ = end;
    return value;
  }
  if (!visitor.at_head()) Fail(visitor.truncated() ? "the message ends" : "no msgpack");
  const size_t begin = position_ + HeadBytes(static_cast<uint8_t>(message_[position_]));
  const uint64_t least_bytes = uint64_t{value.count} * (value.IsMap() ? 2 : 1);
  if (least_bytes > message_.size() - begin) Fail("more elements than the message has bytes");
  position_ = begin;
  return value;
}

void MsgpackReader::Skip(uint64_t values) {
  while (values > 0) {
    const MsgpackValue value = Read();
    values += uint64_t{value.count} * (value.IsMap() ? 2 : 1) - 1;
  }
}

bool MsgpackReader::ReadTokens(size_t count, uint32_t* tokens) {
  const auto* const begin = reinterpret_cast<const uint8_t*>(message_.data());
  const uint8_t* const end = begin + message_.size();
  const uint8_t* at = begin + position_;
  uint32_t* const tokens_end = tokens + count;
  while (tokens != tokens_end) {
    // Four tokens a turn. They begin in the next 16 bytes, and 8 bytes are loaded of each.
    while (tokens_end - tokens >= 4 && end - at >= 24) {
      if (at[0] == 0xcd && at[3] == 0xcd && at[6] == 0xcd && at[9] == 0xcd) {  // 256 to 65,535
        for (int i = 0; i < 4; ++i) {
          tokens[i] = static_cast<uint32_t>(at[3 * i + 1]) << 8 | at[3 * i + 2];
        }
        tokens += 4;
        at += 12;
        continue;
      }
      size_t bytes = 1;
      for (int i = 0; i < 4; ++i) {
        bytes = kTokenBytes[*at];
        if (bytes == 0) break;
        *tokens++ =
            static_cast<uint32_t>(LoadBigEndian(at) >> (64 - 8 * bytes)) & kTokenMask[bytes];
        at += bytes;
      }
      if (bytes == 0) break;
    }
    if (tokens == tokens_end) break;
    position_ = static_cast<size_t>(at - begin);
    const MsgpackValue value = Read();
    if (!value.IsUnsigned() || value.integer > std::numeric_limits<uint32_t>::max()) return false;
    *tokens++ = static_cast<uint32_t>(value.integer);
    at = begin + position_;
  }
  position_ = static_cast<size_t>(at - begin);
  return true;
}

bool MsgpackReader::ReadBlockIds(size_t count, uint64_t* ids) {
  for (uint64_t* const ids_end = ids + count; ids != ids_end; ++ids) {
    const auto* const at = reinterpret_cast<const uint8_t*>(message_.data()) + position_;
    if (message_.size() - position_ >= 9 && (*at == 0xcf || *at == 0xd3)) {  // 64 bits
      *ids = LoadBigEndian(at + 1);
      position_ += 9;
    } else if (!ToBlockId(Read(), ids)) {
      return false;
    }
  }
  return true;
}

bool MsgpackReader::ToBlockId(const MsgpackValue& value, uint64_t* id) {
  if (value.IsInteger()) {
    *id = value.integer;
    return true;
  }
  if (!value.IsText() || value.text.empty()) return false;
  *id = 0;
  const size_t used = value.text.size() < 8 ? value.text.size() : 8;
  for (char byte : value.text.substr(value.text.size() - used)) {
    *id = *id << 8 | static_cast<uint8_t>(byte);
  }
  return true;
}

}  // namespace prefixrouter
