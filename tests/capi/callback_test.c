// A custom policy and a clock of the caller's.
#include <math.h>
#include <string.h>

#include "check.h"

// Ranks instances by a table of costs, and keeps what it was shown last.
typedef struct table_policy {
  float costs[4];
  int32_t status;
  int calls;
  prefix_router_policy_input input;
  uint64_t instances[4];
  uint32_t cached_blocks[4];
  uint8_t eligible[4];
  float weight[4];
} table_policy;

static int32_t score_by_table(const prefix_router_policy_input* input, float* costs,
                              void* user_data) {
  table_policy* policy = user_data;
  size_t i;
  ++policy->calls;
  policy->input = *input;
  for (i = 0; i < input->size && i < 4; ++i) {
    CHECK(costs[i] == 0);
    CHECK(input->pending_tokens[i] >= 0 && input->requests[i] >= 0 && input->kv_tokens[i] >= 0);
    CHECK(input->waiting[i] >= 0 && input->waiting[i] <= input->requests[i]);
    CHECK(input->tokens_per_s[i] > 0 && input->kv_usage[i] == 0);
    CHECK(input->displacement[i] == 0);  // there are no KV events
    CHECK(fabs(input->seconds_per_token[i] * input->tokens_per_s[i] * input->weight[i] - 1) < 1e-3);
    costs[i] = policy->costs[i];
    policy->instances[i] = input->instances[i];
    policy->cached_blocks[i] = input->cached_blocks[i];
    policy->eligible[i] = input->eligible[i];
    policy->weight[i] = input->weight[i];
  }
  return policy->status;
}

static prefix_router* make_router_with(table_policy* policy, float tie_tolerance, uint64_t* ids,
                                       size_t count) {
  static const char* const names[] = {"a", "b", "c", "d"};
  prefix_router_options options = default_options();
  prefix_router* router = NULL;
  size_t i;
  memset(policy, 0, sizeof *policy);
  options.policy_callback = score_by_table;
  options.policy_user_data = policy;
  options.policy_tie_tolerance = tie_tolerance;
  options.has_random_seed = 1;
  CHECK_OK(prefix_router_create(&options, &router));
  for (i = 0; i < count; ++i) ids[i] = add_instance(router, names[i]);
  return router;
}

static void custom_policy(void) {
  table_policy policy;
  uint64_t ids[3];
  uint32_t tokens[64];
  size_t i;
  prefix_router* router = make_router_with(&policy, 0, ids, 3);
  prefix_router_request request = token_request(tokens, 64);
  prefix_router_decision decision = empty_decision();
  prefix_router_score_row rows[3];
  size_t count;
  fill_tokens(tokens, 64, 1);
  for (i = 0; i < 3; ++i) {
    policy.costs[0] = policy.costs[1] = policy.costs[2] = 5;
    policy.costs[i] = 1.5f;
    policy.costs[(i + 1) % 3] = 2;
    CHECK_OK(prefix_router_route_request(router, &request, &decision));
    CHECK(decision.instance == ids[i] && decision.rule == PREFIX_ROUTER_LOWEST_COST);
    CHECK(decision.cost_total == 1.5 && decision.miss_weight == 1);
    CHECK(decision.runner_up == ids[(i + 1) % 3] && decision.runner_up_cost == 2);
  }
  CHECK(policy.calls == 3);
  CHECK(policy.input.struct_size == sizeof policy.input && policy.input.size >= 3);
  for (i = 0; i < 3; ++i) {
    CHECK(policy.instances[i] == ids[i] && policy.eligible[i] == 1 && policy.weight[i] == 1);
    CHECK(policy.cached_blocks[i] == (i == 2 ? 0 : 4));
  }
  CHECK(policy.input.prompt_tokens == 64 && policy.input.tokens_per_block == 16);
  CHECK(policy.input.sequence == 2 && policy.input.affinity_hash != 0);
  CHECK(policy.input.any_report == 0 && policy.input.mean_waiting >= 0);
  CHECK(policy.input.overhead_tokens == 0 && policy.input.reserved == 0);
  CHECK(policy.input.home == PREFIX_ROUTER_NO_HOME && policy.input.home_tokens == 0);

  request.priority = -9;
  request.expected_output_tokens = 77;
  request.allowed = ids;
  request.allowed_count = 2;
  rows[0].struct_size = sizeof rows[0];
  CHECK_OK(prefix_router_score(router, &request, NULL, rows, 3, &count));
  CHECK(policy.input.priority == -9 && policy.input.expected_output_tokens == 77);
  CHECK(policy.eligible[1] == 1 && policy.eligible[2] == 0);
  CHECK(rows[0].cost_total == 2 && rows[1].cost_total == 5 && isinf(rows[2].cost_total));
  prefix_router_destroy(router);
}

static void homes(void) {
  table_policy policy;
  uint64_t ids[3], chosen;
  uint32_t tokens[64], home;
  size_t i;
  prefix_router* router;
  prefix_router_options options = default_options();
  prefix_router_request request = token_request(tokens, 64);
  prefix_router_decision decision = empty_decision();
  memset(&policy, 0, sizeof policy);
  options.policy_callback = score_by_table;
  options.policy_user_data = &policy;
  options.routers = 4;
  options.has_key_seed = 1;
  CHECK_OK(prefix_router_create(&options, &router));
  for (i = 0; i < 3; ++i) {
    const char name[] = {(char)('a' + i), 0};
    ids[i] = add_instance(router, name);
  }
  fill_tokens(tokens, 64, 1);
  CHECK_OK(prefix_router_route(router, tokens, 64, &chosen));
  home = policy.input.home;
  if (!CHECK(home < 3)) return;
  CHECK(policy.input.home_tokens > 64);  // of this prompt and of those that follow
  CHECK_OK(prefix_router_route(router, tokens, 8, &chosen));  // not a block of it
  CHECK(policy.input.home == PREFIX_ROUTER_NO_HOME && policy.input.home_tokens == 0);
  request.allowed = &ids[(home + 1) % 3];
  request.allowed_count = 1;
  CHECK_OK(prefix_router_route_request(router, &request, &decision));
  CHECK(policy.input.home == (home + 1) % 3);  // only who may be chosen is a home
  CHECK(decision.home_tokens == policy.input.home_tokens && decision.home_tokens > 0);
  prefix_router_destroy(router);
}

static void odd_costs(void) {
  table_policy policy;
  uint64_t ids[2], chosen;
  uint32_t tokens[16] = {0};
  prefix_router* router = make_router_with(&policy, 0, ids, 2);
  policy.costs[0] = NAN;
  policy.costs[1] = 1e30f;
  CHECK_OK(prefix_router_route(router, tokens, 16, &chosen));
  CHECK(chosen == ids[1]);
  policy.costs[1] = INFINITY;  // no other: one of them is taken all the same
  CHECK_OK(prefix_router_route(router, tokens, 16, &chosen));
  CHECK(chosen == ids[0] || chosen == ids[1]);
  policy.costs[0] = -INFINITY;
  CHECK_OK(prefix_router_route(router, tokens, 16, &chosen));
  CHECK(chosen == ids[0]);
  prefix_router_destroy(router);
}

static void tie_tolerance(void) {
  table_policy policy;
  uint64_t ids[2], lease;
  uint32_t tokens[16] = {0};
  prefix_router* router = make_router_with(&policy, 0.5f, ids, 2);
  prefix_router_request request = token_request(tokens, 16);
  prefix_router_decision decision = empty_decision();
  policy.costs[0] = 1;
  policy.costs[1] = 1.25f;
  request.allowed = ids;
  request.allowed_count = 1;
  CHECK_OK(prefix_router_acquire(router, &request, &decision, &lease));
  CHECK(decision.instance == ids[0]);
  request.allowed_count = 0;  // a is cheaper by less than the tolerance, and busier
  CHECK_OK(prefix_router_acquire(router, &request, &decision, &lease));
  CHECK(decision.instance == ids[1] && decision.rule == PREFIX_ROUTER_NEAR_TIE);
  prefix_router_destroy(router);
}

static void failing_policy(void) {
  static const struct {
    int32_t returned, status;
  } cases[] = {
      {PREFIX_ROUTER_UNAVAILABLE, PREFIX_ROUTER_UNAVAILABLE},
      {PREFIX_ROUTER_CANCELLED, PREFIX_ROUTER_CANCELLED},
      {99, PREFIX_ROUTER_UNKNOWN},
      {-1, PREFIX_ROUTER_UNKNOWN},
  };
  table_policy policy;
  uint64_t ids[2], chosen, lease;
  uint32_t tokens[16] = {0};
  size_t count, i;
  prefix_router* router = make_router_with(&policy, 0, ids, 2);
  prefix_router_request request = token_request(tokens, 16);
  prefix_router_decision decision = empty_decision();
  for (i = 0; i < sizeof cases / sizeof cases[0]; ++i) {
    policy.status = cases[i].returned;
    CHECK_FAILS(prefix_router_route(router, tokens, 16, &chosen), cases[i].status,
                "policy custom failed: the callback returned ");
    CHECK(chosen == 0);
    CHECK_FAILS(prefix_router_route_request(router, &request, &decision), cases[i].status, "");
    CHECK_FAILS(prefix_router_acquire(router, &request, &decision, &lease), cases[i].status, "");
    CHECK_FAILS(prefix_router_score(router, &request, NULL, NULL, 0, &count), cases[i].status, "");
  }
  CHECK(requests_routed(router) == 0);
  policy.status = PREFIX_ROUTER_OK;
  CHECK_OK(prefix_router_route(router, tokens, 16, &chosen));
  prefix_router_destroy(router);
}

static void policy_options(void) {
  table_policy policy;
  prefix_router* router;
  prefix_router_options options = default_options();
  memset(&policy, 0, sizeof policy);
  options.policy_callback = score_by_table;
  options.policy_user_data = &policy;
  options.policy = "by_table";
  options.policy_size = PREFIX_ROUTER_NUL_TERMINATED;
  options.policy_tie_tolerance = 2;
  CHECK_OK(prefix_router_create(&options, &router));
  options = default_options();
  CHECK_OK(prefix_router_get_options(router, &options));
  CHECK(options.policy_size == 8 && memcmp(options.policy, "by_table", 8) == 0);
  CHECK(options.policy_callback == score_by_table && options.policy_user_data == &policy);
  CHECK(options.policy_tie_tolerance == 2);
  prefix_router_destroy(router);

  options.policy_tie_tolerance = -1;
  CHECK_FAILS(prefix_router_create(&options, &router), PREFIX_ROUTER_INVALID_ARGUMENT,
              "policy_tie_tolerance must be 0 or more, got -1");
  options.policy_tie_tolerance = NAN;
  CHECK_FAILS(prefix_router_create(&options, &router), PREFIX_ROUTER_INVALID_ARGUMENT,
              "policy_tie_tolerance");
}

static void custom_clock(void) {
  int64_t nanos = INT64_C(5000000000);
  uint64_t id, lease;
  uint32_t tokens[16] = {0};
  prefix_router* router = make_router(1, &id, &nanos);
  prefix_router_request request = token_request(tokens, 16);
  prefix_router_decision decision = empty_decision();
  CHECK_OK(prefix_router_acquire(router, &request, &decision, &lease));
  nanos = 0;  // a clock that steps back is tolerated
  CHECK_OK(prefix_router_first_token(router, lease));
  nanos = INT64_C(5000000000) + INT64_C(600000000001);
  CHECK_FAILS(prefix_router_finish(router, lease, NULL), PREFIX_ROUTER_NOT_FOUND, "has ended");
  prefix_router_destroy(router);
}

const test_case callback_tests[] = {
    {"a policy callback sees the fleet, and its lowest cost wins", custom_policy},
    {"a policy callback sees where other routers look for the prompt", homes},
    {"NaN counts as infinite, and infinite costs are taken when there is no other", odd_costs},
    {"costs within the tolerance are ties", tie_tolerance},
    {"what a policy callback returns is what the call returns, and nothing changes",
     failing_policy},
    {"a custom policy has a name and a tolerance", policy_options},
    {"time passes as the clock callback says", custom_clock},
    {NULL, NULL}};
