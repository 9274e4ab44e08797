// Each baseline with its defaults. SimulatedPolicies() below says whose rule it is.
#include "lib/sim/baselines.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "prefixrouter/simulator.h"

namespace prefixrouter {
namespace {

// ---- What they share ---------------------------------------------------------------------------

// Cost 0 for one slot and 1 for the others.
void Prefer(const PolicyInput& in, size_t slot, float* cost) {
  std::fill_n(cost, in.size, 1.0f);
  cost[slot] = 0;
}

uint32_t DeepestMatch(const PolicyInput& in) {
  uint32_t deepest = 0;
  for (size_t i = 0; i < in.size; ++i) {
    if (in.eligible[i]) deepest = std::max(deepest, in.cached_blocks[i]);
  }
  return deepest;
}

// The share of the prompt that `blocks` blocks are.
float Share(const PolicyInput& in, uint32_t blocks) {
  if (in.prompt_tokens <= 0) return 0;
  return std::min(static_cast<float>(blocks) * in.tokens_per_block / in.prompt_tokens, 1.0f);
}

// Slots for which `is` holds, of those that may be chosen.
template <typename Is>
std::vector<size_t> Slots(const PolicyInput& in, Is is) {
  std::vector<size_t> slots;
  for (size_t i = 0; i < in.size; ++i) {
    if (in.eligible[i] && is(i)) slots.push_back(i);
  }
  return slots;
}

void PreferOneOf(const PolicyInput& in, const std::vector<size_t>& slots, float* cost) {
  if (!slots.empty()) Prefer(in, slots[(in.random >> 16) % slots.size()], cost);
}

void LeastRequests(const PolicyInput& in, float* cost) { std::copy_n(in.requests, in.size, cost); }

struct Spread {
  float min = INFINITY, max = 0, mean = 0, deviation = 0;
};
Spread RequestSpread(const PolicyInput& in) {
  Spread spread;
  double sum = 0, squares = 0, count = 0;
  for (size_t i = 0; i < in.size; ++i) {
    if (!in.eligible[i]) continue;
    const float requests = in.requests[i];
    spread.min = std::min(spread.min, requests);
    spread.max = std::max(spread.max, requests);
    sum += requests;
    squares += static_cast<double>(requests) * requests;
    count += 1;
  }
  if (count == 0) return spread;
  const double mean = sum / count;
  spread.mean = static_cast<float>(mean);
  spread.deviation = static_cast<float>(std::sqrt(std::max(squares / count - mean * mean, 0.0)));
  return spread;
}

// Values by slot that start anew when the slot's instance changes.
template <typename T>
class BySlot {
 public:
  T& operator[](InstanceId id) {
    if (id.slot() >= values_.size()) values_.resize(id.slot() + 1);
    Entry& entry = values_[id.slot()];
    if (entry.id != id) entry = {id, T()};
    return entry.value;
  }
  T Get(InstanceId id) const {
    if (id.slot() >= values_.size() || values_[id.slot()].id != id) return T();
    return values_[id.slot()].value;
  }

 private:
  struct Entry {
    InstanceId id;
    T value{};
  };
  std::vector<Entry> values_;
};

// ---- The rules ---------------------------------------------------------------------------------

class SglangCacheAware final : public Baseline {
 public:
  const char* name() const override { return "sglang_cache_aware"; }
  void Score(const PolicyInput& in, float* cost) const override {
    LeastRequests(in, cost);
    const Spread load = RequestSpread(in);
    if (load.max - load.min > 64 && load.max > 1.5f * load.min) return;
    const uint32_t deepest = DeepestMatch(in);
    if (Share(in, deepest) <= 0.3f) return;
    PreferOneOf(in, Slots(in, [&](size_t i) { return in.cached_blocks[i] == deepest; }), cost);
  }
};

class Lpwl final : public Baseline {
 public:
  const char* name() const override { return "lpwl"; }
  void Score(const PolicyInput& in, float* cost) const override {
    for (size_t i = 0; i < in.size; ++i) {
      cost[i] = in.pending_tokens[i] + in.prompt_tokens - in.cached_tokens(i);
    }
  }
};

// Scores of 0 to 1 from scraped metrics alone; the cost is the negative sum.
class LlmdWeighted final : public Baseline {
 public:
  const char* name() const override { return "llmd_weighted"; }
  void Observed(InstanceId id, const EngineLoad& load) override { metrics_[id] = load; }
  void Score(const PolicyInput& in, float* cost) const override {
    const auto waiting = [&](size_t i) {
      return static_cast<float>(std::max<int64_t>(metrics_.Get(in.ids[i]).waiting_requests, 0));
    };
    float shortest = INFINITY, longest = 0;
    for (size_t i = 0; i < in.size; ++i) {
      if (!in.eligible[i]) continue;
      shortest = std::min(shortest, waiting(i));
      longest = std::max(longest, waiting(i));
    }
    const std::vector<size_t> all = Slots(in, [](size_t) { return true; });
    float best = -INFINITY;
    std::vector<size_t> winners;
    for (const size_t i : all) {
      const float queue = longest > shortest ? (longest - waiting(i)) / (longest - shortest) : 1.0f;
      const float usage = static_cast<float>(std::max(metrics_.Get(in.ids[i]).kv_usage, 0.0));
      const float score = 3 * Share(in, in.cached_blocks[i]) + 2 * queue + 2 * (1 - usage);
      if (score > best) winners.clear();
      best = std::max(best, score);
      if (score == best) winners.push_back(i);
    }
    PreferOneOf(in, winners, cost);
  }

 private:
  BySlot<EngineLoad> metrics_;
};

// Holders of at least 0.8 of the prompt, unless they would answer 18 s later than the others; of
// what is left, the fewest tokens in flight.
class LlmdAffinity final : public Baseline {
 public:
  const char* name() const override { return "llmd_affinity"; }
  void Score(const PolicyInput& in, float* cost) const override {
    float best_holder_s = INFINITY, best_s = INFINITY;
    for (size_t i = 0; i < in.size; ++i) {
      cost[i] = in.kv_tokens[i];
      if (!in.eligible[i]) continue;
      const float uncached = in.prompt_tokens - in.cached_tokens(i);
      const float ttft_s = (in.pending_tokens[i] + uncached) / in.tokens_per_s[i];
      best_s = std::min(best_s, ttft_s);
      if (Holds(in, i)) best_holder_s = std::min(best_holder_s, ttft_s);
    }
    if (best_holder_s == INFINITY || best_holder_s > best_s + 18) return;
    for (size_t i = 0; i < in.size; ++i) {
      if (!Holds(in, i)) cost[i] = INFINITY;
    }
  }

 private:
  static bool Holds(const PolicyInput& in, size_t i) {
    return Share(in, in.cached_blocks[i]) >= 0.8f;
  }
};

class AibrixPrefix final : public Baseline {
 public:
  const char* name() const override { return "aibrix_prefix"; }
  void Score(const PolicyInput& in, float* cost) const override {
    LeastRequests(in, cost);
    const Spread load = RequestSpread(in);
    if (load.max - load.min > 8) return;
    std::vector<size_t> order = Slots(in, [&](size_t i) { return in.cached_blocks[i] > 0; });
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      if (in.cached_blocks[a] != in.cached_blocks[b]) {
        return in.cached_blocks[a] > in.cached_blocks[b];
      }
      return in.requests[a] < in.requests[b];
    });
    for (const size_t i : order) {
      if (in.requests[i] <= load.mean + load.deviation) return Prefer(in, i, cost);
    }
  }
};

class RayPrefix final : public Baseline {
 public:
  const char* name() const override { return "ray_prefix"; }
  void Routed(const Decision& decision) override {
    tree_tokens_[decision.instance] += static_cast<double>(decision.uncached_tokens());
  }
  void Score(const PolicyInput& in, float* cost) const override {
    const uint32_t deepest = DeepestMatch(in);
    std::vector<size_t> candidates;
    if (Share(in, deepest) >= 0.1f) {
      candidates = Slots(in, [&](size_t i) { return in.cached_blocks[i] == deepest; });
    } else {
      double smallest = INFINITY;
      for (size_t i = 0; i < in.size; ++i) {
        if (in.eligible[i]) smallest = std::min(smallest, tree_tokens_.Get(in.ids[i]));
      }
      candidates = Slots(in, [&](size_t i) { return tree_tokens_.Get(in.ids[i]) == smallest; });
    }
    if (candidates.empty()) return;
    // The shorter queue of two of them.
    const size_t first = (in.random & 0xffffffff) % candidates.size();
    size_t chosen = candidates[first];
    if (candidates.size() > 1) {
      const size_t step = 1 + (in.random >> 32) % (candidates.size() - 1);
      const size_t other = candidates[(first + step) % candidates.size()];
      if (in.requests[other] < in.requests[chosen]) chosen = other;
    }
    Prefer(in, chosen, cost);
  }

 private:
  BySlot<double> tree_tokens_;
};

class ProductionStack final : public Baseline {
 public:
  const char* name() const override { return "production_stack"; }
  void Score(const PolicyInput& in, float* cost) const override {
    const uint32_t deepest = DeepestMatch(in);
    PreferOneOf(in, Slots(in, [&](size_t i) { return in.cached_blocks[i] == deepest; }), cost);
  }
};

// ---- Names -------------------------------------------------------------------------------------

template <typename T>
std::shared_ptr<Baseline> Make() {
  return std::make_shared<T>();
}

struct Entry {
  const char* name;
  SimulatedPolicy::Kind kind;
  const char* rule;
  const char* source;
  const char* router_policy;                // null: a baseline
  std::shared_ptr<Baseline> (*baseline)();  // null: a policy of the router
};

using Kind = SimulatedPolicy::Kind;
// In the order of reports: the default first.
constexpr Entry kEntries[] = {
    {"prefix_cost", Kind::kRouter, "least predicted prefill work, with a weight on uncached tokens",
     "this library's default", "prefix_cost", nullptr},
    {"random", Kind::kGateway, "uniform", "SageMaker RANDOM", "random", nullptr},
    {"round_robin", Kind::kResearch, "in turn", "-", "round_robin", nullptr},
    {"least_requests", Kind::kGateway, "fewest requests in flight",
     "SageMaker LEAST_OUTSTANDING_REQUESTS", "least_requests", nullptr},
    {"least_tokens", Kind::kResearch, "fewest tokens in flight or to prefill", "-", "least_tokens",
     nullptr},
    {"power_of_two", Kind::kResearch, "fewest requests of two drawn by chance",
     "M. Mitzenmacher, 2001", "power_of_two", nullptr},
    {"sglang_cache_aware", Kind::kGateway,
     "if max - min requests > 64 and max > 1.5 min: fewest requests; else a holder of the deepest "
     "match if that is > 0.3 of the prompt; else fewest requests",
     "SGLang router, vLLM router", nullptr, Make<SglangCacheAware>},
    {"smg_cache_aware", Kind::kGateway,
     "the least loaded holder of the deepest match if that is > 0.3 of the prompt, unless its "
     "requests are > 1.5 mean and > mean + 64; else fewest requests",
     "smg (lightseekorg/smg) cache_aware", "cache_threshold", nullptr},
    {"sagemaker_prefix", Kind::kGateway,
     "consistent hash of the first 256 tokens; fewest requests while its home has 64 or more",
     "SageMaker PREFIX_AWARE (prefix of 1,024 characters)", "prefix_hash", nullptr},
    {"dynamo_kv", Kind::kGateway,
     "(tokens to prefill, this prompt's less its cached ones + tokens in flight) / 16, lowest",
     "NVIDIA Dynamo KV router", "block_cost", nullptr},
    {"llmd_weighted", Kind::kGateway,
     "3 x cached share + 2 x relative shortness of the queue + 2 x free KV memory, from metrics",
     "llm-d, Gateway API inference extension", nullptr, Make<LlmdWeighted>},
    {"llmd_affinity", Kind::kGateway,
     "holders of >= 0.8 of the prompt unless that costs 18 s; of those the fewest tokens in flight",
     "llm-d, newer default", nullptr, Make<LlmdAffinity>},
    {"aibrix_prefix", Kind::kGateway,
     "fewest requests if max - min > 8; else the deepest match with requests <= mean + 1 sigma",
     "AIBrix prefix-cache", nullptr, Make<AibrixPrefix>},
    {"ray_prefix", Kind::kGateway,
     "match >= 0.1: the shorter queue of two holders of the deepest match; else the smallest tree",
     "Ray Serve PrefixCacheAffinityRouter", nullptr, Make<RayPrefix>},
    {"kubeai_chwbl", Kind::kGateway,
     "ring of 256 points keyed by the prompt's first block, load up to 1.25 x mean",
     "KubeAI PrefixHash", "consistent_hash", nullptr},
    {"production_stack", Kind::kGateway, "any holder of the deepest match, at random",
     "vLLM production-stack prefixaware", nullptr, Make<ProductionStack>},
    {"lpwl", Kind::kResearch, "pending + uncached tokens, lowest", "least prefill work left",
     nullptr, Make<Lpwl>},
    {"multiplicative", Kind::kResearch, "(pending + uncached tokens) x (requests + 1), lowest",
     "LMetric", "multiplicative", nullptr},
};

}  // namespace

std::vector<SimulatedPolicy> SimulatedPolicies() {
  std::vector<SimulatedPolicy> policies;
  for (const Entry& entry : kEntries) {
    policies.push_back({entry.name, entry.kind, entry.rule, entry.source});
  }
  // The router's own names of rules that have another name above.
  for (const std::string& name : PolicyNames()) {
    const auto known =
        std::find_if(policies.begin(), policies.end(),
                     [&](const SimulatedPolicy& policy) { return policy.name == name; });
    if (known != policies.end()) continue;
    policies.push_back({name, Kind::kRouter, "by RouterOptions::policy_options", "this library"});
  }
  return policies;
}

Result<PolicyChoice> ChoosePolicy(const std::string& name, const PolicyOptions& options) {
  PolicyChoice choice;
  choice.router_options = options;
  for (const Entry& entry : kEntries) {
    if (name != entry.name) continue;
    if (entry.baseline != nullptr) {
      choice.router_policy = RouterOptions().policy;
      choice.baseline = entry.baseline();
    } else {
      choice.router_policy = entry.router_policy;
      // Another router's rule has that router's numbers, whatever the caller's own are.
      if (name != entry.router_policy) choice.router_options = PolicyOptions();
      if (name == "kubeai_chwbl") choice.router_options.hash_ring_points = 256;
    }
    return choice;
  }
  const std::vector<std::string> own = PolicyNames();
  if (std::find(own.begin(), own.end(), name) != own.end()) {
    choice.router_policy = name;
    return choice;
  }
  std::string known;
  for (const SimulatedPolicy& policy : SimulatedPolicies()) {
    known += (known.empty() ? "" : ", ") + policy.name;
  }
  return Status(StatusCode::kInvalidArgument,
                "policy must be one of " + known + ", got \"" + name + "\"");
}

}  // namespace prefixrouter
