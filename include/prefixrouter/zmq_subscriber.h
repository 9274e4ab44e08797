// ZmqSubscriber: takes the KV events of engines from ZeroMQ to a router. Library prefixrouter::zmq.
//
//   auto subscriber = *ZmqSubscriber::Create(router.get());
//   ZmqSource source;
//   source.endpoint = "tcp://10.0.0.7:5557";          // vLLM's and SGLang's `endpoint`
//   source.replay_endpoint = "tcp://10.0.0.7:5558";   // and `replay_endpoint`
//   source.instances = {instance};                    // from AddInstance
//   auto id = subscriber->Add(source);
//   Status started = subscriber->Start();
//
// Start makes one thread, which receives, keeps each publisher's messages in order by a
// KvEventStream (kv_event_stream.h has the rules), decodes, and calls ApplyKvEvents. Stop, and the
// destructor, end it. All methods may be called from any thread, also while it runs. Connections
// that break are made again; a replay then brings what was missed.
//
// Cost: some microseconds a message beside decoding and applying; a round over all sockets for each
// wake-up, so up to some hundreds of publishers for one subscriber. Each takes 4 file descriptors,
// and one more while it replays.
#ifndef PREFIXROUTER_ZMQ_SUBSCRIBER_H_
#define PREFIXROUTER_ZMQ_SUBSCRIBER_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "prefixrouter/instance.h"
#include "prefixrouter/kv_event_stream.h"
#include "prefixrouter/kv_events.h"
#include "prefixrouter/status.h"

namespace prefixrouter {

class PrefixRouter;

// Where the events of an engine come from: one publisher, or one for each data-parallel rank.
struct ZmqSource {
  // "tcp://10.0.0.7:5557", "tcp://[fd00::7]:5557", "ipc:///run/engine.sock". With bind: the own
  // address, "tcp://*:5557", which engines connect to.
  std::string endpoint;
  // Where missed messages are fetched. Empty (the default): nowhere; what is missed is lost.
  std::string replay_endpoint;
  // Listen, rather than connect, at `endpoint`. Default false. Sources with the same
  // endpoint share a socket, and are told apart by their topics.
  bool bind = false;
  // Host names mean IPv6 addresses, and with bind "*" takes both kinds of connections. Addresses in
  // brackets do not need it. Default false.
  bool ipv6 = false;
  // Only messages whose topic begins so. Of sources that share a socket, the longest that fits
  // counts. Default empty: all.
  std::string topic;
  // The instance of each rank, rank 0 first; at least one. Rank r publishes at the endpoints' ports
  // plus r. Where a message names a rank for which there is an instance, that counts.
  std::vector<InstanceId> instances;
};

struct ZmqSubscriberOptions {
  // Of each publisher. has_replay does not count: replay_endpoint says it.
  KvEventStreamOptions stream;
  // How long a replay may be silent before it has failed. 0.001 to 3600. Default 5.
  double replay_timeout_s = 5;
  // Pause before a broken connection is tried again; it doubles up to the maximum. 0.001 to 3600.
  // Defaults 0.1 and 5.
  double reconnect_s = 0.1;
  double max_reconnect_s = 5;
  // Messages that ZeroMQ keeps for a publisher while the thread is busy; beyond it they are
  // dropped, and fetched again. 1 to 2^31 - 1. Default 100,000, as in vLLM.
  uint32_t receive_high_water_mark = 100000;
  // Larger messages end the connection. 1 to 2^40. Default 256 MiB.
  uint64_t max_message_bytes = uint64_t{256} << 20;
};

// Of one publisher.
struct ZmqPublisherStats {
  uint64_t source = 0;   // from Add
  uint32_t rank = 0;     // of the source's instances
  std::string endpoint;  // with the rank's port
  KvEventStreamStats stream;

  // Since it was added.
  uint64_t connects = 0;
  uint64_t disconnects = 0;
  uint64_t messages = 0;     // received, live and replayed
  uint64_t bytes = 0;        // of their payloads
  uint64_t bad_frames = 0;   // not of the form of a message
  uint64_t undecodable = 0;  // payloads that are no message
  uint64_t refused = 0;      // batches that the router, or the sink, did not take
  KvEventCounts skipped;     // events that the decoder left out
  std::string last_error;    // of any of these; empty: none
  // When the last live message was applied: the time since the engine sent it, by the two clocks.
  // Not a number: not known.
  double lag_s = 0;
  // Since the last message came, live or replayed. Negative: none came.
  double silent_s = -1;
};

struct ZmqSubscriberStats {
  bool running = false;
  std::vector<ZmqPublisherStats> publishers;  // in the order of Add, then of ranks
};

class ZmqSubscriber {
 public:
  // Takes over a batch. Called in the subscriber's thread, without a lock. To clear an instance is
  // a batch with one kCleared event. kNotFound: the instance is gone, and nothing more comes for
  // it. Other errors are counted, and so is what it throws. May call everything here but Start and
  // Stop.
  using Sink = std::function<Status(InstanceId, const KvEventBatch&)>;

  // kInvalidArgument names an option out of its range. kResourceExhausted: ZeroMQ has no room.
  static Result<std::unique_ptr<ZmqSubscriber>> Create(Sink sink,
                                                       const ZmqSubscriberOptions& options = {});
  // Into the router, which must outlive the subscriber.
  static Result<std::unique_ptr<ZmqSubscriber>> Create(PrefixRouter* router,
                                                       const ZmqSubscriberOptions& options = {});
  ~ZmqSubscriber();
  ZmqSubscriber(const ZmqSubscriber&) = delete;
  ZmqSubscriber& operator=(const ZmqSubscriber&) = delete;

  // The number of the new source. While the thread runs, its sockets are opened here, so that these
  // errors are those of the source; else by Start. kInvalidArgument: an endpoint is malformed,
  // there are no instances, or several ranks where ports cannot be counted up. kAlreadyExists:
  // another source has the same endpoint and topic, or the address to listen at is in use. Both
  // calls wait for a call of the sink that is under way.
  Result<uint64_t> Add(const ZmqSource& source);
  // Afterwards nothing more comes from it. kNotFound: no such source.
  Status Remove(uint64_t source);

  // kFailedPrecondition: it runs. Otherwise the error of the first source that cannot be opened,
  // and it does not run.
  Status Start();
  // Returns when the thread has ended. Streams keep their place: after another Start they fetch
  // what was missed. kFailedPrecondition: called by the sink. OK if it does not run.
  Status Stop();

  ZmqSubscriberStats Stats() const;

 private:
  class Impl;
  explicit ZmqSubscriber(std::unique_ptr<Impl> impl);

  std::unique_ptr<Impl> impl_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_ZMQ_SUBSCRIBER_H_
