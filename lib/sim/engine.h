// Engine: one simulated inference instance, a step at a time.
//
// It schedules like vLLM V1 with its defaults (chunked prefill, prefix caching, first come first
// served), a step being one forward pass:
//
//   1. Running requests in their order, each as many of its known tokens as are not computed and
//      the token budget allows: one if it decodes, a chunk of its prompt else. When KV memory runs
//      out, the last running request is preempted: it loses its private pages and its references,
//      and goes to the head of the queue; its prompt blocks stay cached until evicted.
//   2. If nobody was preempted: waiting requests in their order, while the budget lasts, fewer than
//      max_running_requests run, and the whole sequence of the next one fits (vLLM's
//      scheduler_reserve_full_isl). Cached leading blocks are counted at this moment, and at least
//      one token is computed anew. Pages are taken chunk by chunk.
//
// At the end of a step its tokens are computed: full prompt blocks become visible to others, and
// each request whose known tokens are all computed gets one more. Where two requests compute the
// same block at once, the second one's copy is dropped at that point (as in SGLang; vLLM keeps both
// until one is free).
//
// Simplification: pages of generated tokens and of partial blocks are free when the request ends.
//
// Not thread-safe. A step costs O(running requests + blocks that become visible).
#ifndef PREFIXROUTER_LIB_SIM_ENGINE_H_
#define PREFIXROUTER_LIB_SIM_ENGINE_H_

#include <cstdint>
#include <deque>
#include <vector>

#include "lib/sim/block_cache.h"
#include "prefixrouter/simulator.h"
#include "prefixrouter/span.h"

namespace prefixrouter {

struct EngineRequest {
  uint32_t id = 0;  // the caller's
  uint32_t prompt_tokens = 0;
  uint32_t output_tokens = 0;   // 0 counts as 1
  Span<const uint64_t> keys{};  // of the full prompt blocks, borrowed until the request has ended
};

// What a step did for a request.
struct EngineEvent {
  uint32_t id = 0;
  bool first_token = false;
  bool finished = false;
  uint32_t cached_tokens = 0;  // when it was first admitted
  uint32_t preemptions = 0;
};

class Engine {
 public:
  // block_tokens: tokens a key stands for. REQUIRES: valid options.
  Engine(const EngineOptions& options, double speed, double capacity, uint32_t block_tokens);

  // Whether a request could ever run.
  bool Fits(uint32_t prompt_tokens, uint32_t output_tokens) const;

  // REQUIRES: Fits.
  void Submit(const EngineRequest& request);

  // Schedules a step and returns its length in seconds; 0 when there is nothing to do. REQUIRES: no
  // step is under way.
  double StartStep();
  // Ends it, and appends what it did.
  void FinishStep(std::vector<EngineEvent>* events);
  bool stepping() const { return stepping_; }

  // Drops all requests and the cache, whatever it is doing, and returns the ids.
  std::vector<uint32_t> Fail();

  // A length in seconds is the engine's, at this speed.
  const StepWork& last_step() const { return work_; }
  uint32_t running() const { return static_cast<uint32_t>(running_.size()); }
  uint32_t waiting() const { return static_cast<uint32_t>(waiting_.size()); }
  bool idle() const { return running_.empty() && waiting_.empty(); }
  double kv_usage() const {
    return static_cast<double>(cache_.pages_in_use()) /
           static_cast<double>(cache_.capacity_pages());
  }
  BlockCache& cache() { return cache_; }

 private:
  struct State {
    EngineRequest request;
    uint32_t known = 0;      // prompt tokens and generated ones
    uint32_t computed = 0;   // of them
    uint32_t scheduled = 0;  // in this step
    uint32_t generated = 0;
    uint32_t private_pages = 0;
    uint32_t cached_tokens = 0;
    uint32_t preemptions = 0;
    bool admitted = false;  // once
    std::vector<BlockCache::Block> blocks;
  };

  // Private pages that a request needs beside `blocks` cached blocks when `tokens` are computed.
  uint64_t PagesFor(uint64_t tokens, uint64_t blocks) const {
    return (tokens - blocks * block_tokens_ + page_tokens_ - 1) / page_tokens_;
  }
  bool Grow(State* state, uint32_t tokens);
  void Schedule(State* state, uint32_t tokens);
  void PreemptLast();
  bool AdmitNext(uint32_t budget);
  void PublishBlocks(State* state);
  void Drop(State* state);

  const EngineOptions options_;
  const double speed_;
  const uint32_t block_tokens_;
  const uint32_t page_tokens_;
  BlockCache cache_;
  std::vector<State> running_;  // in the order of their admission
  std::deque<State> waiting_;
  StepWork work_;
  bool stepping_ = false;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_SIM_ENGINE_H_
