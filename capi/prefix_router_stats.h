// prefix_router_stats.h: the structs of statistics and metrics: what a router has counted, and what
// engines say of themselves. Include prefix_router.h; its conventions hold here: struct_size first,
// 0 means the default, members named `reserved` are 0, structs grow at their ends only.
#ifndef PREFIXROUTER_CAPI_PREFIX_ROUTER_STATS_H_
#define PREFIXROUTER_CAPI_PREFIX_ROUTER_STATS_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Outcomes of KV events ----------------------------------------------------------------------

// What has become of the blocks and events of an engine, and why something was left out. Index into
// arrays of counts. docs/kv_events.md says what to do about each.
enum {
  // Blocks.
  PREFIX_ROUTER_KV_OUTCOME_STORED = 0,            // taken over
  PREFIX_ROUTER_KV_OUTCOME_REMOVED = 1,           // taken over
  PREFIX_ROUTER_KV_OUTCOME_ALREADY_GONE = 2,      // removed, but not held: nothing to do
  PREFIX_ROUTER_KV_OUTCOME_COPY_REMOVED = 3,      // one of several copies; the block is still held
  PREFIX_ROUTER_KV_OUTCOME_NOT_COUNTED = 4,       // not full attention, or a tier of weight 0
  PREFIX_ROUTER_KV_OUTCOME_UNKNOWN_PARENT = 5,    // an earlier event was lost: ask for a replay
  PREFIX_ROUTER_KV_OUTCOME_NO_TOKENS = 6,         // stored without tokens, and not held in any tier
  PREFIX_ROUTER_KV_OUTCOME_WRONG_BLOCK_SIZE = 7,  // no multiple or divisor of block_size
  PREFIX_ROUTER_KV_OUTCOME_PARTIAL_BLOCK = 8,     // not the tokens that a block has (TensorRT-LLM)
  PREFIX_ROUTER_KV_OUTCOME_BUDGET_FULL = 9,       // no room within index_budget_bytes
  // Events.
  PREFIX_ROUTER_KV_OUTCOME_CLEARED = 10,
  PREFIX_ROUTER_KV_OUTCOME_NOT_DENSE = 11,        // tokens do not cover the blocks one by one
  PREFIX_ROUTER_KV_OUTCOME_UNKNOWN_EVENT = 12,    // a tag that is not known
  PREFIX_ROUTER_KV_OUTCOME_MALFORMED_EVENT = 13,  // a missing or wrong field
  PREFIX_ROUTER_KV_OUTCOME_UNKNOWN_FIELD = 14,    // left out; the rest of the event was used
  PREFIX_ROUTER_KV_OUTCOME_SMALLER_WINDOW = 15,   // than the largest (TensorRT-LLM)
  // Messages.
  PREFIX_ROUTER_KV_OUTCOME_MALFORMED_MESSAGE = 16,
  PREFIX_ROUTER_KV_OUTCOME_OLD_GENERATION = 17  // for an instance that was removed
};
// Elements of arrays of counts: room for later outcomes, which are 0 now.
enum { PREFIX_ROUTER_KV_OUTCOMES = 32 };

// ---- Statistics of a router ---------------------------------------------------------------------

// Buckets of a histogram of durations: bucket i counts those of at most
// prefix_router_duration_bound_s(i) that no bucket before it counts.
enum { PREFIX_ROUTER_DURATION_BUCKETS = 21 };

typedef struct prefix_router_stats {
  size_t struct_size;

  // Since the router was created.
  uint64_t requests;       // that were given an instance
  uint64_t rejected;       // refused by max_ttft_s
  uint64_t prompt_tokens;  // of `requests`
  uint64_t cached_tokens;  // of them, predicted cached on the chosen instance
  uint64_t decided_by_lowest_cost;
  uint64_t decided_by_near_tie;
  uint64_t decided_by_only_candidate;
  uint64_t decided_by_session;
  uint64_t leases_finished;
  uint64_t leases_cancelled;
  uint64_t leases_expired;
  uint64_t output_tokens;  // reported by finished leases

  // Of finished leases that reported the engine's cached tokens.
  uint64_t reported_requests;
  uint64_t reported_cached_tokens;
  uint64_t predicted_cached_tokens;  // for the same requests
  uint64_t over_predicted_tokens;    // predicted but not found
  uint64_t under_predicted_tokens;   // found but not predicted

  // The prefix index, now.
  uint64_t index_bytes;
  uint64_t index_budget_bytes;
  uint64_t index_runs;    // stretches of blocks without a branch
  uint64_t index_blocks;  // distinct blocks
  uint64_t blocks_held;   // (block, instance) pairs
  // The prefix index, since the router was created.
  uint64_t blocks_evicted;            // by capacity or time to live of an instance
  uint64_t blocks_evicted_by_budget;  // by index_budget_bytes
  uint64_t blocks_not_remembered;     // found no room beside the blocks of running requests

  // Now.
  uint64_t leases_active;
  uint64_t sessions;

  // From ABI 1.1 on. Since the router was created.
  uint64_t unavailable;             // refused because no instance was ready and allowed
  uint64_t best_cached_tokens;      // of prompt_tokens, the most that any candidate held
  uint64_t stale_report_decisions;  // for instances whose engine report was too old to be used
  // How long calls that choose an instance took, whatever their outcome; a sample of them when they
  // are many (prefix_router_options.latency_interval_s).
  uint64_t route_duration_counts[PREFIX_ROUTER_DURATION_BUCKETS];
  double route_duration_sum_s;
  // KV events, of all instances that were ever there.
  uint64_t kv_event_batches;
  uint64_t kv_events[PREFIX_ROUTER_KV_OUTCOMES];

  // From ABI 1.3 on. Several routers in front of one fleet (prefix_router_options.routers).
  uint64_t requests_at_home;  // placed where the others look for them, since it was created
  // Share of what this router did not know to be there that engines then reported as cached:
  // learned, 0 to 1, and one half until then. 0 with one router, and with policies without homes.
  double home_share;
} prefix_router_stats;

// One for each live instance; prefix_router_get_instance_name tells its name.
typedef struct prefix_router_instance_stats {
  size_t struct_size;
  uint64_t instance;
  uint32_t rank;
  int32_t state;  // PREFIX_ROUTER_READY and so on

  // Now.
  int64_t requests_in_flight;  // leases
  int64_t requests_waiting;    // leases before their first token
  int64_t pending_tokens;      // uncached tokens of those
  int64_t kv_tokens;           // prompt and output tokens of leases
  double fluid_tokens;         // predicted work of requests without a lease
  uint64_t blocks_held;
  uint64_t capacity_blocks;     // as configured
  double capacity_scale;        // learned: true capacity = capacity_blocks * capacity_scale
  double prefill_tokens_per_s;  // that decisions use: learned, configured or the fleet's
  double report_age_s;          // of the last engine report; negative: there was none

  // Since it was added.
  uint64_t requests;
  uint64_t prompt_tokens;
  uint64_t cached_tokens;  // predicted when routed

  int32_t prefill_rate_learned;  // 1: prefill_tokens_per_s was learned
  uint32_t reserved;

  // From ABI 1.1 on. Of `requests`.
  uint64_t decided_by_lowest_cost;
  uint64_t decided_by_near_tie;
  uint64_t decided_by_only_candidate;
  uint64_t decided_by_session;
  // The last engine report, as it was given; its figures fade with its age. Negative: not reported.
  int64_t reported_running_requests;
  int64_t reported_waiting_requests;
  double reported_kv_usage;
  // KV events. Without any all are 0, but for last_event_age_s.
  int32_t event_driven;  // 1: some batch of its events has been applied
  uint32_t reserved2;
  double last_event_age_s;  // since the last batch was applied; negative: there was none
  uint64_t engine_blocks;   // that its events have stored, by the engine's count
  // Of blocks_held, those confirmed by events, by their best tier.
  uint64_t confirmed_gpu_blocks;
  uint64_t confirmed_cpu_blocks;
  uint64_t confirmed_disk_blocks;
  uint64_t confirmed_external_blocks;
  uint64_t kv_events[PREFIX_ROUTER_KV_OUTCOMES];  // since it was added
} prefix_router_instance_stats;

// ---- Metrics of a router, for Prometheus --------------------------------------------------------

typedef struct prefix_router_metrics_options {
  size_t struct_size;
  int32_t omit_instances;  // 1: without the series of single instances. Default 0
  uint32_t reserved;
} prefix_router_metrics_options;

// A label of every series of a router. This struct is an element of arrays that the caller passes,
// and never grows.
typedef struct prefix_router_label {
  // Letters, digits and '_', not beginning with a digit or "__", and none of the labels that the
  // router uses itself (docs/metrics.md).
  const char* name;
  size_t name_size;
  const char* value;
  size_t value_size;
} prefix_router_label;

// One of several routers on a page, and the labels that tell it from the others.
typedef struct prefix_router_metrics_source {
  size_t struct_size;
  const struct prefix_router* router;
  const prefix_router_label* labels;
  size_t label_count;
} prefix_router_metrics_source;

// ---- Metrics of an engine -----------------------------------------------------------------------

typedef struct prefix_router_engine_metrics_options {
  size_t struct_size;
  // Only series of this model count, and those that name none. Default: all.
  const char* model;
  size_t model_size;
  // A longer page is refused. Bytes; default 16 MiB.
  uint64_t max_bytes;
  // A longer line is skipped as malformed. Bytes; default 65,536.
  uint64_t max_line_bytes;
  // A page of more ranks is refused. 1 to 65,536; default 1024.
  uint32_t max_ranks;
  uint32_t reserved;
} prefix_router_engine_metrics_options;

enum {
  PREFIX_ROUTER_VLLM = 0,
  PREFIX_ROUTER_SGLANG = 1,
  PREFIX_ROUTER_TENSORRT_LLM = 2,  // trtllm-serve
  PREFIX_ROUTER_TRITON = 3         // Triton's TensorRT-LLM backend
};

// What a page says as a whole.
typedef struct prefix_router_engine_metrics {
  size_t struct_size;
  int32_t engine;  // PREFIX_ROUTER_VLLM and so on
  uint32_t reserved;
  // As in prefix_router_engine_rank_metrics, over all ranks; more than their sum where an engine
  // counts tokens without saying for which rank (SGLang).
  int64_t prompt_tokens;
  int64_t cached_tokens;
  int64_t external_cached_tokens;

  uint64_t samples;          // well-formed, known or not
  uint64_t unusable_values;  // of known metrics: NaN, negative, infinite, a share above 1
  uint64_t malformed_lines;
  uint64_t first_malformed_line;     // from 1; 0: none
  char first_malformed_reason[128];  // what is wrong with it; ends in a zero, cut if it is longer
} prefix_router_engine_metrics;

// What a page says of one rank. Negative: the page does not say it.
typedef struct prefix_router_engine_rank_metrics {
  size_t struct_size;
  uint32_t rank;
  uint32_t reserved;
  // Its load, as in prefix_router_engine_load.
  int64_t running_requests;
  int64_t waiting_requests;
  double kv_usage;
  // Its KV cache.
  int64_t block_size;       // tokens a block
  int64_t capacity_tokens;  // tokens that it has room for
  // Prompt tokens since the engine started, counted when requests are scheduled (vLLM) or finished.
  int64_t prompt_tokens;           // looked up in the prefix cache
  int64_t cached_tokens;           // of them, found there
  int64_t external_cached_tokens;  // found in a cache beyond the engine's own (vLLM)
} prefix_router_engine_rank_metrics;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PREFIXROUTER_CAPI_PREFIX_ROUTER_STATS_H_
