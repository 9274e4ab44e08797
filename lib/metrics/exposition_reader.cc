#include "lib/metrics/exposition_reader.h"

#include <system_error>

#include "absl/strings/charconv.h"

namespace prefixrouter {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t'; }
bool IsLetter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool IsDigit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string_view ExpositionSample::Label(std::string_view label_name) const {
  for (const ExpositionLabel& label : labels) {
    if (label.name == label_name) return label.value;
  }
  return {};
}

bool ExpositionReader::Next() {
  while (!rest_.empty()) {
    const size_t end = rest_.find('\n');
    const bool terminated = end != std::string_view::npos;
    line_ = rest_.substr(0, end);
    rest_.remove_prefix(terminated ? end + 1 : rest_.size());
    ++line_number_;
    if (!line_.empty() && line_.back() == '\r') line_.remove_suffix(1);
    SkipBlanks();
    if (line_.empty() || line_.front() == '#') continue;
    const char* wrong = nullptr;
    if (line_.size() > limits_.max_line_bytes) {
      wrong = "the line is longer than max_line_bytes";
    } else if (!terminated) {
      wrong = "the last line does not end with a line feed, so the page may have been cut off";
    } else {
      wrong = ParseSample();
    }
    if (wrong == nullptr) return true;
    ++malformed_lines_;
    if (first_malformed_line_ == 0) {
      first_malformed_line_ = line_number_;
      first_malformed_reason_ = wrong;
    }
  }
  return false;
}

const char* ExpositionReader::ParseSample() {
  sample_.labels.clear();
  unescaped_.clear();
  sample_.name = TakeName(true);
  const bool blank = !line_.empty() && IsBlank(line_.front());
  SkipBlanks();
  if (!line_.empty() && line_.front() == '{') {
    if (const char* wrong = ParseLabels(); wrong != nullptr) return wrong;
  } else if (!sample_.name.empty() && !blank) {
    return "the metric name has a character that it may not have";
  }
  if (sample_.name.empty()) return "the line does not begin with a metric name";
  SkipBlanks();
  if (const char* wrong = ParseNumber(&sample_.value); wrong != nullptr) return wrong;
  SkipBlanks();
  if (line_.empty() || line_.front() == '#') return nullptr;
  double timestamp;
  if (ParseNumber(&timestamp) != nullptr) return "the timestamp is not a number";
  SkipBlanks();
  if (line_.empty() || line_.front() == '#') return nullptr;
  return "there is something behind the value and its timestamp";
}

const char* ExpositionReader::ParseLabels() {
  line_.remove_prefix(1);  // the brace
  for (;;) {
    SkipBlanks();
    if (line_.empty()) return "the labels do not end";
    if (line_.front() == '}') break;
    std::string_view name;
    const bool quoted = line_.front() == '"';
    if (quoted) {
      if (const char* wrong = ParseQuoted(&name); wrong != nullptr) return wrong;
    } else {
      name = TakeName(false);
    }
    if (name.empty()) return "a label has no name";
    SkipBlanks();
    if (!line_.empty() && line_.front() == '=') {
      line_.remove_prefix(1);
      SkipBlanks();
      if (line_.empty() || line_.front() != '"') return "a label value has no quotes";
      ExpositionLabel label{name, {}};
      if (const char* wrong = ParseQuoted(&label.value); wrong != nullptr) return wrong;
      if (sample_.labels.size() >= limits_.max_labels) return "there are more than max_labels";
      for (const ExpositionLabel& other : sample_.labels) {
        if (other.name == name) return "a label is there twice";
      }
      sample_.labels.push_back(label);
    } else if (quoted && sample_.name.empty()) {
      sample_.name = name;
    } else {
      return "a label has no value";
    }
    SkipBlanks();
    if (line_.empty()) return "the labels do not end";
    if (line_.front() == '}') break;
    if (line_.front() != ',') return "there is no comma between two labels";
    line_.remove_prefix(1);
  }
  line_.remove_prefix(1);
  return nullptr;
}

const char* ExpositionReader::ParseQuoted(std::string_view* value) {
  line_.remove_prefix(1);  // the quote
  const size_t end = line_.find_first_of("\"\\");
  if (end == std::string_view::npos) return "a label value has no closing quote";
  if (line_[end] == '"') {
    *value = line_.substr(0, end);
    line_.remove_prefix(end + 1);
    return nullptr;
  }
  std::string& text = unescaped_.emplace_back();
  for (size_t i = 0; i < line_.size(); ++i) {
    char c = line_[i];
    if (c == '"') {
      *value = text;
      line_.remove_prefix(i + 1);
      return nullptr;
    }
    if (c == '\\' && i + 1 < line_.size()) {
      const char escaped = line_[i + 1];
      if (escaped == '\\' || escaped == '"' || escaped == 'n') {
        c = escaped == 'n' ? '\n' : escaped;
        ++i;
      }
    }
    text.push_back(c);
  }
  return "a label value has no closing quote";
}

const char* ExpositionReader::ParseNumber(double* number) {
  const char* const wrong = "the value is not a number";
  const size_t size = line_.find_first_of(" \t");
  std::string_view text = line_.substr(0, size);
  line_.remove_prefix(text.size());
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const char* const end = text.data() + text.size();
  const absl::from_chars_result result = absl::from_chars(text.data(), end, *number);
  return result.ec == std::errc() && result.ptr == end ? nullptr : wrong;
}

void ExpositionReader::SkipBlanks() {
  size_t count = 0;
  while (count < line_.size() && IsBlank(line_[count])) ++count;
  line_.remove_prefix(count);
}

std::string_view ExpositionReader::TakeName(bool colons) {
  size_t size = 0;
  while (size < line_.size()) {
    const char c = line_[size];
    if (!IsLetter(c) && !(colons && c == ':') && !(size > 0 && IsDigit(c))) break;
    ++size;
  }
  const std::string_view name = line_.substr(0, size);
  line_.remove_prefix(size);
  return name;
}

}  // namespace prefixrouter
