// RunTable: finds a run by its first key.
//
// A chained hash table that grows and shrinks one bucket at a time (linear hashing, W. Litwin, "A
// new tool for file and table addressing", VLDB 1980). Inserting the millionth run therefore costs
// what inserting the tenth did: there is no moment at which the whole table is rehashed under the
// router's lock. And its size is a function of the number of runs alone, 16 to 18 bytes each, so
// that the index's memory is exact and comes back when runs go.
//
// Layout: there are two buckets for each run, in pages, of which there are just as many as that
// needs: each further run in a bucket is a cache miss for who looks for the one behind it. The runs
// of a bucket are linked both ways, so that Erase does not look for its run behind others, whose
// memory nothing has touched for long. With 2^l <= buckets < 2^(l+1), a key belongs to bucket
// h mod 2^(l+1) if there is one, else to h mod 2^l.
#ifndef PREFIXROUTER_LIB_INDEX_RUN_TABLE_H_
#define PREFIXROUTER_LIB_INDEX_RUN_TABLE_H_

#include <cstddef>
#include <cstdint>

#include "lib/index/run.h"

namespace prefixrouter {

class RunTable {
 public:
  explicit RunTable(MemoryMeter* meter);
  ~RunTable();
  RunTable(const RunTable&) = delete;
  RunTable& operator=(const RunTable&) = delete;

  size_t size() const { return size_; }

  // The run whose first_key is `key`, or null.
  Run* Find(uint64_t key) const {
    Run* run = *Bucket(Index(key));
    while (run != nullptr && run->first_key != key) run = run->hash_next;
    return run;
  }
  // Asks for what Find and Erase of this key read first.
  void PrefetchBucket(uint64_t key) const { Prefetch(Bucket(Index(key)), sizeof(Run*)); }
  // REQUIRES: no run of this first_key is in the table.
  void Insert(Run* run);
  // REQUIRES: `run` is in the table.
  void Erase(Run* run);

  // Calls visit(Run*) for each run, in no particular order. `visit` must not change the table.
  template <typename Visitor>
  void ForEach(Visitor visit) const {
    for (size_t i = 0; i < bucket_count_; ++i) {
      for (Run* run = *Bucket(i); run != nullptr; run = run->hash_next) visit(run);
    }
  }

  // The most that one Insert adds to the memory.
  size_t InsertBytesBound() const;

 private:
  static constexpr size_t kPageBuckets = 256;
  static constexpr size_t kBucketsARun = 2;
  // Buckets that may be left over: an index in balance inserts a run and erases one, and would else
  // add and remove buckets each time.
  static constexpr size_t kSpareBuckets = kPageBuckets / 2;

  size_t Index(uint64_t key) const {
    // Callers may bring keys of their own making, sequential ones even: mix before masking.
    const uint64_t hash = (key ^ key >> 32) * 0x9E3779B97F4A7C15u >> 24;
    const size_t index = hash & (level_mask_ * 2 + 1);
    return index < bucket_count_ ? index : index & level_mask_;
  }
  Run** Bucket(size_t index) const { return &pages_[index / kPageBuckets][index % kPageBuckets]; }
  // Takes `run` in where `link` points, or out.
  static void Link(Run** link, Run* run) {
    run->hash_next = *link;
    run->hash_link = link;
    if (run->hash_next != nullptr) run->hash_next->hash_link = &run->hash_next;
    *link = run;
  }
  static void Unlink(Run* run) {
    *run->hash_link = run->hash_next;
    if (run->hash_next != nullptr) run->hash_next->hash_link = run->hash_link;
  }
  // Adds or removes the last bucket, and moves the runs that belong to it.
  void Grow();
  void Shrink();
  void ResizeDirectory(size_t pages);

  MemoryMeter* const meter_;
  Run*** pages_ = nullptr;
  size_t page_count_ = 0;
  size_t directory_capacity_ = 0;
  size_t bucket_count_ = 0;
  size_t level_mask_ = 0;        // 2^l - 1
  alignas(64) size_t size_ = 0;  // apart from what Find reads
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_INDEX_RUN_TABLE_H_
