// OtherRouters: how much is expected of others, where, and when nothing is.
#include "lib/load/other_routers.h"

#include "tests/catch.h"

namespace prefixrouter {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

double Expected(const OtherRouters& others, uint32_t slot, double seconds, int64_t now) {
  return others.Expected(slot, seconds, others.Rate(now));
}

}  // namespace

TEST_CASE("others are expected to send where they have sent") {
  OtherRouters others(4);
  for (uint32_t slot = 0; slot < 4; ++slot) others.InstanceAdded(slot);
  REQUIRE(Expected(others, 0, 1, 0) == 0);
  // Ten requests a second of our own for long, and of others' in flight three quarters on slot 1.
  int64_t now = 0;
  for (int i = 0; i <= 1000; ++i) {
    now = i * kSecond / 10;
    others.Sent(now);
    others.Reported(0, 1, now);
    others.Reported(1, 3, now);
    others.Reported(2, 0, now);
  }
  REQUIRE(Expected(others, 0, 0.1, now) == Approx(0.25 * 3 * 10 * 0.1).epsilon(0.02));
  REQUIRE(Expected(others, 1, 0.1, now) == Approx(0.75 * 3 * 10 * 0.1).epsilon(0.02));
  REQUIRE(Expected(others, 2, 0.1, now) == 0);
  REQUIRE(Expected(others, 3, 0.1, now) == 0);
  REQUIRE(Expected(others, 1, 0, now) == 0);
  REQUIRE(Expected(others, 1, 1, now) == Expected(others, 1, 60, now));
  // Who sends nothing expects nothing, however old the last report is.
  REQUIRE(Expected(others, 1, 1, now + 60 * kSecond) < 0.1);
  others.InstanceRemoved(1);
  REQUIRE(Expected(others, 1, 0.1, now) == 0);
  REQUIRE(Expected(others, 0, 0.1, now) == Approx(3 * 10 * 0.1).epsilon(0.02));
  others.InstanceRemoved(0);
  REQUIRE(Expected(others, 0, 0.1, now) == 0);
}

TEST_CASE("what is expected of others stays exact after odd reports, and becomes nothing") {
  OtherRouters others(2);
  others.InstanceAdded(0);
  others.InstanceAdded(1);
  int64_t now = 0;
  const auto report = [&](int seconds, double first, double second) {
    for (int i = 0; i < seconds; ++i) {
      now += kSecond;
      others.Sent(now);
      others.Reported(0, first, now);
      others.Reported(1, second, now);
    }
  };
  report(3, 1e300, 1);
  report(1000, 1, 1);
  REQUIRE(Expected(others, 0, 1, now) == Approx(Expected(others, 1, 1, now)));
  REQUIRE(Expected(others, 0, 1, now) == Approx(0.5).epsilon(0.1));
  report(1200, 0, 1);
  REQUIRE(Expected(others, 0, 1, now) == 0);
}

TEST_CASE("who is the only router expects nothing of others") {
  OtherRouters none(1);
  none.InstanceAdded(0);
  for (int i = 0; i < 100; ++i) {
    none.Sent(i * kSecond / 10);
    none.Reported(0, 5, i * kSecond / 10);
  }
  REQUIRE(Expected(none, 0, 1, 10 * kSecond) == 0);
}

}  // namespace prefixrouter
