#include "lib/load/awaited_prefills.h"

namespace prefixrouter {

uint64_t AwaitedPrefills::Add(uint32_t slot_number, int64_t now_nanos) {
  if (slot_number >= slots_.size()) slots_.resize(slot_number + 1);
  Slot& slot = slots_[slot_number];
  slot.requests.push_back({now_nanos, Request::State::kWaiting});
  return slot.first_ticket + slot.requests.size() - 1;
}

AwaitedPrefills::Request* AwaitedPrefills::Find(uint32_t slot_number, uint64_t ticket) {
  if (slot_number >= slots_.size()) return nullptr;
  Slot& slot = slots_[slot_number];
  if (ticket < slot.first_ticket || ticket - slot.first_ticket >= slot.requests.size()) {
    return nullptr;
  }
  return &slot.requests[ticket - slot.first_ticket];
}

void AwaitedPrefills::Settle(uint32_t slot, uint64_t ticket, int64_t now_nanos) {
  Request* const request = Find(slot, ticket);
  if (request == nullptr || request->state != Request::State::kWaiting) return;
  request->state = Request::State::kSettled;
  settled_.push_back({now_nanos, ticket, slot});
}

uint32_t AwaitedPrefills::EndNext(int64_t now_nanos) {
  while (!settled_.empty() && settled_.front().nanos <= now_nanos - while_nanos_) {
    const Settled over = settled_.front();
    settled_.pop_front();
    if (End(over)) return over.slot;
  }
  return kNone;
}

bool AwaitedPrefills::End(const Settled& over) {
  Request* const request = Find(over.slot, over.ticket);
  if (request == nullptr) return false;
  request->state = Request::State::kOver;
  Slot& slot = slots_[over.slot];
  if (over.ticket != slot.first_ticket) return false;
  while (!slot.requests.empty() && slot.requests.front().state == Request::State::kOver) {
    slot.requests.pop_front();
    ++slot.first_ticket;
  }
  return true;
}

void AwaitedPrefills::Forget(uint32_t slot_number) {
  if (slot_number >= slots_.size()) return;
  Slot& slot = slots_[slot_number];
  slot.first_ticket += slot.requests.size();  // tickets are not given twice
  slot.requests.clear();
}

}  // namespace prefixrouter
