// Calibration: rates and capacities converge to the truth, from either side, and stay in range.
#include "lib/load/calibration.h"

#include <random>

#include "tests/catch.h"

namespace prefixrouter {

TEST_CASE("prefill rate is learned from first tokens of queued prompts") {
  for (const double truth : {500.0, 12000.0, 90000.0}) {
    PrefillRate rate(10000);
    REQUIRE(rate.tokens_per_s() == Approx(10000));
    REQUIRE_FALSE(rate.learned());
    std::mt19937_64 random(1);
    double busy_until_s = 0, now_s = 0;
    for (int i = 0; i < 60; ++i) {
      const double tokens = 200 + static_cast<double>(random() % 8000);
      const double started_s = now_s;
      busy_until_s = std::max(busy_until_s, started_s) + tokens / truth;
      rate.AddFirstToken(tokens, static_cast<int64_t>(started_s * 1e9),
                         static_cast<int64_t>(busy_until_s * 1e9));
      now_s += static_cast<double>(random() % 1000) / 1000 * 8000 / truth;  // queues and pauses
    }
    REQUIRE(rate.learned());
    REQUIRE(rate.tokens_per_s() == Approx(truth).epsilon(0.02));
  }
}

TEST_CASE("prefill rate stays within its range whatever the clock says") {
  PrefillRate rate(10000);
  for (int i = 0; i < 500; ++i) rate.AddFirstToken(8000, 1000, 1000);  // at once
  REQUIRE(rate.tokens_per_s() <= 1.001e9);
  for (int i = 0; i < 500; ++i)
    rate.AddFirstToken(1, i * 2'000'000'000'000, (i * 2 + 1) * 1'000'000'000'000);
  REQUIRE(rate.tokens_per_s() >= 0.999e-6);
  for (int i = 0; i < 500; ++i) rate.AddFirstToken(8000, 5, 1);  // the first token before the start
  REQUIRE(rate.tokens_per_s() > 0);
  PrefillRate idle(10000);
  for (int i = 0; i < 100; ++i) idle.AddFirstToken(0, 0, 1'000'000'000);  // all cached
  REQUIRE(idle.tokens_per_s() == Approx(10000));
}

TEST_CASE("decisions use the reference until a rate is learned, and where it differs little") {
  PrefillRate rate(10000);
  REQUIRE(EffectiveRate(rate, 5000) == 5000);
  const auto learned = [](double tokens_per_s) {
    PrefillRate known(tokens_per_s);
    for (int i = 0; i < 20; ++i) known.AddSample(tokens_per_s, 1);
    return known;
  };
  REQUIRE(EffectiveRate(learned(10500), 10000) == Approx(10000));
  REQUIRE(EffectiveRate(learned(9500), 10000) == Approx(10000));
  REQUIRE(EffectiveRate(learned(12000), 10000) > 10200);
  REQUIRE(EffectiveRate(learned(12000), 10000) < 12000);
  REQUIRE(EffectiveRate(learned(40000), 10000) == Approx(40000));
  REQUIRE(EffectiveRate(learned(2500), 10000) == Approx(2500));
}

TEST_CASE("capacity scale settles where over- and under-prediction are equally frequent") {
  // An engine whose true capacity is `truth` of the configured one: prompts come back after a
  // uniform stretch of use, and are cached if that stretch is below the capacity.
  for (const double truth : {0.25, 0.5, 1.0, 3.0}) {
    CapacityScale scale;
    std::mt19937_64 random(2);
    double sum = 0;
    for (int i = 0; i < 4000; ++i) {
      const double stretch = static_cast<double>(random() % 10000) / 10000 * 2 * truth;
      const double predicted = stretch < scale.scale() ? 1000 : 0;
      const double reported = stretch < truth ? 1000 : 0;
      scale.AddReport(1000, predicted, reported, true);
      if (i >= 2000) sum += scale.scale() / 2000;
    }
    REQUIRE(sum == Approx(truth).epsilon(0.1));
  }
}

TEST_CASE("an index that is not full learns nothing from finding more than predicted") {
  CapacityScale scale;
  REQUIRE_FALSE(scale.AddReport(1000, 0, 1000, false));
  REQUIRE(scale.scale() == 1);
  REQUIRE(scale.AddReport(1000, 1000, 0, false));
  REQUIRE(scale.scale() < 1);
  for (int i = 0; i < 10000; ++i) scale.AddReport(1000, 1000, 0, true);
  REQUIRE(scale.scale() == Approx(1.0 / 64));
  for (int i = 0; i < 10000; ++i) scale.AddReport(1000, 0, 1000, true);
  REQUIRE(scale.scale() == Approx(64));
}

}  // namespace prefixrouter
