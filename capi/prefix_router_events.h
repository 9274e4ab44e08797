// prefix_router_events.h: KV events, what an engine says about the blocks that it stores and
// removes. Include it beside prefix_router.h, whose conventions hold here.
//
//   prefix_router_kv_decoder* decoder;
//   prefix_router_kv_decoder_create(NULL, &decoder);  // msgpack of vLLM and SGLang
//   ...
//   prefix_router_apply_kv_payload(router, instance, decoder, payload, payload_size, &result);
//   if (result.needs_replay) ...
//
// From its first message on, an instance is driven by its events: what they store counts as cached
// until they remove it, and routed prompts count only for confirm_window_s unless events confirm
// them. One bad item costs itself alone: it is left out, and counted under its reason
// (PREFIX_ROUTER_KV_OUTCOME_*).
//
// Messages are taken as they come. prefix_router_event_stream.h puts them in order, sees gaps and
// restarts, and says what to fetch.
//
// Threads: one at a time for a decoder; several decoders at once, also into one router. Cost: about
// 50 ns a block to apply. A decoder keeps its memory from one message to the next.
#ifndef PREFIXROUTER_CAPI_PREFIX_ROUTER_EVENTS_H_
#define PREFIXROUTER_CAPI_PREFIX_ROUTER_EVENTS_H_

#include <stddef.h>
#include <stdint.h>

#include "prefix_router.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Messages of engines ------------------------------------------------------------------------

// Format of messages.
enum {
  // msgpack of vLLM (0.8.5 on) and SGLang, and Mooncake's envelope.
  PREFIX_ROUTER_KV_MSGPACK = 0,
  // JSON of TensorRT-LLM: one event object, or an array of them.
  PREFIX_ROUTER_KV_TRT_LLM_JSON = 1
};

typedef struct prefix_router_kv_decoder_options {
  size_t struct_size;
  int32_t format;  // PREFIX_ROUTER_KV_MSGPACK, the default, or PREFIX_ROUTER_KV_TRT_LLM_JSON

  // The others are for TensorRT-LLM.
  // Tokens in a full block (tokens_per_block); blocks with another number are left out. Up to 2^20;
  // default: the largest power of 2 that a block has had so far, which may take the first partial
  // blocks for full ones.
  uint32_t tokens_per_block;
  // 1: only events of this attention_dp_rank, and those without one, are read; a server with
  // attention data parallelism sends the events of all ranks in one array, so it needs a decoder
  // for each. 0, the default: all, and a message with events of several ranks is refused.
  int32_t has_rank;
  uint32_t rank;
} prefix_router_kv_decoder_options;

// What has become of one message, or of a batch.
typedef struct prefix_router_kv_result {
  size_t struct_size;
  // 1: blocks could not be placed because an event before them is missing. Replay the engine's
  // events, or clear the instance and go on with what comes.
  int32_t needs_replay;
  int32_t has_rank;  // 1: the message says of which data-parallel rank it is
  uint32_t rank;
  uint32_t reserved;
  // When the engine sent it, in seconds since 1970 by its clock. Not a number: it did not say.
  double timestamp_s;
  uint64_t events;  // that were read
  // TensorRT-LLM: number of the decoder's last event, -1: none so far; and how many numbers were
  // missing between events, since the decoder was made. More than before: events were lost, so that
  // blocks may count as held which are not.
  int64_t last_event_id;
  uint64_t lost_events;
  uint64_t
      counts[PREFIX_ROUTER_KV_OUTCOMES];  // of blocks and events, by PREFIX_ROUTER_KV_OUTCOME_*
} prefix_router_kv_result;

// Reads messages. Made by prefix_router_kv_decoder_create, freed by
// prefix_router_kv_decoder_destroy.
typedef struct prefix_router_kv_decoder prefix_router_kv_decoder;

// options may be NULL: all defaults. INVALID_ARGUMENT: an option is out of its range.
PREFIX_ROUTER_API int32_t prefix_router_kv_decoder_create(
    const prefix_router_kv_decoder_options* options, prefix_router_kv_decoder** decoder);

// NULL is fine.
PREFIX_ROUTER_API void prefix_router_kv_decoder_destroy(prefix_router_kv_decoder* decoder);

// Decodes one message of an engine and takes it over. result may be NULL. For an instance that was
// removed nothing is done, and PREFIX_ROUTER_KV_OUTCOME_OLD_GENERATION counted.
// INVALID_ARGUMENT: it is not a message of the decoder's format; the text says at which byte.
// RESOURCE_EXHAUSTED: out of memory. When it fails for another reason than its arguments, the first
// events may have been taken over.
PREFIX_ROUTER_API int32_t prefix_router_apply_kv_payload(prefix_router* router, uint64_t instance,
                                                         prefix_router_kv_decoder* decoder,
                                                         const void* payload, size_t payload_size,
                                                         prefix_router_kv_result* result);

// ---- Events of the caller's own making ----------------------------------------------------------

// Kind of an event.
enum {
  PREFIX_ROUTER_KV_STORED = 0,   // blocks are held from now on
  PREFIX_ROUTER_KV_REMOVED = 1,  // one copy of each block is gone
  PREFIX_ROUTER_KV_CLEARED = 2   // everything is gone, in all tiers and groups
};

// Where a block lies.
enum {
  PREFIX_ROUTER_KV_GPU = 0,
  PREFIX_ROUTER_KV_CPU = 1,
  PREFIX_ROUTER_KV_DISK = 2,
  PREFIX_ROUTER_KV_EXTERNAL = 3  // outside of the machine
};

// The kind of attention that a block's group of layers does.
enum {
  PREFIX_ROUTER_KV_FULL = 0,
  PREFIX_ROUTER_KV_PARTIAL = 1,    // sliding windows and states, which never count as held
  PREFIX_ROUTER_KV_NOT_PREFIX = 2  // encoders, cross attention: never counts
};

// For prefix_router_kv_multimodal.offset: not known.
#define PREFIX_ROUTER_KV_UNKNOWN_OFFSET INT64_MIN

// An image or other content in a stored block. In a prompt it is a prefix_router_multimodal_item
// with content_hash by prefix_router_multimodal_hash. This struct is an element of arrays that the
// caller passes, and never grows.
typedef struct prefix_router_kv_multimodal {
  const char* identifier;  // by which the engine names it
  size_t identifier_size;
  // Of its first placeholder, in tokens from the block's beginning. Negative: it began in an
  // earlier block, which carries it.
  int64_t offset;
  uint32_t block;     // of the event's blocks, counted from 0; ascend
  uint32_t reserved;  // 0
} prefix_router_kv_multimodal;

// One event.
typedef struct prefix_router_kv_event {
  size_t struct_size;
  int32_t kind;    // PREFIX_ROUTER_KV_STORED and so on
  int32_t tier;    // PREFIX_ROUTER_KV_GPU and so on
  uint32_t group;  // of layers, in hybrid models

  // Of stored blocks alone, like all that follows block_ids: tokens a block, in the engine; 1 to
  // 2^20.
  uint32_t block_size;
  // Of stored and removed blocks: the numbers that the engine gives them. Stored ones follow one
  // another, the first follows the parent.
  const uint64_t* block_ids;
  size_t block_count;
  uint64_t parent_id;
  int32_t has_parent;  // 0: the first block is the first of a prompt
  int32_t attention;   // PREFIX_ROUTER_KV_FULL and so on
  // Of all blocks: block_count * block_size. Or none, when blocks that are held in one tier are
  // stored in another.
  const uint32_t* tokens;
  size_t token_count;
  const char* adapter;  // name of the LoRA adapter; empty: none
  size_t adapter_size;
  const char* salt;  // cache salt; empty: none, or that of the parent
  size_t salt_size;
  const prefix_router_kv_multimodal* multimodal;
  size_t multimodal_count;
} prefix_router_kv_event;

// Takes over events, as prefix_router_apply_kv_payload does. Of an array the first element's
// struct_size counts for all. result may be NULL.
// INVALID_ARGUMENT: a member of an event is out of its range; the text names it.
PREFIX_ROUTER_API int32_t prefix_router_apply_kv_events(prefix_router* router, uint64_t instance,
                                                        const prefix_router_kv_event* events,
                                                        size_t event_count,
                                                        prefix_router_kv_result* result);

// How events are written, by the age of what it stands for.
enum {
  PREFIX_ROUTER_KV_ARRAYS = 0,        // vLLM up to 0.23: all fields, in an array
  PREFIX_ROUTER_KV_ARRAYS_SHORT = 1,  // vLLM 0.8.5 to 0.10: no fields behind the tier
  PREFIX_ROUTER_KV_MAPS = 2,          // vLLM from 0.24, SGLang: maps
  PREFIX_ROUTER_KV_SGLANG_ARRAYS = 3  // SGLang: arrays, with the salt in place of the adapter
};

typedef struct prefix_router_kv_encoder_options {
  size_t struct_size;
  int32_t encoding;    // PREFIX_ROUTER_KV_ARRAYS and so on
  int32_t bytes_ids;   // 1: block numbers as 32 bytes, of which the last 8 count. Default 0
  double timestamp_s;  // of the message; default 0
  int32_t has_rank;    // 1: the message says that it is of this data-parallel rank
  uint32_t rank;
} prefix_router_kv_encoder_options;

// Writes events as a message in msgpack that decoders and the engines' own clients read: for relays
// and tests. options may be NULL. capacity is the buffer's size in bytes; *size becomes the
// message's (convention 6).
// INVALID_ARGUMENT: an event has something that the encoding cannot say; the text names it.
PREFIX_ROUTER_API int32_t prefix_router_encode_kv_events(
    const prefix_router_kv_event* events, size_t event_count,
    const prefix_router_kv_encoder_options* options, void* buffer, size_t capacity, size_t* size);

// ---- Names --------------------------------------------------------------------------------------

// The prefix_router_multimodal_item.content_hash of content that the engine knows by this
// identifier.
PREFIX_ROUTER_API int32_t prefix_router_multimodal_hash(const char* identifier,
                                                        size_t identifier_size, uint64_t* hash);

// "stored" and so on; "unknown" for a number that is no outcome.
PREFIX_ROUTER_API const char* prefix_router_kv_outcome_name(int32_t outcome);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PREFIXROUTER_CAPI_PREFIX_ROUTER_EVENTS_H_
