// FakeEngine: an inference engine as far as KV events are concerned, over real ZeroMQ sockets. It
// caches the blocks of random prompts, evicts the least recently used, and publishes what it stores
// and removes, a message a step; its thread answers replays. It knows what it holds after each
// message: that is the oracle.
//
// Sockets are bound to loopback or made of files, and close when the engine stops.
#ifndef PREFIXROUTER_TESTS_ZMQ_FAKE_ENGINE_H_
#define PREFIXROUTER_TESTS_ZMQ_FAKE_ENGINE_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <map>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "lib/zmq/socket.h"
#include "prefixrouter/kv_events.h"

namespace prefixrouter::testing {

struct EngineKnobs {
  KvEventEncoding encoding = KvEventEncoding::kMaps;
  bool bytes_ids = false;
  std::string topic;
  bool new_framing = false;  // of replays: with the topic
  uint64_t first_seq = 0;
  int rank = -1;            // in messages; negative: none
  bool unnumbered = false;  // no sequence numbers, no replay

  int drop_every = 0;      // live messages; 0: none
  size_t history = 10000;  // messages that a replay can bring
  bool answers = true;     // replays at all
  uint32_t block_size = 16;
  size_t capacity = 60;     // blocks
  double copies = 0;        // share of requests that store a second copy of their blocks
  bool one_by_one = false;  // one removal an event
  bool orphans = false;     // evicts blocks whose children stay
  bool offload = false;     // evicts from the GPU to the CPU
  double late_clear = 0;    // chance, each step, of a reset that the next message tells

  // Of the live socket. Empty: "tcp://127.0.0.1:*", to be read from endpoint().
  std::string endpoint;
  std::string replay_endpoint;
  bool dials = false;  // the live socket connects
};

class FakeEngine {
 public:
  // (tier, block number) -> copies.
  using Held = std::map<std::pair<KvTier, uint64_t>, int>;

  FakeEngine(const EngineKnobs& knobs, uint64_t seed);
  ~FakeEngine();

  // The process ends, and a new one begins, at the same addresses and with other block numbers.
  void Stop();
  void Start();

  // A request: what it changes is published.
  void Step();
  // The same `count` times, then once more without dropping the message.
  void Steps(int count);
  // A message of these frames, as they are.
  void Send(const std::vector<std::string>& frames);

  const std::string& endpoint() const { return knobs_.endpoint; }
  const std::string& replay_endpoint() const { return knobs_.replay_endpoint; }

  // What is held after the last message.
  Held held() const;
  // The last message's timestamp, which tells messages of all processes apart.
  double last() const;
  // What was held after the message of this timestamp. Empty if there is none.
  Held HeldAfter(double timestamp) const;
  // Prompts that are cached, with the number of their leading blocks that are held (in any tier).
  std::vector<std::pair<std::vector<uint32_t>, size_t>> Prompts() const;
  uint64_t replays() const { return replays_; }

 private:
  struct Block {
    uint64_t parent = 0;
    bool has_parent = false;
    std::vector<uint32_t> tokens;
    int copies = 0;
    bool on_cpu = false;
  };
  struct Message {
    uint64_t seq;
    std::string payload;
  };
  // An event with what it borrows.
  struct OwnedEvent {
    KvEvent event;
    std::vector<uint64_t> ids;
    std::vector<uint32_t> tokens;
  };

  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool Chance(double share);
  std::vector<uint32_t> PromptTokens(uint64_t prompt, size_t blocks) const;
  std::vector<uint64_t> Chain(const std::vector<uint32_t>& tokens) const;
  void Request();
  void StoreRun(const std::vector<uint64_t>& chain, const std::vector<uint32_t>& tokens,
                size_t first, size_t end);
  void Evict();
  void AddEvent(KvEventKind kind, KvTier tier, std::vector<uint64_t> ids);
  void Publish(bool drop);
  void Serve();
  void Answer(const ZmqMessage& request);

  EngineKnobs knobs_;
  void* const context_;
  std::mt19937_64 random_;

  mutable std::mutex mutex_;
  int process_ = 0;
  uint64_t published_ = 0;
  ZmqSocket live_;
  ZmqSocket router_;
  std::unordered_map<uint64_t, Block> blocks_;
  std::list<uint64_t> by_use_;     // on the GPU, least recently used first
  std::deque<OwnedEvent> events_;  // of the next message
  std::deque<Message> history_;
  Held held_;
  double last_ = 0;
  std::map<double, Held> after_;

  std::thread server_;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> replays_{0};
};

}  // namespace prefixrouter::testing

#endif  // PREFIXROUTER_TESTS_ZMQ_FAKE_ENGINE_H_
