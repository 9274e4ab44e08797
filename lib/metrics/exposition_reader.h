// ExpositionReader: walks over the samples of a page in the Prometheus text format or in
// OpenMetrics text (https://prometheus.io/docs/instrumenting/exposition_formats/,
// https://prometheus.io/docs/specs/om/open_metrics_spec/).
//
//   ExpositionReader reader(text, limits);
//   while (reader.Next()) Use(reader.sample());
//
// A line that is no sample, comment or blank is skipped, counted, and the first of them described;
// the rest of the page still counts. What a line is judged by:
//   name{label="value",...} value [timestamp] [# exemplar]
//   {"name", "label"="value", ...} value           names in quotes (Prometheus 3)
// Timestamps must be numbers and are passed over, exemplars are not looked at. `# EOF` is a comment
// like any other, since pages get concatenated. Escapes in values are \\, \" and \n; before any
// other character the backslash stands for itself. A last line without its line feed is malformed,
// as the format has it: the page may have been cut off inside a number.
//
// Own code because there is no library to use: the C++ client library of Prometheus
// (prometheus-cpp) only writes, and the parsers that exist are part of servers in Go and Rust.
//
// Not thread-safe. Allocates only for values with escapes. Reads about 300 MB a second.
#ifndef PREFIXROUTER_LIB_METRICS_EXPOSITION_READER_H_
#define PREFIXROUTER_LIB_METRICS_EXPOSITION_READER_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

namespace prefixrouter {

struct ExpositionLabel {
  std::string_view name;
  std::string_view value;
};

struct ExpositionSample {
  std::string_view name;
  std::vector<ExpositionLabel> labels;  // no name twice
  double value = 0;                     // may be NaN or infinite

  // The value of a label; empty when there is none, which Prometheus holds to be the same.
  std::string_view Label(std::string_view label_name) const;
};

struct ExpositionLimits {
  size_t max_line_bytes = 65536;
  size_t max_labels = 64;
};

class ExpositionReader {
 public:
  // Borrows `text`, whose samples point into it.
  explicit ExpositionReader(std::string_view text, const ExpositionLimits& limits = {})
      : rest_(text), limits_(limits) {}

  // Goes to the next well-formed sample. False at the end of the page.
  bool Next();
  // REQUIRES: the last Next() was true. Valid until the next one.
  const ExpositionSample& sample() const { return sample_; }

  uint64_t malformed_lines() const { return malformed_lines_; }
  uint64_t first_malformed_line() const { return first_malformed_line_; }  // from 1; 0: none
  // What is wrong with it. A constant; empty when there is none.
  const char* first_malformed_reason() const { return first_malformed_reason_; }

 private:
  // Each returns null, or what is wrong. They read from line_ and shorten it.
  const char* ParseSample();
  const char* ParseLabels();
  const char* ParseQuoted(std::string_view* value);
  const char* ParseNumber(double* number);

  void SkipBlanks();
  std::string_view TakeName(bool colons);

  std::string_view rest_;
  const ExpositionLimits limits_;
  std::string_view line_;
  ExpositionSample sample_;
  std::deque<std::string> unescaped_;  // of the current sample
  uint64_t line_number_ = 0;
  uint64_t malformed_lines_ = 0;
  uint64_t first_malformed_line_ = 0;
  const char* first_malformed_reason_ = "";
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_METRICS_EXPOSITION_READER_H_
