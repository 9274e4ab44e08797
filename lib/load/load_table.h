// LoadTable: how busy each instance is, as the arrays that policies score.
//
// Three sources, kept apart and added up:
//   leases   exact: requests in flight, uncached tokens before the first token, KV tokens
//   fluid    requests routed without a lease: their uncached tokens drain at the prefill rate
//   reports  what engines say. The router's own requests are part of it, so only what exceeds its
//            own counts of that time is added, as the work of other gateways, and what those are
//            expected to have sent since. A report counts whole for half of report_max_age_s, then
//            fades to nothing.
//
// The arrays hold floats: token counts up to 2^24 are exact in them, costs need no more, and four
// or eight are scored by one instruction. Counts are kept as integers beside them.
//
// Time moves in steps of 1 ms for the fluid work and of 1/256 of report_max_age_s for the reports,
// so that a burst of requests does not pass over all instances for each of them.
//
// Not thread-safe. O(1) a call, but O(instances) for Refresh when a step has passed.
#ifndef PREFIXROUTER_LIB_LOAD_LOAD_TABLE_H_
#define PREFIXROUTER_LIB_LOAD_LOAD_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "lib/base/vector.h"
#include "lib/load/calibration.h"
#include "lib/load/lease_table.h"
#include "lib/load/load_history.h"
#include "lib/load/other_routers.h"
#include "prefixrouter/instance.h"
#include "prefixrouter/options.h"
#include "prefixrouter/policy.h"
#include "prefixrouter/stats.h"

namespace prefixrouter {

class LoadTable {
 public:
  explicit LoadTable(const RouterOptions& options);

  // ---- Instances ------------------------------------------------------------------------------

  // REQUIRES: the slot is not in use.
  void Add(InstanceId id, const InstanceOptions& options);
  // REQUIRES for all that follow: Live(id).
  void Remove(InstanceId id);
  bool Live(InstanceId id) const {
    return id.slot() < instances_.size() && ids_[id.slot()] == id && id.valid();
  }
  // until_nanos: when it is ready again by itself; INT64_MAX: not by itself.
  void SetState(InstanceId id, InstanceState state, int64_t until_nanos);
  void Report(InstanceId id, const EngineLoad& load, int64_t now_nanos);

  // ---- Work -----------------------------------------------------------------------------------

  // Sets the lease's pending_tokens.
  void Reserve(LeaseRecord* lease);
  // Releases the pending tokens, and learns the prefill rate.
  void FirstToken(const LeaseRecord& lease, int64_t now_nanos);
  void Release(const LeaseRecord& lease, int64_t now_nanos);
  // Learns from cached tokens that an engine has reported. True if capacity_blocks has changed.
  bool LearnCapacity(const LeaseRecord& lease, uint64_t reported_cached_tokens, bool index_full);
  // What storing on the instance pushes out, as PolicyInput::displacement has it.
  void SetDisplacement(InstanceId id, float displacement);
  void AddFluid(InstanceId id, uint64_t uncached_tokens);
  // A request with so many uncached tokens has been routed.
  void CountRequest(uint64_t uncached_tokens, int64_t now_nanos);

  // ---- For decisions --------------------------------------------------------------------------

  // Brings everything up to now: states, fluid work, fading of reports.
  void Refresh(int64_t now_nanos);
  // Points the arrays of `in` at this table's. Valid until the table changes.
  void FillInput(PolicyInput* in) const;
  // By slot: 0 for instances that are ready, +infinity for others.
  const float* penalty() const { return penalty_.data(); }
  uint32_t ready_count() const { return ready_count_; }
  bool Ready(uint32_t slot) const { return eligible_[slot] != 0; }
  bool StaleReport(uint32_t slot, int64_t now_nanos) const;
  // What a first token takes beside prefill, in tokens of prefill.
  double overhead_tokens() const { return model_.overhead_s() * default_rate_ / slope_in_use_; }
  // Capacity in blocks, as learned.
  uint64_t CapacityBlocks(InstanceId id) const;

  uint32_t slot_limit() const { return static_cast<uint32_t>(instances_.size()); }
  uint32_t live_count() const { return live_count_; }
  InstanceId id(uint32_t slot) const { return ids_[slot]; }
  const std::string& name(InstanceId id) const { return instances_[id.slot()].options.name; }
  const InstanceOptions& options(InstanceId id) const { return instances_[id.slot()].options; }
  uint32_t rank(InstanceId id) const { return instances_[id.slot()].options.rank; }
  // All but the blocks held and the requests counted.
  InstanceStats Stats(uint32_t slot, int64_t now_nanos) const;

 private:
  struct Instance {
    InstanceOptions options;
    InstanceState state = InstanceState::kReady;
    int64_t state_until_nanos = INT64_MAX;
    int64_t requests_in_flight = 0;
    int64_t requests_waiting = 0;
    int64_t pending_tokens = 0;
    int64_t kv_tokens = 0;
    bool reported = false;
    double external_requests = 0;  // beyond the router's own of that time, when reported
    double external_waiting = 0;
    double faded_waiting = 0;  // what of it counts now
    EngineLoad report;         // as it was given
    int64_t report_nanos = 0;  // when the figures were true
    LoadHistory history;       // once a report was of another time than its own
    SpeedFactor speed;
    CapacityScale capacity;
  };

  static OwnRequests Own(const Instance& instance) {
    return {static_cast<int32_t>(instance.requests_in_flight),
            static_cast<int32_t>(instance.requests_waiting)};
  }
  // The router's own requests there have changed.
  void NoteOwn(Instance* instance, int64_t now_nanos) {
    if (any_aged_report_) instance->history.Note(now_nanos, Own(*instance));
  }
  void UpdateState(uint32_t slot);
  void UpdateRequests(uint32_t slot);
  void UpdatePending(uint32_t slot);
  void UpdateRate(uint32_t slot);
  double ConfiguredRate(const InstanceOptions& options) const;
  void UpdateRates();
  void FadeFactors(int64_t now_nanos);
  // others_rate: OtherRouters::Rate of now.
  void FadeReport(uint32_t slot, int64_t now_nanos, double others_rate);
  void DrainFluid(int64_t now_nanos);

  const double default_rate_;
  const bool calibrate_;
  const int64_t report_max_age_nanos_;

  std::vector<Instance> instances_;  // by slot, like all arrays
  std::vector<InstanceId> ids_;
  std::vector<uint8_t> eligible_;
  LineVector<float> penalty_;
  LineVector<float> pending_;  // lease_pending + fluid + external
  LineVector<float> lease_pending_;
  LineVector<float> fluid_;
  LineVector<float> external_pending_;
  LineVector<float> external_requests_;  // faded
  LineVector<float> tokens_per_s_;
  LineVector<float> seconds_per_token_;
  LineVector<float> requests_;
  LineVector<float> waiting_;
  LineVector<float> crowding_;
  LineVector<float> kv_tokens_;
  LineVector<float> kv_usage_;
  LineVector<float> weight_;
  LineVector<float> displacement_;

  OtherRouters others_;
  TtftModel model_;
  SpeedSpread speed_spread_;
  double slope_in_use_ = 1;  // the model's when it had last moved enough
  uint32_t live_count_ = 0;
  uint32_t ready_count_ = 0;
  bool any_report_ = false;       // one that still counts
  bool any_aged_report_ = false;  // ever
  uint32_t displaced_count_ = 0;  // instances whose displacement is not 0
  // Every decision reads these and writes some, so they share a cache line.
  alignas(64) int64_t requests_waiting_ = 0;  // leases of all instances before their first token
  double external_waiting_ = 0;               // faded, of all instances
  double fluid_total_ = 0;
  double mean_uncached_tokens_;  // of recent requests
  int64_t fluid_nanos_ = INT64_MIN;
  int64_t next_fade_nanos_ = INT64_MIN;
  int64_t next_state_end_nanos_ = INT64_MAX;
  int64_t next_factor_fade_nanos_ = INT64_MIN;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_LOAD_LOAD_TABLE_H_
