// TrtLlmDecoder: KV events of TensorRT-LLM, which its server hands out as JSON, each once.
//
// What they do not say is learned from one message to the next: how many tokens a full block has,
// which window of attention is the largest, whether blocks have been anywhere but on the GPU.
#ifndef PREFIXROUTER_LIB_EVENTS_TRT_LLM_DECODER_H_
#define PREFIXROUTER_LIB_EVENTS_TRT_LLM_DECODER_H_

#include <cstdint>
#include <string_view>

#include "lib/events/event_buffer.h"
#include "prefixrouter/kv_events.h"

namespace prefixrouter {

class TrtLlmDecoder {
 public:
  // What is known of the engine.
  struct State {
    int64_t last_event_id = -1;
    uint64_t lost_events = 0;
    uint32_t tokens_per_block = 0;  // 0: not known
    uint64_t largest_window = 0;
    bool has_stored = false;   // blocks, since the last kCleared
    uint32_t levels_seen = 1;  // bit i: some block has been in cache level i
  };

  explicit TrtLlmDecoder(const TrtLlmOptions& options) : options_(options) {
    state_.tokens_per_block = options.tokens_per_block;
  }

  // Fills `buffer` with what `message` says. Throws StatusError when it is no message as a whole;
  // then the state is as before, so that its events count as lost.
  void Decode(std::string_view message, KvEventBuffer* buffer);

  const State& state() const { return state_; }

 private:
  const TrtLlmOptions options_;
  State state_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_EVENTS_TRT_LLM_DECODER_H_
