/* What a gateway does with PrefixRouter, in C: it registers instances, asks for each request where
 * to send it, says how the request went, and prints why each choice was made.
 *
 *   cc -std=c99 gateway.c $(pkg-config --cflags --libs prefixrouter-c)
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prefix_router.h"

enum { PROMPT_TOKENS = 1000, SYSTEM_TOKENS = 800 };

static void check(int32_t status, const char* what) {
  if (status == PREFIX_ROUTER_OK) return;
  fprintf(stderr, "%s: %s: %s\n", what, prefix_router_status_name(status),
          prefix_router_last_error());
  exit(1);
}

/* Stands for the model's tokenizer: a system prompt that all users share, then the user's words. */
static void make_prompt(uint32_t* tokens, uint32_t user) {
  uint32_t i;
  for (i = 0; i < PROMPT_TOKENS; ++i) {
    tokens[i] = i < SYSTEM_TOKENS ? i : (user + 1) * 100000 + i;
  }
}

static void add_instance(prefix_router* router, const char* name) {
  prefix_router_instance_options options = {0};
  uint64_t instance;
  options.struct_size = sizeof options;
  options.name = name;
  options.name_size = PREFIX_ROUTER_NUL_TERMINATED;
  check(prefix_router_add_instance(router, &options, &instance), name);
}

/* One request: where to, why, and what came of it. */
static void serve(prefix_router* router, uint32_t user) {
  uint32_t tokens[PROMPT_TOKENS];
  uint64_t lease;
  char name[64];
  size_t size;
  prefix_router_request request = {0};
  prefix_router_decision decision = {0};
  prefix_router_finish_info info = {0};

  make_prompt(tokens, user);
  request.struct_size = sizeof request;
  request.tokens = tokens;
  request.token_count = PROMPT_TOKENS;
  decision.struct_size = sizeof decision;
  check(prefix_router_acquire(router, &request, &decision, &lease), "acquire");
  check(prefix_router_get_instance_name(router, decision.instance, name, sizeof name, &size),
        "name");
  printf("user %" PRIu32 ": %s by %s, %" PRIu64 " of %" PRIu64
         " tokens cached, first token in %.3f s\n",
         user, name, prefix_router_rule_name(decision.rule), decision.cached_tokens,
         decision.prompt_tokens, decision.predicted_ttft_s);

  /* Here the request goes to the instance. When the first byte of the answer arrives: */
  check(prefix_router_first_token(router, lease), "first token");
  /* When the answer is complete: */
  info.struct_size = sizeof info;
  info.reported = PREFIX_ROUTER_REPORTS_OUTPUT_TOKENS;
  info.output_tokens = 100;
  check(prefix_router_finish(router, lease, &info), "finish");
}

int main(void) {
  prefix_router* router;
  prefix_router_stats stats;
  uint32_t turn;
  check(prefix_router_create(NULL, &router), "create");
  add_instance(router, "10.0.0.1:8000");
  add_instance(router, "10.0.0.2:8000");
  for (turn = 0; turn < 6; ++turn) serve(router, turn % 3);

  stats.struct_size = sizeof stats;
  check(prefix_router_get_stats(router, &stats, NULL, 0, NULL), "stats");
  printf("%" PRIu64 " requests, %.0f %% of their tokens cached\n", stats.requests,
         100.0 * (double)stats.cached_tokens / (double)stats.prompt_tokens);
  prefix_router_destroy(router);
  return stats.requests == 6 && stats.cached_tokens > stats.prompt_tokens / 2 ? 0 : 1;
}
