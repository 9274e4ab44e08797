#include "prefixrouter/policy.h"

#include "lib/policy/builtin.h"

namespace prefixrouter {

float Policy::TieTolerance(const PolicyInput&, size_t) const { return 0; }

CostParts Policy::Explain(const PolicyInput&, size_t, float cost) const {
  CostParts parts;
  parts.total = cost;
  return parts;
}

float Policy::MissWeight(const PolicyInput&) const { return 1; }

void Policy::InstanceAdded(InstanceId, const std::string&, uint32_t) {}
void Policy::InstanceRemoved(InstanceId) {}

const char* RuleName(Rule rule) {
  switch (rule) {
    case Rule::kLowestCost:
      return "lowest_cost";
    case Rule::kNearTie:
      return "near_tie";
    case Rule::kOnlyCandidate:
      return "only_candidate";
    case Rule::kSession:
      return "session";
  }
  return "unknown";
}

namespace {

template <std::unique_ptr<Policy> (*kMake)()>
std::unique_ptr<Policy> WithoutOptions(const PolicyOptions&) {
  return kMake();
}

struct Entry {
  const char* name;
  std::unique_ptr<Policy> (*make)(const PolicyOptions&);
};

constexpr Entry kPolicies[] = {
    {"prefix_cost", WithoutOptions<MakePrefixCost>},
    {"random", WithoutOptions<MakeRandom>},
    {"round_robin", WithoutOptions<MakeRoundRobin>},
    {"least_requests", WithoutOptions<MakeLeastRequests>},
    {"least_tokens", WithoutOptions<MakeLeastTokens>},
    {"power_of_two", WithoutOptions<MakePowerOfTwo>},
    {"consistent_hash", MakeConsistentHash},
    {"prefix_hash", MakePrefixHash},
    {"cache_threshold", MakeCacheThreshold},
    {"weighted", MakeWeighted},
    {"block_cost", MakeBlockCost},
    {"multiplicative", MakeMultiplicative},
};

}  // namespace

std::unique_ptr<Policy> MakePolicy(const std::string& name, const PolicyOptions& options) {
  for (const Entry& entry : kPolicies) {
    if (name == entry.name) return entry.make(options);
  }
  return nullptr;
}

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kPolicies) names.push_back(entry.name);
  return names;
}

}  // namespace prefixrouter
