// Checks of command line arguments. CLI11's own checks let -1 become 2^64 - 1 and take nan for a
// number in range.
#ifndef PREFIXROUTER_BENCHMARKS_ARGUMENTS_H_
#define PREFIXROUTER_BENCHMARKS_ARGUMENTS_H_

#include <CLI/CLI.hpp>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <system_error>

namespace prefixrouter {

inline CLI::Validator WholeNumber(uint64_t low, uint64_t high) {
  return CLI::Validator(
      [low, high](const std::string& text) -> std::string {
        uint64_t value = 0;
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        if (error == std::errc() && stop == end && low <= value && value <= high) return "";
        return text + " is not a whole number from " + std::to_string(low) + " to " +
               std::to_string(high);
      },
      "");
}

inline CLI::Validator Number(double low, double high) {
  return CLI::Validator(
      [low, high](const std::string& text) -> std::string {
        char* stop = nullptr;
        const double value = std::strtod(text.c_str(), &stop);
        const bool read = !text.empty() && stop == text.c_str() + text.size();
        if (read && low <= value && value <= high) return "";
        std::ostringstream message;
        message << text << " is not a number from " << low << " to " << high;
        return message.str();
      },
      "");
}

}  // namespace prefixrouter

#endif  // PREFIXROUTER_BENCHMARKS_ARGUMENTS_H_
