// KvEventStream: the order of one publisher's event messages, without any I/O.
//
// An engine numbers its messages 0, 1, 2, ... (some begin with 1) and starts again when its process
// does. A transport that drops messages shows only in the numbers; what was dropped can be fetched
// from the engine's replay socket while the engine still keeps it. The stream is told what came and
// answers what to do, in order:
//
//   for (const KvStreamAction& action : stream.Live(seq, payload, now_s)) {
//     switch (action.kind) {
//       case KvStreamActionKind::kApply: decode action.payload and apply it; break;
//       case KvStreamActionKind::kClear: apply one kCleared event to stream.instance(); break;
//       case KvStreamActionKind::kFetch: after action.delay_s, ask the replay socket for
//           everything from action.seq on, and pass on what comes under the number action.fetch.
//     }
//   }
//
// One stream for each publisher, which is each data-parallel rank. ZmqSubscriber (zmq_subscriber.h)
// drives one over ZeroMQ; kv_event_frames.h reads the frames.
//
//   state       | input                            | actions                       | next state
//   ------------+----------------------------------+-------------------------------+-----------
//   kWaiting    | Connected                        | fetch from 0                  | kReplaying
//   kWaiting    | live 0                           | clear, apply                  | kLive
//   kWaiting    | live n > 0                       | hold; fetch from 0            | kReplaying
//   kLive       | live, the next number            | apply                         | kLive
//   kLive       | live, numbers missing            | hold; fetch from the last     | kReplaying
//   any of them | Disconnected                     | hold; give up the replay      | kLive
//   any of them | Connected                        | drop what is held; fetch from | kReplaying
//               |                                  | the last                      |
//   kReplaying  | live, a new number               | hold, or drop at the bound    | kReplaying
//   kReplaying  | replayed, already applied        |                               | kReplaying
//   kReplaying  | replayed, the next number        | apply                         | kReplaying
//   kReplaying  | first replayed, numbers missing  | clear, apply: history is lost | kReplaying
//   kReplaying  | later replayed, numbers missing  | fetch from the last again     | kReplaying
//   kReplaying  | ended                            | apply what is held, in order; | kLive, or
//               |                                  | fetch again where it has gaps | kReplaying
//   kReplaying  | ended without a message, where   | clear, fetch from 0: it has   | kReplaying
//               | one was applied before           | restarted                     |
//   kReplaying  | failed                           | fetch again after a delay, or | kReplaying
//               |                                  | give up: as ended             | kLive
//   any of them | live, an old number, with the    |                               | as it was
//               | payload that was applied: twice  |                               |
//   any of them | an old number otherwise: the     | clear; apply 0, or else hold  | kLive or
//               | publisher has restarted          | and fetch from 0              | kReplaying
//   kRetired    | whatever                         |                               | kRetired
//
// * "Fetch from the last" asks for the last applied message too. If another payload comes under its
//   number, or the publisher has nothing from there on, it is another process: restarted.
// * What a replay cannot bring any more is lost: numbers before its first message, and gaps that a
//   further replay does not fill. Removals may be among it, so the instance is cleared
//   (clear_on_loss) and what follows is applied.
// * Without a replay source (has_replay false) nothing is held and nothing is fetched: what is
//   missing is lost at once.
// * What reaches the bounds on held messages is dropped and counted. The numbers remember it: when
//   the replay has ended, another one fetches it.
// * Before the first message is applied the instance is cleared once: what it held may be from
//   another stream.
// * Messages without numbers are applied as they come. When the connection was lost, the instance
//   is cleared, because nobody can tell what was missed.
//
// Cost: one hash over the payload (to tell repetitions from restarts); nothing is copied but what
// is held. Memory: 1.5 KiB, plus what is held. Not thread-safe: one thread at a time.
#ifndef PREFIXROUTER_KV_EVENT_STREAM_H_
#define PREFIXROUTER_KV_EVENT_STREAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "prefixrouter/instance.h"
#include "prefixrouter/span.h"
#include "prefixrouter/status.h"

namespace prefixrouter {

struct KvEventStreamOptions {
  // Whether missing messages can be fetched. Default true.
  bool has_replay = true;
  // Bounds on live messages that are held during a replay. An engine sends some tens of messages a
  // second, of some kilobytes. Each at least 1. Defaults 10,000 and 64 MiB.
  uint32_t max_held_messages = 10000;
  size_t max_held_bytes = size_t{64} << 20;
  // How often a replay is tried before what it should bring is given up. At least 1. Default 3.
  uint32_t replay_attempts = 3;
  // Delay before the second attempt; it doubles with each further one. 0 to 3600. Default 0.1.
  double retry_delay_s = 0.1;
  // Clear the instance when messages are lost for good. False keeps blocks whose removal may have
  // been missed: more of them match, and some of the matches are false. Default true.
  bool clear_on_loss = true;
};

enum class KvStreamActionKind : int32_t {
  kApply = 0,  // decode and apply this payload
  kClear = 1,  // the instance holds nothing that is known
  kFetch = 2,  // ask for a replay; any earlier one is of no use now
};

struct KvStreamAction {
  KvStreamActionKind kind = KvStreamActionKind::kApply;
  // Of kApply: number of the message, if it has one. Of kFetch: the first number to ask for.
  uint64_t seq = 0;
  bool has_seq = false;
  // Of kApply. Borrowed: from the caller's argument, or from the stream until its next call.
  std::string_view payload;
  // Of kFetch.
  uint64_t fetch = 0;  // its own number, from 1; goes with what the replay brings
  double delay_s = 0;  // how long to wait before asking
};

enum class KvStreamState : int32_t {
  kWaiting = 0,    // nothing has come yet
  kLive = 1,       // in order
  kReplaying = 2,  // a replay is wanted; live messages are held
  kRetired = 3,    // of an instance that was removed: does nothing
};
const char* KvStreamStateName(KvStreamState state);  // "waiting" and so on

struct KvEventStreamStats {
  KvStreamState state = KvStreamState::kWaiting;
  bool connected = false;
  // In order, and nothing is missing since the publisher's start, which is number 0 or 1.
  bool complete = false;
  bool has_last = false;
  uint64_t last_applied = 0;  // if has_last: number of the last message that was applied
  uint64_t behind = 0;        // numbers between that and the last live message
  uint64_t held = 0;          // messages, now
  uint64_t held_bytes = 0;
  double last_live_s = -1;     // when the last live message came; negative: never
  double last_applied_s = -1;  // when the last message was applied

  // Since the stream was made.
  uint64_t applied = 0;         // messages, of all kinds
  uint64_t applied_replay = 0;  // of them, from replays
  uint64_t unnumbered = 0;      // of them, without a number
  uint64_t duplicates = 0;      // live messages that had been applied
  uint64_t gaps = 0;            // times that numbers were missing
  uint64_t lost = 0;            // messages that will never come, after the first applied one
  uint64_t restarts = 0;        // of the publisher
  uint64_t clears = 0;          // asked for
  uint64_t replays = 0;         // asked for, with further attempts
  uint64_t replays_ended = 0;
  uint64_t replays_failed = 0;
  uint64_t dropped = 0;    // live messages beyond the bounds
  uint64_t malformed = 0;  // of a number that no message has, or counted by CountMalformed
  uint64_t ignored = 0;    // came after Retire, or from a replay that is not wanted any more
};

class KvEventStream {
 public:
  // Valid until the stream's next call.
  using Actions = Span<const KvStreamAction>;

  // A stream whose messages are of this instance. kInvalidArgument names an option out of its
  // range.
  static Result<KvEventStream> Create(InstanceId instance,
                                      const KvEventStreamOptions& options = {});

  InstanceId instance() const { return instance_; }

  // `now_s`: any clock in seconds, the same one for all calls.

  // The live connection is there: for the first time, or again. Transports that know no connections
  // need not call these; gaps then show with the next message.
  Actions Connected(double now_s);
  // Asks for a replay, to see whether anything was missed that no later message has shown: some
  // time after Connected, because publishers send nothing until they know of a subscription.
  Actions Check(double now_s);
  // The connection is lost. What comes until Connected may be of another process: with a replay
  // source it is held.
  void Disconnected();

  // A message came over the live connection.
  Actions Live(uint64_t seq, std::string_view payload, double now_s);
  Actions LiveUnnumbered(std::string_view payload, double now_s);

  // What a replay brings. `fetch` is the number of the kFetch that asked for it; what has another
  // number than fetch() is ignored.
  Actions Replayed(uint64_t fetch, uint64_t seq, std::string_view payload, double now_s);
  Actions ReplayEnded(uint64_t fetch, double now_s);   // the end mark came
  Actions ReplayFailed(uint64_t fetch, double now_s);  // it did not, in time
  // Of the replay that is wanted now; 0: none is.
  uint64_t fetch() const { return state_ == KvStreamState::kReplaying ? fetch_ : 0; }

  // The router answered kNotFound: the instance was removed. From now on nothing is applied.
  void Retire();
  // Begins anew, for an instance that was added again: as a new stream, with these statistics.
  void Bind(InstanceId instance);

  // Counts a message that could not be read and is not in any other figure.
  void CountMalformed() { ++stats_.malformed; }

  KvEventStreamStats Stats() const;

 private:
  struct Held {
    uint64_t seq;
    uint64_t digest;
    std::string payload;
  };
  // What was applied under a number.
  struct Applied {
    uint64_t seq_plus_1 = 0;  // 0: none
    uint64_t digest = 0;
  };
  enum class Known { kNo, kSame, kOther };

  KvEventStream(InstanceId instance, const KvEventStreamOptions& options);

  uint64_t Next() const { return has_last_ ? last_ + 1 : 0; }
  void Release();
  bool Begin();
  Actions Done() const { return {actions_.data(), actions_.size()}; }
  Known Recall(uint64_t seq, uint64_t digest) const;
  void Apply(uint64_t seq, std::string_view payload, uint64_t digest, double now_s);
  void Clear();
  void Hold(uint64_t seq, std::string_view payload, uint64_t digest);
  void AskAgain();
  void DropHeld();
  void StartFetch(double delay_s);
  void Lose(uint64_t next_seq);
  void Restart();
  void Forget();
  void ForgetApplied();
  void Drain(double now_s);

  InstanceId instance_;
  KvEventStreamOptions options_;
  KvStreamState state_ = KvStreamState::kWaiting;
  KvEventStreamStats stats_;

  bool has_last_ = false;
  uint64_t last_ = 0;  // last applied, or last lost
  bool has_live_ = false;
  uint64_t last_live_ = 0;
  bool detached_ = false;    // since Disconnected, until Connected
  bool unnumbered_ = false;  // the last message had no number
  bool dirty_ = true;        // the instance may hold something
  bool complete_ = false;
  // An old live message that is not remembered counts as one of a restarted engine, unless it
  // follows another live one: all is cleared and asked for again. So it takes as many as wait in a
  // subscriber's queue while its first replay overtakes them.
  static constexpr size_t kRecent = 1024;
  Applied recent_[kRecent];  // by number

  uint64_t fetch_ = 0;       // the newest
  uint32_t attempts_ = 0;    // failed in a row
  bool answered_ = false;    // the replay has brought something
  bool progressed_ = false;  // and something that was new

  std::deque<Held> held_;  // numbers ascend
  size_t released_ = 0;    // of them, from the front: handed out by the last call
  size_t held_bytes_ = 0;  // of those that are not
  std::vector<KvStreamAction> actions_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_KV_EVENT_STREAM_H_
