#include "lib/load/calibration.h"

#include <algorithm>
#include <cmath>

namespace prefixrouter {
namespace {

// The model remembers about 200 requests, a factor about ten.
constexpr double kModelDecay = 0.995;
constexpr double kFactorDecay = 0.9;
// Of the prior: as many samples as what it says weighs. The slope's is weak, so that a wrong rate
// is corrected at once; the overhead's keeps it at 0 where prompts are too alike to tell.
constexpr double kOverheadPrior = 1;
constexpr double kSlopePrior = 0.001;
// Times below this are taken as this long: errors are relative.
constexpr double kShortest = 1e-6;
// A sample counts as at most so many times what was expected: the wait for a slot in a full batch,
// or a stalled engine, is not the fleet's speed. But if many are like that, the model is wrong, so
// each makes it forget.
constexpr double kOutlier = 4;
constexpr double kOutlierDecay = 0.8;
constexpr double kSlopeMin = 1e-6;
constexpr double kSlopeMax = 1e6;
constexpr double kLongest = 1e6;

// Logarithms of factors that may be noise: of many samples, and of one. Up to here a difference is
// ignored, from three times of it on it is believed.
constexpr double kFactorNoise = 0.1;
constexpr double kFactorNoiseOfOne = 0.8;
constexpr double kFactorMin = 1e-3;
constexpr double kFactorMax = 1e3;
constexpr double kFadeAfterNanos = 10e9;
constexpr double kFade = 0.97;  // a second

constexpr double kScaleStep = 0.05;
constexpr double kScaleMin = 1.0 / 64;
constexpr double kScaleMax = 64;

}  // namespace

void TtftModel::Add(double prefill_s, double ttft_s) {
  const double x = std::clamp(prefill_s, 0.0, kLongest);
  const double expected = std::max(Predict(x), kShortest);
  const double y = std::clamp(ttft_s, 0.0, std::min(kOutlier * expected, kLongest));
  const double weight = 1 / (expected * expected);
  const double decay = ttft_s > kOutlier * expected ? kOutlierDecay : kModelDecay;
  w_ = w_ * decay + weight;
  wx_ = wx_ * decay + weight * x;
  wxx_ = wxx_ * decay + weight * x * x;
  wy_ = wy_ * decay + weight * y;
  wxy_ = wxy_ * decay + weight * x * y;

  // Minimises sum weight (overhead + slope x - y)^2 + prior.
  const double a11 = w_ + kOverheadPrior * weight;
  const double slope_prior = kSlopePrior / (slope_ * slope_);  // relative too
  const double a22 = wxx_ + slope_prior;
  const double determinant = a11 * a22 - wx_ * wx_;
  const double b2 = wxy_ + slope_prior;
  double overhead = (wy_ * a22 - b2 * wx_) / determinant;
  double slope = (a11 * b2 - wx_ * wy_) / determinant;
  if (!(overhead >= 0) || !(slope >= kSlopeMin)) {
    // More work would take less time: there is no overhead to be told apart.
    overhead = 0;
    slope = b2 / a22;
  }
  overhead_s_ = overhead;
  slope_ = std::clamp(slope, kSlopeMin, kSlopeMax);
}

void SpeedFactor::Add(double modelled_s, double observed_s, int64_t now_nanos) {
  observed_s_ = observed_s_ * kFactorDecay + std::clamp(observed_s, 0.0, kLongest);
  modelled_s_ = modelled_s_ * kFactorDecay + std::clamp(modelled_s, kShortest, kLongest);
  ++samples_;
  last_nanos_ = now_nanos;
}

double SpeedFactor::factor() const {
  if (samples_ == 0) return 1;
  const double ratio = std::clamp(observed_s_ / modelled_s_, kFactorMin, kFactorMax);
  const double difference = std::log(ratio);
  const double noise = std::max(kFactorNoise, kFactorNoiseOfOne / samples_);
  const double trust = std::clamp((std::abs(difference) - noise) / (2 * noise), 0.0, 1.0);
  return std::exp(difference * trust);
}

bool SpeedFactor::Fade(int64_t now_nanos) {
  const double age_nanos = static_cast<double>(now_nanos) - static_cast<double>(last_nanos_);
  if (samples_ == 0 || age_nanos < kFadeAfterNanos) return false;
  const double before = factor();
  observed_s_ = modelled_s_ * std::pow(observed_s_ / modelled_s_, kFade);
  return factor() != before;
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
