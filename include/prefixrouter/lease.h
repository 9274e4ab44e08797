// Lease: what a routed request holds until it is finished.
//
// While it lives, the instance's load counts the request: its uncached tokens as pending until
// FirstToken, its KV tokens until the end; and the blocks of its prompt are not evicted. The times
// and cached tokens that it is told teach the router each instance's true speed and capacity.
//
//   auto lease = router->Acquire(request);
//   if (!lease.ok()) return Reject(lease.status());
//   Send(lease->decision().instance, ...);
//   ... first byte arrives:   lease->FirstToken();
//   ... response is complete: lease->Finish({.output_tokens = n, .engine_cached_tokens = usage});
//
// A Lease that is destroyed while active counts as cancelled. It may outlive the router and the
// instance: its calls then do nothing and return false, as they do the second time. A lease that is
// not ended within RouterOptions::lease_ttl_s expires.
//
// One Lease is used by one thread at a time; different leases are independent. A gateway that
// cannot keep the object (C callbacks, other languages) takes the number with Release() and calls
// PrefixRouter::FirstToken, Finish and Cancel with it.
#ifndef PREFIXROUTER_LEASE_H_
#define PREFIXROUTER_LEASE_H_

#include <cstdint>
#include <memory>

#include "prefixrouter/decision.h"

namespace prefixrouter {

class RouterCore;

// Number of a lease, unique for the life of its router. 0 is no lease.
struct LeaseId {
  uint64_t value = 0;
  constexpr bool valid() const { return value != 0; }
};

struct FinishInfo {
  // Tokens generated. Negative: not known.
  int64_t output_tokens = -1;
  // Prompt tokens that the engine says it found cached (OpenAI usage.prompt_tokens_details
  // .cached_tokens). Negative: not known. More than the prompt counts as the whole prompt.
  int64_t engine_cached_tokens = -1;
};

class Lease {
 public:
  Lease() = default;  // of no request
  Lease(Lease&& other) noexcept;
  Lease& operator=(Lease&& other) noexcept;
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease();

  const Decision& decision() const { return decision_; }
  InstanceId instance() const { return decision_.instance; }
  LeaseId id() const { return id_; }

  // The first output token arrived: prefill is over. True if this call was the first to say so.
  bool FirstToken();
  // The request is complete. True if this call ended the lease.
  bool Finish(const FinishInfo& info = {});
  // The client went away or the request failed: nothing is learned. True if this call ended it.
  bool Cancel();
  // Gives up ownership without ending the lease, which then lives until it is ended by number or
  // expires.
  LeaseId Release();

 private:
  friend class PrefixRouter;
  Lease(std::shared_ptr<RouterCore> core, LeaseId id, const Decision& decision);

  std::shared_ptr<RouterCore> core_;
  LeaseId id_;
  Decision decision_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LEASE_H_
