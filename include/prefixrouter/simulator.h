// Simulate: a trace through a simulated fleet behind real routers, in virtual time.
//
// What would another policy have done to my traffic? The simulator sends a workload to PrefixRouter
// objects that know what they would know in production (their own requests, feedback after a delay,
// polled engine metrics, KV events) and lets simulated engines serve what they decide: continuous
// batching, chunked prefill, a block cache that evicts, waiting, preemption. An hour of traffic
// takes under a second. docs/simulator.md has the model and its limits.
//
//   SimulationOptions options;
//   options.engine = *EnginePreset("llama-70b-8xh100");
//   options.router.policy = "prefix_cost";
//   Result<SimulationResult> result = Simulate(**workload, options);
//   std::printf("%.2f s\n", result->summary.ttft_mean_s);
//
// Simulate is a function of its arguments: equal ones give equal results, on any number of threads
// at once. Time O(requests + engine steps + generated tokens); memory O(requests + cached blocks).
#ifndef PREFIXROUTER_SIMULATOR_H_
#define PREFIXROUTER_SIMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "prefixrouter/options.h"
#include "prefixrouter/policy.h"
#include "prefixrouter/status.h"
#include "prefixrouter/workload.h"

namespace prefixrouter {

// ---- Engines -----------------------------------------------------------------------------------

// What one step of an engine has to do.
struct StepWork {
  uint64_t prefill_tokens = 0;   // prompt tokens computed
  double prefill_pairs = 0;      // sum over them of the tokens that each attends to
  uint32_t decode_requests = 0;  // requests that get one more token
  double decode_context = 0;     // sum over these of the tokens that each attends to
};

// The sum of what each part takes. The form is that of the latency models of DistServe (Zhong et
// al., OSDI 2024, appendix A): terms for the dense layers and for attention, and a constant.
struct LinearCost {
  double step_s = 0;                  // a step, whatever is in it: weights are read, kernels start
  double prefill_token_s = 0;         // a prompt token, dense layers
  double prefill_pair_s = 0;          // a (prompt token, token attended to) pair
  double decode_request_s = 0;        // a request that decodes
  double decode_context_token_s = 0;  // a token of its context, whose keys and values are read
};

// The slower of computing and of moving data, separately for dense layers and for attention, as in
// the roofline model (Williams, Waterman, Patterson, 2009; for transformers: Yuan et al., "LLM
// Inference Unveiled: Survey and Roofline Model Insights", 2024). So decoding rides along with a
// prefill for almost nothing, where the linear model adds it up.
struct RooflineCost {
  double flops_per_token = 0;   // dense layers: twice the parameters
  double flops_per_pair = 0;    // attention, for each token attended to
  double weight_bytes = 0;      // read in each step
  double kv_token_bytes = 0;    // keys and values of a token
  double flops_per_s = 1;       // that the machine reaches
  double bytes_per_s = 1;       // that the machine reaches
  double step_overhead_s = 0;   // launches, scheduling
  double token_overhead_s = 0;  // communication between GPUs, for each token
};

enum class CostModel : int32_t { kLinear = 0, kRoofline = 1 };

struct EngineOptions {
  std::string name = "custom";
  CostModel cost_model = CostModel::kLinear;
  LinearCost linear;      // each term >= 0 and finite, their sum > 0
  RooflineCost roofline;  // the same; both speeds > 0
  // KV cache in tokens: cached prefixes and running requests share it. Range 1 to 2^40.
  uint64_t kv_capacity_tokens = 0;
  // Tokens a step: decoding first, the rest is for prefill, which is cut into chunks. Range 1 to
  // 2^24. Default: that of vLLM's server on GPUs of 70 GiB and more.
  uint32_t max_batched_tokens = 8192;
  // Requests in the batch at once. Range 1 to 65,536.
  uint32_t max_running_requests = 256;
  // Tokens a page of KV memory, the engine's own block: partial prompt blocks and outputs are
  // counted in it. Range 1 to 32,768; where it does not divide the workload's block, that is used.
  uint32_t page_tokens = 16;
};

// The names that EnginePreset takes: a model and the GPUs of one instance, with the linear model;
// and the same with "-roofline". docs/simulator.md has their numbers and where these come from.
std::vector<std::string> EnginePresetNames();
// kInvalidArgument: no such preset.
Result<EngineOptions> EnginePreset(const std::string& name);

// Seconds of a step on an engine of speed 1. REQUIRES: valid options.
double StepSeconds(const EngineOptions& engine, const StepWork& work);

// ---- Fleet -------------------------------------------------------------------------------------

struct SimulatedInstance {
  double speed = 1;     // steps take 1 / speed of the engine's time. Range 0.001 to 1000.
  double capacity = 1;  // KV cache, times the engine's. Range 1e-6 to 1e6.
  // What the routers are told of it. By default the true capacity, and nothing about its rate.
  double configured_capacity = 1;          // times the true one. Range 1e-6 to 1e6.
  double configured_prefill_tokens_s = 0;  // 0: unknown. Else 1 to 1e9.
};

enum class FleetChange : int32_t {
  kFail = 0,     // it is gone with its cache and its requests, which their gateways send again
  kRestart = 1,  // after a failure: it is back, with an empty cache
  kJoin = 2,     // scale out. An instance whose first event this is is not there before
  kLeave = 3,    // scale in: no new requests; it goes when its last one has ended
};

struct FleetEvent {
  double time_s = 0;  // of the simulation, >= 0
  FleetChange change = FleetChange::kFail;
  uint32_t instance = 0;  // index in SimulationOptions::instances
};

// ---- Policies ----------------------------------------------------------------------------------

// A rule that a simulation can use: those of the router (PolicyNames()), and the rules of other
// routers, whose names RouterOptions does not take.
struct SimulatedPolicy {
  std::string name;
  enum class Kind : int32_t {
    kRouter = 0,    // a policy of this library that is nobody's rule in particular
    kGateway = 1,   // what a gateway or service does today
    kResearch = 2,  // published, or plain, but nobody's default
  } kind = Kind::kRouter;
  std::string rule;    // in one line, with its defaults
  std::string source;  // whose it is
};
std::vector<SimulatedPolicy> SimulatedPolicies();

// ---- Simulation --------------------------------------------------------------------------------

struct SimulationOptions {
  EngineOptions engine;
  std::vector<SimulatedInstance> instances = std::vector<SimulatedInstance>(4);  // 1 to 65,536
  std::vector<FleetEvent> events;                                                // in any order

  // The routers' options. `policy` may be any of SimulatedPolicies(). Of the others, block_size,
  // clock, the seeds, routers and lease_ttl_s are set by the simulation.
  RouterOptions router;
  // If set: makes the policy of each router, instead of router.policy.
  std::function<std::shared_ptr<Policy>()> make_policy;
  // Routers, each of which gets its share of the requests by chance. They share a key_seed and know
  // how many they are (RouterOptions::routers), no more. Range 1 to 1024.
  uint32_t routers = 1;
  bool session_keys = false;  // pass session ids to the router
  double max_ttft_s = 0;      // Request::max_ttft_s of all requests: above it they are rejected

  // Requests come this much faster than in the workload. Range 1e-6 to 1e6.
  double arrival_scale = 1;
  // A later turn of a session is sent when the one before it has ended and the user has thought:
  // the turn's delay if the workload has one, else the time between the two turns in the workload
  // less kNominalOutputTokenSeconds for each output token. First turns keep their times.
  bool closed_loop = false;

  // First tokens, ends and errors are known to the router after this time. Seconds, 0 to 1e6.
  double feedback_delay_s = 0;
  // Engines tell cached tokens at the end of a request.
  bool report_cached_tokens = true;
  // Engine metrics are read every so many seconds; 0: never. Range 0.001 to 1e6.
  double metrics_period_s = 0.05;
  // Age of the metrics when the router gets them. Seconds, 0 to 1e6.
  double metrics_age_s = 0;
  // Engines publish KV events: what a step has stored and evicted reaches every router this much
  // later and is applied. Seconds, 0 to 1e6.
  bool kv_events = false;
  double kv_event_delay_s = 0.02;

  // Requests that arrive before this are served but not part of the summary. Seconds.
  double measure_from_s = 0;
  // Width of the time series' steps. Seconds; 0: a hundredth of the arrivals' span.
  double series_step_s = 0;
  // Of the choice of a router for each request, and of the routers' near-ties.
  uint64_t seed = 1;

  // If set: called every few milliseconds of the run, on its thread, with the number of requests
  // that are over. False stops the simulation: kCancelled. Does not change the result.
  std::function<bool(uint64_t over)> progress;
};

enum class Outcome : int32_t {
  kDone = 0,
  kRejected = 1,  // by the router: no instance ready, or none below max_ttft_s
  kTooLong = 2,   // by the engine: prompt and output do not fit its KV cache
};

struct RequestResult {
  static constexpr uint32_t kNoInstance = UINT32_MAX;

  double arrival_s = 0;
  double first_token_s = -1;  // time of the simulation; negative: never
  double end_s = -1;
  uint32_t prompt_tokens = 0;
  uint32_t output_tokens = 0;
  uint32_t cached_tokens = 0;     // found by the engine when it admitted the request
  uint32_t predicted_tokens = 0;  // found cached by the router's reckoning
  uint32_t instance = kNoInstance;
  uint32_t router = 0;
  uint32_t sends = 0;        // more than 1: an instance failed under it
  uint32_t preemptions = 0;  // times that its engine ran out of KV memory
  Outcome outcome = Outcome::kRejected;

  double ttft_s() const { return first_token_s - arrival_s; }
};

struct SimulationSummary {
  uint64_t requests = 0;  // done, of those that count (measure_from_s)
  uint64_t rejected = 0;  // by routers or engines
  uint64_t resent = 0;    // sends beyond the first
  uint64_t preemptions = 0;

  // Time to first token, from arrival to the client.
  double ttft_mean_s = 0, ttft_p50_s = 0, ttft_p90_s = 0, ttft_p99_s = 0;
  double e2e_mean_s = 0, e2e_p50_s = 0, e2e_p90_s = 0, e2e_p99_s = 0;
  // Time an output token after the first, of requests with at least two.
  double tpot_mean_s = 0, tpot_p50_s = 0, tpot_p90_s = 0, tpot_p99_s = 0;

  double cached_token_share = 0;     // of prompt tokens, found by the engines
  double predicted_token_share = 0;  // the same by the routers' reckoning
  double best_possible_share = 0;    // of the whole workload, with one cache without limit
  // Prefilled tokens an instance over its speed: the most of an instance / the mean.
  double max_over_mean_work = 0;
  double end_s = 0;  // when the last request ended
};

// What an instance did in one step of the series.
struct InstanceSample {
  uint64_t prefill_tokens = 0;
  uint64_t decode_tokens = 0;
  double busy_s = 0;
  // At the step's end.
  uint32_t running = 0;
  uint32_t waiting = 0;
  float kv_usage = 0;  // share of KV memory that running requests hold
};

struct SimulationResult {
  SimulationSummary summary;
  std::vector<RequestResult> requests;  // as in the workload
  double series_step_s = 0;
  std::vector<std::vector<InstanceSample>> series;  // by instance, then by step
};

// kInvalidArgument names an option out of its range, an unknown policy, or an event that makes no
// sense (a restart of what did not fail). kCancelled: `progress` said so.
Result<SimulationResult> Simulate(const Workload& workload, const SimulationOptions& options);

// ---- Load levels -------------------------------------------------------------------------------

// Arrival scales at which policies are compared, found with least_requests.
struct LoadLevels {
  double capacity_scale = 0;  // at which requests come as fast as the fleet can serve them
  double half_scale = 0;      // half of that
  double knee_scale = 0;      // mean TTFT is twice that at half_scale, within 5 %
  double past_scale = 0;      // kPastKnee times knee_scale
  double half_ttft_s = 0;
  double knee_ttft_s = 0;
};
inline constexpr double kPastKnee = 1.25;

// About 15 simulations. options.router.policy, arrival_scale, closed_loop and kv_events are not
// looked at. Errors are those of Simulate.
Result<LoadLevels> FindLoadLevels(const Workload& workload, const SimulationOptions& options);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_SIMULATOR_H_
