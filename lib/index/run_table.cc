#include "lib/index/run_table.h"

#include <algorithm>
#include <cstring>

namespace prefixrouter {

RunTable::RunTable(MemoryMeter* meter) : meter_(meter) {
  ResizeDirectory(1);
  bucket_count_ = kPageBuckets;
  level_mask_ = kPageBuckets - 1;
}

RunTable::~RunTable() { ResizeDirectory(0); }

void RunTable::ResizeDirectory(size_t pages) {
  while (page_count_ > pages) {
    meter_->Free(pages_[--page_count_], kPageBuckets * sizeof(Run*));
  }
  const size_t capacity = ArrayCapacity(static_cast<uint32_t>(pages));
  if (capacity != directory_capacity_) {
    pages_ = static_cast<Run***>(
        meter_->Reallocate(pages_, directory_capacity_ * sizeof(Run**), capacity * sizeof(Run**)));
    directory_capacity_ = capacity;
  }
  while (page_count_ < pages) {
    void* page = meter_->Allocate(kPageBuckets * sizeof(Run*));
    std::memset(page, 0, kPageBuckets * sizeof(Run*));
    pages_[page_count_++] = static_cast<Run**>(page);
  }
}

size_t RunTable::InsertBytesBound() const {
  return AllocationBytes(kPageBuckets * sizeof(Run*)) +
         AllocationBytes(ArrayCapacity(static_cast<uint32_t>(page_count_ + 1)) * sizeof(Run**));
}

void RunTable::Insert(Run* run) {
  ++size_;
  while (bucket_count_ < size_ * kBucketsARun) Grow();
  Link(Bucket(Index(run->first_key)), run);
}

void RunTable::Erase(Run* run) {
  Unlink(run);
  --size_;
  const size_t needed = size_ * kBucketsARun;
  const size_t pages = (needed + kPageBuckets - 1) / kPageBuckets;
  const size_t most = std::min(needed + kSpareBuckets, pages * kPageBuckets);
  while (bucket_count_ > std::max(most, kPageBuckets)) Shrink();
}

void RunTable::Grow() {
  const size_t added = bucket_count_;
  if (added / kPageBuckets >= page_count_) ResizeDirectory(page_count_ + 1);
  if (added > level_mask_ * 2 + 1) level_mask_ = level_mask_ * 2 + 1;
  ++bucket_count_;
  // Its runs are those of its lower half that hash to it now.
  Run** const to = Bucket(added);
  for (Run *run = *Bucket(added & level_mask_), *next; run != nullptr; run = next) {
    next = run->hash_next;
    if (Index(run->first_key) != added) continue;
    Unlink(run);
    Link(to, run);
  }
}

void RunTable::Shrink() {
  const size_t removed = bucket_count_ - 1;
  Run** from = Bucket(removed);
  Run* chain = *from;
  *from = nullptr;
  --bucket_count_;
  if (chain != nullptr) {  // often it is not, and the other bucket need not be read
    Run** end = Bucket(removed & level_mask_);
    while (*end != nullptr) end = &(*end)->hash_next;
    *end = chain;
    chain->hash_link = end;
  }
  if (bucket_count_ == level_mask_ + 1 && level_mask_ + 1 > kPageBuckets) level_mask_ /= 2;
  if (bucket_count_ % kPageBuckets == 0) ResizeDirectory(bucket_count_ / kPageBuckets);
}

}  // namespace prefixrouter
