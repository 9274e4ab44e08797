// KvEventBuffer: the events of one message while a decoder makes them, and its memory, which is
// used again for the next message.
//
// An event's numbers, tokens and contents are added at the ends of three arrays that all events
// share. The arrays move when they grow, so an event's spans have only their sizes until Finish().
#ifndef PREFIXROUTER_LIB_EVENTS_EVENT_BUFFER_H_
#define PREFIXROUTER_LIB_EVENTS_EVENT_BUFFER_H_

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include "prefixrouter/kv_events.h"

namespace prefixrouter {

class KvEventBuffer {
 public:
  // Of the event at hand, from event_ids() and so on to the end.
  std::vector<uint64_t> ids;
  std::vector<uint32_t> tokens;
  std::vector<KvMultimodal> multimodal;
  KvEventBatch batch;

  // Forgets the last message. No more than `text_bytes` of texts will be added for the next.
  void Clear(size_t text_bytes) {
    ids.clear();
    tokens.clear();
    multimodal.clear();
    events_.clear();
    batch = {};
    text_bytes_ = text_bytes;
    texts_used_ = 0;
    Begin();
  }

  // What is added from here on belongs to a new event.
  void Begin() {
    ids_begin_ = ids.size();
    tokens_begin_ = tokens.size();
    multimodal_begin_ = multimodal.size();
  }
  size_t event_ids() const { return ids.size() - ids_begin_; }
  size_t event_tokens() const { return tokens.size() - tokens_begin_; }
  size_t event_multimodal() const { return multimodal.size() - multimodal_begin_; }
  // REQUIRES: no more than there are.
  void ShrinkEventIds(size_t count) { ids.resize(ids_begin_ + count); }
  void ShrinkEventTokens(size_t count) { tokens.resize(tokens_begin_ + count); }
  void ShrinkEventMultimodal(size_t count) { multimodal.resize(multimodal_begin_ + count); }
  KvMultimodal* event_multimodal_data() { return multimodal.data() + multimodal_begin_; }
  void Discard() {
    ShrinkEventIds(0);
    ShrinkEventTokens(0);
    ShrinkEventMultimodal(0);
  }
  // Ends the event; its spans are what was added since Begin().
  void Commit(KvEvent event) {
    event.block_ids = {nullptr, event_ids()};
    event.tokens = {nullptr, event_tokens()};
    event.multimodal = {nullptr, event_multimodal()};
    events_.push_back(event);
    Begin();
  }

  // A copy that lives as long as the message's events.
  std::string_view AddText(std::string_view text) {
    if (texts_capacity_ < text_bytes_) {
      // Only before the first text of a message, so that none is moved.
      texts_ = std::make_unique_for_overwrite<char[]>(text_bytes_);
      texts_capacity_ = text_bytes_;
    }
    char* const copy = texts_.get() + texts_used_;
    if (!text.empty()) std::memcpy(copy, text.data(), text.size());
    texts_used_ += text.size();
    return {copy, text.size()};
  }

  void Finish() {
    const uint64_t* event_ids = ids.data();
    const uint32_t* event_tokens = tokens.data();
    const KvMultimodal* event_multimodal = multimodal.data();
    for (KvEvent& event : events_) {
      event.block_ids = {event_ids, event.block_ids.size()};
      event.tokens = {event_tokens, event.tokens.size()};
      event.multimodal = {event_multimodal, event.multimodal.size()};
      event_ids += event.block_ids.size();
      event_tokens += event.tokens.size();
      event_multimodal += event.multimodal.size();
    }
    batch.events = events_;
  }

 private:
  std::vector<KvEvent> events_;
  size_t ids_begin_ = 0;
  size_t tokens_begin_ = 0;
  size_t multimodal_begin_ = 0;

  size_t text_bytes_ = 0;
  std::unique_ptr<char[]> texts_;
  size_t texts_capacity_ = 0;
  size_t texts_used_ = 0;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_EVENTS_EVENT_BUFFER_H_
