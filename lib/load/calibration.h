// Calibration: what finished requests teach about the fleet and about each instance.
//
// TtftModel, of the fleet: how long a first token takes,
//
//     time to first token = overhead + slope * (prefill ahead of it and its own, at the default
//     rate)
//
// on an instance of the default rate; one that is configured to be twice as fast takes half of it.
// It is found
// by least squares over recent requests, of relative errors, with a weak prior of no overhead and
// slope 1. Without the overhead a fleet that finds nearly all tokens cached would look slow: a
// prompt of which 50 tokens are new still takes a step or two of its engine. An instance with short
// prompts would look slower than one with long ones.
//
// SpeedFactor, of an instance: observed / modelled time of about its last ten requests. What is
// used of it ignores differences that may be noise, and fades when nothing new is observed, so that
// an instance that looked slow once is tried again.
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

class SpeedFactor {
 public:
  void Add(double modelled_s, double observed_s, int64_t now_nanos);
  // At least kEnough samples: it no longer is what was configured.
  bool learned() const { return samples_ >= kEnough; }
  // What times are multiplied by: 1 where it differs by less than 10 %; above 30 % what was
  // observed, in between a mixture. Of fewer than kEnough samples only a greater difference counts:
  // one must show a factor of 2.2 before any of it is believed, and of 11 before all of it is.
  double factor() const;
  // Lets the factor fade towards 1 when nothing was added lately. To be called about once a second.
  // True if it has changed.
  bool Fade(int64_t now_nanos);

 private:
  static constexpr uint32_t kEnough = 8;

  double observed_s_ = 0;
  double modelled_s_ = 0;
  uint32_t samples_ = 0;
  int64_t last_nanos_ = INT64_MIN;
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
