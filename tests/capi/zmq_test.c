// The ZeroMQ subscriber of the C library, against an engine that is a PUB and a ROUTER socket.
#include <stdio.h>
#include <string.h>
#include <zmq.h>

#include "prefix_router_zmq.h"

static int failures = 0;

#define CHECK(condition) check((condition) != 0, #condition, __LINE__)
#define CHECK_OK(call) CHECK((call) == PREFIX_ROUTER_OK)
// The call fails with this status and text.
#define CHECK_FAILS(call, status, text) check_fails((call), (status), (text), #call, __LINE__)
#define INVALID(call, text) CHECK_FAILS(call, PREFIX_ROUTER_INVALID_ARGUMENT, text)

#define SIZED(type, name)         \
  type name;                      \
  memset(&name, 0, sizeof(name)); \
  name.struct_size = sizeof(name)

static void check(int holds, const char* what, int line) {
  if (holds) return;
  ++failures;
  printf("%d: does not hold: %s\n  last error: %s\n", line, what, prefix_router_zmq_last_error());
}

static void check_fails(int32_t actual, int32_t status, const char* text, const char* call,
                        int line) {
  const char* const error = prefix_router_zmq_last_error();
  if (actual == status && strstr(error, text) != NULL) return;
  ++failures;
  printf("%d: %s\n  is %s, \"%s\"\n", line, call, prefix_router_status_name(actual), error);
}

enum { kBlock = 16, kMessages = 4, kTokens = kBlock * kMessages };

static uint32_t tokens[kTokens];

// Message i of the engine, which stores block i of a prompt.
static size_t message(size_t i, char* payload, size_t capacity) {
  const uint64_t id = 100 + i;
  size_t size = 0;
  SIZED(prefix_router_kv_event, event);
  event.block_size = kBlock;
  event.block_ids = &id;
  event.block_count = 1;
  event.has_parent = i > 0;
  event.parent_id = id - 1;
  event.tokens = tokens + i * kBlock;
  event.token_count = kBlock;
  CHECK_OK(prefix_router_encode_kv_events(&event, 1, NULL, payload, capacity, &size));
  return size;
}

static void publish(void* socket, size_t i) {
  char payload[512];
  uint8_t seq[8];
  const size_t size = message(i, payload, sizeof payload);
  CHECK_OK(prefix_router_kv_seq_frame(i, seq));
  CHECK(zmq_send(socket, "kv", 2, ZMQ_SNDMORE) == 2);
  CHECK(zmq_send(socket, seq, 8, ZMQ_SNDMORE) == 8);
  CHECK(zmq_send(socket, payload, size, 0) == (int)size);
}

// One message of a reply.
static void reply(void* socket, const char* client, int client_size, uint64_t number,
                  const char* payload, size_t size) {
  uint8_t seq[8];
  CHECK_OK(prefix_router_kv_seq_frame(number, seq));
  CHECK(zmq_send(socket, client, (size_t)client_size, ZMQ_SNDMORE) == client_size);
  CHECK(zmq_send(socket, "", 0, ZMQ_SNDMORE) == 0);
  CHECK(zmq_send(socket, seq, 8, ZMQ_SNDMORE) == 8);
  CHECK(zmq_send(socket, payload, size, 0) == (int)size);
}

// Answers a request for a replay, if there is one within 5 ms, with the first `sent` messages.
static void serve(void* socket, size_t sent) {
  char client[64], empty[8], payload[512];
  uint8_t first[8];
  size_t i;
  const int client_size = zmq_recv(socket, client, sizeof client, 0);
  if (client_size < 0) return;
  CHECK(zmq_recv(socket, empty, sizeof empty, 0) == 0);
  CHECK(zmq_recv(socket, first, sizeof first, 0) == 8);
  for (i = first[7]; i < sent; ++i) {
    const size_t size = message(i, payload, sizeof payload);
    reply(socket, client, client_size, i, payload, size);
  }
  reply(socket, client, client_size, PREFIX_ROUTER_KV_END_OF_REPLAY, "", 0);
}

static uint64_t cached(const prefix_router* router) {
  SIZED(prefix_router_score_row, row);
  SIZED(prefix_router_request, request);
  size_t rows;
  request.tokens = tokens;
  request.token_count = kTokens;
  CHECK_OK(prefix_router_score(router, &request, NULL, &row, 1, &rows));
  return row.cached_tokens / kBlock;
}

// Whether it holds so many blocks within ten seconds, of which the replay has that many.
static int becomes(const prefix_router* router, void* replay, size_t blocks) {
  int i;
  for (i = 0; i < 2000 && cached(router) != blocks; ++i) serve(replay, blocks);
  return cached(router) == blocks;
}

static void receives(prefix_router* router, uint64_t instance) {
  char endpoint[64], replay_endpoint[64];
  size_t size = sizeof endpoint, count = 0;
  uint64_t number = 0;
  int32_t running = -1;
  void* const context = zmq_ctx_new();
  void* const live = zmq_socket(context, ZMQ_PUB);
  void* const replay = zmq_socket(context, ZMQ_ROUTER);
  const int no_linger = 0, patience_ms = 5;
  prefix_router_zmq_subscriber* subscriber = NULL;
  SIZED(prefix_router_zmq_source, source);
  SIZED(prefix_router_zmq_stats, row);
  SIZED(prefix_router_kv_stream_stats, stream);
  zmq_setsockopt(live, ZMQ_LINGER, &no_linger, sizeof no_linger);
  zmq_setsockopt(replay, ZMQ_LINGER, &no_linger, sizeof no_linger);
  zmq_setsockopt(replay, ZMQ_RCVTIMEO, &patience_ms, sizeof patience_ms);
  CHECK(zmq_bind(live, "tcp://127.0.0.1:*") == 0 && zmq_bind(replay, "tcp://127.0.0.1:*") == 0);
  CHECK(zmq_getsockopt(live, ZMQ_LAST_ENDPOINT, endpoint, &size) == 0);
  size = sizeof replay_endpoint;
  CHECK(zmq_getsockopt(replay, ZMQ_LAST_ENDPOINT, replay_endpoint, &size) == 0);
  source.endpoint = endpoint;
  source.replay_endpoint = replay_endpoint;
  source.endpoint_size = source.replay_endpoint_size = PREFIX_ROUTER_NUL_TERMINATED;
  source.topic = "kv";
  source.topic_size = 2;
  source.instances = &instance;
  source.instance_count = 1;

  CHECK_OK(prefix_router_zmq_create(router, NULL, &subscriber));
  CHECK_OK(prefix_router_zmq_add(subscriber, &source, &number));
  CHECK(number != 0);
  CHECK_OK(prefix_router_zmq_start(subscriber));
  CHECK_FAILS(prefix_router_zmq_start(subscriber), PREFIX_ROUTER_FAILED_PRECONDITION, "run");

  // What was published before it came is replayed, and then live messages are taken.
  CHECK(becomes(router, replay, 2));
  publish(live, 2);
  CHECK(becomes(router, replay, 3));
  publish(live, 3);
  CHECK(becomes(router, replay, 4));

  CHECK_FAILS(prefix_router_zmq_get_stats(subscriber, &running, NULL, NULL, 0, &count),
              PREFIX_ROUTER_OUT_OF_RANGE, "1 are needed");
  CHECK(count == 1 && running == -1);
  CHECK_OK(prefix_router_zmq_stop(subscriber));
  CHECK_OK(prefix_router_zmq_get_stats(subscriber, &running, &row, &stream, 1, &count));
  CHECK(running == 0 && count == 1 && row.source == number && row.rank == 0);
  CHECK(strcmp(row.endpoint, endpoint) == 0 && row.last_error[0] == '\0');
  CHECK(row.messages >= 4 && row.bytes > 0 && row.connects == 1 && row.undecodable == 0);
  CHECK(row.bad_frames == 0 && row.refused == 0 && row.silent_s >= 0);
  CHECK(stream.applied == 4 && stream.last_applied == 3 && stream.lost == 0);
  CHECK(stream.instance == 0 && stream.fetch == 0);

  CHECK_OK(prefix_router_zmq_start(subscriber));
  CHECK_OK(prefix_router_zmq_get_stats(subscriber, &running, &row, NULL, 1, &count));
  CHECK(running == 1);
  CHECK_OK(prefix_router_zmq_remove(subscriber, number));
  CHECK_FAILS(prefix_router_zmq_remove(subscriber, number), PREFIX_ROUTER_NOT_FOUND, "");
  CHECK_OK(prefix_router_zmq_get_stats(subscriber, NULL, NULL, NULL, 0, &count));
  CHECK(count == 0);
  prefix_router_zmq_destroy(subscriber);
  zmq_close(live);
  zmq_close(replay);
  zmq_ctx_term(context);
}

static void refuses(prefix_router* router, uint64_t instance) {
  uint64_t number = 7;
  size_t count;
  prefix_router_zmq_subscriber* subscriber = (prefix_router_zmq_subscriber*)&number;
  SIZED(prefix_router_zmq_options, options);
  SIZED(prefix_router_zmq_source, source);
  SIZED(prefix_router_zmq_stats, row);
  SIZED(prefix_router_kv_stream_stats, stream);
  INVALID(prefix_router_zmq_create(router, NULL, NULL), "subscriber is NULL");
  INVALID(prefix_router_zmq_create(NULL, NULL, &subscriber), "router is NULL");
  CHECK(subscriber == NULL);
#define CREATE() prefix_router_zmq_create(router, &options, &subscriber)
  options.keep_on_loss = 2;
  INVALID(CREATE(), "keep_on_loss must be 0 or 1, got 2");
  options.keep_on_loss = 0;
  options.reconnect_s = 10;
  INVALID(CREATE(), "max_reconnect_s is 5");
  options.reconnect_s = 0;
  options.replay_timeout_s = 3601;
  INVALID(CREATE(), "replay_timeout_s is 3601");
  options.replay_timeout_s = 0;
  options.receive_high_water_mark = UINT32_MAX;
  INVALID(CREATE(), "receive_high_water_mark is 4294967295");
  options.struct_size = 1;
  INVALID(CREATE(), "options: struct_size must be");
  CHECK(subscriber == NULL);

  CHECK_OK(prefix_router_zmq_create(router, NULL, &subscriber));
  source.endpoint = "tcp://127.0.0.1:5557";
  source.endpoint_size = PREFIX_ROUTER_NUL_TERMINATED;
  source.instances = &instance;
  source.instance_count = 1;
#define ADD() prefix_router_zmq_add(subscriber, &source, &number)
  INVALID(prefix_router_zmq_add(subscriber, &source, NULL), "number is NULL");
  INVALID(prefix_router_zmq_add(NULL, &source, &number), "subscriber is NULL");
  CHECK(number == 0);
  INVALID(prefix_router_zmq_add(subscriber, NULL, &number), "source is NULL");
  source.bind = 2;
  INVALID(ADD(), "bind must be 0 or 1, got 2");
  source.bind = 0;
  source.ipv6 = -1;
  INVALID(ADD(), "ipv6 must be 0 or 1, got -1");
  source.ipv6 = 0;
  source.instance_count = 0;
  INVALID(ADD(), "instance");
  source.instances = NULL;
  source.instance_count = 1;
  INVALID(ADD(), "instances is NULL with a count of 1");
  source.instances = &instance;
  source.topic_size = 3;
  INVALID(ADD(), "topic is NULL with a size of 3");
  source.topic_size = 0;
  source.endpoint = "nowhere";
  INVALID(ADD(), "nowhere");
  source.struct_size = 1;
  INVALID(ADD(), "source: struct_size must be");
  CHECK(number == 0);

  CHECK_FAILS(prefix_router_zmq_remove(subscriber, 99), PREFIX_ROUTER_NOT_FOUND, "99");
  INVALID(prefix_router_zmq_remove(NULL, 1), "subscriber is NULL");
  INVALID(prefix_router_zmq_start(NULL), "subscriber is NULL");
  INVALID(prefix_router_zmq_stop(NULL), "subscriber is NULL");
  CHECK_OK(prefix_router_zmq_stop(subscriber));
#define STATS(rows, streams, capacity) \
  prefix_router_zmq_get_stats(subscriber, NULL, rows, streams, capacity, &count)
  INVALID(prefix_router_zmq_get_stats(subscriber, NULL, &row, NULL, 1, NULL), "count is NULL");
  INVALID(prefix_router_zmq_get_stats(NULL, NULL, &row, NULL, 1, &count), "subscriber is NULL");
  INVALID(STATS(NULL, NULL, 1), "rows is NULL with a capacity of 1");
  stream.struct_size = 2;
  INVALID(STATS(&row, &stream, 1), "streams[0]: struct_size must be");
  row.struct_size = 2;
  INVALID(STATS(&row, NULL, 1), "rows[0]: struct_size must be");
  row.struct_size = sizeof row;
  CHECK_OK(STATS(&row, NULL, 1));
  CHECK(count == 0);
  prefix_router_zmq_destroy(subscriber);
  prefix_router_zmq_destroy(NULL);
}

int main(void) {
  prefix_router* router = NULL;
  uint64_t instance = 0;
  size_t i;
  SIZED(prefix_router_instance_options, options);
  for (i = 0; i < kTokens; ++i) tokens[i] = (uint32_t)(i * 7919);
  CHECK_OK(prefix_router_create(NULL, &router));
  options.name = "a";
  options.name_size = 1;
  CHECK_OK(prefix_router_add_instance(router, &options, &instance));
  refuses(router, instance);
  receives(router, instance);
  prefix_router_destroy(router);
  printf("%d checks failed\n", failures);
  return failures == 0 ? 0 : 1;
}
