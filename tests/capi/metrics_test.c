// Metrics of engines, read and reported, and those of the router, rendered.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

// Two ranks, as vLLM tells of them, with a line that is none.
static const char kPage[] =
    "# TYPE vllm:num_requests_running gauge\n"
    "vllm:num_requests_running{engine=\"0\",model_name=\"m\"} 12.0\n"
    "vllm:num_requests_running{engine=\"1\",model_name=\"m\"} 7.0\n"
    "vllm:num_requests_waiting{engine=\"0\",model_name=\"m\"} 3.0\n"
    "vllm:kv_cache_usage_perc{engine=\"0\",model_name=\"m\"} 0.4375\n"
    "vllm:kv_cache_usage_perc{engine=\"1\",model_name=\"m\"} NaN\n"
    "vllm:cache_config_info{block_size=\"16\",engine=\"0\",num_gpu_blocks=\"28966\"} 1.0\n"
    "vllm:prefix_cache_queries_total{engine=\"0\",model_name=\"m\"} 1048576.0\n"
    "vllm:prefix_cache_queries_total{engine=\"1\",model_name=\"m\"} 524288.0\n"
    "vllm:prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 786432.0\n"
    "what is this\n"
    "vllm:external_prefix_cache_hits_total{engine=\"0\",model_name=\"m\"} 4096.0\n";

#define SIZED(type, name)         \
  type name;                      \
  memset(&name, 0, sizeof(name)); \
  name.struct_size = sizeof(name)

// Parses a page without options into two ranks.
static int32_t parse(const char* page, prefix_router_engine_rank_metrics* ranks, size_t* count) {
  ranks[0].struct_size = sizeof ranks[0];
  return prefix_router_parse_engine_metrics(page, PREFIX_ROUTER_NUL_TERMINATED, NULL, NULL, ranks,
                                            2, count);
}

static uint64_t add_rank(prefix_router* router, const char* name, uint32_t rank) {
  uint64_t instance = 0;
  SIZED(prefix_router_instance_options, options);
  options.name = name;
  options.name_size = PREFIX_ROUTER_NUL_TERMINATED;
  options.rank = rank;
  CHECK_OK(prefix_router_add_instance(router, &options, &instance));
  return instance;
}

// Of the instance in the given place. At most four.
static prefix_router_instance_stats stats_of(const prefix_router* router, size_t place) {
  prefix_router_instance_stats rows[4];
  size_t count = 0;
  memset(rows, 0, sizeof rows);
  rows[0].struct_size = sizeof rows[0];
  CHECK_OK(prefix_router_get_stats(router, NULL, rows, 4, &count));
  CHECK(place < count);
  return rows[place];
}

// ---- Engines ------------------------------------------------------------------------------------

static void parsing(void) {
  prefix_router_engine_rank_metrics ranks[3];
  size_t count = 0;
  SIZED(prefix_router_engine_metrics, metrics);
  memset(ranks, 0x55, sizeof ranks);
  memset(metrics.first_malformed_reason, 0x55, sizeof metrics.first_malformed_reason);
  ranks[0].struct_size = sizeof ranks[0];
  CHECK_OK(prefix_router_parse_engine_metrics(kPage, sizeof kPage - 1, NULL, &metrics, ranks, 3,
                                              &count));
  CHECK(count == 2);
  CHECK(metrics.struct_size == sizeof metrics && metrics.reserved == 0);
  CHECK(metrics.engine == PREFIX_ROUTER_VLLM);
  CHECK(metrics.prompt_tokens == 1048576 + 524288 && metrics.cached_tokens == 786432);
  CHECK(metrics.external_cached_tokens == 4096);
  CHECK(metrics.samples == 10 && metrics.unusable_values == 1);
  CHECK(metrics.malformed_lines == 1 && metrics.first_malformed_line == 11);
  CHECK(strcmp(metrics.first_malformed_reason, "the value is not a number") == 0);

  CHECK(ranks[0].struct_size == sizeof ranks[0] && ranks[0].rank == 0 && ranks[0].reserved == 0);
  CHECK(ranks[0].running_requests == 12 && ranks[0].waiting_requests == 3);
  CHECK(ranks[0].kv_usage == 0.4375);
  CHECK(ranks[0].block_size == 16 && ranks[0].capacity_tokens == 28966 * 16);
  CHECK(ranks[0].prompt_tokens == 1048576 && ranks[0].cached_tokens == 786432);
  CHECK(ranks[0].external_cached_tokens == 4096);
  // What the page does not say of the second one is negative.
  CHECK(ranks[1].struct_size == sizeof ranks[1] && ranks[1].rank == 1);
  CHECK(ranks[1].running_requests == 7 && ranks[1].waiting_requests == -1);
  CHECK(ranks[1].kv_usage == -1 && ranks[1].block_size == -1 && ranks[1].capacity_tokens == -1);
  CHECK(ranks[1].prompt_tokens == 524288 && ranks[1].cached_tokens == -1);
  CHECK(ranks[1].external_cached_tokens == -1);
  CHECK(ranks[2].rank == 0x55555555);

  CHECK_OK(parse("sglang:num_running_reqs 4\n", ranks, &count));
  CHECK(count == 1 && ranks[0].rank == 0 && ranks[0].running_requests == 4);
}

static void parse_options(void) {
  prefix_router_engine_rank_metrics ranks[2];
  size_t count = 0;
  SIZED(prefix_router_engine_metrics_options, options);
  SIZED(prefix_router_engine_metrics, metrics);
  const char* page =
      "vllm:num_requests_running{model_name=\"m\"} 1\n"
      "vllm:num_requests_running{model_name=\"another\"} 2\n";
  ranks[0].struct_size = sizeof ranks[0];
#define PARSE(page)                                                                          \
  prefix_router_parse_engine_metrics(page, PREFIX_ROUTER_NUL_TERMINATED, &options, &metrics, \
                                     ranks, 2, &count)
  CHECK_OK(PARSE(page));
  CHECK(ranks[0].running_requests == 3);
  options.model = "another one";
  options.model_size = strlen("another");
  CHECK_OK(PARSE(page));
  CHECK(ranks[0].running_requests == 2);
  options.model_size = PREFIX_ROUTER_NUL_TERMINATED;
  CHECK_FAILS(PARSE(page), PREFIX_ROUTER_NOT_FOUND, "for model \"another one\"");

  options.model_size = 0;
  options.max_line_bytes = strlen("vllm:num_requests_running{model_name=\"m\"} 1");
  CHECK_OK(PARSE(page));
  CHECK(ranks[0].running_requests == 1 && metrics.malformed_lines == 1);
  options.max_line_bytes = 0;
  options.max_bytes = strlen(page);
  CHECK_OK(PARSE(page));
  options.max_bytes -= 1;
  CHECK_FAILS(PARSE(page), PREFIX_ROUTER_INVALID_ARGUMENT, "max_bytes is 93");
  options.max_bytes = 0;
  options.max_ranks = 1;
  CHECK_FAILS(PARSE(kPage), PREFIX_ROUTER_INVALID_ARGUMENT, "has 2 ranks, max_ranks is 1");
  options.max_ranks = 65537;
  CHECK_FAILS(PARSE(page), PREFIX_ROUTER_INVALID_ARGUMENT, "max_ranks must be 1 to 65536, got 655");
  options.max_ranks = 0;
  options.model = NULL;
  options.model_size = 3;
  CHECK_FAILS(PARSE(page), PREFIX_ROUTER_INVALID_ARGUMENT, "model is NULL with a size of 3");
  options.model_size = 0;
  options.reserved = 1;
  CHECK_FAILS(PARSE(page), PREFIX_ROUTER_UNIMPLEMENTED, "reserved has bits");
}

static void parse_failures(void) {
  prefix_router_engine_rank_metrics ranks[2], before[2];
  size_t count = 9;
  SIZED(prefix_router_engine_metrics, metrics);
  metrics.samples = 77;
  memset(ranks, 0x55, sizeof ranks);
  ranks[0].struct_size = sizeof ranks[0];
  memcpy(before, ranks, sizeof ranks);
  CHECK_FAILS(prefix_router_parse_engine_metrics(kPage, PREFIX_ROUTER_NUL_TERMINATED, NULL,
                                                 &metrics, ranks, 1, &count),
              PREFIX_ROUTER_OUT_OF_RANGE, "capacity is 1, and 2 are needed");
  CHECK(count == 2);
  CHECK_FAILS(prefix_router_parse_engine_metrics(kPage, PREFIX_ROUTER_NUL_TERMINATED, NULL,
                                                 &metrics, NULL, 0, &count),
              PREFIX_ROUTER_OUT_OF_RANGE, "2 are needed");
  CHECK(count == 2);
  CHECK_FAILS(
      prefix_router_parse_engine_metrics("nonsense\nother 1\n", PREFIX_ROUTER_NUL_TERMINATED, NULL,
                                         &metrics, ranks, 2, &count),
      PREFIX_ROUTER_NOT_FOUND, "in 1 samples; 1 malformed lines, the first is 1");
  CHECK(count == 0);
  CHECK_FAILS(prefix_router_parse_engine_metrics(NULL, 0, NULL, &metrics, ranks, 2, &count),
              PREFIX_ROUTER_NOT_FOUND, "in 0 samples");
  CHECK_FAILS(prefix_router_parse_engine_metrics(NULL, 5, NULL, &metrics, ranks, 2, &count),
              PREFIX_ROUTER_INVALID_ARGUMENT, "page is NULL with a size of 5");
  CHECK_FAILS(prefix_router_parse_engine_metrics(NULL, PREFIX_ROUTER_NUL_TERMINATED, NULL, &metrics,
                                                 ranks, 2, &count),
              PREFIX_ROUTER_INVALID_ARGUMENT, "page is NULL");
  CHECK_FAILS(
      prefix_router_parse_engine_metrics(kPage, sizeof kPage - 1, NULL, &metrics, NULL, 2, &count),
      PREFIX_ROUTER_INVALID_ARGUMENT, "ranks is NULL with a capacity of 2");
  CHECK_FAILS(
      prefix_router_parse_engine_metrics(kPage, sizeof kPage - 1, NULL, &metrics, ranks, 2, NULL),
      PREFIX_ROUTER_INVALID_ARGUMENT, "count is NULL");
  CHECK(metrics.samples == 77 && memcmp(before, ranks, sizeof ranks) == 0);
}

static void reporting(void) {
  int64_t nanos = 0;
  prefix_router* router = make_router(0, NULL, &nanos);
  prefix_router_engine_rank_metrics ranks[2];
  prefix_router_instance_stats stats;
  uint32_t reported = 99;
  size_t count;
  CHECK_OK(parse(kPage, ranks, &count));
  add_rank(router, "10.0.0.7:8000", 1);
  add_rank(router, "10.0.0.7:8000", 0);
  add_rank(router, "10.0.0.8:8000", 0);
  CHECK_OK(prefix_router_report_engine_metrics(router, "10.0.0.7:8000 and more", 13, ranks, count,
                                               0.5, &reported));
  CHECK(reported == 2);
  stats = stats_of(router, 1);
  CHECK(stats.report_age_s == 0.5 && stats.reported_running_requests == 12);
  CHECK(stats.reported_waiting_requests == 3 && stats.reported_kv_usage == 0.4375);
  stats = stats_of(router, 0);
  CHECK(stats.report_age_s == 0.5 && stats.reported_running_requests == 7);
  CHECK(stats.reported_waiting_requests == -1 && stats.reported_kv_usage == -1);
  stats = stats_of(router, 2);
  CHECK(stats.report_age_s < 0 && stats.reported_running_requests == -1);

  // Without load, and without an instance: passed over. The count may be left out.
  ranks[0].running_requests = ranks[0].waiting_requests = -1;
  ranks[0].kv_usage = -1;
  ranks[1].rank = 5;
  CHECK_OK(prefix_router_report_engine_metrics(
      router, "10.0.0.7:8000", PREFIX_ROUTER_NUL_TERMINATED, ranks, 2, 0, &reported));
  CHECK(reported == 0);
  CHECK(stats_of(router, 1).report_age_s == 0.5);
  CHECK_OK(prefix_router_report_engine_metrics(router, "10.0.0.8:8000",
                                               PREFIX_ROUTER_NUL_TERMINATED, ranks + 1, 1, 0,
                                               NULL));  // its only rank
  CHECK(stats_of(router, 2).reported_running_requests == 7);
  prefix_router_destroy(router);
}

static void reporting_to_one(void) {
  uint64_t ids[2];
  int64_t nanos = 0;
  prefix_router* router = make_router(2, ids, &nanos);
  prefix_router_engine_rank_metrics ranks[2];
  size_t count;
  CHECK_OK(parse(kPage, ranks, &count));
  CHECK_OK(prefix_router_report_rank_metrics(router, ids[1], &ranks[1], 0.25));
  CHECK(stats_of(router, 1).report_age_s == 0.25);
  CHECK(stats_of(router, 1).reported_running_requests == 7);
  CHECK(stats_of(router, 0).report_age_s < 0);
  ranks[0].running_requests = ranks[0].waiting_requests = -1;
  ranks[0].kv_usage = -1;
  CHECK_OK(prefix_router_report_rank_metrics(router, ids[1], &ranks[0], 0));
  CHECK(stats_of(router, 1).reported_running_requests == 7);
  prefix_router_destroy(router);
}

static void reports_refused(void) {
  static const double bad_ages[] = {-1, -INFINITY, NAN}, bad_shares[] = {1.5, INFINITY, NAN};
  uint64_t ids[2];
  uint32_t reported = 99;
  size_t count, i;
  prefix_router* router = make_router(2, ids, NULL);
  prefix_router_engine_rank_metrics ranks[2], empty;
  add_rank(router, "a", 1);
  CHECK_OK(parse(kPage, ranks, &count));
  empty = ranks[0];
  empty.running_requests = empty.waiting_requests = -1;
  empty.kv_usage = -1;
#define ALL(name, name_size, ranks, rank_count, age_s) \
  prefix_router_report_engine_metrics(router, name, name_size, ranks, rank_count, age_s, &reported)
  for (i = 0; i < 3; ++i) {
    CHECK_FAILS(ALL("a", 1, ranks, 2, bad_ages[i]), PREFIX_ROUTER_INVALID_ARGUMENT,
                "age_s must be 0 or more, got ");
    CHECK_FAILS(prefix_router_report_rank_metrics(router, ids[0], &ranks[0], bad_ages[i]),
                PREFIX_ROUTER_INVALID_ARGUMENT, "age_s must be 0 or more, got ");
    CHECK_FAILS(prefix_router_report_rank_metrics(router, ids[0], &empty, bad_ages[i]),
                PREFIX_ROUTER_INVALID_ARGUMENT, "age_s must be 0 or more, got ");
    ranks[1].kv_usage = bad_shares[i];  // nor is rank 0 reported then
    CHECK_FAILS(ALL("a", 1, ranks, 2, 0), PREFIX_ROUTER_INVALID_ARGUMENT,
                "rank 1: kv_usage must be 0 to 1");
    CHECK_FAILS(prefix_router_report_rank_metrics(router, ids[0], &ranks[1], 0),
                PREFIX_ROUTER_INVALID_ARGUMENT, "kv_usage must be 0 to 1");
    ranks[1].kv_usage = -1;
  }
  ranks[1].reserved = 4;
  CHECK_FAILS(ALL("a", 1, ranks, 2, 0), PREFIX_ROUTER_UNIMPLEMENTED, "reserved has bits");
  CHECK_FAILS(prefix_router_report_rank_metrics(router, ids[0], &ranks[1], 0),
              PREFIX_ROUTER_UNIMPLEMENTED, "reserved has bits");
  ranks[1].reserved = 0;
  CHECK_FAILS(ALL("elsewhere", PREFIX_ROUTER_NUL_TERMINATED, ranks, 2, 0), PREFIX_ROUTER_NOT_FOUND,
              "no instance \"elsewhere\" of any of the page's 2 ranks");
  CHECK_FAILS(ALL(NULL, 0, ranks, 2, 0), PREFIX_ROUTER_NOT_FOUND, "no instance \"\"");
  CHECK_FAILS(ALL("a", 1, NULL, 0, 0), PREFIX_ROUTER_NOT_FOUND, "the page's 0 ranks");
  CHECK_FAILS(ALL("a", 1, NULL, 2, 0), PREFIX_ROUTER_INVALID_ARGUMENT,
              "ranks is NULL with a count of 2");
  CHECK_FAILS(ALL(NULL, 3, ranks, 2, 0), PREFIX_ROUTER_INVALID_ARGUMENT,
              "name is NULL with a size of 3");
  CHECK_FAILS(prefix_router_report_engine_metrics(NULL, "a", 1, ranks, 2, 0, &reported),
              PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  CHECK_FAILS(prefix_router_report_rank_metrics(NULL, ids[0], &ranks[0], 0),
              PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  CHECK_FAILS(prefix_router_report_rank_metrics(router, ids[0], NULL, 0),
              PREFIX_ROUTER_INVALID_ARGUMENT, "rank is NULL");
  CHECK_FAILS(prefix_router_report_rank_metrics(router, 0, &ranks[0], 0), PREFIX_ROUTER_NOT_FOUND,
              "no such instance");
  CHECK_FAILS(prefix_router_report_rank_metrics(router, 0, &empty, 0), PREFIX_ROUTER_NOT_FOUND,
              "no such instance");
  CHECK(reported == 99);
  for (i = 0; i < 3; ++i) CHECK(stats_of(router, i).report_age_s < 0);
  prefix_router_destroy(router);
}

static void capacity_blocks(void) {
  CHECK(prefix_router_capacity_blocks(463456, 16) == 28966);
  CHECK(prefix_router_capacity_blocks(463456, 32) == 14483);
  CHECK(prefix_router_capacity_blocks(15, 16) == 0);
  CHECK(prefix_router_capacity_blocks(-1, 16) == 0);
  CHECK(prefix_router_capacity_blocks(463456, 0) == 0);
  CHECK(prefix_router_capacity_blocks(INT64_MAX, 1) == INT32_MAX);
}

static void engine_names(void) {
  CHECK(strcmp(prefix_router_engine_name(PREFIX_ROUTER_VLLM), "vllm") == 0);
  CHECK(strcmp(prefix_router_engine_name(PREFIX_ROUTER_SGLANG), "sglang") == 0);
  CHECK(strcmp(prefix_router_engine_name(PREFIX_ROUTER_TENSORRT_LLM), "tensorrt_llm") == 0);
  CHECK(strcmp(prefix_router_engine_name(PREFIX_ROUTER_TRITON), "triton") == 0);
  CHECK(strcmp(prefix_router_engine_name(4), "unknown") == 0);
  CHECK(strcmp(prefix_router_engine_name(-1), "unknown") == 0);
}

// ---- The router ---------------------------------------------------------------------------------

static char* allocate(size_t size) {
  char* buffer = malloc(size);
  if (buffer == NULL) abort();
  return buffer;
}

// The whole page, to be freed.
static char* render(const prefix_router* router, const prefix_router_metrics_options* options) {
  size_t size = 0, needed = 0;
  char* page;
  CHECK_FAILS(prefix_router_render_metrics(router, options, NULL, 0, &needed),
              PREFIX_ROUTER_OUT_OF_RANGE, "are needed");
  page = allocate(needed + 1);
  CHECK_OK(prefix_router_render_metrics(router, options, page, needed + 1, &size));
  CHECK(size == needed && strlen(page) == size);
  return page;
}

static void rendering(void) {
  uint64_t ids[2], chosen;
  uint32_t tokens[64] = {0};
  int64_t nanos = 0;
  prefix_router* router = make_router(2, ids, &nanos);
  char* page;
  SIZED(prefix_router_metrics_options, options);
  CHECK_OK(prefix_router_route(router, tokens, 64, &chosen));
  page = render(router, NULL);
  CHECK(strstr(page, "\nprefix_router_prompt_tokens_total 64\n") != NULL);
  CHECK(strstr(page,
               "\nprefix_router_instance_capacity_blocks{instance_name=\"b\",rank=\"0\"} "
               "65536\n") != NULL);
  CHECK(page[strlen(page) - 1] == '\n');
  free(page);
  options.omit_instances = 1;
  page = render(router, &options);
  CHECK(strstr(page, "\nprefix_router_prompt_tokens_total 64\n") != NULL);
  CHECK(strstr(page, "instance_name") == NULL);
  free(page);
  CHECK(strcmp(PREFIX_ROUTER_METRICS_CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8") ==
        0);
  prefix_router_destroy(router);
}

static void render_failures(void) {
  int64_t nanos = 0;
  prefix_router* router = make_router(0, NULL, &nanos);
  char* page = render(router, NULL);
  const size_t length = strlen(page);
  size_t size = 0;
  SIZED(prefix_router_metrics_options, options);
  memset(page, '?', length);
  CHECK_FAILS(prefix_router_render_metrics(router, NULL, page, length, &size),
              PREFIX_ROUTER_OUT_OF_RANGE, "capacity is ");
  CHECK(size == length && page[0] == '?' && page[length - 1] == '?');
  CHECK_FAILS(prefix_router_render_metrics(NULL, NULL, page, length + 1, &size),
              PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  CHECK(size == 0);
  CHECK_FAILS(prefix_router_render_metrics(router, NULL, NULL, 5, &size),
              PREFIX_ROUTER_INVALID_ARGUMENT, "buffer is NULL with a capacity of 5");
  CHECK_FAILS(prefix_router_render_metrics(router, NULL, page, length + 1, NULL),
              PREFIX_ROUTER_INVALID_ARGUMENT, "size is NULL");
  options.omit_instances = 2;
  CHECK_FAILS(prefix_router_render_metrics(router, &options, page, length + 1, &size),
              PREFIX_ROUTER_INVALID_ARGUMENT, "omit_instances must be 0 or 1, got 2");
  options.omit_instances = 0;
  options.reserved = 1;
  CHECK_FAILS(prefix_router_render_metrics(router, &options, page, length + 1, &size),
              PREFIX_ROUTER_UNIMPLEMENTED, "reserved has bits");
  CHECK(page[0] == '?' && page[length - 1] == '?');
  free(page);
  prefix_router_destroy(router);
}

static prefix_router_label label(const char* name, const char* value) {
  prefix_router_label made;
  made.name = name;
  made.name_size = made.value_size = PREFIX_ROUTER_NUL_TERMINATED;
  made.value = value;
  return made;
}

static void rendering_several(void) {
  uint64_t ids[1], chosen;
  uint32_t tokens[32] = {0};
  size_t size = 0;
  char* page = allocate(1 << 16);
  prefix_router* routers[2];
  prefix_router_label labels[2][2];
  prefix_router_metrics_source sources[2];
  int i;
  memset(sources, 0, sizeof sources);
  sources[0].struct_size = sizeof sources[0];  // counts for both
  for (i = 0; i < 2; ++i) {
    routers[i] = make_router(1, ids, NULL);
    labels[i][0] = label("model", i == 0 ? "m-8b" : "m-\"70b\"");
    labels[i][1] = label("tenant", "all");
    sources[i].router = routers[i];
    sources[i].labels = labels[i];
    sources[i].label_count = 2;
  }
  CHECK_OK(prefix_router_route(routers[1], tokens, 32, &chosen));
  CHECK_OK(prefix_router_render_metrics_of(sources, 2, NULL, page, 1 << 16, &size));
  CHECK(strlen(page) == size);
  CHECK(strstr(page,
               "\nprefix_router_prompt_tokens_total{model=\"m-8b\",tenant=\"all\"} 0\n"
               "prefix_router_prompt_tokens_total{model=\"m-\\\"70b\\\"\",tenant=\"all\"} 32\n") !=
        NULL);
  CHECK_OK(prefix_router_render_metrics_of(NULL, 0, NULL, page, 1, &size));
  CHECK(size == 0 && page[0] == '\0');

  page[0] = '?';
  CHECK_FAILS(prefix_router_render_metrics_of(sources, 2, NULL, page, 3, &size),
              PREFIX_ROUTER_OUT_OF_RANGE, "capacity is 3");
  CHECK(size > 3);
#define REFUSED(statement, text)                                                         \
  do {                                                                                   \
    const prefix_router_metrics_source source = sources[1];                              \
    const prefix_router_label first = labels[1][0];                                      \
    statement;                                                                           \
    CHECK_FAILS(prefix_router_render_metrics_of(sources, 2, NULL, page, 1 << 16, &size), \
                PREFIX_ROUTER_INVALID_ARGUMENT, text);                                   \
    CHECK(size == 0 && page[0] == '?');                                                  \
    sources[1] = source;                                                                 \
    labels[1][0] = first;                                                                \
  } while (0)
  REFUSED(sources[1].router = NULL, "sources[1].router is NULL");
  REFUSED(sources[1].labels = NULL, "sources[1].labels is NULL with a count of 2");
  REFUSED(sources[1].labels = labels[0], "source 1 has the same labels as source 0");
  REFUSED(labels[1][0].name = "rank", "source 1 cannot have a label \"rank\"");
  REFUSED(labels[1][0].name = "tenant", "source 1 has two labels \"tenant\"");
  REFUSED(labels[1][0].name_size = 0, "source 1 cannot have a label \"\"");
  REFUSED(labels[1][0].name = NULL, "label name is NULL");
  REFUSED((labels[1][0].value = NULL, labels[1][0].value_size = 4),
          "label value is NULL with a size of 4");
  CHECK_FAILS(prefix_router_render_metrics_of(NULL, 2, NULL, page, 1 << 16, &size),
              PREFIX_ROUTER_INVALID_ARGUMENT, "sources is NULL with a count of 2");
  CHECK_FAILS(prefix_router_render_metrics_of(sources, 2, NULL, NULL, 9, &size),
              PREFIX_ROUTER_INVALID_ARGUMENT, "buffer is NULL with a capacity of 9");
  CHECK_FAILS(prefix_router_render_metrics_of(sources, 2, NULL, page, 1 << 16, NULL),
              PREFIX_ROUTER_INVALID_ARGUMENT, "size is NULL");
  CHECK_OK(prefix_router_render_metrics_of(sources, 2, NULL, page, 1 << 16, &size));
  free(page);
  for (i = 0; i < 2; ++i) prefix_router_destroy(routers[i]);
}

static void duration_bounds(void) {
  size_t i;
  CHECK(prefix_router_duration_bound_s(0) == 250e-9);
  for (i = 1; i + 1 < PREFIX_ROUTER_DURATION_BUCKETS; ++i) {
    CHECK(fabs(prefix_router_duration_bound_s(i) / prefix_router_duration_bound_s(i - 1) - 2) <
          1e-9);
  }
  CHECK(isinf(prefix_router_duration_bound_s(PREFIX_ROUTER_DURATION_BUCKETS - 1)));
  CHECK(isinf(prefix_router_duration_bound_s(PREFIX_ROUTER_DURATION_BUCKETS)));
  CHECK(isinf(prefix_router_duration_bound_s(SIZE_MAX)));
}

const test_case metrics_tests[] = {
    {"a page becomes a struct for each rank, and one for the whole", parsing},
    {"options bound and select what is read", parse_options},
    {"a page that cannot be read says why, and nothing is written", parse_failures},
    {"each rank is reported to its instance", reporting},
    {"a rank can be reported to any instance", reporting_to_one},
    {"a report that is refused names the value, and none of its ranks is reported",
     reports_refused},
    {"a capacity in tokens becomes one in blocks, or the default", capacity_blocks},
    {"each engine has a name", engine_names},
    {"the router's page goes to a buffer, and ends in a zero", rendering},
    {"a page that cannot be rendered leaves the buffer as it was", render_failures},
    {"several routers share a page by labels of their own", rendering_several},
    {"the bounds of durations double, and the last is infinite", duration_bounds},
    {NULL, NULL}};
