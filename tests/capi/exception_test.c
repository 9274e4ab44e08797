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
  prefix_router_stats stats;
  memset(&load, 0, sizeof load);
  load.struct_size = sizeof load;
  stats.struct_size = sizeof stats;
  options.clock_callback = throwing_clock;
  options.clock_user_data = &what;
  CHECK_OK(prefix_router_create(&options, &router));
  instance = add_instance(router, "a");
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
  }
  what = THROW_NOTHING;
  CHECK_OK(prefix_router_get_stats(router, &stats, NULL, 0, NULL));
  CHECK(stats.requests == 1 && stats.leases_active == 1);
  CHECK_OK(prefix_router_finish(router, lease, NULL));
  prefix_router_destroy(router);
}

const test_case exception_tests[] = {
    {"what a policy throws becomes the status of the call, and nothing changes", from_a_policy},
    {"what a clock throws becomes the status of every call that asks the time", from_a_clock},
    {NULL, NULL}};
