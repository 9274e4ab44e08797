// ParseEngineMetrics: from the /metrics page of an inference engine to load reports.
//
// A gateway scrapes its engines every second or so; this is all that stands between the page and
// PrefixRouter::ReportLoad:
//
//   auto metrics = prefixrouter::ParseEngineMetrics(page);
//   if (!metrics.ok()) return Log(metrics.status());
//   auto reported = prefixrouter::ReportEngineMetrics(*router, "10.0.0.7:8000", *metrics);
//
// Understood are the Prometheus text format and OpenMetrics text of vLLM, SGLang, TensorRT-LLM
// (trtllm-serve) and the TensorRT-LLM backend of Triton, under the names of all their versions;
// docs/metrics.md lists them. Whatever else is on the page is passed over: other metrics,
// histograms, comments, exemplars, timestamps. Lines that are malformed are skipped and counted.
//
// Several data-parallel ranks in one page are told apart by the labels `engine` (vLLM) and
// `dp_rank` (SGLang). Series of one rank that differ only in the number of a worker (tp_rank,
// pp_rank, moe_ep_rank, pid) say the same thing several times, so the largest counts; counts that
// differ in another label add up.
//
// Both functions are thread-safe and keep nothing. Cost: about 4 ms a megabyte of page (an engine's
// page has 20 to 200 KB). Memory while it runs: at most twice the page's size.
#ifndef PREFIXROUTER_ENGINE_METRICS_H_
#define PREFIXROUTER_ENGINE_METRICS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "prefixrouter/instance.h"
#include "prefixrouter/status.h"

namespace prefixrouter {

class PrefixRouter;

enum class Engine : int32_t {
  kVllm = 0,
  kSglang = 1,
  kTensorRtLlm = 2,  // trtllm-serve
  kTriton = 3,       // Triton's TensorRT-LLM backend
};

const char* EngineName(Engine engine);  // "vllm", "sglang", "tensorrt_llm", "triton"

// What a page says of one rank. Negative means that the page does not say it.
struct EngineRankMetrics {
  uint32_t rank = 0;
  EngineLoad load;  // age_s is 0
  // Its KV cache, when the engine tells.
  int64_t block_size = -1;       // tokens a block
  int64_t capacity_tokens = -1;  // tokens that it has room for
  // Prompt tokens since the engine started, counted when requests are scheduled (vLLM) or finished.
  int64_t prompt_tokens = -1;           // looked up in the prefix cache
  int64_t cached_tokens = -1;           // of them, found there
  int64_t external_cached_tokens = -1;  // found in a cache beyond the engine's own (vLLM)

  // For InstanceOptions::capacity_blocks: how many blocks of `router_block_size` tokens fit in
  // capacity_tokens, at most 2^31 - 1. 0 when the capacity is not known, or is less than one block.
  uint32_t CapacityBlocks(uint32_t router_block_size) const;
};

struct EngineMetrics {
  Engine engine = Engine::kVllm;
  // Ascending by rank, at least one. A page without rank labels is of rank 0.
  std::vector<EngineRankMetrics> ranks;
  // The same counters for the whole page. More than the sum over the ranks where an engine counts
  // tokens without saying for which rank (SGLang).
  int64_t prompt_tokens = -1;
  int64_t cached_tokens = -1;
  int64_t external_cached_tokens = -1;

  uint64_t samples = 0;          // well-formed, known or not
  uint64_t unusable_values = 0;  // of known metrics: NaN, negative, infinite, a share above 1
  uint64_t malformed_lines = 0;
  uint64_t first_malformed_line = 0;   // from 1; 0: none
  std::string first_malformed_reason;  // what is wrong with it
};

struct EngineMetricsOptions {
  // Only series of this model count, by their label `model_name` or `model`; those without such a
  // label do too. Empty (the default): all. Needed for a server that serves several models, whose
  // counts would be added up.
  std::string_view model;
  // A longer page is refused, so that a wrong address cannot fill the memory. In bytes. Default
  // 16 MiB.
  size_t max_bytes = size_t{16} << 20;
  // A longer line is skipped as malformed. In bytes. Default 65,536.
  size_t max_line_bytes = 65536;
  // A page with more ranks is refused. Range 1 to 65,536. Default 1024.
  uint32_t max_ranks = 1024;
};

// kNotFound: no load metric of a known engine is on the page; the message says what is there.
// kInvalidArgument: the page is larger than max_bytes, or has more ranks than max_ranks, or an
// option is out of its range.
Result<EngineMetrics> ParseEngineMetrics(std::string_view page,
                                         const EngineMetricsOptions& options = {});

// Reports the load of each rank of `metrics` to the live instance of this name and rank, by
// PrefixRouter::ReportLoad. Returns how many instances got a report. Ranks without an instance, and
// those of which the page says no load, are passed over. A page of a single rank that has no
// instance goes to rank 0 of that name, for servers that label their only rank with its number in a
// larger deployment.
//
// age_s: how old the page is, >= 0, for gateways that scrape at another time than they report.
//
// kNotFound: none of the ranks is a live instance of this name. kInvalidArgument: age_s is negative
// or no number, or metrics that the caller has made have a kv_usage above 1 or no number.
Result<uint32_t> ReportEngineMetrics(PrefixRouter& router, std::string_view instance_name,
                                     const EngineMetrics& metrics, double age_s = 0);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_ENGINE_METRICS_H_
