--- The C library of PrefixRouter from LuaJIT: register instances, ask for each prompt which of them
-- should get it, and say how the request went. It covers what a gateway needs first; the rest of
-- prefix_router.h is declared and called in the same way.
--
--   local router = assert(require("prefixrouter").new())
--   router:add_instance("10.0.0.1:8000")
--   local lease = assert(router:acquire({ tokens = tokens, token_count = n }))
--   ... router:name(lease.instance) ... lease:first_token() ... lease:finish(output_tokens)
--
-- Calls that fail return nil, the message, and the status (M.UNAVAILABLE and so on). Tokens are a
-- uint32_t array of the FFI, which is passed as it is, or a table of numbers, which is copied.
-- Instances are uint64_t; two of them are compared with ==, but are no keys of a table.
--
-- In nginx each worker process has a router of its own, made in init_worker_by_lua, and all of them
-- agree where a prompt is looked for. No call waits or yields, so all of them may be made in every
-- phase. nginx.conf shows it.

local ffi = require("ffi")

-- From prefix_router.h and prefix_router_types.h, word by word. Every struct is whole.
ffi.cdef([[
enum {
  PREFIX_ROUTER_OK = 0,
  PREFIX_ROUTER_INVALID_ARGUMENT = 3,
  PREFIX_ROUTER_NOT_FOUND = 5,
  PREFIX_ROUTER_ALREADY_EXISTS = 6,
  PREFIX_ROUTER_RESOURCE_EXHAUSTED = 8,
  PREFIX_ROUTER_UNAVAILABLE = 14
};
enum { PREFIX_ROUTER_DOWN = 2 };
enum { PREFIX_ROUTER_TEXT = 1 };
enum { PREFIX_ROUTER_REPORTS_OUTPUT_TOKENS = 1 };

typedef struct prefix_router prefix_router;
typedef void (*prefix_router_score_callback)(void);  // not used here
typedef void (*prefix_router_clock_callback)(void);

typedef struct prefix_router_options {
  size_t struct_size;
  uint32_t block_size;
  uint32_t text_block_bytes;
  double text_bytes_per_token;
  const char* policy;
  size_t policy_size;
  prefix_router_score_callback policy_callback;
  void* policy_user_data;
  float policy_tie_tolerance;
  uint32_t hash_ring_points;
  uint32_t hash_prefix_tokens;
  uint32_t hash_max_requests;
  double hash_load_factor;
  double threshold_match;
  double threshold_requests;
  double threshold_ratio;
  double weight_match;
  double weight_queue;
  double weight_kv;
  double block_credit;
  int32_t has_key_seed;
  int32_t has_random_seed;
  uint64_t key_seed;
  uint64_t random_seed;
  int32_t disable_calibration;
  uint32_t reserved;
  double predicted_ttl_s;
  double confirm_window_s;
  double default_prefill_tokens_per_s;
  double report_max_age_s;
  double lease_ttl_s;
  double session_ttl_s;
  double session_slack_s;
  uint64_t index_budget_bytes;
  uint64_t max_prompt_tokens;
  uint32_t max_instances;
  uint32_t max_sessions;
  prefix_router_clock_callback clock_callback;
  void* clock_user_data;
  double latency_interval_s;
  double cpu_tier_weight;
  double disk_tier_weight;
  double external_tier_weight;
  uint32_t routers;
  uint32_t reserved2;
} prefix_router_options;

typedef struct prefix_router_instance_options {
  size_t struct_size;
  const char* name;
  size_t name_size;
  uint32_t rank;
  uint32_t capacity_blocks;
  double prefill_tokens_per_s;
  double weight;
  const char* model;
  size_t model_size;
} prefix_router_instance_options;

typedef struct prefix_router_multimodal_item {
  uint64_t offset;
  uint64_t content_hash;
} prefix_router_multimodal_item;

typedef struct prefix_router_request {
  size_t struct_size;
  int32_t form;
  uint32_t expected_output_tokens;
  const uint32_t* tokens;
  size_t token_count;
  const char* text;
  size_t text_size;
  const uint64_t* block_keys;
  size_t block_key_count;
  uint64_t prompt_tokens;
  const char* model;
  size_t model_size;
  const char* adapter;
  size_t adapter_size;
  const char* salt;
  size_t salt_size;
  const prefix_router_multimodal_item* multimodal;
  size_t multimodal_count;
  const uint64_t* allowed;
  size_t allowed_count;
  const char* session_key;
  size_t session_key_size;
  double max_ttft_s;
  int32_t priority;
  uint32_t reserved;
} prefix_router_request;

typedef struct prefix_router_decision {
  size_t struct_size;
  uint64_t instance;
  uint64_t prompt_tokens;
  uint64_t cached_tokens;
  uint64_t best_cached_tokens;
  double predicted_ttft_s;
  double cost_pending;
  double cost_uncached;
  double cost_requests;
  double cost_pressure;
  double cost_total;
  double miss_weight;
  uint64_t runner_up;
  double runner_up_cost;
  int32_t rule;
  uint32_t candidates;
  int32_t stale_report;
  uint32_t reserved;
  uint64_t cached_credit_tokens;
  double home_tokens;
} prefix_router_decision;

typedef struct prefix_router_finish_info {
  size_t struct_size;
  uint32_t reported;
  uint32_t reserved;
  uint64_t output_tokens;
  uint64_t engine_cached_tokens;
} prefix_router_finish_info;

int32_t prefix_router_create(const prefix_router_options* options, prefix_router** router);
void prefix_router_destroy(prefix_router* router);
int32_t prefix_router_add_instance(prefix_router* router,
                                   const prefix_router_instance_options* options,
                                   uint64_t* instance);
int32_t prefix_router_get_instance_name(const prefix_router* router, uint64_t instance,
                                        char* buffer, size_t capacity, size_t* size);
int32_t prefix_router_set_instance_state(prefix_router* router, uint64_t instance, int32_t state,
                                         double for_s);
int32_t prefix_router_route(prefix_router* router, const uint32_t* tokens, size_t token_count,
                            uint64_t* instance);
int32_t prefix_router_acquire(prefix_router* router, const prefix_router_request* request,
                              prefix_router_decision* decision, uint64_t* lease);
int32_t prefix_router_first_token(prefix_router* router, uint64_t lease);
int32_t prefix_router_finish(prefix_router* router, uint64_t lease,
                             const prefix_router_finish_info* info);
int32_t prefix_router_cancel(prefix_router* router, uint64_t lease);
const char* prefix_router_last_error(void);
const char* prefix_router_rule_name(int32_t rule);
]])

-- By the name that stands for the ABI, so that no other one is loaded.
local lib = ffi.load("libprefixrouter_c.so.1")

local OK = lib.PREFIX_ROUTER_OK
local M = {
  INVALID_ARGUMENT = lib.PREFIX_ROUTER_INVALID_ARGUMENT,
  NOT_FOUND = lib.PREFIX_ROUTER_NOT_FOUND,
  ALREADY_EXISTS = lib.PREFIX_ROUTER_ALREADY_EXISTS,
  RESOURCE_EXHAUSTED = lib.PREFIX_ROUTER_RESOURCE_EXHAUSTED,
  UNAVAILABLE = lib.PREFIX_ROUTER_UNAVAILABLE,
}

-- Results and structs that only the library looks at, and only during a call.
local router_out = ffi.new("prefix_router*[1]")
local id_out = ffi.new("uint64_t[1]")
local size_out = ffi.new("size_t[1]")
local name_buffer = ffi.new("char[?]", 65536) -- the longest name, and its zero
local request = ffi.new("prefix_router_request")
local decision = ffi.new("prefix_router_decision")

local function failure(status)
  return nil, ffi.string(lib.prefix_router_last_error()), status
end

local function result(status)
  if status ~= OK then
    return failure(status)
  end
  return true
end

local Router, Lease = {}, {}
Router.__index, Lease.__index = Router, Lease

--- A router without instances. It is freed when it is collected. options may be nil, or have, as in
-- prefix_router_options, routers: how many of them, in all processes, send to the same instances;
-- and key_seed, a number that they share and others should not know.
function M.new(options)
  local given
  if options then
    given = ffi.new("prefix_router_options")
    given.struct_size = ffi.sizeof(given)
    given.routers = options.routers or 0
    given.has_key_seed = options.key_seed and 1 or 0
    given.key_seed = options.key_seed or 0
  end
  local status = lib.prefix_router_create(given, router_out)
  if status ~= OK then
    return failure(status)
  end
  return setmetatable({ handle = ffi.gc(router_out[0], lib.prefix_router_destroy) }, Router)
end

--- Adds an instance that is ready; returns it. capacity_blocks: what its KV cache holds, in blocks
-- of 16 tokens; nil for the default.
function Router:add_instance(name, capacity_blocks)
  local options = ffi.new("prefix_router_instance_options")
  options.struct_size = ffi.sizeof(options)
  options.name, options.name_size = name, #name
  options.capacity_blocks = capacity_blocks or 0
  local status = lib.prefix_router_add_instance(self.handle, options, id_out)
  if status ~= OK then
    return failure(status)
  end
  return id_out[0]
end

--- The name of a live instance.
function Router:name(instance)
  local status = lib.prefix_router_get_instance_name(
    self.handle, instance, name_buffer, ffi.sizeof(name_buffer), size_out)
  if status ~= OK then
    return failure(status)
  end
  return ffi.string(name_buffer, size_out[0])
end

--- The instance failed: it gets no requests for so many seconds.
function Router:set_down(instance, for_s)
  return result(
    lib.prefix_router_set_instance_state(self.handle, instance, lib.PREFIX_ROUTER_DOWN, for_s))
end

--- Chooses the instance for a prompt, without a lease. tokens is a uint32_t array.
function Router:route(tokens, token_count)
  local status = lib.prefix_router_route(self.handle, tokens, token_count, id_out)
  if status ~= OK then
    return failure(status)
  end
  return id_out[0]
end

--- Chooses the instance for a prompt and holds its load until the lease ends. Members of prompt:
-- tokens and token_count, or text; session_key and max_ttft_s as in prefix_router_request.
function Router:acquire(prompt)
  ffi.fill(request, ffi.sizeof(request))
  request.struct_size = ffi.sizeof(request)
  local tokens = prompt.tokens
  if prompt.text then
    request.form = lib.PREFIX_ROUTER_TEXT
    request.text, request.text_size = prompt.text, #prompt.text
  elseif type(tokens) == "table" then
    local count = #tokens
    tokens = ffi.new("uint32_t[?]", count, tokens) -- a local: alive until the call is over
    request.tokens, request.token_count = tokens, count
  else
    request.tokens, request.token_count = tokens, prompt.token_count
  end
  if prompt.session_key then
    request.session_key, request.session_key_size = prompt.session_key, #prompt.session_key
  end
  request.max_ttft_s = prompt.max_ttft_s or 0

  decision.struct_size = ffi.sizeof(decision)
  local status = lib.prefix_router_acquire(self.handle, request, decision, id_out)
  if status ~= OK then
    return failure(status)
  end
  return setmetatable({
    router = self, -- lives as long as its leases
    id = id_out[0],
    instance = decision.instance,
    prompt_tokens = tonumber(decision.prompt_tokens),
    cached_tokens = tonumber(decision.cached_tokens), -- of the prompt, held by the instance
    predicted_ttft_s = decision.predicted_ttft_s,
    rule = ffi.string(lib.prefix_router_rule_name(decision.rule)),
  }, Lease)
end

--- The first token of the answer arrived.
function Lease:first_token()
  return result(lib.prefix_router_first_token(self.router.handle, self.id))
end

--- The answer is complete. output_tokens may be nil: not known.
function Lease:finish(output_tokens)
  local info = ffi.new("prefix_router_finish_info")
  info.struct_size = ffi.sizeof(info)
  if output_tokens then
    info.reported = lib.PREFIX_ROUTER_REPORTS_OUTPUT_TOKENS
    info.output_tokens = output_tokens
  end
  return result(lib.prefix_router_finish(self.router.handle, self.id, info))
end

--- The request failed, or its client went away.
function Lease:cancel()
  return result(lib.prefix_router_cancel(self.router.handle, self.id))
end

return M
