#define _POSIX_C_SOURCE 199309L

#include "probe.h"

#include <time.h>

int32_t probe_noop(prefix_router* router, const uint32_t* tokens, size_t token_count,
                   uint64_t* instance) {
  (void)router;
  (void)tokens;
  (void)token_count;
  (void)instance;
  return PREFIX_ROUTER_OK;
}

double probe_now_nanos(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 1e9 * (double)now.tv_sec + (double)now.tv_nsec;
}

double probe_route_nanos(prefix_router* router, const uint32_t* prompts, size_t prompt_count,
                         size_t token_count, size_t calls) {
  const double begin = probe_now_nanos();
  size_t i;
  for (i = 0; i < calls; ++i) {
    uint64_t instance;
    const uint32_t* prompt = prompts + i % prompt_count * token_count;
    if (prefix_router_route(router, prompt, token_count, &instance) != PREFIX_ROUTER_OK) return -1;
  }
  return (probe_now_nanos() - begin) / (double)calls;
}

double probe_cached_share(const prefix_router* router) {
  prefix_router_stats stats;
  stats.struct_size = sizeof stats;
  if (prefix_router_get_stats(router, &stats, NULL, 0, NULL) != PREFIX_ROUTER_OK) return -1;
  return (double)stats.cached_tokens / (double)stats.prompt_tokens;
}
