#include "lib/metrics/exposition_writer.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace prefixrouter {
namespace {

// Bytes of the UTF-8 sequence that `text` begins with; 0 if it begins with none (RFC 3629).
size_t SequenceLength(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const size_t length = first < 0xC2   ? 0  // a continuation, or an overlong sequence
                        : first < 0xE0 ? 2
                        : first < 0xF0 ? 3
                        : first < 0xF5 ? 4
                                       : 0;
  if (length == 0 || text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xC0) != 0x80) return 0;
  }
  const uint8_t second = byte(1);
  if ((first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90)) return 0;  // overlong
  if (first == 0xED && second > 0x9F) return 0;                                        // surrogate
  if (first == 0xF4 && second > 0x8F) return 0;                                        // too large
  return length;
}

}  // namespace

void AppendLabel(std::string_view name, std::string_view value, std::string* labels) {
  if (!labels->empty()) *labels += ',';
  *labels += name;
  *labels += "=\"";
  while (!value.empty()) {
    const size_t length = SequenceLength(value);
    if (length == 0) {
      constexpr char kDigits[] = "0123456789abcdef";
      const uint8_t byte = static_cast<uint8_t>(value[0]);
      *labels += "\\\\x";
      *labels += kDigits[byte >> 4];
      *labels += kDigits[byte & 15];
      value.remove_prefix(1);
      continue;
    }
    if (value[0] == '\n') {
      *labels += "\\n";
    } else {
      if (value[0] == '"' || value[0] == '\\') *labels += '\\';
      *labels += value.substr(0, length);
    }
    value.remove_prefix(length);
  }
  *labels += '"';
}

std::string FormatValue(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  char buffer[32];
  return std::string(buffer, std::to_chars(buffer, buffer + sizeof(buffer), value).ptr);
}

void ExpositionWriter::Family(std::string_view name, std::string_view type, std::string_view help) {
  name_ = name;
  for (std::string_view part :
       {std::string_view("# HELP "), name, std::string_view(" "), help,
        std::string_view("\n# TYPE "), name, std::string_view(" "), type, std::string_view("\n")}) {
    page_ += part;
  }
}

void ExpositionWriter::Add(std::string_view suffix, std::string_view labels,
                           std::string_view value) {
  page_ += name_;
  page_ += suffix;
  if (!labels.empty()) {
    page_ += '{';
    page_ += labels;
    page_ += '}';
  }
  page_ += ' ';
  page_ += value;
  page_ += '\n';
}

}  // namespace prefixrouter
