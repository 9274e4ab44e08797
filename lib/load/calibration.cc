#include "lib/load/calibration.h"

#include <algorithm>
#include <cmath>

namespace prefixrouter {
namespace {

constexpr double kDecay = 0.9;
constexpr double kSlowest = 1e-6;  // units a second; far outside of what any instance does
constexpr double kFastest = 1e9;

constexpr double kScaleStep = 0.05;
constexpr double kScaleMin = 1.0 / 64;
constexpr double kScaleMax = 64;

}  // namespace

PrefillRate::PrefillRate(double prior_tokens_per_s, double prior_seconds)
    : prior_tokens_per_s_(prior_tokens_per_s),
      tokens_(prior_tokens_per_s * prior_seconds),
      seconds_(prior_seconds) {}

double PrefillRate::AddFirstToken(double uncached_tokens, int64_t started_nanos,
                                  int64_t first_token_nanos) {
  const int64_t from = std::max(started_nanos, previous_first_token_nanos_);
  previous_first_token_nanos_ = std::max(previous_first_token_nanos_, first_token_nanos);
  const double seconds = 1e-9 * static_cast<double>(std::max<int64_t>(first_token_nanos - from, 0));
  AddSample(uncached_tokens, seconds);
  return seconds;
}

void PrefillRate::AddSample(double uncached_tokens, double seconds) {
  if (uncached_tokens <= 0) return;
  tokens_ = tokens_ * kDecay + uncached_tokens;
  seconds_ = seconds_ * kDecay + seconds;
  // Within the range that options allow, whatever the clock said.
  seconds_ = std::clamp(seconds_, tokens_ / kFastest, tokens_ / kSlowest);
  ++samples_;
}

double EffectiveRate(const PrefillRate& rate, double reference_tokens_per_s) {
  if (!rate.learned()) return reference_tokens_per_s;
  const double difference = std::log(rate.tokens_per_s() / reference_tokens_per_s);
  const double trust = std::clamp((std::abs(difference) - 0.1) / (0.3 - 0.1), 0.0, 1.0);
  return reference_tokens_per_s * std::exp(difference * trust);
}

bool CapacityScale::AddReport(double prompt_tokens, double predicted_cached_tokens,
                              double reported_cached_tokens, bool index_full) {
  if (prompt_tokens <= 0) return false;
  const double error = (reported_cached_tokens - predicted_cached_tokens) / prompt_tokens;
  if (error == 0 || (error > 0 && !index_full)) return false;
  const double before = scale_;
  scale_ =
      std::clamp(scale_ * (1 + kScaleStep * std::clamp(error, -1.0, 1.0)), kScaleMin, kScaleMax);
  return scale_ != before;
}

}  // namespace prefixrouter
