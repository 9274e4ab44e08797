// Runs the C tests of one file, or all: prefix_router_capi_tests [GROUP]. Exit status 1 if any
// check failed, 2 if there is no such group.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static int failures = 0;

int check_that(int holds, const char* what, const char* file, int line) {
  if (!holds) {
    ++failures;
    printf("%s:%d: does not hold: %s\n", file, line, what);
  }
  return holds;
}

int check_status(int32_t actual, int32_t expected, const char* text, const char* call,
                 const char* file, int line) {
  const char* const error = prefix_router_last_error();
  const int holds = actual == expected && (text == NULL || strstr(error, text) != NULL);
  if (!holds) {
    ++failures;
    printf("%s:%d: %s\n  is %s", file, line, call, prefix_router_status_name(actual));
    if (actual != PREFIX_ROUTER_OK) printf(", \"%s\"", error);
    printf("\n  expected %s", prefix_router_status_name(expected));
    if (text != NULL) printf(" with \"%s\"", text);
    printf("\n");
  }
  return holds;
}

int64_t read_clock(void* nanos) { return *(int64_t*)nanos; }

prefix_router_options default_options(void) {
  prefix_router_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  return options;
}

prefix_router_request token_request(const uint32_t* tokens, size_t count) {
  prefix_router_request request;
  memset(&request, 0, sizeof request);
  request.struct_size = sizeof request;
  request.tokens = tokens;
  request.token_count = count;
  return request;
}

prefix_router_decision empty_decision(void) {
  prefix_router_decision decision;
  memset(&decision, 0, sizeof decision);
  decision.struct_size = sizeof decision;
  return decision;
}

static void require_ok(int32_t status) {
  if (status == PREFIX_ROUTER_OK) return;
  printf("cannot set up: %s: %s\n", prefix_router_status_name(status), prefix_router_last_error());
  exit(1);
}

uint64_t add_instance(prefix_router* router, const char* name) {
  prefix_router_instance_options options;
  uint64_t instance;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.name = name;
  options.name_size = PREFIX_ROUTER_NUL_TERMINATED;
  require_ok(prefix_router_add_instance(router, &options, &instance));
  return instance;
}

prefix_router* make_router(size_t instances, uint64_t* ids, int64_t* nanos) {
  prefix_router_options options = default_options();
  prefix_router* router;
  size_t i;
  options.has_key_seed = options.has_random_seed = 1;
  options.key_seed = 1;
  options.random_seed = 2;
  if (nanos != NULL) {
    options.clock_callback = read_clock;
    options.clock_user_data = nanos;
  }
  require_ok(prefix_router_create(&options, &router));
  for (i = 0; i < instances; ++i) {
    char name[2] = "a";
    name[0] = (char)(name[0] + i);
    ids[i] = add_instance(router, name);
  }
  return router;
}

void fill_tokens(uint32_t* tokens, size_t count, uint32_t seed) {
  uint32_t state = seed * 2654435761u + 1;
  size_t i;
  for (i = 0; i < count; ++i) {
    state = state * 1664525u + 1013904223u;  // Numerical Recipes' generator
    tokens[i] = state >> 12;
  }
}

uint64_t requests_routed(const prefix_router* router) {
  prefix_router_stats stats;
  stats.struct_size = sizeof stats;
  require_ok(prefix_router_get_stats(router, &stats, NULL, 0, NULL));
  return stats.requests;
}

int main(int argc, char** argv) {
  static const struct {
    const char* name;
    const test_case* cases;
  } groups[] = {
      {"create", create_tests},       {"instance", instance_tests},
      {"route", route_tests},         {"lease", lease_tests},
      {"inspect", inspect_tests},     {"metrics", metrics_tests},
      {"events", events_tests},       {"event_stream", event_stream_tests},
      {"callback", callback_tests},   {"struct_size", struct_size_tests},
      {"exception", exception_tests}, {"threads", threads_tests},
  };
  int groups_run = 0, cases_run = 0;
  size_t i;
  for (i = 0; i < sizeof groups / sizeof groups[0]; ++i) {
    const test_case* test;
    if (argc > 1 && strcmp(argv[1], groups[i].name) != 0) continue;
    ++groups_run;
    for (test = groups[i].cases; test->name != NULL; ++test) {
      const int before = failures;
      test->run();
      ++cases_run;
      printf("%s  %s: %s\n", failures == before ? "passed" : "FAILED", groups[i].name, test->name);
    }
  }
  if (groups_run == 0) {
    fprintf(stderr, "there is no group %s\n", argv[1]);
    return 2;
  }
  printf("%d cases, %d checks failed\n", cases_run, failures);
  return failures == 0 ? 0 : 1;
}
