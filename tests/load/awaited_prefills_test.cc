// AwaitedPrefills: since when the KV events of an instance have requests to confirm.
#include "lib/load/awaited_prefills.h"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace prefixrouter {
namespace {

constexpr int64_t kWhile = 20;

void Refresh(AwaitedPrefills& awaited, int64_t now) {
  while (awaited.EndNext(now) != AwaitedPrefills::kNone) {
  }
}

}  // namespace

TEST_CASE("a request is awaited until a while after its first token") {
  AwaitedPrefills awaited(kWhile);
  REQUIRE(awaited.Since(3) == INT64_MAX);
  const uint64_t ticket = awaited.Add(3, 100);
  REQUIRE(ticket != 0);
  Refresh(awaited, 5000);
  REQUIRE(awaited.Since(3) == 100);
  REQUIRE(awaited.Since(2) == INT64_MAX);
  awaited.Settle(3, ticket, 6000);
  awaited.Settle(3, ticket, 6010);  // its end
  Refresh(awaited, 6000 + kWhile - 1);
  REQUIRE(awaited.Since(3) == 100);
  REQUIRE(awaited.EndNext(6000 + kWhile) == 3);
  REQUIRE(awaited.EndNext(6000 + kWhile) == AwaitedPrefills::kNone);
  REQUIRE(awaited.Since(3) == INT64_MAX);
}

TEST_CASE("tickets of an instance that is gone mean nothing to the next one in its slot") {
  AwaitedPrefills awaited(kWhile);
  const uint64_t old = awaited.Add(0, 1);
  const uint64_t settled = awaited.Add(0, 2);
  awaited.Settle(0, settled, 3);
  awaited.Forget(0);
  awaited.Forget(7);
  REQUIRE(awaited.Since(0) == INT64_MAX);
  const uint64_t ticket = awaited.Add(0, 10);
  awaited.Settle(0, old, 11);
  awaited.Settle(0, 0, 11);
  Refresh(awaited, 100);
  REQUIRE(awaited.Since(0) == 10);
  awaited.Settle(0, ticket, 100);
  Refresh(awaited, 100 + kWhile);
  REQUIRE(awaited.Since(0) == INT64_MAX);
}

TEST_CASE("the oldest awaited request is found whatever the order of first tokens") {
  const uint32_t seed = std::random_device()();
  CAPTURE(seed);
  std::mt19937 random(seed);
  struct Model {
    uint32_t slot;
    uint64_t ticket;
    int64_t started;
    int64_t settled = INT64_MAX;
  };
  AwaitedPrefills awaited(kWhile);
  std::vector<Model> model;
  int64_t now = 0;
  for (int step = 0; step < 5000; ++step) {
    now += random() % 3;
    const uint32_t slot = random() % 4;
    if (random() % 2 == 0) {
      model.push_back({slot, awaited.Add(slot, now), now});
    } else if (!model.empty()) {
      Model& one = model[random() % model.size()];
      awaited.Settle(one.slot, one.ticket, now);
      one.settled = std::min(one.settled, now);
    }
    Refresh(awaited, now);
    std::erase_if(model, [&](const Model& one) { return one.settled <= now - kWhile; });
    for (uint32_t of = 0; of < 4; ++of) {
      int64_t oldest = INT64_MAX;
      for (const Model& one : model) {
        if (one.slot == of) oldest = std::min(oldest, one.started);
      }
      REQUIRE(awaited.Since(of) == oldest);
    }
  }
}

}  // namespace prefixrouter
