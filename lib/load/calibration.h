// Calibration: what finished requests teach about the fleet and about each instance.
//
// TtftModel, of the fleet: how long a first token takes,
//
//     time to first token = overhead + slope * (prefill ahead of it and its own, at the default
//     rate)
//
// on an instance of the default rate; one that is configured to be twice as fast takes half of it.
// It is found by least squares over recent requests, of relative errors, with a weak prior of no
// overhead and slope 1. Without the overhead a fleet that finds nearly all tokens cached would look
// slow: a prompt of which 50 tokens are new still takes a step or two of its engine. An instance
// with short prompts would look slower than one with long ones.
//
// SpeedFactor, of an instance: observed / modelled time of its last requests. How much of it is
// used depends on how many they were and on SpeedSpread. They count less and less when nothing new
// is observed, so that an instance that looked slow once is tried again.
//
// SpeedSpread, of the fleet: how far its instances' speeds are apart, and how much such a factor
// changes by chance. Where speeds differ, a single request tells much of an instance of which
// nothing else is known; where they do not, ten requests that were slow had others before them that
// this router does not see.
//
// CapacityScale: true capacity / configured capacity. When the engine finds less of a prompt cached
// than predicted, the router believes in blocks that are evicted already; when it finds more, the
// router has forgotten blocks too early. Each report moves the scale by up to 5 % one way or the
// other, so that it settles where both are equally frequent.
#ifndef PREFIXROUTER_LIB_LOAD_CALIBRATION_H_
#define PREFIXROUTER_LIB_LOAD_CALIBRATION_H_

#include <cstdint>

namespace prefixrouter {

class TtftModel {
 public:
  // prefill_s: seconds of prefill that were assigned to the instance when the request was, its own
  // included, at the default rate. ttft_s: what it took, times configured rate / default rate.
  void Add(double prefill_s, double ttft_s);

  double overhead_s() const { return overhead_s_; }  // >= 0
  double slope() const { return slope_; }            // 1e-6 to 1e6
  double Predict(double prefill_s) const { return overhead_s_ + slope_ * prefill_s; }

 private:
  // Sums over samples of weight * (1, x, x^2, y, xy), decaying.
  double w_ = 0, wx_ = 0, wxx_ = 0, wy_ = 0, wxy_ = 0;
  double overhead_s_ = 0;
  double slope_ = 1;
};

class SpeedSpread;

class SpeedFactor {
 public:
  void Add(double modelled_s, double observed_s, int64_t now_nanos);
  bool any() const { return samples_ > 0; }
  // About eight samples or more: it no longer is what was configured.
  bool learned() const { return samples_ >= kEnough; }
  // Logarithm of observed / modelled time of about the last ten samples; 0 without any.
  double observed() const;
  // The means of the samples' own logarithms, at most 3 each, of the last ten and of the last
  // fifty: one request that was stalled moves them little.
  double recent() const { return samples_ > 0 ? recent_ / samples_ : 0; }
  double lasting() const { return lasting_samples_ > 0 ? lasting_ / lasting_samples_ : 0; }
  // What times are multiplied by. In a fleet whose speeds are alike it is 1 where the recent factor
  // differs by less than 10 %; above 30 % what was observed, in between a mixture. Of few samples,
  // and where factors change by chance, only a greater difference counts: one sample must show a
  // factor of 2.2 before any of it is believed, and of 11 before all of it is. The more the fleet's
  // speeds differ, the more is believed at least: n / (n + 1 / spread.ratio()) of the logarithm,
  // the best guess from n samples when both are normally distributed (empirical Bayes: B. Efron and
  // C. Morris, "Stein's estimation rule and its competitors", JASA 68, 1973).
  double factor(const SpeedSpread& spread) const;
  // Makes what was observed count less, by 5 % a second, when nothing was added for ten seconds; in
  // the end it is forgotten. To be called about once a second.
  void Fade(int64_t now_nanos);

 private:
  static constexpr double kEnough = 5.6;  // decaying count of eight samples

  // Sums over samples, decaying: ten count, of lasting_ fifty.
  double samples_ = 0;
  double observed_s_ = 0;
  double modelled_s_ = 0;
  double recent_ = 0;  // logarithms
  double lasting_samples_ = 0;
  double lasting_ = 0;
  int64_t last_nanos_ = INT64_MIN;
  double faded_s_ = 0;  // since then
};

class SpeedSpread {
 public:
  // One more sample of an instance, with its factor before that. The first of an instance tells
  // nothing.
  void Add(const SpeedFactor& before, double modelled_s, double observed_s);
  // Variance between the instances' true factors / variance of one sample, of logarithms; >= 0.
  double ratio() const { return ratio_; }
  // How far a recent factor is off by chance, at the most; of logarithms, >= 0.
  double noise() const { return noise_; }

 private:
  double Ratio() const;

  // Sums over samples, decaying. What a sample is off by has little to do with what those long
  // before it were off by, so the covariance of both is the variance of what they have in common:
  // the instance's true factor.
  double samples_ = 0;
  double sample_ = 0;    // sum of logarithms
  double squares_ = 0;   // sample^2
  double lasting_ = 0;   // of the sample's instance, before
  double products_ = 0;  // sample * lasting
  // The same, of samples of instances with enough of them.
  double wandering_ = 0;
  double wander_ = 0;  // (recent - lasting)^2
  // Of these sums, so that all instances' factors cost one calculation a sample.
  double ratio_ = 0;
  double noise_ = 0;
};

class CapacityScale {
 public:
  // Tokens of one prompt. index_full: the instance's predicted blocks fill its capacity, without
  // which finding more than predicted says nothing about it. True if the scale has changed.
  bool AddReport(double prompt_tokens, double predicted_cached_tokens,
                 double reported_cached_tokens, bool index_full);
  double scale() const { return scale_; }

 private:
  double scale_ = 1;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_LOAD_CALIBRATION_H_
