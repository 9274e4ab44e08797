// C structs from and to the C++ ones. Reading fails with the name of the member and the value that
// is refused; ranges that the C++ library checks are left to it.
#ifndef PREFIXROUTER_CAPI_CONVERT_H_
#define PREFIXROUTER_CAPI_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/boundary.h"
#include "capi/prefix_router_stats.h"
#include "capi/prefix_router_types.h"
#include "prefixrouter/engine_metrics.h"
#include "prefixrouter/prefix_router.h"
#include "prefixrouter/router_metrics.h"

namespace prefixrouter::capi {

// Structs that have grown in ABI 1.1: their first new members.
template <>
inline constexpr size_t kFirstSize<prefix_router_options> = offsetof(prefix_router_options,
                                                                     latency_interval_s);
template <>
inline constexpr size_t kFirstSize<prefix_router_instance_options> =
    offsetof(prefix_router_instance_options, model);
template <>
inline constexpr size_t kFirstSize<prefix_router_decision> = offsetof(prefix_router_decision,
                                                                      cached_credit_tokens);
template <>
inline constexpr size_t kFirstSize<prefix_router_score_row> = offsetof(prefix_router_score_row,
                                                                       cached_credit_tokens);
template <>
inline constexpr size_t kFirstSize<prefix_router_stats> = offsetof(prefix_router_stats,
                                                                   unavailable);
template <>
inline constexpr size_t kFirstSize<prefix_router_instance_stats> =
    offsetof(prefix_router_instance_stats, decided_by_lowest_cost);

// 0 means that the member keeps its default.
template <typename To, typename From>
void SetUnlessZero(To* member, From value) {
  if (value != 0) *member = static_cast<To>(value);
}
// For numbers whose default is not 0, and which may be 0.
inline void SetUnlessZero(double* member, double value) {
  if (value != 0) *member = value == PREFIX_ROUTER_ZERO ? 0 : value;
}

int32_t ReadOptions(const prefix_router_options* in, RouterOptions* out);
int32_t ReadInstanceOptions(const prefix_router_instance_options* in, InstanceOptions* out);
int32_t ReadEngineLoad(const prefix_router_engine_load* in, EngineLoad* out);
int32_t ReadFinishInfo(const prefix_router_finish_info* in, FinishInfo* out);
// `in` may be null: all defaults. The model is not copied.
int32_t ReadEngineMetricsOptions(const prefix_router_engine_metrics_options* in,
                                 EngineMetricsOptions* out);
int32_t ReadMetricsOptions(const prefix_router_metrics_options* in, MetricsOptions* out);
// All that a report needs: rank and load. An array's first element tells the size of all.
int32_t ReadRank(const prefix_router_engine_rank_metrics* in, EngineRankMetrics* out);
int32_t ReadRanks(const prefix_router_engine_rank_metrics* in, size_t count,
                  std::vector<EngineRankMetrics>* out);

// A router that the caller wants on a page, and its labels.
struct LabelledRouter {
  const prefix_router* router;
  std::vector<std::pair<std::string, std::string>> labels;
};
// REQUIRES: in and out are not null, or count is 0.
int32_t ReadSources(const prefix_router_metrics_source* in, size_t count,
                    std::vector<LabelledRouter>* out);

// The strings of a request.
struct RequestStrings {
  std::string_view text;
  std::string_view session_key;
  KeySpace key_space;
};
// Checks what the C++ library cannot, and finds the ends of the strings.
int32_t ReadRequestStrings(const prefix_router_request& in, RequestStrings* out);

// Answers call(request), or why the request cannot be read. It points into the caller's arrays and
// strings. Built in one go: to fill a default one costs 10 ns more.
template <typename Call>
int32_t WithRequest(const prefix_router_request* in, Call call) {
  Input<prefix_router_request> input;
  if (int32_t status = input.Read(in, "request"); status != 0) return status;
  const prefix_router_request& c = *input;
  RequestStrings strings;
  if (int32_t status = ReadRequestStrings(c, &strings); status != 0) return status;
  return call(Request{
      .form = static_cast<PromptForm>(c.form),
      .tokens = {c.tokens, c.token_count},
      .text = strings.text,
      .block_keys = {c.block_keys, c.block_key_count},
      .prompt_tokens = c.prompt_tokens,
      .key_space = strings.key_space,
      .multimodal = {reinterpret_cast<const MultimodalItem*>(c.multimodal), c.multimodal_count},
      .allowed = {reinterpret_cast<const InstanceId*>(c.allowed), c.allowed_count},
      .session_key = strings.session_key,
      .expected_output_tokens = c.expected_output_tokens,
      .priority = c.priority,
      .max_ttft_s = c.max_ttft_s,
  });
}

// All PREFIX_ROUTER_KV_OUTCOMES of them.
void FillCounts(const KvEventCounts& counts, uint64_t* out);

// All members but struct_size.
void Fill(const RouterOptions& options, prefix_router_options* out);
void Fill(const Decision& decision, prefix_router_decision* out);
void Fill(const ScoreTable& table, prefix_router_score_table* out);
void Fill(const ScoreRow& row, prefix_router_score_row* out);
void Fill(const RouterStats& stats, prefix_router_stats* out);
void Fill(const InstanceStats& stats, prefix_router_instance_stats* out);
void Fill(const EngineMetrics& metrics, prefix_router_engine_metrics* out);
void Fill(const EngineRankMetrics& metrics, prefix_router_engine_rank_metrics* out);

// Fills the caller's struct, which has been checked.
template <typename Cpp, typename C>
void Write(const Cpp& value, C* out, size_t struct_size) {
  WriteOutput(out, struct_size, [&value](C* whole) { Fill(value, whole); });
}
template <typename Cpp, typename C>
void Write(const Cpp& value, C* out) {
  Write(value, out, out->struct_size);
}

// For lists of structs: the caller's first element tells the size of all. `name` is that of the
// list.
template <typename Row>
int32_t CheckRows(const Row* rows, size_t capacity, size_t* count, const char* name = "rows") {
  if (int32_t status = CheckList(rows, capacity, count, name); status != 0) return status;
  return capacity == 0 ? 0 : CheckOutput(rows, (std::string(name) + "[0]").c_str());
}

// REQUIRES: they fit.
template <typename Row, typename Cpp>
void WriteRows(const std::vector<Cpp>& values, Row* rows) {
  if (values.empty()) return;
  const size_t stride = rows->struct_size;
  char* out = reinterpret_cast<char*>(rows);
  for (const Cpp& value : values) {
    Write(value, reinterpret_cast<Row*>(out), stride);
    out += stride;
  }
}

}  // namespace prefixrouter::capi

#endif  // PREFIXROUTER_CAPI_CONVERT_H_
