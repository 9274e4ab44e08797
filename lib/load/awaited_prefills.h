// AwaitedPrefills: which requests the KV events of an instance cannot have confirmed yet.
//
// What a request was predicted to leave on an instance is believed for a while without a word from
// the engine: events come late. But an engine stores blocks only when it has computed them, and in
// a long queue that is long after the request was sent. So the while begins with the first token
// (or the end) of the request: until it is over, the request is *awaited*.
//
//   slot's requests, by start    a    b    c    d    e
//   first token                 1 s  4 s  2 s   -    -
//   at 3.5 s, a while of 2 s:   over await await await await    since: start of b
//
// Engines start requests in the order in which they come, so what was sent since the oldest awaited
// request counts as awaited too. That keeps one time a slot, and not one a block.
//
// Not thread-safe. O(1) a call, amortized; 16 bytes an awaited request, and 24 more from its first
// token on.
#ifndef PREFIXROUTER_LIB_LOAD_AWAITED_PREFILLS_H_
#define PREFIXROUTER_LIB_LOAD_AWAITED_PREFILLS_H_

#include <cstdint>
#include <deque>
#include <vector>

namespace prefixrouter {

class AwaitedPrefills {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  explicit AwaitedPrefills(int64_t while_nanos) : while_nanos_(while_nanos) {}

  // A request was sent to the slot. Returns its ticket, which is not 0. Times must not step back.
  uint64_t Add(uint32_t slot, int64_t now_nanos);
  // Its first token is out, or it has ended. No effect on tickets that were settled or forgotten.
  void Settle(uint32_t slot, uint64_t ticket, int64_t now_nanos);
  // The slot's instance is gone.
  void Forget(uint32_t slot);

  // Ends whiles that are over until a slot loses its oldest awaited request, and returns that slot;
  // kNone when no more are over. To be called until then.
  uint32_t EndNext(int64_t now_nanos);
  // When the oldest awaited request of the slot was sent; INT64_MAX: there is none.
  int64_t Since(uint32_t slot) const {
    return slot < slots_.size() && !slots_[slot].requests.empty()
               ? slots_[slot].requests.front().started_nanos
               : INT64_MAX;
  }

 private:
  struct Request {
    int64_t started_nanos;
    enum class State : uint8_t { kWaiting, kSettled, kOver } state;
  };
  struct Slot {
    uint64_t first_ticket = 1;  // of the front of `requests`
    std::deque<Request> requests;
  };
  struct Settled {
    int64_t nanos;
    uint64_t ticket;
    uint32_t slot;
  };

  Request* Find(uint32_t slot, uint64_t ticket);
  // True if it was the oldest of its slot.
  bool End(const Settled& over);

  const int64_t while_nanos_;
  std::vector<Slot> slots_;
  std::deque<Settled> settled_;  // by time
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_LOAD_AWAITED_PREFILLS_H_
