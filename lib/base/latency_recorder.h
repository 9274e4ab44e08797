// LatencyRecorder: counts durations in the buckets of DurationHistogram, from any thread at once.
//
// Timing a call costs about 40 ns, most of which goes into reading the clock a second time. So each
// thread times no more than one call in `interval`, whose start is known anyway: at most so many
// samples a second are paid for, and where calls are fewer all of them are timed. The call that is
// timed is the first to begin after the interval, which depends on no call's duration.
//
// Threads would pass the counters' cache lines back and forth, so there are several sets, and a
// thread uses one that it seldom shares: chosen by the address of its stack.
#ifndef PREFIXROUTER_LIB_BASE_LATENCY_RECORDER_H_
#define PREFIXROUTER_LIB_BASE_LATENCY_RECORDER_H_

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>

#include "prefixrouter/stats.h"

namespace prefixrouter {

class LatencyRecorder {
 public:
  static constexpr uint64_t kNever = UINT64_MAX;

  explicit LatencyRecorder(uint64_t interval_nanos) : interval_nanos_(interval_nanos) {}

  // Whether a call of this thread that begins now is to be timed. If so, it counts as the last one.
  bool Due(int64_t now_nanos) {
    std::atomic<int64_t>& last_nanos = ShardOfThisThread().last_nanos;
    // A clock that has stepped back gives a very large difference.
    const uint64_t passed = static_cast<uint64_t>(now_nanos) -
                            static_cast<uint64_t>(last_nanos.load(std::memory_order_relaxed));
    if (passed < interval_nanos_ || interval_nanos_ == kNever) return false;
    last_nanos.store(now_nanos, std::memory_order_relaxed);
    return true;
  }

  // A negative duration, of a clock that steps back, counts as 0.
  void Record(int64_t nanos) {
    const uint64_t duration = static_cast<uint64_t>(std::max<int64_t>(nanos, 0));
    Shard& shard = ShardOfThisThread();
    shard.counts[Bucket(duration)].fetch_add(1, std::memory_order_relaxed);
    shard.sum_nanos.fetch_add(duration, std::memory_order_relaxed);
  }

  DurationHistogram Read() const {
    DurationHistogram histogram;
    uint64_t sum_nanos = 0;
    for (const Shard& shard : shards_) {
      for (int i = 0; i < DurationHistogram::kBuckets; ++i) {
        histogram.counts[i] += shard.counts[i].load(std::memory_order_relaxed);
      }
      sum_nanos += shard.sum_nanos.load(std::memory_order_relaxed);
    }
    histogram.sum_s = 1e-9 * static_cast<double>(sum_nanos);
    return histogram;
  }

 private:
  static constexpr int kShardBits = 3;
  struct alignas(64) Shard {
    std::atomic<int64_t> last_nanos{INT64_MIN / 2};
    std::atomic<uint64_t> sum_nanos{0};
    std::atomic<uint64_t> counts[DurationHistogram::kBuckets] = {};
  };

  // The first bucket whose bound, 250 ns * 2^i, is not below the duration.
  static int Bucket(uint64_t nanos) {
    const uint64_t bounds_passed = (std::max<uint64_t>(nanos, 1) - 1) / 250;
    return std::min(static_cast<int>(std::bit_width(bounds_passed)),
                    DurationHistogram::kBuckets - 1);
  }
  Shard& ShardOfThisThread() {
    const char here = 0;
    // Stacks are 64 KiB apart or more. Fibonacci hashing (D. Knuth, TAOCP 6.4).
    const uint64_t stack = reinterpret_cast<uintptr_t>(&here) >> 16;
    return shards_[stack * 0x9E3779B97F4A7C15u >> (64 - kShardBits)];
  }

  const uint64_t interval_nanos_;
  Shard shards_[1 << kShardBits];
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_BASE_LATENCY_RECORDER_H_
