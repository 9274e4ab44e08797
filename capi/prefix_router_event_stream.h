// prefix_router_event_stream.h: the order of one publisher's KV event messages, without any I/O.
// Include it beside prefix_router.h, whose conventions hold here.
//
// An engine numbers its messages 0, 1, 2, ... and starts again when its process does. A transport
// that drops messages shows only in the numbers; what was dropped can be fetched from the engine's
// replay socket while the engine still keeps it. A stream is told what came, holds what came too
// early, and says what to do:
//
//   prefix_router_kv_stream_live(stream, seq, payload, payload_size, now_s);
//   prefix_router_kv_stream_drive(stream, router, decoder, &driven);
//   if (driven.fetch != 0) ...  // after fetch_delay_s, ask the replay socket for everything from
//                               // fetch_seq on, and pass on what comes under that number
//
// prefix_router_kv_stream_next hands out the same one by one, for whoever applies otherwise.
//
// A stream is for one publisher, which is each data-parallel rank. Between an input
// (connected, live, replayed and so on) and the next one, everything that it asks for is to be
// done: an input while actions wait is refused with FAILED_PRECONDITION. docs/kv_events.md and the
// C++ header prefixrouter/kv_event_stream.h have the rules for gaps, restarts and losses.
//
// Threads: one at a time for a stream. Cost: one hash over the payload; nothing is copied but what
// is held.
#ifndef PREFIXROUTER_CAPI_PREFIX_ROUTER_EVENT_STREAM_H_
#define PREFIXROUTER_CAPI_PREFIX_ROUTER_EVENT_STREAM_H_

#include <stddef.h>
#include <stdint.h>

#include "prefix_router.h"
#include "prefix_router_events.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Streams ------------------------------------------------------------------------------------

typedef struct prefix_router_kv_stream_options {
  size_t struct_size;
  int32_t no_replay;  // 1: missing messages cannot be fetched, and are lost at once. Default 0
  // 1: when messages are lost for good, the instance is not cleared. Blocks stay whose removal may
  // have been missed: more of them match, and some of the matches are false. Default 0
  int32_t keep_on_loss;
  // Bounds on live messages that are held during a replay. Defaults 10,000 and 64 MiB.
  uint32_t max_held_messages;
  // How often a replay is tried before what it should bring is given up. Default 3.
  uint32_t replay_attempts;
  uint64_t max_held_bytes;
  // Before the second attempt; it doubles with each further one. Seconds, up to 3600, or
  // PREFIX_ROUTER_ZERO; default 0.1.
  double retry_delay_s;
} prefix_router_kv_stream_options;

typedef struct prefix_router_kv_stream prefix_router_kv_stream;

// A stream whose messages are of this instance. options may be NULL: all defaults.
// INVALID_ARGUMENT: an option is out of its range.
PREFIX_ROUTER_API int32_t
prefix_router_kv_stream_create(uint64_t instance, const prefix_router_kv_stream_options* options,
                               prefix_router_kv_stream** stream);

// NULL is fine.
PREFIX_ROUTER_API void prefix_router_kv_stream_destroy(prefix_router_kv_stream* stream);

// Begins anew, for an instance that was added again: as a new stream, with these statistics. What
// waits is dropped.
PREFIX_ROUTER_API int32_t prefix_router_kv_stream_bind(prefix_router_kv_stream* stream,
                                                       uint64_t instance);

// ---- Inputs -------------------------------------------------------------------------------------
//
// now_s: any clock in seconds, the same one for all calls. A payload must stay as it is until the
// actions that the input causes are done. FAILED_PRECONDITION: actions of the last input wait.

// The live connection is there: for the first time, or again. Transports that know no connections
// need not call it; gaps then show with the next message.
PREFIX_ROUTER_API int32_t prefix_router_kv_stream_connected(prefix_router_kv_stream* stream,
                                                            double now_s);
// It is gone. Causes no actions, and is never refused.
PREFIX_ROUTER_API int32_t prefix_router_kv_stream_disconnected(prefix_router_kv_stream* stream);

// A message came over the live connection.
PREFIX_ROUTER_API int32_t prefix_router_kv_stream_live(prefix_router_kv_stream* stream,
                                                       uint64_t seq, const void* payload,
                                                       size_t payload_size, double now_s);
// The same, of senders that do not number them.
PREFIX_ROUTER_API int32_t prefix_router_kv_stream_live_unnumbered(prefix_router_kv_stream* stream,
                                                                  const void* payload,
                                                                  size_t payload_size,
                                                                  double now_s);

// A replay has brought a message. fetch: the number of the action that asked for it; what comes
// under the number of an earlier one is ignored.
PREFIX_ROUTER_API int32_t prefix_router_kv_stream_replayed(prefix_router_kv_stream* stream,
                                                           uint64_t fetch, uint64_t seq,
                                                           const void* payload, size_t payload_size,
                                                           double now_s);
// Its end mark came.
PREFIX_ROUTER_API int32_t prefix_router_kv_stream_replay_ended(prefix_router_kv_stream* stream,
                                                               uint64_t fetch, double now_s);
// It did not come in time.
PREFIX_ROUTER_API int32_t prefix_router_kv_stream_replay_failed(prefix_router_kv_stream* stream,
                                                                uint64_t fetch, double now_s);

// ---- What is to be done -------------------------------------------------------------------------

enum {
  PREFIX_ROUTER_KV_ACTION_NONE = 0,   // all is done
  PREFIX_ROUTER_KV_ACTION_APPLY = 1,  // decode and apply the payload
  PREFIX_ROUTER_KV_ACTION_CLEAR = 2,  // apply an event PREFIX_ROUTER_KV_CLEARED
  PREFIX_ROUTER_KV_ACTION_FETCH = 3   // ask for a replay; any earlier one is of no use now
};

typedef struct prefix_router_kv_action {
  size_t struct_size;
  int32_t kind;     // PREFIX_ROUTER_KV_ACTION_APPLY and so on
  int32_t has_seq;  // 1: seq counts
  // To apply: number of the message. To fetch: the first number to ask for.
  uint64_t seq;
  // To apply; valid until the stream's next input.
  const void* payload;
  size_t payload_size;
  // To fetch: its own number, from 1, and how long to wait before asking.
  uint64_t fetch;
  double delay_s;
} prefix_router_kv_action;

// Takes the next action; they are to be done in order. The kind is PREFIX_ROUTER_KV_ACTION_NONE
// when none is left.
PREFIX_ROUTER_API int32_t prefix_router_kv_stream_next(prefix_router_kv_stream* stream,
                                                       prefix_router_kv_action* action);

// What prefix_router_kv_stream_drive has done.
typedef struct prefix_router_kv_driven {
  size_t struct_size;
  uint64_t applied;  // messages
  // Payloads that are no message; they are passed over, and counted in `malformed` of the stream's
  // statistics.
  uint64_t undecodable;
  uint64_t clears;
  // Other than 0: after fetch_delay_s, ask for a replay from fetch_seq on, and give this number
  // with what it brings.
  uint64_t fetch;
  uint64_t fetch_seq;
  double fetch_delay_s;
  int32_t needs_replay;  // 1: as in prefix_router_kv_result, of any of the messages
  int32_t retired;       // 1: the instance is gone; the stream does nothing from now on
  uint64_t counts[PREFIX_ROUTER_KV_OUTCOMES];  // of all messages
} prefix_router_kv_driven;

// Does all actions: into the router, but for replays, which the caller asks for.
// Other failures than of the arguments are those of prefix_router_apply_kv_events. What was to be
// applied then counts as applied, the rest is done all the same, and `driven` tells of it.
PREFIX_ROUTER_API int32_t prefix_router_kv_stream_drive(prefix_router_kv_stream* stream,
                                                        prefix_router* router,
                                                        prefix_router_kv_decoder* decoder,
                                                        prefix_router_kv_driven* driven);

// ---- Statistics ---------------------------------------------------------------------------------

enum {
  PREFIX_ROUTER_KV_STATE_WAITING = 0,    // nothing has come yet
  PREFIX_ROUTER_KV_STATE_LIVE = 1,       // in order
  PREFIX_ROUTER_KV_STATE_REPLAYING = 2,  // a replay is wanted; live messages are held
  PREFIX_ROUTER_KV_STATE_RETIRED = 3     // of an instance that was removed: does nothing
};

typedef struct prefix_router_kv_stream_stats {
  size_t struct_size;
  uint64_t instance;
  int32_t state;          // PREFIX_ROUTER_KV_STATE_WAITING and so on
  int32_t connected;      // 1: by the last of the two calls
  int32_t complete;       // 1: in order, and nothing is missing since the publisher's start
  int32_t has_last;       // 1: last_applied counts
  uint64_t last_applied;  // number of the last message that was applied
  uint64_t behind;        // numbers between that and the last live message
  uint64_t held;          // messages, now
  uint64_t held_bytes;
  uint64_t fetch;         // number of the replay that is wanted now; 0: none is
  double last_live_s;     // when the last live message came; negative: never
  double last_applied_s;  // when the last message was applied

  // Since the stream was made.
  uint64_t applied;         // messages, of all kinds
  uint64_t applied_replay;  // of them, from replays
  uint64_t unnumbered;      // of them, without a number
  uint64_t duplicates;      // live messages that had been applied
  uint64_t gaps;            // times that numbers were missing
  uint64_t lost;            // messages that will never come, after the first applied one
  uint64_t restarts;        // of the publisher
  uint64_t clears;          // asked for
  uint64_t replays;         // asked for, with further attempts
  uint64_t replays_ended;
  uint64_t replays_failed;
  uint64_t dropped;    // live messages beyond the bounds
  uint64_t malformed;  // of a number that no message has, or undecodable when driven
  uint64_t ignored;    // came when retired, or from a replay that is not wanted any more
} prefix_router_kv_stream_stats;

PREFIX_ROUTER_API int32_t prefix_router_kv_stream_get_stats(const prefix_router_kv_stream* stream,
                                                            prefix_router_kv_stream_stats* stats);

// "waiting" and so on; "unknown" for a number that is no state.
PREFIX_ROUTER_API const char* prefix_router_kv_stream_state_name(int32_t state);

// ---- Frames -------------------------------------------------------------------------------------
//
// Messages as they stand in ZeroMQ frames. Numbers are 8 bytes, big-endian.
//
//   live     [topic, number, payload]           or [topic, payload] of senders without numbers
//   request  ["", first number]
//   reply    ["", number, payload]              vLLM up to 0.25, SGLang
//            ["", topic, number, payload]       vLLM from 0.26
//   its end  number ff ff ff ff ff ff ff ff, empty payload

// The number that ends a replay. No message has it.
#define PREFIX_ROUTER_KV_END_OF_REPLAY UINT64_MAX

// One frame. This struct is an element of arrays that the caller passes, and never grows.
typedef struct prefix_router_kv_frame {
  const void* data;
  size_t size;
} prefix_router_kv_frame;

// Points into the frames.
typedef struct prefix_router_kv_message {
  size_t struct_size;
  const char* topic;
  size_t topic_size;
  const void* payload;
  size_t payload_size;
  uint64_t seq;
  int32_t has_seq;  // 1: seq counts
  uint32_t reserved;
} prefix_router_kv_message;

// INVALID_ARGUMENT: not 2 or 3 frames, a number that is not 8 bytes long, or the number that ends
// replays.
PREFIX_ROUTER_API int32_t prefix_router_parse_kv_live(const prefix_router_kv_frame* frames,
                                                      size_t frame_count,
                                                      prefix_router_kv_message* message);

// One message of a reply; seq is PREFIX_ROUTER_KV_END_OF_REPLAY for its end. The empty frame in
// front may be missing. INVALID_ARGUMENT: not 2 to 4 frames, a number that is not 8 bytes long, or
// another first frame than an empty one where there are 3 or 4.
PREFIX_ROUTER_API int32_t prefix_router_parse_kv_replay(const prefix_router_kv_frame* frames,
                                                        size_t frame_count,
                                                        prefix_router_kv_message* message);

// A number's frame, 8 bytes: the second frame of a request, behind an empty one.
PREFIX_ROUTER_API int32_t prefix_router_kv_seq_frame(uint64_t seq, uint8_t* frame);

// What a topic says of its sender: "kv@10.0.0.7:8000@org/model", or "kv@10.0.0.7@org/model". Points
// into the topic.
typedef struct prefix_router_kv_topic {
  size_t struct_size;
  const char* address;  // "10.0.0.7:8000": what names an instance
  size_t address_size;
  const char* host;  // "10.0.0.7"; without the brackets of IPv6
  size_t host_size;
  const char* model;  // may hold '/' and '@'
  size_t model_size;
  uint32_t port;  // 0: not given
  uint32_t reserved;
} prefix_router_kv_topic;

// An empty topic says nothing: all is empty. INVALID_ARGUMENT: any other that is not of one of the
// two forms.
PREFIX_ROUTER_API int32_t prefix_router_parse_kv_topic(const char* text, size_t text_size,
                                                       prefix_router_kv_topic* topic);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PREFIXROUTER_CAPI_PREFIX_ROUTER_EVENT_STREAM_H_
