#include "lib/metrics/engine_names.h"

#include <algorithm>
#include <iterator>

namespace prefixrouter {
namespace {

using F = EngineField;

constexpr std::string_view kTritonRequests = "nv_trt_llm_request_metrics";
constexpr std::string_view kTritonBlocks = "nv_trt_llm_kv_cache_block_metrics";

constexpr KnownMetric kKnown[] = {
    {Engine::kVllm, F::kRunning, "vllm_num_requests_running"},
    {Engine::kVllm, F::kWaiting, "vllm_num_requests_waiting"},
    {Engine::kVllm, F::kKvUsage, "vllm_kv_cache_usage_perc"},
    {Engine::kVllm, F::kKvUsage, "vllm_gpu_cache_usage_perc", 1},
    {Engine::kVllm, F::kBlockSize, "vllm_cache_config_info", 0, "block_size"},
    {Engine::kVllm, F::kCapacityTokens, "vllm_cache_config_info", 0, "kv_cache_size_tokens"},
    {Engine::kVllm, F::kCapacityBlocks, "vllm_cache_config_info", 0, "num_gpu_blocks"},
    {Engine::kVllm, F::kPromptTokens, "vllm_prefix_cache_queries"},
    {Engine::kVllm, F::kPromptTokens, "vllm_gpu_prefix_cache_queries", 1},
    {Engine::kVllm, F::kCachedTokens, "vllm_prefix_cache_hits"},
    {Engine::kVllm, F::kCachedTokens, "vllm_gpu_prefix_cache_hits", 1},
    {Engine::kVllm, F::kExternalCachedTokens, "vllm_external_prefix_cache_hits"},

    {Engine::kSglang, F::kRunning, "sglang_num_running_reqs"},
    {Engine::kSglang, F::kWaiting, "sglang_num_queue_reqs"},
    {Engine::kSglang, F::kKvUsage, "sglang_token_usage"},
    {Engine::kSglang, F::kBlockSize, "sglang_page_size"},
    {Engine::kSglang, F::kBlockSize, "sglang_cache_config_info", 1, "page_size"},
    {Engine::kSglang, F::kCapacityTokens, "sglang_max_total_num_tokens"},
    {Engine::kSglang, F::kCapacityBlocks, "sglang_num_pages"},
    {Engine::kSglang, F::kCapacityBlocks, "sglang_cache_config_info", 1, "num_pages"},
    {Engine::kSglang, F::kPromptTokens, "sglang_prompt_tokens"},
    {Engine::kSglang, F::kCachedTokens, "sglang_cached_tokens"},

    {Engine::kTensorRtLlm, F::kRunning, "trtllm_num_requests_running"},
    {Engine::kTensorRtLlm, F::kWaiting, "trtllm_num_requests_waiting"},
    {Engine::kTensorRtLlm, F::kKvUsage, "trtllm_kv_cache_utilization"},
    {Engine::kTensorRtLlm, F::kBlockSize, "trtllm_kv_cache_tokens_per_block"},
    {Engine::kTensorRtLlm, F::kCapacityBlocks, "trtllm_kv_cache_max_blocks"},
    {Engine::kTensorRtLlm, F::kPromptTokens, "trtllm_prompt_tokens"},
    {Engine::kTensorRtLlm, F::kCachedTokens, "trtllm_prompt_cached_tokens"},

    {Engine::kTriton, F::kRunning, kTritonRequests, 0, {}, "request_type", "scheduled"},
    {Engine::kTriton, F::kWaiting, kTritonRequests, 0, {}, "request_type", "waiting"},
    {Engine::kTriton, F::kKvUsage, kTritonBlocks, 0, {}, "kv_cache_block_type", "fraction"},
    {Engine::kTriton, F::kBlockSize, kTritonBlocks, 0, {}, "kv_cache_block_type", "tokens_per"},
    {Engine::kTriton, F::kCapacityBlocks, kTritonBlocks, 0, {}, "kv_cache_block_type", "max"},
};

bool SameCharacter(char known, char c) { return c == known || (c == ':' && known == '_'); }

}  // namespace

Span<const KnownMetric> KnownMetrics() { return {kKnown, std::size(kKnown)}; }

bool MetricMatches(const KnownMetric& known, std::string_view name) {
  constexpr std::string_view kRay = "ray_";
  constexpr std::string_view kTotal = "_total";
  if (name.substr(0, kRay.size()) == kRay) name.remove_prefix(kRay.size());
  if (name.size() < known.name.size()) return false;
  const std::string_view rest = name.substr(known.name.size());
  if (!rest.empty() && !(IsCounter(known.field) && rest == kTotal)) return false;
  return std::equal(known.name.begin(), known.name.end(), name.begin(), SameCharacter);
}

std::string_view RankLabel(Engine engine) { return engine == Engine::kVllm ? "engine" : "dp_rank"; }

bool IsWorkerLabel(std::string_view label) {
  return label == "tp_rank" || label == "pp_rank" || label == "moe_ep_rank" || label == "pid";
}

}  // namespace prefixrouter
