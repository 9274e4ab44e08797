// One publisher: its stream, its replay socket, and the way of a payload through decoder and sink.
#ifndef PREFIXROUTER_LIB_ZMQ_PUBLISHER_H_
#define PREFIXROUTER_LIB_ZMQ_PUBLISHER_H_

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "lib/zmq/socket.h"
#include "prefixrouter/kv_event_frames.h"
#include "prefixrouter/kv_event_stream.h"
#include "prefixrouter/kv_events.h"
#include "prefixrouter/zmq_subscriber.h"

namespace prefixrouter {

// What all publishers of a subscriber share. Touched by the thread alone, while it runs.
struct PublisherContext {
  void* zmq = nullptr;
  ZmqSubscriber::Sink sink;
  ZmqSubscriberOptions options;
  KvEventDecoder decoder;
  ZmqMessage message;
};

// Of the socket options, what the subscriber's options say.
ZmqSocketOptions SocketOptions(const ZmqSubscriberOptions& options, const std::string& endpoint,
                               bool ipv6);

// All methods but Stats are for the subscriber's thread. Times are in seconds of one steady clock.
class Publisher {
 public:
  Publisher(PublisherContext* context, KvEventStream stream, const ZmqSource& source,
            uint64_t source_id, uint32_t rank, std::string endpoint, std::string replay_endpoint);

  void Connected(double now_s);
  void Disconnected();
  // A connection was made, and Connected follows when what came before it has been read.
  void Connecting() { stream_.Disconnected(); }
  void Live(const KvFrames& frames, double now_s);
  void BadFrames(const Status& status);
  // Takes up to `limit` messages of the replay, if this is still its socket.
  void ReadReplay(void* socket, int limit, double now_s);
  // Asks for a replay whose time has come, and ends one that is late.
  void OnTime(double now_s);
  // When OnTime is needed next; infinite: not.
  double deadline_s() const;

  // Nothing is applied any more.
  void Remove() { removed_ = true; }
  bool removed() const { return removed_; }
  // Whether Connected was called since the live socket was opened.
  bool greeted() const { return greeted_; }
  // The live socket: it is open, at this address; it is closed, and so is that of a replay.
  void Opened(const std::string& endpoint);
  void Closed();

  // Makes what happened visible to Stats.
  void PublishStats();
  ZmqPublisherStats Stats(double now_s) const;

  const std::string& topic() const { return topic_; }
  uint64_t source() const { return source_; }
  uint32_t rank() const { return rank_; }
  const ZmqSocket& replay_socket() const { return replay_; }

 private:
  void Obey(KvEventStream::Actions actions, bool live, double now_s);
  void Apply(std::string_view payload, bool live);
  void Clear();
  void Deliver(InstanceId instance, const KvEventBatch& batch);
  void Ask(double now_s);
  void FailReplay(double now_s);

  PublisherContext* const context_;
  KvEventStream stream_;
  const uint64_t source_;
  const uint32_t rank_;
  const std::string topic_;
  const std::string replay_endpoint_;
  const bool ipv6_;
  const std::vector<InstanceId> instances_;  // by rank
  std::vector<bool> touched_;                // by rank: events were applied to it
  bool removed_ = false;
  bool greeted_ = false;
  double check_at_s_;  // infinite: not
  bool gone_ = false;  // the router does not know the instance any more

  // The replay that the stream wants; 0: none.
  uint64_t fetch_ = 0;
  uint64_t fetch_from_ = 0;
  double ask_at_s_ = 0;   // while there is no socket
  double fail_at_s_ = 0;  // while there is one
  ZmqSocket replay_;

  ZmqPublisherStats stats_;
  double last_message_s_ = -1;
  mutable std::mutex mutex_;         // guards what follows
  ZmqPublisherStats published_;      // stats_ with the stream's
  double published_message_s_ = -1;  // last_message_s_
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_ZMQ_PUBLISHER_H_
