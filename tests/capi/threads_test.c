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

const test_case threads_tests[] = {
    {"threads share a router, and each has its own error text", threads_share_a_router},
    {NULL, NULL}};
