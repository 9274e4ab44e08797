// The thread and what it waits for.
//
// Sockets are not thread-safe, so while the thread runs it alone touches them, the inlets and the
// publishers: other threads hand it their calls as tasks and wait (Call). While it does not run,
// mutex_ guards all of it; starting and joining the thread pass it on.
//
// A call by the sink comes from within the thread, in the middle of a message. It may add inlets
// and publishers; it only marks them as removed, and Sweep takes them out between rounds.
#include "prefixrouter/zmq_subscriber.h"

#include <zmq.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <mutex>
#include <new>
#include <thread>
#include <type_traits>
#include <utility>

#include "lib/zmq/endpoint.h"
#include "lib/zmq/publisher.h"
#include "lib/zmq/socket.h"

namespace prefixrouter {
namespace {

// Messages that are taken from one socket before the others have their turn.
constexpr int kTurn = 256;
constexpr int kMaxSockets = 16384;
constexpr double kMaxWaitS = 3600;

double Now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

// No exception leaves the library.
template <typename Function>
std::invoke_result_t<Function> Guard(Function function) noexcept {
  try {
    return function();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "no memory");
  } catch (const std::exception& error) {
    return Status(StatusCode::kInternal, error.what());
  }
}

Status CheckSeconds(const char* option, double value) {
  if (value >= 0.001 && value <= 3600) return Status();
  return Invalid(std::string("ZmqSubscriberOptions::") + option + " is " + std::to_string(value) +
                 ", not in 0.001 to 3600");
}

Status Validate(const ZmqSubscriberOptions& options) {
  if (auto stream = KvEventStream::Create({}, options.stream); !stream.ok()) return stream.status();
  for (const auto& [option, value] : {std::pair{"replay_timeout_s", options.replay_timeout_s},
                                      std::pair{"reconnect_s", options.reconnect_s},
                                      std::pair{"max_reconnect_s", options.max_reconnect_s}}) {
    if (Status status = CheckSeconds(option, value); !status.ok()) return status;
  }
  if (options.max_reconnect_s < options.reconnect_s) {
    return Invalid("ZmqSubscriberOptions::max_reconnect_s is " +
                   std::to_string(options.max_reconnect_s) + ", below reconnect_s");
  }
  if (options.receive_high_water_mark == 0 || options.receive_high_water_mark > 0x7fffffff) {
    return Invalid("ZmqSubscriberOptions::receive_high_water_mark is " +
                   std::to_string(options.receive_high_water_mark) + ", not in 1 to 2^31 - 1");
  }
  if (options.max_message_bytes == 0 || options.max_message_bytes > uint64_t{1} << 40) {
    return Invalid("ZmqSubscriberOptions::max_message_bytes is " +
                   std::to_string(options.max_message_bytes) + ", not in 1 to 2^40");
  }
  return Status();
}

bool HasPrefix(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

// A live socket, with the publishers whose messages come through it.
struct Inlet {
  ~Inlet() { Close(); }

  std::string endpoint;
  bool bind = false;
  bool ipv6 = false;
  std::vector<std::shared_ptr<Publisher>> publishers;
  ZmqSocket live;
  ZmqSocket monitor;
  int connections = 0;
  bool connecting = false;  // a connection was made, and publishers were not told yet
  bool changed = false;     // statistics are to be published

  // In this order: libzmq's thread waits forever when it tells a monitor that has gone.
  void Close() {
    if (live) zmq_socket_monitor(live.get(), nullptr, 0);
    monitor.Close();
    live.Close();
    connections = 0;
    connecting = false;
  }

  // Connections tell of the engine only where it is clear whose they are.
  bool tells_connections() const { return !bind || publishers.size() == 1; }

  Publisher* Find(std::string_view topic) const {
    Publisher* best = nullptr;
    for (const auto& publisher : publishers) {
      if (publisher->removed() || !HasPrefix(topic, publisher->topic())) continue;
      if (best == nullptr || publisher->topic().size() > best->topic().size()) {
        best = publisher.get();
      }
    }
    return best;
  }
};

}  // namespace

class ZmqSubscriber::Impl {
 public:
  Impl(void* zmq, Sink sink, const ZmqSubscriberOptions& options) {
    context_.zmq = zmq;
    context_.sink = std::move(sink);
    context_.options = options;
  }
  ~Impl() {
    (void)Stop();
    zmq_ctx_term(context_.zmq);  // waits for nothing: all sockets are closed, and linger for 0
  }

  Result<uint64_t> Add(const ZmqSource& source);
  Status Remove(uint64_t source);
  Status Start();
  Status Stop();
  ZmqSubscriberStats Stats() const;

 private:
  using InletList = std::vector<std::unique_ptr<Inlet>>;

  // ---- By any thread
  bool InThread() const { return std::this_thread::get_id() == thread_id_; }
  template <typename Function>
  void Call(Function function);
  void Wake();

  // ---- By whoever may touch the inlets
  Result<uint64_t> AddNow(const ZmqSource& source, const std::vector<std::string>& endpoints,
                          const std::vector<std::string>& replay_endpoints);
  Status RemoveNow(uint64_t source);
  void Sweep();
  Status Open(Inlet* inlet);
  Status OpenSockets(Inlet* inlet);
  void Close();
  Inlet* FindInlet(const std::string& endpoint, bool bind);

  // ---- By the thread
  void Run();
  bool RunTasks();
  void Round();
  void Greet(double now_s);
  void ReadMonitor(Inlet* inlet);
  void ReadLive(Inlet* inlet);

  PublisherContext context_;
  InletList inlets_;
  bool opened_ = false;  // sockets are
  bool swept_ = true;    // no publisher in the inlets is removed
  ZmqSocket wake_receiver_;
  uint64_t addresses_ = 0;  // made so far: a closed one stays in use for a while
  uint64_t next_source_ = 1;

  std::mutex control_;            // one Start or Stop at a time
  mutable std::mutex mutex_;      // guards what follows
  std::condition_variable done_;  // a task is
  bool running_ = false;
  bool stopping_ = false;
  std::deque<std::function<void()>> tasks_;
  ZmqSocket wake_sender_;

  mutable std::mutex directory_mutex_;
  std::vector<std::shared_ptr<Publisher>> directory_;  // what Stats looks at

  std::thread thread_;
  std::atomic<std::thread::id> thread_id_{};
};

// ---- By any thread ------------------------------------------------------------------------------

// Runs the function where the inlets may be touched, and returns after it.
template <typename Function>
void ZmqSubscriber::Impl::Call(Function function) {
  if (InThread()) return function();
  std::unique_lock<std::mutex> lock(mutex_);
  done_.wait(lock, [&] { return !stopping_; });
  if (!running_) return function();
  bool done = false;
  tasks_.push_back([&] {
    function();
    const std::lock_guard<std::mutex> task_lock(mutex_);
    done = true;
    done_.notify_all();
  });
  Wake();
  done_.wait(lock, [&] { return done; });
}

// REQUIRES: mutex_ is held.
void ZmqSubscriber::Impl::Wake() { zmq_send(wake_sender_.get(), "", 0, ZMQ_DONTWAIT); }

Result<uint64_t> ZmqSubscriber::Impl::Add(const ZmqSource& source) {
  const size_t ranks = source.instances.size();
  if (ranks == 0) return Invalid("ZmqSource::instances is empty");
  for (const InstanceId instance : source.instances) {
    if (!instance.valid()) return Invalid("ZmqSource::instances has an instance of value 0");
  }
  auto endpoints = RankEndpoints("ZmqSource::endpoint", source.endpoint, ranks, source.bind);
  if (!endpoints.ok()) return endpoints.status();
  std::vector<std::string> replay_endpoints(ranks);
  if (!source.replay_endpoint.empty()) {
    auto replay = RankEndpoints("ZmqSource::replay_endpoint", source.replay_endpoint, ranks, false);
    if (!replay.ok()) return replay.status();
    replay_endpoints = *std::move(replay);
  }
  Result<uint64_t> added = Status(StatusCode::kInternal, "the source was not added");
  Call([&] { added = Guard([&] { return AddNow(source, *endpoints, replay_endpoints); }); });
  return added;
}

Status ZmqSubscriber::Impl::Remove(uint64_t source) {
  Status status;
  Call([&] { status = RemoveNow(source); });
  return status;
}

Status ZmqSubscriber::Impl::Start() {
  if (InThread()) return Status(StatusCode::kFailedPrecondition, "the subscriber is running");
  const std::lock_guard<std::mutex> control(control_);
  const std::lock_guard<std::mutex> lock(mutex_);
  if (running_) return Status(StatusCode::kFailedPrecondition, "the subscriber is running");
  Result<ZmqSocket> receiver = ZmqSocket::Open(context_.zmq, ZMQ_PAIR);
  Result<ZmqSocket> sender = ZmqSocket::Open(context_.zmq, ZMQ_PAIR);
  for (const Status& status : {receiver.status(), sender.status()}) {
    if (!status.ok()) return status;
  }
  std::string wake = "inproc://wake-" + std::to_string(++addresses_);
  Status status = receiver->Bind(&wake);
  if (status.ok()) status = sender->Connect(wake);
  for (const auto& inlet : inlets_) {
    if (status.ok()) status = Open(inlet.get());
  }
  if (status.ok()) {
    wake_receiver_ = *std::move(receiver);
    wake_sender_ = *std::move(sender);
    opened_ = true;
    status = Guard([&] {
      thread_ = std::thread([this] { Run(); });
      return Status();
    });
  }
  if (!status.ok()) {
    Close();
    return status;
  }
  running_ = true;
  return Status();
}

Status ZmqSubscriber::Impl::Stop() {
  if (InThread()) {
    return Status(StatusCode::kFailedPrecondition, "the sink cannot stop its own thread");
  }
  const std::lock_guard<std::mutex> control(control_);
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!running_) return Status();
    stopping_ = true;
    Wake();
  }
  thread_.join();
  const std::lock_guard<std::mutex> lock(mutex_);
  thread_id_ = std::thread::id();
  Close();
  running_ = false;
  stopping_ = false;
  done_.notify_all();
  return Status();
}

ZmqSubscriberStats ZmqSubscriber::Impl::Stats() const {
  ZmqSubscriberStats stats;
  std::vector<std::shared_ptr<Publisher>> publishers;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    stats.running = running_ && !stopping_;
  }
  {
    const std::lock_guard<std::mutex> lock(directory_mutex_);
    publishers = directory_;
  }
  const double now_s = Now();
  for (const auto& publisher : publishers) stats.publishers.push_back(publisher->Stats(now_s));
  return stats;
}

// ---- By whoever may touch the inlets ------------------------------------------------------------

Inlet* ZmqSubscriber::Impl::FindInlet(const std::string& endpoint, bool bind) {
  for (const auto& inlet : inlets_) {
    if (inlet->endpoint == endpoint && inlet->bind == bind) return inlet.get();
  }
  return nullptr;
}

Result<uint64_t> ZmqSubscriber::Impl::AddNow(const ZmqSource& source,
                                             const std::vector<std::string>& endpoints,
                                             const std::vector<std::string>& replay_endpoints) {
  for (const std::string& endpoint : endpoints) {
    const Inlet* inlet = FindInlet(endpoint, source.bind);
    if (inlet == nullptr) continue;
    for (const auto& publisher : inlet->publishers) {
      if (publisher->removed() || publisher->topic() != source.topic) continue;
      return Status(StatusCode::kAlreadyExists,
                    "ZmqSource::endpoint '" + endpoint + "' with topic '" + source.topic +
                        "' is that of source " + std::to_string(publisher->source()));
    }
  }
  const uint64_t id = next_source_++;
  KvEventStreamOptions stream_options = context_.options.stream;
  stream_options.has_replay = !source.replay_endpoint.empty();
  Status status;
  for (size_t rank = 0; rank < endpoints.size() && status.ok(); ++rank) {
    auto publisher = std::make_shared<Publisher>(
        &context_, *KvEventStream::Create(source.instances[rank], stream_options), source, id,
        static_cast<uint32_t>(rank), endpoints[rank], replay_endpoints[rank]);
    Inlet* inlet = FindInlet(endpoints[rank], source.bind);
    if (inlet == nullptr) {
      inlets_.push_back(std::make_unique<Inlet>());
      inlet = inlets_.back().get();
      inlet->endpoint = endpoints[rank];
      inlet->bind = source.bind;
      inlet->ipv6 = source.ipv6;
    }
    inlet->publishers.push_back(publisher);
    {
      const std::lock_guard<std::mutex> lock(directory_mutex_);
      directory_.push_back(std::move(publisher));
    }
    if (!opened_) continue;
    if (!inlet->live) {
      status = Open(inlet);
    } else {
      zmq_setsockopt(inlet->live.get(), ZMQ_SUBSCRIBE, source.topic.data(), source.topic.size());
    }
  }
  if (status.ok()) return id;
  (void)RemoveNow(id);
  return status;
}

Status ZmqSubscriber::Impl::RemoveNow(uint64_t source) {
  bool found = false;
  for (const auto& inlet : inlets_) {
    for (const auto& publisher : inlet->publishers) {
      if (publisher->source() != source || publisher->removed()) continue;
      publisher->Remove();
      found = true;
    }
  }
  if (!found) {
    return Status(StatusCode::kNotFound, "no source has the number " + std::to_string(source));
  }
  swept_ = false;
  if (!opened_) Sweep();
  const std::lock_guard<std::mutex> lock(directory_mutex_);
  directory_.erase(std::remove_if(directory_.begin(), directory_.end(),
                                  [&](const auto& p) { return p->source() == source; }),
                   directory_.end());
  return Status();
}

// Takes out what was removed.
void ZmqSubscriber::Impl::Sweep() {
  if (std::exchange(swept_, true)) return;
  for (const auto& inlet : inlets_) {
    auto& publishers = inlet->publishers;
    for (size_t i = 0; i < publishers.size();) {
      if (!publishers[i]->removed()) {
        ++i;
        continue;
      }
      const std::string& topic = publishers[i]->topic();
      if (inlet->live) {
        zmq_setsockopt(inlet->live.get(), ZMQ_UNSUBSCRIBE, topic.data(), topic.size());
      }
      publishers.erase(publishers.begin() + static_cast<std::ptrdiff_t>(i));
    }
  }
  inlets_.erase(std::remove_if(inlets_.begin(), inlets_.end(),
                               [](const auto& inlet) { return inlet->publishers.empty(); }),
                inlets_.end());
}

Status ZmqSubscriber::Impl::Open(Inlet* inlet) {
  Status status = OpenSockets(inlet);
  if (!status.ok()) inlet->Close();
  return status;
}

Status ZmqSubscriber::Impl::OpenSockets(Inlet* inlet) {
  const ZmqSocketOptions options = SocketOptions(context_.options, inlet->endpoint, inlet->ipv6);
  Result<ZmqSocket> live = ZmqSocket::Open(context_.zmq, ZMQ_SUB, options);
  if (!live.ok()) return live.status();
  inlet->live = *std::move(live);
  Result<ZmqSocket> monitor = ZmqSocket::Open(context_.zmq, ZMQ_PAIR, ZmqSocketOptions());
  if (!monitor.ok()) return monitor.status();
  inlet->monitor = *std::move(monitor);
  const std::string address = "inproc://monitor-" + std::to_string(++addresses_);
  if (zmq_socket_monitor(inlet->live.get(), address.c_str(),
                         ZMQ_EVENT_HANDSHAKE_SUCCEEDED | ZMQ_EVENT_DISCONNECTED) != 0) {
    return ZmqError("cannot watch the connection of '" + inlet->endpoint + "'");
  }
  if (Status status = inlet->monitor.Connect(address); !status.ok()) return status;
  for (const auto& publisher : inlet->publishers) {
    const std::string& topic = publisher->topic();
    zmq_setsockopt(inlet->live.get(), ZMQ_SUBSCRIBE, topic.data(), topic.size());
  }
  std::string endpoint = inlet->endpoint;
  Status status = inlet->bind ? inlet->live.Bind(&endpoint) : inlet->live.Connect(endpoint);
  if (!status.ok()) return status;
  for (const auto& publisher : inlet->publishers) publisher->Opened(endpoint);
  return Status();
}

void ZmqSubscriber::Impl::Close() {
  for (const auto& inlet : inlets_) {
    inlet->Close();
    for (const auto& publisher : inlet->publishers) publisher->Closed();
  }
  wake_receiver_.Close();
  wake_sender_.Close();
  opened_ = false;
}

// ---- The thread ---------------------------------------------------------------------------------

void ZmqSubscriber::Impl::Run() {
  thread_id_ = std::this_thread::get_id();
  while (RunTasks()) {
    try {
      Sweep();
      Round();
    } catch (const std::bad_alloc&) {  // numbers show what was missed
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
  }
}

// False: the thread is to end.
bool ZmqSubscriber::Impl::RunTasks() {
  std::unique_lock<std::mutex> lock(mutex_);
  while (!tasks_.empty()) {
    const std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    lock.lock();
  }
  return !stopping_;
}

void ZmqSubscriber::Impl::Round() {
  Greet(Now());
  // What is polled stays until the round ends, whatever the sink adds or removes.
  std::vector<zmq_pollitem_t> items = {{wake_receiver_.get(), 0, ZMQ_POLLIN, 0}};
  std::vector<std::pair<Inlet*, Publisher*>> owners = {{nullptr, nullptr}};
  double deadline_s = Now() + kMaxWaitS;
  for (const auto& inlet : inlets_) {
    items.push_back({inlet->live.get(), 0, ZMQ_POLLIN, 0});
    items.push_back({inlet->monitor.get(), 0, ZMQ_POLLIN, 0});
    owners.insert(owners.end(), 2, {inlet.get(), nullptr});
    for (const auto& publisher : inlet->publishers) {
      deadline_s = std::min(deadline_s, publisher->deadline_s());
      if (!publisher->replay_socket()) continue;
      items.push_back({publisher->replay_socket().get(), 0, ZMQ_POLLIN, 0});
      owners.emplace_back(inlet.get(), publisher.get());
    }
  }
  const double wait_ms = std::ceil(std::max(0.0, deadline_s - Now()) * 1000);
  zmq_poll(items.data(), static_cast<int>(items.size()), static_cast<long>(wait_ms));

  if (items[0].revents != 0) {
    while (context_.message.Receive(wake_receiver_)) {
    }
  }
  for (size_t i = 1; i < items.size(); ++i) {
    const auto [inlet, publisher] = owners[i];
    if (items[i].revents == 0) continue;
    inlet->changed = true;
    if (publisher != nullptr) {
      publisher->ReadReplay(items[i].socket, kTurn, Now());
    } else {
      ReadLive(inlet);
    }
  }
  const double now_s = Now();
  for (const auto& inlet : inlets_) {
    for (size_t i = 0; i < inlet->publishers.size(); ++i) {
      const std::shared_ptr<Publisher> publisher = inlet->publishers[i];
      if (publisher->deadline_s() <= now_s) {
        inlet->changed = true;
        publisher->OnTime(now_s);
      }
    }
    if (!std::exchange(inlet->changed, false)) continue;
    for (const auto& publisher : inlet->publishers) publisher->PublishStats();
  }
}

// Tells publishers that they are connected where no event will: those that share a socket, and
// those that came to one that is connected.
void ZmqSubscriber::Impl::Greet(double now_s) {
  for (size_t i = 0; i < inlets_.size(); ++i) {
    Inlet* inlet = inlets_[i].get();
    if (inlet->tells_connections() && (inlet->connections == 0 || inlet->connecting)) continue;
    for (size_t j = 0; j < inlet->publishers.size(); ++j) {
      if (inlet->publishers[j]->greeted()) continue;
      inlet->changed = true;
      inlet->publishers[j]->Connected(now_s);
    }
  }
}

void ZmqSubscriber::Impl::ReadMonitor(Inlet* inlet) {
  while (context_.message.Receive(inlet->monitor)) {
    const std::string_view frame = context_.message.frames()[0];
    uint16_t event = 0;
    if (frame.size() >= sizeof event) std::memcpy(&event, frame.data(), sizeof event);
    const bool connected = event == ZMQ_EVENT_HANDSHAKE_SUCCEEDED;
    inlet->connections = std::max(0, inlet->connections + (connected ? 1 : -1));
    if (!inlet->tells_connections()) continue;
    inlet->connecting = inlet->connections > 0 && (connected || inlet->connecting);
    for (const auto& publisher : inlet->publishers) {
      if (connected) {
        publisher->Connecting();
      } else if (inlet->connections == 0) {
        publisher->Disconnected();
      }
    }
  }
}

// Messages of a process that has ended may be followed by those of its successor at any place, and
// only the monitor tells. So it is asked before each message; what comes after a change is held by
// the stream; and when nothing is left, publishers are told that they are connected, which drops
// what was held and fetches it again.
void ZmqSubscriber::Impl::ReadLive(Inlet* inlet) {
  for (int turn = 0; turn < kTurn; ++turn) {
    ReadMonitor(inlet);
    if (!context_.message.Receive(inlet->live)) {
      if (!std::exchange(inlet->connecting, false)) return;
      for (size_t i = 0; i < inlet->publishers.size(); ++i) inlet->publishers[i]->Connected(Now());
      return;
    }
    const Result<KvFrames> frames = ParseKvLiveFrames(context_.message.frames());
    if (!frames.ok()) {
      inlet->publishers[0]->BadFrames(frames.status());
    } else if (Publisher* publisher = inlet->Find(frames->topic)) {
      publisher->Live(*frames, Now());
    }
  }
}

// ---- ZmqSubscriber ------------------------------------------------------------------------------

Result<std::unique_ptr<ZmqSubscriber>> ZmqSubscriber::Create(Sink sink,
                                                             const ZmqSubscriberOptions& options) {
  return Guard([&]() -> Result<std::unique_ptr<ZmqSubscriber>> {
    if (!sink) return Invalid("the sink is empty");
    if (Status status = Validate(options); !status.ok()) return status;
    void* zmq = zmq_ctx_new();
    if (zmq == nullptr) return ZmqError("cannot make a ZeroMQ context");
    zmq_ctx_set(zmq, ZMQ_MAX_SOCKETS, kMaxSockets);
    auto impl = std::make_unique<Impl>(zmq, std::move(sink), options);
    return std::unique_ptr<ZmqSubscriber>(new ZmqSubscriber(std::move(impl)));
  });
}

ZmqSubscriber::ZmqSubscriber(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ZmqSubscriber::~ZmqSubscriber() = default;

Result<uint64_t> ZmqSubscriber::Add(const ZmqSource& source) {
  return Guard([&] { return impl_->Add(source); });
}
Status ZmqSubscriber::Remove(uint64_t source) {
  return Guard([&] { return impl_->Remove(source); });
}
Status ZmqSubscriber::Start() {
  return Guard([&] { return impl_->Start(); });
}
Status ZmqSubscriber::Stop() {
  return Guard([&] { return impl_->Stop(); });
}
ZmqSubscriberStats ZmqSubscriber::Stats() const { return impl_->Stats(); }

}  // namespace prefixrouter
