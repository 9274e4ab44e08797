#include "lib/index/run.h"

#include <cstring>

namespace prefixrouter {

void Holders::Rebuild(MemoryMeter& meter, uint32_t capacity, bool dense) {
  Holders old = *this;
  capacity_ = capacity & 0x7fffffffu;
  dense_ = dense ? 1 : 0;
  if (capacity == 0) {
    one_ = {0, 0, nullptr};
  } else {
    char* memory = static_cast<char*>(meter.Allocate(Size(capacity, dense)));
    many_.firsts = reinterpret_cast<Segment**>(memory);
    many_.helds = reinterpret_cast<uint32_t*>(memory + capacity * sizeof(Segment*));
    many_.slots = dense ? nullptr : many_.helds + capacity;
    if (dense) std::memset(memory, 0, Size(capacity, true));
  }
  uint32_t next = 0;
  for (uint32_t i = 0; i < old.limit(); ++i) {
    if (old.first(i) == nullptr) continue;
    const uint32_t at = dense ? old.slot(i) : next++;
    if (!dense) (capacity == 0 ? one_.slot : many_.slots[at]) = old.slot(i);
    helds()[at] = old.held(i);
    firsts()[at] = old.first(i);
  }
  count_ = old.count_;
  if (old.capacity_ != 0) meter.Free(old.many_.firsts, Size(old.capacity_, old.dense_));
}

uint32_t Holders::Add(MemoryMeter& meter, uint32_t slot, uint32_t slot_limit) {
  const uint32_t count = count_ + 1;
  if (dense_) {
    if (slot >= capacity_) Rebuild(meter, slot_limit, true);
  } else if (count >= kDenseMinimum && count >= slot_limit / 4) {
    Rebuild(meter, slot_limit, true);
  } else {
    const uint32_t capacity = count == 1 ? 0 : ArrayCapacity(count);
    if (capacity != capacity_) Rebuild(meter, capacity, false);
  }
  count_ = count;
  const uint32_t at = dense_ ? slot : count - 1;
  if (!dense_) (capacity_ == 0 ? one_.slot : many_.slots[at]) = slot;
  helds()[at] = 0;
  firsts()[at] = nullptr;
  return at;
}

void Holders::Remove(MemoryMeter& meter, uint32_t i, uint32_t slot_limit) {
  firsts()[i] = nullptr;
  helds()[i] = 0;
  --count_;
  if (!dense_ && i != count_) {
    many_.slots[i] = many_.slots[count_];
    many_.helds[i] = many_.helds[count_];
    many_.firsts[i] = many_.firsts[count_];
  }
  Shrink(meter, slot_limit);
}

void Holders::RemoveEmpty(MemoryMeter& meter, uint32_t slot_limit) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < limit(); ++i) {
    if (first(i) == nullptr) {
      helds()[i] = 0;
      continue;
    }
    if (!dense_ && kept != i) {
      many_.slots[kept] = many_.slots[i];
      many_.helds[kept] = many_.helds[i];
      many_.firsts[kept] = many_.firsts[i];
    }
    ++kept;
  }
  count_ = kept;
  Shrink(meter, slot_limit);
}

void Holders::Shrink(MemoryMeter& meter, uint32_t slot_limit) {
  if (dense_ && count_ >= kDenseMinimum / 2 && count_ >= slot_limit / 8) return;
  const uint32_t capacity = count_ <= 1 ? 0 : ArrayCapacity(count_);
  if (dense_ || capacity != capacity_) Rebuild(meter, capacity, false);
}

void Holders::Free(MemoryMeter& meter) {
  if (capacity_ != 0) meter.Free(many_.firsts, Size(capacity_, dense_));
  *this = Holders();
}

size_t Holders::BytesBound(uint32_t count, uint32_t slot_limit) {
  const uint32_t dense_capacity = count + 1 >= kDenseMinimum / 2 ? slot_limit : 0;
  return std::max(AllocationBytes(Size(ArrayCapacity(count), false)),
                  AllocationBytes(Size(dense_capacity, true)));
}

}  // namespace prefixrouter
