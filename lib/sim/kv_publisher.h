// KvPublisher: the KV events of one simulated engine, and what they look like to a router.
//
// Blocks of a workload have keys and no tokens, events have tokens and no keys. So each key stands
// for a block of made-up tokens that spell it, from which routers make keys of their own: prompts
// are routed with those keys (RouterKeys), and events come with those tokens (KvMessage::Batch). A
// router then finds exactly the blocks that it would find if prompts were routed by these tokens.
#ifndef PREFIXROUTER_LIB_SIM_KV_PUBLISHER_H_
#define PREFIXROUTER_LIB_SIM_KV_PUBLISHER_H_

#include <cstdint>
#include <vector>

#include "lib/sim/block_cache.h"
#include "prefixrouter/kv_events.h"
#include "prefixrouter/workload.h"

namespace prefixrouter {

// The keys of all prompts of the workload, in the place of its own: those that routers with this
// seed make of the made-up tokens.
std::vector<uint64_t> RouterKeys(const Workload& workload, uint64_t key_seed);

// What an engine publishes at the end of a step, with numbers in place of tokens until it arrives:
// there may be many on their way.
class KvMessage {
 public:
  bool empty() const { return events_.empty(); }
  void Store(uint64_t key, uint64_t parent, bool first);
  void Remove(uint64_t key);
  void Clear() { *this = KvMessage(); }

  // The memory of a batch, for use again and again.
  struct Scratch {
    std::vector<uint32_t> tokens;
    std::vector<KvEvent> events;
  };
  // As ApplyKvEvents takes it. It borrows from the message and from the scratch.
  KvEventBatch Batch(uint32_t block_tokens, Scratch* scratch) const;

 private:
  // Of blocks that follow one another, or that are removed one after the other.
  struct Event {
    bool stored;
    bool first;  // there is no parent
    uint64_t parent;
    uint32_t blocks;
  };
  std::vector<uint64_t> keys_;  // of all events
  std::vector<Event> events_;
};

// Collects what the cache does in a step.
class KvPublisher final : public BlockListener {
 public:
  void BlockStored(uint64_t key, uint64_t parent, bool first) override {
    message_.Store(key, parent, first);
  }
  void BlockRemoved(uint64_t key) override { message_.Remove(key); }
  // A simulated engine loses everything only when it fails or starts anew: then it says nothing,
  // and routers take it for a new instance.
  void AllBlocksCleared() override { message_.Clear(); }

  // What has come together since the last call.
  KvMessage Take();

 private:
  KvMessage message_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_SIM_KV_PUBLISHER_H_
