// docs/kv_events.md: its code, run against an engine made of sockets, and its table of outcomes.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "prefixrouter/kv_event_stream.h"
#include "prefixrouter/prefix_router.h"
#include "prefixrouter/zmq_subscriber.h"
#include "tests/catch.h"
#include "tests/support/fleet.h"
#include "tests/zmq/fake_engine.h"
#include "tests/zmq/mirror.h"

namespace prefixrouter {
namespace {

// clang-format off
// Follows the events of an engine with one or more data-parallel ranks.
Result<uint64_t> FollowEngine(ZmqSubscriber& subscriber, const std::vector<InstanceId>& ranks,
                              const std::string& endpoint, const std::string& replay_endpoint) {
  ZmqSource source;
  source.endpoint = endpoint;                // "tcp://10.0.0.7:5557": rank 0
  source.replay_endpoint = replay_endpoint;  // "tcp://10.0.0.7:5558"
  source.instances = ranks;
  return subscriber.Add(source);
}

// For a page of the gateway's own: which engines are not followed as they should be.
void PrintTroubles(const ZmqSubscriber& subscriber) {
  for (const ZmqPublisherStats& publisher : subscriber.Stats().publishers) {
    const KvEventStreamStats& stream = publisher.stream;
    if (stream.connected && stream.complete && publisher.last_error.empty()) continue;
    std::printf("%s: %s, %llu behind, %llu lost, silent for %.1f s. %s\n",
                publisher.endpoint.c_str(), KvStreamStateName(stream.state),
                static_cast<unsigned long long>(stream.behind),
                static_cast<unsigned long long>(stream.lost), publisher.silent_s,
                publisher.last_error.c_str());
  }
}

// What the stream asks for, done. Returns the first number to fetch, if a replay is wanted.
std::optional<uint64_t> Obey(PrefixRouter& router, KvEventDecoder& decoder, KvEventStream& stream,
                             KvEventStream::Actions actions) {
  std::optional<uint64_t> fetch_from;
  bool removed = false;
  for (const KvStreamAction& action : actions) {
    if (action.kind == KvStreamActionKind::kFetch) {
      fetch_from = action.seq;  // pass on what comes with stream.fetch()
      continue;
    }
    KvEvent cleared;  // which is what an event is by default
    KvEventBatch batch;
    batch.events = {&cleared, 1};
    if (action.kind == KvStreamActionKind::kApply) {
      auto decoded = decoder.Decode(action.payload);
      if (!decoded.ok()) continue;  // count it: the message is damaged
      batch = **decoded;
    }
    auto result = router.ApplyKvEvents(stream.instance(), batch);
    removed |= result.ok() && result->counts[KvEventOutcome::kOldGeneration] > 0;
  }
  if (removed) stream.Retire();
  return fetch_from;
}
// clang-format on

std::string Message(double timestamp_s, const std::vector<uint64_t>& stored) {
  const std::vector<uint32_t> tokens(stored.size() * 16, 7);
  KvEvent event;
  event.kind = KvEventKind::kStored;
  event.block_ids = stored;
  event.block_size = 16;
  event.tokens = tokens;
  KvEventBatch batch;
  batch.timestamp_s = timestamp_s;
  batch.events = {&event, 1};
  return *EncodeKvEvents(batch, KvEventEncoding::kMaps);
}

}  // namespace

TEST_CASE("docs/kv_events.md: an engine is followed by the gateway's code") {
  testing::Fleet fleet(1);
  testing::FakeEngine engine({}, 1);
  auto subscriber = ZmqSubscriber::Create(&fleet.router());
  REQUIRE(subscriber.ok());
  REQUIRE(FollowEngine(**subscriber, {fleet[0]}, engine.endpoint(), engine.replay_endpoint()).ok());
  PrintTroubles(**subscriber);
  REQUIRE((*subscriber)->Start().ok());
  engine.Steps(50);
  CHECK(testing::Eventually([&] {
    for (const auto& [tokens, blocks] : engine.Prompts()) {
      if (fleet.CachedTokens(0, Request::FromTokens(tokens)) != blocks * 16) return false;
    }
    return true;
  }));
}

TEST_CASE("docs/kv_events.md: a stream is obeyed by the code for other transports") {
  testing::Fleet fleet(1);
  KvEventDecoder decoder;
  auto stream = KvEventStream::Create(fleet[0]);
  REQUIRE(stream.ok());
  const std::vector<uint32_t> prompt(64, 7);
  const auto cached = [&] { return fleet.CachedTokens(0, Request::FromTokens(prompt)); };
  const std::string first = Message(1, {1, 2});
  const std::string third = Message(3, {1, 2, 3, 4});

  CHECK_FALSE(Obey(fleet.router(), decoder, *stream, stream->Live(0, first, 0)));
  CHECK(cached() == 32);
  CHECK(Obey(fleet.router(), decoder, *stream, stream->Live(2, third, 0)) == 0);
  CHECK(cached() == 32);
  Obey(fleet.router(), decoder, *stream, stream->Replayed(stream->fetch(), 1, "damaged", 0));
  Obey(fleet.router(), decoder, *stream, stream->ReplayEnded(stream->fetch(), 0));
  CHECK(cached() == 64);

  REQUIRE(fleet.router().RemoveInstance(fleet[0]).ok());
  Obey(fleet.router(), decoder, *stream, stream->Live(3, third, 0));
  CHECK(stream->Stats().state == KvStreamState::kRetired);
}

TEST_CASE("docs/kv_events.md has every outcome, and no other") {
  std::ifstream file(PREFIX_ROUTER_KV_EVENTS_DOC);
  REQUIRE(file.is_open());
  const std::string doc(std::istreambuf_iterator<char>(file), {});
  const size_t begin = doc.find("| outcome |");
  REQUIRE(begin != std::string::npos);
  const std::string table = doc.substr(begin, doc.find("\n\n", begin) - begin);
  for (int i = 0; i < kKvEventOutcomeCount; ++i) {
    const std::string name = KvEventOutcomeName(static_cast<KvEventOutcome>(i));
    INFO(name);
    CHECK(table.find("\n| `" + name + "` | ") != std::string::npos);
  }
  // Two lines are the table's head.
  CHECK(std::count(table.begin(), table.end(), '\n') == kKvEventOutcomeCount + 1);
}

}  // namespace prefixrouter
