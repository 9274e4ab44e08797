// Creating and destroying routers, their options, names and versions.
#include <math.h>
#include <string.h>

#include "check.h"

static void defaults(void) {
  prefix_router* router = NULL;
  prefix_router_options options = default_options();
  CHECK_OK(prefix_router_create(NULL, &router));
  CHECK(router != NULL);
  CHECK_OK(prefix_router_get_options(router, &options));
  CHECK(options.struct_size == sizeof options);
  CHECK(options.block_size == 16);
  CHECK(options.text_block_bytes == 64);
  CHECK(options.text_bytes_per_token == 4);
  CHECK(options.policy_size == strlen("prefix_cost"));
  CHECK(memcmp(options.policy, "prefix_cost", options.policy_size) == 0);
  CHECK(options.policy_callback == NULL);
  CHECK(options.hash_ring_points == 128 && options.hash_prefix_tokens == 256);
  CHECK(options.hash_max_requests == 64 && options.hash_load_factor == 1.25);
  CHECK(options.threshold_match == 0.3 && options.threshold_requests == 64);
  CHECK(options.threshold_ratio == 1.5 && options.weight_match == 3);
  CHECK(options.weight_queue == 2 && options.weight_kv == 2 && options.block_credit == 1);
  CHECK(options.has_key_seed == 1 && options.has_random_seed == 1);
  CHECK(options.disable_calibration == 0);
  CHECK(options.predicted_ttl_s == 0);
  CHECK(options.confirm_window_s == 2);
  CHECK(options.default_prefill_tokens_per_s == 10000);
  CHECK(options.report_max_age_s == 5);
  CHECK(options.lease_ttl_s == 600);
  CHECK(options.session_ttl_s == 3600);
  CHECK(options.session_slack_s == 0.25);
  CHECK(options.index_budget_bytes == 1u << 30);
  CHECK(options.max_prompt_tokens == 1u << 24);
  CHECK(options.max_instances == 65536);
  CHECK(options.max_sessions == 262144);
  CHECK(options.clock_callback == NULL);
  CHECK(options.latency_interval_s == 100e-6);
  CHECK(options.cpu_tier_weight == 0.8);
  CHECK(options.disk_tier_weight == 0.5 && options.external_tier_weight == 0.5);
  CHECK(options.routers == 1 && options.reserved2 == 0);
  prefix_router_destroy(router);

  options = default_options();
  CHECK_OK(prefix_router_create(&options, &router));
  CHECK_OK(prefix_router_get_options(router, &options));
  CHECK(options.block_size == 16);
  prefix_router_destroy(router);
}

static void all_options(void) {
  int64_t nanos = 0;
  prefix_router* router;
  prefix_router_options in = default_options(), out = default_options();
  in.block_size = 32;
  in.text_block_bytes = 128;
  in.text_bytes_per_token = 3.5;
  in.policy = "least_requests!";
  in.policy_size = strlen("least_requests");  // no terminating zero is needed
  in.hash_ring_points = 7;
  in.hash_prefix_tokens = 8;
  in.hash_max_requests = 9;
  in.hash_load_factor = 10;
  in.threshold_match = 0.11;
  in.threshold_requests = 12;
  in.threshold_ratio = 13;
  in.weight_match = 14;
  in.weight_queue = 15;
  in.weight_kv = 16;
  in.block_credit = 17;
  in.has_key_seed = 1;
  in.key_seed = UINT64_MAX;
  in.has_random_seed = 1;
  in.random_seed = 0;
  in.disable_calibration = 1;
  in.predicted_ttl_s = 60;
  in.confirm_window_s = 1;
  in.default_prefill_tokens_per_s = 500;
  in.report_max_age_s = 7;
  in.lease_ttl_s = 8;
  in.session_ttl_s = 9;
  in.session_slack_s = 0.5;
  in.index_budget_bytes = 1u << 20;
  in.max_prompt_tokens = 1000;
  in.max_instances = 11;
  in.max_sessions = 12;
  in.clock_callback = read_clock;
  in.clock_user_data = &nanos;
  in.latency_interval_s = INFINITY;
  in.cpu_tier_weight = 0.25;
  in.disk_tier_weight = PREFIX_ROUTER_ZERO;
  in.external_tier_weight = 1;
  in.routers = 1000000;
  CHECK_OK(prefix_router_create(&in, &router));
  CHECK_OK(prefix_router_get_options(router, &out));
  CHECK(out.policy_size == in.policy_size && memcmp(out.policy, in.policy, in.policy_size) == 0);
  out.policy = in.policy;
  CHECK(memcmp(&in, &out, sizeof in) == 0);
  prefix_router_destroy(router);
}

static void named_sentinels(void) {
  prefix_router* router;
  prefix_router_options options = default_options();
  options.session_slack_s = options.threshold_match = options.weight_kv = PREFIX_ROUTER_ZERO;
  options.latency_interval_s = PREFIX_ROUTER_ZERO;
  options.max_sessions = PREFIX_ROUTER_NO_SESSIONS;
  CHECK_OK(prefix_router_create(&options, &router));
  options.session_slack_s = options.threshold_match = options.weight_kv = 1;
  options.latency_interval_s = 1;
  options.max_sessions = 1;
  CHECK_OK(prefix_router_get_options(router, &options));
  CHECK(options.session_slack_s == PREFIX_ROUTER_ZERO);
  CHECK(options.latency_interval_s == PREFIX_ROUTER_ZERO);
  CHECK(options.threshold_match == PREFIX_ROUTER_ZERO);
  CHECK(options.weight_kv == PREFIX_ROUTER_ZERO && options.weight_queue == 2);
  CHECK(options.max_sessions == PREFIX_ROUTER_NO_SESSIONS);
  prefix_router_destroy(router);
}

static void options_of_a_router_make_its_twin(void) {
  uint32_t tokens[64];
  uint64_t keys[2][4];
  size_t count;
  int i;
  prefix_router* routers[2];
  prefix_router_options options = default_options();
  prefix_router_request request = token_request(tokens, 64);
  fill_tokens(tokens, 64, 1);
  CHECK_OK(prefix_router_create(NULL, &routers[0]));
  CHECK_OK(prefix_router_get_options(routers[0], &options));
  CHECK_OK(prefix_router_create(&options, &routers[1]));
  for (i = 0; i < 2; ++i) {
    CHECK_OK(prefix_router_block_keys(routers[i], &request, keys[i], 4, &count));
    prefix_router_destroy(routers[i]);
  }
  CHECK(memcmp(keys[0], keys[1], sizeof keys[0]) == 0);
}

#define REFUSED(member, value, text)                                                          \
  do {                                                                                        \
    prefix_router_options refused = default_options();                                        \
    prefix_router* none = (prefix_router*)&refused;                                           \
    refused.member = (value);                                                                 \
    CHECK_FAILS(prefix_router_create(&refused, &none), PREFIX_ROUTER_INVALID_ARGUMENT, text); \
    CHECK(none == NULL);                                                                      \
  } while (0)

static void out_of_range(void) {
  REFUSED(block_size, 32769, "block_size must be 1 to 32768, got 32769");
  REFUSED(text_block_bytes, 131073, "text_block_bytes");
  REFUSED(text_bytes_per_token, 0.1, "text_bytes_per_token must be 0.25 to 64, got 0.1");
  REFUSED(text_bytes_per_token, NAN, "text_bytes_per_token");
  REFUSED(hash_ring_points, 4097, "hash_ring_points must be 1 to 4096, got 4097");
  REFUSED(hash_prefix_tokens, (1u << 24) + 1, "hash_prefix_tokens");
  REFUSED(hash_max_requests, 1000001, "hash_max_requests");
  REFUSED(hash_load_factor, 0.5, "hash_load_factor must be 1 to 1e+06, got 0.5");
  REFUSED(threshold_match, 1.1, "threshold_match must be 0 to 1, got 1.1");
  REFUSED(threshold_requests, -2, "threshold_requests");
  REFUSED(threshold_ratio, PREFIX_ROUTER_ZERO, "threshold_ratio must be 1 to 1e+09, got 0");
  REFUSED(weight_match, 2e6, "weight_match");
  REFUSED(weight_queue, NAN, "weight_queue");
  REFUSED(weight_kv, INFINITY, "weight_kv");
  REFUSED(block_credit, 1001, "block_credit");
  REFUSED(predicted_ttl_s, -2, "predicted_ttl_s must be 0 to 1e+09, got -2");
  REFUSED(confirm_window_s, 3601, "confirm_window_s");
  REFUSED(default_prefill_tokens_per_s, INFINITY, "default_prefill_tokens_per_s");
  REFUSED(report_max_age_s, -5, "report_max_age_s");
  REFUSED(lease_ttl_s, 1e10, "lease_ttl_s");
  REFUSED(session_ttl_s, 1e-9, "session_ttl_s");
  REFUSED(session_slack_s, -2, "session_slack_s must be 0 to 1e+09, got -2");
  REFUSED(latency_interval_s, -2, "latency_interval_s must be 0 to inf, got -2");
  REFUSED(latency_interval_s, NAN, "latency_interval_s");
  REFUSED(routers, 1000001, "routers must be 1 to 1000000, got 1000001");
  REFUSED(routers, 2, "routers is 2, so key_seed must be set");  // has_key_seed is 0
  REFUSED(index_budget_bytes, 65535, "index_budget_bytes must be at least 65536, got 65535");
  REFUSED(max_prompt_tokens, (1u << 24) + 1, "max_prompt_tokens");
  REFUSED(max_instances, (1u << 20) + 1, "max_instances");
  REFUSED(max_sessions, (1u << 31) + 1, "max_sessions");
  REFUSED(has_key_seed, 2, "has_key_seed must be 0 or 1, got 2");
  REFUSED(has_random_seed, -1, "has_random_seed must be 0 or 1, got -1");
  REFUSED(disable_calibration, 3, "disable_calibration must be 0 or 1, got 3");
  REFUSED(policy_size, 3, "policy is NULL with a size of 3");
  REFUSED(policy_size, PREFIX_ROUTER_NUL_TERMINATED, "policy is NULL");
}

static void reserved_members(void) {
  prefix_router* router;
  prefix_router_options options = default_options();
  options.reserved = 1;
  CHECK_FAILS(prefix_router_create(&options, &router), PREFIX_ROUTER_UNIMPLEMENTED,
              "reserved has bits");
  options.reserved = 0;
  options.reserved2 = 1;
  CHECK_FAILS(prefix_router_create(&options, &router), PREFIX_ROUTER_UNIMPLEMENTED,
              "reserved2 has bits");
}

static void unknown_policy(void) {
  prefix_router* router;
  prefix_router_options options = default_options();
  options.policy = "fastest";
  options.policy_size = PREFIX_ROUTER_NUL_TERMINATED;
  CHECK_FAILS(prefix_router_create(&options, &router), PREFIX_ROUTER_INVALID_ARGUMENT,
              "got \"fastest\"");
}

static void null_arguments(void) {
  prefix_router* router = make_router(0, NULL, NULL);
  prefix_router_options options = default_options();
  CHECK_FAILS(prefix_router_create(NULL, NULL), PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  CHECK_FAILS(prefix_router_get_options(NULL, &options), PREFIX_ROUTER_INVALID_ARGUMENT,
              "router is NULL");
  CHECK_FAILS(prefix_router_get_options(router, NULL), PREFIX_ROUTER_INVALID_ARGUMENT,
              "options is NULL");
  prefix_router_destroy(NULL);
  prefix_router_destroy(router);
}

static void policy_names(void) {
  size_t index, known = 0;
  for (index = 0; prefix_router_policy_name(index) != NULL; ++index) {
    prefix_router* router;
    prefix_router_options options = default_options();
    options.policy = prefix_router_policy_name(index);
    options.policy_size = PREFIX_ROUTER_NUL_TERMINATED;
    CHECK_OK(prefix_router_create(&options, &router));
    prefix_router_destroy(router);
    if (strcmp(options.policy, "prefix_cost") == 0) ++known;
  }
  CHECK(known == 1);
  CHECK(index >= 7);
  CHECK(prefix_router_policy_name(index) == NULL);
  CHECK(prefix_router_policy_name(SIZE_MAX) == NULL);
}

static void names_and_versions(void) {
  // The names of https://grpc.io/docs/guides/status-codes/, by number.
  static const char* const statuses[] = {"OK",
                                         "CANCELLED",
                                         "UNKNOWN",
                                         "INVALID_ARGUMENT",
                                         "DEADLINE_EXCEEDED",
                                         "NOT_FOUND",
                                         "ALREADY_EXISTS",
                                         "PERMISSION_DENIED",
                                         "RESOURCE_EXHAUSTED",
                                         "FAILED_PRECONDITION",
                                         "ABORTED",
                                         "OUT_OF_RANGE",
                                         "UNIMPLEMENTED",
                                         "INTERNAL",
                                         "UNAVAILABLE"};
  int32_t i;
  for (i = 0; i <= PREFIX_ROUTER_UNAVAILABLE; ++i) {
    CHECK(strcmp(prefix_router_status_name(i), statuses[i]) == 0);
  }
  CHECK(PREFIX_ROUTER_INVALID_ARGUMENT == 3 && PREFIX_ROUTER_NOT_FOUND == 5);
  CHECK(PREFIX_ROUTER_ALREADY_EXISTS == 6 && PREFIX_ROUTER_RESOURCE_EXHAUSTED == 8);
  CHECK(PREFIX_ROUTER_OUT_OF_RANGE == 11 && PREFIX_ROUTER_UNIMPLEMENTED == 12);
  CHECK(PREFIX_ROUTER_INTERNAL == 13 && PREFIX_ROUTER_UNAVAILABLE == 14);
  CHECK(strcmp(prefix_router_status_name(99), "UNKNOWN") == 0);
  CHECK(strcmp(prefix_router_status_name(-1), "UNKNOWN") == 0);
  CHECK(strcmp(prefix_router_rule_name(PREFIX_ROUTER_LOWEST_COST), "lowest_cost") == 0);
  CHECK(strcmp(prefix_router_rule_name(PREFIX_ROUTER_SESSION), "session") == 0);
  CHECK(strcmp(prefix_router_rule_name(-7), "unknown") == 0);
  CHECK(strcmp(prefix_router_version(), TEST_VERSION) == 0);
  CHECK(prefix_router_abi_version() >> 16 == PREFIX_ROUTER_ABI_MAJOR);
  CHECK((prefix_router_abi_version() & 0xffff) == PREFIX_ROUTER_ABI_MINOR);
  CHECK(prefix_router_key_format() >= 1);
}

static void last_error(void) {
  prefix_router* router;
  char first[64];
  CHECK_FAILS(prefix_router_create(NULL, NULL), PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  strcpy(first, prefix_router_last_error());
  CHECK_OK(prefix_router_create(NULL, &router));
  CHECK(strcmp(prefix_router_last_error(), first) == 0);
  CHECK_FAILS(prefix_router_remove_instance(router, 1), PREFIX_ROUTER_NOT_FOUND, "instance 1.0");
  CHECK(strcmp(prefix_router_last_error(), first) != 0);
  prefix_router_destroy(router);
}

const test_case create_tests[] = {
    {"without options, or with zeros, every option has its default", defaults},
    {"every option arrives, and can be read back", all_options},
    {"where 0 means the default, zero has a name of its own", named_sentinels},
    {"the options of a router make one that computes the same keys",
     options_of_a_router_make_its_twin},
    {"an option out of its range is refused by name and value", out_of_range},
    {"reserved members of options must be 0", reserved_members},
    {"an unknown policy is refused by name", unknown_policy},
    {"NULL is refused where something is needed, and destroyed without effect", null_arguments},
    {"each listed policy name makes a router, and the list ends with NULL", policy_names},
    {"names and versions are those of the header and the library", names_and_versions},
    {"the last error stays until the next failure", last_error},
    {NULL, NULL}};
