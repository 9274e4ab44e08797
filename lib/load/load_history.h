// LoadHistory: how many requests of its own a router had on an instance a moment ago.
//
// A report of an engine is of a moment ago as well, and says how many requests it had in all. Those
// of others are what is left when the router's own of that moment are taken off: taking off today's
// would make a request that was sent since hide one of another router.
#ifndef PREFIXROUTER_LIB_LOAD_LOAD_HISTORY_H_
#define PREFIXROUTER_LIB_LOAD_LOAD_HISTORY_H_

#include <array>
#include <cstddef>
#include <cstdint>

namespace prefixrouter {

struct OwnRequests {
  int32_t in_flight = 0;
  int32_t waiting = 0;  // of them, for their first token
};

// Not thread-safe. 1 KiB. Remembers the last 1.3 seconds or more, to 20 ms.
class LoadHistory {
 public:
  // What there is from now on. now_nanos never decreases.
  void Note(int64_t now_nanos, OwnRequests own) {
    Change& last = changes_[(noted_ + kChanges - 1) % kChanges];
    if (noted_ > 0 &&
        static_cast<uint64_t>(now_nanos) - static_cast<uint64_t>(last.nanos) < kStepNanos) {
      last.own = own;
    } else {
      changes_[noted_++ % kChanges] = {now_nanos, own};
    }
  }
  // What there was at that time, or the earliest that is remembered; `now` if nothing is. O(changes
  // since).
  OwnRequests At(int64_t nanos, OwnRequests now) const {
    if (noted_ == 0) return now;
    const size_t earliest = noted_ > kChanges ? noted_ - kChanges : 0;
    size_t i = noted_ - 1;
    while (i > earliest && changes_[i % kChanges].nanos > nanos) --i;
    return changes_[i % kChanges].own;
  }

 private:
  struct Change {
    int64_t nanos;
    OwnRequests own;
  };

  static constexpr size_t kChanges = 64;
  static constexpr uint64_t kStepNanos = 20'000'000;

  std::array<Change, kChanges> changes_{};  // a ring
  size_t noted_ = 0;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_LOAD_LOAD_HISTORY_H_
