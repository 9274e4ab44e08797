// Adding, removing, finding instances; their states and reported loads.
#include <math.h>
#include <string.h>

#include "check.h"

static prefix_router_instance_options named(const char* name) {
  prefix_router_instance_options options;
  memset(&options, 0, sizeof options);
  options.struct_size = sizeof options;
  options.name = name;
  options.name_size = name == NULL ? 0 : strlen(name);
  return options;
}

static prefix_router_instance_stats stats_of(const prefix_router* router, uint64_t instance) {
  prefix_router_instance_stats rows[8];
  size_t count = 0, i;
  memset(rows, 0, sizeof rows);
  rows[0].struct_size = sizeof rows[0];
  CHECK_OK(prefix_router_get_stats(router, NULL, rows, 8, &count));
  for (i = 0; i < count; ++i) {
    if (rows[i].instance == instance) return rows[i];
  }
  CHECK(!"the instance is listed");
  return rows[0];
}

static size_t instance_count(const prefix_router* router) {
  size_t count = 0;
  prefix_router_get_stats(router, NULL, NULL, 0, &count);
  return count;
}

static void add_and_find(void) {
  prefix_router* router = make_router(0, NULL, NULL);
  prefix_router_instance_options options = named("10.0.0.1:8000");
  prefix_router_instance_stats stats;
  uint64_t first = 0, second = 0, found = 0;
  char name[16];
  size_t size = 0;
  CHECK_OK(prefix_router_add_instance(router, &options, &first));
  options.rank = 1;
  options.capacity_blocks = 100;
  options.prefill_tokens_per_s = 5000;
  options.weight = 2;
  CHECK_OK(prefix_router_add_instance(router, &options, &second));
  CHECK(first != 0 && second != 0 && first != second);

  stats = stats_of(router, first);
  CHECK(stats.rank == 0 && stats.capacity_blocks == 65536);
  CHECK(stats.prefill_tokens_per_s == 10000 && stats.prefill_rate_learned == 0);
  CHECK(stats.state == PREFIX_ROUTER_READY && stats.report_age_s < 0);
  stats = stats_of(router, second);
  CHECK(stats.rank == 1 && stats.capacity_blocks == 100 && stats.prefill_tokens_per_s == 5000);

  CHECK_OK(prefix_router_find_instance(router, "10.0.0.1:8000", PREFIX_ROUTER_NUL_TERMINATED, 0,
                                       &found));
  CHECK(found == first);
  CHECK_OK(prefix_router_find_instance(router, "10.0.0.1:8000 and more", 13, 1, &found));
  CHECK(found == second);
  CHECK_FAILS(prefix_router_find_instance(router, "10.0.0.1:8000", 13, 2, &found),
              PREFIX_ROUTER_NOT_FOUND, "10.0.0.1:8000");
  CHECK(found == 0);
  CHECK_FAILS(prefix_router_find_instance(router, "elsewhere", 9, 0, &found),
              PREFIX_ROUTER_NOT_FOUND, "elsewhere");

  CHECK_OK(prefix_router_get_instance_name(router, second, name, sizeof name, &size));
  CHECK(size == 13 && strcmp(name, "10.0.0.1:8000") == 0);
  prefix_router_destroy(router);
}

static void name_buffer(void) {
  uint64_t id;
  size_t size = 99;
  char buffer[2] = "?";
  prefix_router* router = make_router(1, &id, NULL);
  CHECK_FAILS(prefix_router_get_instance_name(router, id, buffer, 1, &size),
              PREFIX_ROUTER_OUT_OF_RANGE, "capacity is 1, and 2 are needed");
  CHECK(size == 1 && buffer[0] == '?');
  CHECK_FAILS(prefix_router_get_instance_name(router, id, NULL, 0, &size),
              PREFIX_ROUTER_OUT_OF_RANGE, "2 are needed");
  CHECK(size == 1);
  CHECK_OK(prefix_router_get_instance_name(router, id, buffer, 2, &size));
  CHECK(strcmp(buffer, "a") == 0);
  CHECK_FAILS(prefix_router_get_instance_name(router, id, NULL, 2, &size),
              PREFIX_ROUTER_INVALID_ARGUMENT, "buffer is NULL with a capacity of 2");
  CHECK_FAILS(prefix_router_get_instance_name(router, id, buffer, 2, NULL),
              PREFIX_ROUTER_INVALID_ARGUMENT, "size is NULL");
  CHECK_FAILS(prefix_router_get_instance_name(NULL, id, buffer, 2, &size),
              PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  CHECK_FAILS(prefix_router_get_instance_name(router, 0, buffer, 2, &size), PREFIX_ROUTER_NOT_FOUND,
              "no such instance");
  CHECK(size == 0);
  prefix_router_destroy(router);
}

static void add_refused(void) {
  uint64_t id;
  prefix_router* router = make_router(1, &id, NULL);
  prefix_router_instance_options options = named("b");
#define REFUSED(statement, status, text)                                          \
  do {                                                                            \
    options = named("b");                                                         \
    id = 7;                                                                       \
    statement;                                                                    \
    CHECK_FAILS(prefix_router_add_instance(router, &options, &id), status, text); \
    CHECK(id == 0);                                                               \
  } while (0)
  REFUSED(options = named(NULL), PREFIX_ROUTER_INVALID_ARGUMENT, "name must not be empty");
  REFUSED(options.name = NULL, PREFIX_ROUTER_INVALID_ARGUMENT, "name is NULL with a size of 1");
  REFUSED((options.name = NULL, options.name_size = PREFIX_ROUTER_NUL_TERMINATED),
          PREFIX_ROUTER_INVALID_ARGUMENT, "name is NULL");
  REFUSED(options.capacity_blocks = 1u << 31, PREFIX_ROUTER_INVALID_ARGUMENT,
          "capacity_blocks must be 1 to 2147483647, got 2147483648");
  REFUSED(options.prefill_tokens_per_s = 0.5, PREFIX_ROUTER_INVALID_ARGUMENT,
          "prefill_tokens_per_s must be 1 to 1e+09, got 0.5");
  REFUSED(options.prefill_tokens_per_s = NAN, PREFIX_ROUTER_INVALID_ARGUMENT, "nan");
  REFUSED(options.weight = -1, PREFIX_ROUTER_INVALID_ARGUMENT, "weight");
  REFUSED(options.weight = 1001, PREFIX_ROUTER_INVALID_ARGUMENT, "1001");
  REFUSED(options.name = "a", PREFIX_ROUTER_ALREADY_EXISTS, "\"a\" of rank 0");
  CHECK_FAILS(prefix_router_add_instance(router, NULL, &id), PREFIX_ROUTER_INVALID_ARGUMENT,
              "options is NULL");
  CHECK_FAILS(prefix_router_add_instance(router, &options, NULL), PREFIX_ROUTER_INVALID_ARGUMENT,
              "instance is NULL");
  CHECK_FAILS(prefix_router_add_instance(NULL, &options, &id), PREFIX_ROUTER_INVALID_ARGUMENT,
              "router is NULL");
  CHECK(instance_count(router) == 1);
  prefix_router_destroy(router);
}

static void max_instances(void) {
  uint64_t id;
  prefix_router* router;
  prefix_router_options options = default_options();
  prefix_router_instance_options instance = named("b");
  options.max_instances = 1;
  CHECK_OK(prefix_router_create(&options, &router));
  add_instance(router, "a");
  CHECK_FAILS(prefix_router_add_instance(router, &instance, &id), PREFIX_ROUTER_RESOURCE_EXHAUSTED,
              "max_instances is 1");
  prefix_router_destroy(router);
}

static void removed(void) {
  uint64_t ids[2], chosen;
  uint32_t tokens[64];
  int i;
  prefix_router* router = make_router(2, ids, NULL);
  prefix_router_engine_load load;
  memset(&load, 0, sizeof load);
  load.struct_size = sizeof load;
  fill_tokens(tokens, 64, 1);
  CHECK_OK(prefix_router_remove_instance(router, ids[0]));
  CHECK_FAILS(prefix_router_remove_instance(router, ids[0]), PREFIX_ROUTER_NOT_FOUND, "instance 0");
  CHECK_FAILS(prefix_router_set_instance_state(router, ids[0], PREFIX_ROUTER_DOWN, 0),
              PREFIX_ROUTER_NOT_FOUND, "instance 0");
  CHECK_FAILS(prefix_router_report_load(router, ids[0], &load), PREFIX_ROUTER_NOT_FOUND,
              "instance 0");
  for (i = 0; i < 8; ++i) {
    CHECK_OK(prefix_router_route(router, tokens, 64, &chosen));
    CHECK(chosen == ids[1]);
  }
  CHECK(add_instance(router, "a") != ids[0]);  // the slot is used again, the number is not
  CHECK_FAILS(prefix_router_remove_instance(router, ids[0]), PREFIX_ROUTER_NOT_FOUND, "instance 0");
  CHECK_FAILS(prefix_router_remove_instance(router, 0), PREFIX_ROUTER_NOT_FOUND, "instance 0.0");
  CHECK_FAILS(prefix_router_remove_instance(router, UINT64_MAX), PREFIX_ROUTER_NOT_FOUND,
              "instance 4294967295.4294967295");
  CHECK_FAILS(prefix_router_remove_instance(NULL, ids[1]), PREFIX_ROUTER_INVALID_ARGUMENT,
              "router is NULL");
  prefix_router_destroy(router);
}

static void states(void) {
  int64_t nanos = 0;
  uint64_t id, chosen;
  uint32_t tokens[16] = {0};
  prefix_router* router = make_router(1, &id, &nanos);
  CHECK_OK(prefix_router_set_instance_state(router, id, PREFIX_ROUTER_DRAINING, 0));
  CHECK_FAILS(prefix_router_route(router, tokens, 16, &chosen), PREFIX_ROUTER_UNAVAILABLE,
              "0 are ready");
  CHECK(chosen == 0);
  CHECK(stats_of(router, id).state == PREFIX_ROUTER_DRAINING);
  CHECK_OK(prefix_router_set_instance_state(router, id, PREFIX_ROUTER_DOWN, 1.5));
  nanos = 1400000000;
  CHECK_FAILS(prefix_router_route(router, tokens, 16, &chosen), PREFIX_ROUTER_UNAVAILABLE, "");
  nanos = 1600000000;
  CHECK_OK(prefix_router_route(router, tokens, 16, &chosen));
  CHECK(chosen == id);

  CHECK_FAILS(prefix_router_set_instance_state(router, id, 3, 0), PREFIX_ROUTER_INVALID_ARGUMENT,
              "state must be ready, draining or down, got 3");
  CHECK_FAILS(prefix_router_set_instance_state(router, id, -1, 0), PREFIX_ROUTER_INVALID_ARGUMENT,
              "got -1");
  CHECK_FAILS(prefix_router_set_instance_state(router, id, PREFIX_ROUTER_DOWN, -2),
              PREFIX_ROUTER_INVALID_ARGUMENT, "for_s");
  CHECK_FAILS(prefix_router_set_instance_state(router, id, PREFIX_ROUTER_DOWN, NAN),
              PREFIX_ROUTER_INVALID_ARGUMENT, "for_s");
  CHECK_FAILS(prefix_router_set_instance_state(NULL, id, PREFIX_ROUTER_DOWN, 0),
              PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  CHECK(stats_of(router, id).state == PREFIX_ROUTER_READY);
  prefix_router_destroy(router);
}

static void reports(void) {
  int64_t nanos = 0;
  uint64_t ids[2], chosen;
  uint32_t tokens[16] = {0};
  int i;
  prefix_router* router = make_router(2, ids, &nanos);
  prefix_router_engine_load load;
  memset(&load, 0, sizeof load);
  load.struct_size = sizeof load;

  // Nothing is reported: nothing is known.
  load.running_requests = 1000;
  load.waiting_requests = -1;
  load.kv_usage = -3;
  CHECK_OK(prefix_router_report_load(router, ids[0], &load));

  load.reported = PREFIX_ROUTER_REPORTS_RUNNING | PREFIX_ROUTER_REPORTS_WAITING |
                  PREFIX_ROUTER_REPORTS_KV_USAGE;
  load.waiting_requests = 50;
  load.kv_usage = 0.5;
  load.age_s = 0.5;
  CHECK_OK(prefix_router_report_load(router, ids[0], &load));
  CHECK(stats_of(router, ids[0]).report_age_s == 0.5);
  CHECK(stats_of(router, ids[1]).report_age_s < 0);
  for (i = 0; i < 4; ++i) {
    tokens[0] = (uint32_t)i;
    CHECK_OK(prefix_router_route(router, tokens, 16, &chosen));
    CHECK(chosen == ids[1]);
  }
  prefix_router_destroy(router);
}

static void reports_refused(void) {
  uint64_t id;
  prefix_router* router = make_router(1, &id, NULL);
  prefix_router_engine_load load;
  memset(&load, 0, sizeof load);
  load.struct_size = sizeof load;
  load.reported = PREFIX_ROUTER_REPORTS_RUNNING;
  load.running_requests = -4;
  CHECK_FAILS(prefix_router_report_load(router, id, &load), PREFIX_ROUTER_INVALID_ARGUMENT,
              "running_requests must be 0 or more, got -4");
  load.reported = PREFIX_ROUTER_REPORTS_WAITING;
  load.waiting_requests = INT64_MIN;
  CHECK_FAILS(prefix_router_report_load(router, id, &load), PREFIX_ROUTER_INVALID_ARGUMENT,
              "waiting_requests must be 0 or more");
  load.reported = PREFIX_ROUTER_REPORTS_KV_USAGE;
  load.kv_usage = 1.5;
  CHECK_FAILS(prefix_router_report_load(router, id, &load), PREFIX_ROUTER_INVALID_ARGUMENT,
              "kv_usage");
  load.kv_usage = -0.5;
  CHECK_FAILS(prefix_router_report_load(router, id, &load), PREFIX_ROUTER_INVALID_ARGUMENT,
              "kv_usage must be 0 to 1, got -0.5");
  load.kv_usage = NAN;
  CHECK_FAILS(prefix_router_report_load(router, id, &load), PREFIX_ROUTER_INVALID_ARGUMENT,
              "kv_usage");
  load.kv_usage = 0.5;
  load.age_s = -1;
  CHECK_FAILS(prefix_router_report_load(router, id, &load), PREFIX_ROUTER_INVALID_ARGUMENT,
              "age_s must be 0 or more, got -1");
  load.age_s = 0;
  load.reported = 8;
  CHECK_FAILS(prefix_router_report_load(router, id, &load), PREFIX_ROUTER_UNIMPLEMENTED,
              "reported has bits that this library does not know: 8");
  load.reported = 0;
  load.reserved = 1;
  CHECK_FAILS(prefix_router_report_load(router, id, &load), PREFIX_ROUTER_UNIMPLEMENTED,
              "reserved");
  CHECK_FAILS(prefix_router_report_load(router, id, NULL), PREFIX_ROUTER_INVALID_ARGUMENT,
              "load is NULL");
  CHECK_FAILS(prefix_router_report_load(NULL, id, &load), PREFIX_ROUTER_INVALID_ARGUMENT,
              "router is NULL");
  CHECK(stats_of(router, id).report_age_s < 0);
  prefix_router_destroy(router);
}

static void find_refused(void) {
  uint64_t id;
  prefix_router* router = make_router(1, &id, NULL);
  CHECK_FAILS(prefix_router_find_instance(router, NULL, 4, 0, &id), PREFIX_ROUTER_INVALID_ARGUMENT,
              "name is NULL with a size of 4");
  CHECK_FAILS(prefix_router_find_instance(router, "a", 1, 0, NULL), PREFIX_ROUTER_INVALID_ARGUMENT,
              "instance is NULL");
  CHECK_FAILS(prefix_router_find_instance(NULL, "a", 1, 0, &id), PREFIX_ROUTER_INVALID_ARGUMENT,
              "router is NULL");
  CHECK_FAILS(prefix_router_find_instance(router, NULL, 0, 0, &id), PREFIX_ROUTER_NOT_FOUND, "");
  prefix_router_destroy(router);
}

const test_case instance_tests[] = {
    {"instances are added with their options, and found by name and rank", add_and_find},
    {"a name goes to a buffer that has room for it", name_buffer},
    {"a malformed or second instance is refused, and none is added", add_refused},
    {"there are no more instances than max_instances", max_instances},
    {"the number of a removed instance means nothing, for good", removed},
    {"a state holds as long as it is told to", states},
    {"what an engine reports counts, what it does not report does not", reports},
    {"a malformed report is refused by member and value", reports_refused},
    {"a search without a name or a place for the result is refused", find_refused},
    {NULL, NULL}};
