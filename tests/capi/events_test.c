// KV events: messages of engines decoded and applied, events of the caller's own making.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "prefix_router_events.h"
#include "throwing.h"

#define SIZED(type, name)         \
  type name;                      \
  memset(&name, 0, sizeof(name)); \
  name.struct_size = sizeof(name)

enum { kBlock = 16, kBlocks = 4, kTokens = kBlock * kBlocks };

static const uint64_t kIds[kBlocks] = {101, 102, 103, 104};

// Four blocks of a prompt, on the GPU.
static prefix_router_kv_event stored(const uint32_t* tokens) {
  SIZED(prefix_router_kv_event, event);
  event.kind = PREFIX_ROUTER_KV_STORED;
  event.block_size = kBlock;
  event.block_ids = kIds;
  event.block_count = kBlocks;
  event.tokens = tokens;
  event.token_count = kTokens;
  return event;
}

// The last `count` of them are gone.
static prefix_router_kv_event removed(size_t count) {
  SIZED(prefix_router_kv_event, event);
  event.kind = PREFIX_ROUTER_KV_REMOVED;
  event.block_ids = kIds + kBlocks - count;
  event.block_count = count;
  return event;
}

// Its message, to be freed.
static char* encode(const prefix_router_kv_event* events, size_t count,
                    const prefix_router_kv_encoder_options* options, size_t* size) {
  char* message;
  CHECK_FAILS(prefix_router_encode_kv_events(events, count, options, NULL, 0, size),
              PREFIX_ROUTER_OUT_OF_RANGE, "are needed");
  message = malloc(*size);
  if (message == NULL) abort();
  CHECK_OK(prefix_router_encode_kv_events(events, count, options, message, *size, size));
  return message;
}

static prefix_router_score_row score(const prefix_router* router, const uint32_t* tokens,
                                     size_t count) {
  SIZED(prefix_router_score_row, row);
  size_t rows;
  prefix_router_request request = token_request(tokens, count);
  CHECK_OK(prefix_router_score(router, &request, NULL, &row, 1, &rows));
  return row;
}

static prefix_router_stats stats_of(const prefix_router* router,
                                    prefix_router_instance_stats* row) {
  SIZED(prefix_router_stats, stats);
  size_t count;
  memset(row, 0, sizeof *row);
  row->struct_size = sizeof *row;
  CHECK_OK(prefix_router_get_stats(router, &stats, row, 1, &count));
  return stats;
}

static void messages(void) {
  static const int32_t encodings[] = {PREFIX_ROUTER_KV_ARRAYS, PREFIX_ROUTER_KV_ARRAYS_SHORT,
                                      PREFIX_ROUTER_KV_MAPS, PREFIX_ROUTER_KV_SGLANG_ARRAYS};
  uint32_t tokens[kTokens];
  size_t i;
  fill_tokens(tokens, kTokens, 1);
  for (i = 0; i < 8; ++i) {
    uint64_t id;
    prefix_router* router = make_router(1, &id, NULL);
    prefix_router_kv_decoder* decoder = NULL;
    prefix_router_kv_event events[2];
    prefix_router_instance_stats row;
    prefix_router_stats stats;
    SIZED(prefix_router_kv_encoder_options, options);
    SIZED(prefix_router_kv_result, result);
    char* message;
    size_t size;
    events[0] = stored(tokens);
    events[1] = removed(1);
    options.encoding = encodings[i / 2];
    options.bytes_ids = (int32_t)(i % 2);
    options.timestamp_s = 1234.5;
    options.has_rank = 1;
    options.rank = 3;
    CHECK_OK(prefix_router_kv_decoder_create(NULL, &decoder));
    stats = stats_of(router, &row);
    CHECK(row.event_driven == 0 && row.last_event_age_s < 0 && stats.kv_event_batches == 0);

    message = encode(events, 1, &options, &size);
    CHECK_OK(prefix_router_apply_kv_payload(router, id, decoder, message, size, &result));
    free(message);
    CHECK(result.timestamp_s == 1234.5 && result.has_rank == 1 && result.rank == 3);
    CHECK(result.needs_replay == 0 && result.events == 1 && result.last_event_id == -1);
    CHECK(result.counts[PREFIX_ROUTER_KV_OUTCOME_STORED] == kBlocks);
    CHECK(score(router, tokens, kTokens).cached_tokens == kTokens);
    message = encode(&events[1], 1, NULL, &size);
    CHECK_OK(prefix_router_apply_kv_payload(router, id, decoder, message, size, &result));
    CHECK(result.timestamp_s == 0 && result.has_rank == 0);
    CHECK(result.counts[PREFIX_ROUTER_KV_OUTCOME_STORED] == 0);
    CHECK(result.counts[PREFIX_ROUTER_KV_OUTCOME_REMOVED] == 1);
    CHECK(score(router, tokens, kTokens).cached_tokens == kTokens - kBlock);
    // The same again, without a result: it is gone already.
    CHECK_OK(prefix_router_apply_kv_payload(router, id, decoder, message, size, NULL));
    free(message);

    stats = stats_of(router, &row);
    CHECK(stats.kv_event_batches == 3);
    CHECK(stats.kv_events[PREFIX_ROUTER_KV_OUTCOME_ALREADY_GONE] == 1);
    CHECK(row.kv_events[PREFIX_ROUTER_KV_OUTCOME_STORED] == kBlocks);
    CHECK(row.kv_events[PREFIX_ROUTER_KV_OUTCOMES - 1] == 0);
    CHECK(row.event_driven == 1 && row.last_event_age_s >= 0 && row.engine_blocks == kBlocks - 1);
    CHECK(row.confirmed_gpu_blocks == kBlocks - 1 && row.confirmed_cpu_blocks == 0);
    prefix_router_kv_decoder_destroy(decoder);
    prefix_router_destroy(router);
  }
}

static void tensorrt_llm(void) {
  static const char message[] =
      "[{\"event_id\": 4, \"window_size\": 4096, \"attention_dp_rank\": 1, \"data\":"
      " {\"type\": \"stored\", \"parent_hash\": null, \"blocks\": [{\"type\": \"stored_block\","
      " \"block_hash\": 7, \"cache_level\": 0, \"priority\": 35, \"tokens\": ["
      "{\"token_id\": 1}, {\"token_id\": 2}, {\"token_id\": 3}, {\"token_id\": 4}]}]}},"
      " {\"event_id\": 9, \"window_size\": 4096, \"attention_dp_rank\": 1, \"data\":"
      " {\"type\": \"stored\", \"parent_hash\": 7, \"blocks\": [{\"type\": \"stored_block\","
      " \"block_hash\": 8, \"cache_level\": 1, \"priority\": 35, \"tokens\": ["
      "{\"token_id\": 5}, {\"token_id\": 6}]}]}}]";
  const uint32_t tokens[4] = {1, 2, 3, 4};
  uint64_t id;
  prefix_router* router;
  prefix_router_kv_decoder* decoder = NULL;
  prefix_router_options router_options = default_options();
  SIZED(prefix_router_kv_decoder_options, options);
  SIZED(prefix_router_kv_result, result);
  router_options.block_size = 4;
  CHECK_OK(prefix_router_create(&router_options, &router));
  id = add_instance(router, "a");
  options.format = PREFIX_ROUTER_KV_TRT_LLM_JSON;
  options.tokens_per_block = 4;
  options.has_rank = 1;
  options.rank = 1;
  CHECK_OK(prefix_router_kv_decoder_create(&options, &decoder));
  CHECK_OK(
      prefix_router_apply_kv_payload(router, id, decoder, message, sizeof message - 1, &result));
  CHECK(result.last_event_id == 9 && result.lost_events == 4 && isnan(result.timestamp_s));
  CHECK(result.counts[PREFIX_ROUTER_KV_OUTCOME_STORED] == 1);
  CHECK(result.counts[PREFIX_ROUTER_KV_OUTCOME_PARTIAL_BLOCK] == 1);
  CHECK(score(router, tokens, 4).cached_tokens == 4);
  prefix_router_kv_decoder_destroy(decoder);

  // Another rank's decoder passes them over.
  options.rank = 0;
  CHECK_OK(prefix_router_kv_decoder_create(&options, &decoder));
  CHECK_OK(
      prefix_router_apply_kv_payload(router, id, decoder, message, sizeof message - 1, &result));
  CHECK(result.last_event_id == -1 && result.events == 0);
  CHECK(result.counts[PREFIX_ROUTER_KV_OUTCOME_STORED] == 0);
  prefix_router_kv_decoder_destroy(decoder);
  prefix_router_destroy(router);
}

static void own_events(void) {
  uint32_t tokens[kTokens];
  uint64_t id, hash = 0, other = 0;
  prefix_router* router;
  prefix_router_options options = default_options();
  prefix_router_multimodal_item item;
  prefix_router_request request;
  prefix_router_kv_multimodal image;
  prefix_router_score_row row;
  prefix_router_instance_stats stats;
  size_t count;
  SIZED(prefix_router_instance_options, instance);
  SIZED(prefix_router_kv_result, result);
  SIZED(prefix_router_kv_event, cleared);
  prefix_router_kv_event events[2];
  fill_tokens(tokens, kTokens, 2);
  cleared.kind = PREFIX_ROUTER_KV_CLEARED;
  options.cpu_tier_weight = 0.5;
  options.disk_tier_weight = PREFIX_ROUTER_ZERO;
  CHECK_OK(prefix_router_create(&options, &router));
  CHECK_OK(prefix_router_get_options(router, &options));
  CHECK(options.cpu_tier_weight == 0.5 && options.disk_tier_weight == PREFIX_ROUTER_ZERO);
  CHECK(options.external_tier_weight == 0.5);
  instance.name = "a";
  instance.name_size = 1;
  instance.model = "org/model";
  instance.model_size = PREFIX_ROUTER_NUL_TERMINATED;
  CHECK_OK(prefix_router_add_instance(router, &instance, &id));

  // An image in the second block, in CPU memory, under an adapter.
  CHECK_OK(prefix_router_multimodal_hash("image 7", PREFIX_ROUTER_NUL_TERMINATED, &hash));
  CHECK_OK(prefix_router_multimodal_hash("image 7", 6, &other));
  CHECK(hash != 0 && hash != other);
  memset(&image, 0, sizeof image);
  image.identifier = "image 7";
  image.identifier_size = PREFIX_ROUTER_NUL_TERMINATED;
  image.offset = 3;
  image.block = 1;
  events[0] = stored(tokens);
  events[0].tier = PREFIX_ROUTER_KV_CPU;
  events[0].adapter = "legal";
  events[0].adapter_size = 5;
  events[0].multimodal = &image;
  events[0].multimodal_count = 1;
  CHECK_OK(prefix_router_apply_kv_events(router, id, events, 1, &result));
  CHECK(result.counts[PREFIX_ROUTER_KV_OUTCOME_STORED] == kBlocks && result.events == 1);
  CHECK(isnan(result.timestamp_s) && result.last_event_id == -1);

  row.struct_size = sizeof row;
  request = token_request(tokens, kTokens);
  CHECK_OK(prefix_router_score(router, &request, NULL, &row, 1, &count));
  CHECK(row.cached_tokens == 0);  // of another model, without the adapter and the image
  request.model = "org/model";
  request.adapter = "legal";
  request.model_size = request.adapter_size = PREFIX_ROUTER_NUL_TERMINATED;
  CHECK_OK(prefix_router_score(router, &request, NULL, &row, 1, &count));
  CHECK(row.cached_tokens == kBlock && row.cached_credit_tokens == kBlock / 2);
  item.offset = kBlock + 3;
  item.content_hash = hash;
  request.multimodal = &item;
  request.multimodal_count = 1;
  CHECK_OK(prefix_router_score(router, &request, NULL, &row, 1, &count));
  CHECK(row.cached_tokens == kTokens && row.cached_credit_tokens == kTokens / 2);
  {
    prefix_router_decision decision = empty_decision();
    CHECK_OK(prefix_router_route_request(router, &request, &decision));
    CHECK(decision.cached_tokens == kTokens && decision.cached_credit_tokens == kTokens / 2);
  }
  (void)stats_of(router, &stats);
  CHECK(stats.confirmed_cpu_blocks == kBlocks && stats.confirmed_gpu_blocks == 0);

  // Two events at once: one that follows blocks that nobody stored, and then everything goes.
  events[0] = stored(tokens);
  events[0].has_parent = 1;
  events[0].parent_id = 999;
  events[0].block_ids = &events[0].parent_id;
  events[0].block_count = 1;
  events[0].token_count = kBlock;
  events[1] = cleared;
  CHECK_OK(prefix_router_apply_kv_events(router, id, events, 2, &result));
  CHECK(result.needs_replay == 1 && result.events == 2);
  CHECK(result.counts[PREFIX_ROUTER_KV_OUTCOME_UNKNOWN_PARENT] == 1);
  CHECK(result.counts[PREFIX_ROUTER_KV_OUTCOME_CLEARED] == 1);
  (void)stats_of(router, &stats);
  CHECK(stats.engine_blocks == 0);

  // No events are fine, and so are those for an instance that is gone.
  CHECK_OK(prefix_router_apply_kv_events(router, id, NULL, 0, &result));
  CHECK_OK(prefix_router_remove_instance(router, id));
  CHECK_OK(prefix_router_apply_kv_events(router, id, &cleared, 1, &result));
  CHECK(result.counts[PREFIX_ROUTER_KV_OUTCOME_OLD_GENERATION] == 1);
  CHECK(result.counts[PREFIX_ROUTER_KV_OUTCOME_CLEARED] == 0);
  prefix_router_destroy(router);
}

static void refused(void) {
  uint32_t tokens[kTokens] = {0};
  uint64_t id, hash = 5;
  size_t i, size = 0;
  char message[1024];
  prefix_router* router = make_router(1, &id, NULL);
  prefix_router_kv_decoder* decoder = NULL;
  prefix_router_kv_decoder* none = (prefix_router_kv_decoder*)message;
  prefix_router_kv_event events[2];
  prefix_router_kv_result result, before;
  prefix_router_instance_stats row;
  prefix_router_kv_multimodal images[2];
  SIZED(prefix_router_kv_decoder_options, options);
  SIZED(prefix_router_kv_encoder_options, encoder_options);
  memset(&before, 0x55, sizeof before);
  before.struct_size = sizeof before;
  memcpy(&result, &before, sizeof result);
  memset(images, 0, sizeof images);
#define INVALID(call, text) CHECK_FAILS(call, PREFIX_ROUTER_INVALID_ARGUMENT, text)
  INVALID(prefix_router_kv_decoder_create(NULL, NULL), "decoder is NULL");
  options.format = 2;
  INVALID(prefix_router_kv_decoder_create(&options, &none), "format must be 0 to 1, got 2");
  CHECK(none == NULL);
  options.format = -1;
  INVALID(prefix_router_kv_decoder_create(&options, &none), "format must be 0 to 1, got -1");
  options.format = 1;
  options.tokens_per_block = (1 << 20) + 1;
  INVALID(prefix_router_kv_decoder_create(&options, &none),
          "tokens_per_block must be 0 to 1048576");
  options.tokens_per_block = 1 << 20;
  options.has_rank = 2;
  INVALID(prefix_router_kv_decoder_create(&options, &none), "has_rank must be 0 or 1, got 2");
  options.struct_size = 8;
  INVALID(prefix_router_kv_decoder_create(&options, &none), "options: struct_size must be");
  CHECK_OK(prefix_router_kv_decoder_create(NULL, &decoder));
  prefix_router_kv_decoder_destroy(NULL);

#define APPLY(payload, size) \
  prefix_router_apply_kv_payload(router, id, decoder, payload, size, &result)
  events[0] = stored(tokens);
  CHECK_OK(prefix_router_encode_kv_events(events, 1, NULL, message, sizeof message, &size));
  INVALID(prefix_router_apply_kv_payload(NULL, id, decoder, message, size, &result),
          "router is NULL");
  INVALID(prefix_router_apply_kv_payload(router, id, NULL, message, size, &result),
          "decoder is NULL");
  INVALID(APPLY(NULL, 4), "payload is NULL with a count of 4");
  INVALID(APPLY(NULL, 0), "at byte 0");
  INVALID(APPLY("", 0), "at byte 0");
  INVALID(APPLY("\xc1", 1), "at byte 0");
  for (i = 0; i < size; ++i) INVALID(APPLY(message, i), "at byte");
  result.struct_size = 9;
  INVALID(APPLY(message, size), "result: struct_size must be");
  result.struct_size = sizeof result;

#define APPLY_EVENTS(count) prefix_router_apply_kv_events(router, id, events, count, &result)
#define ENCODE_EVENTS(count) \
  prefix_router_encode_kv_events(events, count, NULL, message, sizeof message, &size)
  // Each of these members is wrong in the second event, for both calls; nothing of the first is
  // taken over.
#define INVALID_EVENT(member, value, text)     \
  events[0] = events[1] = stored(tokens);      \
  events[1].multimodal = images;               \
  events[1].member = value;                    \
  INVALID(APPLY_EVENTS(2), "events[1]" text);  \
  INVALID(ENCODE_EVENTS(2), "events[1]" text); \
  CHECK(size == 0)
  INVALID_EVENT(kind, 3, ".kind must be 0 to 2, got 3");
  INVALID_EVENT(kind, -1, ".kind must be 0 to 2, got -1");
  INVALID_EVENT(tier, 4, ".tier must be 0 to 3, got 4");
  INVALID_EVENT(attention, 3, ".attention must be 0 to 2, got 3");
  INVALID_EVENT(has_parent, 2, ".has_parent must be 0 or 1, got 2");
  INVALID_EVENT(block_size, 0, ".block_size must be 1 to 1048576, got 0");
  INVALID_EVENT(block_size, (1 << 20) + 1, ".block_size must be 1 to 1048576, got 1048577");
  INVALID_EVENT(block_ids, NULL, ".block_ids is NULL with a count of 4");
  INVALID_EVENT(tokens, NULL, ".tokens is NULL with a count of 64");
  INVALID_EVENT(adapter_size, 3, ".adapter is NULL with a size of 3");
  INVALID_EVENT(salt_size, PREFIX_ROUTER_NUL_TERMINATED, ".salt is NULL");
  images[0].block = 4;
  INVALID_EVENT(multimodal_count, 1,
                ".multimodal[0].block must ascend below block_count, which is 4");
  images[0].block = 2;
  images[1].block = 1;
  INVALID_EVENT(multimodal_count, 2, ".multimodal[1].block must ascend");
  images[1].block = 2;
  images[1].identifier_size = 7;
  INVALID_EVENT(multimodal_count, 2, ".multimodal[1].identifier is NULL with a size of 7");
  images[1].reserved = 1;
  events[0] = events[1] = stored(tokens);
  events[1].multimodal = images;
  events[1].multimodal_count = 2;
  CHECK_FAILS(APPLY_EVENTS(2), PREFIX_ROUTER_UNIMPLEMENTED, "events[1].multimodal[1].reserved");
  events[0].struct_size = sizeof events[0] - 1;
  INVALID(APPLY_EVENTS(2), "events[0]: struct_size must be");
  events[0].struct_size = sizeof events[0];
  INVALID(prefix_router_apply_kv_events(NULL, id, events, 1, &result), "router is NULL");
  INVALID(prefix_router_apply_kv_events(router, id, NULL, 1, &result),
          "events is NULL with a count of 1");
  result.struct_size = 0;
  INVALID(APPLY_EVENTS(1), "result: struct_size must be");
  result.struct_size = sizeof result;

#define ENCODE(options) \
  prefix_router_encode_kv_events(events, 1, options, message, sizeof message, &size)
  INVALID(prefix_router_encode_kv_events(events, 1, NULL, message, sizeof message, NULL),
          "size is NULL");
  INVALID(prefix_router_encode_kv_events(events, 1, NULL, NULL, 7, &size),
          "buffer is NULL with a capacity of 7");
  encoder_options.encoding = 4;
  INVALID(ENCODE(&encoder_options), "encoding must be 0 to 3, got 4");
  encoder_options.encoding = PREFIX_ROUTER_KV_ARRAYS_SHORT;
  encoder_options.bytes_ids = 2;
  INVALID(ENCODE(&encoder_options), "bytes_ids must be 0 or 1, got 2");
  encoder_options.bytes_ids = 0;
  encoder_options.has_rank = -1;
  INVALID(ENCODE(&encoder_options), "has_rank must be 0 or 1, got -1");
  encoder_options.has_rank = 0;
  events[0].group = 1;
  INVALID(ENCODE(&encoder_options), "group");
  encoder_options.struct_size = 4;
  INVALID(ENCODE(&encoder_options), "options: struct_size must be");
  CHECK(size == 0);

  INVALID(prefix_router_multimodal_hash("a", 1, NULL), "hash is NULL");
  INVALID(prefix_router_multimodal_hash(NULL, 1, &hash), "identifier is NULL with a size of 1");
  CHECK(hash == 5);

  CHECK(memcmp(&result, &before, sizeof result) == 0);
  CHECK(stats_of(router, &row).kv_event_batches == 0);
  CHECK(row.event_driven == 0 && row.blocks_held == 0);
  prefix_router_kv_decoder_destroy(decoder);
  prefix_router_destroy(router);
}

static void names(void) {
  CHECK(strcmp(prefix_router_kv_outcome_name(PREFIX_ROUTER_KV_OUTCOME_STORED), "stored") == 0);
  CHECK(strcmp(prefix_router_kv_outcome_name(PREFIX_ROUTER_KV_OUTCOME_OLD_GENERATION),
               "old_generation") == 0);
  CHECK(strcmp(prefix_router_kv_outcome_name(PREFIX_ROUTER_KV_OUTCOMES), "unknown") == 0);
  CHECK(strcmp(prefix_router_kv_outcome_name(-1), "unknown") == 0);
}

// Results and options of other lengths than the library's.
static void other_sizes(void) {
  typedef struct newer_event {
    prefix_router_kv_event known;
    uint64_t unknown;
  } newer_event;
  typedef struct newer_result {
    prefix_router_kv_result known;
    uint64_t unknown;
  } newer_result;
  uint32_t tokens[kTokens];
  uint64_t id;
  prefix_router* router = make_router(1, &id, NULL);
  newer_event events[2];
  newer_result result;
  fill_tokens(tokens, kTokens, 3);
  memset(events, 0, sizeof events);
  events[0].known = stored(tokens);
  events[1].known = removed(2);
  events[0].known.struct_size = sizeof events[0];
  memset(&result, 0xEE, sizeof result);
  result.known.struct_size = sizeof result;
  events[1].unknown = 1;
  CHECK_FAILS(prefix_router_apply_kv_events(router, id, &events[0].known, 2, &result.known),
              PREFIX_ROUTER_UNIMPLEMENTED, "events[1]: the library knows");
  events[1].unknown = 0;
  CHECK_OK(prefix_router_apply_kv_events(router, id, &events[0].known, 2, &result.known));
  CHECK(result.known.struct_size == sizeof result && result.unknown == 0);
  CHECK(result.known.counts[PREFIX_ROUTER_KV_OUTCOME_REMOVED] == 2);
  CHECK(score(router, tokens, kTokens).cached_tokens == 2 * kBlock);
  prefix_router_destroy(router);
}

// ---- Exceptions ---------------------------------------------------------------------------------

static void from_a_clock(void) {
  static const int32_t statuses[] = {PREFIX_ROUTER_OK, PREFIX_ROUTER_RESOURCE_EXHAUSTED,
                                     PREFIX_ROUTER_INVALID_ARGUMENT, PREFIX_ROUTER_INTERNAL,
                                     PREFIX_ROUTER_INTERNAL};
  int what = THROW_NOTHING;
  uint32_t tokens[kTokens] = {0};
  uint64_t id;
  size_t size;
  char message[1024];
  prefix_router* router;
  prefix_router_kv_decoder* decoder = NULL;
  prefix_router_instance_stats row;
  prefix_router_options options = default_options();
  prefix_router_kv_event event = stored(tokens);
  SIZED(prefix_router_kv_result, result);
  options.clock_callback = throwing_clock;
  options.clock_user_data = &what;
  CHECK_OK(prefix_router_create(&options, &router));
  id = add_instance(router, "a");
  CHECK_OK(prefix_router_kv_decoder_create(NULL, &decoder));
  CHECK_OK(prefix_router_encode_kv_events(&event, 1, NULL, message, sizeof message, &size));
  for (what = THROW_BAD_ALLOC; what <= THROW_INT; ++what) {
    CHECK_FAILS(prefix_router_apply_kv_payload(router, id, decoder, message, size, &result),
                statuses[what], NULL);
    CHECK_FAILS(prefix_router_apply_kv_events(router, id, &event, 1, &result), statuses[what],
                NULL);
  }
  what = THROW_NOTHING;
  CHECK(stats_of(router, &row).kv_event_batches == 0 && row.event_driven == 0);
  CHECK(result.events == 0);
  CHECK_OK(prefix_router_apply_kv_payload(router, id, decoder, message, size, &result));
  CHECK(result.counts[PREFIX_ROUTER_KV_OUTCOME_STORED] == kBlocks);
  prefix_router_kv_decoder_destroy(decoder);
  prefix_router_destroy(router);
}

// One call with everything made anew, of which the allocations behind the first `count` fail.
static int32_t apply_with_memory(uint64_t count, int payload, int* any_failed) {
  uint32_t tokens[kTokens];
  uint64_t id;
  size_t size = 0;
  char message[1024];
  int32_t status;
  prefix_router* router = make_router(1, &id, NULL);
  prefix_router_kv_decoder* decoder = NULL;
  prefix_router_kv_multimodal image;
  prefix_router_kv_event event = stored(tokens);
  SIZED(prefix_router_kv_result, result);
  fill_tokens(tokens, kTokens, 4);
  memset(&image, 0, sizeof image);
  image.identifier = "an image of which the identifier is long";
  image.identifier_size = PREFIX_ROUTER_NUL_TERMINATED;
  event.multimodal = &image;
  event.multimodal_count = 1;
  CHECK_OK(prefix_router_encode_kv_events(&event, 1, NULL, message, sizeof message, &size));
  (void)fail_allocations_after(count);
  if (payload) {
    status = prefix_router_kv_decoder_create(NULL, &decoder);
    if (status == PREFIX_ROUTER_OK) {
      status = prefix_router_apply_kv_payload(router, id, decoder, message, size, &result);
    }
  } else {
    status = prefix_router_apply_kv_events(router, id, &event, 1, &result);
  }
  *any_failed = fail_allocations_after(UINT64_MAX);
  CHECK(status == PREFIX_ROUTER_OK || result.events == 0);
  // Whatever has failed, the router goes on.
  CHECK_OK(prefix_router_apply_kv_events(router, id, &event, 1, &result));
  prefix_router_kv_decoder_destroy(decoder);
  prefix_router_destroy(router);
  return status;
}

static void out_of_memory(void) {
  int payload;
  for (payload = 0; payload < 2; ++payload) {
    uint64_t count = 0, exhausted = 0;
    for (;; ++count) {
      int any_failed = 0;
      const int32_t status = apply_with_memory(count, payload, &any_failed);
      if (!any_failed) {
        CHECK_OK(status);
        break;
      }
      // The router may do without what it could not get.
      if (status == PREFIX_ROUTER_OK) continue;
      CHECK(status == PREFIX_ROUTER_RESOURCE_EXHAUSTED);
      ++exhausted;
    }
    CHECK(exhausted > 0);
  }
}

const test_case events_tests[] = {
    {"messages in each encoding are decoded, applied and counted", messages},
    {"TensorRT-LLM's messages too, those of one rank, with lost events", tensorrt_llm},
    {"events of the caller's making: tiers, adapter, model, image, clear", own_events},
    {"wrong arguments are refused by name, and nothing changes", refused},
    {"outcomes have names", names},
    {"of a newer caller, unknown zeros are accepted and results filled", other_sizes},
    {"what a clock throws becomes the status, and nothing is applied", from_a_clock},
    {"whichever allocation fails, the call says so and the router goes on", out_of_memory},
    {NULL, NULL}};
