// Leases: acquired, told their first token, finished, cancelled, expired.
#include <string.h>

#include "check.h"

enum { kTokens = 160 };

typedef struct fixture {
  int64_t nanos;
  uint64_t ids[2];
  uint32_t tokens[kTokens];
  prefix_router* router;
  prefix_router_request request;
  prefix_router_decision decision;
} fixture;

static void set_up(fixture* f) {
  f->nanos = 0;
  f->router = make_router(2, f->ids, &f->nanos);
  fill_tokens(f->tokens, kTokens, 1);
  f->request = token_request(f->tokens, kTokens);
  f->decision = empty_decision();
}

static uint64_t acquire(fixture* f) {
  uint64_t lease = 0;
  CHECK_OK(prefix_router_acquire(f->router, &f->request, &f->decision, &lease));
  CHECK(lease != 0 && f->decision.instance != 0);
  return lease;
}

static prefix_router_stats stats(const fixture* f) {
  prefix_router_stats result;
  result.struct_size = sizeof result;
  CHECK_OK(prefix_router_get_stats(f->router, &result, NULL, 0, NULL));
  return result;
}

static prefix_router_instance_stats chosen_stats(const fixture* f) {
  prefix_router_instance_stats rows[2];
  size_t count;
  rows[0].struct_size = sizeof rows[0];
  CHECK_OK(prefix_router_get_stats(f->router, NULL, rows, 2, &count));
  return rows[0].instance == f->decision.instance ? rows[0] : rows[1];
}

static void life_of_a_lease(void) {
  fixture f;
  uint64_t lease;
  prefix_router_finish_info info;
  set_up(&f);
  f.request.expected_output_tokens = 40;
  lease = acquire(&f);
  CHECK(chosen_stats(&f).requests_in_flight == 1 && chosen_stats(&f).requests_waiting == 1);
  CHECK(chosen_stats(&f).pending_tokens == kTokens && chosen_stats(&f).kv_tokens == kTokens + 40);
  CHECK_OK(prefix_router_first_token(f.router, lease));
  CHECK(chosen_stats(&f).requests_in_flight == 1 && chosen_stats(&f).requests_waiting == 0);
  CHECK(chosen_stats(&f).pending_tokens == 0);

  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  info.reported = PREFIX_ROUTER_REPORTS_OUTPUT_TOKENS | PREFIX_ROUTER_REPORTS_CACHED_TOKENS;
  info.output_tokens = 33;
  info.engine_cached_tokens = 16;
  CHECK_OK(prefix_router_finish(f.router, lease, &info));
  CHECK(chosen_stats(&f).requests_in_flight == 0 && chosen_stats(&f).kv_tokens == 0);
  CHECK(stats(&f).leases_finished == 1 && stats(&f).leases_active == 0);
  CHECK(stats(&f).output_tokens == 33);
  CHECK(stats(&f).reported_requests == 1 && stats(&f).reported_cached_tokens == 16);
  CHECK(stats(&f).under_predicted_tokens == 16);
  prefix_router_destroy(f.router);
}

static void only_what_is_reported(void) {
  fixture f;
  prefix_router_finish_info info;
  set_up(&f);
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  info.output_tokens = 33;
  info.engine_cached_tokens = 16;
  CHECK_OK(prefix_router_finish(f.router, acquire(&f), &info));
  CHECK_OK(prefix_router_finish(f.router, acquire(&f), NULL));
  CHECK(stats(&f).leases_finished == 2);
  CHECK(stats(&f).output_tokens == 0 && stats(&f).reported_requests == 0);
  // None cached is a report too.
  info.reported = PREFIX_ROUTER_REPORTS_CACHED_TOKENS;
  info.engine_cached_tokens = 0;
  CHECK_OK(prefix_router_finish(f.router, acquire(&f), &info));
  CHECK(stats(&f).reported_requests == 1 && stats(&f).over_predicted_tokens == kTokens);
  prefix_router_destroy(f.router);
}

static void cancelled(void) {
  fixture f;
  set_up(&f);
  CHECK_OK(prefix_router_cancel(f.router, acquire(&f)));
  CHECK(stats(&f).leases_cancelled == 1 && stats(&f).leases_active == 0);
  prefix_router_destroy(f.router);
}

static void check_ended(fixture* f, uint64_t lease) {
  CHECK_FAILS(prefix_router_first_token(f->router, lease), PREFIX_ROUTER_NOT_FOUND, "lease ");
  CHECK_FAILS(prefix_router_finish(f->router, lease, NULL), PREFIX_ROUTER_NOT_FOUND, "has ended");
  CHECK_FAILS(prefix_router_cancel(f->router, lease), PREFIX_ROUTER_NOT_FOUND, "has ended");
}

static void late_calls(void) {
  fixture f;
  uint64_t lease;
  set_up(&f);
  lease = acquire(&f);
  CHECK_OK(prefix_router_first_token(f.router, lease));
  CHECK_FAILS(prefix_router_first_token(f.router, lease), PREFIX_ROUTER_NOT_FOUND,
              "was told its first token already");
  CHECK_OK(prefix_router_finish(f.router, lease, NULL));
  check_ended(&f, lease);
  check_ended(&f, 0);
  check_ended(&f, UINT64_MAX);

  lease = acquire(&f);  // expires
  f.nanos += INT64_C(601000000000);
  check_ended(&f, lease);
  CHECK(stats(&f).leases_expired == 1);

  lease = acquire(&f);  // its instance is gone
  CHECK_OK(prefix_router_remove_instance(f.router, f.decision.instance));
  check_ended(&f, lease);
  CHECK(stats(&f).leases_finished == 1);
  CHECK(stats(&f).leases_cancelled == 1 && stats(&f).leases_active == 0);
  prefix_router_destroy(f.router);
}

static void outlived_by_leases(void) {
  fixture f;
  set_up(&f);
  acquire(&f);
  acquire(&f);
  prefix_router_destroy(f.router);
}

static void finish_refused(void) {
  fixture f;
  uint64_t lease;
  prefix_router_finish_info info;
  set_up(&f);
  lease = acquire(&f);
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  info.reported = PREFIX_ROUTER_REPORTS_OUTPUT_TOKENS;
  info.output_tokens = UINT64_MAX;
  CHECK_FAILS(prefix_router_finish(f.router, lease, &info), PREFIX_ROUTER_INVALID_ARGUMENT,
              "output_tokens must be less than 2^63, got 18446744073709551615");
  info.reported = PREFIX_ROUTER_REPORTS_CACHED_TOKENS;
  info.engine_cached_tokens = UINT64_C(1) << 63;
  CHECK_FAILS(prefix_router_finish(f.router, lease, &info), PREFIX_ROUTER_INVALID_ARGUMENT,
              "engine_cached_tokens must be less than 2^63, got 9223372036854775808");
  info.reported = 4;
  CHECK_FAILS(prefix_router_finish(f.router, lease, &info), PREFIX_ROUTER_UNIMPLEMENTED,
              "reported has bits that this library does not know: 4");
  info.reported = 0;
  info.reserved = 1;
  CHECK_FAILS(prefix_router_finish(f.router, lease, &info), PREFIX_ROUTER_UNIMPLEMENTED,
              "reserved");
  CHECK(stats(&f).leases_active == 1);
  CHECK_OK(prefix_router_finish(f.router, lease, NULL));
  prefix_router_destroy(f.router);
}

static void null_arguments(void) {
  fixture f;
  uint64_t lease = 5;
  set_up(&f);
  CHECK_FAILS(prefix_router_acquire(NULL, &f.request, &f.decision, &lease),
              PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  CHECK(lease == 0);
  CHECK_FAILS(prefix_router_acquire(f.router, &f.request, NULL, &lease),
              PREFIX_ROUTER_INVALID_ARGUMENT, "decision is NULL");
  CHECK_FAILS(prefix_router_acquire(f.router, &f.request, &f.decision, NULL),
              PREFIX_ROUTER_INVALID_ARGUMENT, "lease is NULL");
  CHECK_FAILS(prefix_router_first_token(NULL, 1), PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  CHECK_FAILS(prefix_router_finish(NULL, 1, NULL), PREFIX_ROUTER_INVALID_ARGUMENT,
              "router is NULL");
  CHECK_FAILS(prefix_router_cancel(NULL, 1), PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  CHECK(stats(&f).leases_active == 0 && stats(&f).requests == 0);
  prefix_router_destroy(f.router);
}

static void no_instance(void) {
  fixture f;
  uint64_t lease = 5;
  set_up(&f);
  CHECK_OK(prefix_router_remove_instance(f.router, f.ids[0]));
  CHECK_OK(prefix_router_remove_instance(f.router, f.ids[1]));
  CHECK_FAILS(prefix_router_acquire(f.router, &f.request, &f.decision, &lease),
              PREFIX_ROUTER_UNAVAILABLE, "there is no instance");
  CHECK(lease == 0);
  prefix_router_destroy(f.router);
}

const test_case lease_tests[] = {
    {"a lease counts from acquire to finish, and its prompt as pending to the first token",
     life_of_a_lease},
    {"what a finish does not report is not learned", only_what_is_reported},
    {"a cancelled lease ends", cancelled},
    {"a lease that is told twice, has ended, expired or lost its instance is not found",
     late_calls},
    {"a router may be destroyed with leases active", outlived_by_leases},
    {"a malformed finish is refused, and the lease goes on", finish_refused},
    {"NULL is refused, and no lease is left behind", null_arguments},
    {"without an instance there is no lease", no_instance},
    {NULL, NULL}};
