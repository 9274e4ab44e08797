// Mirror: a sink that does with events what a router does, as simply as can be, and holds each
// state that it goes through against the engine that published it.
#ifndef PREFIXROUTER_TESTS_ZMQ_MIRROR_H_
#define PREFIXROUTER_TESTS_ZMQ_MIRROR_H_

#include <chrono>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "prefixrouter/zmq_subscriber.h"
#include "tests/zmq/fake_engine.h"

namespace prefixrouter::testing {

class Mirror {
 public:
  // From now on whatever is held of this instance must be held by the engine too, as of the message
  // that was applied last: so a removed block is gone with the message that says it.
  void Watch(InstanceId instance, const FakeEngine* engine) {
    const std::lock_guard<std::mutex> lock(mutex_);
    instances_[instance].engine = engine;
  }

  ZmqSubscriber::Sink Sink() {
    return
        [this](InstanceId instance, const KvEventBatch& batch) { return Apply(instance, batch); };
  }

  Status Apply(InstanceId instance, const KvEventBatch& batch) {
    const std::lock_guard<std::mutex> lock(mutex_);
    State& state = instances_[instance];
    ++state.batches;
    for (const KvEvent& event : batch.events) {
      if (event.kind == KvEventKind::kCleared) state.held.clear();
      for (const uint64_t id : event.block_ids) {
        const auto block = state.held.find({event.tier, id});
        if (event.kind == KvEventKind::kStored) {
          ++state.held[{event.tier, id}];
        } else if (block != state.held.end() && --block->second == 0) {
          state.held.erase(block);
        }
      }
    }
    if (!(batch.timestamp_s >= 0)) return Status();  // the subscriber's own, to clear
    state.last = batch.timestamp_s;
    if (state.engine == nullptr) return Status();
    const FakeEngine::Held truth = state.engine->HeldAfter(state.last);
    for (const auto& [key, copies] : state.held) {
      const auto block = truth.find(key);
      if (block == truth.end() || block->second < copies) ++state.false_blocks;
    }
    return Status();
  }

  FakeEngine::Held held(InstanceId instance) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto state = instances_.find(instance);
    return state == instances_.end() ? FakeEngine::Held() : state->second.held;
  }
  double last(InstanceId instance) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto state = instances_.find(instance);
    return state == instances_.end() ? -1 : state->second.last;
  }
  uint64_t batches(InstanceId instance) const {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto state = instances_.find(instance);
    return state == instances_.end() ? 0 : state->second.batches;
  }
  // Summed over all states that it went through.
  uint64_t false_blocks() const {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t sum = 0;
    for (const auto& [instance, state] : instances_) sum += state.false_blocks;
    return sum;
  }

 private:
  struct State {
    FakeEngine::Held held;
    double last = -1;
    uint64_t batches = 0;
    uint64_t false_blocks = 0;
    const FakeEngine* engine = nullptr;
  };

  mutable std::mutex mutex_;
  std::map<InstanceId, State> instances_;
};

// Waits until the condition holds. False: it did not, for 10 seconds.
template <typename Condition>
bool Eventually(Condition condition) {
  for (int i = 0; i < 5000; ++i) {
    if (condition()) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return false;
}

// Whether the mirror comes to hold exactly what the engine holds.
inline bool BecomesEqual(const Mirror& mirror, InstanceId instance, const FakeEngine& engine) {
  return Eventually([&] {
    return mirror.last(instance) == engine.last() && mirror.held(instance) == engine.held();
  });
}

}  // namespace prefixrouter::testing

#endif  // PREFIXROUTER_TESTS_ZMQ_MIRROR_H_
