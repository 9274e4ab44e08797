// The last step of every decision: from costs to one instance.
#ifndef PREFIXROUTER_LIB_POLICY_CHOOSE_H_
#define PREFIXROUTER_LIB_POLICY_CHOOSE_H_

#include <cstddef>
#include <cstdint>

#include "prefixrouter/decision.h"
#include "prefixrouter/policy.h"

namespace prefixrouter {

struct Choice {
  static constexpr uint32_t kNone = UINT32_MAX;
  uint32_t slot = kNone;
  uint32_t runner_up = kNone;
  Rule rule = Rule::kLowestCost;
};

// Adds the penalties (0, or +infinity for slots that may not be chosen; null: all 0) to the costs,
// and takes NaN for +infinity. The lowest wins. Near-ties, as the policy defines them, go to the
// fewest requests in flight, then to the least pending work, then to chance. When all costs are
// infinite, the choice is made among the slots without a penalty as if their costs were equal.
// O(slots), in vector passes. REQUIRES: at least one penalty is 0, if there are any; cost and
// scratch have in.size elements.
Choice ChooseLowest(const Policy& policy, const PolicyInput& in, const float* penalty, float* cost,
                    float* scratch);

// The highest of cached_blocks[0, size) that has no penalty; null: none has one.
uint32_t MostCachedBlocks(const uint32_t* cached_blocks, const float* penalty, size_t size);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_POLICY_CHOOSE_H_
