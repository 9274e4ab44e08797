// PrefixIndex against IndexModel: random operations on both, and after every one of them equal
// matches of all slots; structure, lists and bytes are walked by IndexInspector.
#include <random>
#include <string>
#include <vector>

#include "lib/index/prefix_index.h"
#include "tests/catch.h"
#include "tests/model/index_inspector.h"
#include "tests/model/index_model.h"
#include "tests/support/build_kind.h"
#include "tests/support/stored_blocks.h"

namespace prefixrouter {
namespace {

using Keys = IndexModel::Keys;

struct Workload {
  uint64_t seed;
  uint32_t slots = 4;
  uint64_t capacity = 30;
  bool capacity_changes = false;  // to between half and one and a half of it
  uint32_t longest_prompt = 14;
  uint32_t branches = 3;  // different blocks that may follow one
  bool pins = false;
  bool confirmed = false;  // Store, Remove and Clear instead of pins
  int64_t ttl_nanos = 0;   // of half of the slots
  bool tokens = false;     // prompts of tokens, with chunk keys, instead of ready-made keys
};

// Drives index and model with the same operations.
class Driver {
 public:
  explicit Driver(const Workload& workload)
      : workload_(workload), random_(workload.seed), hasher_(16, 7), index_(size_t{1} << 40) {
    for (uint32_t slot = 0; slot < workload_.slots; ++slot) AddSlot(slot);
  }

  void Step() {
    now_nanos_ += static_cast<int64_t>(random_() % 3);
    Expire();
    const uint32_t slot = Below(workload_.slots);
    const uint32_t dice = Below(100);
    if (dice < 2) {
      EndPinsOf(slot);
      index_.RemoveSlot(slot);
      stored_.Forget(slot);
      model_.RemoveSlot(slot);
      AddSlot(slot);
    } else if (workload_.capacity_changes && dice < 10) {
      const uint64_t capacity =
          workload_.capacity / 2 + Below(static_cast<uint32_t>(workload_.capacity) + 1);
      index_.SetCapacity(slot, capacity);
      model_.SetCapacity(slot, capacity);
    } else if (workload_.confirmed && dice < 38) {
      Store(slot);
    } else if (workload_.confirmed && dice < 45) {
      AddCopy(slot);
    } else if (workload_.confirmed && dice < 75) {
      RemoveOne(slot);
    } else if (workload_.confirmed && dice < 76) {
      stored_.Clear(slot);
      model_.Clear(slot);
    } else if (workload_.pins && dice < 40 && !pins_.empty()) {
      EndPin(Below(static_cast<uint32_t>(pins_.size())));
    } else {
      Insert(slot, workload_.pins && dice < 75);
    }
    CheckMatches(last_);
    CheckMatches(RandomPrompt());
    for (uint32_t s = 0; s < workload_.slots; ++s) {
      REQUIRE(index_.held_blocks(s) == model_.Held(s));
    }
  }

  void CheckStructure() {
    REQUIRE(IndexInspector::Check(index_) == "");
    const IndexModel::Shape shape = model_.ExpectedShape();
    REQUIRE(index_.block_count() == shape.blocks);
    REQUIRE(index_.run_count() == shape.runs);
  }

  // An index that never saw anything but what is left, in the order of its last use.
  void CheckFreshBuild() {
    while (!pins_.empty()) EndPin(0);
    PrefixIndex fresh(size_t{1} << 40);
    std::map<uint64_t, std::map<uint32_t, Keys>> deepest;  // by operation and slot
    for (const auto& [slot, contents] : model_.slots()) {
      fresh.AddSlot(slot, contents.capacity);
      for (const auto& [key, block] : contents.blocks) {
        Keys& known = deepest[block.operation][slot];
        Keys prefix = model_.PrefixOf(key);
        if (prefix.size() > known.size()) known = std::move(prefix);
      }
    }
    Path path;
    for (const auto& [operation, by_slot] : deepest) {
      for (const auto& [slot, keys] : by_slot) {
        InsertKeys(fresh, slot, keys, false, &path);
      }
    }
    REQUIRE(IndexInspector::Check(fresh) == "");
    REQUIRE(fresh.block_count() == index_.block_count());
    REQUIRE(fresh.run_count() == index_.run_count());
    REQUIRE(IndexInspector::SegmentCount(fresh) == IndexInspector::SegmentCount(index_));
    fresh.ReturnSpare();
    index_.ReturnSpare();
    REQUIRE(fresh.bytes() == index_.bytes());
  }

  void RemoveEverything() {
    for (uint32_t slot = 0; slot < workload_.slots; ++slot) index_.RemoveSlot(slot);
    pins_.clear();
    REQUIRE(index_.run_count() == 0);
    REQUIRE(index_.block_count() == 0);
    REQUIRE(index_.total_held_blocks() == 0);
    REQUIRE(index_.bytes() == PrefixIndex(1 << 20).bytes());
  }

 private:
  struct Prompt {
    std::vector<uint32_t> tokens;  // 16 a block, all equal inside one
    Keys keys;
  };

  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }

  void AddSlot(uint32_t slot) {
    const int64_t ttl_nanos = slot % 2 == 0 ? workload_.ttl_nanos : 0;
    index_.AddSlot(slot, workload_.capacity, ttl_nanos);
    model_.AddSlot(slot, workload_.capacity, ttl_nanos);
    if (workload_.confirmed) index_.SetConfirmed(slot, ttl_nanos);
  }

  Prompt RandomPrompt() {
    Prompt prompt;
    const uint32_t blocks = Below(workload_.longest_prompt + 1);
    // The first blocks rarely differ, so that prompts share prefixes of all lengths.
    for (uint32_t i = 0; i < blocks; ++i) {
      const uint32_t choice = Below(4) != 0 ? 0 : Below(workload_.branches);
      prompt.tokens.insert(prompt.tokens.end(), 16, choice + 1);
    }
    prompt.keys.resize(blocks);
    hasher_.TokenBlockKeys({}, prompt.tokens, {}, prompt.keys);
    return prompt;
  }

  void Expire() {
    index_.Expire(now_nanos_);
    model_.Expire(now_nanos_);
  }

  InsertResult InsertKeys(PrefixIndex& index, uint32_t slot, const Keys& keys, bool pin,
                          Path* path) {
    PromptKeys prompt{Span<const uint64_t>(keys)};
    index.Match(prompt, path);
    return index.Insert(slot, prompt, path, now_nanos_, pin);
  }

  // As the router does it; and now and then in the other way, as if another thread had changed the
  // index in between.
  void MatchTokens(PromptKeys& keys, Path* path) {
    keys.Hash(index_.KnowsFirstBlock(keys.first_key()) != (Below(8) == 0));
    index_.Match(keys, path);
    if (path->needs_block_keys) {
      keys.HashBlocks(0, keys.root_key());
      index_.Match(keys, path);
    }
    REQUIRE_FALSE(path->needs_block_keys);
  }

  void Insert(uint32_t slot, bool pin) {
    const Prompt prompt = RandomPrompt();
    Path path;
    InsertResult result;
    if (workload_.tokens) {
      PromptKeys keys(hasher_, Request::FromTokens(prompt.tokens));
      MatchTokens(keys, &path);
      if (Below(4) != 0) keys.HashBlocks(path.blocks, path.last_key);  // else Insert does it
      result = index_.Insert(slot, keys, &path, now_nanos_, pin);
    } else {
      result = InsertKeys(index_, slot, prompt.keys, pin, &path);
    }
    const uint32_t expected = model_.Insert(slot, prompt.keys, now_nanos_, pin);
    REQUIRE(result.held_blocks == expected);
    if (pin) {
      pins_.push_back(
          {result.pinned, {slot, Keys(prompt.keys.begin(), prompt.keys.begin() + expected)}});
    }
    last_ = prompt;
  }

  void EndPin(size_t i) {
    index_.Unpin(pins_[i].first, now_nanos_);
    model_.Unpin(pins_[i].second, now_nanos_);
    pins_.erase(pins_.begin() + static_cast<std::ptrdiff_t>(i));
  }
  // The slot goes: its pins stay with their owners, who end them later, without effect.
  void EndPinsOf(uint32_t slot) {
    for (size_t i = pins_.size(); i-- > 0;) {
      if (pins_[i].second.slot != slot) continue;
      orphans_.push_back(pins_[i].first);
      pins_.erase(pins_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    if (!orphans_.empty() && Below(2) == 0) {
      index_.RemoveSlot(slot);
      for (const PinnedPrefix& orphan : orphans_) {
        if (orphan.slot == slot) index_.Unpin(orphan, now_nanos_);
      }
      model_.RemoveSlot(slot);
    }
  }

  void Store(uint32_t slot) {
    const Prompt prompt = RandomPrompt();
    if (prompt.keys.empty()) return;
    // An engine announces a few blocks behind a parent that it has announced before.
    uint32_t begin = Below(static_cast<uint32_t>(prompt.keys.size()));
    while (begin > 0 && !StoredBefore(slot, prompt.keys[begin - 1])) --begin;
    const Keys prefix(prompt.keys.begin(), prompt.keys.begin() + begin);
    const Keys keys(prompt.keys.begin() + begin, prompt.keys.end());
    const std::optional<uint64_t> parent =
        begin == 0 ? std::nullopt : std::optional<uint64_t>(prefix.back());
    const uint32_t tier = RandomTier();
    REQUIRE(stored_.Store(slot, parent, keys, now_nanos_, tier));
    model_.Store(slot, prefix, keys, now_nanos_, tier);
    for (uint64_t key : keys) REQUIRE(index_.KeyOf(stored_.NumberOf(key)) == key);
    last_ = prompt;
  }
  bool StoredBefore(uint32_t slot, uint64_t key) const {
    const auto& blocks = model_.slots().at(slot).blocks;
    const auto found = blocks.find(key);
    return found != blocks.end() && found->second.confirmed();
  }
  uint32_t RandomTier() { return Below(3) != 0 ? 0 : Below(PrefixIndex::kTierCount); }

  // A block that the slot holds, or one that nobody does.
  uint64_t RandomBlock(uint32_t slot) {
    const auto& blocks = model_.slots().at(slot).blocks;
    if (blocks.empty() || Below(10) == 0) return 1;
    return std::next(blocks.begin(), Below(static_cast<uint32_t>(blocks.size())))->first;
  }
  void AddCopy(uint32_t slot) {
    const uint64_t key = RandomBlock(slot);
    const uint32_t tier = RandomTier();
    const bool stored = StoredBefore(slot, key);
    REQUIRE(stored_.AddCopy(slot, key, now_nanos_, tier) == stored);
    if (stored) model_.AddCopy(slot, key, now_nanos_, tier);
  }
  void RemoveOne(uint32_t slot) {
    const uint64_t key = RandomBlock(slot);
    const uint32_t tier = RandomTier();
    REQUIRE(stored_.Remove(slot, key, tier) == model_.Remove(slot, key, tier));
  }

  void CheckMatches(const Prompt& prompt) {
    Path path;
    if (workload_.tokens) {
      PromptKeys keys(hasher_, Request::FromTokens(prompt.tokens));
      MatchTokens(keys, &path);
    } else {
      PromptKeys keys{Span<const uint64_t>(prompt.keys)};
      index_.Match(keys, &path);
    }
    for (uint32_t slot = 0; slot < workload_.slots; ++slot) {
      REQUIRE(path.matched[slot] == model_.Match(slot, prompt.keys));
      if (!workload_.confirmed) continue;
      constexpr double kWeights[] = {1, 0.5, 0.25, 0.125};  // exact, as their sums are
      REQUIRE(index_.Credit(path, slot, kWeights) == model_.Credit(slot, prompt.keys, kWeights));
    }
  }

  Workload workload_;
  std::mt19937_64 random_;
  BlockHasher hasher_;
  PrefixIndex index_;
  testing::StoredBlocks stored_{&index_};
  IndexModel model_;
  int64_t now_nanos_ = 0;
  Prompt last_;
  std::vector<std::pair<PinnedPrefix, IndexModel::Pin>> pins_;
  std::vector<PinnedPrefix> orphans_;
};

void CompareWithModel(Workload workload, int steps, bool fresh_build) {
  for (uint64_t round = 0; round < 4; ++round) {
    workload.seed = workload.seed * 31 + round;
    CAPTURE(workload.seed);
    Driver driver(workload);
    for (int step = 0; step < steps / 4; ++step) {
      CAPTURE(step);
      driver.Step();
      if (step % 16 == 0) driver.CheckStructure();
      if (fresh_build && step % 1024 == 0) driver.CheckFreshBuild();
    }
    driver.CheckStructure();
    driver.RemoveEverything();
  }
}

constexpr int kSteps = testing::Sized(400000, 20000);

}  // namespace

TEST_CASE("index equals the model for predicted prompts, and a fresh build after any churn") {
  CompareWithModel({.seed = 1}, kSteps, true);
}

TEST_CASE("index equals the model with capacities below the length of a prompt") {
  CompareWithModel({.seed = 2, .slots = 3, .capacity = 5, .longest_prompt = 9}, kSteps, true);
}

TEST_CASE("index equals the model when capacities change") {
  CompareWithModel({.seed = 8, .capacity_changes = true, .ttl_nanos = 40}, kSteps / 2, false);
  CompareWithModel({.seed = 9, .capacity = 60, .capacity_changes = true, .confirmed = true},
                   kSteps / 4, false);
}

TEST_CASE("index equals the model with pinned prompts, which are not evicted") {
  CompareWithModel({.seed = 3, .pins = true}, kSteps, false);
}

TEST_CASE("index equals the model when predicted blocks expire") {
  CompareWithModel({.seed = 4, .ttl_nanos = 20}, kSteps, false);
}

TEST_CASE("index equals the model with stored, copied and removed blocks and holes") {
  CompareWithModel({.seed = 5, .capacity = 20, .confirmed = true, .ttl_nanos = 15}, kSteps, false);
}

TEST_CASE("index equals the model for token prompts, whose runs have chunk keys") {
  CompareWithModel({.seed = 6,
                    .slots = 3,
                    .capacity = 400,
                    .longest_prompt = 150,
                    .branches = 2,
                    .pins = true,
                    .tokens = true},
                   kSteps / 16, false);
}

TEST_CASE("index equals the model on a large fleet, whose holders are kept by slot") {
  CompareWithModel({.seed = 7, .slots = 300, .capacity = 12, .longest_prompt = 6}, kSteps / 40,
                   false);
}

}  // namespace prefixrouter
