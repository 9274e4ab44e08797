// consistent_hash and prefix_hash: who gets a key, what moves on scaling, and what a bound does.
#include <map>
#include <string>
#include <vector>

#include "lib/policy/builtin.h"
#include "prefixrouter/prefix_router.h"
#include "tests/catch.h"
#include "tests/support/policy_fleet.h"

namespace prefixrouter {

TEST_CASE("consistent_hash moves few keys when an instance comes or goes") {
  auto policy = MakeConsistentHash();
  PolicyFleet fleet(11);
  for (uint32_t i = 0; i < 10; ++i)
    policy->InstanceAdded(fleet.ids[i], "host" + std::to_string(i), 0);
  fleet.eligible[10] = 0;
  const auto place = [&] {
    std::vector<uint32_t> slots;
    for (uint64_t key = 1; key <= 2000; ++key) {
      PolicyInput in = fleet.Input();
      in.affinity_hash = Spread(key);
      slots.push_back(fleet.Choose(*policy, in).slot);
    }
    return slots;
  };
  const auto before = place();
  std::map<uint32_t, int> times;
  for (uint32_t slot : before) ++times[slot];
  REQUIRE(times.size() == 10);
  for (const auto& [slot, count] : times) REQUIRE(count > 120);  // of 200 on average

  policy->InstanceAdded(fleet.ids[10], "host10", 0);
  fleet.eligible[10] = 1;
  const auto after = place();
  int moved = 0;
  for (size_t i = 0; i < before.size(); ++i) {
    if (before[i] == after[i]) continue;
    ++moved;
    REQUIRE(after[i] == 10);  // keys move to the new instance only
  }
  REQUIRE(moved > 80);
  REQUIRE(moved < 330);  // 1/11 of 2,000 on average
  policy->InstanceRemoved(fleet.ids[10]);
  fleet.eligible[10] = 0;
  REQUIRE(place() == before);
}

TEST_CASE("consistent_hash keeps every instance below the load factor times the mean") {
  PolicyOptions options;
  options.hash_load_factor = 1.1;
  auto policy = MakeConsistentHash(options);
  PolicyFleet fleet(8);
  for (uint32_t i = 0; i < 8; ++i) policy->InstanceAdded(fleet.ids[i], std::to_string(i), 0);
  for (int placed = 1; placed <= 800; ++placed) {
    PolicyInput in = fleet.Input();
    in.affinity_hash = 42;  // one key for all
    ++fleet.requests[fleet.Choose(*policy, in).slot];
    for (const float requests : fleet.requests) {
      REQUIRE(requests <= std::ceil(1.1f * static_cast<float>(placed) / 8));
    }
  }
}

TEST_CASE("prefix_hash keeps a prefix at home until the home is busy, and moves few on scaling") {
  PolicyOptions options;
  options.hash_max_requests = 5;
  auto policy = MakePrefixHash(options);
  PolicyFleet fleet(11);
  for (uint32_t i = 0; i < 10; ++i) {
    policy->InstanceAdded(fleet.ids[i], "host" + std::to_string(i), 0);
  }
  fleet.eligible[10] = 0;
  const auto home = [&](uint64_t key) {
    PolicyInput in = fleet.Input();
    in.prefix_hash = Spread(key);
    return fleet.Choose(*policy, in).slot;
  };
  std::vector<uint32_t> before;
  for (uint64_t key = 1; key <= 1000; ++key) before.push_back(home(key));
  const uint32_t busy = before[0];
  for (float& requests : fleet.requests) requests = 4;
  CHECK(home(1) == busy);
  fleet.requests[busy] = 5;
  const uint32_t other = (busy + 3) % 10;
  fleet.requests[other] = 2;  // the one with the most room
  CHECK(home(1) == other);

  fleet.requests.assign(11, 0);
  policy->InstanceAdded(fleet.ids[10], "host10", 0);
  fleet.eligible[10] = 1;
  int moved = 0;
  for (uint64_t key = 1; key <= 1000; ++key) {
    const uint32_t now = home(key);
    if (now == before[key - 1]) continue;
    ++moved;
    REQUIRE(now == 10);
  }
  CHECK(moved > 30);
  CHECK(moved < 180);  // 1/11 of 1,000 on average
}

TEST_CASE("prefix_hash sends a prompt without a full block to the fewest requests") {
  auto policy = MakePrefixHash({});
  PolicyFleet fleet(4);
  for (uint32_t i = 0; i < 4; ++i) policy->InstanceAdded(fleet.ids[i], std::to_string(i), 0);
  fleet.requests = {3, 2, 1, 4};
  CHECK(fleet.Choose(*policy).slot == 2);
}

TEST_CASE("the router hashes as much of a prompt as hash_prefix_tokens says") {
  const PromptForm form = GENERATE(PromptForm::kTokens, PromptForm::kText, PromptForm::kBlockKeys);
  RouterOptions options;
  options.policy = "prefix_hash";
  options.policy_options.hash_prefix_tokens = 100;  // seven blocks of 16
  options.key_seed = 1;
  options.random_seed = 1;
  const auto router = PrefixRouter::Create(options);
  REQUIRE(router.ok());
  for (int i = 0; i < 16; ++i) {
    InstanceOptions instance;
    instance.name = "host" + std::to_string(i);
    REQUIRE((*router)->AddInstance(instance).ok());
  }
  // Prompts of one family are equal in 112 tokens (or 448 bytes), others in 96.
  const auto place = [&](uint32_t family, uint32_t prompt) {
    std::vector<uint32_t> tokens(320, 7);
    for (size_t i = 96; i < tokens.size(); ++i) tokens[i] = i < 112 ? family : prompt;
    std::string text(1280, 'x');
    for (size_t i = 384; i < text.size(); ++i) {
      text[i] = static_cast<char>('a' + (i < 448 ? family : prompt) % 26);
    }
    std::vector<uint64_t> keys((*router)->hasher().BlockCount(tokens.size()));
    (*router)->hasher().TokenBlockKeys({}, tokens, {}, keys);
    Request request = form == PromptForm::kTokens ? Request::FromTokens(tokens)
                      : form == PromptForm::kText ? Request::FromText(text)
                                                  : Request::FromBlockKeys(keys);
    const Result<Decision> decision = (*router)->Route(request);
    REQUIRE(decision.ok());
    return decision->instance.slot();
  };
  std::map<uint32_t, int> homes;
  for (uint32_t family = 0; family < 12; ++family) {
    const uint32_t home = place(family, 1);
    ++homes[home];
    // Known or not, the prompt has the same home.
    for (uint32_t prompt = 1; prompt < 6; ++prompt) REQUIRE(place(family, prompt) == home);
  }
  CHECK(homes.size() > 4);  // families that differ in the seventh block only
}

}  // namespace prefixrouter
