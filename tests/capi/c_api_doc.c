/* The code of docs/c_api.md, in programs' places; scripts/test.sh checks that all of it is here. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prefix_router.h"
#include "prefix_router_event_stream.h"
#include "prefix_router_events.h"

static int failures = 0;

static void require(int holds, const char* what) {
  if (holds) return;
  ++failures;
  printf("%s: %s\n", what, prefix_router_last_error());
}

int32_t shortest_queue(const prefix_router_policy_input* in, float* costs, void* user_data) {
  (void)user_data;
  for (size_t i = 0; i < in->size; ++i) {
    float cached = in->cached_blocks[i] * in->tokens_per_block;
    costs[i] = in->pending_tokens[i] + (in->prompt_tokens - cached);
  }
  return PREFIX_ROUTER_OK;
}

static prefix_router* make_router(uint64_t* instance) {
  prefix_router* router;
  prefix_router_options options = {0};
  options.struct_size = sizeof options;

  options.policy_callback = shortest_queue;
  options.policy_tie_tolerance = 64; /* tokens */

  require(prefix_router_create(&options, &router) == PREFIX_ROUTER_OK, "create");
  prefix_router_instance_options instance_options = {0};
  instance_options.struct_size = sizeof instance_options;
  instance_options.name = "a";
  instance_options.name_size = 1;
  require(prefix_router_add_instance(router, &instance_options, instance) == PREFIX_ROUTER_OK,
          "add instance");
  return router;
}

static void report(prefix_router* router, uint64_t instance) {
  prefix_router_engine_load load = {0};
  load.struct_size = sizeof load;
  load.reported = PREFIX_ROUTER_REPORTS_RUNNING | PREFIX_ROUTER_REPORTS_KV_USAGE;
  load.running_requests = 0;
  load.kv_usage = 0.35;
  prefix_router_report_load(router, instance, &load);

  prefix_router_instance_stats stats = {0};
  size_t count;
  stats.struct_size = sizeof stats;
  require(prefix_router_get_stats(router, NULL, &stats, 1, &count) == PREFIX_ROUTER_OK &&
              stats.report_age_s >= 0,
          "report load");
}

static void route(prefix_router* router, const uint32_t* tokens, size_t token_count,
                  const char* user_id) {
  prefix_router_request request = {0};
  request.struct_size = sizeof request;
  request.tokens = tokens;
  request.token_count = token_count;
  request.session_key = user_id;
  request.session_key_size = PREFIX_ROUTER_NUL_TERMINATED;

  prefix_router_decision decision = {0};
  decision.struct_size = sizeof decision;
  int32_t status = prefix_router_route_request(router, &request, &decision);
  require(status == PREFIX_ROUTER_OK && decision.instance != 0, "route");

  prefix_router_finish_info info = {0};
  info.struct_size = sizeof info;
  uint64_t lease;
  prefix_router_acquire(router, &request, &decision, &lease);
  /* send the request to decision.instance; when the first byte of the answer arrives: */
  prefix_router_first_token(router, lease);
  /* when it is complete; NULL if you know nothing about it: */
  prefix_router_finish(router, lease, &info);
  /* if the client has gone, or the instance failed, instead: */
  prefix_router_cancel(router, lease);

  size_t capacity = 16, count;
  prefix_router_score_row* rows = malloc(capacity * sizeof *rows);
  for (;;) {
    rows[0].struct_size = sizeof *rows;
    int32_t status = prefix_router_score(router, &request, NULL, rows, capacity, &count);
    if (status != PREFIX_ROUTER_OUT_OF_RANGE) break;
    rows = realloc(rows, (capacity = count) * sizeof *rows);
  }
  require(count == 1 && rows[0].cached_tokens == token_count, "score");
  free(rows);
}

static void metrics(prefix_router* router) {
  const char page[] =
      "vllm:num_requests_running{engine=\"0\"} 4\n"
      "vllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"28966\"} 1.0\n";
  const size_t page_size = sizeof page - 1;
  prefix_router_instance_options instance_options = {0};
  instance_options.struct_size = sizeof instance_options;
  instance_options.name = "10.0.0.7:8000";
  instance_options.name_size = PREFIX_ROUTER_NUL_TERMINATED;
  uint64_t instance;
  require(prefix_router_add_instance(router, &instance_options, &instance) == PREFIX_ROUTER_OK,
          "add instance");

  prefix_router_engine_rank_metrics ranks[8];
  size_t rank_count;
  ranks[0].struct_size = sizeof ranks[0];
  int32_t status =
      prefix_router_parse_engine_metrics(page, page_size, NULL, NULL, ranks, 8, &rank_count);
  if (status == PREFIX_ROUTER_OK) {
    prefix_router_report_engine_metrics(router, "10.0.0.7:8000", PREFIX_ROUTER_NUL_TERMINATED,
                                        ranks, rank_count, 0, NULL);
  }

  instance_options.capacity_blocks = prefix_router_capacity_blocks(ranks[0].capacity_tokens, 16);
  require(instance_options.capacity_blocks == 28966, "capacity");
  {
    size_t capacity = 1 << 16, size;
    char* page = malloc(capacity);
    while (prefix_router_render_metrics(router, NULL, page, capacity, &size) ==
           PREFIX_ROUTER_OUT_OF_RANGE) {
      page = realloc(page, capacity = 2 * size);
    }
    require(strstr(page,
                   "instance_reported_requests{instance_name=\"10.0.0.7:8000\",rank=\"0\","
                   "phase=\"running\"} 4\n") != NULL,
            "page");
    free(page);
  }
  prefix_router_remove_instance(router, instance);
}

static void kv_stream(prefix_router* router, uint64_t instance, prefix_router_kv_decoder* decoder,
                      const char* payload, size_t payload_size) {
  const double now_s = 1;
  const uint8_t number[8] = {0, 0, 0, 0, 0, 0, 0, 5};
  const prefix_router_kv_frame frames[3] = {{"kv", 2}, {number, 8}, {payload, payload_size}};
  const size_t frame_count = 3;
  prefix_router_kv_stream* stream;
  prefix_router_kv_stream_create(instance, NULL, &stream);
  prefix_router_kv_message message = {0};
  message.struct_size = sizeof message;
  prefix_router_kv_driven driven = {0};
  driven.struct_size = sizeof driven;
  if (prefix_router_parse_kv_live(frames, frame_count, &message) == PREFIX_ROUTER_OK) {
    prefix_router_kv_stream_live(stream, message.seq, message.payload, message.payload_size, now_s);
    prefix_router_kv_stream_drive(stream, router, decoder, &driven);
  }
  uint8_t first[8];
  if (driven.fetch != 0) {
    /* wait for driven.fetch_delay_s, then send the frames "" and first to the replay socket */
    prefix_router_kv_seq_frame(driven.fetch_seq, first);
  }
  require(driven.fetch == 1 && first[7] == 0, "fetch");
  prefix_router_kv_stream_replayed(stream, driven.fetch, 5, payload, payload_size, now_s);
  require(prefix_router_kv_stream_drive(stream, router, decoder, &driven) == PREFIX_ROUTER_OK &&
              driven.applied == 1 && driven.clears == 1,
          "drive");
  prefix_router_kv_stream_destroy(stream);
}

static void kv_events(prefix_router* router, uint64_t instance) {
  const uint64_t block_ids[2] = {7, 8};
  const uint32_t tokens[32] = {9};
  char payload[512];
  size_t payload_size;
  prefix_router_kv_event stored = {0};
  stored.struct_size = sizeof stored;
  stored.block_size = 16;
  stored.block_ids = block_ids;
  stored.block_count = 2;
  stored.tokens = tokens;
  stored.token_count = 32;
  require(prefix_router_encode_kv_events(&stored, 1, NULL, payload, sizeof payload,
                                         &payload_size) == PREFIX_ROUTER_OK,
          "encode");

  prefix_router_kv_decoder* decoder;
  prefix_router_kv_decoder_create(NULL, &decoder);
  prefix_router_kv_result result = {0};
  result.struct_size = sizeof result;
  int32_t status =
      prefix_router_apply_kv_payload(router, instance, decoder, payload, payload_size, &result);
  if (status != PREFIX_ROUTER_OK) {
    fprintf(stderr, "not a message: %s\n", prefix_router_last_error());
  }
  for (int32_t i = 0; i < PREFIX_ROUTER_KV_OUTCOMES; ++i) {
    if (result.counts[i] == 0) continue;
    printf("%s: %llu\n", prefix_router_kv_outcome_name(i), (unsigned long long)result.counts[i]);
  }
  require(status == PREFIX_ROUTER_OK && result.counts[PREFIX_ROUTER_KV_OUTCOME_STORED] == 2,
          "apply");
  kv_stream(router, instance, decoder, payload, payload_size);
  prefix_router_kv_decoder_destroy(decoder);

  prefix_router_kv_event event = {0};
  event.struct_size = sizeof event;
  event.kind = PREFIX_ROUTER_KV_REMOVED;
  event.block_ids = block_ids;
  event.block_count = 2;
  prefix_router_apply_kv_events(router, instance, &event, 1, NULL);

  prefix_router_instance_stats stats = {0};
  size_t count;
  stats.struct_size = sizeof stats;
  require(prefix_router_get_stats(router, NULL, &stats, 1, &count) == PREFIX_ROUTER_OK &&
              stats.event_driven == 1 && stats.engine_blocks == 0,
          "events");
}

static void several_gateways(void) {
  prefix_router* router = NULL;
  prefix_router_options options = {0};
  options.struct_size = sizeof options;
  options.routers = 4; /* this one and three others */
  options.has_key_seed = 1;
  options.key_seed = 0x5eed; /* the same in all of them */
  require(prefix_router_create(&options, &router) == PREFIX_ROUTER_OK, "create one of several");
  prefix_router_destroy(router);
}

int main(void) {
  static const uint32_t tokens[64] = {1};
  uint64_t instance = 0;
  prefix_router* router = make_router(&instance);
  report(router, instance);
  route(router, tokens, 64, "user 7");
  metrics(router);
  kv_events(router, instance);
  several_gateways();

  prefix_router_stats stats = {0};
  stats.struct_size = sizeof stats;
  require(prefix_router_get_stats(router, &stats, NULL, 0, NULL) == PREFIX_ROUTER_OK, "stats");
  require(stats.requests == 2 && stats.leases_finished == 1, "counted");
  prefix_router_destroy(router);
  return failures == 0 ? 0 : 1;
}
