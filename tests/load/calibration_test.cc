// Calibration: models, factors and capacities converge to the truth, from either side, and stay in
// range.
#include "lib/load/calibration.h"

#include <cmath>
#include <iterator>
#include <random>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace prefixrouter {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

}  // namespace

TEST_CASE("overhead and slope are told apart where prompts differ in length") {
  struct Truth {
    double overhead_s, slope;
  };
  for (const Truth truth : {Truth{0, 1}, {0.02, 0.5}, {0.3, 8}, {0.015, 0.1}}) {
    CAPTURE(truth.overhead_s, truth.slope);
    TtftModel model;
    std::mt19937_64 random(1);
    const auto uniform = [&] { return static_cast<double>(random() % 1000) / 1000; };
    for (int i = 0; i < 3000; ++i) {
      const double x = uniform() < 0.5 ? 0.005 * uniform() : uniform();
      model.Add(x, (truth.overhead_s + truth.slope * x) * (0.8 + 0.4 * uniform()));
    }
    REQUIRE(model.overhead_s() == Approx(truth.overhead_s).epsilon(0.3).margin(0.002));
    REQUIRE(model.slope() == Approx(truth.slope).epsilon(0.15));
  }
}

TEST_CASE("prompts that are all alike teach the slope, at once") {
  TtftModel model;
  for (int i = 0; i < 12; ++i) model.Add(0.4, 1);
  REQUIRE(model.Predict(0.4) == Approx(1).epsilon(0.02));
  REQUIRE(model.slope() == Approx(2.5).epsilon(0.05));
}

TEST_CASE("a model that is far off gets there in spite of the bound on outliers") {
  for (const double slope : {0.01, 300.0}) {
    TtftModel model;
    std::mt19937_64 random(2);
    for (int i = 0; i < 1000; ++i) {
      const double x = 0.01 + static_cast<double>(random() % 1000) / 1000;
      model.Add(x, slope * x);
    }
    REQUIRE(model.slope() == Approx(slope).epsilon(0.05));
  }
  // And a stall of a minute now and then changes little.
  TtftModel model;
  for (int i = 0; i < 1000; ++i) model.Add(0.1 + 0.001 * (i % 100), i % 50 == 0 ? 60 : 0.1);
  REQUIRE(model.Predict(0.15) < 0.15);
}

TEST_CASE("the model stays in range whatever the clock says") {
  TtftModel model;
  std::mt19937_64 random(3);
  for (int i = 0; i < 20000; ++i) {
    const auto odd = [&] {
      constexpr double kOdd[] = {0, -1, 1e-12, 1e-3, 1, 1e9, 1e300};
      return kOdd[random() % std::size(kOdd)];
    };
    model.Add(odd(), odd());
    REQUIRE(model.overhead_s() >= 0);
    REQUIRE(model.slope() >= 1e-6);
    REQUIRE(model.slope() <= 1e6);
    REQUIRE(std::isfinite(model.overhead_s()));
  }
}

TEST_CASE("a speed factor is 1 where it differs by less than so few samples may by chance") {
  const auto seen = [](int samples, double factor) {
    SpeedFactor speed;
    for (int i = 0; i < samples; ++i) speed.Add(1, factor, kSecond);
    return speed;
  };
  const SpeedSpread alike;
  const auto learned = [&](double factor) { return seen(20, factor); };
  REQUIRE(SpeedFactor().factor(alike) == 1);
  REQUIRE(seen(1, 2.2).factor(alike) == 1);
  REQUIRE(seen(1, 0.46).factor(alike) == 1);
  REQUIRE(seen(1, 4).factor(alike) > 1);
  REQUIRE(seen(1, 4).factor(alike) < 2);
  REQUIRE(seen(2, 2).factor(alike) > 1);
  REQUIRE(seen(2, 2).factor(alike) < 2);
  REQUIRE(seen(2, 4).factor(alike) == Approx(4));
  REQUIRE(seen(4, 4).factor(alike) == Approx(4));
  REQUIRE(seen(4, 0.25).factor(alike) == Approx(0.25));
  REQUIRE_FALSE(seen(7, 5).learned());
  REQUIRE(seen(8, 5).learned());
  REQUIRE(learned(1.05).factor(alike) == Approx(1));
  REQUIRE(learned(0.95).factor(alike) == Approx(1));
  REQUIRE(learned(1.2).factor(alike) > 1.02);
  REQUIRE(learned(1.2).factor(alike) < 1.2);
  REQUIRE(learned(4).factor(alike) == Approx(4));
  REQUIRE(learned(0.25).factor(alike) == Approx(0.25));
  REQUIRE(learned(0).factor(alike) > 0);
  REQUIRE(learned(1e300).factor(alike) <= 1000);
}

TEST_CASE("a speed factor fades when nothing new is seen, so that the instance is tried again") {
  const SpeedSpread alike;
  SpeedFactor speed;
  for (int i = 0; i < 20; ++i) speed.Add(1, 4, kSecond);
  speed.Fade(9 * kSecond);
  REQUIRE(speed.factor(alike) == Approx(4));
  int64_t now = 12 * kSecond;
  double before = 4;
  for (int i = 0; i < 45; ++i) {
    speed.Fade(now += kSecond);
    REQUIRE(speed.factor(alike) <= before);
    before = speed.factor(alike);
  }
  REQUIRE(before < 2);
  for (int i = 0; i < 75; ++i) speed.Fade(now += kSecond);
  REQUIRE(speed.factor(alike) == Approx(1));
  for (int i = 0; i < 20; ++i) speed.Fade(now += kSecond);
  REQUIRE_FALSE(speed.any());
  // It is the time that counts, not how often it is asked.
  SpeedFactor often, once;
  for (SpeedFactor* const each : {&often, &once}) {
    for (int i = 0; i < 20; ++i) each->Add(1, 4, kSecond);
  }
  for (int i = 1; i <= 150; ++i) often.Fade(i * kSecond / 2);
  once.Fade(75 * kSecond);
  REQUIRE(once.factor(alike) < 3);
  REQUIRE(often.factor(alike) == Approx(once.factor(alike)));
  for (int i = 0; i < 20; ++i) speed.Add(1, 4, now);
  REQUIRE(speed.factor(alike) == Approx(4).epsilon(0.1));
}

namespace {

// Instances whose samples are off by a factor of about e^noise either way, one after the other.
struct SampledFleet {
  explicit SampledFleet(std::vector<double> factors)
      : truth(std::move(factors)), speeds(truth.size()) {}

  void Sample(size_t instance, double noise) {
    std::normal_distribution<double> normal(0, noise);
    const double observed_s = truth[instance] * std::exp(normal(random));
    spread.Add(speeds[instance], 1, observed_s);
    speeds[instance].Add(1, observed_s, kSecond);
  }

  std::vector<double> truth;
  std::vector<SpeedFactor> speeds;
  SpeedSpread spread;
  std::mt19937_64 random{4};
};

}  // namespace

TEST_CASE("where instances differ in speed, one sample is believed, and where not, it is not") {
  SpeedFactor one;
  one.Add(1, 2, kSecond);
  SampledFleet alike({1, 1, 1, 1, 1, 1, 1, 1});
  SampledFleet different({2, 2, 1, 0.5, 2, 2, 1, 0.5});
  for (SampledFleet* const fleet : {&alike, &different}) {
    for (size_t i = 0; i < 400; ++i) fleet->Sample(i % 8, 0.2);
  }
  REQUIRE(alike.spread.ratio() < 0.1);
  REQUIRE(one.factor(alike.spread) < 1.1);
  // Their variance is 0.33, that of the samples 0.04.
  REQUIRE(different.spread.ratio() > 4);
  REQUIRE(different.spread.ratio() < 12);
  REQUIRE(one.factor(different.spread) > 1.5);
  REQUIRE(one.factor(different.spread) < 2);
  for (size_t i = 0; i < 8; ++i) {
    CAPTURE(i);
    REQUIRE(alike.speeds[i].factor(alike.spread) == Approx(1).epsilon(0.1));
    REQUIRE(different.speeds[i].factor(different.spread) ==
            Approx(different.truth[i]).epsilon(0.25));
  }
}

TEST_CASE("factors that change by chance are believed only when they are great") {
  // What a router sees that shares its instances with others: for some twenty requests in turn an
  // instance looks half or twice as fast, and then no longer.
  SampledFleet fleet({1, 1, 1, 1});
  for (size_t i = 0; i < 2000; ++i) {
    const size_t instance = i % 4, stretch = i / 4 / 20;
    fleet.truth[instance] = (stretch + instance) % 2 == 0 ? 2 : 0.5;
    fleet.Sample(instance, 0.2);
  }
  REQUIRE(fleet.spread.noise() > 0.5);
  REQUIRE(SpeedSpread().noise() == 0);
  SpeedFactor twice, tenfold;
  for (int i = 0; i < 20; ++i) {
    twice.Add(1, 2, kSecond);
    tenfold.Add(1, 10, kSecond);
  }
  REQUIRE(twice.factor(SpeedSpread()) == Approx(2));
  REQUIRE(twice.factor(fleet.spread) < 1.7);
  REQUIRE(tenfold.factor(fleet.spread) > 2.5);
}

TEST_CASE("a fleet that is slower than configured as a whole has no spread") {
  SampledFleet fleet({1.5, 1.5, 1.5, 1.5});
  for (size_t i = 0; i < 400; ++i) fleet.Sample(i % 4, 0.3);
  REQUIRE(fleet.spread.ratio() < 0.2);
}

TEST_CASE("one stalled request, or few requests a minute, are no noise of the others' factors") {
  SampledFleet fleet({2, 1, 1, 1});
  int64_t now = 0;
  for (size_t i = 0; i < 200; ++i) {
    now += 6 * kSecond;
    fleet.Sample(i % 4, 0.2);
    for (SpeedFactor& speed : fleet.speeds) speed.Fade(now);
  }
  REQUIRE(fleet.spread.noise() < 0.5);
  SampledFleet stalled({1, 1, 1, 1});
  for (size_t i = 0; i < 100; ++i) stalled.Sample(i % 4, 0.1);
  stalled.truth[0] = 1000;
  stalled.Sample(0, 0.1);
  stalled.truth[0] = 1;
  for (size_t i = 0; i < 400; ++i) stalled.Sample(i % 4, 0.1);
  REQUIRE(stalled.spread.noise() < 0.5);
}

TEST_CASE("a speed spread stays in range whatever the clock says") {
  SampledFleet fleet({1});
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) {
    const auto odd = [&] {
      constexpr double kOdd[] = {0, -1, 1e-12, 1e-3, 1, 1e9, 1e300};
      return kOdd[random() % std::size(kOdd)];
    };
    const double modelled_s = odd(), observed_s = odd();
    fleet.spread.Add(fleet.speeds[0], modelled_s, observed_s);
    fleet.speeds[0].Add(modelled_s, observed_s, kSecond);
    REQUIRE(fleet.spread.ratio() >= 0);
    REQUIRE(std::isfinite(fleet.spread.ratio()));
    REQUIRE(std::isfinite(fleet.spread.noise()));
    REQUIRE(fleet.speeds[0].factor(fleet.spread) >= 1e-3);
    REQUIRE(fleet.speeds[0].factor(fleet.spread) <= 1e3);
  }
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
