#include "lib/sim/gateway.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

namespace prefixrouter {

Result<std::unique_ptr<Gateway>> Gateway::Create(const Workload& workload,
                                                 const SimulationOptions& options,
                                                 std::shared_ptr<const Clock> clock,
                                                 uint32_t number) {
  std::unique_ptr<Gateway> gateway(new Gateway(workload, options));
  RouterOptions router = options.router;
  if (options.make_policy) {
    router.custom_policy = options.make_policy();
  } else {
    Result<PolicyChoice> choice = ChoosePolicy(router.policy, router.policy_options);
    if (!choice.ok()) return choice.status();
    router.policy = choice->router_policy;
    router.policy_options = choice->router_options;
    gateway->baseline_ = choice->baseline;
    router.custom_policy = choice->baseline;
  }
  router.block_size = workload.block_size();
  router.clock = std::move(clock);
  router.key_seed = options.seed;
  router.routers = options.routers;
  router.random_seed = options.seed * 0x9E3779B97F4A7C15u + number;
  router.lease_ttl_s = 1e9;  // every lease is ended
  Result<std::unique_ptr<PrefixRouter>> created = PrefixRouter::Create(router);
  if (!created.ok()) return created.status();
  gateway->router_ = *std::move(created);
  return gateway;
}

Status Gateway::Add(uint32_t instance) {
  if (Has(instance)) return Status();
  const SimulatedInstance& simulated = options_.instances[instance];
  const double tokens = static_cast<double>(options_.engine.kv_capacity_tokens) *
                        simulated.capacity * simulated.configured_capacity;
  const double blocks = std::floor(tokens / workload_.block_size());
  InstanceOptions added;
  added.name = "instance-" + std::to_string(instance);
  added.capacity_blocks = static_cast<uint32_t>(std::clamp(blocks, 1.0, 2147483647.0));
  added.prefill_tokens_per_s = simulated.configured_prefill_tokens_s;
  Result<InstanceId> id = router_->AddInstance(added);
  if (!id.ok()) return id.status();
  members_[instance] = {*id, 0, false};
  if (id->slot() >= instances_.size()) instances_.resize(id->slot() + 1);
  instances_[id->slot()] = instance;
  return Status();
}

void Gateway::Remove(uint32_t instance) {
  if (!Has(instance)) return;
  (void)router_->RemoveInstance(members_[instance].id);
  members_[instance] = Member();
}

void Gateway::Drain(uint32_t instance) {
  Member& member = members_[instance];
  if (!Has(instance)) return;
  if (member.requests == 0) return Remove(instance);
  member.draining = true;
  (void)router_->SetInstanceState(member.id, InstanceState::kDraining);
}

Result<Gateway::Sent> Gateway::Send(const WorkloadRequest& from, Span<const uint64_t> keys) {
  Request request = Request::FromBlockKeys(keys, from.prompt_tokens);
  if (options_.session_keys && from.session != Workload::kNoSession) {
    request.session_key = workload_.sessions()[from.session];
  }
  request.max_ttft_s = options_.max_ttft_s;
  Result<Lease> lease = router_->Acquire(request);
  if (!lease.ok()) return lease.status();
  const Decision& decision = lease->decision();
  if (baseline_ != nullptr) baseline_->Routed(decision);
  Sent sent;
  sent.id = decision.instance;
  sent.instance = instances_[decision.instance.slot()];
  sent.predicted_tokens = static_cast<uint32_t>(decision.cached_tokens);
  sent.lease = lease->Release();
  ++members_[sent.instance].requests;
  return sent;
}

void Gateway::Ended(const Sent& sent) {
  Member& member = members_[sent.instance];
  if (member.id != sent.id) return;  // it was removed in the meantime
  --member.requests;
  if (member.draining && member.requests == 0) Remove(sent.instance);
}

void Gateway::Finish(const Sent& sent, const FinishInfo& info) {
  router_->Finish(sent.lease, info);
  Ended(sent);
}

void Gateway::Cancel(const Sent& sent) {
  router_->Cancel(sent.lease);
  Ended(sent);
}

void Gateway::Report(uint32_t instance, const EngineLoad& load) {
  if (!Has(instance)) return;
  (void)router_->ReportLoad(members_[instance].id, load);
  if (baseline_ != nullptr) baseline_->Observed(members_[instance].id, load);
}

Status Gateway::ApplyKvEvents(uint32_t instance, const KvEventBatch& batch) {
  if (!Has(instance)) return Status();
  return router_->ApplyKvEvents(members_[instance].id, batch).status();
}

}  // namespace prefixrouter
