// RouterCore: the state of a PrefixRouter and the way of a request through it.
//
//   check the request, hash it                         no lock
//   match it; if much of it is new, note where         lock
//   hash the new part by blocks                        no lock
//   match, score, choose, reserve, insert              lock
//
// It is hashed in chunks when the first blocks of recent prompts were known, which is quicker if
// its own is, and by blocks when they were not. Where those that began like it were new behind a
// certain block, what is behind that one is hashed by blocks as well. A prompt that is known, or
// new, as guessed, takes the lock once.
//
// The locked parts take about a microsecond, so one lock is enough: it keeps decisions in one
// order, in which each sees all earlier ones, and no herd forms. docs/concurrency.md has the
// figures. Shared by the router and its leases, which may outlive it.
#ifndef PREFIXROUTER_LIB_ROUTER_CORE_H_
#define PREFIXROUTER_LIB_ROUTER_CORE_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "lib/base/latency_recorder.h"
#include "lib/base/mutex.h"
#include "lib/base/vector.h"
#include "lib/hash/prefix_ends.h"
#include "lib/hash/prompt_keys.h"
#include "lib/index/displacement.h"
#include "lib/index/engine_blocks.h"
#include "lib/index/prefix_index.h"
#include "lib/load/awaited_prefills.h"
#include "lib/load/lease_table.h"
#include "lib/load/load_table.h"
#include "lib/load/request_counters.h"
#include "lib/policy/choose.h"
#include "lib/policy/homes.h"
#include "lib/policy/session_table.h"
#include "prefixrouter/prefix_router.h"

namespace prefixrouter {

class RouterCore {
 public:
  // REQUIRES: checked options, with seeds and clock filled in.
  explicit RouterCore(const RouterOptions& options);

  // As in PrefixRouter.
  Result<InstanceId> AddInstance(const InstanceOptions& options);
  Status RemoveInstance(InstanceId id);
  Result<InstanceId> FindInstance(std::string_view name, uint32_t rank) const;
  Result<std::string> InstanceName(InstanceId id) const;
  Status SetInstanceState(InstanceId id, InstanceState state, double for_s);
  Status ReportLoad(InstanceId id, const EngineLoad& load);
  // The router is gone; leases that outlive it find nothing any more.
  void Close();
  bool FirstToken(LeaseId lease);
  bool Finish(LeaseId lease, const FinishInfo& info);
  bool Cancel(LeaseId lease);
  Result<KvEventResult> ApplyKvEvents(InstanceId id, const KvEventBatch& batch);
  Result<ScoreTable> Score(const Request& request);
  RouterStats Stats();

  // Route, or Acquire when lease is not null.
  Result<Decision> Place(const Request& request, LeaseId* lease);

  const RouterOptions& options() const { return options_; }
  const BlockHasher& hasher() const { return hasher_; }

 private:
  // What a request is, once checked and hashed. Needs no lock.
  struct Query {
    Query(const RouterCore& core, const Request& request);

    const Request& request;
    int64_t now_nanos;  // when the call began
    PromptKeys keys;
    uint64_t prompt_tokens;
    float tokens_per_block;
    uint64_t session = 0;  // hash of the session key; 0: none
    uint64_t affinity;
    uint64_t prefix_hash = 0;

    uint64_t CachedTokens(double blocks) const;
  };
  // What one decision works with, by slot. Each thread keeps one for its next decision, so that
  // none allocates, and so that no memory is written by all threads in turns.
  struct Scratch {
    Scratch() { path.garbage = &garbage; }

    Garbage garbage;
    Path path;
    PrefixEnds ends;
    uint32_t known_blocks = 0;            // of the prompt, when it was matched
    uint64_t known_key = 0;               // of the last of them
    std::vector<double> credit_blocks;    // only when something is below the GPU
    LineVector<uint32_t> rounded_credit;  // likewise
    LineVector<float> costs;
    LineVector<float> ties;
    LineVector<float> masked_penalty;
    std::vector<uint8_t> masked_eligible;
    const float* penalty = nullptr;  // 0 for candidates, else infinity; null: all are candidates
    uint32_t thread = 0;             // for counters_
    uint32_t candidates = 0;         // ready and allowed
    uint32_t choosable = 0;          // of them, below max_ttft_s
    uint64_t known_at_home = 0;      // as in LeaseRecord, when the input has a home
  };
  class ScratchLoan;
  class Timer;
  // What is known of an instance by its events.
  struct EventState {
    std::unique_ptr<EngineBlocks> blocks;  // null before the first batch
    int64_t last_nanos = 0;
    KvEventCounts counts;
  };
  // A copy of the arrays of a PolicyInput, for a custom policy to look at without the lock.
  struct Snapshot;

  int64_t Now() const { return options_.clock->NowNanos(); }
  // The part of Place that takes the lock: all from the match on. `result` is new.
  Status Decide(Query& query, Scratch& scratch, Decision* result, LeaseId* lease);
  // Brings state up to the time of a call, and returns that time.
  int64_t Advance(int64_t now_nanos) PREFIX_ROUTER_REQUIRES(mutex_);
  bool EventDriven(uint32_t slot) const PREFIX_ROUTER_REQUIRES(mutex_) {
    return slot < events_.size() && events_[slot].blocks != nullptr;
  }
  EventState& DrivenByEvents(InstanceId id) PREFIX_ROUTER_REQUIRES(mutex_);
  enum class LeaseEnd { kFinished, kCancelled, kExpired };
  bool EndLease(LeaseId id, LeaseEnd end, const FinishInfo& info, int64_t now_nanos)
      PREFIX_ROUTER_REQUIRES(mutex_);
  void Learn(const LeaseRecord& lease, uint64_t reported_cached_tokens)
      PREFIX_ROUTER_REQUIRES(mutex_);

  // The policy's view of a request that has been matched.
  PolicyInput MakeInput(const Query& query, Scratch& scratch) PREFIX_ROUTER_REQUIRES(mutex_);
  // Restrict the candidates to those that the request allows, and the choice to those below its
  // bound on predicted TTFT.
  void MaskForbidden(const Request& request, Scratch& scratch, PolicyInput* in)
      PREFIX_ROUTER_REQUIRES(mutex_);
  void MaskSlow(const Query& query, Scratch& scratch, PolicyInput* in)
      PREFIX_ROUTER_REQUIRES(mutex_);
  // Sets the input's home, when there are several routers.
  void FindHome(const Query& query, Scratch& scratch, PolicyInput* in)
      PREFIX_ROUTER_REQUIRES(mutex_);
  // Prefill that the slot's cached tokens save, for a request whose input has been made.
  uint64_t CreditTokens(const Query& query, const Scratch& scratch, uint32_t slot) const
      PREFIX_ROUTER_REQUIRES(mutex_);
  void MatchQuery(Query& query, bool for_insert, Path* path) PREFIX_ROUTER_REQUIRES(mutex_);
  // Fills the costs by a custom policy. Leaves the lock while it runs, so everything may have
  // changed; matches again.
  Status ScoreWithoutLock(const Query& query, Scratch& scratch) PREFIX_ROUTER_REQUIRES(mutex_);
  double PredictedTtft(const Query& query, const PolicyInput& in, uint32_t slot) const
      PREFIX_ROUTER_REQUIRES(mutex_);
  Status NoCandidate(const Request& request, const Scratch& scratch) const
      PREFIX_ROUTER_REQUIRES(mutex_);
  // The session's instance if the choice should give way to it.
  uint32_t SessionSlot(const Query& query, const PolicyInput& in, uint32_t chosen)
      PREFIX_ROUTER_REQUIRES(mutex_);

  const RouterOptions options_;
  const BlockHasher hasher_;
  const std::shared_ptr<Policy> policy_;
  const bool custom_policy_;
  double tier_weights_[kKvTierCount];
  uint32_t counted_tiers_ = 0;  // by bit: those whose weight is not 0
  const float prefix_tokens_;   // that the policy wants hashed; 0: none

  // Below 0: the first blocks of recent prompts were unknown. Written under the lock.
  std::atomic<int> known_streak_{0};
  LatencyRecorder latency_;
  std::atomic<uint32_t> next_thread_{0};

  mutable Mutex mutex_;
  PrefixIndex index_ PREFIX_ROUTER_GUARDED_BY(mutex_);
  Displacement displacement_ PREFIX_ROUTER_GUARDED_BY(mutex_);
  std::vector<EventState> events_ PREFIX_ROUTER_GUARDED_BY(mutex_);  // by slot
  AwaitedPrefills awaited_ PREFIX_ROUTER_GUARDED_BY(mutex_);         // of event-driven instances
  LoadTable load_ PREFIX_ROUTER_GUARDED_BY(mutex_);
  LeaseTable leases_ PREFIX_ROUTER_GUARDED_BY(mutex_);
  SessionTable sessions_ PREFIX_ROUTER_GUARDED_BY(mutex_);
  Homes homes_ PREFIX_ROUTER_GUARDED_BY(mutex_);
  absl::flat_hash_map<std::pair<std::string, uint32_t>, InstanceId> names_
      PREFIX_ROUTER_GUARDED_BY(mutex_);
  std::vector<uint32_t> generations_ PREFIX_ROUTER_GUARDED_BY(mutex_);  // by slot, the last given
  std::vector<uint32_t> free_slots_ PREFIX_ROUTER_GUARDED_BY(mutex_);
  RequestCounters counters_ PREFIX_ROUTER_GUARDED_BY(mutex_);
  RouterStats stats_ PREFIX_ROUTER_GUARDED_BY(mutex_);  // all other counters
  // Every decision writes these, so they share a cache line.
  alignas(64) uint64_t random_state_ PREFIX_ROUTER_GUARDED_BY(mutex_);
  uint64_t sequence_ PREFIX_ROUTER_GUARDED_BY(mutex_) = 0;          // decisions so far
  int64_t now_nanos_ PREFIX_ROUTER_GUARDED_BY(mutex_) = INT64_MIN;  // the latest seen
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_ROUTER_CORE_H_
