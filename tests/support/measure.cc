// See measure.h.
#include "tests/support/measure.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace prefixrouter::testing {

double Median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

std::vector<double> InterleavedMedianSeconds(const std::vector<std::function<void()>>& jobs,
                                             size_t rounds) {
  using SteadyClock = std::chrono::steady_clock;
  std::vector<std::vector<double>> seconds(jobs.size());
  for (size_t round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < jobs.size(); ++i) {
      const auto start = SteadyClock::now();
      jobs[i]();
      seconds[i].push_back(std::chrono::duration<double>(SteadyClock::now() - start).count());
    }
  }
  std::vector<double> medians;
  for (std::vector<double>& of_job : seconds) medians.push_back(Median(std::move(of_job)));
  return medians;
}

double ChiSquareUniform(const std::vector<uint64_t>& counts) {
  double total = 0;
  for (uint64_t count : counts) total += static_cast<double>(count);
  const double expected = total / static_cast<double>(counts.size());
  double statistic = 0;
  for (uint64_t count : counts) {
    const double difference = static_cast<double>(count) - expected;
    statistic += difference * difference / expected;
  }
  return statistic;
}

double ChiSquareLimit(size_t degrees) {
  const double k = static_cast<double>(degrees);
  const double z = 4.75;  // standard normal quantile of 1 - 1e-6
  const double t = 2.0 / (9.0 * k);
  return k * std::pow(1.0 - t + z * std::sqrt(t), 3.0);
}

}  // namespace prefixrouter::testing
