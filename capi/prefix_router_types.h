// prefix_router_types.h: the constants, structs and callbacks that the functions of prefix_router.h
// take. Include that; its conventions hold here: struct_size first, 0 means the default, members
// named `reserved` are 0, structs grow at their ends only.
#ifndef PREFIXROUTER_CAPI_PREFIX_ROUTER_TYPES_H_
#define PREFIXROUTER_CAPI_PREFIX_ROUTER_TYPES_H_

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define PREFIX_ROUTER_API __attribute__((visibility("default")))
#else
#define PREFIX_ROUTER_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// As the size of a string: it ends at its terminating zero.
#define PREFIX_ROUTER_NUL_TERMINATED SIZE_MAX

// ---- Callbacks ----------------------------------------------------------------------------------

// For prefix_router_policy_input.home: the prompt has none.
#define PREFIX_ROUTER_NO_HOME UINT32_MAX

// What a custom policy sees: the state of the fleet for one request. Every array has `size`
// elements, one for each slot; they are valid during the callback.
typedef struct prefix_router_policy_input {
  size_t struct_size;  // set by the library
  size_t size;
  const uint64_t* instances;
  const uint8_t* eligible;         // 1, or 0: removed, not ready or not allowed; never chosen
  const uint32_t* cached_blocks;   // leading blocks of the prompt that it holds, tiers weighted
  const float* pending_tokens;     // assigned to the instance and not yet prefilled
  const float* tokens_per_s;       // prefill rate, > 0
  const float* seconds_per_token;  // 1 / (tokens_per_s * weight)
  const float* requests;           // in flight
  const float* waiting;            // of them, those that wait for their first token
  const float* kv_tokens;          // prompt and output tokens in flight (leases)
  const float* kv_usage;           // reported share of KV memory in use, 0 to 1, faded by age
  const float* weight;             // prefix_router_instance_options.weight
  float tokens_per_block;          // tokens that one of cached_blocks stands for
  float prompt_tokens;
  float expected_output_tokens;
  float mean_waiting;  // requests that wait for their first token, mean of eligible instances
  // What a first token takes beside prefill, as tokens of prefill; learned, 0 until then.
  float overhead_tokens;
  int32_t priority;    // of the request
  int32_t any_report;  // 1: the report of some instance counts; 0: all kv_usage are 0
  uint32_t reserved;
  uint64_t affinity_hash;  // of the session key, else of the prompt's first block; 0: neither
  uint64_t sequence;       // number of this request, from 0
  uint64_t random;         // uniform, from random_seed
  // From ABI 1.2 on. Prefill that storing a block is expected to cost later, for what it pushes out
  // of the KV cache and is asked for again, as a share of the block's prefill, 0 to 1; learned from
  // KV events, 0 without them.
  const float* displacement;
  // From ABI 1.3 on. Where other routers of this fleet look for the prompt
  // (prefix_router_options.routers): a slot that is eligible, or PREFIX_ROUTER_NO_HOME.
  uint32_t home;
  // Tokens of prefill that placing it there is expected to save, beyond cached_blocks: now, as
  // others may have sent there what this router does not know of, and later, as they will find it.
  // May exceed the prompt; 0 without a home.
  float home_tokens;
} prefix_router_policy_input;

// A custom policy. Writes a cost for each slot to costs[0, input->size), which are 0 before; the
// lowest one wins. NaN counts as +infinity; an infinite cost is taken only when there is no other.
// A result other than PREFIX_ROUTER_OK fails the call with it. Convention 8 holds.
typedef int32_t (*prefix_router_score_callback)(const prefix_router_policy_input* input,
                                                float* costs, void* user_data);

// A clock: nanoseconds since any fixed point. One that steps back is tolerated. Convention 8 holds.
typedef int64_t (*prefix_router_clock_callback)(void* user_data);

// ---- Creating a router --------------------------------------------------------------------------

// For max_sessions: remember none.
#define PREFIX_ROUTER_NO_SESSIONS UINT32_MAX
// For members of type double whose 0 means a default other than 0: the number 0.
#define PREFIX_ROUTER_ZERO (-1.0)

typedef struct prefix_router_options {
  size_t struct_size;

  // Tokens a block. Best the engines' own block size. 1 to 32,768; default 16.
  uint32_t block_size;
  // Bytes a block of text prompts. 1 to 131,072; default 64.
  uint32_t text_block_bytes;
  // Bytes a token of text prompts, to estimate their length. 0.25 to 64; default 4.
  double text_bytes_per_token;

  // Name of the policy, one of prefix_router_policy_name(); default "prefix_cost". With
  // policy_callback: any name, for messages; default "custom".
  const char* policy;
  size_t policy_size;
  // A custom policy. Default: none, the policy is the named one.
  prefix_router_score_callback policy_callback;
  void* policy_user_data;
  // For a custom policy: costs that exceed the lowest by no more than this are ties, which go to
  // the least busy instance, then to chance. In the unit of the costs, >= 0.
  float policy_tie_tolerance;

  // Numbers of the named policies.
  // consistent_hash, prefix_hash: points of an instance on the ring. 1 to 4096; default 128.
  uint32_t hash_ring_points;
  // prefix_hash: length of the prefix that is hashed. Tokens, 1 to 2^24; default 256.
  uint32_t hash_prefix_tokens;
  // prefix_hash: a home of so many requests passes new ones on. 1 to 1,000,000; default 64.
  uint32_t hash_max_requests;
  // consistent_hash: an instance takes at most this many times the mean of requests in flight. 1
  // to 1e6; default 1.25.
  double hash_load_factor;
  // cache_threshold: least cached share of a prompt to prefer an instance. 0 to 1; default 0.3.
  double threshold_match;
  // cache_threshold: an instance is overloaded when its requests exceed both the mean by this
  // count and the mean times this ratio. 0 to 1e9 and 1 to 1e9; defaults 64 and 1.5.
  double threshold_requests;
  double threshold_ratio;
  // weighted: of the cached share, of the short queue, of free KV memory. 0 to 1e6, not all 0;
  // defaults 3, 2 and 2.
  double weight_match;
  double weight_queue;
  double weight_kv;
  // block_cost: how much of a cached token's prefill counts as saved. 0 to 1000; default 1.
  double block_credit;

  // 1: key_seed is used. 0: it is drawn from the operating system, so that nobody outside can
  // construct colliding prompts. Routers of one seed share keys (prefix_router_block_keys).
  int32_t has_key_seed;
  int32_t has_random_seed;  // the same for random_seed
  uint64_t key_seed;
  uint64_t random_seed;  // of the choice between ties

  // 1: do not learn prefill rates and cache capacities from what leases are told. Default 0.
  int32_t disable_calibration;
  uint32_t reserved;

  // A predicted block unused for this long no longer counts. Seconds, up to 1e9; default 0: it
  // counts until it is evicted.
  double predicted_ttl_s;
  // On instances whose KV events are applied: how long a routed prompt counts as cached before its
  // events arrive. Seconds, 0.001 to 3600; default 2.
  double confirm_window_s;
  // Prefill rate of instances that tell none and have shown none yet. Tokens a second, 1 to 1e9;
  // default 10,000.
  double default_prefill_tokens_per_s;
  // Age at which an engine report has faded to nothing. Seconds, 0.001 to 1e6; default 5.
  double report_max_age_s;
  // A lease not finished within this time is dropped. Seconds, 0.001 to 1e9; default 600.
  double lease_ttl_s;
  // A session silent for this long is forgotten. Seconds, 0.001 to 1e9; default 3600.
  double session_ttl_s;
  // A session stays on its instance as long as that costs at most this much more time to first
  // token than the best choice; at its home, if it has one (see routers), as long as that costs at
  // most the home_share of this. Seconds, up to 1e9, or PREFIX_ROUTER_ZERO; default 0.25.
  double session_slack_s;

  // Memory of the prefix index, a hard limit. Bytes, at least 65,536; default 2^30. Plan 9 bytes
  // for each distinct block; of those that KV events have stored, 25 for each block and instance,
  // and 32 for each distinct one.
  uint64_t index_budget_bytes;
  // Longest prompt. Tokens (text: estimated), 1 to 2^24; default 2^24.
  uint64_t max_prompt_tokens;
  // 1 to 1,048,576; default 65,536.
  uint32_t max_instances;
  // Sessions that are remembered. Up to 2^31, or PREFIX_ROUTER_NO_SESSIONS; default 262,144.
  uint32_t max_sessions;

  // Default: the system's monotonic clock.
  prefix_router_clock_callback clock_callback;
  void* clock_user_data;

  // From ABI 1.1 on.
  // For prefix_router_stats.route_duration_counts: each thread times at most one call in this time,
  // and all of them where they are fewer; a timed call takes about 40 ns longer. Seconds,
  // PREFIX_ROUTER_ZERO to time every call, infinity to time none; default 0.0001.
  double latency_interval_s;
  // How much of a cached token's prefill is saved when KV events say that it is not on the GPU but
  // in CPU memory, on disk, or outside of the machine. PREFIX_ROUTER_ZERO: it does not count as
  // cached. Up to 1, or PREFIX_ROUTER_ZERO; defaults 0.8, 0.5 and 0.5.
  double cpu_tier_weight;
  double disk_tier_weight;
  double external_tier_weight;

  // From ABI 1.3 on.
  // Routers, this one included, that send requests to the same instances and do not know of each
  // other's. With more than one, prefix_cost (and a policy callback, by its input's home) prefers
  // to place a session where the others will look for it, instead of where this one last sent it.
  // They need one key_seed and one block_size (text_block_bytes for text), and must give the
  // instances the same names and ranks. 2 KiB an instance. 1 to 1,000,000; default 1.
  uint32_t routers;
  uint32_t reserved2;
} prefix_router_options;

// ---- Instances ----------------------------------------------------------------------------------

typedef struct prefix_router_instance_options {
  size_t struct_size;
  // By which the caller knows it, for example "10.0.0.7:8000". 1 to 65,535 bytes. Name and rank
  // together are unique.
  const char* name;
  size_t name_size;
  // Data-parallel rank.
  uint32_t rank;
  // Blocks of block_size tokens that its KV cache holds. 1 to 2^31 - 1; default 65,536.
  uint32_t capacity_blocks;
  // How fast it prefills. Tokens a second, 1 to 1e9; default: not known.
  double prefill_tokens_per_s;
  // Share of the traffic relative to others, on top of its rate. More than 0, up to 1000; default
  // 1.
  double weight;

  // From ABI 1.1 on.
  // prefix_router_request.model of the prompts that are routed to it, for its KV events, which do
  // not name the model. Up to 65,535 bytes; default: none, as in requests that name none.
  const char* model;
  size_t model_size;
} prefix_router_instance_options;

enum {
  PREFIX_ROUTER_READY = 0,     // takes requests
  PREFIX_ROUTER_DRAINING = 1,  // takes no new request; load and cached blocks stay
  PREFIX_ROUTER_DOWN = 2       // the same to the router; the name tells operators that it failed
};

// For prefix_router_engine_load.reported.
enum {
  PREFIX_ROUTER_REPORTS_RUNNING = 1,
  PREFIX_ROUTER_REPORTS_WAITING = 2,
  PREFIX_ROUTER_REPORTS_KV_USAGE = 4
};

// What an engine's own metrics say.
typedef struct prefix_router_engine_load {
  size_t struct_size;
  uint32_t reported;  // PREFIX_ROUTER_REPORTS_*, added up: the members that count
  uint32_t reserved;
  int64_t running_requests;  // in the engine's batch, >= 0
  int64_t waiting_requests;  // in the engine's queue, >= 0
  double kv_usage;           // share of KV blocks in use by running requests, 0 to 1
  double age_s;              // how old the figures are, >= 0
} prefix_router_engine_load;

// ---- Requests -----------------------------------------------------------------------------------

// An image or other content that stands in the prompt as placeholder tokens. This struct is an
// element of arrays that the caller passes, and never grows.
typedef struct prefix_router_multimodal_item {
  uint64_t offset;  // of its first placeholder: in tokens, or in bytes for a text prompt
  uint64_t content_hash;
} prefix_router_multimodal_item;

// Form of a prompt.
enum {
  PREFIX_ROUTER_TOKENS = 0,     // token ids, from the model's tokenizer
  PREFIX_ROUTER_TEXT = 1,       // bytes, for gateways without a tokenizer; any bytes
  PREFIX_ROUTER_BLOCK_KEYS = 2  // prefix_router_block_keys, or keys of the caller's own making
};

typedef struct prefix_router_request {
  size_t struct_size;
  int32_t form;  // of the prompt: which of the three following is used

  // Output length that the caller expects, for the KV memory that a lease reserves. 0: unknown.
  uint32_t expected_output_tokens;

  const uint32_t* tokens;
  size_t token_count;
  const char* text;
  size_t text_size;
  const uint64_t* block_keys;  // key i stands for blocks 0 to i of the prompt
  size_t block_key_count;
  // With block keys: the prompt's length in tokens. Default block_key_count * block_size.
  uint64_t prompt_tokens;

  // What must never share cached blocks. Not used with block keys, which hold it already.
  const char* model;
  size_t model_size;
  const char* adapter;
  size_t adapter_size;
  const char* salt;
  size_t salt_size;

  // Ascending offsets inside the prompt. Not used with block keys.
  const prefix_router_multimodal_item* multimodal;
  size_t multimodal_count;

  // Only these instances may be chosen; numbers of removed ones are ignored. A count of 0: all may.
  const uint64_t* allowed;
  size_t allowed_count;

  // Requests of one key go to one instance while it is ready, allowed and not overloaded.
  const char* session_key;
  size_t session_key_size;

  // When the predicted time to first token of every candidate is above this, the call answers
  // RESOURCE_EXHAUSTED (a gateway sends HTTP 429). Seconds; 0: no bound.
  double max_ttft_s;

  int32_t priority;  // passed on to the policy; the built-in ones do not look at it
  uint32_t reserved;
} prefix_router_request;

// The rule that made a choice.
enum {
  PREFIX_ROUTER_LOWEST_COST = 0,
  PREFIX_ROUTER_NEAR_TIE = 1,        // among like costs: the least busy, then by chance
  PREFIX_ROUTER_ONLY_CANDIDATE = 2,  // no other instance was ready and allowed
  PREFIX_ROUTER_SESSION = 3          // it holds the session, and is not much slower than the best
};

// The chosen instance, and why. Costs are in seconds for prefix_cost; other policies set only
// cost_total, in a unit of their own.
typedef struct prefix_router_decision {
  size_t struct_size;
  uint64_t instance;
  uint64_t prompt_tokens;
  uint64_t cached_tokens;       // of the prompt, held by the chosen instance
  uint64_t best_cached_tokens;  // the most that any candidate holds
  double predicted_ttft_s;      // (pending + uncached tokens) / prefill rate
  double cost_pending;          // prefill work that is ahead of this request
  // The prompt's uncached tokens, times the miss weight. At the prompt's home (see
  // prefix_router_policy_input) less what that is worth; below 0 when it is worth more.
  double cost_uncached;
  double cost_requests;  // requests in flight
  double cost_pressure;  // KV memory that is nearly full
  double cost_total;
  double miss_weight;  // of prefix_cost at this moment; 1 for other policies
  uint64_t runner_up;  // lowest cost among the others; 0: there is none
  double runner_up_cost;
  int32_t rule;          // PREFIX_ROUTER_LOWEST_COST and so on
  uint32_t candidates;   // instances that were ready and allowed
  int32_t stale_report;  // 1: the engine's report was too old, own counts alone decided
  uint32_t reserved;

  // From ABI 1.1 on.
  // cached_tokens, those below the GPU at their weight (prefix_router_options.cpu_tier_weight and
  // so on): how many tokens of prefill are saved.
  uint64_t cached_credit_tokens;

  // From ABI 1.3 on.
  // What it is worth that other routers look for this prompt on the chosen instance
  // (prefix_router_policy_input.home_tokens); prefix_cost has taken it off the uncached tokens. 0:
  // it is not the prompt's home, or there is only one router.
  double home_tokens;
} prefix_router_decision;

// ---- Leases -------------------------------------------------------------------------------------

// For prefix_router_finish_info.reported.
enum { PREFIX_ROUTER_REPORTS_OUTPUT_TOKENS = 1, PREFIX_ROUTER_REPORTS_CACHED_TOKENS = 2 };

typedef struct prefix_router_finish_info {
  size_t struct_size;
  uint32_t reported;  // PREFIX_ROUTER_REPORTS_*, added up: the members that count
  uint32_t reserved;
  uint64_t output_tokens;         // generated
  uint64_t engine_cached_tokens;  // of the prompt, that the engine found cached
} prefix_router_finish_info;

// ---- Looking into it ----------------------------------------------------------------------------

typedef struct prefix_router_score_table {
  size_t struct_size;
  uint64_t prompt_tokens;
  double miss_weight;
} prefix_router_score_table;

// One for each live instance.
typedef struct prefix_router_score_row {
  size_t struct_size;
  uint64_t instance;
  int32_t eligible;      // 1: ready, allowed and below max_ttft_s
  int32_t stale_report;  // as in prefix_router_decision, like the following
  uint64_t cached_tokens;
  double predicted_ttft_s;
  double cost_pending;
  double cost_uncached;
  double cost_requests;
  double cost_pressure;
  double cost_total;  // +infinity when not eligible
  int64_t requests_in_flight;
  double pending_tokens;

  // From ABI 1.1 on.
  uint64_t cached_credit_tokens;

  // From ABI 1.3 on.
  double home_tokens;
} prefix_router_score_row;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PREFIXROUTER_CAPI_PREFIX_ROUTER_TYPES_H_
