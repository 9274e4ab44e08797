#include "lib/policy/session_table.h"

namespace prefixrouter {

void SessionTable::Expire(int64_t now_nanos) {
  while (!by_age_.empty() && by_age_.front().last_used_nanos + ttl_nanos_ <= now_nanos) {
    sessions_.erase(by_age_.front().session);
    by_age_.pop_front();
  }
}

InstanceId SessionTable::Find(uint64_t session, int64_t now_nanos) {
  Expire(now_nanos);
  const auto found = sessions_.find(session);
  return found == sessions_.end() ? InstanceId() : found->second->instance;
}

void SessionTable::Set(uint64_t session, InstanceId instance, int64_t now_nanos) {
  if (max_sessions_ == 0) return;
  const auto found = sessions_.find(session);
  if (found != sessions_.end()) {
    found->second->instance = instance;
    found->second->last_used_nanos = now_nanos;
    by_age_.splice(by_age_.end(), by_age_, found->second);
    return;
  }
  if (sessions_.size() >= max_sessions_) {
    sessions_.erase(by_age_.front().session);
    by_age_.pop_front();
  }
  by_age_.push_back({session, instance, now_nanos});
  sessions_[session] = std::prev(by_age_.end());
}

}  // namespace prefixrouter
