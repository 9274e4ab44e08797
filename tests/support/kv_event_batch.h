// EventBatch: a KvEventBatch that owns what it points at, for tests.
//
//   EventBatch batch;
//   batch.Stored({1, 2, 3}, tokens, 16);            // the first blocks of a prompt
//   batch.Stored({4}, more, 16, 3).adapter = "ad";  // and one behind block 3
//   router.ApplyKvEvents(instance, batch.Get());
#ifndef PREFIXROUTER_TESTS_SUPPORT_KV_EVENT_BATCH_H_
#define PREFIXROUTER_TESTS_SUPPORT_KV_EVENT_BATCH_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>
#include <vector>

#include "prefixrouter/kv_events.h"
#include "tests/support/prompts.h"

namespace prefixrouter::testing {

using EngineIds = std::vector<uint64_t>;

// first, first + 1, ...
inline EngineIds Ids(uint64_t first, size_t count) {
  EngineIds ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = first + i;
  return ids;
}

// The event is valid until the next is added.
class EventBatch {
 public:
  KvEvent& Stored(EngineIds ids, Tokens tokens, uint32_t block_size,
                  std::optional<uint64_t> parent = std::nullopt) {
    KvEvent& event = Add(KvEventKind::kStored, std::move(ids));
    tokens_.push_back(std::move(tokens));
    event.tokens = tokens_.back();
    event.block_size = block_size;
    event.has_parent = parent.has_value();
    event.parent_id = parent.value_or(0);
    return event;
  }
  KvEvent& Removed(EngineIds ids, KvTier tier = KvTier::kGpu) {
    KvEvent& event = Add(KvEventKind::kRemoved, std::move(ids));
    event.tier = tier;
    return event;
  }
  KvEvent& Cleared() { return Add(KvEventKind::kCleared, {}); }
  // For Stored: ascending blocks.
  void Multimodal(KvEvent& event, std::vector<KvMultimodal> items) {
    multimodal_.push_back(std::move(items));
    event.multimodal = multimodal_.back();
  }

  const KvEventBatch& Get() {
    batch_.events = events_;
    return batch_;
  }

 private:
  KvEvent& Add(KvEventKind kind, EngineIds ids) {
    ids_.push_back(std::move(ids));
    KvEvent& event = events_.emplace_back();
    event.kind = kind;
    event.block_ids = ids_.back();
    return event;
  }

  std::deque<EngineIds> ids_;
  std::deque<Tokens> tokens_;
  std::deque<std::vector<KvMultimodal>> multimodal_;
  std::vector<KvEvent> events_;
  KvEventBatch batch_;
};

}  // namespace prefixrouter::testing

#endif  // PREFIXROUTER_TESTS_SUPPORT_KV_EVENT_BATCH_H_
