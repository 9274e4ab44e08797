// LoadHistory: what there was at a time, as far back as it is remembered.
#include "lib/load/load_history.h"

#include "tests/catch.h"

namespace prefixrouter {

TEST_CASE("of more changes than are remembered the earliest known counts, to 20 ms") {
  constexpr int64_t kStep = 20'000'000;
  LoadHistory history;
  REQUIRE(history.At(5, {9, 8}).in_flight == 9);
  history.Note(0, {7, 3});
  REQUIRE(history.At(-5, {9, 8}).in_flight == 7);
  REQUIRE(history.At(0, {9, 8}).waiting == 3);
  for (int32_t i = 1; i <= 100; ++i) {
    history.Note(i * kStep, {i, 0});
    history.Note(i * kStep + kStep / 2, {1000 + i, 0});  // in the same step
  }
  const auto at = [&](int64_t step) { return history.At(step * kStep, {}).in_flight; };
  REQUIRE(at(100) == 1100);
  REQUIRE(at(1000) == 1100);
  REQUIRE(at(70) == 1070);
  REQUIRE(at(37) == 1037);
  REQUIRE(at(36) == 1037);
  REQUIRE(at(1) == 1037);
}

}  // namespace prefixrouter
