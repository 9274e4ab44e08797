// Callers with older and newer headers: structs of other sizes, in and out.
#include <stdlib.h>
#include <string.h>

#include "check.h"

enum { kNewer = 16 };  // bytes that a newer header has added

// Calls each function that takes an options struct, with the struct of `size` bytes that `fill` has
// made, and checks the status.
typedef struct newer_options {
  prefix_router_options known;
  char unknown[kNewer];
} newer_options;
typedef struct newer_instance_options {
  prefix_router_instance_options known;
  char unknown[kNewer];
} newer_instance_options;
typedef struct newer_load {
  prefix_router_engine_load known;
  char unknown[kNewer];
} newer_load;
typedef struct newer_request {
  prefix_router_request known;
  char unknown[kNewer];
} newer_request;
typedef struct newer_finish_info {
  prefix_router_finish_info known;
  char unknown[kNewer];
} newer_finish_info;

typedef struct newer_engine_options {
  prefix_router_engine_metrics_options known;
  char unknown[kNewer];
} newer_engine_options;
typedef struct newer_rank {
  prefix_router_engine_rank_metrics known;
  char unknown[kNewer];
} newer_rank;
typedef struct newer_metrics_options {
  prefix_router_metrics_options known;
  char unknown[kNewer];
} newer_metrics_options;
typedef struct newer_source {
  prefix_router_metrics_source known;
  char unknown[kNewer];
} newer_source;

static const char kPage[] =
    "vllm:num_requests_running{engine=\"0\"} 4\nvllm:num_requests_running{engine=\"1\"} 5\n";
enum { kPageSize = sizeof kPage - 1 };

static int32_t create(const prefix_router_options* options) {
  prefix_router* router = NULL;
  const int32_t status = prefix_router_create(options, &router);
  CHECK((router != NULL) == (status == PREFIX_ROUTER_OK));
  prefix_router_destroy(router);
  return status;
}

static void newer_caller(void) {
  uint64_t id, lease;
  uint32_t tokens[16] = {0};
  prefix_router* router = make_router(1, &id, NULL);
  newer_options options;
  newer_instance_options instance;
  newer_load load;
  newer_request request;
  newer_finish_info info;
  prefix_router_decision decision = empty_decision();
  memset(&options, 0, sizeof options);
  memset(&instance, 0, sizeof instance);
  memset(&load, 0, sizeof load);
  memset(&request, 0, sizeof request);
  memset(&info, 0, sizeof info);
  options.known.struct_size = sizeof options;
  instance.known.struct_size = sizeof instance;
  instance.known.name = "b";
  instance.known.name_size = 1;
  load.known.struct_size = sizeof load;
  request.known.struct_size = sizeof request;
  request.known.tokens = tokens;
  request.known.token_count = 16;
  info.known.struct_size = sizeof info;

  // A member that the library does not know is set: even the last byte of it counts.
  options.unknown[kNewer - 1] = instance.unknown[kNewer - 1] = load.unknown[kNewer - 1] = 1;
  request.unknown[kNewer - 1] = info.unknown[kNewer - 1] = 1;
  CHECK_FAILS(create(&options.known), PREFIX_ROUTER_UNIMPLEMENTED, "options: the library knows");
  CHECK_FAILS(prefix_router_add_instance(router, &instance.known, &id), PREFIX_ROUTER_UNIMPLEMENTED,
              "options: the library knows");
  id = add_instance(router, "c");
  CHECK_FAILS(prefix_router_report_load(router, id, &load.known), PREFIX_ROUTER_UNIMPLEMENTED,
              "load: the library knows");
  CHECK_FAILS(prefix_router_route_request(router, &request.known, &decision),
              PREFIX_ROUTER_UNIMPLEMENTED, "request: the library knows");
  CHECK_FAILS(prefix_router_acquire(router, &request.known, &decision, &lease),
              PREFIX_ROUTER_UNIMPLEMENTED, "request: the library knows");
  CHECK_FAILS(prefix_router_finish(router, 1, &info.known), PREFIX_ROUTER_UNIMPLEMENTED,
              "info: the library knows");
  CHECK(requests_routed(router) == 0);

  // They are 0: the library does what the caller means.
  options.unknown[kNewer - 1] = instance.unknown[kNewer - 1] = load.unknown[kNewer - 1] = 0;
  request.unknown[kNewer - 1] = info.unknown[kNewer - 1] = 0;
  CHECK_OK(create(&options.known));
  CHECK_OK(prefix_router_add_instance(router, &instance.known, &id));
  CHECK_OK(prefix_router_report_load(router, id, &load.known));
  CHECK_OK(prefix_router_route_request(router, &request.known, &decision));
  CHECK_OK(prefix_router_acquire(router, &request.known, &decision, &lease));
  CHECK_OK(prefix_router_finish(router, lease, &info.known));
  prefix_router_destroy(router);
}

static void newer_caller_metrics(void) {
  uint64_t ids[2];
  uint32_t reported = 0;
  size_t count, size;
  prefix_router* router = make_router(2, ids, NULL);
  newer_engine_options engine_options;
  newer_rank ranks[2];
  newer_metrics_options options;
  newer_source sources[2];
  memset(&engine_options, 0, sizeof engine_options);
  memset(ranks, 0, sizeof ranks);
  memset(&options, 0, sizeof options);
  memset(sources, 0, sizeof sources);
  engine_options.known.struct_size = sizeof engine_options;
  ranks[0].known.struct_size = sizeof ranks[0];  // for both, as in sources
  ranks[1].known.rank = 1;
  ranks[1].known.running_requests = 5;
  options.known.struct_size = sizeof options;
  sources[0].known.struct_size = sizeof sources[0];
  sources[0].known.router = sources[1].known.router = router;
#define PARSE_NEWER() \
  prefix_router_parse_engine_metrics(kPage, kPageSize, &engine_options.known, NULL, NULL, 0, &count)
#define REPORT_NEWER() \
  prefix_router_report_engine_metrics(router, "a", 1, &ranks[0].known, 2, 0, &reported)
#define RENDER_NEWER() prefix_router_render_metrics(router, &options.known, NULL, 0, &size)
#define RENDER_NEWER_SOURCES(count) \
  prefix_router_render_metrics_of(&sources[0].known, count, NULL, NULL, 0, &size)
  engine_options.unknown[kNewer - 1] = ranks[1].unknown[kNewer - 1] = 1;
  options.unknown[kNewer - 1] = sources[1].unknown[kNewer - 1] = 1;
  CHECK_FAILS(PARSE_NEWER(), PREFIX_ROUTER_UNIMPLEMENTED, "options: the library knows");
  CHECK_FAILS(REPORT_NEWER(), PREFIX_ROUTER_UNIMPLEMENTED, "ranks[1]: the library knows");
  CHECK_FAILS(RENDER_NEWER(), PREFIX_ROUTER_UNIMPLEMENTED, "options: the library knows");
  CHECK_FAILS(RENDER_NEWER_SOURCES(2), PREFIX_ROUTER_UNIMPLEMENTED,
              "sources[1]: the library knows");
  ranks[0].unknown[0] = 1;
  CHECK_FAILS(prefix_router_report_rank_metrics(router, ids[1], &ranks[0].known, 0),
              PREFIX_ROUTER_UNIMPLEMENTED, "rank: the library knows");
  CHECK(reported == 0);

  engine_options.unknown[kNewer - 1] = ranks[1].unknown[kNewer - 1] = ranks[0].unknown[0] = 0;
  options.unknown[kNewer - 1] = sources[1].unknown[kNewer - 1] = 0;
  CHECK_FAILS(PARSE_NEWER(), PREFIX_ROUTER_OUT_OF_RANGE, "2 are needed");
  CHECK_OK(REPORT_NEWER());
  CHECK(reported == 1);  // of "a" there is rank 0 only
  CHECK_OK(prefix_router_report_rank_metrics(router, ids[1], &ranks[0].known, 0));
  CHECK_FAILS(RENDER_NEWER(), PREFIX_ROUTER_OUT_OF_RANGE, "are needed");
  CHECK_FAILS(RENDER_NEWER_SOURCES(2), PREFIX_ROUTER_INVALID_ARGUMENT, "the same labels");
  CHECK_FAILS(RENDER_NEWER_SOURCES(1), PREFIX_ROUTER_OUT_OF_RANGE, "are needed");
  prefix_router_destroy(router);
}

// Allocates a result struct of `size` bytes, all but struct_size filled with 0xEE.
static void* make_result(size_t size) {
  void* result = malloc(size);
  if (result == NULL) abort();
  memset(result, 0xEE, size);
  memcpy(result, &size, sizeof size);
  return result;
}

static int all_zero(const void* data, size_t begin, size_t end) {
  const char* bytes = data;
  while (begin < end && bytes[begin] == 0) ++begin;
  return begin == end;
}

// What the library does not know of a result is 0.
static void check_result(const void* result, size_t known, size_t size) {
  size_t written;
  memcpy(&written, result, sizeof written);
  CHECK(written == size);
  CHECK(all_zero(result, known, size));
}

static void newer_caller_results(void) {
  uint64_t ids[2], lease;
  uint32_t tokens[16] = {0};
  size_t count = 0, i;
  prefix_router* router = make_router(2, ids, NULL);
  prefix_router_request request = token_request(tokens, 16);
#define MAKE(type, name)                            \
  const size_t name##_size = sizeof(type) + kNewer; \
  type* name = make_result(name##_size)
  MAKE(prefix_router_options, options);
  MAKE(prefix_router_decision, decision);
  MAKE(prefix_router_score_table, table);
  MAKE(prefix_router_stats, stats);
  const size_t row_size = sizeof(prefix_router_score_row) + kNewer;
  char* rows = make_result(2 * row_size);
  const size_t instance_size = sizeof(prefix_router_instance_stats) + kNewer;
  char* instances = make_result(2 * instance_size);
  memcpy(rows, &row_size, sizeof row_size);
  memcpy(instances, &instance_size, sizeof instance_size);

  CHECK_OK(prefix_router_get_options(router, options));
  check_result(options, sizeof *options, options_size);
  CHECK(options->block_size == 16);
  CHECK_OK(prefix_router_acquire(router, &request, decision, &lease));
  check_result(decision, sizeof *decision, decision_size);
  CHECK(decision->prompt_tokens == 16);
  CHECK_OK(prefix_router_route_request(router, &request, decision));
  check_result(decision, sizeof *decision, decision_size);
  CHECK_OK(prefix_router_score(router, &request, table, (prefix_router_score_row*)rows, 2, &count));
  check_result(table, sizeof *table, table_size);
  CHECK(table->prompt_tokens == 16);
  CHECK_OK(
      prefix_router_get_stats(router, stats, (prefix_router_instance_stats*)instances, 2, &count));
  check_result(stats, sizeof *stats, stats_size);
  CHECK(stats->requests == 2);
  for (i = 0; i < 2; ++i) {  // rows lie as far apart as the caller's structs are long
    prefix_router_score_row row;
    prefix_router_instance_stats instance;
    check_result(rows + i * row_size, sizeof row, row_size);
    memcpy(&row, rows + i * row_size, sizeof row);
    CHECK(row.instance == ids[i]);
    check_result(instances + i * instance_size, sizeof instance, instance_size);
    memcpy(&instance, instances + i * instance_size, sizeof instance);
    CHECK(instance.instance == ids[i]);
  }
  free(options);
  free(decision);
  free(table);
  free(stats);
  free(rows);
  free(instances);
  prefix_router_destroy(router);
}

static void newer_caller_pages(void) {
  size_t count = 0, i;
  const size_t metrics_size = sizeof(prefix_router_engine_metrics) + kNewer;
  prefix_router_engine_metrics* metrics = make_result(metrics_size);
  const size_t rank_size = sizeof(prefix_router_engine_rank_metrics) + kNewer;
  char* ranks = make_result(2 * rank_size);
  memcpy(ranks, &rank_size, sizeof rank_size);
  CHECK_OK(prefix_router_parse_engine_metrics(
      kPage, kPageSize, NULL, metrics, (prefix_router_engine_rank_metrics*)ranks, 2, &count));
  check_result(metrics, sizeof *metrics, metrics_size);
  CHECK(metrics->samples == 2);
  for (i = 0; i < 2; ++i) {
    prefix_router_engine_rank_metrics rank;
    check_result(ranks + i * rank_size, sizeof rank, rank_size);
    memcpy(&rank, ranks + i * rank_size, sizeof rank);
    CHECK(rank.rank == i && rank.running_requests == (int64_t)(4 + i));
  }
  free(metrics);
  free(ranks);
}

// Of the structs that ABI 1.1 has made longer, callers of 1.0 pass the beginnings.
static void older_caller(void) {
  const size_t options_size = offsetof(prefix_router_options, latency_interval_s);
  const size_t stats_size = offsetof(prefix_router_stats, unavailable);
  const size_t row_size = offsetof(prefix_router_instance_stats, decided_by_lowest_cost);
  const size_t instance_size = offsetof(prefix_router_instance_options, model);
  const size_t decision_size = offsetof(prefix_router_decision, cached_credit_tokens);
  const size_t score_size = offsetof(prefix_router_score_row, cached_credit_tokens);
  // In memory of just that size, so that the address sanitizer sees what goes past it. volatile:
  // the compiler would warn that it is less than a whole struct.
  prefix_router_options* volatile options = make_result(options_size);
  prefix_router_stats* volatile stats = make_result(stats_size);
  char* rows = make_result(2 * row_size);
  prefix_router_instance_options* volatile instance = make_result(instance_size);
  prefix_router_decision* volatile decision = make_result(decision_size);
  char* scores = make_result(2 * score_size);
  uint32_t tokens[16] = {0};
  const prefix_router_request request = token_request(tokens, 16);
  prefix_router_options whole = default_options();
  prefix_router_instance_stats second;
  prefix_router* router = NULL;
  size_t count, written;
  uint64_t id;
  memset(options, 0, options_size);
  options->struct_size = options_size;
  options->block_size = 32;
  CHECK_OK(prefix_router_create(options, &router));
  CHECK_OK(prefix_router_get_options(router, &whole));
  CHECK(whole.block_size == 32 && whole.latency_interval_s == 100e-6);
  memset(&options->block_size, 0xEE, options_size - offsetof(prefix_router_options, block_size));
  CHECK_OK(prefix_router_get_options(router, options));
  CHECK(options->struct_size == options_size && options->block_size == 32);
  CHECK(options->clock_user_data == NULL);

  add_instance(router, "a");
  id = add_instance(router, "b");
  memcpy(rows, &row_size, sizeof row_size);
  CHECK_OK(prefix_router_get_stats(router, stats, (prefix_router_instance_stats*)rows, 2, &count));
  CHECK(stats->struct_size == stats_size && stats->requests == 0 && stats->sessions == 0);
  memset(&second, 0, sizeof second);
  memcpy(&second, rows + row_size, row_size);
  memcpy(&written, rows + row_size, sizeof written);
  CHECK(count == 2 && written == row_size);
  CHECK(second.instance == id && second.capacity_blocks == 65536 && second.reserved == 0);

  memset(instance, 0, instance_size);
  instance->struct_size = instance_size;
  instance->name = "c";
  instance->name_size = 1;
  CHECK_OK(prefix_router_add_instance(router, instance, &id));
  CHECK_OK(prefix_router_remove_instance(router, id));
  CHECK_OK(prefix_router_route_request(router, &request, decision));
  CHECK(decision->struct_size == decision_size && decision->prompt_tokens == 16);
  CHECK(decision->candidates == 2 && decision->reserved == 0);
  memcpy(scores, &score_size, sizeof score_size);
  CHECK_OK(
      prefix_router_score(router, &request, NULL, (prefix_router_score_row*)scores, 2, &count));
  memcpy(&written, scores + score_size, sizeof written);
  CHECK(count == 2 && written == score_size);
  prefix_router_destroy(router);

  options->struct_size = options_size - 1;
  CHECK_FAILS(create(options), PREFIX_ROUTER_INVALID_ARGUMENT, "options: struct_size must be");
  free(options);
  free(stats);
  free(rows);
  free(instance);
  free(decision);
  free(scores);
}

// The same of ABI 1.2.
static void previous_caller(void) {
  const size_t options_size = offsetof(prefix_router_options, routers);
  const size_t stats_size = offsetof(prefix_router_stats, requests_at_home);
  const size_t decision_size = offsetof(prefix_router_decision, home_tokens);
  const size_t score_size = offsetof(prefix_router_score_row, home_tokens);
  prefix_router_options* volatile options = make_result(options_size);
  prefix_router_stats* volatile stats = make_result(stats_size);
  prefix_router_decision* volatile decision = make_result(decision_size);
  char* scores = make_result(2 * score_size);
  uint32_t tokens[16] = {0};
  const prefix_router_request request = token_request(tokens, 16);
  prefix_router_options whole = default_options();
  prefix_router_score_row row;
  prefix_router* router = NULL;
  size_t count, i;
  memset(options, 0, options_size);
  options->struct_size = options_size;
  options->external_tier_weight = 0.25;
  CHECK_OK(prefix_router_create(options, &router));
  CHECK_OK(prefix_router_get_options(router, &whole));
  CHECK(whole.external_tier_weight == 0.25 && whole.routers == 1);
  CHECK_OK(prefix_router_get_options(router, options));
  CHECK(options->struct_size == options_size && options->external_tier_weight == 0.25);

  add_instance(router, "a");
  CHECK_OK(prefix_router_route_request(router, &request, decision));
  CHECK_OK(prefix_router_route_request(router, &request, decision));
  add_instance(router, "b");
  CHECK(decision->struct_size == decision_size && decision->cached_credit_tokens == 16);
  memcpy(scores, &score_size, sizeof score_size);
  CHECK_OK(
      prefix_router_score(router, &request, NULL, (prefix_router_score_row*)scores, 2, &count));
  for (i = 0; i < 2; ++i) {
    memset(&row, 0, sizeof row);
    memcpy(&row, scores + i * score_size, score_size);
    CHECK(row.struct_size == score_size);
    CHECK(row.cached_credit_tokens == (row.instance == decision->instance ? 16 : 0));
  }
  CHECK_OK(prefix_router_get_stats(router, stats, NULL, 0, NULL));
  CHECK(stats->struct_size == stats_size && stats->requests == 2);
  CHECK(stats->kv_events[PREFIX_ROUTER_KV_OUTCOMES - 1] == 0);
  prefix_router_destroy(router);
  free(options);
  free(stats);
  free(decision);
  free(scores);
}

static void impossible_sizes(void) {
  static const size_t sizes[] = {0, 1, sizeof(size_t), 65537, SIZE_MAX};
  uint64_t ids[2], lease;
  uint32_t reported = 99;
  uint32_t tokens[16] = {0};
  size_t i, count;
  prefix_router* router = make_router(2, ids, NULL);
  for (i = 0; i < sizeof sizes / sizeof sizes[0]; ++i) {
    const size_t size = sizes[i];
    prefix_router_options options = default_options();
    prefix_router_instance_options instance;
    prefix_router_engine_load load;
    prefix_router_request request = token_request(tokens, 16), good_request = request;
    prefix_router_decision decision = empty_decision(), good_decision = decision;
    prefix_router_finish_info info;
    prefix_router_score_table table;
    prefix_router_score_row rows[2];
    prefix_router_stats stats;
    prefix_router_instance_stats instances[2];
    prefix_router_engine_metrics_options engine_options;
    prefix_router_engine_metrics metrics;
    prefix_router_engine_rank_metrics ranks[2];
    prefix_router_metrics_options metrics_options;
    prefix_router_metrics_source sources[2];
    memset(&engine_options, 0, sizeof engine_options);
    memset(ranks, 0, sizeof ranks);
    memset(&metrics_options, 0, sizeof metrics_options);
    memset(sources, 0, sizeof sources);
    engine_options.struct_size = metrics.struct_size = ranks[0].struct_size = size;
    metrics_options.struct_size = sources[0].struct_size = size;
    memset(&instance, 0, sizeof instance);
    memset(&load, 0, sizeof load);
    memset(&info, 0, sizeof info);
    instance.name = "c";
    instance.name_size = 1;
    options.struct_size = instance.struct_size = load.struct_size = request.struct_size = size;
    decision.struct_size = info.struct_size = table.struct_size = rows[0].struct_size = size;
    stats.struct_size = instances[0].struct_size = size;
#define IMPOSSIBLE(call, name) \
  CHECK_FAILS(call, PREFIX_ROUTER_INVALID_ARGUMENT, name ": struct_size must be the size of")
    IMPOSSIBLE(create(&options), "options");
    IMPOSSIBLE(prefix_router_get_options(router, &options), "options");
    IMPOSSIBLE(prefix_router_add_instance(router, &instance, &lease), "options");
    IMPOSSIBLE(prefix_router_report_load(router, ids[0], &load), "load");
    IMPOSSIBLE(prefix_router_route_request(router, &request, &good_decision), "request");
    IMPOSSIBLE(prefix_router_route_request(router, &good_request, &decision), "decision");
    IMPOSSIBLE(prefix_router_acquire(router, &request, &good_decision, &lease), "request");
    IMPOSSIBLE(prefix_router_acquire(router, &good_request, &decision, &lease), "decision");
    IMPOSSIBLE(prefix_router_finish(router, 1, &info), "info");
    IMPOSSIBLE(prefix_router_score(router, &request, NULL, NULL, 0, &count), "request");
    IMPOSSIBLE(prefix_router_score(router, &good_request, &table, NULL, 0, &count), "table");
    IMPOSSIBLE(prefix_router_score(router, &good_request, NULL, rows, 2, &count), "rows[0]");
    IMPOSSIBLE(prefix_router_get_stats(router, &stats, NULL, 0, NULL), "stats");
    IMPOSSIBLE(prefix_router_get_stats(router, NULL, instances, 2, &count), "rows[0]");
    IMPOSSIBLE(prefix_router_block_keys(router, &request, NULL, 0, &count), "request");
    IMPOSSIBLE(prefix_router_parse_engine_metrics(kPage, kPageSize, &engine_options, NULL, NULL, 0,
                                                  &count),
               "options");
    IMPOSSIBLE(
        prefix_router_parse_engine_metrics(kPage, kPageSize, NULL, &metrics, NULL, 0, &count),
        "metrics");
    IMPOSSIBLE(prefix_router_parse_engine_metrics(kPage, kPageSize, NULL, NULL, ranks, 2, &count),
               "ranks[0]");
    IMPOSSIBLE(prefix_router_report_engine_metrics(router, "a", 1, ranks, 2, 0, &reported),
               "ranks[0]");
    IMPOSSIBLE(prefix_router_report_rank_metrics(router, ids[0], ranks, 0), "rank");
    IMPOSSIBLE(prefix_router_render_metrics(router, &metrics_options, NULL, 0, &count), "options");
    IMPOSSIBLE(prefix_router_render_metrics_of(sources, 2, NULL, NULL, 0, &count), "sources[0]");
  }
  CHECK(reported == 99);
  CHECK(requests_routed(router) == 0);
  prefix_router_destroy(router);
}

const test_case struct_size_tests[] = {
    {"of a newer caller, zeros are accepted and anything else is refused", newer_caller},
    {"of a newer caller's metrics too, also in an array", newer_caller_metrics},
    {"for a newer caller, what the library does not know of a result is 0", newer_caller_results},
    {"nor of what a page says", newer_caller_pages},
    {"a caller of ABI 1.0 gets what it knows, and nothing behind it", older_caller},
    {"so does a caller of ABI 1.2", previous_caller},
    {"a struct_size that no struct has is refused, and nothing changes", impossible_sizes},
    {NULL, NULL}};
