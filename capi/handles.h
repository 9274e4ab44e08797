// What the handles of the C library point to.
#ifndef PREFIXROUTER_CAPI_HANDLES_H_
#define PREFIXROUTER_CAPI_HANDLES_H_

#include <memory>

#include "prefixrouter/kv_event_stream.h"
#include "prefixrouter/kv_events.h"
#include "prefixrouter/prefix_router.h"

struct prefix_router {
  std::unique_ptr<prefixrouter::PrefixRouter> cpp;
};

struct prefix_router_kv_decoder {
  prefixrouter::KvEventDecoder cpp;
};

struct prefix_router_kv_stream {
  prefixrouter::KvEventStream cpp;
  prefixrouter::KvEventStream::Actions actions;  // of the last input
  size_t taken;                                  // of them, from the front
};

#endif  // PREFIXROUTER_CAPI_HANDLES_H_
