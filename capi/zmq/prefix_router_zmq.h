// prefix_router_zmq.h: takes the KV events of engines from ZeroMQ to a router. Library:
// libprefixrouter_zmq_c, beside libprefixrouter_c, whose conventions hold here (prefix_router.h);
// texts of failures are those of prefix_router_zmq_last_error.
//
//   prefix_router_zmq_subscriber* subscriber;
//   prefix_router_zmq_create(router, NULL, &subscriber);
//   source.endpoint = "tcp://10.0.0.7:5557";         // vLLM's and SGLang's `endpoint`
//   source.replay_endpoint = "tcp://10.0.0.7:5558";  // and `replay_endpoint`
//   prefix_router_zmq_add(subscriber, &source, &number);
//   prefix_router_zmq_start(subscriber);
//   ...
//   prefix_router_zmq_destroy(subscriber);  // before the router
//
// The started subscriber has one thread, which receives, keeps each publisher's messages in order
// (prefix_router_event_stream.h), decodes, and applies them to the router. Connections that break
// are made again; a replay then brings what was missed. Items that the decoder leaves out are
// counted here, what becomes of the others in the statistics of the router.
//
// Threads: all functions may be called from any thread, but for destroy, during which nothing else
// may use the subscriber.
#ifndef PREFIXROUTER_CAPI_PREFIX_ROUTER_ZMQ_H_
#define PREFIXROUTER_CAPI_PREFIX_ROUTER_ZMQ_H_

#include <stddef.h>
#include <stdint.h>

#include "prefix_router.h"
#include "prefix_router_event_stream.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct prefix_router_zmq_subscriber prefix_router_zmq_subscriber;

typedef struct prefix_router_zmq_options {
  size_t struct_size;
  // Of each publisher, as in prefix_router_kv_stream_options.
  int32_t keep_on_loss;
  uint32_t max_held_messages;
  uint64_t max_held_bytes;
  double retry_delay_s;
  uint32_t replay_attempts;
  // Messages that ZeroMQ keeps for a publisher while the thread is busy; beyond it they are
  // dropped, and fetched again. 1 to 2^31 - 1; default 100,000.
  uint32_t receive_high_water_mark;
  // How long a replay may be silent before it has failed. Seconds, 0.001 to 3600; default 5.
  double replay_timeout_s;
  // Pause before a broken connection is tried again; it doubles up to the maximum. Seconds, 0.001
  // to 3600; defaults 0.1 and 5.
  double reconnect_s;
  double max_reconnect_s;
  // Larger messages end the connection. 1 to 2^40; default 256 MiB.
  uint64_t max_message_bytes;
} prefix_router_zmq_options;

// Where the events of an engine come from: one publisher, or one for each data-parallel rank.
typedef struct prefix_router_zmq_source {
  size_t struct_size;
  // "tcp://10.0.0.7:5557", "tcp://[fd00::7]:5557", "ipc:///run/engine.sock". With bind: the own
  // address, "tcp://*:5557", which engines connect to.
  const char* endpoint;
  size_t endpoint_size;
  // Where missed messages are fetched. Default: nowhere; what is missed is lost.
  const char* replay_endpoint;
  size_t replay_endpoint_size;
  // Only messages whose topic begins so. Of sources that share a socket, the longest that fits
  // counts. Default: all.
  const char* topic;
  size_t topic_size;
  // The instance of each rank, rank 0 first; at least one. Rank r publishes at the endpoints' ports
  // plus r. Where a message names a rank for which there is an instance, that counts.
  const uint64_t* instances;
  size_t instance_count;
  int32_t bind;  // 1: listen, rather than connect, at `endpoint`. Default 0
  // 1: host names mean IPv6 addresses, and with bind "*" takes both kinds of connections. Default 0
  int32_t ipv6;
} prefix_router_zmq_source;

// Of one publisher; prefix_router_kv_stream_stats has what concerns its numbers.
typedef struct prefix_router_zmq_stats {
  size_t struct_size;
  uint64_t source;  // from prefix_router_zmq_add
  uint32_t rank;    // of the source's instances
  uint32_t reserved;
  // Since it was added.
  uint64_t connects;
  uint64_t disconnects;
  uint64_t messages;     // received, live and replayed
  uint64_t bytes;        // of their payloads
  uint64_t bad_frames;   // not of the form of a message
  uint64_t undecodable;  // payloads that are no message
  uint64_t refused;      // batches that the router did not take
  // When the last live message was applied: the time since the engine sent it, by the two clocks.
  // Not a number: not known.
  double lag_s;
  double silent_s;  // since the last message came, live or replayed. Negative: none came
  uint64_t skipped[PREFIX_ROUTER_KV_OUTCOMES];  // events that the decoder left out
  char endpoint[256];  // with the rank's port; this text and the next end in a zero, cut if longer
  char last_error[256];  // of bad_frames, undecodable or refused; empty: none
} prefix_router_zmq_stats;

// A subscriber that is not started and has no sources. The router must outlive it. options may be
// NULL: all defaults. INVALID_ARGUMENT: an option is out of its range. RESOURCE_EXHAUSTED: ZeroMQ
// has no room.
PREFIX_ROUTER_API int32_t prefix_router_zmq_create(prefix_router* router,
                                                   const prefix_router_zmq_options* options,
                                                   prefix_router_zmq_subscriber** subscriber);

// Stops and frees it. NULL is fine.
PREFIX_ROUTER_API void prefix_router_zmq_destroy(prefix_router_zmq_subscriber* subscriber);

// *number becomes that of the new source. While the thread runs its sockets are opened here, else
// by start. INVALID_ARGUMENT: an endpoint is malformed, there are no instances, or several ranks
// where ports cannot be counted up. ALREADY_EXISTS: another source has the same endpoint and topic,
// or the address to listen at is in use.
PREFIX_ROUTER_API int32_t prefix_router_zmq_add(prefix_router_zmq_subscriber* subscriber,
                                                const prefix_router_zmq_source* source,
                                                uint64_t* number);

// Afterwards nothing more comes from it. NOT_FOUND: no such source.
PREFIX_ROUTER_API int32_t prefix_router_zmq_remove(prefix_router_zmq_subscriber* subscriber,
                                                   uint64_t number);

// FAILED_PRECONDITION: it runs. Otherwise the error of the first source that cannot be opened, and
// it does not run.
PREFIX_ROUTER_API int32_t prefix_router_zmq_start(prefix_router_zmq_subscriber* subscriber);

// Returns when the thread has ended. Streams keep their place: after another start they fetch what
// was missed. OK if it does not run.
PREFIX_ROUTER_API int32_t prefix_router_zmq_stop(prefix_router_zmq_subscriber* subscriber);

// A row for each publisher, in the order of add, then of ranks; and the same number of streams, if
// that is not NULL, of which `instance` and `fetch` are 0. *running, if that is not NULL, becomes 1
// while the thread runs, else 0. OUT_OF_RANGE: convention 6.
PREFIX_ROUTER_API int32_t prefix_router_zmq_get_stats(
    const prefix_router_zmq_subscriber* subscriber, int32_t* running, prefix_router_zmq_stats* rows,
    prefix_router_kv_stream_stats* streams, size_t capacity, size_t* count);

// The text for the last call of this library that failed on this thread; "" when none did.
PREFIX_ROUTER_API const char* prefix_router_zmq_last_error(void);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PREFIXROUTER_CAPI_PREFIX_ROUTER_ZMQ_H_
