#include "lib/load/calibration.h"

#include <algorithm>
#include <cmath>

namespace prefixrouter {
namespace {

// The model remembers about 200 requests, a recent factor ten, a lasting one and the spread fifty.
constexpr double kModelDecay = 0.995;
constexpr double kRecentDecay = 0.9;
constexpr double kLastingDecay = 0.98;
constexpr double kSpreadDecay = 0.98;
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
// Before anything is known of the spread: three samples of this variance, and none between
// instances.
constexpr double kSpreadPrior = 3;
constexpr double kSampleVariance = 0.3;
constexpr double kSampleVarianceMin = 0.02;
constexpr double kLongestLogarithm = 3;
constexpr double kWanderInMean = 0.5;
constexpr double kNoiseDeviations = 4;  // that a factor is hardly ever off by
constexpr double kFadeAfter_s = 10;
constexpr double kFade = 0.95;       // a second
constexpr double kForgotten = 0.01;  // samples

constexpr double kScaleStep = 0.05;
constexpr double kScaleMin = 1.0 / 64;
constexpr double kScaleMax = 64;

// Logarithm of observed / modelled time of one request, as far as it is believed.
double SampleLogarithm(double modelled_s, double observed_s) {
  const double ratio = std::max(observed_s, kShortest) / std::max(modelled_s, kShortest);
  return std::clamp(std::log(ratio), -kLongestLogarithm, kLongestLogarithm);
}

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
  const auto add = [](double decay, double value, double* sum) { *sum = *sum * decay + value; };
  const double logarithm = SampleLogarithm(modelled_s, observed_s);
  add(kRecentDecay, 1, &samples_);
  add(kRecentDecay, std::clamp(observed_s, 0.0, kLongest), &observed_s_);
  add(kRecentDecay, std::clamp(modelled_s, kShortest, kLongest), &modelled_s_);
  add(kRecentDecay, logarithm, &recent_);
  add(kLastingDecay, 1, &lasting_samples_);
  add(kLastingDecay, logarithm, &lasting_);
  last_nanos_ = now_nanos;
  faded_s_ = 0;
}

double SpeedFactor::observed() const {
  return any() ? std::log(std::clamp(observed_s_ / modelled_s_, kFactorMin, kFactorMax)) : 0;
}

double SpeedFactor::factor(const SpeedSpread& spread) const {
  if (!any()) return 1;
  const double difference = observed();
  const double noise = std::max({kFactorNoise, kFactorNoiseOfOne / samples_, spread.noise()});
  const double significant = std::clamp((std::abs(difference) - noise) / (2 * noise), 0.0, 1.0);
  const double known = samples_ * spread.ratio();
  return std::exp(difference * std::max(significant, known / (known + 1)));
}

void SpeedFactor::Fade(int64_t now_nanos) {
  const double age_s = 1e-9 * (static_cast<double>(now_nanos) - static_cast<double>(last_nanos_));
  const double fading_s = age_s - kFadeAfter_s;
  if (!any() || fading_s <= faded_s_) return;
  const double kept = std::pow(kFade, fading_s - faded_s_);
  faded_s_ = fading_s;
  for (double* const sum : {&samples_, &observed_s_, &modelled_s_, &recent_}) *sum *= kept;
  if (samples_ < kForgotten) *this = SpeedFactor();
}

void SpeedSpread::Add(const SpeedFactor& before, double modelled_s, double observed_s) {
  if (!before.any()) return;
  const double sample = SampleLogarithm(modelled_s, observed_s);
  const double lasting = before.lasting();
  const auto add = [](double value, double* sum) { *sum = *sum * kSpreadDecay + value; };
  add(1, &samples_);
  add(sample, &sample_);
  add(sample * sample, &squares_);
  add(lasting, &lasting_);
  add(sample * lasting, &products_);
  if (before.learned()) {  // a difference of few samples is theirs
    const double wandered = before.recent() - lasting;
    add(1, &wandering_);
    add(wandered * wandered, &wander_);
    noise_ = kNoiseDeviations * std::sqrt(wander_ / wandering_);
  }
  ratio_ = Ratio();
}

double SpeedSpread::Ratio() const {
  const double wander = wandering_ == 0 ? 0 : wander_ / wandering_ * samples_;
  const double samples = samples_ + kSpreadPrior;
  // What a factor wanders by is in the mean of the last fifty too, and so in the products.
  const double common = products_ - sample_ * lasting_ / samples_ - kWanderInMean * wander;
  const double between = std::max(common, 0.0) / samples;
  const double all =
      (squares_ - sample_ * sample_ / samples_ + kSpreadPrior * kSampleVariance) / samples;
  return between / std::max(all - between, kSampleVarianceMin);
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
