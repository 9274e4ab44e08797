// Looking into a router: score tables, statistics, block keys, and the buffers they go to.
#include <math.h>
#include <string.h>

#include "check.h"

enum { kTokens = 64, kLongTokens = 640 };

static void score_table(void) {
  uint64_t ids[3];
  uint32_t tokens[kTokens];
  size_t count = 0, i;
  prefix_router* router = make_router(3, ids, NULL);
  prefix_router_request request = token_request(tokens, kTokens);
  prefix_router_decision decision = empty_decision();
  prefix_router_score_table table;
  prefix_router_score_row rows[4];
  fill_tokens(tokens, kTokens, 1);
  CHECK_OK(prefix_router_route_request(router, &request, &decision));
  CHECK_OK(prefix_router_set_instance_state(router, ids[2], PREFIX_ROUTER_DOWN, 0));
  table.struct_size = sizeof table;
  rows[0].struct_size = sizeof rows[0];
  CHECK_OK(prefix_router_score(router, &request, &table, rows, 4, &count));
  CHECK(table.prompt_tokens == kTokens && table.miss_weight >= 1);
  CHECK(count == 3);
  for (i = 0; i < count; ++i) {
    const uint64_t expected = ids[i] == decision.instance ? kTokens : 0;
    CHECK(rows[i].struct_size == sizeof rows[i]);
    CHECK(rows[i].instance == ids[i]);
    CHECK(rows[i].cached_tokens == expected);
    CHECK(rows[i].eligible == (i == 2 ? 0 : 1));
    CHECK(isinf(rows[i].cost_total) == (i == 2));
    CHECK(rows[i].stale_report == 0 && rows[i].requests_in_flight == 0);
  }
  CHECK_OK(prefix_router_score(router, &request, NULL, rows, 3, &count));
  CHECK(requests_routed(router) == 1);
  prefix_router_destroy(router);
}

static void score_buffers(void) {
  uint64_t ids[3];
  uint32_t tokens[kTokens] = {0};
  size_t count = 0;
  prefix_router* router = make_router(3, ids, NULL);
  prefix_router_request request = token_request(tokens, kTokens);
  prefix_router_score_table table;
  prefix_router_score_row rows[3];
  memset(rows, 0, sizeof rows);
  rows[0].struct_size = sizeof rows[0];
  table.struct_size = sizeof table;
  table.prompt_tokens = 77;
  CHECK_FAILS(prefix_router_score(router, &request, &table, rows, 2, &count),
              PREFIX_ROUTER_OUT_OF_RANGE, "capacity is 2, and 3 are needed");
  CHECK(count == 3 && rows[0].instance == 0 && table.prompt_tokens == 77);
  CHECK_FAILS(prefix_router_score(router, &request, NULL, NULL, 0, &count),
              PREFIX_ROUTER_OUT_OF_RANGE, "capacity is 0, and 3 are needed");
  CHECK(count == 3);
  CHECK_FAILS(prefix_router_score(router, &request, NULL, NULL, 3, &count),
              PREFIX_ROUTER_INVALID_ARGUMENT, "rows is NULL with a capacity of 3");
  CHECK(count == 0);
  CHECK_FAILS(prefix_router_score(router, &request, NULL, rows, 3, NULL),
              PREFIX_ROUTER_INVALID_ARGUMENT, "count is NULL");
  CHECK_FAILS(prefix_router_score(NULL, &request, NULL, rows, 3, &count),
              PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  prefix_router_destroy(router);

  router = make_router(0, NULL, NULL);  // none are needed
  CHECK_OK(prefix_router_score(router, &request, &table, NULL, 0, &count));
  CHECK(count == 0 && table.prompt_tokens == kTokens);
  prefix_router_destroy(router);
}

static void statistics(void) {
  uint64_t ids[2], chosen;
  uint32_t tokens[kLongTokens];
  size_t count = 0;
  prefix_router* router = make_router(2, ids, NULL);
  prefix_router_stats stats;
  prefix_router_instance_stats rows[2];
  fill_tokens(tokens, kLongTokens, 1);
  CHECK_OK(prefix_router_route(router, tokens, kLongTokens, &chosen));
  CHECK_OK(prefix_router_route(router, tokens, kLongTokens, &chosen));
  stats.struct_size = sizeof stats;
  rows[0].struct_size = sizeof rows[0];
  CHECK_OK(prefix_router_get_stats(router, &stats, rows, 2, &count));
  CHECK(stats.struct_size == sizeof stats && count == 2);
  CHECK(stats.requests == 2 && stats.rejected == 0);
  CHECK(stats.prompt_tokens == 2 * kLongTokens && stats.cached_tokens == kLongTokens);
  CHECK(stats.decided_by_lowest_cost + stats.decided_by_near_tie == 2);
  CHECK(stats.decided_by_only_candidate == 0 && stats.decided_by_session == 0);
  CHECK(stats.index_budget_bytes == 1u << 30);
  CHECK(stats.index_bytes > 0 && stats.index_runs == 1);
  CHECK(stats.index_blocks == kLongTokens / 16 && stats.blocks_held == kLongTokens / 16);
  CHECK(stats.blocks_evicted == 0 && stats.leases_active == 0 && stats.sessions == 0);
  CHECK(rows[0].instance == ids[0] && rows[1].instance == ids[1]);
  CHECK(rows[1].struct_size == sizeof rows[1]);
  CHECK(rows[0].requests + rows[1].requests == 2);
  CHECK(rows[0].blocks_held + rows[1].blocks_held == kLongTokens / 16);
  CHECK(rows[0].capacity_scale == 1 && rows[0].reserved == 0);
  prefix_router_destroy(router);
}

// A clock that moves on by 1 us whenever it is read.
static int64_t tick(void* nanos) { return *(int64_t*)nanos += 1000; }

static void statistics_of_decisions(void) {
  uint64_t ids[2], lease;
  uint32_t tokens[kTokens];
  int64_t nanos = 0;
  size_t count = 0, i;
  uint64_t timed = 0;
  prefix_router* router;
  prefix_router_options options = default_options();
  prefix_router_request request = token_request(tokens, kTokens);
  prefix_router_decision decision = empty_decision();
  prefix_router_engine_load load;
  prefix_router_stats stats;
  prefix_router_instance_stats rows[2];
  options.clock_callback = tick;
  options.clock_user_data = &nanos;
  options.latency_interval_s = PREFIX_ROUTER_ZERO;
  CHECK_OK(prefix_router_create(&options, &router));
  ids[0] = add_instance(router, "a");
  ids[1] = add_instance(router, "b");
  fill_tokens(tokens, kTokens, 1);
  memset(&load, 0, sizeof load);
  load.struct_size = sizeof load;
  load.reported = PREFIX_ROUTER_REPORTS_WAITING | PREFIX_ROUTER_REPORTS_KV_USAGE;
  load.waiting_requests = 3;
  load.kv_usage = 0.5;
  load.age_s = 100;  // too old to be used
  CHECK_OK(prefix_router_report_load(router, ids[0], &load));

  // To the first instance; then to the second, for all that the first one has the prompt; then to
  // none; then to the second for its session.
  request.allowed = &ids[0];
  request.allowed_count = 1;
  CHECK_OK(prefix_router_acquire(router, &request, &decision, &lease));
  CHECK(decision.stale_report == 1);
  request.allowed = &ids[1];
  request.session_key = "s";
  request.session_key_size = 1;
  CHECK_OK(prefix_router_route_request(router, &request, &decision));
  request.allowed_count = 0;
  CHECK_OK(prefix_router_set_instance_state(router, ids[0], PREFIX_ROUTER_DOWN, 0));
  CHECK_OK(prefix_router_set_instance_state(router, ids[1], PREFIX_ROUTER_DOWN, 0));
  CHECK_FAILS(prefix_router_route_request(router, &request, &decision), PREFIX_ROUTER_UNAVAILABLE,
              "");
  CHECK_OK(prefix_router_set_instance_state(router, ids[0], PREFIX_ROUTER_READY, 0));
  CHECK_OK(prefix_router_set_instance_state(router, ids[1], PREFIX_ROUTER_READY, 0));
  CHECK_OK(prefix_router_route_request(router, &request, &decision));
  CHECK(decision.rule == PREFIX_ROUTER_SESSION && decision.instance == ids[1]);

  stats.struct_size = sizeof stats;
  rows[0].struct_size = sizeof rows[0];
  CHECK_OK(prefix_router_get_stats(router, &stats, rows, 2, &count));
  CHECK(stats.requests == 3 && stats.unavailable == 1 && stats.rejected == 0);
  CHECK(stats.decided_by_only_candidate == 2 && stats.decided_by_session == 1);
  CHECK(stats.prompt_tokens == 3 * kTokens && stats.cached_tokens == kTokens);
  CHECK(stats.best_cached_tokens == kTokens);
  CHECK(stats.stale_report_decisions == 1);
  for (i = 0; i < PREFIX_ROUTER_DURATION_BUCKETS; ++i) timed += stats.route_duration_counts[i];
  CHECK(timed == 4);  // 1 us each: at most the bound of bucket 2, and more than that of bucket 1
  CHECK(stats.route_duration_counts[2] == 4);
  CHECK(fabs(stats.route_duration_sum_s - 4e-6) < 1e-12);

  CHECK(rows[0].requests == 1 && rows[0].decided_by_only_candidate == 1);
  CHECK(rows[0].decided_by_session == 0 && rows[0].decided_by_lowest_cost == 0);
  CHECK(rows[0].reported_running_requests == -1 && rows[0].reported_waiting_requests == 3);
  CHECK(rows[0].reported_kv_usage == 0.5);
  CHECK(rows[1].requests == 2 && rows[1].decided_by_only_candidate == 1);
  CHECK(rows[1].decided_by_session == 1 && rows[1].decided_by_near_tie == 0);
  CHECK(rows[1].reported_waiting_requests == -1 && rows[1].reported_kv_usage == -1);
  prefix_router_destroy(router);

  options.latency_interval_s = INFINITY;
  CHECK_OK(prefix_router_create(&options, &router));
  add_instance(router, "a");
  CHECK_OK(prefix_router_route(router, tokens, kTokens, &ids[0]));
  CHECK_OK(prefix_router_get_stats(router, &stats, NULL, 0, NULL));
  CHECK(stats.requests == 1 && stats.route_duration_sum_s == 0);
  prefix_router_destroy(router);
}

static void statistics_buffers(void) {
  uint64_t ids[2];
  size_t count = 9;
  prefix_router* router = make_router(2, ids, NULL);
  prefix_router_stats stats;
  prefix_router_instance_stats row;
  stats.struct_size = sizeof stats;
  stats.requests = 77;
  row.struct_size = sizeof row;
  CHECK_OK(prefix_router_get_stats(router, NULL, NULL, 0, NULL));
  CHECK_FAILS(prefix_router_get_stats(router, &stats, &row, 1, &count), PREFIX_ROUTER_OUT_OF_RANGE,
              "capacity is 1, and 2 are needed");
  CHECK(count == 2 && stats.requests == 77);
  CHECK_FAILS(prefix_router_get_stats(router, NULL, NULL, 0, &count), PREFIX_ROUTER_OUT_OF_RANGE,
              "2 are needed");
  CHECK_FAILS(prefix_router_get_stats(router, &stats, &row, 1, NULL),
              PREFIX_ROUTER_INVALID_ARGUMENT, "count is NULL");
  CHECK_FAILS(prefix_router_get_stats(router, &stats, NULL, 2, &count),
              PREFIX_ROUTER_INVALID_ARGUMENT, "rows is NULL with a capacity of 2");
  CHECK_FAILS(prefix_router_get_stats(NULL, &stats, NULL, 0, NULL), PREFIX_ROUTER_INVALID_ARGUMENT,
              "router is NULL");
  prefix_router_destroy(router);
}

static void block_keys(void) {
  uint64_t keys[5], text_keys[4], prefix_keys[4];
  uint32_t tokens[kTokens + 15];
  char text[256] = "";
  size_t count = 0;
  prefix_router* router = make_router(0, NULL, NULL);
  prefix_router_request request = token_request(tokens, kTokens + 15);
  fill_tokens(tokens, kTokens + 15, 1);
  keys[4] = 99;
  CHECK_OK(prefix_router_block_keys(router, &request, keys, 5, &count));
  CHECK(count == 4 && keys[4] == 99);  // a block that is not full has no key
  request.token_count = 32;
  CHECK_OK(prefix_router_block_keys(router, &request, prefix_keys, 4, &count));
  CHECK(count == 2 && memcmp(keys, prefix_keys, 2 * sizeof keys[0]) == 0);

  request.form = PREFIX_ROUTER_TEXT;
  request.text = text;
  request.text_size = sizeof text;
  CHECK_OK(prefix_router_block_keys(router, &request, text_keys, 4, &count));
  CHECK(count == 4 && text_keys[0] != keys[0]);

  text_keys[0] = 99;
  CHECK_FAILS(prefix_router_block_keys(router, &request, text_keys, 3, &count),
              PREFIX_ROUTER_OUT_OF_RANGE, "capacity is 3, and 4 are needed");
  CHECK(count == 4 && text_keys[0] == 99);
  CHECK_FAILS(prefix_router_block_keys(router, &request, NULL, 4, &count),
              PREFIX_ROUTER_INVALID_ARGUMENT, "keys is NULL with a capacity of 4");
  CHECK_FAILS(prefix_router_block_keys(router, &request, keys, 4, NULL),
              PREFIX_ROUTER_INVALID_ARGUMENT, "count is NULL");
  CHECK_FAILS(prefix_router_block_keys(NULL, &request, keys, 4, &count),
              PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  request.form = PREFIX_ROUTER_BLOCK_KEYS;
  request.block_keys = keys;
  request.block_key_count = 4;
  CHECK_FAILS(prefix_router_block_keys(router, &request, keys, 4, &count),
              PREFIX_ROUTER_INVALID_ARGUMENT, "form must be tokens or text");
  prefix_router_destroy(router);
}

static void homes(void) {
  uint64_t ids[2][4], lease, home = 0;
  uint32_t tokens[kLongTokens];
  size_t count = 0, at_home = 0, i, n;
  prefix_router* routers[2];
  prefix_router* alone = make_router(4, ids[0], NULL);
  prefix_router_options options = default_options();
  prefix_router_request request = token_request(tokens, kLongTokens);
  prefix_router_decision decision = empty_decision();
  prefix_router_finish_info info;
  prefix_router_score_row rows[4];
  prefix_router_stats stats;
  options.routers = 4;
  options.has_key_seed = 1;
  options.key_seed = 1;
  rows[0].struct_size = sizeof rows[0];
  stats.struct_size = sizeof stats;
  memset(&info, 0, sizeof info);
  info.struct_size = sizeof info;
  info.reported = PREFIX_ROUTER_REPORTS_CACHED_TOKENS;
  info.engine_cached_tokens = kLongTokens;
  fill_tokens(tokens, kLongTokens, 1);
  for (n = 0; n < 2; ++n) {
    char name[] = "a";
    CHECK_OK(prefix_router_create(&options, &routers[n]));
    for (i = 0; i < 4; ++i, ++name[0]) ids[n][i] = add_instance(routers[n], name);
    CHECK_OK(prefix_router_get_stats(routers[n], &stats, NULL, 0, NULL));
    CHECK(stats.requests_at_home == 0 && stats.home_share == 0.5);  // nothing is learned yet

    CHECK_OK(prefix_router_score(routers[n], &request, NULL, rows, 4, &count));
    for (i = 0; i < 4; ++i) {
      if (rows[i].home_tokens == 0) continue;
      ++at_home;
      CHECK(rows[i].home_tokens > kLongTokens && rows[i].cost_uncached <= 0);
      CHECK(n == 0 || ids[0][i] == home);  // the other router has found the same one
      home = ids[0][i];
    }
    CHECK(at_home == n + 1);

    CHECK_OK(prefix_router_acquire(routers[n], &request, &decision, &lease));
    CHECK(decision.instance == home && decision.home_tokens > kLongTokens);
    CHECK_OK(prefix_router_finish(routers[n], lease, &info));
    request.allowed = &ids[n][ids[n][0] == home ? 1 : 0];  // another one becomes its home
    request.allowed_count = 1;
    CHECK_OK(prefix_router_route_request(routers[n], &request, &decision));
    CHECK(decision.instance == *request.allowed && decision.home_tokens > 0);
    request.allowed_count = 0;
    CHECK_OK(prefix_router_get_stats(routers[n], &stats, NULL, 0, NULL));
    CHECK(stats.requests_at_home == 2 && stats.home_share > 0.5 && stats.home_share < 1);
    prefix_router_destroy(routers[n]);
  }

  CHECK_OK(prefix_router_route_request(alone, &request, &decision));
  CHECK(decision.home_tokens == 0 && decision.cost_uncached > 0);
  CHECK_OK(prefix_router_score(alone, &request, NULL, rows, 4, &count));
  for (i = 0; i < 4; ++i) CHECK(rows[i].home_tokens == 0);
  CHECK_OK(prefix_router_get_stats(alone, &stats, NULL, 0, NULL));
  CHECK(stats.requests_at_home == 0 && stats.home_share == 0);
  prefix_router_destroy(alone);
}

const test_case inspect_tests[] = {
    {"a score table has a row for each instance, and no effect", score_table},
    {"score rows go to a buffer that has room for all", score_buffers},
    {"statistics count what was routed, in all and by instance", statistics},
    {"statistics tell rules, refusals, durations and engine reports", statistics_of_decisions},
    {"rows of statistics go to a buffer that has room for all", statistics_buffers},
    {"block keys are those of full blocks, and go to a buffer that has room for all", block_keys},
    {"several routers of one key_seed place a prompt at the same home, and tell it", homes},
    {NULL, NULL}};
