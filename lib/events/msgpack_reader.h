// MsgpackReader: msgpack one value at a time, in place, on the parser of msgpack-cxx.
//
// Of an array or a map only the head is read; its elements are the next values. So nothing is
// allocated, and nesting takes no stack. A length that the message has no bytes for is an error as
// soon as it is read: each element needs one byte at least.
//
// The parser takes 8 to 12 ns a value, which for 16 tokens a block is most of the time that a block
// may take. Token ids and block numbers, nine tenths of all values, are therefore read by loops of
// this file's own for the widths that engines write: 0.5 to 4 ns a token, 3 ns on a mix of real
// prompts. Whatever else stands there is left to the parser.
#ifndef PREFIXROUTER_LIB_EVENTS_MSGPACK_READER_H_
#define PREFIXROUTER_LIB_EVENTS_MSGPACK_READER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace prefixrouter {

struct MsgpackValue {
  enum class Kind : uint8_t {
    kNil,
    kBoolean,
    kUnsigned,
    kNegative,
    kFloat,
    kString,
    kBinary,
    kExtension,
    kArray,
    kMap,
  };

  bool IsNil() const { return kind == Kind::kNil; }
  bool IsUnsigned() const { return kind == Kind::kUnsigned; }
  bool IsInteger() const { return kind == Kind::kUnsigned || kind == Kind::kNegative; }
  bool IsString() const { return kind == Kind::kString; }
  bool IsText() const { return kind == Kind::kString || kind == Kind::kBinary; }
  bool IsArray() const { return kind == Kind::kArray; }
  bool IsMap() const { return kind == Kind::kMap; }

  Kind kind = Kind::kNil;
  uint64_t integer = 0;   // kNegative: as 64 bits
  uint32_t count = 0;     // kArray: elements; kMap: pairs
  double number = 0;      // kFloat
  std::string_view text;  // kString, kBinary: inside the message
};

// What is no msgpack throws StatusError with kInvalidArgument; the text has the byte.
class MsgpackReader {
 public:
  // `message` must outlive it.
  explicit MsgpackReader(std::string_view message) : message_(message) {}

  size_t position() const { return position_; }
  // REQUIRES: a value begins there.
  void Seek(size_t position) { position_ = position; }
  bool AtEnd() const { return position_ == message_.size(); }

  MsgpackValue Read();
  // If the next value is nil, passes over it.
  bool ReadNil() {
    if (AtEnd() || message_[position_] != '\xc0') return false;
    ++position_;
    return true;
  }
  // Passes over so many values with all that is in them.
  void Skip(uint64_t values);

  // The next `count` values. False: one of them is none; where the reader stands is then not
  // specified. A token id is an integer of 32 bits; a block number an integer, or bytes of which
  // the last eight count.
  bool ReadTokens(size_t count, uint32_t* tokens);
  bool ReadBlockIds(size_t count, uint64_t* ids);
  static bool ToBlockId(const MsgpackValue& value, uint64_t* id);

  // Throws what this class throws.
  [[noreturn]] void Fail(const char* what) const;

 private:
  std::string_view message_;
  size_t position_ = 0;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_EVENTS_MSGPACK_READER_H_
