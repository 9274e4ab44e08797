#include "lib/zmq/publisher.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <limits>
#include <utility>

#include "lib/zmq/endpoint.h"

namespace prefixrouter {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();
// After a connection, until the engine surely knows of the subscription. What it published before
// that, and after it answered the first replay, shows only with its next message, or by asking.
constexpr double kSettleS = 0.5;

int Milliseconds(double seconds) { return std::max(1, static_cast<int>(seconds * 1000)); }

// Seconds since 1970, as engines count them.
double WallClock() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

ZmqSocketOptions SocketOptions(const ZmqSubscriberOptions& options, const std::string& endpoint,
                               bool ipv6) {
  ZmqSocketOptions socket;
  socket.high_water_mark = static_cast<int>(options.receive_high_water_mark);
  socket.reconnect_ms = Milliseconds(options.reconnect_s);
  socket.max_reconnect_ms = Milliseconds(options.max_reconnect_s);
  socket.max_message_bytes = static_cast<int64_t>(options.max_message_bytes);
  socket.ipv6 = ipv6 || IsIpv6Endpoint(endpoint);
  return socket;
}

Publisher::Publisher(PublisherContext* context, KvEventStream stream, const ZmqSource& source,
                     uint64_t source_id, uint32_t rank, std::string endpoint,
                     std::string replay_endpoint)
    : context_(context),
      stream_(std::move(stream)),
      source_(source_id),
      rank_(rank),
      topic_(source.topic),
      replay_endpoint_(std::move(replay_endpoint)),
      ipv6_(source.ipv6),
      instances_(source.instances),
      touched_(source.instances.size()),
      check_at_s_(kNever) {
  stats_.source = source_id;
  stats_.rank = rank;
  stats_.endpoint = std::move(endpoint);
  stats_.lag_s = std::numeric_limits<double>::quiet_NaN();
  PublishStats();
}

// ---- What comes ---------------------------------------------------------------------------------

void Publisher::Connected(double now_s) {
  greeted_ = true;
  ++stats_.connects;
  check_at_s_ = now_s + kSettleS;
  Obey(stream_.Connected(now_s), /*live=*/true, now_s);
  OnTime(now_s);
}

void Publisher::Disconnected() {
  ++stats_.disconnects;
  greeted_ = false;
  stream_.Disconnected();
}

void Publisher::Live(const KvFrames& frames, double now_s) {
  if (removed_) return;
  ++stats_.messages;
  stats_.bytes += frames.payload.size();
  last_message_s_ = now_s;
  Obey(frames.has_seq ? stream_.Live(frames.seq, frames.payload, now_s)
                      : stream_.LiveUnnumbered(frames.payload, now_s),
       /*live=*/true, now_s);
  OnTime(now_s);
}

void Publisher::BadFrames(const Status& status) {
  ++stats_.bad_frames;
  stats_.last_error = status.message();
}

void Publisher::ReadReplay(void* socket, int limit, double now_s) {
  for (; limit > 0 && replay_.get() == socket; --limit) {
    if (!context_->message.Receive(replay_)) return;
    fail_at_s_ = now_s + context_->options.replay_timeout_s;
    last_message_s_ = now_s;
    const Result<KvFrames> frames = ParseKvReplayFrames(context_->message.frames());
    if (!frames.ok()) {
      BadFrames(frames.status());
    } else if (frames->seq == kKvEndOfReplay) {
      replay_.Close();
      Obey(stream_.ReplayEnded(std::exchange(fetch_, 0), now_s), /*live=*/false, now_s);
    } else {
      ++stats_.messages;
      stats_.bytes += frames->payload.size();
      Obey(stream_.Replayed(fetch_, frames->seq, frames->payload, now_s), /*live=*/false, now_s);
    }
    OnTime(now_s);
  }
}

// ---- Replays ------------------------------------------------------------------------------------

double Publisher::deadline_s() const {
  if (fetch_ == 0) return check_at_s_;
  return replay_ ? fail_at_s_ : ask_at_s_;
}

void Publisher::OnTime(double now_s) {
  if (fetch_ != 0 && fetch_ != stream_.fetch()) {  // the stream has given it up
    fetch_ = 0;
    replay_.Close();
  }
  if (fetch_ == 0 && now_s >= check_at_s_) {
    check_at_s_ = kNever;
    Obey(stream_.Check(now_s), /*live=*/false, now_s);
  }
  if (fetch_ == 0) return;
  if (!replay_ && now_s >= ask_at_s_) Ask(now_s);
  if (replay_ && now_s >= fail_at_s_) FailReplay(now_s);
}

// A socket for each replay: what an earlier one still sends cannot be taken for an answer.
void Publisher::Ask(double now_s) {
  fail_at_s_ = now_s + context_->options.replay_timeout_s;
  Result<ZmqSocket> socket = ZmqSocket::Open(
      context_->zmq, ZMQ_DEALER, SocketOptions(context_->options, replay_endpoint_, ipv6_));
  Status status = socket.status();
  if (status.ok()) status = socket->Connect(replay_endpoint_);
  if (status.ok()) {
    const std::string seq = KvSeqFrame(fetch_from_);
    if (zmq_send(socket->get(), "", 0, ZMQ_SNDMORE | ZMQ_DONTWAIT) < 0 ||
        zmq_send(socket->get(), seq.data(), seq.size(), ZMQ_DONTWAIT) < 0) {
      status = ZmqError("cannot ask for a replay from '" + replay_endpoint_ + "'");
    }
  }
  if (status.ok()) {
    replay_ = *std::move(socket);
    return;
  }
  stats_.last_error = status.message();
  FailReplay(now_s);
}

void Publisher::FailReplay(double now_s) {
  if (replay_) stats_.last_error = "replay from '" + replay_endpoint_ + "' timed out";
  replay_.Close();
  Obey(stream_.ReplayFailed(std::exchange(fetch_, 0), now_s), /*live=*/false, now_s);
}

void Publisher::Opened(const std::string& endpoint) {
  stats_.endpoint = endpoint;
  greeted_ = false;
  check_at_s_ = kNever;
  PublishStats();
}

// What the stream still wants is asked for when it is connected again.
void Publisher::Closed() {
  replay_.Close();
  fetch_ = 0;
  check_at_s_ = kNever;
  stream_.Disconnected();
  PublishStats();
}

// ---- Actions ------------------------------------------------------------------------------------

void Publisher::Obey(KvEventStream::Actions actions, bool live, double now_s) {
  for (const KvStreamAction& action : actions) {
    if (gone_ || removed_) break;
    switch (action.kind) {
      case KvStreamActionKind::kApply:
        Apply(action.payload, live);
        break;
      case KvStreamActionKind::kClear:
        Clear();
        break;
      case KvStreamActionKind::kFetch:
        replay_.Close();
        fetch_ = action.fetch;
        fetch_from_ = action.seq;
        ask_at_s_ = now_s + action.delay_s;
        break;
    }
  }
  if (gone_) stream_.Retire();
}

void Publisher::Apply(std::string_view payload, bool live) {
  const Result<const KvEventBatch*> decoded = context_->decoder.Decode(payload);
  if (!decoded.ok()) {
    ++stats_.undecodable;
    stats_.last_error = decoded.status().message();
    return;
  }
  const KvEventBatch& batch = **decoded;
  stats_.skipped += batch.skipped;
  if (live) stats_.lag_s = WallClock() - batch.timestamp_s;
  const size_t rank = batch.has_rank && batch.rank < instances_.size() ? batch.rank : rank_;
  touched_[rank] = true;
  Deliver(instances_[rank], batch);
}

// Its own instance, and those that its messages have named.
void Publisher::Clear() {
  const KvEvent cleared;  // which is what an event is by default
  KvEventBatch batch;
  batch.events = {&cleared, 1};
  touched_[rank_] = true;
  for (size_t rank = 0; rank < instances_.size(); ++rank) {
    if (touched_[rank]) Deliver(instances_[rank], batch);
  }
}

void Publisher::Deliver(InstanceId instance, const KvEventBatch& batch) {
  Status status;
  try {
    status = context_->sink(instance, batch);
  } catch (const std::exception& error) {
    status = Status(StatusCode::kInternal, error.what());
  } catch (...) {
    status = Status(StatusCode::kInternal, "the sink threw something");
  }
  if (status.ok()) return;
  ++stats_.refused;
  stats_.last_error = status.message();
  if (status.code() == StatusCode::kNotFound && instance == stream_.instance()) gone_ = true;
}

// ---- Statistics ---------------------------------------------------------------------------------

void Publisher::PublishStats() {
  stats_.stream = stream_.Stats();
  const std::lock_guard<std::mutex> lock(mutex_);
  published_ = stats_;
  published_message_s_ = last_message_s_;
}

ZmqPublisherStats Publisher::Stats(double now_s) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  ZmqPublisherStats stats = published_;
  if (published_message_s_ >= 0) stats.silent_s = std::max(0.0, now_s - published_message_s_);
  return stats;
}

}  // namespace prefixrouter
