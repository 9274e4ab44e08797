// The rules of other routers, as policies for the simulator, and the names that it knows.
//
// A baseline decides by the router's own index and counts, which are at least as good as those of
// the router whose rule it is: what is compared is the rule. Where a rule needs more than a
// PolicyInput has, the simulation tells it (Baseline).
#ifndef PREFIXROUTER_LIB_SIM_BASELINES_H_
#define PREFIXROUTER_LIB_SIM_BASELINES_H_

#include <memory>
#include <string>

#include "prefixrouter/decision.h"
#include "prefixrouter/instance.h"
#include "prefixrouter/policy.h"
#include "prefixrouter/status.h"

namespace prefixrouter {

class Baseline : public Policy {
 public:
  // A request was sent.
  virtual void Routed(const Decision&) {}
  // Metrics were read from an engine.
  virtual void Observed(InstanceId, const EngineLoad&) {}
};

// How a simulated policy is put into effect: by a policy of the router, or by a baseline.
struct PolicyChoice {
  std::string router_policy;
  PolicyOptions router_options;
  std::shared_ptr<Baseline> baseline;  // null: the router's policy
};

// options: of the router's own policies. kInvalidArgument: no policy of this name.
Result<PolicyChoice> ChoosePolicy(const std::string& name, const PolicyOptions& options);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_SIM_BASELINES_H_
