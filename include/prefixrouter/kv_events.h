// KV events: what an engine says about the blocks that it stores and removes.
//
// KvEventDecoder turns one message of an engine into a KvEventBatch, and
// PrefixRouter::ApplyKvEvents takes it over. A message is one batch; the order of batches, gaps and
// restarts are the business of KvEventStream (kv_event_stream.h).
//
//   KvEventDecoder decoder;
//   auto batch = decoder.Decode(payload);            // msgpack of vLLM or SGLang
//   if (batch.ok()) router->ApplyKvEvents(instance, **batch);
//
// An engine numbers its blocks with hashes of its own. Those numbers are used as they are, for each
// instance apart; engines with different hashes for the same tokens match alike.
//
// One bad item costs itself alone: it is left out and counted under its reason.
#ifndef PREFIXROUTER_KV_EVENTS_H_
#define PREFIXROUTER_KV_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <string_view>

#include "prefixrouter/span.h"
#include "prefixrouter/status.h"

namespace prefixrouter {

enum class KvEventKind : int32_t {
  kStored = 0,   // blocks are held from now on: vLLM's and SGLang's BlockStored
  kRemoved = 1,  // one copy of each block is gone: BlockRemoved
  kCleared = 2,  // everything is gone, in all tiers and groups: AllBlocksCleared
};

// Where a block lies. An event that names none means the GPU; names are compared without case.
enum class KvTier : int32_t {
  kGpu = 0,       // "GPU"
  kCpu = 1,       // "CPU", "CPU_PINNED"; TensorRT-LLM's cache level 1
  kDisk = 2,      // "DISK", "STORAGE"
  kExternal = 3,  // "EXTERNAL", "SHARED_STORAGE", names that are not known, locality "REMOTE"
};
inline constexpr int kKvTierCount = 4;

// The kind of attention that a block's group of layers does. Hybrid models have several groups. A
// prefix can be used only where all of it is there, so sliding windows and states, which keep the
// end of a prompt alone, never count as held.
enum class KvAttention : int32_t {
  kFull = 0,      // full_attention, mla_attention, sink_full_attention, or none given
  kPartial = 1,   // sliding_window, sliding_window_mla, chunked_local_attention, mamba
  kNotPrefix = 2  // encoder_only_attention, cross_attention, and kinds that are not known
};

// An image, audio clip or other content in a stored block, as the engine names it. The same content
// in a prompt is MultimodalItem{offset, MultimodalHash(identifier)}.
struct KvMultimodal {
  uint32_t block = 0;  // of the event's blocks, counted from 0
  std::string_view identifier;
  // Of the content's first placeholder, in tokens from the block's beginning. Negative: it began in
  // an earlier block, which carries it. kUnknownOffset: older engines do not say.
  int64_t offset = 0;
  static constexpr int64_t kUnknownOffset = std::numeric_limits<int64_t>::min();
};

// One event. Borrows from the batch that it is part of.
struct KvEvent {
  KvEventKind kind = KvEventKind::kCleared;
  KvTier tier = KvTier::kGpu;
  uint32_t group = 0;  // of layers, in hybrid models

  // Of kStored and kRemoved: the engine's numbers. A hash of more than 64 bits is its last 8 bytes,
  // big-endian, which is what engines send when they send integers. Signed ones are taken as the
  // same 64 bits.
  Span<const uint64_t> block_ids;

  // Of kStored alone. The blocks follow one another, the first follows the parent.
  KvAttention attention = KvAttention::kFull;
  bool has_parent = false;  // false: the first block is the first of a prompt
  uint64_t parent_id = 0;   // 0 is also what some senders write for the first block of a prompt
  uint32_t block_size = 0;  // tokens a block, in the engine; 1 to 2^20
  // Of all blocks: block_ids.size() * block_size. Or none, when blocks that are held in one tier
  // are stored in another.
  Span<const uint32_t> tokens;
  // Name of the LoRA adapter; of engines that give only its number, that number in decimal. Empty:
  // none.
  std::string_view adapter;
  std::string_view salt;                // cache salt; empty: none, or that of the parent
  Span<const KvMultimodal> multimodal;  // blocks ascend
};

// Why the decoder left something out, or what became of the blocks that were applied. Each is
// counted in KvEventCounts. docs/kv_events.md says what to do about each.
enum class KvEventOutcome : int32_t {
  // Blocks.
  kStored = 0,          // taken over
  kRemoved = 1,         // taken over
  kAlreadyGone = 2,     // removed, but not held: nothing to do
  kCopyRemoved = 3,     // one of several copies; the block is still held
  kNotCounted = 4,      // of a group that is not full attention, or of a tier of weight 0
  kUnknownParent = 5,   // an earlier event was lost: cannot be placed, ask for a replay
  kNoTokens = 6,        // stored without tokens, and not held in any tier
  kWrongBlockSize = 7,  // neither a multiple nor a divisor of the router's block size
  kPartialBlock = 8,    // not the number of tokens that a block has (TensorRT-LLM)
  kBudgetFull = 9,      // no room within index_budget_bytes
  // Events.
  kCleared = 10,
  kNotDense = 11,        // tokens do not cover the blocks one after the other
  kUnknownEvent = 12,    // a tag that is not known
  kMalformedEvent = 13,  // a missing or wrong field
  kUnknownField = 14,    // left out; the rest of the event was used
  kSmallerWindow = 15,   // of a window smaller than the largest (TensorRT-LLM)
  // Messages.
  kMalformedMessage = 16,
  kOldGeneration = 17,  // for an instance that was removed
};
inline constexpr int kKvEventOutcomeCount = 18;

const char* KvEventOutcomeName(KvEventOutcome outcome);  // "stored" and so on

struct KvEventCounts {
  uint64_t counts[kKvEventOutcomeCount] = {};  // indexed by KvEventOutcome
  uint64_t operator[](KvEventOutcome outcome) const { return counts[static_cast<int>(outcome)]; }
  uint64_t& operator[](KvEventOutcome outcome) { return counts[static_cast<int>(outcome)]; }
  KvEventCounts& operator+=(const KvEventCounts& other) {
    for (int i = 0; i < kKvEventOutcomeCount; ++i) counts[i] += other.counts[i];
    return *this;
  }
};

// One message. Borrows from the decoder that made it, or from whatever its maker says.
struct KvEventBatch {
  // When the engine sent it, in seconds since 1970 by its clock. Not a number: it did not say.
  double timestamp_s = std::numeric_limits<double>::quiet_NaN();
  bool has_rank = false;
  uint32_t rank = 0;  // data-parallel rank that it is of
  Span<const KvEvent> events;
  KvEventCounts skipped;  // items that the decoder left out; ApplyKvEvents adds them to the rest
};

// What ApplyKvEvents has done.
struct KvEventResult {
  KvEventCounts counts;  // of this batch, with its `skipped`
  // Blocks could not be placed because an event before them is missing: replay the engine's events,
  // or clear the instance and go on with what comes.
  bool needs_replay = false;
};

enum class KvEventFormat : int32_t {
  // msgpack of vLLM (0.8.5 on) and SGLang, events as arrays or maps, mixed too, and Mooncake's
  // envelope with milliseconds.
  kMsgpack = 0,
  // JSON of TensorRT-LLM: one event object, or an array of them.
  kTrtLlmJson = 1,
};

// For KvEventFormat::kTrtLlmJson.
struct TrtLlmOptions {
  // Tokens in a full block (tokens_per_block), 0 to 2^20. Blocks with another number of tokens are
  // left out. 0 (the default): the largest power of 2 that a block has had so far, which may take
  // the first partial blocks for full ones.
  uint32_t tokens_per_block = 0;
  // Only events of this attention_dp_rank, and those without one, are read; a server with attention
  // data parallelism sends the events of all ranks in one array, so it needs a decoder for each.
  // Negative (the default): all, and a message with events of several ranks is refused.
  int64_t rank = -1;
};

// Reads messages. It keeps its memory from one message to the next, so use one again and again.
// Not thread-safe; any number may exist.
class KvEventDecoder {
 public:
  // REQUIRES: trt_llm is in range.
  explicit KvEventDecoder(KvEventFormat format = KvEventFormat::kMsgpack,
                          const TrtLlmOptions& trt_llm = {});
  ~KvEventDecoder();
  KvEventDecoder(const KvEventDecoder&) = delete;
  KvEventDecoder& operator=(const KvEventDecoder&) = delete;

  // The events of one message, valid until the next call; `payload` is not needed any longer.
  // kInvalidArgument: it is not a message of this format; the text says at which byte. Memory is at
  // most 64 times the size of the largest payload, whatever lengths it claims, and nesting does not
  // deepen the stack.
  Result<const KvEventBatch*> Decode(std::string_view payload);

  // TensorRT-LLM numbers the events of each rank from 0 on. Of the last event; -1: none so far.
  // When numbers begin again, the engine has restarted, and a kCleared stands before its events.
  int64_t last_event_id() const;
  // TensorRT-LLM: how many event_ids were left out between events, since this decoder was made.
  // More than before: events were lost, so that blocks may count as held which are not.
  uint64_t lost_events() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

// How KvEventEncoder writes events, by the age of what it stands for.
enum class KvEventEncoding : int32_t {
  kArrays = 0,        // vLLM up to 0.23: all fields, in an array
  kArraysShort = 1,   // vLLM 0.8.5 to 0.10: no fields behind the tier
  kMaps = 2,          // vLLM from 0.24, SGLang: maps
  kSglangArrays = 3,  // SGLang: arrays with {"cache_salt": ...} in place of the adapter
};

// Writes a batch as msgpack that KvEventDecoder and the engines' own clients read: for relays and
// tests. bytes_ids: block numbers as 32 bytes, of which the last 8 count. kInvalidArgument: the
// batch has something that the encoding cannot say; the text names it.
Result<std::string> EncodeKvEvents(const KvEventBatch& batch, KvEventEncoding encoding,
                                   bool bytes_ids = false);

// MultimodalItem::content_hash for content that the engine knows by this identifier.
uint64_t MultimodalHash(std::string_view identifier);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_KV_EVENTS_H_
