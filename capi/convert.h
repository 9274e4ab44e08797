// C structs from and to the C++ ones. Reading fails with the name of the member and the value that
// is refused; ranges that the C++ library checks are left to it.
#ifndef PREFIXROUTER_CAPI_CONVERT_H_
#define PREFIXROUTER_CAPI_CONVERT_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "capi/callbacks.h"
#include "capi/prefix_router_types.h"
#include "prefixrouter/prefix_router.h"

namespace prefixrouter::capi {

int32_t ReadOptions(const prefix_router_options* in, RouterOptions* out);
int32_t ReadInstanceOptions(const prefix_router_instance_options* in, InstanceOptions* out);
int32_t ReadEngineLoad(const prefix_router_engine_load* in, EngineLoad* out);
int32_t ReadFinishInfo(const prefix_router_finish_info* in, FinishInfo* out);
// `out` points into `in`'s arrays and strings.
int32_t ReadRequest(const prefix_router_request* in, Request* out);

prefix_router_options ToC(const RouterOptions& options);
prefix_router_decision ToC(const Decision& decision);
prefix_router_score_row ToC(const ScoreRow& row);
prefix_router_stats ToC(const RouterStats& stats);
prefix_router_instance_stats ToC(const InstanceStats& stats);

}  // namespace prefixrouter::capi

#endif  // PREFIXROUTER_CAPI_CONVERT_H_
