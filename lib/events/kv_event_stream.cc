// Invariants, between calls:
//
//   1. held_ is empty unless state_ is kReplaying or detached_, but for the first released_
//   entries, which the
//      last call's actions still point into.
//   2. Numbers in held_ ascend, all are above last_, and the last of them is at most last_live_.
//   3. fetch_ is the number of the newest kFetch; replies under another one are not looked at.
//   4. actions_ has room for all that a call can add, because Hold makes it: so no other call
//      allocates, and none fails.
#include "prefixrouter/kv_event_stream.h"

#include <algorithm>
#include <new>
#include <utility>

#include "lib/base/guard.h"
#include "lib/hash/xxh3.h"
#include "prefixrouter/kv_event_frames.h"

namespace prefixrouter {
namespace {

// A call's actions beside those for held messages: at most clear, apply, clear, fetch.
constexpr size_t kSpareActions = 8;
constexpr double kMaxRetryDelay = 3600;
// What a held message takes beside its payload.
constexpr size_t kHeldOverhead = 64;

Status Invalid(const char* option, const std::string& value, const char* range) {
  return Status(StatusCode::kInvalidArgument,
                std::string("KvEventStreamOptions::") + option + " is " + value + range);
}

Status Validate(const KvEventStreamOptions& options) {
  if (options.max_held_messages == 0) return Invalid("max_held_messages", "0", ", below 1");
  if (options.max_held_bytes == 0) return Invalid("max_held_bytes", "0", ", below 1");
  if (options.replay_attempts == 0) return Invalid("replay_attempts", "0", ", below 1");
  if (!(options.retry_delay_s >= 0 && options.retry_delay_s <= kMaxRetryDelay)) {
    return Invalid("retry_delay_s", std::to_string(options.retry_delay_s), ", not in 0 to 3600");
  }
  return Status();
}

uint64_t Digest(std::string_view payload) { return Xxh3(payload.data(), payload.size()); }

}  // namespace

const char* KvStreamStateName(KvStreamState state) {
  switch (state) {
    case KvStreamState::kWaiting:
      return "waiting";
    case KvStreamState::kLive:
      return "live";
    case KvStreamState::kReplaying:
      return "replaying";
    case KvStreamState::kRetired:
      return "retired";
  }
  return "unknown";
}

Result<KvEventStream> KvEventStream::Create(InstanceId instance,
                                            const KvEventStreamOptions& options) {
  return Guard([&]() -> Result<KvEventStream> {
    if (Status status = Validate(options); !status.ok()) return status;
    return KvEventStream(instance, options);
  });
}

KvEventStream::KvEventStream(InstanceId instance, const KvEventStreamOptions& options)
    : instance_(instance), options_(options) {
  actions_.reserve(kSpareActions);
}

// ---- Input --------------------------------------------------------------------------------------

KvEventStream::Actions KvEventStream::Connected(double) {
  if (!Begin()) return {};
  stats_.connected = true;
  detached_ = false;
  if (unnumbered_) Clear();
  if (options_.has_replay) DropHeld();  // it may be of a process that has ended
  AskAgain();
  return Done();
}

void KvEventStream::Disconnected() {
  Release();
  stats_.connected = false;
  detached_ = options_.has_replay;
  if (detached_ && state_ == KvStreamState::kReplaying) state_ = KvStreamState::kLive;
}

KvEventStream::Actions KvEventStream::Check(double) {
  if (!Begin() || detached_) return {};
  AskAgain();
  return Done();
}

KvEventStream::Actions KvEventStream::Live(uint64_t seq, std::string_view payload, double now_s) {
  if (!Begin()) return {};
  if (seq == kKvEndOfReplay) {
    ++stats_.malformed;
    return {};
  }
  stats_.last_live_s = now_s;
  if (unnumbered_) Forget();
  const uint64_t digest = Digest(payload);
  const bool regressed = has_live_ && seq <= last_live_;
  if (regressed || (has_last_ && seq <= last_)) {
    const Known known = Recall(seq, digest);
    // Live numbers that ascend up to what is applied: they waited while a replay overtook them, for
    // so long that they are forgotten.
    const bool overtaken = known == Known::kNo && has_live_ && !regressed;
    if (known == Known::kSame || overtaken) {
      ++stats_.duplicates;
      last_live_ = has_live_ ? std::max(last_live_, seq) : seq;
      has_live_ = true;
      return {};
    }
    Restart();
  }
  has_live_ = true;
  last_live_ = seq;
  if (state_ == KvStreamState::kReplaying || detached_) {
    Hold(seq, payload, digest);
    return Done();
  }
  state_ = KvStreamState::kLive;
  if (seq != Next()) {
    if (has_last_) ++stats_.gaps;
    if (options_.has_replay) {
      Hold(seq, payload, digest);
      attempts_ = 0;
      StartFetch(0);
      return Done();
    }
    Lose(seq);
  }
  Apply(seq, payload, digest, now_s);
  return Done();
}

KvEventStream::Actions KvEventStream::LiveUnnumbered(std::string_view payload, double now_s) {
  if (!Begin()) return {};
  stats_.last_live_s = now_s;
  if (!unnumbered_) {
    Forget();
    Clear();
    unnumbered_ = true;
    state_ = KvStreamState::kLive;
  }
  actions_.push_back({KvStreamActionKind::kApply, 0, false, payload, 0, 0});
  dirty_ = true;
  stats_.last_applied_s = now_s;
  ++stats_.applied;
  ++stats_.unnumbered;
  return Done();
}

KvEventStream::Actions KvEventStream::Replayed(uint64_t fetch, uint64_t seq,
                                               std::string_view payload, double now_s) {
  if (!Begin()) return {};
  if (fetch == 0 || fetch != this->fetch()) {
    ++stats_.ignored;
    return {};
  }
  if (seq == kKvEndOfReplay) {
    ++stats_.malformed;
    return {};
  }
  const uint64_t digest = Digest(payload);
  answered_ = true;
  bool restarted = has_last_ && seq <= last_ && Recall(seq, digest) == Known::kOther;
  if (has_last_ && seq <= last_ && !restarted) return {};
  // What is held came from the process that was live; the replay may come from its successor.
  for (; !restarted && !held_.empty() && held_.front().seq <= seq; held_.pop_front()) {
    restarted = held_.front().seq == seq && held_.front().digest != digest;
    held_bytes_ -= held_.front().payload.size() + kHeldOverhead;
  }
  if (restarted) {
    Restart();
    StartFetch(0);
    return Done();
  }
  if (seq != Next()) {
    if (progressed_) {  // the replay itself has a hole: its sender has dropped messages
      StartFetch(0);
      return Done();
    }
    Lose(seq);
  }
  Apply(seq, payload, digest, now_s);
  ++stats_.applied_replay;
  progressed_ = true;
  return Done();
}

KvEventStream::Actions KvEventStream::ReplayEnded(uint64_t fetch, double now_s) {
  if (!Begin()) return {};
  if (fetch == 0 || fetch != this->fetch()) {
    ++stats_.ignored;
    return {};
  }
  ++stats_.replays_ended;
  attempts_ = 0;
  if (!answered_ && has_last_) {  // not even the last message: another process
    ++stats_.restarts;
    ForgetApplied();
    has_live_ = !held_.empty();  // what is held may be the new one's
    if (has_live_) last_live_ = held_.back().seq;
    Clear();
    StartFetch(0);
    return Done();
  }
  // Where nothing was published, nothing is held.
  if (!has_last_ && held_.empty() && !has_live_) Clear();
  Drain(now_s);
  return Done();
}

KvEventStream::Actions KvEventStream::ReplayFailed(uint64_t fetch, double now_s) {
  if (!Begin()) return {};
  if (fetch == 0 || fetch != this->fetch()) {
    ++stats_.ignored;
    return {};
  }
  ++stats_.replays_failed;
  if (progressed_) attempts_ = 0;
  const double delay_s =
      options_.retry_delay_s * static_cast<double>(uint64_t{1} << std::min(attempts_, 20u));
  if (++attempts_ < options_.replay_attempts) {
    StartFetch(std::min(delay_s, kMaxRetryDelay));
    return Done();
  }
  attempts_ = 0;
  progressed_ = false;  // what it has not brought is given up
  Drain(now_s);
  return Done();
}

void KvEventStream::Retire() {
  Release();
  Forget();
  state_ = KvStreamState::kRetired;
}

void KvEventStream::Bind(InstanceId instance) {
  Release();
  Forget();
  instance_ = instance;
  detached_ = false;
  dirty_ = true;
  state_ = KvStreamState::kWaiting;
}

KvEventStreamStats KvEventStream::Stats() const {
  KvEventStreamStats stats = stats_;
  stats.state = state_;
  stats.complete = complete_ && state_ == KvStreamState::kLive;
  stats.has_last = has_last_;
  stats.last_applied = has_last_ ? last_ : 0;
  stats.behind = has_live_ && last_live_ >= Next() ? last_live_ - Next() + 1 : 0;
  stats.held = held_.size() - released_;
  stats.held_bytes = held_bytes_;
  return stats;
}

// ---- Steps --------------------------------------------------------------------------------------

// Takes back what the last call handed out.
void KvEventStream::Release() {
  actions_.clear();
  held_.erase(held_.begin(), held_.begin() + static_cast<std::ptrdiff_t>(released_));
  released_ = 0;
}

// False: the stream does nothing any more.
bool KvEventStream::Begin() {
  Release();
  if (state_ != KvStreamState::kRetired) return true;
  ++stats_.ignored;
  return false;
}

// Whether this message is applied or held already.
KvEventStream::Known KvEventStream::Recall(uint64_t seq, uint64_t digest) const {
  const Applied& applied = recent_[seq % kRecent];
  if (applied.seq_plus_1 == seq + 1) {
    return applied.digest == digest ? Known::kSame : Known::kOther;
  }
  const auto held = std::lower_bound(held_.begin(), held_.end(), seq,
                                     [](const Held& h, uint64_t s) { return h.seq < s; });
  if (held == held_.end() || held->seq != seq) return Known::kNo;
  return held->digest == digest ? Known::kSame : Known::kOther;
}

void KvEventStream::Apply(uint64_t seq, std::string_view payload, uint64_t digest, double now_s) {
  if (!has_last_) {
    Clear();
    complete_ = true;
  }
  actions_.push_back({KvStreamActionKind::kApply, seq, true, payload, 0, 0});
  has_last_ = true;
  last_ = seq;
  recent_[seq % kRecent] = {seq + 1, digest};
  dirty_ = true;
  stats_.last_applied_s = now_s;
  ++stats_.applied;
}

void KvEventStream::Clear() {
  if (!dirty_) return;
  dirty_ = false;
  actions_.push_back({KvStreamActionKind::kClear, 0, false, {}, 0, 0});
  ++stats_.clears;
}

void KvEventStream::Hold(uint64_t seq, std::string_view payload, uint64_t digest) {
  const size_t bytes = payload.size() + kHeldOverhead;
  bool room =
      held_.size() < options_.max_held_messages && held_bytes_ + bytes <= options_.max_held_bytes;
  try {
    if (room) {
      const size_t needed = held_.size() + 1 + kSpareActions;
      if (actions_.capacity() < needed) actions_.reserve(2 * needed);
      held_.push_back({seq, digest, std::string(payload)});
      held_bytes_ += bytes;
    }
  } catch (const std::bad_alloc&) {
    room = false;
  }
  if (!room) ++stats_.dropped;
}

void KvEventStream::AskAgain() {
  if (unnumbered_ || !options_.has_replay) return;
  attempts_ = 0;
  StartFetch(0);
}

void KvEventStream::DropHeld() {
  held_.clear();
  released_ = 0;
  held_bytes_ = 0;
}

// Asks for the last message too, to see whether it is still the same publisher.
void KvEventStream::StartFetch(double delay_s) {
  state_ = KvStreamState::kReplaying;
  ++fetch_;
  answered_ = false;
  progressed_ = false;
  actions_.push_back(
      {KvStreamActionKind::kFetch, has_last_ ? last_ : 0, true, {}, fetch_, delay_s});
  ++stats_.replays;
}

// Goes on at `next_seq`; what is before it will not come. REQUIRES: next_seq > Next()
void KvEventStream::Lose(uint64_t next_seq) {
  if (has_last_) stats_.lost += next_seq - Next();  // where a stream begins, nothing is lost
  complete_ = !has_last_ && next_seq == 1;          // which is where some publishers begin
  if (!has_last_ || options_.clear_on_loss) Clear();
  has_last_ = true;
  last_ = next_seq - 1;
}

void KvEventStream::Restart() {
  ++stats_.restarts;
  Forget();
  Clear();
}

// Of the publisher: its numbers, what is held of it, the replay that was asked.
void KvEventStream::Forget() {
  DropHeld();
  ForgetApplied();
  has_live_ = false;
  unnumbered_ = false;
  if (state_ == KvStreamState::kReplaying) state_ = KvStreamState::kLive;
}

void KvEventStream::ForgetApplied() {
  has_last_ = false;
  complete_ = false;
  std::fill(std::begin(recent_), std::end(recent_), Applied());
}

// Leaves kReplaying and applies what is held. A gap is asked for once more if the replay brought
// something; one that brought nothing new shows that it will not come.
void KvEventStream::Drain(double now_s) {
  state_ = KvStreamState::kLive;
  bool ask = progressed_;
  for (; released_ < held_.size(); ++released_) {
    const Held& held = held_[released_];
    if (held.seq > Next()) {
      if (ask) {
        ++stats_.gaps;
        StartFetch(0);
        return;
      }
      Lose(held.seq);
    }
    Apply(held.seq, held.payload, held.digest, now_s);
    held_bytes_ -= held.payload.size() + kHeldOverhead;
    ask = true;
  }
  if (!has_live_ || last_live_ < Next()) return;
  if (ask) {  // messages were dropped at the bound
    StartFetch(0);
  } else {
    Lose(last_live_ + 1);
  }
}

}  // namespace prefixrouter
