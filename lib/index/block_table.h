// BlockTable: gives numbers to confirmed blocks, and finds where a numbered block is.
//
// Whoever has to name a block again later keeps its number: 4 bytes, valid while some slot has the
// block confirmed, found in one step, however runs are divided and merged meanwhile. Numbers of
// blocks that were stored together follow one another as far as possible, so that a stretch of
// blocks is read in the order of memory.
//
// Entries lie in pages, so that it grows without moving anything. 16 bytes a block; what has once
// been needed is kept until the table is empty.
#ifndef PREFIXROUTER_LIB_INDEX_BLOCK_TABLE_H_
#define PREFIXROUTER_LIB_INDEX_BLOCK_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "lib/index/run.h"
#include "prefixrouter/span.h"

namespace prefixrouter {

class BlockTable {
 public:
  struct Location {
    Run* run;        // null: the number is free
    uint32_t depth;  // of the block in its prompt
    uint32_t slots;  // that have confirmed it
  };

  explicit BlockTable(MemoryMeter* meter) : meter_(meter) {}
  ~BlockTable() { FreeAll(); }
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  size_t size() const { return size_; }

  Location& operator[](BlockNumber number) { return *Find(number); }
  const Location& operator[](BlockNumber number) const { return *Find(number); }
  void PrefetchLocation(BlockNumber number) const { PrefetchLine(Find(number)); }

  // Asks for what the next `count` calls of Add will most likely write: what was released together.
  void PrefetchFree(size_t count) const {
    if (free_ == 0) return;
    const uint32_t in_page = kPageSize - free_ % kPageSize;
    Prefetch(Find(free_), std::min<size_t>(count, in_page) * sizeof(Location));
  }
  // A number that is not in use.
  BlockNumber Add(const Location& location) {
    BlockNumber number = free_;
    if (number != 0) {
      free_ = Find(number)->depth;
    } else {
      number = next_++;
      if (number / kPageSize == page_count_) AddPage();
    }
    *Find(number) = location;
    ++size_;
    return number;
  }
  // Numbers for blocks of one run that have none, the first of them at `depth`, each confirmed by
  // one slot.
  void AddAll(Run* run, uint32_t depth, Span<BlockNumber> numbers) {
    BlockNumber* number = numbers.begin();
    BlockNumber free = free_;
    Location* location = free == 0 ? nullptr : Find(free);
    for (; number != numbers.end() && free != 0; ++number, ++depth) {
      *number = free;
      free = location->depth;
      *location = {run, depth, 1};
      // They ascend, mostly. Finding the next one does not wait for reading which one it is then.
      if (free == *number + 1 && free % kPageSize != 0) {
        ++location;
      } else {
        location = Find(free);
      }
    }
    free_ = free;
    size_ += static_cast<size_t>(number - numbers.begin());
    for (; number != numbers.end(); ++number, ++depth) *number = Add({run, depth, 1});
  }
  // One slot less has confirmed these blocks. Those that none has any more lose their number, from
  // the last one on, so that the next ones to be added will ascend; returns how many.
  uint32_t ReleaseAll(Span<BlockNumber> numbers) {
    BlockNumber free = free_;
    uint32_t released = 0;
    for (BlockNumber* number = numbers.end(); number-- != numbers.begin();) {
      Location& location = *Find(*number);
      if (--location.slots != 0) continue;
      location = {nullptr, free, 0};
      free = *number;
      *number = 0;
      ++released;
    }
    free_ = free;
    size_ -= released;
    if (size_ == 0) FreeAll();
    return released;
  }

  // The most that adding `count` numbers adds to the memory.
  size_t GrowthBound(size_t count) const {
    const size_t places = page_count_ == 0 ? 0 : page_count_ * kPageSize - 1;  // 0 is no number
    if (size_ + count <= places) return 0;
    const size_t pages = (size_ + count - places) / kPageSize + 1;
    return pages * AllocationBytes(kPageSize * sizeof(Location)) +
           DirectoryBytes(page_count_ + pages) - DirectoryBytes(page_count_);
  }
  size_t bytes() const {
    return page_count_ * AllocationBytes(kPageSize * sizeof(Location)) +
           DirectoryBytes(page_count_);
  }

 private:
  static constexpr uint32_t kPageSize = 256;

  static size_t DirectorySize(size_t pages) {
    return ArrayCapacity(static_cast<uint32_t>(pages)) * sizeof(Location*);
  }
  static size_t DirectoryBytes(size_t pages) { return AllocationBytes(DirectorySize(pages)); }

  Location* Find(BlockNumber number) const {
    return &pages_[number / kPageSize][number % kPageSize];
  }
  void AddPage() {
    if (DirectorySize(page_count_) != DirectorySize(page_count_ + 1)) {
      pages_ = static_cast<Location**>(
          meter_->Reallocate(pages_, DirectorySize(page_count_), DirectorySize(page_count_ + 1)));
    }
    pages_[page_count_] = static_cast<Location*>(meter_->Allocate(kPageSize * sizeof(Location)));
    ++page_count_;
  }
  void FreeAll() {
    for (size_t i = 0; i < page_count_; ++i) meter_->Free(pages_[i], kPageSize * sizeof(Location));
    if (page_count_ != 0) meter_->Free(pages_, DirectorySize(page_count_));
    pages_ = nullptr;
    page_count_ = size_ = 0;
    free_ = 0;
    next_ = 1;
  }

  MemoryMeter* const meter_;
  Location** pages_ = nullptr;
  size_t page_count_ = 0;
  size_t size_ = 0;
  BlockNumber free_ = 0;  // linked through Location::depth
  BlockNumber next_ = 1;  // never used yet
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_INDEX_BLOCK_TABLE_H_
