// What the programs of the other languages are measured beside: a function that does nothing, and
// the same calls made from C. Both are in a shared library, as the router is.
#ifndef PREFIXROUTER_BENCHMARKS_LANGUAGES_PROBE_H_
#define PREFIXROUTER_BENCHMARKS_LANGUAGES_PROBE_H_

#include <prefix_router.h>

// Takes what prefix_router_route takes and does nothing; returns PREFIX_ROUTER_OK.
int32_t probe_noop(prefix_router* router, const uint32_t* tokens, size_t token_count,
                   uint64_t* instance);

// Monotonic clock, for languages without one.
double probe_now_nanos(void);

// Mean nanoseconds of `calls` calls of prefix_router_route from C, on `prompt_count` prompts of
// `token_count` tokens that lie behind each other, in turns. Negative when a call failed.
double probe_route_nanos(prefix_router* router, const uint32_t* prompts, size_t prompt_count,
                         size_t token_count, size_t calls);

// Share of the prompt tokens routed so far that was cached, 0 to 1: near 1, or known prompts were
// not what was measured. Negative when the call failed.
double probe_cached_share(const prefix_router* router);

#endif  // PREFIXROUTER_BENCHMARKS_LANGUAGES_PROBE_H_
