#include "lib/sim/kv_publisher.h"

#include <algorithm>
#include <utility>

#include "prefixrouter/block_hasher.h"

namespace prefixrouter {
namespace {

// The first two tokens are the key, the others are 0. Blocks of one token have half of the key: of
// blocks behind one parent, two are taken for one with 2^-32 a pair.
void SpellKey(uint64_t key, uint32_t block_tokens, uint32_t* tokens) {
  tokens[0] = static_cast<uint32_t>(key);
  if (block_tokens > 1) tokens[1] = static_cast<uint32_t>(key >> 32);
}

}  // namespace

std::vector<uint64_t> RouterKeys(const Workload& workload, uint64_t key_seed) {
  const uint32_t block_tokens = workload.block_size();
  const BlockHasher hasher(block_tokens, key_seed);
  const uint64_t root = hasher.RootKey({});
  std::vector<uint32_t> tokens(block_tokens);
  std::vector<uint64_t> made;
  for (const WorkloadRequest& request : workload.requests()) {
    uint64_t previous = root;
    made.resize(std::max(made.size(), request.first_key + request.key_count));
    uint64_t* out = made.data() + request.first_key;
    for (const uint64_t key : workload.keys(request)) {
      SpellKey(key, block_tokens, tokens.data());
      previous =
          hasher.Fold(previous, hasher.HashBytes(tokens.data(), tokens.size() * sizeof(uint32_t)));
      *out++ = previous;
    }
  }
  return made;
}

void KvMessage::Store(uint64_t key, uint64_t parent, bool first) {
  const bool follows =
      !events_.empty() && events_.back().stored && !first && keys_.back() == parent;
  if (!follows) events_.push_back({true, first, parent, 0});
  ++events_.back().blocks;
  keys_.push_back(key);
}

void KvMessage::Remove(uint64_t key) {
  if (events_.empty() || events_.back().stored) events_.push_back({false, false, 0, 0});
  ++events_.back().blocks;
  keys_.push_back(key);
}

KvEventBatch KvMessage::Batch(uint32_t block_tokens, Scratch* scratch) const {
  size_t stored = 0;
  for (const Event& event : events_) stored += event.stored ? event.blocks : 0;
  scratch->tokens.assign(stored * block_tokens, 0);
  scratch->events.clear();
  const uint64_t* keys = keys_.data();
  uint32_t* tokens = scratch->tokens.data();
  for (const Event& from : events_) {
    KvEvent event;
    event.kind = from.stored ? KvEventKind::kStored : KvEventKind::kRemoved;
    event.block_ids = {keys, from.blocks};
    if (from.stored) {
      event.has_parent = !from.first;
      event.parent_id = from.parent;
      event.block_size = block_tokens;
      event.tokens = {tokens, size_t{from.blocks} * block_tokens};
      for (const uint64_t key : event.block_ids) {
        SpellKey(key, block_tokens, tokens);
        tokens += block_tokens;
      }
    }
    keys += from.blocks;
    scratch->events.push_back(event);
  }
  KvEventBatch batch;
  batch.events = {scratch->events.data(), scratch->events.size()};
  return batch;
}

KvMessage KvPublisher::Take() { return std::exchange(message_, KvMessage()); }

}  // namespace prefixrouter
