// EngineBlocks against KvEventModel: engines that store and remove at random, whose events are
// partly lost, and after every event equal matches of all instances.
#include "tests/model/kv_event_model.h"

#include <memory>
#include <random>
#include <string>
#include <vector>

#include "lib/index/engine_blocks.h"
#include "tests/catch.h"
#include "tests/model/index_inspector.h"
#include "tests/support/build_kind.h"
#include "tests/support/kv_event_batch.h"

namespace prefixrouter {
namespace {

using testing::EngineIds;
using testing::EventBatch;
using Prefix = KvEventModel::Prefix;

constexpr uint32_t kRouterBlock = 4;
constexpr uint32_t kFullGroups = 2;  // the next group is of another kind
constexpr double kWeights[] = {1, 0.5, 0.25, 0.125};

struct Workload {
  uint64_t seed;
  std::vector<uint32_t> block_sizes;  // one instance for each
  uint32_t longest_prompt = 48;       // in tokens
  size_t budget_bytes = size_t{1} << 40;
  bool predictions = false;
};

class Driver {
 public:
  explicit Driver(const Workload& workload)
      : workload_(workload),
        random_(workload.seed),
        hasher_(kRouterBlock, 7),
        index_(workload.budget_bytes) {
    for (uint32_t slot = 0; slot < workload_.block_sizes.size(); ++slot) {
      index_.AddSlot(slot, 100);
      index_.SetConfirmed(slot, kWindow);
      Instance& instance = instances_.emplace_back(workload_.block_sizes[slot]);
      instance.first_id = random_();
      instance.blocks =
          std::make_unique<EngineBlocks>(&index_, &hasher_, slot, "", 0xf, Below(2) * 10000);
    }
  }

  void Step() {
    const uint32_t slot = Below(static_cast<uint32_t>(instances_.size()));
    const uint32_t dice = Below(100);
    if (workload_.predictions && dice < 20) {
      Predict(slot);
    } else if (dice < 55) {
      Store(slot);
    } else if (dice < 62) {
      StoreAgain(slot);
    } else if (dice < 98) {
      Remove(slot);
    } else if (dice == 98) {
      EventBatch batch;
      batch.Cleared();
      Apply(slot, batch);
      instances_[slot].engine.Clear();
      instances_[slot].known.Clear();
    }
    // What was only predicted is gone.
    now_nanos_ += workload_.predictions ? kWindow + 1 : 1;
    index_.Expire(now_nanos_);
    Check(RandomPrompt());
    Check(last_);
    REQUIRE(index_.bytes() <= index_.budget_bytes());
    for (Instance& instance : instances_) REQUIRE(instance.blocks->size() == instance.known.size());
  }

  void CheckStructure() {
    size_t bytes = 0;
    for (const Instance& instance : instances_) bytes += instance.blocks->bytes();
    REQUIRE(IndexInspector::Check(index_, bytes) == "");
  }

  void ClearAll() {
    for (Instance& instance : instances_) instance.blocks->Clear();
    CheckStructure();
    REQUIRE(index_.block_count() == 0);
    instances_.clear();
    REQUIRE(index_.bytes() == PrefixIndex(1 << 20).bytes());
  }

  uint64_t budget_full() const { return budget_full_; }

 private:
  static constexpr int64_t kWindow = 1000;

  struct Instance {
    explicit Instance(uint32_t block_size)
        : engine(block_size, kRouterBlock), known(block_size, kRouterBlock) {}

    KvEventModel engine;  // what the engine holds
    KvEventModel known;   // what has been heard of it
    std::map<Prefix, uint64_t> ids;
    uint64_t first_id = 0;
    std::unique_ptr<EngineBlocks> blocks;
  };

  uint32_t Below(uint32_t limit) { return static_cast<uint32_t>(random_() % limit); }
  uint32_t RandomTier() { return Below(3) != 0 ? 0 : Below(4); }
  uint32_t RandomGroup() { return Below(4) != 0 ? 0 : Below(kFullGroups + 1); }

  Prefix RandomPrompt() {
    Prefix prompt(Below(workload_.longest_prompt + 1));
    for (uint32_t& token : prompt) token = Below(20) != 0 ? 1 : Below(3);
    return prompt;
  }
  uint64_t IdOf(Instance& instance, const Prefix& prefix) {
    return instance.ids.emplace(prefix, instance.first_id + instance.ids.size()).first->second;
  }

  // Counts what is expected, and compares when the event is applied.
  KvEventCounts Apply(uint32_t slot, EventBatch& batch) {
    KvEventCounts counts;
    for (const KvEvent& event : batch.Get().events) {
      needs_replay_ = instances_[slot].blocks->Apply(event, now_nanos_, &counts);
    }
    return counts;
  }
  void Expect(uint32_t slot, EventBatch& batch, const KvEventCounts& expected) {
    const KvEventCounts counts = Apply(slot, batch);
    const uint64_t full = counts[KvEventOutcome::kBudgetFull];
    if (full != 0) {  // which of them are left out is not said: the instance starts anew
      budget_full_ += full;
      instances_[slot].blocks->Clear();
      instances_[slot].engine.Clear();
      instances_[slot].known.Clear();
      return;
    }
    for (int i = 0; i < kKvEventOutcomeCount; ++i) {
      CAPTURE(KvEventOutcomeName(static_cast<KvEventOutcome>(i)));
      REQUIRE(counts.counts[i] == expected.counts[i]);
    }
  }
  bool Lost() { return Below(25) == 0; }

  // An engine announces blocks behind one that it holds.
  void Store(uint32_t slot) {
    Instance& instance = instances_[slot];
    const uint32_t size = instance.engine.block_size();
    const Prefix prompt = RandomPrompt();
    const auto prefix = [&](size_t blocks) {
      return Prefix(prompt.begin(), prompt.begin() + static_cast<std::ptrdiff_t>(blocks * size));
    };
    const size_t blocks = prompt.size() / size;
    if (blocks == 0) return;
    size_t begin = Below(static_cast<uint32_t>(blocks));
    while (begin > 0 && !instance.engine.Holds(prefix(begin))) --begin;
    const size_t end = begin + 1 + Below(static_cast<uint32_t>(blocks - begin));
    const uint32_t tier = RandomTier();
    const uint32_t group = RandomGroup();
    EngineIds ids;
    for (size_t i = begin; i < end; ++i) {
      instance.engine.Store(prefix(i + 1), tier, group);
      ids.push_back(IdOf(instance, prefix(i + 1)));
    }
    last_ = prompt;
    if (Lost()) return;

    EventBatch batch;
    KvEvent& event = batch.Stored(
        ids,
        Prefix(prompt.begin() + static_cast<std::ptrdiff_t>(begin * size),
               prompt.begin() + static_cast<std::ptrdiff_t>(end * size)),
        size, begin == 0 ? std::nullopt : std::optional<uint64_t>(IdOf(instance, prefix(begin))));
    event.tier = static_cast<KvTier>(tier);
    event.group = group;
    KvEventCounts expected;
    bool unknown = false;
    if (group >= kFullGroups) {
      event.attention = KvAttention::kPartial;
      expected[KvEventOutcome::kNotCounted] = ids.size();
    } else if (begin != 0 && !instance.known.Holds(prefix(begin))) {
      expected[KvEventOutcome::kUnknownParent] = ids.size();
      unknown = true;
    } else {
      for (size_t i = begin; i < end; ++i) instance.known.Store(prefix(i + 1), tier, group);
      expected[KvEventOutcome::kStored] = ids.size();
    }
    Expect(slot, batch, expected);
    if (!unknown) REQUIRE_FALSE(needs_replay_);
    if (workload_.budget_bytes == size_t{1} << 40) REQUIRE(needs_replay_ == unknown);
  }

  // Blocks that are there get a copy in a tier, without their tokens.
  void StoreAgain(uint32_t slot) {
    Instance& instance = instances_[slot];
    if (instance.engine.size() == 0) return;
    const uint32_t tier = RandomTier();
    const uint32_t group = Below(kFullGroups);
    EventBatch batch;
    EngineIds ids;
    KvEventCounts expected;
    const bool lost = Lost();
    for (uint32_t i = 1 + Below(4); i-- > 0;) {
      const Prefix prefix =
          instance.engine.Nth(Below(static_cast<uint32_t>(instance.engine.size())));
      ids.push_back(IdOf(instance, prefix));
      instance.engine.Store(prefix, tier, group);
      if (lost) continue;
      if (instance.known.Holds(prefix)) {
        instance.known.Store(prefix, tier, group);
        ++expected[KvEventOutcome::kStored];
      } else {
        ++expected[KvEventOutcome::kNoTokens];
      }
    }
    if (lost) return;
    KvEvent& event = batch.Stored(ids, {}, instance.engine.block_size());
    event.tier = static_cast<KvTier>(tier);
    event.group = group;
    Expect(slot, batch, expected);
  }

  void Remove(uint32_t slot) {
    Instance& instance = instances_[slot];
    if (instance.engine.size() == 0) return;
    const uint32_t tier = RandomTier();
    const uint32_t group = Below(kFullGroups);
    // Blocks at random, or a stretch from the end of one prompt towards its beginning.
    const bool stretch = Below(2) != 0;
    Prefix prefix = instance.engine.Nth(Below(static_cast<uint32_t>(instance.engine.size())));
    EventBatch batch;
    EngineIds ids;
    KvEventCounts expected;
    const bool lost = Lost();
    for (uint32_t i = 1 + Below(6); i-- > 0;) {
      ids.push_back(IdOf(instance, prefix));
      instance.engine.Remove(prefix, tier, group);
      if (!lost) {
        switch (instance.known.Remove(prefix, tier, group)) {
          case KvEventModel::Removal::kNothing:
            ++expected[KvEventOutcome::kAlreadyGone];
            break;
          case KvEventModel::Removal::kCopy:
            ++expected[KvEventOutcome::kCopyRemoved];
            break;
          case KvEventModel::Removal::kLast:
            ++expected[KvEventOutcome::kRemoved];
        }
      }
      if (!stretch) {
        if (instance.engine.size() == 0) break;
        prefix = instance.engine.Nth(Below(static_cast<uint32_t>(instance.engine.size())));
      } else if (prefix.size() > instance.engine.block_size()) {
        prefix.resize(prefix.size() - instance.engine.block_size());
      } else {
        break;
      }
    }
    if (lost) return;
    KvEvent& event = batch.Removed(ids, static_cast<KvTier>(tier));
    event.group = group;
    Expect(slot, batch, expected);
  }

  void Predict(uint32_t slot) {
    const Prefix prompt = RandomPrompt();
    PromptKeys keys(hasher_, Request::FromTokens(prompt));
    keys.Hash(Below(2) != 0);
    Path path;
    index_.Match(keys, &path, true);
    index_.Insert(slot, keys, &path, now_nanos_, false);
    last_ = prompt;
    if (Below(2) != 0) Store(slot);  // perhaps of the same blocks, before they expire
  }

  void Check(const Prefix& prompt) {
    PromptKeys keys(hasher_, Request::FromTokens(prompt));
    keys.Hash(false);
    Path path;
    index_.Match(keys, &path);
    for (uint32_t slot = 0; slot < instances_.size(); ++slot) {
      CAPTURE(slot, workload_.block_sizes[slot], prompt);
      const auto [blocks, credit] = instances_[slot].known.Match(prompt, kWeights);
      REQUIRE(path.matched[slot] == blocks);
      REQUIRE(index_.Credit(path, slot, kWeights) == credit);
    }
  }

  Workload workload_;
  std::mt19937_64 random_;
  BlockHasher hasher_;
  PrefixIndex index_;
  std::vector<Instance> instances_;
  int64_t now_nanos_ = 0;
  bool needs_replay_ = false;
  Prefix last_;
  uint64_t budget_full_ = 0;
};

uint64_t CompareWithModel(Workload workload, int steps) {
  uint64_t budget_full = 0;
  for (uint64_t round = 0; round < 4; ++round) {
    workload.seed = workload.seed * 31 + round;
    CAPTURE(workload.seed);
    Driver driver(workload);
    for (int step = 0; step < steps / 4; ++step) {
      CAPTURE(step);
      driver.Step();
      if (step % 16 == 0) driver.CheckStructure();
    }
    driver.ClearAll();
    budget_full += driver.budget_full();
  }
  return budget_full;
}

constexpr int kSteps = testing::Sized(60000, 6000);

}  // namespace

TEST_CASE("events of engines with the router's block size give what the model holds") {
  CompareWithModel({.seed = 1, .block_sizes = {4, 4, 4}}, kSteps);
}

TEST_CASE("events of engines with larger blocks give what the model holds") {
  CompareWithModel({.seed = 2, .block_sizes = {8, 12, 4}}, kSteps);
}

TEST_CASE("events of engines with smaller blocks give what the model holds") {
  CompareWithModel({.seed = 3, .block_sizes = {2, 1, 4}}, kSteps);
}

TEST_CASE("events among predictions give what the model holds, once those have expired") {
  CompareWithModel({.seed = 4, .block_sizes = {4, 8, 2, 1}, .predictions = true}, kSteps);
}

TEST_CASE("events within a budget give what the model holds, or say that they do not fit") {
  const uint64_t budget_full = CompareWithModel({.seed = 5,
                                                 .block_sizes = {4, 8, 2},
                                                 .longest_prompt = 300,
                                                 .budget_bytes = 65536,
                                                 .predictions = true},
                                                kSteps / 10);
  REQUIRE(budget_full > 0);
}

}  // namespace prefixrouter
