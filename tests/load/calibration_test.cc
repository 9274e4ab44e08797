// Calibration: models, factors and capacities converge to the truth, from either side, and stay in
// range.
#include "lib/load/calibration.h"

#include <cmath>
#include <iterator>
#include <random>

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
  const auto learned = [&seen](double factor) { return seen(20, factor); };
  REQUIRE(SpeedFactor().factor() == 1);
  REQUIRE(seen(1, 2.2).factor() == 1);
  REQUIRE(seen(1, 0.46).factor() == 1);
  REQUIRE(seen(1, 4).factor() > 1);
  REQUIRE(seen(1, 4).factor() < 2);
  REQUIRE(seen(2, 4).factor() > 2);
  REQUIRE(seen(2, 4).factor() < 4);
  REQUIRE(seen(4, 4).factor() == Approx(4));
  REQUIRE(seen(4, 0.25).factor() == Approx(0.25));
  REQUIRE_FALSE(seen(7, 5).learned());
  REQUIRE(seen(8, 5).learned());
  REQUIRE(learned(1.05).factor() == Approx(1));
  REQUIRE(learned(0.95).factor() == Approx(1));
  REQUIRE(learned(1.2).factor() > 1.02);
  REQUIRE(learned(1.2).factor() < 1.2);
  REQUIRE(learned(4).factor() == Approx(4));
  REQUIRE(learned(0.25).factor() == Approx(0.25));
  REQUIRE(learned(0).factor() > 0);
  REQUIRE(learned(1e300).factor() <= 1000);
}

TEST_CASE("a speed factor fades when nothing new is seen, so that the instance is tried again") {
  SpeedFactor speed;
  for (int i = 0; i < 20; ++i) speed.Add(1, 4, kSecond);
  REQUIRE_FALSE(speed.Fade(9 * kSecond));
  REQUIRE(speed.factor() == Approx(4));
  int64_t now = 12 * kSecond;
  REQUIRE(speed.Fade(now));
  REQUIRE(speed.factor() < 4);
  for (int i = 0; i < 120; ++i) speed.Fade(now += kSecond);
  REQUIRE(speed.factor() == Approx(1));
  for (int i = 0; i < 20; ++i) speed.Add(1, 4, now);
  REQUIRE(speed.factor() == Approx(4).epsilon(0.1));
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
