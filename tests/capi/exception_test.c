// Exceptions do not cross: whatever is thrown inside a call becomes its status.
#include <string.h>

#include "check.h"
#include "throwing.h"

static const struct {
  int what;
  int32_t status;
  const char* text;
} kInjected[] = {
    {THROW_BAD_ALLOC, PREFIX_ROUTER_RESOURCE_EXHAUSTED, "out of memory"},
    {THROW_INVALID_ARGUMENT, PREFIX_ROUTER_INVALID_ARGUMENT, "injected argument"},
    {THROW_RUNTIME_ERROR, PREFIX_ROUTER_INTERNAL, "injected failure"},
    {THROW_INT, PREFIX_ROUTER_INTERNAL, "unknown exception"},
};
enum { kInjections = sizeof kInjected / sizeof kInjected[0] };

static void from_a_policy(void) {
  int what = THROW_NOTHING;
  size_t i, count;
  uint64_t chosen, lease;
  uint32_t tokens[16] = {0};
  prefix_router* router;
  prefix_router_options options = default_options();
  prefix_router_request request = token_request(tokens, 16);
  prefix_router_decision decision = empty_decision();
  options.policy_callback = throwing_policy;
  options.policy_user_data = &what;
  CHECK_OK(prefix_router_create(&options, &router));
  add_instance(router, "a");
  for (i = 0; i < kInjections; ++i) {
    const int32_t status = kInjected[i].status;
    const char* const text = kInjected[i].text;
    what = kInjected[i].what;
    CHECK_FAILS(prefix_router_route(router, tokens, 16, &chosen), status, text);
    CHECK(chosen == 0);
    CHECK_FAILS(prefix_router_route_request(router, &request, &decision), status, text);
    CHECK_FAILS(prefix_router_acquire(router, &request, &decision, &lease), status, text);
    CHECK(lease == 0);
    CHECK_FAILS(prefix_router_score(router, &request, NULL, NULL, 0, &count), status, text);
    CHECK(strstr(prefix_router_last_error(), "policy custom failed: ") != NULL);
  }
  CHECK(requests_routed(router) == 0);
  what = THROW_NOTHING;
  CHECK_OK(prefix_router_route(router, tokens, 16, &chosen));
  prefix_router_destroy(router);
}

static void from_a_clock(void) {
  int what = THROW_NOTHING;
  size_t i, count;
  uint64_t instance, chosen, lease;
  uint32_t tokens[16] = {0};
  prefix_router* router;
  prefix_router_options options = default_options();
  prefix_router_request request = token_request(tokens, 16);
  prefix_router_decision decision = empty_decision();
  prefix_router_engine_load load;
  prefix_router_engine_rank_metrics rank;
  prefix_router_metrics_source source;
  prefix_router_stats stats;
  uint32_t reported = 99;
  memset(&rank, 0, sizeof rank);
  rank.struct_size = sizeof rank;
  memset(&source, 0, sizeof source);
  source.struct_size = sizeof source;
  memset(&load, 0, sizeof load);
  load.struct_size = sizeof load;
  stats.struct_size = sizeof stats;
  options.clock_callback = throwing_clock;
  options.clock_user_data = &what;
  CHECK_OK(prefix_router_create(&options, &router));
  instance = add_instance(router, "a");
  source.router = router;
  CHECK_OK(prefix_router_acquire(router, &request, &decision, &lease));
  for (i = 0; i < kInjections; ++i) {
    const int32_t status = kInjected[i].status;
    const char* const text = kInjected[i].text;
    uint64_t other;
    what = kInjected[i].what;
    CHECK_FAILS(prefix_router_route(router, tokens, 16, &chosen), status, text);
    CHECK_FAILS(prefix_router_route_request(router, &request, &decision), status, text);
    CHECK_FAILS(prefix_router_acquire(router, &request, &decision, &other), status, text);
    CHECK_FAILS(prefix_router_score(router, &request, NULL, NULL, 0, &count), status, text);
    CHECK_FAILS(prefix_router_first_token(router, lease), status, text);
    CHECK_FAILS(prefix_router_finish(router, lease, NULL), status, text);
    CHECK_FAILS(prefix_router_cancel(router, lease), status, text);
    CHECK_FAILS(prefix_router_get_stats(router, &stats, NULL, 0, NULL), status, text);
    CHECK_FAILS(prefix_router_set_instance_state(router, instance, PREFIX_ROUTER_DOWN, 0), status,
                text);
    CHECK_FAILS(prefix_router_report_load(router, instance, &load), status, text);
    CHECK_FAILS(prefix_router_report_rank_metrics(router, instance, &rank, 0), status, text);
    CHECK_FAILS(prefix_router_report_engine_metrics(router, "a", 1, &rank, 1, 0, &reported), status,
                text);
    CHECK_FAILS(prefix_router_render_metrics(router, NULL, NULL, 0, &count), status, text);
    CHECK(count == 0);
    CHECK_FAILS(prefix_router_render_metrics_of(&source, 1, NULL, NULL, 0, &count), status, text);
    CHECK(count == 0 && reported == 99);
  }
  what = THROW_NOTHING;
  CHECK_OK(prefix_router_get_stats(router, &stats, NULL, 0, NULL));
  CHECK(stats.requests == 1 && stats.leases_active == 1);
  CHECK_OK(prefix_router_finish(router, lease, NULL));
  prefix_router_destroy(router);
}

enum { kPageCapacity = 1 << 16 };

// What the calls below change.
typedef struct outputs {
  prefix_router_engine_metrics metrics;
  prefix_router_engine_rank_metrics ranks[2];
  uint32_t reported;
  char page[kPageCapacity];
} outputs;

typedef int32_t (*metrics_call)(prefix_router* router, outputs* out);

static int32_t parse(prefix_router* router, outputs* out) {
  static const char page[] =
      "vllm:num_requests_running{engine=\"0\",model_name=\"model\"} 4\n"
      "vllm:num_requests_running{engine=\"1\",model_name=\"mo\\\"del\"} 5\n"
      "vllm:cache_config_info{block_size=\"16\",engine=\"1\",num_gpu_blocks=\"28966\"} 1.0\n"
      "this line is no sample\n";
  size_t count = 0;
  (void)router;
  return prefix_router_parse_engine_metrics(page, PREFIX_ROUTER_NUL_TERMINATED, NULL, &out->metrics,
                                            out->ranks, 2, &count);
}

static int32_t report_all(prefix_router* router, outputs* out) {
  prefix_router_engine_rank_metrics ranks[2];
  memset(ranks, 0, sizeof ranks);
  ranks[0].struct_size = sizeof ranks[0];
  ranks[1].rank = 1;
  return prefix_router_report_engine_metrics(router, "an instance with a long name",
                                             PREFIX_ROUTER_NUL_TERMINATED, ranks, 2, 0,
                                             &out->reported);
}

static int32_t render(prefix_router* router, outputs* out) {
  size_t size;
  return prefix_router_render_metrics(router, NULL, out->page, kPageCapacity, &size);
}

static int32_t render_several(prefix_router* router, outputs* out) {
  size_t size;
  prefix_router_label label;
  prefix_router_metrics_source sources[2];
  memset(sources, 0, sizeof sources);
  label.name = "a_label_that_is_long";
  label.value = "a value that is long, too";
  label.name_size = label.value_size = PREFIX_ROUTER_NUL_TERMINATED;
  sources[0].struct_size = sizeof sources[0];
  sources[0].router = sources[1].router = router;
  sources[1].labels = &label;
  sources[1].label_count = 1;
  return prefix_router_render_metrics_of(sources, 2, NULL, out->page, kPageCapacity, &size);
}

static void out_of_memory(void) {
  static const metrics_call calls[] = {parse, report_all, render, render_several};
  static outputs before, out;
  uint64_t failed;
  size_t i, count;
  prefix_router* router = make_router(0, NULL, NULL);
  prefix_router_instance_stats stats;
  add_instance(router, "an instance with a long name");
  stats.struct_size = sizeof stats;
  memset(&before, 0x55, sizeof before);
  before.metrics.struct_size = sizeof before.metrics;
  before.ranks[0].struct_size = sizeof before.ranks[0];
  for (i = 0; i < sizeof calls / sizeof calls[0]; ++i) {
    for (failed = 0;; ++failed) {  // the first allocation fails, the second, ...
      int32_t status;
      int any;
      memcpy(&out, &before, sizeof out);
      (void)fail_allocations_after(failed);
      status = calls[i](router, &out);
      any = fail_allocations_after(UINT64_MAX);
      if (!any) {
        CHECK_OK(status);
        break;
      }
      CHECK_FAILS(status, PREFIX_ROUTER_RESOURCE_EXHAUSTED, "out of memory");
      CHECK(memcmp(&out, &before, sizeof out) == 0);
      CHECK_OK(prefix_router_get_stats(router, NULL, &stats, 1, &count));
      CHECK(calls[i] != report_all || stats.report_age_s < 0);
    }
    CHECK(failed > 0);
    CHECK(memcmp(&out, &before, sizeof out) != 0);
  }
  prefix_router_destroy(router);
}

const test_case exception_tests[] = {
    {"what a policy throws becomes the status of the call, and nothing changes", from_a_policy},
    {"what a clock throws becomes the status of every call that asks the time", from_a_clock},
    {"whichever allocation fails, metrics are not read, reported or rendered in part",
     out_of_memory},
    {NULL, NULL}};
