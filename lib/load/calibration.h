// Calibration: what finished requests teach about an instance.
//
// PrefillRate: tokens a second. An engine prefills one prompt after another (or several in one
// step, which adds up to the same), so between two first tokens it has prefilled the later prompt:
//
//     sample = (uncached tokens of the prompt,
//               its first token - the later of its start and the instance's previous first token)
//
// The rate is the ratio of the two sums, both decaying by a tenth a sample, so that about the last
// ten prompts count, long ones more. The configured or default rate enters as half a second of
// work. EffectiveRate is what decisions use: an instance that has shown little yet counts as fast
// as the rest of the fleet, and differences that may be noise count as none. Otherwise the first
// instance to be measured, or the luckiest one, would draw all the traffic of an idle fleet.
//
// CapacityScale: true capacity / configured capacity. When the engine finds less of a prompt cached
// than predicted, the router believes in blocks that are evicted already; when it finds more, the
// router has forgotten blocks too early. Each report moves the scale by up to 5 % one way or the
// other, so that it settles where both are equally frequent.
#ifndef PREFIXROUTER_LIB_LOAD_CALIBRATION_H_
#define PREFIXROUTER_LIB_LOAD_CALIBRATION_H_

#include <cstdint>

namespace prefixrouter {

class PrefillRate {
 public:
  // What is assumed at first: tokens a second, > 0, and as how much observed work that counts. With
  // 0 seconds the first sample replaces it.
  explicit PrefillRate(double prior_tokens_per_s, double prior_seconds = 0);

  // Returns the seconds of the sample.
  double AddFirstToken(double uncached_tokens, int64_t started_nanos, int64_t first_token_nanos);
  // A sample of another instance, for the rate of a whole fleet. No effect without tokens: a wait
  // without prefill says nothing of the rate.
  void AddSample(double uncached_tokens, double seconds);
  double tokens_per_s() const { return seconds_ > 0 ? tokens_ / seconds_ : prior_tokens_per_s_; }
  // At least kEnough samples: it no longer is what was configured.
  bool learned() const { return samples_ >= kEnough; }

 private:
  static constexpr uint32_t kEnough = 8;

  double prior_tokens_per_s_;
  double tokens_;
  double seconds_;
  uint32_t samples_ = 0;
  int64_t previous_first_token_nanos_ = INT64_MIN;
};

// The rate to decide with. reference: the configured rate, corrected by what the fleet has shown.
// Below 10 % of difference the reference, above 30 % the learned rate, in between a mixture.
double EffectiveRate(const PrefillRate& rate, double reference_tokens_per_s);

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
