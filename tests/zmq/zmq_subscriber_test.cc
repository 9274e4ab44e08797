// ZmqSubscriber against engines made of real sockets (fake_engine.h), with all that engines and
// networks are known to do.
//
// The oracle is twofold (mirror.h): once an engine is quiet, exactly what it holds is held; and in
// every state before, nothing that it did not hold when it published the message applied last.
#include "prefixrouter/zmq_subscriber.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "prefixrouter/kv_event_frames.h"
#include "tests/catch.h"
#include "tests/support/fleet.h"
#include "tests/support/prompts.h"
#include "tests/zmq/fake_engine.h"
#include "tests/zmq/mirror.h"

namespace prefixrouter {
namespace {

using testing::BecomesEqual;
using testing::EngineKnobs;
using testing::Eventually;
using testing::FakeEngine;
using testing::Mirror;

constexpr InstanceId kInstance = InstanceId::Make(0, 1);

ZmqSubscriberOptions Quick() {
  ZmqSubscriberOptions options;
  options.reconnect_s = 0.01;
  options.max_reconnect_s = 0.02;
  options.replay_timeout_s = 2;
  options.stream.retry_delay_s = 0.01;
  return options;
}

std::unique_ptr<ZmqSubscriber> Make(ZmqSubscriber::Sink sink,
                                    const ZmqSubscriberOptions& options = Quick()) {
  auto subscriber = ZmqSubscriber::Create(std::move(sink), options);
  INFO(subscriber.status().ToString());
  REQUIRE(subscriber.ok());
  return *std::move(subscriber);
}

ZmqSource SourceOf(const FakeEngine& engine, InstanceId instance = kInstance) {
  ZmqSource source;
  source.endpoint = engine.endpoint();
  source.replay_endpoint = engine.replay_endpoint();
  source.instances = {instance};
  return source;
}

uint64_t Add(ZmqSubscriber& subscriber, const ZmqSource& source) {
  auto id = subscriber.Add(source);
  INFO(id.status().ToString());
  REQUIRE(id.ok());
  return *id;
}

void Start(ZmqSubscriber& subscriber) {
  const Status status = subscriber.Start();
  INFO(status.ToString());
  REQUIRE(status.ok());
}

// Its statistics, of a subscriber with one publisher.
ZmqPublisherStats StatsOf(const ZmqSubscriber& subscriber) {
  const ZmqSubscriberStats stats = subscriber.Stats();
  REQUIRE(stats.publishers.size() == 1);
  return stats.publishers[0];
}

bool IsConnected(const ZmqSubscriber& subscriber, size_t publisher = 0) {
  return Eventually([&] {
    const KvEventStreamStats stream = subscriber.Stats().publishers[publisher].stream;
    return stream.connected && stream.state == KvStreamState::kLive;
  });
}

// Steps of the engine until one has come through: where nothing tells that the connection is there.
bool StepsComeThrough(FakeEngine& engine, const Mirror& mirror, InstanceId instance = kInstance) {
  return Eventually([&] {
    engine.Step();
    for (int i = 0; i < 20 && mirror.last(instance) != engine.last(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return mirror.last(instance) == engine.last();
  });
}

// A free port on loopback, and `count - 1` behind it.
int FreePorts(int count) {
  static std::atomic<int> next{10000 + static_cast<int>(getpid()) * 16 % 20000};
  return next.fetch_add(count);
}

std::string Loopback(int port) { return "tcp://127.0.0.1:" + std::to_string(port); }

// An engine and a subscriber with a mirror, from before the engine's first step until it is quiet.
struct Follower {
  explicit Follower(const EngineKnobs& knobs, uint64_t seed = testing::TestSeed(1),
                    const ZmqSubscriberOptions& options = Quick())
      : engine(knobs, seed), subscriber(Make(mirror.Sink(), options)) {
    mirror.Watch(kInstance, &engine);
    ZmqSource source = SourceOf(engine);
    if (knobs.unnumbered) source.replay_endpoint.clear();
    source.bind = knobs.dials;
    Add(*subscriber, source);
    Start(*subscriber);
  }
  ~Follower() { subscriber.reset(); }  // before the mirror

  Mirror mirror;
  FakeEngine engine;
  std::unique_ptr<ZmqSubscriber> subscriber;
};

}  // namespace

TEST_CASE("zmq: what an engine published before and after the connection is held exactly") {
  Mirror mirror;
  FakeEngine engine({}, testing::TestSeed(1));
  engine.Steps(50);
  mirror.Watch(kInstance, &engine);
  auto subscriber = Make(mirror.Sink());
  Add(*subscriber, SourceOf(engine));
  CHECK_FALSE(subscriber->Stats().running);
  Start(*subscriber);
  CHECK(subscriber->Stats().running);
  // An idle engine: only its replay tells.
  CHECK(BecomesEqual(mirror, kInstance, engine));
  engine.Steps(50);
  CHECK(BecomesEqual(mirror, kInstance, engine));
  CHECK(mirror.false_blocks() == 0);

  REQUIRE(Eventually([&] { return StatsOf(*subscriber).stream.last_applied == 101; }));
  REQUIRE(IsConnected(*subscriber));
  const ZmqPublisherStats stats = StatsOf(*subscriber);
  CHECK(stats.stream.complete);
  CHECK(stats.stream.behind == 0);
  CHECK(stats.endpoint == engine.endpoint());
  CHECK(stats.connects == 1);
  CHECK(stats.messages >= 102);
  CHECK(stats.bytes > 0);
  CHECK(stats.silent_s >= 0);
  CHECK(stats.silent_s < 10);
  CHECK(stats.lag_s > 0);
  CHECK(stats.last_error == "");
  CHECK(stats.bad_frames + stats.undecodable + stats.refused == 0);
}

TEST_CASE("zmq: every encoding, framing, topic and first number, with messages dropped") {
  EngineKnobs knobs;
  knobs.drop_every = 7;
  knobs.copies = 0.1;
  SECTION("arrays, old framing") { knobs.encoding = KvEventEncoding::kArrays; }
  SECTION("short arrays") { knobs.encoding = KvEventEncoding::kArraysShort; }
  SECTION("maps, new framing, topic, from 1") {
    knobs.new_framing = true;
    knobs.topic = "kv@127.0.0.1:8000@org/model@1";
    knobs.first_seq = 1;
  }
  SECTION("numbers as bytes, topic without a port") {
    knobs.bytes_ids = true;
    knobs.topic = "kv@127.0.0.1@org/model";
  }
  SECTION("SGLang's arrays, its topic") {
    knobs.encoding = KvEventEncoding::kSglangArrays;
    knobs.topic = "kv-events";
  }
  SECTION("blocks of 64, offloaded, removed one by one") {
    knobs.block_size = 64;
    knobs.offload = true;
    knobs.one_by_one = true;
  }
  SECTION("blocks of 1, children left behind, late clears") {
    knobs.block_size = 1;
    knobs.orphans = true;
    knobs.late_clear = 0.03;
  }
  Follower follower(knobs);
  REQUIRE(IsConnected(*follower.subscriber));
  follower.engine.Steps(200);
  CHECK(BecomesEqual(follower.mirror, kInstance, follower.engine));
  CHECK(follower.mirror.false_blocks() == 0);
  CHECK(Eventually([&] { return StatsOf(*follower.subscriber).stream.complete; }));
  const KvEventStreamStats stream = StatsOf(*follower.subscriber).stream;
  CHECK(stream.replays > 1);
  CHECK(stream.applied_replay > 0);
  CHECK(stream.lost == 0);
  CHECK(stream.restarts == 0);
}

TEST_CASE("zmq: an engine that restarts is cleared and followed again") {
  EngineKnobs knobs;
  knobs.drop_every = 5;
  Follower follower(knobs);
  for (int process = 0; process < 4; ++process) {
    follower.engine.Steps(20 + 10 * (process % 2));
    // The last one is caught in the middle.
    if (process != 2) {
      CHECK(BecomesEqual(follower.mirror, kInstance, follower.engine));
    }
    if (process == 3) break;
    follower.engine.Stop();
    follower.engine.Start();
  }
  CHECK(follower.mirror.false_blocks() == 0);
  CHECK(Eventually([&] { return StatsOf(*follower.subscriber).stream.complete; }));
  CHECK(StatsOf(*follower.subscriber).stream.restarts >= 2);
  CHECK(StatsOf(*follower.subscriber).connects >= 3);
}

TEST_CASE("zmq: without a replay source restarts clear, and gaps lose what came before") {
  EngineKnobs knobs;
  Mirror mirror;
  FakeEngine engine(knobs, testing::TestSeed(1));
  mirror.Watch(kInstance, &engine);
  auto subscriber = Make(mirror.Sink());
  ZmqSource source = SourceOf(engine);
  source.replay_endpoint.clear();
  Add(*subscriber, source);
  Start(*subscriber);
  REQUIRE(StepsComeThrough(engine, mirror));
  engine.Steps(100);  // more than the next process will have published when it is heard
  REQUIRE(Eventually([&] { return mirror.last(kInstance) == engine.last(); }));
  engine.Stop();
  engine.Start();
  REQUIRE(StepsComeThrough(engine, mirror));
  CHECK(Eventually([&] { return StatsOf(*subscriber).stream.restarts == 1; }));
  CHECK(engine.replays() == 0);
  CHECK(mirror.false_blocks() == 0);
}

TEST_CASE(
    "zmq: a history that is shorter than the gap is counted as lost, and leaves no false block") {
  EngineKnobs knobs;
  knobs.history = 10;
  Follower follower(knobs);
  REQUIRE(IsConnected(*follower.subscriber));
  follower.engine.Steps(20);
  REQUIRE(BecomesEqual(follower.mirror, kInstance, follower.engine));
  REQUIRE(follower.subscriber->Stop().ok());
  follower.engine.Steps(100);
  Start(*follower.subscriber);
  CHECK(Eventually([&] { return follower.mirror.last(kInstance) == follower.engine.last(); }));
  CHECK(Eventually([&] { return StatsOf(*follower.subscriber).stream.lost == 91; }));
  CHECK(follower.mirror.false_blocks() == 0);
  CHECK_FALSE(StatsOf(*follower.subscriber).stream.complete);
}

TEST_CASE("zmq: what was missed while the subscriber was stopped is fetched") {
  Follower follower({});
  follower.engine.Steps(30);
  REQUIRE(BecomesEqual(follower.mirror, kInstance, follower.engine));
  for (int i = 0; i < 3; ++i) {
    REQUIRE(follower.subscriber->Stop().ok());
    CHECK_FALSE(follower.subscriber->Stats().running);
    follower.engine.Steps(30);
    Start(*follower.subscriber);
    CHECK(BecomesEqual(follower.mirror, kInstance, follower.engine));
  }
  CHECK(Eventually([&] { return StatsOf(*follower.subscriber).stream.applied == 124; }));
  CHECK(StatsOf(*follower.subscriber).stream.clears == 1);
}

TEST_CASE("zmq: a long history comes whole, though its sender drops what a socket cannot take") {
  EngineKnobs knobs;
  knobs.capacity = 20;
  Mirror mirror;
  FakeEngine engine(knobs, testing::TestSeed(1));
  engine.Steps(3000);
  mirror.Watch(kInstance, &engine);
  auto options = Quick();
  options.receive_high_water_mark = 100;
  options.replay_timeout_s = 0.1;  // the end is dropped too
  auto subscriber = Make(mirror.Sink(), options);
  Add(*subscriber, SourceOf(engine));
  Start(*subscriber);
  CHECK(BecomesEqual(mirror, kInstance, engine));
  CHECK(mirror.false_blocks() == 0);
  CHECK(Eventually([&] { return StatsOf(*subscriber).stream.applied == 3001; }));
}

TEST_CASE("zmq: an engine that dials a subscriber that listens") {
  const int port = FreePorts(1);
  EngineKnobs knobs;
  knobs.dials = true;
  knobs.drop_every = 6;
  knobs.endpoint = Loopback(port);
  Follower follower(knobs);
  REQUIRE(IsConnected(*follower.subscriber));
  follower.engine.Steps(50);
  CHECK(BecomesEqual(follower.mirror, kInstance, follower.engine));
  follower.engine.Stop();
  follower.engine.Start();
  follower.engine.Steps(50);
  CHECK(BecomesEqual(follower.mirror, kInstance, follower.engine));
  CHECK(follower.mirror.false_blocks() == 0);
}

TEST_CASE("zmq: engines that dial one address are told apart by their topics") {
  const std::string endpoint = Loopback(FreePorts(1));
  Mirror mirror;
  auto subscriber = Make(mirror.Sink());
  Start(*subscriber);
  std::vector<std::unique_ptr<FakeEngine>> engines;
  for (int i = 0; i < 3; ++i) {
    EngineKnobs knobs;
    knobs.dials = true;
    knobs.drop_every = 6;
    knobs.endpoint = endpoint;
    knobs.topic = "kv@10.0.0." + std::to_string(i == 2 ? 10 : i) + "@m";  // 10.0.0.1 begins another
    engines.push_back(std::make_unique<FakeEngine>(knobs, testing::TestSeed(1) + i));
    const InstanceId instance = InstanceId::Make(i, 1);
    mirror.Watch(instance, engines.back().get());
    ZmqSource source = SourceOf(*engines.back(), instance);
    source.bind = true;
    source.topic = knobs.topic;
    Add(*subscriber, source);
    source.replay_endpoint.clear();
    CHECK(subscriber->Add(source).status().code() == StatusCode::kAlreadyExists);
  }
  // Without events of connections the first steps may be missed, and show with the next.
  for (int i = 0; i < 3; ++i) {
    FakeEngine& engine = *engines[i];
    CHECK(Eventually([&] {
      engine.Steps(20);
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      return mirror.held(InstanceId::Make(i, 1)) == engine.held();
    }));
  }
  CHECK(mirror.false_blocks() == 0);
  CHECK(subscriber->Stats().publishers.size() == 3);
}

TEST_CASE("zmq: the ranks of an engine publish at ports that count up") {
  constexpr int kRanks = 3;
  const int port = FreePorts(kRanks);
  const int replay_port = FreePorts(kRanks);
  Mirror mirror;
  std::vector<std::unique_ptr<FakeEngine>> engines;
  ZmqSource source;
  source.endpoint = Loopback(port);
  source.replay_endpoint = Loopback(replay_port);
  for (int rank = 0; rank < kRanks; ++rank) {
    EngineKnobs knobs;
    knobs.rank = rank;
    knobs.drop_every = 5;
    knobs.endpoint = Loopback(port + rank);
    knobs.replay_endpoint = Loopback(replay_port + rank);
    engines.push_back(std::make_unique<FakeEngine>(knobs, testing::TestSeed(1) + rank));
    source.instances.push_back(InstanceId::Make(rank, 1));
    mirror.Watch(source.instances.back(), engines.back().get());
  }
  auto subscriber = Make(mirror.Sink());
  const uint64_t id = Add(*subscriber, source);
  Start(*subscriber);
  for (auto& engine : engines) engine->Steps(60);
  for (int rank = 0; rank < kRanks; ++rank) {
    CHECK(BecomesEqual(mirror, source.instances[rank], *engines[rank]));
  }
  CHECK(mirror.false_blocks() == 0);
  const ZmqSubscriberStats stats = subscriber->Stats();
  REQUIRE(stats.publishers.size() == kRanks);
  for (uint32_t rank = 0; rank < kRanks; ++rank) {
    CHECK(stats.publishers[rank].source == id);
    CHECK(stats.publishers[rank].rank == rank);
    CHECK(stats.publishers[rank].endpoint == Loopback(port + static_cast<int>(rank)));
  }
}

TEST_CASE("zmq: a rank in the message counts where there is an instance for it") {
  EngineKnobs knobs;
  knobs.rank = 1;
  const int port = FreePorts(2);
  knobs.endpoint = Loopback(port);
  Mirror mirror;
  FakeEngine engine(knobs, testing::TestSeed(1));
  ZmqSource source = SourceOf(engine);
  source.replay_endpoint = Loopback(FreePorts(2));  // nobody is there
  source.instances = {InstanceId::Make(0, 1), InstanceId::Make(1, 1)};
  auto options = Quick();
  options.stream.replay_attempts = 1;
  options.replay_timeout_s = 0.05;
  auto subscriber = Make(mirror.Sink(), options);
  Add(*subscriber, source);
  Start(*subscriber);
  CHECK(StepsComeThrough(engine, mirror, source.instances[1]));
  CHECK(mirror.last(source.instances[0]) == -1);
  engine.Steps(100);  // more than the next process will have published when it is heard
  REQUIRE(Eventually([&] { return mirror.last(source.instances[1]) == engine.last(); }));
  // A restart clears what the messages have named.
  engine.Stop();
  engine.Start();
  mirror.Watch(source.instances[1], &engine);
  CHECK(Eventually([&] {
    engine.Step();
    const FakeEngine::Held truth = engine.held();
    const FakeEngine::Held held = mirror.held(source.instances[1]);
    return !held.empty() && std::all_of(held.begin(), held.end(), [&](const auto& block) {
      return truth.count(block.first) == 1;
    });
  }));
}

TEST_CASE("zmq: sockets of files, and addresses of IPv6") {
  EngineKnobs knobs;
  const std::string name = "/tmp/prefixrouter-" + std::to_string(getpid());
  SECTION("ipc") {
    knobs.endpoint = "ipc://" + name + "-live";
    knobs.replay_endpoint = "ipc://" + name + "-replay";
  }
  SECTION("IPv6") {
    knobs.endpoint = "tcp://[::1]:*";
    knobs.replay_endpoint = "tcp://[::1]:*";
    void* context = zmq_ctx_new();
    ZmqSocketOptions options;
    options.ipv6 = true;
    std::string endpoint = knobs.endpoint;
    const bool available = ZmqSocket::Open(context, ZMQ_PUB, options)->Bind(&endpoint).ok();
    zmq_ctx_term(context);
    if (!available) {
      WARN("this machine has no IPv6");
      return;
    }
  }
  {
    Follower follower(knobs);
    follower.engine.Steps(20);
    CHECK(BecomesEqual(follower.mirror, kInstance, follower.engine));
  }
  unlink((name + "-live").c_str());
  unlink((name + "-replay").c_str());
}

TEST_CASE("zmq: messages without numbers are followed as they come") {
  EngineKnobs knobs;
  knobs.unnumbered = true;
  Follower follower(knobs);
  REQUIRE(StepsComeThrough(follower.engine, follower.mirror));
  CHECK(Eventually([&] { return StatsOf(*follower.subscriber).stream.unnumbered > 0; }));
  follower.engine.Stop();
  follower.engine.Start();
  CHECK(StepsComeThrough(follower.engine, follower.mirror));
  CHECK(follower.mirror.false_blocks() == 0);
}

TEST_CASE("zmq: what is no message is counted, and the next one is applied") {
  Follower follower({});
  REQUIRE(IsConnected(*follower.subscriber));
  follower.engine.Send({"", "1234567", "payload"});  // 7 bytes
  follower.engine.Send({"only one frame"});
  follower.engine.Send(std::vector<std::string>(9, "x"));
  follower.engine.Send({"", KvSeqFrame(0), "\xc1 is never msgpack"});
  follower.engine.Send({"", std::string(8, '\xff'), ""});  // the end of a replay
  CHECK(Eventually([&] {
    const ZmqPublisherStats stats = StatsOf(*follower.subscriber);
    return stats.bad_frames == 4 && stats.undecodable == 1 && !stats.last_error.empty();
  }));
  follower.engine.Steps(10);  // 0 again, of another process
  CHECK(BecomesEqual(follower.mirror, kInstance, follower.engine));
}

TEST_CASE("zmq: a replay socket that does not answer is given up, and live messages go on") {
  EngineKnobs knobs;
  knobs.answers = false;
  auto options = Quick();
  options.replay_timeout_s = 0.05;
  options.stream.replay_attempts = 2;
  Follower follower(knobs, 1, options);
  REQUIRE(Eventually(
      [&] { return StatsOf(*follower.subscriber).stream.state == KvStreamState::kLive; }));
  CHECK(StatsOf(*follower.subscriber).stream.replays_failed == 2);
  CHECK(StatsOf(*follower.subscriber).last_error ==
        "replay from '" + follower.engine.replay_endpoint() + "' timed out");
  follower.engine.Steps(10);
  CHECK(Eventually([&] { return follower.mirror.last(kInstance) == follower.engine.last(); }));
  CHECK(follower.mirror.false_blocks() == 0);
}

TEST_CASE("zmq: sources come and go while the thread runs") {
  Mirror mirror;
  auto subscriber = Make(mirror.Sink());
  Start(*subscriber);
  FakeEngine first({}, 1);
  FakeEngine second({}, 2);
  const InstanceId other = InstanceId::Make(1, 1);
  const uint64_t id = Add(*subscriber, SourceOf(first));
  Add(*subscriber, SourceOf(second, other));
  first.Steps(20);
  second.Steps(20);
  CHECK(BecomesEqual(mirror, kInstance, first));
  CHECK(BecomesEqual(mirror, other, second));

  REQUIRE(subscriber->Remove(id).ok());
  const uint64_t batches = mirror.batches(kInstance);
  first.Steps(20);
  second.Steps(20);
  CHECK(BecomesEqual(mirror, other, second));
  CHECK(mirror.batches(kInstance) == batches);
  CHECK(subscriber->Stats().publishers.size() == 1);
  CHECK(subscriber->Remove(id).code() == StatusCode::kNotFound);
  CHECK(subscriber->Remove(id).message() == "no source has the number " + std::to_string(id));

  // An instance that was added again; the engine is the same.
  const InstanceId again = InstanceId::Make(0, 2);
  Add(*subscriber, SourceOf(first, again));
  CHECK(BecomesEqual(mirror, again, first));
}

TEST_CASE("zmq: a router matches what the engine holds, once it is quiet") {
  testing::Fleet fleet(1);
  EngineKnobs knobs;
  knobs.drop_every = 7;
  knobs.offload = true;
  SECTION("blocks of the router's size") { knobs.block_size = 16; }
  SECTION("blocks of four times the router's size") { knobs.block_size = 64; }
  FakeEngine engine(knobs, testing::TestSeed(1));
  auto subscriber = *ZmqSubscriber::Create(&fleet.router(), Quick());
  Add(*subscriber, SourceOf(engine, fleet[0]));
  Start(*subscriber);
  const auto matches = [&](size_t instance) {
    for (const auto& [tokens, blocks] : engine.Prompts()) {
      const uint64_t cached = fleet.CachedTokens(instance, Request::FromTokens(tokens));
      if (cached != blocks * knobs.block_size) return false;
    }
    return true;
  };
  for (int process = 0; process < 3; ++process) {
    engine.Steps(100);
    CHECK(Eventually([&] { return matches(0); }));
    engine.Stop();
    engine.Start();
  }
  engine.Steps(100);
  CHECK(Eventually([&] { return matches(0); }));
  size_t held = 0;
  for (const auto& [tokens, blocks] : engine.Prompts()) held += blocks;
  CHECK(held > 0);

  // Removed, and added again: events for the old one do nothing, and the new one gets all of them.
  REQUIRE(fleet.router().RemoveInstance(fleet[0]).ok());
  engine.Steps(10);
  CHECK(Eventually([&] { return StatsOf(*subscriber).stream.state == KvStreamState::kRetired; }));
  const size_t again = fleet.Add();
  REQUIRE(subscriber->Remove(StatsOf(*subscriber).source).ok());
  Add(*subscriber, SourceOf(engine, fleet[again]));
  CHECK(Eventually([&] { return matches(again); }));
}

TEST_CASE("zmq: case 56: an instance that the router does not know any more gets nothing") {
  FakeEngine engine({}, 1);
  std::atomic<int> calls{0};
  auto subscriber = Make([&](InstanceId, const KvEventBatch&) {
    return ++calls < 5 ? Status() : Status(StatusCode::kNotFound, "no such instance");
  });
  Add(*subscriber, SourceOf(engine));
  Start(*subscriber);
  engine.Steps(50);
  REQUIRE(Eventually([&] { return StatsOf(*subscriber).stream.state == KvStreamState::kRetired; }));
  engine.Steps(50);
  REQUIRE(Eventually([&] {
    engine.Step();
    return StatsOf(*subscriber).stream.ignored > 10;
  }));
  CHECK(calls == 5);
  CHECK(StatsOf(*subscriber).refused == 1);
  CHECK(StatsOf(*subscriber).last_error == "no such instance");
}

TEST_CASE("zmq: a sink may throw, and may call what it likes but Start and Stop") {
  FakeEngine engine({}, 1);
  FakeEngine second({}, 2);
  ZmqSubscriber* self = nullptr;
  std::atomic<int> calls{0};
  std::atomic<int> of_second{0};
  std::atomic<bool> refused{false};
  std::atomic<uint64_t> own{0};
  auto subscriber = Make([&](InstanceId instance, const KvEventBatch&) -> Status {
    if (instance != kInstance) {
      ++of_second;
      return Status();
    }
    switch (++calls) {
      case 2:
        throw std::runtime_error("thrown by the sink");
      case 3:
        refused = self->Stop().code() == StatusCode::kFailedPrecondition &&
                  self->Start().code() == StatusCode::kFailedPrecondition && self->Stats().running;
        break;
      case 4:
        (void)self->Add(SourceOf(second, InstanceId::Make(1, 1)));
        break;
      case 5:
        (void)self->Remove(own);
        break;
      default:
        break;
    }
    return Status();
  });
  self = subscriber.get();
  own = Add(*subscriber, SourceOf(engine));
  engine.Steps(20);
  second.Steps(20);
  Start(*subscriber);
  REQUIRE(Eventually([&] { return of_second >= 21; }));
  CHECK(calls == 5);
  CHECK(refused);
  CHECK(subscriber->Stats().publishers.size() == 1);  // the second one
}

TEST_CASE("zmq: sources that cannot be are refused by name") {
  auto subscriber = Make([](InstanceId, const KvEventBatch&) { return Status(); });
  const auto message = [&](const std::string& endpoint, const std::string& replay = "",
                           size_t ranks = 1, bool bind = false) {
    ZmqSource source;
    source.endpoint = endpoint;
    source.replay_endpoint = replay;
    source.bind = bind;
    source.instances.assign(ranks, kInstance);
    auto id = subscriber->Add(source);
    CHECK(id.status().code() == StatusCode::kInvalidArgument);
    return id.status().message();
  };
  const std::string neither = "' is neither tcp://host:port nor ipc://path";
  for (const char* endpoint : {"", "127.0.0.1:5557", "tcp://", "tcp://host", "ipc://", "inproc://x",
                               "udp://127.0.0.1:1", "tcp://:5557"}) {
    CHECK(message(endpoint) == "ZmqSource::endpoint '" + std::string(endpoint) + neither);
  }
  for (const char* endpoint : {"tcp://a:", "tcp://a:x", "tcp://a:65536", "tcp://a:-1"}) {
    CHECK(message(endpoint) ==
          "ZmqSource::endpoint '" + std::string(endpoint) + "' has no port from 1 to 65535");
  }
  CHECK(message("tcp://a:0") == "ZmqSource::endpoint 'tcp://a:0' has no port to connect to");
  CHECK(message("tcp://*:5557") == "ZmqSource::endpoint 'tcp://*:5557' has no host to connect to");
  CHECK(message("tcp://a:1", "tcp://a") == "ZmqSource::replay_endpoint 'tcp://a" + neither);
  CHECK(message("tcp://a:65535", "", 2) ==
        "ZmqSource::endpoint 'tcp://a:65535' has no ports up to 65535 for 2 ranks");
  CHECK(message("ipc:///tmp/x", "", 2) ==
        "ZmqSource::endpoint 'ipc:///tmp/x' has no port to count up for 2 ranks");
  CHECK(message("tcp://a:*", "", 2, true) ==
        "ZmqSource::endpoint 'tcp://a:*' has no port to count up for 2 ranks");
  CHECK(message("tcp://a:1", "", 0) == "ZmqSource::instances is empty");
  ZmqSource source;
  source.endpoint = "tcp://a:1";
  source.instances = {InstanceId()};
  CHECK(subscriber->Add(source).status().message() ==
        "ZmqSource::instances has an instance of value 0");
}

TEST_CASE("zmq: an address in use is an error of Start, or of Add while it runs") {
  FakeEngine engine({}, 1);  // has the address
  ZmqSource source = SourceOf(engine);
  source.bind = true;
  auto subscriber = Make([](InstanceId, const KvEventBatch&) { return Status(); });
  const uint64_t id = Add(*subscriber, source);
  const Status started = subscriber->Start();
  CHECK(started.code() == StatusCode::kAlreadyExists);
  CHECK(started.message() ==
        "cannot listen at '" + engine.endpoint() + "': Address already in use");
  CHECK_FALSE(subscriber->Stats().running);
  REQUIRE(subscriber->Remove(id).ok());
  Start(*subscriber);
  CHECK(subscriber->Start().code() == StatusCode::kFailedPrecondition);
  CHECK(subscriber->Add(source).status().code() == StatusCode::kAlreadyExists);
  CHECK(subscriber->Stats().publishers.empty());
  source.bind = false;
  Add(*subscriber, source);
  CHECK(subscriber->Add(source).status().code() == StatusCode::kAlreadyExists);
}

TEST_CASE("zmq: options out of their range are named") {
  const auto message = [](auto change) {
    ZmqSubscriberOptions options;
    change(options);
    auto subscriber =
        ZmqSubscriber::Create([](InstanceId, const KvEventBatch&) { return Status(); }, options);
    CHECK(subscriber.status().code() == StatusCode::kInvalidArgument);
    return subscriber.status().message();
  };
  CHECK(message([](auto& o) { o.replay_timeout_s = 0; }) ==
        "ZmqSubscriberOptions::replay_timeout_s is 0.000000, not in 0.001 to 3600");
  CHECK(message([](auto& o) { o.reconnect_s = -1; }) ==
        "ZmqSubscriberOptions::reconnect_s is -1.000000, not in 0.001 to 3600");
  CHECK(message([](auto& o) { o.max_reconnect_s = NAN; }).find("max_reconnect_s") !=
        std::string::npos);
  CHECK(message([](auto& o) { o.max_reconnect_s = 0.05; }) ==
        "ZmqSubscriberOptions::max_reconnect_s is 0.050000, below reconnect_s");
  CHECK(message([](auto& o) { o.receive_high_water_mark = 0; }) ==
        "ZmqSubscriberOptions::receive_high_water_mark is 0, not in 1 to 2^31 - 1");
  CHECK(message([](auto& o) { o.max_message_bytes = 0; }) ==
        "ZmqSubscriberOptions::max_message_bytes is 0, not in 1 to 2^40");
  CHECK(message([](auto& o) { o.stream.replay_attempts = 0; }).find("replay_attempts") !=
        std::string::npos);
  CHECK(ZmqSubscriber::Create(ZmqSubscriber::Sink()).status().message() == "the sink is empty");
}

TEST_CASE("zmq: subscribers come and go, and stop at once") {
  FakeEngine engine({}, 1);
  for (int i = 0; i < 50; ++i) {
    auto subscriber = Make([](InstanceId, const KvEventBatch&) { return Status(); });
    CHECK(subscriber->Stop().ok());
    Add(*subscriber, SourceOf(engine));
    Start(*subscriber);
    engine.Step();
    if (i % 2 == 0) {
      CHECK(subscriber->Stop().ok());
      CHECK(subscriber->Stop().ok());
    }
  }
}

TEST_CASE("zmq: calls from many threads, while engines publish, drop and restart") {
  constexpr int kEngines = 4;
  Mirror mirror;
  auto subscriber = Make(mirror.Sink());
  Start(*subscriber);
  std::vector<std::unique_ptr<FakeEngine>> engines;
  for (int i = 0; i < kEngines; ++i) {
    EngineKnobs knobs;
    knobs.drop_every = 4 + i;
    knobs.offload = i % 2 == 0;
    knobs.copies = 0.1;
    engines.push_back(std::make_unique<FakeEngine>(knobs, testing::TestSeed(1) + i));
    mirror.Watch(InstanceId::Make(i, 1), engines.back().get());
  }
  std::vector<std::thread> threads;
  for (int i = 0; i < kEngines; ++i) {
    threads.emplace_back([&, i] {
      FakeEngine& engine = *engines[i];
      uint64_t id = *subscriber->Add(SourceOf(engine, InstanceId::Make(i, 1)));
      for (int round = 0; round < 6; ++round) {
        engine.Steps(30);
        if (round % 3 == 1) {
          engine.Stop();
          engine.Start();
        }
        if (round % 3 == 2) {
          (void)subscriber->Remove(id);
          id = *subscriber->Add(SourceOf(engine, InstanceId::Make(i, 1)));
        }
      }
      engine.Steps(30);
    });
  }
  std::atomic<bool> done{false};
  std::thread watcher([&] {
    while (!done) {
      (void)subscriber->Stats();
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  std::thread stopper([&] {
    for (int i = 0; i < 5; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      (void)subscriber->Stop();
      (void)subscriber->Start();
    }
  });
  for (std::thread& thread : threads) thread.join();
  stopper.join();
  done = true;
  watcher.join();
  CHECK(subscriber->Stats().running);
  for (int i = 0; i < kEngines; ++i) {
    CAPTURE(i);
    CHECK(BecomesEqual(mirror, InstanceId::Make(i, 1), *engines[i]));
  }
  CHECK(mirror.false_blocks() == 0);
}

}  // namespace prefixrouter
