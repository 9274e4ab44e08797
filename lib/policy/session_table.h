// SessionTable: which instance a session went to last. Bounded in number and in age: the session
// that has been silent the longest is forgotten first.
//
// Not thread-safe. O(1) a call; about 100 bytes a session; no allocation for a known one.
#ifndef PREFIXROUTER_LIB_POLICY_SESSION_TABLE_H_
#define PREFIXROUTER_LIB_POLICY_SESSION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <list>

#include "absl/container/flat_hash_map.h"
#include "prefixrouter/instance.h"

namespace prefixrouter {

class SessionTable {
 public:
  SessionTable(size_t max_sessions, int64_t ttl_nanos)
      : max_sessions_(max_sessions), ttl_nanos_(ttl_nanos) {}

  size_t size() const { return sessions_.size(); }

  // The session's instance, or an invalid id.
  InstanceId Find(uint64_t session, int64_t now_nanos);
  // The session has gone to `instance` now.
  void Set(uint64_t session, InstanceId instance, int64_t now_nanos);

 private:
  struct Entry {
    uint64_t session;
    InstanceId instance;
    int64_t last_used_nanos;
  };
  void Expire(int64_t now_nanos);

  const size_t max_sessions_;
  const int64_t ttl_nanos_;
  std::list<Entry> by_age_;  // silent the longest first
  absl::flat_hash_map<uint64_t, std::list<Entry>::iterator> sessions_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_POLICY_SESSION_TABLE_H_
