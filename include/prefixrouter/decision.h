// Decision: the chosen instance, and why it was chosen. ScoreRow: the same for every candidate.
//
// Both are plain data of fixed size: no pointer, no allocation.
#ifndef PREFIXROUTER_DECISION_H_
#define PREFIXROUTER_DECISION_H_

#include <cstdint>
#include <vector>

#include "prefixrouter/instance.h"

namespace prefixrouter {

// The rule that made the choice.
enum class Rule : int32_t {
  kLowestCost = 0,  // the policy gave it the lowest cost
  kNearTie = 1,     // among costs that differ too little to matter: the least busy, then by chance
  kOnlyCandidate = 2,  // no other instance was ready and allowed
  kSession = 3,        // it holds the session or is its home, and is not much slower than the best
};

inline constexpr int kRuleCount = 4;

const char* RuleName(Rule rule);  // "lowest_cost" and so on

// What the cost of an instance is made of. Unit: seconds for prefix_cost; for other policies only
// `total` is set, in the policy's own unit (requests, tokens, ...).
struct CostParts {
  double pending = 0;  // prefill work that is ahead of this request
  // This prompt's uncached tokens, times the miss weight. At the prompt's home (see
  // PolicyInput::home) less what that is worth; below 0 when it is worth more.
  double uncached = 0;
  double requests = 0;  // what requests in flight and the engine's steps add to these two
  double pressure = 0;  // KV memory that is nearly full, as the engine reports it
  double total = 0;
};

struct Decision {
  InstanceId instance;
  Rule rule = Rule::kLowestCost;

  uint64_t prompt_tokens = 0;
  uint64_t cached_tokens = 0;       // of the prompt, held by the chosen instance
  uint64_t best_cached_tokens = 0;  // the most that any candidate holds

  double predicted_ttft_s =
      0;                   // (pending + uncached tokens) / prefill rate, on the chosen instance
  CostParts cost;          // of the chosen instance
  double miss_weight = 1;  // the w of prefix_cost at this moment; 1 for other policies

  InstanceId runner_up;  // the lowest cost among the others; not valid() when there is none
  double runner_up_cost = 0;

  uint32_t candidates = 0;  // instances that were ready and allowed
  // The chosen instance's engine report was too old to be used: own counts alone decided.
  bool stale_report = false;

  uint64_t uncached_tokens() const { return prompt_tokens - cached_tokens; }

  // cached_tokens, those below the GPU at their weight (RouterOptions::cpu_tier_weight and so on):
  // how many tokens of prefill are saved.
  uint64_t cached_credit_tokens = 0;

  // What it is worth that other routers look for this prompt on the chosen instance, see
  // PolicyInput::home_tokens; prefix_cost has taken it off the uncached tokens. 0: it is not the
  // prompt's home, or there is only one router.
  double home_tokens = 0;
};

// One line of the table that Score() returns.
struct ScoreRow {
  InstanceId instance;
  bool eligible = false;  // ready, and in the request's `allowed`
  bool stale_report = false;
  uint64_t cached_tokens = 0;
  double predicted_ttft_s = 0;
  CostParts cost;  // total is +infinity when not eligible
  int64_t requests_in_flight = 0;
  double pending_tokens = 0;
  uint64_t cached_credit_tokens = 0;  // as in Decision
  double home_tokens = 0;             // likewise
};

struct ScoreTable {
  uint64_t prompt_tokens = 0;
  double miss_weight = 1;
  std::vector<ScoreRow> rows;  // one for each live instance, in the order of their slots
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_DECISION_H_
