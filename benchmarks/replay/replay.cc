#include "benchmarks/replay/replay.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <queue>
#include <utility>

#include "lib/sim/prompt.h"
#include "prefixrouter/prefix_router.h"

namespace prefixrouter::replay {
namespace {

using SteadyClock = std::chrono::steady_clock;

double SecondsSince(SteadyClock::time_point start) {
  return std::chrono::duration<double>(SteadyClock::now() - start).count();
}

Request MakeRequest(const TraceRequest& from, const std::vector<uint32_t>& tokens,
                    const FleetOptions& options) {
  Request request = Request::FromTokens(tokens);
  if (options.session_keys) request.session_key = from.session_id;
  return request;
}

// ---- Leases ------------------------------------------------------------------------------------

// The requests that run, as an engine without surprises would serve them.
class RunningRequests {
 public:
  RunningRequests(PrefixRouter* router, ManualClock* clock) : router_(router), clock_(clock) {}

  void Start(LeaseId lease, double ttft_s, uint64_t output_tokens) {
    const int64_t first_token_ns = clock_->NowNanos() + std::llround(ttft_s * 1e9);
    const double output_s = kOutputSeconds * static_cast<double>(output_tokens);
    events_.push({first_token_ns, lease.value, true, output_tokens});
    events_.push(
        {first_token_ns + std::llround(output_s * 1e9), lease.value, false, output_tokens});
  }

  // Tells the router everything that happens up to `time_ns`, at its own time.
  void AdvanceTo(int64_t time_ns) {
    while (!events_.empty() && events_.top().time_ns <= time_ns) {
      const Event event = events_.top();
      events_.pop();
      clock_->SetNanos(event.time_ns);
      if (event.first_token) {
        router_->FirstToken(LeaseId{event.lease});
      } else {
        FinishInfo info;
        info.output_tokens = static_cast<int64_t>(event.output_tokens);
        router_->Finish(LeaseId{event.lease}, info);
      }
    }
    clock_->SetNanos(time_ns);
  }

 private:
  struct Event {
    int64_t time_ns;
    uint64_t lease;
    bool first_token;  // else the end
    uint64_t output_tokens;

    // By time, then by lease, first token before the end.
    bool operator>(const Event& other) const {
      if (time_ns != other.time_ns) return time_ns > other.time_ns;
      if (lease != other.lease) return lease > other.lease;
      return first_token < other.first_token;
    }
  };

  PrefixRouter* router_;
  ManualClock* clock_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
};

// ---- Figures -----------------------------------------------------------------------------------

// Nearest rank. Reorders `values`. REQUIRES: 0 < share <= 1, some values.
double Percentile(double share, std::vector<double>* values) {
  const double rank = std::ceil(share * static_cast<double>(values->size()));
  const auto at = values->begin() + static_cast<int64_t>(rank) - 1;
  std::nth_element(values->begin(), at, values->end());
  return *at;
}

void Summarise(const RouterStats& stats, PolicyResult* result) {
  uint64_t prompt = 0;
  uint64_t cached = 0;
  uint64_t least = std::numeric_limits<uint64_t>::max();
  uint64_t most = 0;
  for (const InstanceStats& instance : stats.instances) {
    result->instances.push_back(
        {instance.name, instance.requests, instance.prompt_tokens, instance.cached_tokens});
    prompt += instance.prompt_tokens;
    cached += instance.cached_tokens;
    least = std::min(least, result->instances.back().uncached_tokens());
    most = std::max(most, result->instances.back().uncached_tokens());
  }
  if (prompt > 0) {
    result->cached_token_share = static_cast<double>(cached) / static_cast<double>(prompt);
  }
  if (prompt > cached) {
    const auto work = static_cast<double>(prompt - cached);
    result->work_share_min = static_cast<double>(least) / work;
    result->work_share_max = static_cast<double>(most) / work;
    result->max_over_mean_work =
        result->work_share_max * static_cast<double>(stats.instances.size());
  }
  result->index_bytes = stats.index_bytes;
  result->index_blocks = stats.index_blocks;
  result->blocks_held = stats.blocks_held;
}

// ---- Replays -----------------------------------------------------------------------------------

Result<PolicyResult> ReplayPolicy(const Trace& trace, const FleetOptions& options,
                                  const std::string& policy) {
  const auto start = SteadyClock::now();
  auto clock = std::make_shared<ManualClock>();
  RouterOptions router_options;
  router_options.block_size = options.block_size;
  router_options.policy = policy;
  router_options.key_seed = options.seed;
  router_options.random_seed = options.seed;
  router_options.calibrate = false;  // rates are given, and the router would learn from itself
  router_options.lease_ttl_s = 1e9;  // every lease is ended, however slow the fleet
  router_options.clock = clock;
  Result<std::unique_ptr<PrefixRouter>> router = PrefixRouter::Create(router_options);
  if (!router.ok()) return router.status();

  for (uint32_t i = 0; i < options.instances; ++i) {
    InstanceOptions instance;
    instance.name = "instance-" + std::to_string(i);
    instance.capacity_blocks = static_cast<uint32_t>(CapacityBlocks(options));
    instance.prefill_tokens_per_s = options.prefill_tokens_per_s;
    Result<InstanceId> added = (*router)->AddInstance(instance);
    if (!added.ok()) return added.status();
  }

  RunningRequests running(router->get(), clock.get());
  std::vector<uint32_t> tokens;
  std::vector<double> route_us;
  route_us.reserve(trace.requests.size());
  for (const TraceRequest& from : trace.requests) {
    BuildPrompt(from, trace.block_tokens, &tokens);
    running.AdvanceTo(from.arrival_ns);
    const Request request = MakeRequest(from, tokens, options);

    const auto before = SteadyClock::now();
    if (options.leases) {
      Result<Lease> lease = (*router)->Acquire(request);
      route_us.push_back(SecondsSince(before) * 1e6);
      if (!lease.ok()) return lease.status();
      const double ttft_s = lease->decision().predicted_ttft_s;
      running.Start(lease->Release(), ttft_s, from.output_tokens);
    } else {
      const Result<Decision> decision = (*router)->Route(request);
      route_us.push_back(SecondsSince(before) * 1e6);
      if (!decision.ok()) return decision.status();
    }
  }

  PolicyResult result;
  result.name = policy;
  Summarise((*router)->Stats(), &result);
  if (!route_us.empty()) {
    result.route_p50_us = Percentile(0.5, &route_us);
    result.route_p99_us = Percentile(0.99, &route_us);
  }
  result.wall_s = SecondsSince(start);
  return result;
}

}  // namespace

uint64_t CapacityBlocks(const FleetOptions& options) {
  return options.capacity_tokens / options.block_size;
}

// Block keys are chained: behind the first unknown one all are unknown.
double BestPossibleShare(const Trace& trace, uint32_t block_size) {
  const BlockHasher hasher(block_size, /*seed=*/1);
  absl::flat_hash_set<uint64_t> known;
  std::vector<uint32_t> tokens;
  std::vector<uint64_t> keys;
  uint64_t cached = 0;
  uint64_t total = 0;
  for (const TraceRequest& request : trace.requests) {
    BuildPrompt(request, trace.block_tokens, &tokens);
    keys.resize(hasher.BlockCount(tokens.size()));
    hasher.TokenBlockKeys({}, tokens, {}, keys);
    size_t held = 0;
    while (held < keys.size() && known.contains(keys[held])) ++held;
    known.insert(keys.begin() + static_cast<int64_t>(held), keys.end());
    cached += held * block_size;
    total += tokens.size();
  }
  return total == 0 ? 0 : static_cast<double>(cached) / static_cast<double>(total);
}

Result<ReplaySummary> Replay(const Trace& trace, const FleetOptions& options,
                             const std::vector<std::string>& policies) {
  constexpr uint64_t kMaxBlocks = (uint64_t{1} << 31) - 1;
  const uint64_t blocks = options.block_size == 0 ? 0 : CapacityBlocks(options);
  if (blocks == 0 || blocks > kMaxBlocks) {
    return Status(StatusCode::kInvalidArgument,
                  std::to_string(options.capacity_tokens) + " tokens in blocks of " +
                      std::to_string(options.block_size) + " are " + std::to_string(blocks) +
                      " blocks, not 1 to " + std::to_string(kMaxBlocks));
  }

  ReplaySummary summary;
  for (const TraceRequest& request : trace.requests) summary.prompt_tokens += request.prompt_tokens;
  for (const std::string& policy : policies) {
    Result<PolicyResult> result = ReplayPolicy(trace, options, policy);
    if (!result.ok()) return result.status();
    summary.policies.push_back(*std::move(result));
  }
  summary.best_possible_share = BestPossibleShare(trace, options.block_size);
  return summary;
}

}  // namespace prefixrouter::replay
