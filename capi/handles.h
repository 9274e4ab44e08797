// What the handles of the C library point to.
#ifndef PREFIXROUTER_CAPI_HANDLES_H_
#define PREFIXROUTER_CAPI_HANDLES_H_

#include <memory>

#include "prefixrouter/kv_events.h"
#include "prefixrouter/prefix_router.h"

struct prefix_router {
  std::unique_ptr<prefixrouter::PrefixRouter> cpp;
};

struct prefix_router_kv_decoder {
  prefixrouter::KvEventDecoder cpp;
};

#endif  // PREFIXROUTER_CAPI_HANDLES_H_
