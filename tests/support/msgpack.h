// Msgpack by hand, for messages that no encoder would write: each function gives the bytes of one
// value, or of a head whose elements are still to follow.
#ifndef PREFIXROUTER_TESTS_SUPPORT_MSGPACK_H_
#define PREFIXROUTER_TESTS_SUPPORT_MSGPACK_H_

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace prefixrouter::testing::pack {

inline std::string Big(uint64_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    text += static_cast<char>(value >> shift);
  }
  return text;
}

inline std::string Nil() { return "\xc0"; }
// In the narrowest form.
inline std::string Uint(uint64_t value) {
  if (value < 0x80) return std::string(1, static_cast<char>(value));
  if (value <= 0xff) return "\xcc" + Big(value, 1);
  if (value <= 0xffff) return "\xcd" + Big(value, 2);
  if (value <= 0xffffffff) return "\xce" + Big(value, 4);
  return "\xcf" + Big(value, 8);
}
inline std::string Uint64(uint64_t value) { return "\xcf" + Big(value, 8); }
inline std::string Int64(int64_t value) { return "\xd3" + Big(static_cast<uint64_t>(value), 8); }
inline std::string Float(double value) {
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  return "\xcb" + Big(bits, 8);
}
inline std::string Str(const std::string& text) {
  if (text.size() < 32) return static_cast<char>(0xa0 + text.size()) + text;
  return "\xda" + Big(text.size(), 2) + text;
}
inline std::string Bin(const std::string& bytes) { return "\xc5" + Big(bytes.size(), 2) + bytes; }
inline std::string ArrayHead(size_t count) {
  if (count < 16) return std::string(1, static_cast<char>(0x90 + count));
  return "\xdd" + Big(count, 4);
}
inline std::string MapHead(size_t count) {
  if (count < 16) return std::string(1, static_cast<char>(0x80 + count));
  return "\xdf" + Big(count, 4);
}
inline std::string Join(const std::vector<std::string>& values) {
  std::string text;
  for (const std::string& value : values) text += value;
  return text;
}
inline std::string Array(const std::vector<std::string>& values) {
  return ArrayHead(values.size()) + Join(values);
}
// Keys and values in turn.
inline std::string Map(const std::vector<std::string>& values) {
  return MapHead(values.size() / 2) + Join(values);
}
inline std::string Uints(const std::vector<uint64_t>& values) {
  std::string text = ArrayHead(values.size());
  for (uint64_t value : values) text += Uint(value);
  return text;
}

// A whole message with these events.
inline std::string Batch(const std::vector<std::string>& events) {
  return Array({Float(1.5), Array(events), Uint(0)});
}
inline std::string Stored(const std::vector<std::string>& fields) {
  return Array({Str("BlockStored"), Join(fields)}).replace(0, 1, ArrayHead(1 + fields.size()));
}

}  // namespace prefixrouter::testing::pack

#endif  // PREFIXROUTER_TESTS_SUPPORT_MSGPACK_H_
