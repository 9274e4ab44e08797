// RouterCore: KV events. They are applied in steps, between which others get at the lock.
#include <algorithm>

#include "lib/options.h"
#include "lib/router_core.h"

namespace prefixrouter {
namespace {

// So many blocks of events are applied before others get at the lock: about 4 us.
constexpr size_t kStepBlocks = 64;

// What the next so many blocks of events will read is asked for ahead.
constexpr size_t kPrefetchedBlocks = 256;

// The event's blocks from `begin` on, as an event of at most kStepBlocks. One that is malformed
// stays whole, to be refused.
KvEvent PartOfEvent(const KvEvent& event, size_t begin, std::vector<KvMultimodal>* multimodal) {
  const size_t blocks = event.block_ids.size();
  const size_t end = std::min(blocks, begin + kStepBlocks);
  if (end - begin == blocks) return event;
  if (!event.tokens.empty() && event.tokens.size() != blocks * event.block_size) return event;
  for (const KvMultimodal& item : event.multimodal) {
    if (item.block >= blocks) return event;
  }
  KvEvent part = event;
  part.block_ids = event.block_ids.subspan(begin, end - begin);
  if (begin != 0) {
    part.has_parent = true;
    part.parent_id = event.block_ids[begin - 1];
  }
  if (!event.tokens.empty()) {
    part.tokens = event.tokens.subspan(begin * event.block_size, (end - begin) * event.block_size);
  }
  multimodal->clear();
  for (KvMultimodal item : event.multimodal) {
    if (item.block < begin || item.block >= end) continue;
    item.block -= static_cast<uint32_t>(begin);
    multimodal->push_back(item);
  }
  part.multimodal = {multimodal->data(), multimodal->size()};
  return part;
}

}  // namespace

RouterCore::EventState& RouterCore::DrivenByEvents(InstanceId id) {
  const uint32_t slot = id.slot();
  if (slot >= events_.size()) events_.resize(slot + 1);
  EventState& state = events_[slot];
  if (state.blocks == nullptr) {
    const InstanceOptions& instance = load_.options(id);
    state.blocks =
        std::make_unique<EngineBlocks>(&index_, &hasher_, slot, instance.model, counted_tiers_,
                                       instance.capacity_blocks, &displacement_);
    index_.SetConfirmed(slot, Nanos(options_.confirm_window_s));
  }
  return state;
}

Result<KvEventResult> RouterCore::ApplyKvEvents(InstanceId id, const KvEventBatch& batch) {
  if (Status check = CheckEvents(batch); !check.ok()) return check;
  const int64_t now = Now();
  KvEventResult result;
  size_t event = 0;  // what is next, and the block of it
  size_t block = 0;
  size_t prefetched = 0;  // events, and how many of their blocks are still to be applied
  size_t ahead = 0;
  std::vector<KvMultimodal> multimodal;
  do {
    MutexLock lock(mutex_);
    KvEventCounts counts;
    if (event + block == 0) {
      counts = batch.skipped;
      ++stats_.kv_event_batches;
    }
    const bool live = load_.Live(id);
    if (live) {
      Advance(now);
      EventState& state = DrivenByEvents(id);
      state.last_nanos = now_nanos_;
      for (; prefetched < batch.events.size() && ahead < kPrefetchedBlocks; ++prefetched) {
        state.blocks->PrefetchBlocks(batch.events[prefetched]);
        ahead += batch.events[prefetched].block_ids.size();
      }
      for (size_t done = 0; event < batch.events.size() && done < kStepBlocks;) {
        const KvEvent& whole = batch.events[event];
        const KvEvent part = PartOfEvent(whole, block, &multimodal);
        if (state.blocks->Apply(part, now_nanos_, &counts)) result.needs_replay = true;
        done += part.block_ids.size() + 1;
        block += part.block_ids.size();
        ahead -= std::min(ahead, part.block_ids.size());
        if (block < whole.block_ids.size()) continue;
        ++event;
        block = 0;
      }
      // What the engine holds at once it has room for, whatever its capacity was said to be.
      const uint64_t confirmed = index_.tier_blocks(id.slot())[0];
      if (confirmed > index_.capacity_blocks(id.slot())) index_.SetCapacity(id.slot(), confirmed);
      displacement_.Count(id.slot(), counts[KvEventOutcome::kStored],
                          counts[KvEventOutcome::kRemoved], index_.total_held_blocks(), now_nanos_);
      load_.SetDisplacement(id, static_cast<float>(displacement_.cost(id.slot())));
      state.counts += counts;
    } else {
      ++counts[KvEventOutcome::kOldGeneration];
      event = batch.events.size();
    }
    stats_.kv_events += counts;
    result.counts += counts;
  } while (event < batch.events.size());
  return result;
}

}  // namespace prefixrouter
