// Gateway: one simulated gateway with its PrefixRouter, which sees what a real one would: its own
// requests, what comes back of them, engine metrics, KV events, and which instances there are.
//
// Not thread-safe. Time is the shared clock's.
#ifndef PREFIXROUTER_LIB_SIM_GATEWAY_H_
#define PREFIXROUTER_LIB_SIM_GATEWAY_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "lib/sim/baselines.h"
#include "prefixrouter/prefix_router.h"
#include "prefixrouter/simulator.h"

namespace prefixrouter {

class Gateway {
 public:
  // number: of this gateway, from 0. Errors are those of PrefixRouter::Create and of the policy's
  // name.
  static Result<std::unique_ptr<Gateway>> Create(const Workload& workload,
                                                 const SimulationOptions& options,
                                                 std::shared_ptr<const Clock> clock,
                                                 uint32_t number);

  // The instance is there, and empty. No effect if the gateway has it.
  Status Add(uint32_t instance);
  // It is gone. No effect if the gateway does not have it.
  void Remove(uint32_t instance);
  // No new requests; it is removed when the last of this gateway's has ended.
  void Drain(uint32_t instance);
  bool Has(uint32_t instance) const { return members_[instance].id.valid(); }

  struct Sent {
    uint32_t instance = 0;
    InstanceId id;
    LeaseId lease;
    uint32_t predicted_tokens = 0;
  };
  // kUnavailable, kResourceExhausted: rejected.
  // keys: of the prompt's blocks.
  Result<Sent> Send(const WorkloadRequest& request, Span<const uint64_t> keys);
  void FirstToken(const Sent& sent) { router_->FirstToken(sent.lease); }
  void Finish(const Sent& sent, const FinishInfo& info);
  void Cancel(const Sent& sent);
  void Report(uint32_t instance, const EngineLoad& load);
  Status ApplyKvEvents(uint32_t instance, const KvEventBatch& batch);

 private:
  struct Member {
    InstanceId id;  // not valid: the gateway does not have it
    uint32_t requests = 0;
    bool draining = false;
  };

  Gateway(const Workload& workload, const SimulationOptions& options)
      : workload_(workload), options_(options), members_(options.instances.size()) {}
  void Ended(const Sent& sent);

  const Workload& workload_;
  const SimulationOptions& options_;
  std::unique_ptr<PrefixRouter> router_;
  std::shared_ptr<Baseline> baseline_;  // null unless the policy is one
  std::vector<Member> members_;         // by instance
  std::vector<uint32_t> instances_;     // by the router's slot
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_SIM_GATEWAY_H_
