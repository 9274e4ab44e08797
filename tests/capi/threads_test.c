// Threads of a C program that share one router.
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "check.h"

enum { kThreads = 4, kRounds = 300, kTokens = 64 };

typedef struct worker {
  prefix_router* router;
  uint32_t number;
  int wrong;  // what did not go as it must; checks are not for several threads at once
} worker;

static void* work(void* data) {
  worker* const self = data;
  uint32_t tokens[kTokens];
  char expected[64];
  uint32_t round;
  sprintf(expected, "instance %u.0", (unsigned)self->number);
  for (round = 0; round < kRounds; ++round) {
    prefix_router_decision decision = empty_decision();
    prefix_router_request request = token_request(tokens, kTokens);
    uint64_t lease = 0, chosen = 0;
    fill_tokens(tokens, kTokens, round % 32);
    self->wrong +=
        prefix_router_remove_instance(self->router, self->number) != PREFIX_ROUTER_NOT_FOUND;
    self->wrong += prefix_router_acquire(self->router, &request, &decision, &lease) != 0;
    self->wrong += prefix_router_first_token(self->router, lease) != 0;
    self->wrong += prefix_router_route(self->router, tokens, kTokens, &chosen) != 0;
    self->wrong += prefix_router_finish(self->router, lease, NULL) != 0;
    // The text of this thread's failure, whatever others fail with.
    self->wrong += strstr(prefix_router_last_error(), expected) == NULL;
  }
  return NULL;
}

static void threads_share_a_router(void) {
  uint64_t ids[3];
  pthread_t threads[kThreads];
  worker workers[kThreads];
  prefix_router_stats stats;
  uint32_t i;
  prefix_router* router = make_router(3, ids, NULL);
  for (i = 0; i < kThreads; ++i) {
    workers[i].router = router;
    workers[i].number = i + 1;
    workers[i].wrong = 0;
    CHECK(pthread_create(&threads[i], NULL, work, &workers[i]) == 0);
  }
  for (i = 0; i < kThreads; ++i) {
    CHECK(pthread_join(threads[i], NULL) == 0);
    CHECK(workers[i].wrong == 0);
  }
  stats.struct_size = sizeof stats;
  CHECK_OK(prefix_router_get_stats(router, &stats, NULL, 0, NULL));
  CHECK(stats.requests == 2 * kThreads * kRounds);
  CHECK(stats.leases_finished == kThreads * kRounds && stats.leases_active == 0);
  prefix_router_destroy(router);
}

// A callback that waits until another thread has got through a call on the same router: if the
// router held its lock meanwhile, neither would ever end.
typedef struct waiting_callback {
  prefix_router* router;  // NULL: do not wait
  int calls;
  int32_t status;
} waiting_callback;

static void* find_instance(void* data) {
  waiting_callback* const self = data;
  uint64_t id;
  self->status = prefix_router_find_instance(self->router, "a", 1, 0, &id);
  return NULL;
}

static void wait_for_another_thread(waiting_callback* self) {
  pthread_t thread;
  if (self->router == NULL) return;
  ++self->calls;
  if (pthread_create(&thread, NULL, find_instance, self) != 0 || pthread_join(thread, NULL) != 0) {
    self->status = PREFIX_ROUTER_INTERNAL;
  }
}

static int32_t waiting_policy(const prefix_router_policy_input* input, float* costs,
                              void* user_data) {
  (void)input;
  (void)costs;
  wait_for_another_thread(user_data);
  return PREFIX_ROUTER_OK;
}

static int64_t waiting_clock(void* user_data) {
  wait_for_another_thread(user_data);
  return 0;
}

static void callbacks_run_without_a_lock(void) {
  uint32_t tokens[16] = {0};
  int of_clock;
  for (of_clock = 0; of_clock < 2; ++of_clock) {
    waiting_callback callback = {NULL, 0, PREFIX_ROUTER_OK};
    prefix_router_options options = default_options();
    prefix_router_request request = token_request(tokens, 16);
    prefix_router_decision decision = empty_decision();
    prefix_router_engine_load load;
    prefix_router* router = NULL;
    uint64_t id, chosen, lease;
    size_t count;
    memset(&load, 0, sizeof load);
    load.struct_size = sizeof load;
    if (of_clock) {
      options.clock_callback = waiting_clock;
      options.clock_user_data = &callback;
    } else {
      options.policy_callback = waiting_policy;
      options.policy_user_data = &callback;
    }
    CHECK_OK(prefix_router_create(&options, &router));
    id = add_instance(router, "a");
    callback.router = router;
    CHECK_OK(prefix_router_route(router, tokens, 16, &chosen));
    CHECK_OK(prefix_router_acquire(router, &request, &decision, &lease));
    CHECK_OK(prefix_router_first_token(router, lease));
    CHECK_OK(prefix_router_finish(router, lease, NULL));
    CHECK_FAILS(prefix_router_cancel(router, lease), PREFIX_ROUTER_NOT_FOUND, "has ended");
    CHECK_FAILS(prefix_router_score(router, &request, NULL, NULL, 0, &count),
                PREFIX_ROUTER_OUT_OF_RANGE, "");
    CHECK_OK(prefix_router_report_load(router, id, &load));
    CHECK_OK(prefix_router_set_instance_state(router, id, PREFIX_ROUTER_READY, 0));
    CHECK_OK(prefix_router_get_stats(router, NULL, NULL, 0, NULL));
    CHECK(callback.status == PREFIX_ROUTER_OK);
    CHECK(callback.calls >= (of_clock ? 9 : 3));
    prefix_router_destroy(router);
  }
}

const test_case threads_tests[] = {
    {"no lock is held while a policy or a clock runs", callbacks_run_without_a_lock},
    {"threads share a router, and each has its own error text", threads_share_a_router},
    {NULL, NULL}};
