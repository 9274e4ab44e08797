// The order of KV event messages: streams, what they ask for, and the frames around messages.
#include <stdlib.h>
#include <string.h>

#include "check.h"
#include "prefix_router_event_stream.h"
#include "prefix_router_events.h"
#include "throwing.h"

#define SIZED(type, name)         \
  type name;                      \
  memset(&name, 0, sizeof(name)); \
  name.struct_size = sizeof(name)
#define INVALID(call, text) CHECK_FAILS(call, PREFIX_ROUTER_INVALID_ARGUMENT, text)

enum { kBlock = 16, kMessages = 8, kTokens = kBlock * kMessages };

// A prompt of an engine, of which message i stores block i.
typedef struct engine {
  uint32_t tokens[kTokens];
  char messages[kMessages][512];
  size_t sizes[kMessages];
} engine;

static void start(engine* e, uint32_t seed) {
  size_t i;
  fill_tokens(e->tokens, kTokens, seed);
  for (i = 0; i < kMessages; ++i) {
    const uint64_t id = 100 * seed + i;
    SIZED(prefix_router_kv_event, event);
    event.block_size = kBlock;
    event.block_ids = &id;
    event.block_count = 1;
    event.has_parent = i > 0;
    event.parent_id = id - 1;
    event.tokens = e->tokens + i * kBlock;
    event.token_count = kBlock;
    CHECK_OK(prefix_router_encode_kv_events(&event, 1, NULL, e->messages[i], sizeof e->messages[i],
                                            &e->sizes[i]));
  }
}

static uint64_t cached(const prefix_router* router, const engine* e) {
  SIZED(prefix_router_score_row, row);
  size_t rows;
  prefix_router_request request = token_request(e->tokens, kTokens);
  CHECK_OK(prefix_router_score(router, &request, NULL, &row, 1, &rows));
  return row.cached_tokens / kBlock;
}

static prefix_router_kv_stream* make_stream(uint64_t id) {
  prefix_router_kv_stream* stream = NULL;
  CHECK_OK(prefix_router_kv_stream_create(id, NULL, &stream));
  return stream;
}

static prefix_router_kv_stream_stats stats_of(const prefix_router_kv_stream* stream) {
  SIZED(prefix_router_kv_stream_stats, stats);
  CHECK_OK(prefix_router_kv_stream_get_stats(stream, &stats));
  return stats;
}

static prefix_router_kv_action next(prefix_router_kv_stream* stream) {
  SIZED(prefix_router_kv_action, action);
  CHECK_OK(prefix_router_kv_stream_next(stream, &action));
  return action;
}

#define LIVE(i, now_s) prefix_router_kv_stream_live(stream, i, e.messages[i], e.sizes[i], now_s)
#define REPLAYED(fetch, i, now_s) \
  prefix_router_kv_stream_replayed(stream, fetch, i, e.messages[i], e.sizes[i], now_s)
#define DRIVE() prefix_router_kv_stream_drive(stream, router, decoder, &driven)

static void driven_with_a_gap(void) {
  uint64_t id, i;
  prefix_router* router = make_router(1, &id, NULL);
  prefix_router_kv_decoder* decoder = NULL;
  prefix_router_kv_stream* stream = make_stream(id);
  prefix_router_kv_stream_stats stats;
  SIZED(prefix_router_kv_driven, driven);
  engine e, other;
  start(&e, 1);
  start(&other, 2);
  CHECK_OK(prefix_router_kv_decoder_create(NULL, &decoder));
  CHECK(stats_of(stream).state == PREFIX_ROUTER_KV_STATE_WAITING && stats_of(stream).fetch == 0);
  CHECK(stats_of(stream).instance == id && stats_of(stream).last_live_s < 0);

  // 0 and 1 come, 2 does not, 3 and 4 wait for it.
  CHECK_OK(LIVE(0, 10));
  CHECK_OK(DRIVE());
  CHECK(driven.applied == 1 && driven.clears == 1 && driven.fetch == 0 && driven.retired == 0);
  CHECK(driven.counts[PREFIX_ROUTER_KV_OUTCOME_STORED] == 1 && driven.undecodable == 0);
  CHECK_OK(LIVE(1, 11));
  CHECK_OK(DRIVE());
  CHECK(driven.applied == 1 && driven.clears == 0 && driven.needs_replay == 0);
  CHECK_OK(LIVE(3, 12));
  CHECK_OK(DRIVE());
  CHECK(driven.applied == 0 && driven.fetch == 1 && driven.fetch_seq == 1);
  CHECK(driven.fetch_delay_s == 0);
  CHECK_OK(LIVE(4, 13));
  CHECK_OK(DRIVE());
  CHECK(driven.applied == 0 && driven.fetch == 0);
  CHECK(cached(router, &e) == 2);
  stats = stats_of(stream);
  CHECK(stats.state == PREFIX_ROUTER_KV_STATE_REPLAYING && stats.gaps == 1 && stats.held == 2);
  CHECK(stats.fetch == 1 && stats.last_applied == 1 && stats.behind == 3 && stats.complete == 0);
  CHECK(stats.last_live_s == 13 && stats.last_applied_s == 11);

  // The replay fails, and is tried again. What comes late under the first number is ignored.
  CHECK_OK(prefix_router_kv_stream_replay_failed(stream, 1, 14));
  CHECK_OK(DRIVE());
  CHECK(driven.fetch == 2 && driven.fetch_seq == 1 && driven.fetch_delay_s == 0.1);
  CHECK_OK(REPLAYED(1, 2, 15));
  CHECK_OK(DRIVE());
  CHECK(driven.applied == 0 && stats_of(stream).ignored == 1);
  for (i = 1; i <= 3; ++i) {
    CHECK_OK(REPLAYED(2, i, 16));
    CHECK_OK(DRIVE());
    CHECK(driven.applied == (i == 1 ? 0 : 1));
  }
  CHECK_OK(prefix_router_kv_stream_replay_ended(stream, 2, 17));
  CHECK_OK(DRIVE());
  CHECK(driven.applied == 1 && cached(router, &e) == 5);
  stats = stats_of(stream);
  CHECK(stats.state == PREFIX_ROUTER_KV_STATE_LIVE && stats.complete == 1 && stats.held == 0);
  CHECK(stats.applied == 5 && stats.applied_replay == 2 && stats.lost == 0);
  CHECK(stats.replays == 2 && stats.replays_failed == 1 && stats.replays_ended == 1);

  // Another process begins with 0: what the first one had is gone.
  CHECK_OK(prefix_router_kv_stream_live(stream, 0, other.messages[0], other.sizes[0], 18));
  CHECK_OK(DRIVE());
  CHECK(driven.clears == 1 && driven.applied == 1 && stats_of(stream).restarts == 1);
  CHECK(cached(router, &e) == 0 && cached(router, &other) == 1);

  // A payload that is no message is passed over.
  CHECK_OK(prefix_router_kv_stream_live(stream, 1, "\xc1", 1, 19));
  CHECK_OK(DRIVE());
  CHECK(driven.undecodable == 1 && driven.applied == 0 && stats_of(stream).malformed == 1);

  // The connection breaks and comes back.
  CHECK_OK(prefix_router_kv_stream_connected(stream, 20));
  CHECK_OK(DRIVE());
  CHECK(driven.fetch == 3 && driven.fetch_seq == 1 && stats_of(stream).connected == 1);
  CHECK_OK(prefix_router_kv_stream_disconnected(stream));
  CHECK(stats_of(stream).connected == 0);

  // The instance goes, and comes under another number.
  CHECK_OK(prefix_router_kv_stream_bind(stream, id));
  CHECK_OK(prefix_router_remove_instance(router, id));
  CHECK_OK(LIVE(0, 21));
  CHECK_OK(DRIVE());
  CHECK(driven.retired == 1 && driven.counts[PREFIX_ROUTER_KV_OUTCOME_OLD_GENERATION] == 1);
  CHECK(stats_of(stream).state == PREFIX_ROUTER_KV_STATE_RETIRED);
  CHECK_OK(LIVE(1, 22));
  CHECK_OK(DRIVE());
  CHECK(driven.applied == 0 && driven.retired == 0);
  id = add_instance(router, "again");
  CHECK_OK(prefix_router_kv_stream_bind(stream, id));
  CHECK(stats_of(stream).instance == id);
  CHECK_OK(LIVE(0, 23));
  CHECK_OK(DRIVE());
  CHECK(driven.applied == 1 && cached(router, &e) == 1);
  prefix_router_kv_stream_destroy(stream);
  prefix_router_kv_decoder_destroy(decoder);
  prefix_router_destroy(router);
}

static void one_by_one(void) {
  prefix_router_kv_stream* stream = make_stream(7);
  prefix_router_kv_action action;
  engine e;
  start(&e, 3);
  CHECK(next(stream).kind == PREFIX_ROUTER_KV_ACTION_NONE);
  CHECK_OK(LIVE(0, 0));
  // Every input is refused while actions wait, and nothing is lost by it.
  CHECK(next(stream).kind == PREFIX_ROUTER_KV_ACTION_CLEAR);
#define WAITS(call) CHECK_FAILS(call, PREFIX_ROUTER_FAILED_PRECONDITION, "1 actions of the last")
  WAITS(LIVE(1, 0));
  WAITS(prefix_router_kv_stream_live_unnumbered(stream, e.messages[1], e.sizes[1], 0));
  WAITS(prefix_router_kv_stream_connected(stream, 0));
  WAITS(REPLAYED(1, 1, 0));
  WAITS(prefix_router_kv_stream_replay_ended(stream, 1, 0));
  WAITS(prefix_router_kv_stream_replay_failed(stream, 1, 0));
  action = next(stream);
  CHECK(action.kind == PREFIX_ROUTER_KV_ACTION_APPLY && action.has_seq == 1 && action.seq == 0);
  CHECK(action.payload == e.messages[0] && action.payload_size == e.sizes[0]);
  CHECK(next(stream).kind == PREFIX_ROUTER_KV_ACTION_NONE);
  CHECK(next(stream).payload == NULL);

  CHECK_OK(LIVE(2, 1));
  action = next(stream);
  CHECK(action.kind == PREFIX_ROUTER_KV_ACTION_FETCH && action.has_seq == 1 && action.seq == 0);
  CHECK(action.fetch == 1 && action.delay_s == 0 && action.payload_size == 0);
  CHECK_OK(REPLAYED(1, 1, 2));
  CHECK(next(stream).seq == 1);
  CHECK_OK(prefix_router_kv_stream_replay_ended(stream, 1, 3));
  action = next(stream);
  CHECK(action.kind == PREFIX_ROUTER_KV_ACTION_APPLY && action.seq == 2);
  CHECK(action.payload != e.messages[2]);  // it was held, as a copy
  CHECK(action.payload_size == e.sizes[2] &&
        memcmp(action.payload, e.messages[2], e.sizes[2]) == 0);

  CHECK_OK(prefix_router_kv_stream_live_unnumbered(stream, e.messages[3], e.sizes[3], 4));
  CHECK(next(stream).kind == PREFIX_ROUTER_KV_ACTION_CLEAR);
  action = next(stream);
  CHECK(action.kind == PREFIX_ROUTER_KV_ACTION_APPLY && action.has_seq == 0);
  CHECK(stats_of(stream).unnumbered == 1);
  prefix_router_kv_stream_destroy(stream);
}

static void options_arrive(void) {
  prefix_router_kv_stream* stream = NULL;
  engine e;
  SIZED(prefix_router_kv_stream_options, options);
  start(&e, 4);
  options.no_replay = options.keep_on_loss = 1;
  CHECK_OK(prefix_router_kv_stream_create(7, &options, &stream));
  CHECK_OK(LIVE(0, 0));
  CHECK(next(stream).kind == PREFIX_ROUTER_KV_ACTION_CLEAR);
  CHECK(next(stream).kind == PREFIX_ROUTER_KV_ACTION_APPLY);
  CHECK_OK(LIVE(5, 0));
  CHECK(next(stream).kind == PREFIX_ROUTER_KV_ACTION_APPLY);
  CHECK(next(stream).kind == PREFIX_ROUTER_KV_ACTION_NONE);
  CHECK(stats_of(stream).lost == 4);
  prefix_router_kv_stream_destroy(stream);

  options.no_replay = options.keep_on_loss = 0;
  options.max_held_messages = 2;
  options.replay_attempts = 2;
  options.retry_delay_s = PREFIX_ROUTER_ZERO;
  CHECK_OK(prefix_router_kv_stream_create(7, &options, &stream));
  CHECK_OK(LIVE(3, 0));
  CHECK(next(stream).fetch == 1);
  CHECK_OK(LIVE(4, 0));
  CHECK_OK(LIVE(5, 0));
  CHECK(stats_of(stream).held == 2 && stats_of(stream).dropped == 1);
  CHECK_OK(prefix_router_kv_stream_replay_failed(stream, 1, 0));
  CHECK(next(stream).delay_s == 0);
  CHECK_OK(prefix_router_kv_stream_replay_failed(stream, 2, 0));
  CHECK(next(stream).kind == PREFIX_ROUTER_KV_ACTION_CLEAR);
  CHECK(next(stream).kind == PREFIX_ROUTER_KV_ACTION_APPLY);
  prefix_router_kv_stream_destroy(stream);

  options.max_held_messages = 0;
  options.max_held_bytes = e.sizes[3] + 100;
  CHECK_OK(prefix_router_kv_stream_create(7, &options, &stream));
  CHECK_OK(LIVE(3, 0));
  CHECK(next(stream).fetch == 1);
  CHECK_OK(LIVE(4, 0));
  CHECK(stats_of(stream).held == 1 && stats_of(stream).dropped == 1);
  prefix_router_kv_stream_destroy(stream);

#define CREATE() prefix_router_kv_stream_create(7, &options, &stream)
  options.retry_delay_s = 3601;
  INVALID(CREATE(), "retry_delay_s is 3601");
  CHECK(stream == NULL);
  options.retry_delay_s = -2;
  INVALID(CREATE(), "retry_delay_s is -2");
  options.retry_delay_s = 0;
  options.no_replay = 2;
  INVALID(CREATE(), "no_replay must be 0 or 1, got 2");
  options.no_replay = 0;
  options.keep_on_loss = -1;
  INVALID(CREATE(), "keep_on_loss must be 0 or 1, got -1");
  options.struct_size = 3;
  INVALID(CREATE(), "options: struct_size must be");
}

static void refused(void) {
  uint64_t id;
  prefix_router* router = make_router(1, &id, NULL);
  prefix_router_kv_decoder* decoder = NULL;
  prefix_router_kv_stream* stream = make_stream(id);
  SIZED(prefix_router_kv_driven, driven);
  SIZED(prefix_router_kv_action, action);
  SIZED(prefix_router_kv_stream_stats, stats);
  engine e;
  start(&e, 5);
  CHECK_OK(prefix_router_kv_decoder_create(NULL, &decoder));
  INVALID(prefix_router_kv_stream_create(7, NULL, NULL), "stream is NULL");
  INVALID(prefix_router_kv_stream_bind(NULL, 7), "stream is NULL");
  INVALID(prefix_router_kv_stream_connected(NULL, 0), "stream is NULL");
  INVALID(prefix_router_kv_stream_disconnected(NULL), "stream is NULL");
  INVALID(prefix_router_kv_stream_live(NULL, 0, "", 0, 0), "stream is NULL");
  INVALID(prefix_router_kv_stream_live(stream, 0, NULL, 2, 0), "payload is NULL with a count of 2");
  INVALID(prefix_router_kv_stream_live_unnumbered(NULL, "", 0, 0), "stream is NULL");
  INVALID(prefix_router_kv_stream_live_unnumbered(stream, NULL, 2, 0), "payload is NULL");
  INVALID(prefix_router_kv_stream_replayed(NULL, 1, 0, "", 0, 0), "stream is NULL");
  INVALID(prefix_router_kv_stream_replayed(stream, 1, 0, NULL, 2, 0), "payload is NULL");
  INVALID(prefix_router_kv_stream_replay_ended(NULL, 1, 0), "stream is NULL");
  INVALID(prefix_router_kv_stream_replay_failed(NULL, 1, 0), "stream is NULL");
  INVALID(prefix_router_kv_stream_get_stats(NULL, &stats), "stream is NULL");
  INVALID(prefix_router_kv_stream_get_stats(stream, NULL), "stats is NULL");
  stats.struct_size = 1;
  INVALID(prefix_router_kv_stream_get_stats(stream, &stats), "stats: struct_size must be");
  prefix_router_kv_stream_destroy(NULL);

  // What waits is still there afterwards.
  CHECK_OK(LIVE(0, 0));
  INVALID(prefix_router_kv_stream_next(NULL, &action), "stream is NULL");
  INVALID(prefix_router_kv_stream_next(stream, NULL), "action is NULL");
  action.struct_size = 0;
  INVALID(prefix_router_kv_stream_next(stream, &action), "action: struct_size must be");
  INVALID(prefix_router_kv_stream_drive(NULL, router, decoder, &driven), "stream is NULL");
  INVALID(prefix_router_kv_stream_drive(stream, NULL, decoder, &driven), "router is NULL");
  INVALID(prefix_router_kv_stream_drive(stream, router, NULL, &driven), "decoder is NULL");
  INVALID(prefix_router_kv_stream_drive(stream, router, decoder, NULL), "driven is NULL");
  driven.struct_size = 4;
  INVALID(DRIVE(), "driven: struct_size must be");
  driven.struct_size = sizeof driven;
  CHECK(driven.applied == 0 && cached(router, &e) == 0);
  CHECK_OK(DRIVE());
  CHECK(driven.applied == 1 && cached(router, &e) == 1);

  // The number that ends replays is none of a live message.
  CHECK_OK(prefix_router_kv_stream_live(stream, PREFIX_ROUTER_KV_END_OF_REPLAY, "", 0, 0));
  CHECK(stats_of(stream).malformed == 1);
  CHECK(next(stream).kind == PREFIX_ROUTER_KV_ACTION_NONE);
  CHECK(strcmp(prefix_router_kv_stream_state_name(PREFIX_ROUTER_KV_STATE_REPLAYING), "replaying") ==
        0);
  CHECK(strcmp(prefix_router_kv_stream_state_name(4), "unknown") == 0);
  prefix_router_kv_stream_destroy(stream);
  prefix_router_kv_decoder_destroy(decoder);
  prefix_router_destroy(router);
}

static void failing_router(void) {
  int what = THROW_NOTHING;
  uint64_t id;
  prefix_router* router;
  prefix_router_kv_decoder* decoder = NULL;
  prefix_router_kv_stream* stream;
  prefix_router_options options = default_options();
  SIZED(prefix_router_kv_driven, driven);
  engine e;
  start(&e, 6);
  options.clock_callback = throwing_clock;
  options.clock_user_data = &what;
  CHECK_OK(prefix_router_create(&options, &router));
  id = add_instance(router, "a");
  stream = make_stream(id);
  CHECK_OK(prefix_router_kv_decoder_create(NULL, &decoder));
  CHECK_OK(LIVE(0, 0));
  what = THROW_RUNTIME_ERROR;
  CHECK_FAILS(DRIVE(), PREFIX_ROUTER_INTERNAL, "injected failure");
  CHECK(driven.applied == 1 && driven.clears == 1);
  CHECK(driven.counts[PREFIX_ROUTER_KV_OUTCOME_STORED] == 0);
  what = THROW_NOTHING;
  CHECK_OK(LIVE(1, 0));
  CHECK_OK(DRIVE());
  CHECK(driven.needs_replay == 1);  // the block that it follows was not applied
  prefix_router_kv_stream_destroy(stream);
  prefix_router_kv_decoder_destroy(decoder);
  prefix_router_destroy(router);
}

static void out_of_memory(void) {
  uint64_t id, count;
  prefix_router* router = make_router(1, &id, NULL);
  engine e;
  start(&e, 7);
  for (count = 0;; ++count) {
    int any_failed, i;
    prefix_router_kv_stream* stream = NULL;
    int32_t status;
    (void)fail_allocations_after(count);
    status = prefix_router_kv_stream_create(id, NULL, &stream);
    if (status == PREFIX_ROUTER_OK) {
      // No input fails: a message for which there is no memory is dropped and counted.
      for (i = 2; i < kMessages; ++i) {
        status = LIVE(i, 0);
        if (i == 2) CHECK(next(stream).kind == PREFIX_ROUTER_KV_ACTION_FETCH);
        CHECK_OK(status);
      }
    } else {
      CHECK(stream == NULL && status == PREFIX_ROUTER_RESOURCE_EXHAUSTED);
    }
    any_failed = fail_allocations_after(UINT64_MAX);
    if (stream != NULL) {
      const prefix_router_kv_stream_stats stats = stats_of(stream);
      CHECK(stats.held + stats.dropped == kMessages - 2);
      CHECK((stats.dropped > 0) == any_failed);
    }
    prefix_router_kv_stream_destroy(stream);
    if (!any_failed) break;
  }
  CHECK(count > 3);
  prefix_router_destroy(router);
}

static void frames(void) {
  static const uint8_t seq[8] = {0, 0, 0, 0, 0, 0, 1, 2};
  static const uint8_t end[8] = {255, 255, 255, 255, 255, 255, 255, 255};
  uint8_t frame[8];
  prefix_router_kv_frame parts[4];
  prefix_router_kv_message before;
  SIZED(prefix_router_kv_message, message);
  SIZED(prefix_router_kv_topic, topic);
#define FRAME(i, bytes, length) parts[i].data = bytes, parts[i].size = length
  FRAME(0, "kv@10.0.0.7:8000@org/model", 26);
  FRAME(1, seq, 8);
  FRAME(2, "payload", 7);
  CHECK_OK(prefix_router_parse_kv_live(parts, 3, &message));
  CHECK(message.topic == parts[0].data && message.topic_size == 26);
  CHECK(message.has_seq == 1 && message.seq == 258);
  CHECK(message.payload == parts[2].data && message.payload_size == 7);
  CHECK_OK(prefix_router_kv_seq_frame(258, frame));
  CHECK(memcmp(frame, seq, sizeof seq) == 0);

  CHECK_OK(prefix_router_parse_kv_topic(message.topic, message.topic_size, &topic));
  CHECK(topic.address_size == 13 && memcmp(topic.address, "10.0.0.7:8000", 13) == 0);
  CHECK(topic.host_size == 8 && topic.host == topic.address && topic.port == 8000);
  CHECK(topic.model_size == 9 && memcmp(topic.model, "org/model", 9) == 0);
  CHECK_OK(prefix_router_parse_kv_topic("", 0, &topic));
  CHECK(topic.address_size == 0 && topic.model_size == 0 && topic.port == 0);

  CHECK_OK(prefix_router_parse_kv_live(parts + 1, 2, &message));  // without a number
  CHECK(message.has_seq == 0 && message.topic_size == 8 && message.payload_size == 7);

  FRAME(0, NULL, 0);
  CHECK_OK(prefix_router_parse_kv_replay(parts, 3, &message));
  CHECK(message.seq == 258 && message.topic_size == 0 && message.payload_size == 7);
  FRAME(1, "kv", 2);
  FRAME(2, end, 8);
  FRAME(3, "", 0);
  CHECK_OK(prefix_router_parse_kv_replay(parts, 4, &message));
  CHECK(message.seq == PREFIX_ROUTER_KV_END_OF_REPLAY && message.topic_size == 2);
  CHECK(message.payload_size == 0);

  memcpy(&before, &message, sizeof before);
  INVALID(prefix_router_parse_kv_live(parts, 4, &message), "4 frames");
  INVALID(prefix_router_parse_kv_live(parts, 0, &message), "0 frames");
  INVALID(prefix_router_parse_kv_live(NULL, 2, &message), "frames is NULL with a count of 2");
  INVALID(prefix_router_parse_kv_live(parts, 3, NULL), "message is NULL");
  INVALID(prefix_router_parse_kv_live(parts + 1, 3, &message), "end");  // of a replay
  INVALID(prefix_router_parse_kv_replay(parts, 1, &message), "1 frames");
  INVALID(prefix_router_parse_kv_replay(parts + 1, 3, &message), "frame");  // begins with "kv"
  FRAME(2, end, 7);
  INVALID(prefix_router_parse_kv_replay(parts, 4, &message), "7 bytes");
  FRAME(2, NULL, 7);
  INVALID(prefix_router_parse_kv_replay(parts, 4, &message),
          "frames[2].data is NULL with a count of 7");
  CHECK(memcmp(&before, &message, sizeof before) == 0);
  message.struct_size = 2;
  INVALID(prefix_router_parse_kv_replay(parts, 4, &message), "message: struct_size must be");
  INVALID(prefix_router_kv_seq_frame(1, NULL), "frame is NULL");
  INVALID(prefix_router_parse_kv_topic("kv", 2, &topic), "kv");
  INVALID(prefix_router_parse_kv_topic(NULL, 2, &topic), "text is NULL with a size of 2");
  INVALID(prefix_router_parse_kv_topic("", 0, NULL), "topic is NULL");
  topic.struct_size = 0;
  INVALID(prefix_router_parse_kv_topic("", 0, &topic), "topic: struct_size must be");
}

const test_case event_stream_tests[] = {
    {"a gap is fetched, and a restart, a broken payload and a removed instance are dealt with",
     driven_with_a_gap},
    {"actions come one by one, and no input is taken while some wait", one_by_one},
    {"every option arrives, and is refused out of its range", options_arrive},
    {"wrong arguments are refused by name, and nothing is lost", refused},
    {"a router that fails is told, and the stream goes on", failing_router},
    {"without memory messages are dropped and counted", out_of_memory},
    {"frames of live messages, replays and topics are read", frames},
    {NULL, NULL}};
