// ExpositionWriter: writes samples in the Prometheus text format.
//
//   writer.Family("x_total", "counter", "What it counts.");
//   writer.Add("", R"(router="a")", 17);
//
// Own code rather than prometheus-cpp: that library's registry wants to own the counters, its
// serialiser a copy of all samples in its own structs, and every user of this library would have to
// link it for what is 100 lines.
#ifndef PREFIXROUTER_LIB_METRICS_EXPOSITION_WRITER_H_
#define PREFIXROUTER_LIB_METRICS_EXPOSITION_WRITER_H_

#include <concepts>
#include <string>
#include <string_view>
#include <utility>

namespace prefixrouter {

// Appends `name="value"` to a list of labels, with a comma where one is needed. Bytes that are not
// valid UTF-8 become \xNN.
void AppendLabel(std::string_view name, std::string_view value, std::string* labels);

// The shortest text that reads back as `value`; "NaN", "+Inf", "-Inf".
std::string FormatValue(double value);

class ExpositionWriter {
 public:
  // The samples that follow are of this metric. The help text has no backslash and no line feed.
  void Family(std::string_view name, std::string_view type, std::string_view help);
  // labels: as AppendLabel makes them; may be empty. suffix: "_sum" and the like.
  void Add(std::string_view suffix, std::string_view labels, double value) {
    Add(suffix, labels, std::string_view(FormatValue(value)));
  }
  template <std::integral Integer>
  void Add(std::string_view suffix, std::string_view labels, Integer value) {
    Add(suffix, labels, std::string_view(std::to_string(value)));
  }

  std::string TakePage() { return std::move(page_); }

 private:
  void Add(std::string_view suffix, std::string_view labels, std::string_view value);

  std::string page_;
  std::string_view name_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_METRICS_EXPOSITION_WRITER_H_
