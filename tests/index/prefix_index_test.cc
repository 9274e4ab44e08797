// PrefixIndex: single rules that a random comparison with the model would not show as such: budget,
// spare memory, chunk keys that are learned, what becomes of pins when events begin.
#include "lib/index/prefix_index.h"

#include <list>
#include <random>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/model/index_inspector.h"
#include "tests/support/build_kind.h"
#include "tests/support/stored_blocks.h"

namespace prefixrouter {
namespace {

using Keys = std::vector<uint64_t>;

Keys Chain(uint64_t first, size_t count) {
  Keys keys(count);
  for (size_t i = 0; i < count; ++i) keys[i] = first + i;
  return keys;
}

InsertResult Insert(PrefixIndex& index, uint32_t slot, const Keys& keys, bool pin = false,
                    int64_t now_nanos = 0) {
  PromptKeys prompt{Span<const uint64_t>(keys)};
  Path path;
  index.Match(prompt, &path);
  return index.Insert(slot, prompt, &path, now_nanos, pin);
}

uint32_t Match(PrefixIndex& index, uint32_t slot, const Keys& keys) {
  PromptKeys prompt{Span<const uint64_t>(keys)};
  Path path;
  index.Match(prompt, &path);
  return path.matched[slot];
}

}  // namespace

TEST_CASE("a prompt's branch is where it leaves what others share, in all turns of its session") {
  PrefixIndex index(size_t{1} << 20);
  index.AddSlot(0, 1000);
  index.AddSlot(1, 1000);
  const auto branch = [&](const Keys& keys) {
    const PromptKeys prompt{Span<const uint64_t>(keys)};
    Path path;
    index.Match(prompt, &path);
    const Branch found = PrefixIndex::BranchOf(prompt, path);
    return std::pair<uint32_t, uint64_t>(found.start, found.key);
  };
  using Where = std::pair<uint32_t, uint64_t>;
  const auto with = [](const Keys& shared, const Keys& own) {
    Keys keys = shared;
    keys.insert(keys.end(), own.begin(), own.end());
    return keys;
  };
  const Keys system = Chain(100, 10);
  CHECK(branch({}) == Where(0, 0));
  CHECK(branch(with(system, Chain(1000, 5))) == Where(0, 100));  // nothing is known

  // Two sessions with one system prompt, on different instances.
  (void)Insert(index, 0, with(system, Chain(1000, 5)));
  CHECK(branch(with(system, Chain(1000, 9))) ==
        Where(0, 100));  // is it the session's? nobody knows
  (void)Insert(index, 1, with(system, Chain(2000, 5)));
  CHECK(branch(with(system, Chain(1000, 2))) == Where(10, 1000));  // a part of its first turn
  CHECK(branch(with(system, Chain(1000, 5))) == Where(10, 1000));  // all of it
  CHECK(branch(with(system, Chain(1000, 9))) == Where(10, 1000));  // the next turn
  CHECK(branch(with(system, Chain(3000, 4))) == Where(10, 3000));  // a new session
  CHECK(branch(system) == Where(10, 0));                           // all of it is shared
}

TEST_CASE("the byte budget holds after every operation of any kind") {
  for (const size_t budget : {size_t{65536}, size_t{200000}}) {
    PrefixIndex index(budget);
    std::mt19937_64 random(budget);
    for (uint32_t slot = 0; slot < 40; ++slot) {
      index.AddSlot(slot, 4000, slot % 3 == 0 ? 50 : 0);
      if (slot >= 30) index.SetConfirmed(slot, 50);
    }
    testing::StoredBlocks stored(&index);
    std::vector<PinnedPrefix> pins;
    int64_t now = 0;
    const int steps = testing::Sized(200000, 20000);
    for (int step = 0; step < steps; ++step) {
      now += static_cast<int64_t>(random() % 2);
      index.Expire(now);
      const uint32_t slot = static_cast<uint32_t>(random() % 40);
      // Prompts that share beginnings: one of 30 stems, cut anywhere, with an end of its own.
      Keys keys = Chain((1 + random() % 30) << 32, random() % 400);
      const Keys own = Chain((1 + random()) << 20, random() % 50);
      keys.insert(keys.end(), own.begin(), own.end());
      const uint64_t operation = random() % 8;
      switch (operation) {
        case 0:
          if (slot >= 30 && !keys.empty()) {
            (void)stored.Store(slot, std::nullopt, keys, now);
          }
          break;
        case 1:
          if (slot >= 30 && !keys.empty()) (void)stored.Remove(slot, keys[random() % keys.size()]);
          break;
        case 2:
          if (!pins.empty()) {
            index.Unpin(pins.back(), now);
            pins.pop_back();
          }
          break;
        default: {
          const bool pin = random() % 4 == 0 && pins.size() < 20;
          const InsertResult result = Insert(index, slot, keys, pin, now);
          if (pin) pins.push_back(result.pinned);
        }
      }
      CAPTURE(step, operation, slot, keys.size(), index.run_count(), index.total_held_blocks());
      REQUIRE(index.bytes() <= budget);
      if (step % 500 == 0) REQUIRE(IndexInspector::Check(index) == "");
    }
    REQUIRE(index.budget_evicted_blocks() > 1000);
  }
}

TEST_CASE("a full budget evicts what no slot has used for longest") {
  PrefixIndex index(size_t{1} << 20);
  constexpr uint32_t kSlots = 37;
  for (uint32_t slot = 0; slot < kSlots; ++slot) index.AddSlot(slot, 1 << 20);
  std::mt19937_64 random(5);
  struct Prompt {
    uint32_t slot;
    Keys keys;
  };
  std::list<Prompt> by_age;  // oldest first, each held by one slot
  for (uint64_t i = 0; i < 4000; ++i) {
    if (i % 3 == 0 && !by_age.empty()) {  // one of them is used again
      const auto again = std::next(by_age.begin(), static_cast<int64_t>(random() % by_age.size()));
      by_age.splice(by_age.end(), by_age, again);
    } else {
      // Some slots are used rarely, one is removed and added now and then.
      const uint32_t slot = static_cast<uint32_t>(random() % kSlots * (random() % 2));
      by_age.push_back({slot, Chain((i + 1) << 20, 20 + random() % 500)});
    }
    Insert(index, by_age.back().slot, by_age.back().keys);
    if (i % 97 == 0) {
      const uint32_t slot = static_cast<uint32_t>(random() % kSlots);
      index.RemoveSlot(slot);
      index.AddSlot(slot, 1 << 20);
      by_age.remove_if([&](const Prompt& prompt) { return prompt.slot == slot; });
    }
    // What is left is the newest part, and of its oldest prompt the beginning.
    while (!by_age.empty() && Match(index, by_age.front().slot, by_age.front().keys) == 0) {
      by_age.pop_front();
    }
    size_t not_whole = 0;
    for (const Prompt& prompt : by_age) {
      not_whole += Match(index, prompt.slot, prompt.keys) < prompt.keys.size();
      if (not_whole > 0 && &prompt != &by_age.front()) {
        REQUIRE(Match(index, prompt.slot, prompt.keys) == prompt.keys.size());
      }
    }
    REQUIRE(not_whole <= 1);
    if (i % 100 == 0) REQUIRE(IndexInspector::Check(index) == "");
  }
  REQUIRE(index.budget_evicted_blocks() > 100000);
}

TEST_CASE("pinned prompts survive a full budget, and what does not fit is not remembered") {
  PrefixIndex index(65536);
  index.AddSlot(0, 1 << 20);
  const Keys running = Chain(1 << 20, 3000);
  const InsertResult pinned = Insert(index, 0, running, true);
  REQUIRE(pinned.held_blocks == 3000);
  for (uint64_t i = 2; i < 200; ++i) Insert(index, 0, Chain(i << 20, 500));
  REQUIRE(Match(index, 0, running) == 3000);
  REQUIRE(index.bytes() <= 65536);
  const InsertResult refused = Insert(index, 0, Chain(uint64_t{7} << 40, 20000), true);
  REQUIRE(refused.held_blocks == 0);
  REQUIRE(index.not_remembered_blocks() >= 20000);
  index.Unpin(pinned.pinned, 0);
  for (uint64_t i = 2; i < 200; ++i) Insert(index, 0, Chain(i << 30, 3000));
  REQUIRE(Match(index, 0, running) == 0);
}

// What a slot's capacity takes from the end of a run leaves the run's arrays as they are, until the
// slot evicts the rest. Whatever else happens to the run makes them fit.
TEST_CASE("the memory of a run that loses its end fits again when anything else happens to it") {
  const Keys a = Chain(1000, 80), b = Chain(2000, 60), rest = Chain(1000, 40);
  constexpr size_t kBudget = size_t{1} << 20;
  const auto add_slots = [](PrefixIndex& index) {
    index.AddSlot(0, 100);
    index.AddSlot(1, 1000);
  };
  PrefixIndex index(kBudget);
  add_slots(index);
  Insert(index, 0, a);
  const size_t bytes_of_a = index.bytes();
  Insert(index, 0, b);
  REQUIRE(index.held_blocks(0) == 100);
  REQUIRE(Match(index, 0, a) == 40);
  REQUIRE(IndexInspector::Check(index) == "");

  PrefixIndex fresh(kBudget);
  add_slots(fresh);
  Insert(fresh, 0, rest);
  Insert(fresh, 0, b);
  const size_t spare = KeyArray::Bytes(80) - KeyArray::Bytes(40);
  REQUIRE(index.bytes() == fresh.bytes() + spare);
  REQUIRE(index.bytes() > bytes_of_a);

  const auto fits = [&] {
    REQUIRE(IndexInspector::Check(index) == "");
    REQUIRE(IndexInspector::Check(fresh) == "");
    REQUIRE(index.bytes() == fresh.bytes());
  };
  SECTION("it is asked to") {
    index.ReturnSpare();
    fits();
  }
  SECTION("the slot uses what is left") {
    for (PrefixIndex* each : {&index, &fresh}) Insert(*each, 0, rest);
    fits();
  }
  SECTION("the slot evicts what is left") {
    for (PrefixIndex* each : {&index, &fresh}) Insert(*each, 0, Chain(3000, 40));
    fits();
  }
  SECTION("the slot loses more of it") {
    for (PrefixIndex* each : {&index, &fresh}) Insert(*each, 0, Chain(3000, 10));
    REQUIRE(IndexInspector::Check(index) == "");
    REQUIRE(index.bytes() == fresh.bytes() + spare);  // the fresh one has its own for 40 now
    for (PrefixIndex* each : {&index, &fresh}) each->ReturnSpare();
    fits();
  }
  SECTION("another slot uses it") {
    for (PrefixIndex* each : {&index, &fresh}) Insert(*each, 1, rest);
    fits();
  }
  SECTION("it is used as far as it goes, and grows") {
    for (PrefixIndex* each : {&index, &fresh}) Insert(*each, 1, Chain(1000, 50));
    fits();
  }
  SECTION("it is divided") {
    Keys branch = Chain(1000, 20);
    branch.push_back(5000);
    for (PrefixIndex* each : {&index, &fresh}) Insert(*each, 1, branch);
    fits();
  }
  SECTION("an engine confirms it") {
    for (PrefixIndex* each : {&index, &fresh}) {
      each->SetConfirmed(1, 1);
      testing::StoredBlocks stored(each);
      REQUIRE(stored.Store(1, std::nullopt, rest, 0));
    }
    fits();
  }
  SECTION("its slot goes, and comes again") {
    for (int round = 0; round < 3; ++round) {
      for (PrefixIndex* each : {&index, &fresh}) {
        each->RemoveSlot(0);
        each->AddSlot(0, 100);
        Insert(*each, 0, each == &index ? a : rest);
        Insert(*each, 0, b);
      }
      REQUIRE(IndexInspector::Check(index) == "");
      REQUIRE(index.bytes() == fresh.bytes() + spare);
    }
  }
  SECTION("beside a pinned part of it, whose pin ends when an engine begins to confirm") {
    // The beginning of what is left is used anew and pinned; the end loses more, and stays the
    // oldest.
    for (PrefixIndex* each : {&index, &fresh}) {
      REQUIRE(Insert(*each, 0, Chain(1000, 10), true).pinned.segment != nullptr);
      Insert(*each, 0, Chain(3000, 10));
      REQUIRE(Match(*each, 0, a) == 30);
      REQUIRE(IndexInspector::Check(*each) == "");
      each->SetConfirmed(0, 1);
      REQUIRE(IndexInspector::Check(*each) == "");
      Insert(*each, 0, Chain(4000, 5));
      REQUIRE(Match(*each, 0, a) == 25);
      REQUIRE(IndexInspector::Check(*each) == "");
      each->ReturnSpare();
    }
    fits();
  }
  SECTION("the slot becomes smaller") {
    for (PrefixIndex* each : {&index, &fresh}) each->SetCapacity(0, 60);
    fits();
  }
}

TEST_CASE("a full budget takes spare memory before it evicts") {
  const auto fill = [](PrefixIndex& index) {
    index.AddSlot(0, 1000);
    index.AddSlot(1, 100'000);
    Insert(index, 0, Chain(1000, 1000));
    Insert(index, 0, Chain(5000, 600));  // 600 of the 1000 go, and leave 4.5 KiB
  };
  PrefixIndex roomy(size_t{1} << 20);
  fill(roomy);
  PrefixIndex index(roomy.bytes() + 9000);
  fill(index);
  REQUIRE(index.budget_evicted_blocks() == 0);
  Insert(index, 1, Chain(9000, 600));  // asks for 13 KiB
  REQUIRE(Match(index, 1, Chain(9000, 600)) == 600);
  REQUIRE(Match(index, 0, Chain(1000, 1000)) == 400);
  REQUIRE(index.budget_evicted_blocks() == 0);
  REQUIRE(IndexInspector::Check(index) == "");
}

TEST_CASE("a run made of blocks alone learns chunk keys from the first prompt that covers it") {
  const BlockHasher hasher(16, 1);
  std::vector<uint32_t> tokens(16 * 200);
  for (uint32_t i = 0; i < tokens.size(); ++i) tokens[i] = i * 7;
  PrefixIndex index(1 << 20);
  index.AddSlot(0, 1000);
  const auto route = [&](bool expect_need) {
    PromptKeys prompt(hasher, Request::FromTokens(tokens));
    prompt.Hash(index.KnowsFirstBlock(prompt.first_key()));
    Path path;
    index.Match(prompt, &path);
    REQUIRE(path.needs_block_keys == expect_need);
    if (path.needs_block_keys) {
      prompt.HashBlocks(0, prompt.root_key());
      index.Match(prompt, &path);
    }
    const uint32_t matched = path.matched[0];
    index.Insert(0, prompt, &path, 0, false);
    REQUIRE(IndexInspector::Check(index) == "");
    return matched;
  };
  REQUIRE(route(false) == 0);
  REQUIRE(route(true) == 200);   // verified block by block, once
  REQUIRE(route(false) == 200);  // by chunk keys from then on
}

TEST_CASE("pins end when an instance begins to confirm what it holds") {
  PrefixIndex index(1 << 20);
  index.AddSlot(0, 10);
  const InsertResult pinned = Insert(index, 0, Chain(100, 5), true);
  index.SetConfirmed(0, 0);
  testing::StoredBlocks stored(&index);
  REQUIRE(stored.Store(0, std::nullopt, Chain(100, 3), 0));
  REQUIRE(IndexInspector::Check(index) == "");
  index.Unpin(pinned.pinned, 0);  // of no effect
  REQUIRE(IndexInspector::Check(index) == "");
  REQUIRE(Match(index, 0, Chain(100, 5)) == 5);
  REQUIRE(stored.Remove(0, 102));
  REQUIRE(Match(index, 0, Chain(100, 5)) == 2);
  REQUIRE(stored.Store(0, uint64_t{101}, Chain(102, 1), 0));
  REQUIRE(Match(index, 0, Chain(100, 5)) == 5);
}

TEST_CASE("a path that is used again keeps no match of an earlier prompt") {
  constexpr uint32_t kHolders = 90, kLate = 20;  // a dense run, and slots that came after it
  PrefixIndex index(size_t{1} << 24);
  const Keys shared = Chain(uint64_t{1} << 32, 300);
  for (uint32_t slot = 0; slot < kHolders; ++slot) {
    index.AddSlot(slot, 1000);
    Insert(index, slot, Keys(shared.begin(), shared.begin() + 1 + slot * 3));
  }
  for (uint32_t slot = kHolders; slot < kHolders + kLate; ++slot) index.AddSlot(slot, 1000);
  const Keys own = Chain(uint64_t{2} << 32, 500);  // of one late slot
  Insert(index, kHolders + 1, own);
  const Keys unknown = Chain(uint64_t{3} << 32, 10);

  Path path;
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    const uint64_t which = random() % 3;
    const Keys& all = which == 0 ? shared : which == 1 ? own : unknown;
    const Keys keys(all.begin(), all.begin() + 1 + static_cast<int64_t>(random() % all.size()));
    index.Match(PromptKeys{Span<const uint64_t>(keys)}, &path);
    REQUIRE(path.matched.size() == kHolders + kLate);
    for (uint32_t slot = 0; slot < kHolders + kLate; ++slot) {
      uint32_t held = 0;
      if (which == 0 && slot < kHolders) held = 1 + slot * 3;
      if (which == 1 && slot == kHolders + 1) held = 500;
      CAPTURE(round, which, keys.size(), slot);
      REQUIRE(path.matched[slot] == std::min<size_t>(held, keys.size()));
    }
  }
}

TEST_CASE("keys that a caller made, and that stand at two depths, do not confuse the index") {
  PrefixIndex index(1 << 20);
  index.AddSlot(0, 100);
  Insert(index, 0, {1, 2, 3});
  REQUIRE(Match(index, 0, {2, 3}) == 0);
  Insert(index, 0, {9, 1, 2});
  REQUIRE(IndexInspector::Check(index).find("range") == std::string::npos);
  REQUIRE(Match(index, 0, {9, 1, 2}) == 3);
  REQUIRE(Match(index, 0, {1, 2, 3}) == 3);
}

}  // namespace prefixrouter
