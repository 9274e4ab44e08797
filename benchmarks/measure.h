// How the ratio program measures and reports.
//
// A ratio compares two things, A and B, on one machine at one time. They alternate within one run,
// the order within a pair alternating too, so that a change of clock speed or a busy neighbour
// meets both; the figure is the median of the pairs' ratios.
#ifndef PREFIXROUTER_BENCHMARKS_MEASURE_H_
#define PREFIXROUTER_BENCHMARKS_MEASURE_H_

#include <algorithm>
#include <chrono>
#include <cstdarg>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

namespace prefixrouter::bench {

inline int64_t NowNanos() { return std::chrono::steady_clock::now().time_since_epoch().count(); }

// Keeps the optimizer from dropping the computation of `value`.
template <typename T>
inline void Keep(const T& value) {
  asm volatile("" : : "r,m"(value) : "memory");
}

// REQUIRES: !values.empty()
inline double Median(std::vector<double> values) {
  const size_t middle = values.size() / 2;
  std::nth_element(values.begin(), values.begin() + static_cast<ptrdiff_t>(middle), values.end());
  return values[middle];
}

// Mean nanoseconds of `count` calls of call(i).
template <typename Call>
double NanosPerCall(int count, Call&& call) {
  const int64_t begin = NowNanos();
  for (int i = 0; i < count; ++i) call(i);
  return static_cast<double>(NowNanos() - begin) / count;
}

// Medians over all pairs. `ratio` is that of a/b and `difference` that of a-b, pair by pair.
struct PairResult {
  double ratio = 0;
  double difference = 0;
  double a = 0;
  double b = 0;
};

// Runs a() and b(), which answer what they measured, `repetitions` times after one that warms up.
template <typename A, typename B>
PairResult MeasurePair(int repetitions, A&& a, B&& b) {
  std::vector<double> ratios, differences, as, bs;
  for (int i = -1; i < repetitions; ++i) {
    double value_a, value_b;
    if (i % 2 == 0) {
      value_a = a();
      value_b = b();
    } else {
      value_b = b();
      value_a = a();
    }
    if (i < 0) continue;
    ratios.push_back(value_a / value_b);
    differences.push_back(value_a - value_b);
    as.push_back(value_a);
    bs.push_back(value_b);
  }
  return {Median(ratios), Median(differences), Median(as), Median(bs)};
}

// Standard output has one line `name value` for each figure, and lines `# name text` that say how
// it came about; standard error has progress. scripts/bench.sh reads the former.
class Report {
 public:
  void Figure(const char* name, double value) {
    std::printf("%s %.6g\n", name, value);
    std::fflush(stdout);
    std::fprintf(stderr, "  %s = %.4g\n", name, value);
  }

  __attribute__((format(printf, 3, 4))) void Detail(const char* name, const char* format, ...) {
    char text[400];
    va_list arguments;
    va_start(arguments, format);
    std::vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    std::printf("# %s %s\n", name, text);
    std::fprintf(stderr, "  (%s: %s)\n", name, text);
  }
};

}  // namespace prefixrouter::bench

#endif  // PREFIXROUTER_BENCHMARKS_MEASURE_H_
