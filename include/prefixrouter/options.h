// RouterOptions: everything that can be set about a router. PrefixRouter::Create checks each value
// against the range given here, and names the one that it refuses.
#ifndef PREFIXROUTER_OPTIONS_H_
#define PREFIXROUTER_OPTIONS_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "prefixrouter/clock.h"
#include "prefixrouter/policy.h"

namespace prefixrouter {

struct RouterOptions {
  // ---- What a decision depends on -------------------------------------------------------------

  // Tokens a block. Best the engines' own block size (vLLM 16, TensorRT-LLM 32, SGLang's page size,
  // where 1 works too but 16 is faster). Range 1 to 32,768.
  uint32_t block_size = 16;
  // Bytes a block of text prompts. Range 1 to 131,072.
  uint32_t text_block_bytes = 64;
  // Bytes a token of text prompts, to estimate their length. Range 0.25 to 64.
  double text_bytes_per_token = 4;

  // One of PolicyNames(). Ignored when custom_policy is set.
  std::string policy = "prefix_cost";
  PolicyOptions policy_options{};
  std::shared_ptr<Policy> custom_policy{};

  // Secret that block keys are made with. Default: drawn from the operating system, so that nobody
  // outside can construct colliding prompts. Set it for repeatable runs, or for routers that share
  // keys.
  std::optional<uint64_t> key_seed{};
  // Routers, this one included, that send requests to the same instances and do not know of each
  // other's. With more than one, prefix_cost (and a custom policy, by PolicyInput::home) prefers to
  // place a session where the others will look for it, instead of where this one last sent it:
  // docs/policy.md, "Several routers". They need one key_seed and one block_size (text_block_bytes
  // for text), and must give the instances the same names and ranks. 2 KiB an instance. Range 1 to
  // 1,000,000.
  uint32_t routers = 1;
  // Seed of the choice between near-ties. Default: drawn from the operating system.
  std::optional<uint64_t> random_seed{};

  // A predicted block that no request has used for this long no longer counts. 0 (default): it
  // counts until it is evicted. In seconds, range 0 to 1e9.
  double predicted_ttl_s = 0;
  // On instances whose KV events are applied: how long a routed prompt counts as cached before its
  // events arrive, from the first token of its lease on, or its end; without a lease from when it
  // was routed. In seconds, range 0.001 to 3600.
  double confirm_window_s = 2;
  // How much of a cached token's prefill is saved when KV events say that it is not on the GPU but
  // in CPU memory, on disk, or outside of the machine, and has to be loaded. 0: it does not count
  // as cached. Range 0 to 1.
  double cpu_tier_weight = 0.8;
  double disk_tier_weight = 0.5;
  double external_tier_weight = 0.5;

  // Prefill rate of instances that tell none and have shown none yet. In tokens a second, range 1
  // to 1e9.
  double default_prefill_tokens_per_s = 10000;
  // Learn prefill rates from first-token times, and true cache capacities from reported cached
  // tokens.
  bool calibrate = true;
  // Age at which an engine report has faded to nothing. In seconds, range 0.001 to 1e6.
  double report_max_age_s = 5;

  // A lease that is not finished within this time is dropped with its load. In seconds, range 0.001
  // to 1e9.
  double lease_ttl_s = 600;
  // A session is forgotten when it has been silent for this long. In seconds, range 0.001 to 1e9.
  double session_ttl_s = 3600;
  // A session stays on its instance as long as that costs at most this much more time to first
  // token than the best choice. If it has a home (see routers) it stays there instead, as long as
  // that costs at most RouterStats::home_share of this. In seconds, range 0 to 1e9.
  double session_slack_s = 0.25;

  // ---- Limits ---------------------------------------------------------------------------------

  // Memory of the prefix index. A hard limit: when it is reached, the least recently used blocks of
  // the whole router are forgotten. Plan 9 bytes for each distinct block. What KV events have
  // stored is not forgotten; what finds no room beside it is left out and counted. Plan 25 bytes
  // for each such block and instance, and 32 for each distinct one. In bytes, at least 65,536.
  size_t index_budget_bytes = size_t{1} << 30;
  // Longest prompt. A longer one is refused. In tokens (text: estimated), range 1 to 2^24.
  uint64_t max_prompt_tokens = uint64_t{1} << 24;
  // Range 1 to 1,048,576.
  uint32_t max_instances = 65536;
  // Sessions that are remembered; the longest silent one goes first. Range 0 to 2^31.
  uint32_t max_sessions = 262144;

  // ---- Surroundings ---------------------------------------------------------------------------

  // Default: the system's monotonic clock.
  std::shared_ptr<const Clock> clock{};
  // RouterStats::route_duration: each thread times at most one call of Route or Acquire in this
  // time, and all of them where they are fewer. A timed call takes about 40 ns longer. 0: time
  // every call; infinity: none. In seconds, range 0 to infinity.
  double latency_interval_s = 100e-6;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_OPTIONS_H_
