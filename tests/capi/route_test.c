// Routing: the short form, and requests with everything that they can hold.
#include <math.h>
#include <string.h>

#include "check.h"

enum { kTokens = 256 };

static void short_form(void) {
  uint64_t ids[4], chosen, again;
  uint32_t tokens[kTokens];
  prefix_router* router = make_router(4, ids, NULL);
  fill_tokens(tokens, kTokens, 1);
  CHECK_OK(prefix_router_route(router, tokens, kTokens, &chosen));
  CHECK(chosen == ids[0] || chosen == ids[1] || chosen == ids[2] || chosen == ids[3]);
  CHECK_OK(prefix_router_route(router, tokens, kTokens, &again));
  CHECK(again == chosen);
  CHECK_OK(prefix_router_route(router, NULL, 0, &chosen));  // no prompt: by load alone
  CHECK(chosen != 0);
  CHECK(requests_routed(router) == 3);
  prefix_router_destroy(router);
}

static void short_form_refused(void) {
  uint64_t id, chosen = 9;
  uint32_t tokens[16] = {0};
  prefix_router_options options = default_options();
  prefix_router* empty = make_router(0, NULL, NULL);
  prefix_router* router = make_router(1, &id, NULL);
  CHECK_FAILS(prefix_router_route(empty, tokens, 16, &chosen), PREFIX_ROUTER_UNAVAILABLE,
              "there is no instance");
  CHECK(chosen == 0);
  chosen = 9;
  CHECK_FAILS(prefix_router_route(router, NULL, 16, &chosen), PREFIX_ROUTER_INVALID_ARGUMENT,
              "tokens is null with a size of 16");
  CHECK(chosen == 0);
  chosen = 9;
  CHECK_FAILS(prefix_router_route(NULL, tokens, 16, &chosen), PREFIX_ROUTER_INVALID_ARGUMENT,
              "router is NULL");
  CHECK(chosen == 0);
  CHECK_FAILS(prefix_router_route(router, tokens, 16, NULL), PREFIX_ROUTER_INVALID_ARGUMENT,
              "instance is NULL");
  CHECK_FAILS(prefix_router_route(router, tokens, SIZE_MAX, &chosen),
              PREFIX_ROUTER_INVALID_ARGUMENT, "18446744073709551615");
  CHECK(requests_routed(router) == 0);
  prefix_router_destroy(router);
  prefix_router_destroy(empty);

  options.max_prompt_tokens = 15;
  CHECK_OK(prefix_router_create(&options, &router));
  add_instance(router, "a");
  CHECK_FAILS(prefix_router_route(router, tokens, 16, &chosen), PREFIX_ROUTER_INVALID_ARGUMENT,
              "the prompt has 16 tokens, max_prompt_tokens is 15");
  prefix_router_destroy(router);
}

static void decision_says_why(void) {
  int64_t nanos = 0;
  uint64_t ids[3];
  uint32_t tokens[kTokens];
  prefix_router* router = make_router(3, ids, &nanos);
  prefix_router_request request = token_request(tokens, kTokens);
  prefix_router_decision first = empty_decision(), second = empty_decision();
  fill_tokens(tokens, kTokens, 1);
  CHECK_OK(prefix_router_route_request(router, &request, &first));
  CHECK(first.struct_size == sizeof first);
  CHECK(first.prompt_tokens == kTokens && first.cached_tokens == 0);
  CHECK(first.best_cached_tokens == 0 && first.candidates == 3);
  CHECK(first.rule == PREFIX_ROUTER_NEAR_TIE);
  CHECK(fabs(first.predicted_ttft_s - kTokens / 10000.0) < 1e-6);
  CHECK(first.runner_up != 0 && first.runner_up != first.instance);
  CHECK(first.cost_total > 0 && first.miss_weight >= 1);
  CHECK(first.stale_report == 0 && first.reserved == 0);

  nanos += 1000000000;  // the load of the first has drained
  request.token_count = kTokens - 8;
  CHECK_OK(prefix_router_route_request(router, &request, &second));
  CHECK(second.instance == first.instance);
  CHECK(second.rule == PREFIX_ROUTER_LOWEST_COST);
  CHECK(second.prompt_tokens == kTokens - 8 && second.cached_tokens == kTokens - 16);
  CHECK(second.best_cached_tokens == kTokens - 16);
  CHECK(second.runner_up_cost > second.cost_total);
  CHECK(fabs(second.cost_pending + second.cost_uncached + second.cost_requests +
             second.cost_pressure - second.cost_total) < 1e-6);
  prefix_router_destroy(router);
}

static void text_and_keys(void) {
  int64_t nanos = 0;
  uint64_t ids[4];
  char text[200];
  uint32_t tokens[kTokens];
  uint64_t keys[kTokens / 16];
  size_t count;
  prefix_router* router = make_router(4, ids, &nanos);
  prefix_router_request request = token_request(NULL, 0);
  prefix_router_decision first = empty_decision(), second = empty_decision();
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = '\0';
  request.form = PREFIX_ROUTER_TEXT;
  request.text = text;
  request.text_size = PREFIX_ROUTER_NUL_TERMINATED;
  CHECK_OK(prefix_router_route_request(router, &request, &first));
  CHECK(first.prompt_tokens == 50);  // 199 bytes, 4 a token
  nanos += 1000000000;               // its load has drained
  request.text_size = 192;
  CHECK_OK(prefix_router_route_request(router, &request, &second));
  CHECK(second.instance == first.instance && second.cached_tokens == 48);

  // A prompt routed by tokens is known by its keys.
  fill_tokens(tokens, kTokens, 3);
  request = token_request(tokens, kTokens);
  CHECK_OK(prefix_router_route_request(router, &request, &first));
  CHECK_OK(prefix_router_block_keys(router, &request, keys, kTokens / 16, &count));
  CHECK(count == kTokens / 16);
  nanos += 1000000000;
  memset(&request, 0, sizeof request);
  request.struct_size = sizeof request;
  request.form = PREFIX_ROUTER_BLOCK_KEYS;
  request.block_keys = keys;
  request.block_key_count = count;
  CHECK_OK(prefix_router_route_request(router, &request, &second));
  CHECK(second.instance == first.instance && second.cached_tokens == kTokens);
  request.prompt_tokens = kTokens + 5;
  CHECK_OK(prefix_router_route_request(router, &request, &second));
  CHECK(second.prompt_tokens == kTokens + 5 && second.cached_tokens == kTokens);
  prefix_router_destroy(router);
}

static uint64_t cached(prefix_router* router, const prefix_router_request* request) {
  prefix_router_score_row row;
  size_t count;
  row.struct_size = sizeof row;
  CHECK_OK(prefix_router_score(router, request, NULL, &row, 1, &count));
  return row.cached_tokens;
}

static void key_spaces_and_items(void) {
  uint64_t id;
  uint32_t tokens[64];
  prefix_router_multimodal_item items[2] = {{20, 1}, {40, 2}};
  prefix_router* router = make_router(1, &id, NULL);
  prefix_router_request request = token_request(tokens, 64), other;
  prefix_router_decision decision = empty_decision();
  fill_tokens(tokens, 64, 1);
  request.model = "m";
  request.model_size = request.adapter_size = request.salt_size = PREFIX_ROUTER_NUL_TERMINATED;
  request.adapter = "a";
  request.salt = "s";
  request.multimodal = items;
  request.multimodal_count = 2;
  CHECK_OK(prefix_router_route_request(router, &request, &decision));
  CHECK(cached(router, &request) == 64);
  other = request;
  other.model = "n";
  CHECK(cached(router, &other) == 0);
  other = request;
  other.adapter = "b";
  CHECK(cached(router, &other) == 0);
  other = request;
  other.salt_size = 0;
  CHECK(cached(router, &other) == 0);
  items[1].content_hash = 3;  // in block 2
  CHECK(cached(router, &request) == 32);
  prefix_router_destroy(router);
}

static void allowed_session_priority(void) {
  uint64_t ids[3];
  uint32_t tokens[16] = {0};
  int i;
  prefix_router* router = make_router(3, ids, NULL);
  prefix_router_request request = token_request(tokens, 16);
  prefix_router_decision first = empty_decision(), second = empty_decision();
  request.allowed = ids + 1;
  request.allowed_count = 1;
  for (i = 0; i < 4; ++i) {
    tokens[0] = (uint32_t)i;
    CHECK_OK(prefix_router_route_request(router, &request, &first));
    CHECK(first.instance == ids[1]);
    CHECK(first.rule == PREFIX_ROUTER_ONLY_CANDIDATE && first.candidates == 1);
  }
  request.allowed = NULL;
  request.allowed_count = 0;
  request.session_key = "user 7";
  request.session_key_size = PREFIX_ROUTER_NUL_TERMINATED;
  request.priority = -3;
  request.expected_output_tokens = 100;
  CHECK_OK(prefix_router_route_request(router, &request, &first));
  for (i = 0; i < 4; ++i) {
    tokens[0] = 100 + (uint32_t)i;
    CHECK_OK(prefix_router_route_request(router, &request, &second));
    CHECK(second.instance == first.instance && second.rule == PREFIX_ROUTER_SESSION);
  }
  prefix_router_destroy(router);
}

static void bound_on_ttft(void) {
  int64_t nanos = 0;
  uint64_t id;
  uint32_t tokens[kTokens];
  prefix_router* router = make_router(1, &id, &nanos);
  prefix_router_request request = token_request(tokens, kTokens);
  prefix_router_decision decision = empty_decision();
  prefix_router_stats stats;
  fill_tokens(tokens, kTokens, 1);
  request.max_ttft_s = 0.001;
  CHECK_FAILS(prefix_router_route_request(router, &request, &decision),
              PREFIX_ROUTER_RESOURCE_EXHAUSTED, "max_ttft_s");
  request.max_ttft_s = 1;
  CHECK_OK(prefix_router_route_request(router, &request, &decision));
  stats.struct_size = sizeof stats;
  CHECK_OK(prefix_router_get_stats(router, &stats, NULL, 0, NULL));
  CHECK(stats.rejected == 1 && stats.requests == 1);
  prefix_router_destroy(router);
}

// Each malformed request fails in all calls that take one, and changes nothing.
static void check_refused(prefix_router* router, const prefix_router_request* request,
                          int32_t status, const char* text) {
  prefix_router_decision decision = empty_decision();
  uint64_t lease = 9;
  size_t count = 9;
  const uint64_t before = requests_routed(router);
  decision.instance = 77;
  CHECK_FAILS(prefix_router_route_request(router, request, &decision), status, text);
  CHECK_FAILS(prefix_router_acquire(router, request, &decision, &lease), status, text);
  CHECK(lease == 0 && decision.instance == 77);
  CHECK_FAILS(prefix_router_score(router, request, NULL, NULL, 0, &count), status, text);
  CHECK(count == 0);
  CHECK_FAILS(prefix_router_block_keys(router, request, NULL, 0, &count), status, text);
  CHECK(requests_routed(router) == before);
}

static void malformed_requests(void) {
  uint64_t id, keys[2] = {1, 2};
  uint32_t tokens[64] = {0};
  prefix_router_multimodal_item items[2] = {{63, 1}, {62, 2}};
  prefix_router_request request;
  prefix_router* router = make_router(1, &id, NULL);
#define REFUSED(statement, text)                                             \
  do {                                                                       \
    request = token_request(tokens, 64);                                     \
    statement;                                                               \
    check_refused(router, &request, PREFIX_ROUTER_INVALID_ARGUMENT, (text)); \
  } while (0)
  REFUSED(request.form = 3, "form must be tokens, text or block_keys, got 3");
  REFUSED(request.form = -1, "got -1");
  REFUSED(request.tokens = NULL, "tokens is null with a size of 64");
  REFUSED((request.form = PREFIX_ROUTER_TEXT, request.text_size = 5),
          "text is NULL with a size of 5");
  REFUSED((request.form = PREFIX_ROUTER_BLOCK_KEYS, request.block_key_count = 2),
          "block_keys is null with a size of 2");
  REFUSED((request.form = PREFIX_ROUTER_BLOCK_KEYS, request.block_key_count = 2,
           request.block_keys = keys, request.prompt_tokens = 31),
          "prompt_tokens is 31, fewer than 2 block_keys stand for");
  REFUSED(request.model_size = 1, "model is NULL with a size of 1");
  REFUSED(request.adapter_size = 2, "adapter is NULL with a size of 2");
  REFUSED(request.salt_size = 3, "salt is NULL with a size of 3");
  REFUSED(request.session_key_size = PREFIX_ROUTER_NUL_TERMINATED, "session_key is NULL");
  REFUSED(request.multimodal_count = 4, "multimodal is null with a size of 4");
  REFUSED((request.multimodal = items, request.multimodal_count = 2),
          "multimodal offsets must ascend, got 62 after 63");
  items[1].offset = 64;
  REFUSED((request.multimodal = items, request.multimodal_count = 2),
          "multimodal offset 64 is past the end of the prompt, 64");
  REFUSED(request.allowed_count = 5, "allowed is null with a size of 5");
  REFUSED(request.max_ttft_s = -1, "max_ttft_s must be 0 or more, got -1");
  REFUSED(request.max_ttft_s = NAN, "max_ttft_s");
  request = token_request(tokens, 64);
  request.reserved = 6;
  check_refused(router, &request, PREFIX_ROUTER_UNIMPLEMENTED, "reserved has bits");
  check_refused(router, NULL, PREFIX_ROUTER_INVALID_ARGUMENT, "request is NULL");
  prefix_router_destroy(router);
}

static void null_arguments(void) {
  uint64_t id;
  uint32_t tokens[16] = {0};
  prefix_router* router = make_router(1, &id, NULL);
  prefix_router_request request = token_request(tokens, 16);
  prefix_router_decision decision = empty_decision();
  CHECK_FAILS(prefix_router_route_request(NULL, &request, &decision),
              PREFIX_ROUTER_INVALID_ARGUMENT, "router is NULL");
  CHECK_FAILS(prefix_router_route_request(router, &request, NULL), PREFIX_ROUTER_INVALID_ARGUMENT,
              "decision is NULL");
  CHECK(requests_routed(router) == 0);
  prefix_router_destroy(router);
}

const test_case route_tests[] = {
    {"the short form answers an instance, and the same one for the same prompt", short_form},
    {"the short form refuses what it cannot route, and answers instance 0", short_form_refused},
    {"a decision says what was cached, and why the instance was chosen", decision_says_why},
    {"text and ready-made keys are routed like tokens", text_and_keys},
    {"model, adapter, salt and images keep prompts apart", key_spaces_and_items},
    {"the allowed instances and the session are respected", allowed_session_priority},
    {"a request above its bound on time to first token is refused", bound_on_ttft},
    {"a malformed request is refused by every call, and changes nothing", malformed_requests},
    {"a request without a place for the decision is refused", null_arguments},
    {NULL, NULL}};
