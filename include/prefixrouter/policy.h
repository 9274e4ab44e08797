// Policy: the rule that ranks instances for a request. The built-in ones are chosen by name in
// RouterOptions::policy; a custom one derives from this class.
//
// A policy gives each candidate a cost, and the router takes the lowest. It sees all candidates at
// once as arrays, so that a fleet of thousands is scored in a few vector operations:
//
//   class ShortestQueue final : public prefixrouter::Policy {
//    public:
//     const char* name() const override { return "shortest_queue"; }
//     void Score(const PolicyInput& in, float* cost) const override {
//       for (size_t i = 0; i < in.size; ++i) cost[i] = in.requests[i];
//     }
//   };
//   options.custom_policy = std::make_shared<ShortestQueue>();
//
// The router calls a custom policy on the thread that called Route, Acquire or Score, with no lock
// held, on a copy of the state; several threads may be in it at once. A cost of NaN counts as
// +infinity, and candidates of infinite cost are taken only when there is no other. When Score
// throws, the call fails and nothing has changed: kResourceExhausted for std::bad_alloc,
// kInvalidArgument for std::invalid_argument, kInternal otherwise, with the exception's text.
#ifndef PREFIXROUTER_POLICY_H_
#define PREFIXROUTER_POLICY_H_

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "prefixrouter/decision.h"
#include "prefixrouter/instance.h"

namespace prefixrouter {

// How much dearer work is where so many requests share the instance, and where so many of them wait
// for their first token: 1 on an idle one. Part of the cost of prefix_cost; docs/policy.md says
// why.
inline float Crowding(float requests, float waiting) {
  return std::sqrt(1 + 0.3f * requests + 2 * waiting);
}

// The state of the fleet for one request. All arrays have `size` elements, one for each slot; a
// slot whose `eligible` is 0 (removed, not ready or not allowed) is never chosen and its cost is
// ignored.
struct PolicyInput {
  static constexpr uint32_t kNoHome = UINT32_MAX;

  size_t size = 0;
  const InstanceId* ids = nullptr;
  const uint8_t* eligible = nullptr;  // 1 or 0

  // Leading blocks of the prompt that the instance holds; those below the GPU at their weight, and
  // the sum rounded.
  const uint32_t* cached_blocks = nullptr;
  // Tokens that one of those blocks stands for (block_size, or its estimate for text prompts).
  float tokens_per_block = 0;
  // Prompt tokens that are assigned to the instance and not yet prefilled: own leases before their
  // first token, own requests without a lease by the fluid model, and the estimated work of others.
  const float* pending_tokens = nullptr;
  // Prefill rate in tokens a second, > 0: learned, configured or the default.
  const float* tokens_per_s = nullptr;
  // 1 / (tokens_per_s * weight): multiplying by it makes seconds of tokens.
  const float* seconds_per_token = nullptr;
  // What a first token takes beside prefill (steps of the engine, the network), as tokens of
  // prefill; learned from first tokens, 0 until then.
  float overhead_tokens = 0;
  // Requests in flight: leases, plus what the engine reports beyond them.
  const float* requests = nullptr;
  // Of them, those that wait for their first token: leases, plus the queue that the engine reports
  // beyond them.
  const float* waiting = nullptr;
  // Crowding(requests, waiting). Kept because a root takes longer than all else in a cost.
  const float* crowding = nullptr;
  // Tokens of prompts and outputs in flight (leases).
  const float* kv_tokens = nullptr;
  // Reported share of KV memory in use, faded by age; 0 when not known. any_report: some instance's
  // report counts still; without one all are 0.
  const float* kv_usage = nullptr;
  bool any_report = false;
  // Prefill that storing a block is expected to cost later, for what it pushes out of the KV cache
  // and somebody asks for again, as a share of the prefill of that block. 0 to 1; learned from KV
  // events, 0 without them and while the cache is not full. any_displacement: some is not 0.
  const float* displacement = nullptr;
  bool any_displacement = false;
  const float* weight = nullptr;  // InstanceOptions::weight

  // Where other routers of this fleet look for the prompt (RouterOptions::routers): a slot that is
  // eligible, or kNoHome. home_tokens: tokens of prefill that placing it there is expected to save,
  // beyond cached_blocks: now, as others may have sent there what this router does not know of, and
  // later, as they will find it. May exceed the prompt; 0 without a home.
  uint32_t home = kNoHome;
  float home_tokens = 0;

  float prompt_tokens = 0;
  float expected_output_tokens = 0;
  int32_t priority = 0;
  // Mean over eligible instances of the requests that wait for their first token.
  float mean_waiting = 0;
  // Hash of the session key if there is one, else of the prompt's first block; 0 if it has none.
  uint64_t affinity_hash = 0;
  // Hash of the prompt's first PolicyOptions::hash_prefix_tokens, in whole blocks; of a shorter
  // one, of all its blocks; 0 if it has none. Only for the policy prefix_hash, else 0.
  uint64_t prefix_hash = 0;
  uint64_t sequence = 0;  // number of this request, from 0
  uint64_t random = 0;    // uniform, from the router's seed

  float cached_tokens(size_t i) const {
    const float cached = static_cast<float>(cached_blocks[i]) * tokens_per_block;
    return cached < prompt_tokens ? cached : prompt_tokens;
  }
};

class Policy {
 public:
  virtual ~Policy() = default;

  // A constant string that names the rule, in lower_snake_case.
  virtual const char* name() const = 0;

  // Writes cost[0, in.size). Lower is better. Must not call the router.
  virtual void Score(const PolicyInput& in, float* cost) const = 0;

  // Costs that exceed the lowest one, that of slot `best`, by no more than this are taken as equal
  // by the router, which then prefers fewer requests in flight, then less pending work, then
  // chance. In the unit of the cost. Default 0: only equal costs tie.
  virtual float TieTolerance(const PolicyInput& in, size_t best) const;

  // What Score's cost of slot i is made of. The default sets the total alone.
  virtual CostParts Explain(const PolicyInput& in, size_t i, float cost) const;

  // The weight of an uncached token against a queued one. Default 1.
  virtual float MissWeight(const PolicyInput& in) const;

  // An instance was added or removed. A policy that keeps a ring or a table updates it here. Called
  // one at a time, with the router's lock held; a custom policy needs a lock of its own against
  // Score. The defaults do nothing.
  virtual void InstanceAdded(InstanceId id, const std::string& name, uint32_t rank);
  virtual void InstanceRemoved(InstanceId id);
};

// The numbers of the policies that have any. prefix_cost has none: it learns what it needs. The
// defaults are those of the routers whose rules these are.
struct PolicyOptions {
  // consistent_hash: an instance takes at most this many times the mean of requests in flight. At
  // least 1, up to 1e6 (no bound).
  double hash_load_factor = 1.25;
  // consistent_hash, prefix_hash: points of an instance on the ring. More spread keys more evenly.
  // Range 1 to 4096.
  uint32_t hash_ring_points = 128;
  // prefix_hash: length of the prefix that is hashed, in tokens, in whole blocks and at least one.
  // A tenant is part of it if it is part of the request's key space. Range 1 to 2^24.
  uint32_t hash_prefix_tokens = 256;
  // prefix_hash: a home with so many requests in flight passes new ones on. Range 1 to 1,000,000.
  uint32_t hash_max_requests = 64;

  // cache_threshold: share of the prompt that must be cached to prefer an instance. Range 0 to 1.
  double threshold_match = 0.3;
  // cache_threshold: the instance is overloaded when its requests exceed both the mean by this
  // count and the mean times this ratio. Range 0 to 1e9, and 1 to 1e9.
  double threshold_requests = 64;
  double threshold_ratio = 1.5;

  // weighted: of the cached share, of the relative shortness of the queue, and of free KV memory.
  // Range 0 to 1e6, not all 0.
  double weight_match = 3;
  double weight_queue = 2;
  double weight_kv = 2;

  // block_cost: how much of a cached token's prefill counts as saved. Range 0 to 1000.
  double block_credit = 1;
};

// The names that RouterOptions::policy takes. The last five are what other routers do
// (SimulatedPolicies() in simulator.h says which):
//   prefix_cost      least predicted prefill work, with a weight on uncached tokens
//   random           uniform
//   round_robin      in the order of the slots
//   least_requests   fewest requests in flight
//   least_tokens     fewest tokens in flight or waiting for prefill
//   power_of_two     fewest requests of two drawn by chance
//   consistent_hash  a ring keyed by session or first block, with bounded load
//   prefix_hash      a ring keyed by a prefix of fixed length, with a bound on each home's requests
//   cache_threshold  the deepest match if it is deep enough and not overloaded, else least requests
//   weighted         a weighted sum of cached share, short queue and free KV memory
//   block_cost       blocks to prefill plus blocks in use
//   multiplicative   prefill work times requests in flight
std::vector<std::string> PolicyNames();

}  // namespace prefixrouter

#endif  // PREFIXROUTER_POLICY_H_
