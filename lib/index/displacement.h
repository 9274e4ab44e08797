// Displacement: what the KV cache of an instance loses for each block that is stored there, from KV
// events.
//
// A full cache evicts a block for each that it stores. That costs nothing when nobody asks for the
// evicted one again, and the prefill of a block when somebody does. Two shares say which it is:
//
//   evicted  of an instance: blocks that it evicts for each that it stores, at most 1. 0 while the
//            cache is not full
//   wanted   of the fleet: evicted blocks that are computed again, of those that are evicted
//
// Their product is the share of a block's prefill that storing one more is expected to cost later.
//
// A block that is stored while no other instance holds it, and that was stored before, was evicted
// and wanted again. Which were stored before is remembered of a sample of keys, in a table of fixed
// size; the sample gets thinner as the fleet holds more. All counts fade with time.
//
// Not thread-safe. O(1) a call. 64 KiB from the first Count on, beside the index's budget, and 24
// bytes a slot.
#ifndef PREFIXROUTER_LIB_INDEX_DISPLACEMENT_H_
#define PREFIXROUTER_LIB_INDEX_DISPLACEMENT_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace prefixrouter {

class Displacement {
 public:
  // Whether Stored wants to know of a block.
  bool Samples(uint64_t key) const { return (key & sample_mask_) == 0; }
  // A sampled block was stored. alone: no other instance holds it. weight: of the block, in the
  // unit of Count.
  void Stored(uint64_t key, bool alone, double weight);
  // The instance has stored and evicted so many blocks. held_blocks: that the whole fleet holds, in
  // blocks of Stored. Times must not step back.
  void Count(uint32_t slot, uint64_t stored, uint64_t evicted, uint64_t held_blocks,
             int64_t now_nanos);
  // The slot's instance is gone.
  void Forget(uint32_t slot);

  // 0 to 1.
  double cost(uint32_t slot) const;

 private:
  struct Counts {
    double stored = 0;
    double evicted = 0;
    int64_t nanos = INT64_MIN;  // when they were as they stand here
  };
  // What is left of counts of then; 1 when that is not long ago, and then they stay as they are.
  static double Fade(int64_t then_nanos, int64_t now_nanos);

  uint64_t sample_mask_ = 0;
  std::vector<uint64_t> seen_;  // keys by hash, the last one wins; empty before the first Count
  double wanted_ = 0;           // of all blocks, by the sample; fades with fleet_
  Counts fleet_;
  std::vector<Counts> slots_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_INDEX_DISPLACEMENT_H_
