// Aligned text tables.
#ifndef PREFIXROUTER_BENCHMARKS_TABLE_H_
#define PREFIXROUTER_BENCHMARKS_TABLE_H_

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace prefixrouter {

inline std::string Fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

using Row = std::vector<std::string>;

// The first column to the left, the others to the right, two spaces between.
inline std::string Aligned(const std::vector<Row>& rows) {
  std::vector<size_t> widths;
  for (const Row& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text;
  for (const Row& row : rows) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string padding(widths[i] - row[i].size(), ' ');
      line += i == 0 ? row[i] + padding : "  " + padding + row[i];
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

}  // namespace prefixrouter

#endif  // PREFIXROUTER_BENCHMARKS_TABLE_H_
