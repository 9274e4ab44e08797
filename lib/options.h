// Checks of what callers pass in. Messages name the field and the value that is refused.
#ifndef PREFIXROUTER_LIB_OPTIONS_H_
#define PREFIXROUTER_LIB_OPTIONS_H_

#include <cstdint>

#include "prefixrouter/instance.h"
#include "prefixrouter/kv_events.h"
#include "prefixrouter/options.h"
#include "prefixrouter/request.h"
#include "prefixrouter/status.h"

namespace prefixrouter {

Status CheckOptions(const RouterOptions& options);
Status CheckPolicyOptions(const PolicyOptions& options);
Status CheckInstance(const InstanceOptions& options);
Status CheckLoad(const EngineLoad& load);
Status CheckEvents(const KvEventBatch& batch);
// options: of the router that gets the request.
Status CheckRequest(const Request& request, const RouterOptions& options);

// A time of an option; of more than centuries, so long that it does not end.
int64_t Nanos(double seconds);

// Length of the prompt in tokens; of text, the estimate. REQUIRES: a valid request.
uint64_t PromptTokens(const Request& request, const RouterOptions& options);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_OPTIONS_H_
