// Measuring in tests: medians of interleaved repetitions, and a test for uniformity.
#ifndef PREFIXROUTER_TESTS_SUPPORT_MEASURE_H_
#define PREFIXROUTER_TESTS_SUPPORT_MEASURE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

namespace prefixrouter::testing {

// Median.
// REQUIRES: !values.empty()
double Median(std::vector<double> values);

// Runs each of `jobs` in turn, `rounds` times, and returns the median seconds of each. Taking turns
// makes a disturbance of the machine hit all of them alike.
std::vector<double> InterleavedMedianSeconds(const std::vector<std::function<void()>>& jobs,
                                             size_t rounds);

// Pearson's statistic of `counts` against equal shares; counts.size() - 1 degrees of freedom.
double ChiSquareUniform(const std::vector<uint64_t>& counts);

// The value that a chi-square variable of `degrees` exceeds with probability of about 1e-6
// (Wilson and Hilferty's approximation).
double ChiSquareLimit(size_t degrees);

}  // namespace prefixrouter::testing

#endif  // PREFIXROUTER_TESTS_SUPPORT_MEASURE_H_
