// What must hold of any batch of events that a decoder gives, for the fuzz targets.
#ifndef PREFIXROUTER_TESTS_FUZZ_KV_EVENTS_CHECK_H_
#define PREFIXROUTER_TESTS_FUZZ_KV_EVENTS_CHECK_H_

#include <cstdint>
#include <cstdlib>
#include <string>

#include "prefixrouter/kv_events.h"

namespace prefixrouter::fuzz {

inline void Require(bool condition) {
  if (!condition) std::abort();
}

// Reads every byte that the events borrow, so that the address sanitizer sees it.
inline uint64_t Touch(const KvEvent& event) {
  uint64_t sum = 0;
  for (uint64_t id : event.block_ids) sum += id;
  for (uint32_t token : event.tokens) sum += token;
  for (char byte : event.adapter) sum += static_cast<uint8_t>(byte);
  for (char byte : event.salt) sum += static_cast<uint8_t>(byte);
  for (const KvMultimodal& item : event.multimodal) sum += MultimodalHash(item.identifier);
  return sum;
}

inline void CheckEvent(const KvEvent& event) {
  Require(event.kind >= KvEventKind::kStored && event.kind <= KvEventKind::kCleared);
  Require(static_cast<int>(event.tier) >= 0 && static_cast<int>(event.tier) < kKvTierCount);
  if (event.kind == KvEventKind::kCleared) Require(event.block_ids.empty());
  if (event.kind != KvEventKind::kStored) {
    Require(event.tokens.empty() && event.multimodal.empty() && event.adapter.empty());
    return;
  }
  Require(event.block_size >= 1 && event.block_size <= uint32_t{1} << 20);
  Require(event.tokens.empty() ||
          event.tokens.size() == uint64_t{event.block_ids.size()} * event.block_size);
  uint32_t block = 0;
  for (const KvMultimodal& item : event.multimodal) {
    Require(item.block >= block && item.block < event.block_ids.size());
    block = item.block;
  }
}

inline bool Equal(const KvEvent& a, const KvEvent& b) {
  const auto equal = [](auto left, auto right, auto same) {
    bool all = left.size() == right.size();
    for (size_t i = 0; all && i < left.size(); ++i) all = same(left[i], right[i]);
    return all;
  };
  const auto same = [](auto left, auto right) { return left == right; };
  return a.kind == b.kind && a.tier == b.tier && a.group == b.group && a.attention == b.attention &&
         a.has_parent == b.has_parent && a.parent_id == b.parent_id &&
         a.block_size == b.block_size && a.adapter == b.adapter && a.salt == b.salt &&
         equal(a.block_ids, b.block_ids, same) && equal(a.tokens, b.tokens, same) &&
         equal(a.multimodal, b.multimodal, [](const KvMultimodal& x, const KvMultimodal& y) {
           return x.block == y.block && x.offset == y.offset && x.identifier == y.identifier;
         });
}

// The events, and that they are the same after they were written as msgpack and read again.
// `decoder` is not the one that they borrow from.
inline void CheckBatch(const KvEventBatch& batch, KvEventDecoder& decoder) {
  volatile uint64_t sum = 0;
  for (const KvEvent& event : batch.events) {
    sum = sum + Touch(event);
    CheckEvent(event);
  }
  KvEventBatch written = batch;
  written.timestamp_s = 0;  // in milliseconds, some can be read and not written
  for (const auto encoding : {KvEventEncoding::kArrays, KvEventEncoding::kArraysShort,
                              KvEventEncoding::kMaps, KvEventEncoding::kSglangArrays}) {
    const Result<std::string> message = EncodeKvEvents(written, encoding);
    if (!message.ok()) {
      Require(encoding != KvEventEncoding::kMaps);  // which can say everything
      continue;
    }
    const auto again = decoder.Decode(*message);
    Require(again.ok());
    Require((*again)->has_rank == batch.has_rank && (*again)->rank == batch.rank);
    for (uint64_t count : (*again)->skipped.counts) Require(count == 0);
    Require((*again)->events.size() == batch.events.size());
    for (size_t i = 0; i < batch.events.size(); ++i) {
      Require(Equal(batch.events[i], (*again)->events[i]));
    }
  }
}

}  // namespace prefixrouter::fuzz

#endif  // PREFIXROUTER_TESTS_FUZZ_KV_EVENTS_CHECK_H_
