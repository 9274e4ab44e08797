// LeaseTable: the leases that have not ended, found by number in O(1) and expired in the order of
// their start. A number carries a generation, so that one that has ended never means another lease.
// All leases are of live instances.
//
// Not thread-safe. About 120 bytes a lease; places of ended ones are used again.
#ifndef PREFIXROUTER_LIB_LOAD_LEASE_TABLE_H_
#define PREFIXROUTER_LIB_LOAD_LEASE_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "lib/index/prefix_index.h"
#include "prefixrouter/instance.h"
#include "prefixrouter/lease.h"

namespace prefixrouter {

// What a lease has reserved, and what is needed when it ends.
struct LeaseRecord {
  static constexpr uint64_t kNotHome = UINT64_MAX;

  InstanceId instance;
  int64_t started_nanos = 0;
  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;  // predicted
  uint64_t kv_tokens = 0;      // reserved
  double pending_tokens = 0;   // of the instance when the lease began, its own included
  bool first_token = false;    // its pending tokens are released
  // Of a prompt that was placed at its home, tokens that were known to be there or shared with
  // other prompts; kNotHome: it was not.
  uint64_t known_at_home = kNotHome;
  uint64_t awaited = 0;  // ticket of AwaitedPrefills; 0: none
  PinnedPrefix pinned;

  uint64_t uncached_tokens() const { return prompt_tokens - cached_tokens; }
};

class LeaseTable {
 public:
  size_t size() const { return size_; }

  LeaseId Add(const LeaseRecord& record);
  // Null when the lease has ended. Valid until the next Add.
  LeaseRecord* Find(LeaseId id);
  // Ends it. REQUIRES: Find(id) is not null.
  void Remove(LeaseId id);
  // Ends all leases of an instance; returns how many. O(leases).
  size_t RemoveAllOf(InstanceId instance);
  // The lease that started first, or an invalid number.
  LeaseId Oldest() const;

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Entry {
    LeaseRecord record;
    uint32_t generation = 1;  // changes when the lease ends
    bool active = false;
    uint32_t previous = kNone;  // by start; `next` also links the free places
    uint32_t next = kNone;
  };

  std::vector<Entry> entries_;
  uint32_t free_ = kNone;
  uint32_t oldest_ = kNone;
  uint32_t newest_ = kNone;
  size_t size_ = 0;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_LOAD_LEASE_TABLE_H_
