#include "lib/load/lease_table.h"

namespace prefixrouter {
namespace {

LeaseId MakeId(uint32_t place, uint32_t generation) {
  return {static_cast<uint64_t>(generation) << 32 | place};
}

}  // namespace

LeaseId LeaseTable::Add(const LeaseRecord& record) {
  uint32_t place = free_;
  if (place == kNone) {
    place = static_cast<uint32_t>(entries_.size());
    entries_.emplace_back();
  } else {
    free_ = entries_[place].next;
  }
  Entry& entry = entries_[place];
  entry.record = record;
  entry.active = true;
  entry.previous = newest_;
  entry.next = kNone;
  (newest_ == kNone ? oldest_ : entries_[newest_].next) = place;
  newest_ = place;
  ++size_;
  return MakeId(place, entry.generation);
}

LeaseRecord* LeaseTable::Find(LeaseId id) {
  const uint32_t place = static_cast<uint32_t>(id.value);
  if (place >= entries_.size()) return nullptr;
  Entry& entry = entries_[place];
  if (!entry.active || entry.generation != id.value >> 32) return nullptr;
  return &entry.record;
}

void LeaseTable::Remove(LeaseId id) {
  const uint32_t place = static_cast<uint32_t>(id.value);
  Entry& entry = entries_[place];
  (entry.previous == kNone ? oldest_ : entries_[entry.previous].next) = entry.next;
  (entry.next == kNone ? newest_ : entries_[entry.next].previous) = entry.previous;
  entry.active = false;
  if (++entry.generation == 0) entry.generation = 1;  // number 0 is no lease
  entry.next = free_;
  free_ = place;
  --size_;
}

size_t LeaseTable::RemoveAllOf(InstanceId instance) {
  size_t removed = 0;
  for (uint32_t place = oldest_; place != kNone;) {
    const Entry& entry = entries_[place];
    const uint32_t next = entry.next;
    if (entry.record.instance == instance) {
      Remove(MakeId(place, entry.generation));
      ++removed;
    }
    place = next;
  }
  return removed;
}

LeaseId LeaseTable::Oldest() const {
  return oldest_ == kNone ? LeaseId() : MakeId(oldest_, entries_[oldest_].generation);
}

}  // namespace prefixrouter
