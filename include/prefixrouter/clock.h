// Clock: where the router reads the time. The default is the system's monotonic clock; a replay or
// a test passes a ManualClock, so that TTLs, lease expiry and the fading of load reports follow the
// time of the trace, and a run can be repeated exactly.
#ifndef PREFIXROUTER_CLOCK_H_
#define PREFIXROUTER_CLOCK_H_

#include <atomic>
#include <cstdint>

namespace prefixrouter {

class Clock {
 public:
  virtual ~Clock() = default;
  // Nanoseconds since a point of the clock's own choosing, from any thread. A clock that steps back
  // is tolerated: the router then sees the latest time that it has seen before.
  virtual int64_t NowNanos() const = 0;
};

// A clock that moves when it is told to. Thread-safe.
class ManualClock final : public Clock {
 public:
  explicit ManualClock(int64_t start_nanos = 0) : nanos_(start_nanos) {}
  int64_t NowNanos() const override { return nanos_.load(std::memory_order_relaxed); }
  void SetNanos(int64_t nanos) { nanos_.store(nanos, std::memory_order_relaxed); }
  void SetSeconds(double seconds) { SetNanos(static_cast<int64_t>(seconds * 1e9)); }
  void AdvanceSeconds(double seconds) {
    nanos_.fetch_add(static_cast<int64_t>(seconds * 1e9), std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> nanos_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_CLOCK_H_
