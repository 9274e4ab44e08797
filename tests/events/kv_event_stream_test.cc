// KvEventStream: each row of its state table, the bounds, and random runs against an engine model.
//
// What a stream asks for is written as a word an action: "clear", "apply 3", "fetch 2 from 57".
#include "prefixrouter/kv_event_stream.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"

namespace prefixrouter {
namespace {

constexpr InstanceId kInstance = InstanceId::Make(3, 1);
using Words = std::vector<std::string>;

Words InWords(KvEventStream::Actions actions) {
  Words words;
  for (const KvStreamAction& action : actions) {
    const std::string seq = std::to_string(action.seq);
    switch (action.kind) {
      case KvStreamActionKind::kApply:
        words.push_back("apply " + (action.has_seq ? seq : std::string(action.payload)));
        break;
      case KvStreamActionKind::kClear:
        words.push_back("clear");
        break;
      case KvStreamActionKind::kFetch:
        words.push_back("fetch " + std::to_string(action.fetch) + " from " + seq);
        break;
    }
  }
  return words;
}

KvEventStream Make(const KvEventStreamOptions& options = {}) {
  Result<KvEventStream> stream = KvEventStream::Create(kInstance, options);
  REQUIRE(stream.ok());
  return *std::move(stream);
}

KvEventStreamOptions WithoutReplay() {
  KvEventStreamOptions options;
  options.has_replay = false;
  return options;
}

// The message of this number. Another process of the engine sends other payloads.
std::string Payload(uint64_t seq, int process = 0) {
  return "payload " + std::to_string(seq) + " of " + std::to_string(process);
}

// A stream with the shorter calls that the tests need.
class Driver {
 public:
  explicit Driver(const KvEventStreamOptions& options = {}) : stream(Make(options)) {}

  Words Live(uint64_t seq, int process = 0) {
    return InWords(stream.Live(seq, Payload(seq, process), now += 1));
  }
  Words Replayed(uint64_t seq, int process = 0) {
    return InWords(stream.Replayed(stream.fetch(), seq, Payload(seq, process), now += 1));
  }
  Words Ended() { return InWords(stream.ReplayEnded(stream.fetch(), now += 1)); }
  Words Failed() { return InWords(stream.ReplayFailed(stream.fetch(), now += 1)); }
  Words Connected() { return InWords(stream.Connected(now += 1)); }
  // Live messages 0 to `last`.
  void Follow(uint64_t last) {
    for (uint64_t seq = 0; seq <= last; ++seq) Live(seq);
    CHECK(stats().last_applied == last);
    CHECK(stats().state == KvStreamState::kLive);
  }
  KvEventStreamStats stats() const { return stream.Stats(); }

  KvEventStream stream;
  double now = 100;
};

}  // namespace

// ---- Rows of the table --------------------------------------------------------------------------

TEST_CASE("a stream that sees a publisher begin clears once and applies in order") {
  Driver driver;
  CHECK(driver.stats().state == KvStreamState::kWaiting);
  CHECK(driver.Live(0) == Words{"clear", "apply 0"});
  CHECK(driver.Live(1) == Words{"apply 1"});
  CHECK(driver.Live(2) == Words{"apply 2"});
  const KvEventStreamStats stats = driver.stats();
  CHECK(stats.state == KvStreamState::kLive);
  CHECK(stats.complete);
  CHECK(stats.last_applied == 2);
  CHECK(stats.applied == 3);
  CHECK(stats.clears == 1);
  CHECK(stats.replays == 0);
  CHECK(stats.last_live_s == 103);
  CHECK(stats.last_applied_s == 103);
}

TEST_CASE(
    "an applied payload is the caller's own memory, and a held one lasts until the next call") {
  KvEventStream stream = Make();
  const std::string first = "first";
  auto actions = stream.Live(0, first, 0);
  REQUIRE(actions.size() == 2);
  CHECK(actions[1].payload.data() == first.data());
  {
    const std::string gone(1000, 'x');
    stream.Live(2, gone, 0);
  }
  stream.Replayed(stream.fetch(), 1, "second", 0);
  actions = stream.ReplayEnded(stream.fetch(), 0);
  REQUIRE(actions.size() == 1);
  CHECK(actions[0].payload == std::string(1000, 'x'));
}

TEST_CASE("case 42: after seq 1, 2, 4 a replay fills the gap, and live events wait for it") {
  Driver driver;
  // This publisher counts from 1.
  CHECK(driver.Live(1) == Words{"fetch 1 from 0"});
  CHECK(driver.Replayed(1) == Words{"clear", "apply 1"});
  CHECK(driver.Ended() == Words{});
  CHECK(driver.stats().complete);
  CHECK(driver.Live(2) == Words{"apply 2"});

  CHECK(driver.Live(4) == Words{"fetch 2 from 2"});
  CHECK(driver.stats().gaps == 1);
  CHECK(driver.stats().state == KvStreamState::kReplaying);
  CHECK_FALSE(driver.stats().complete);
  CHECK(driver.stats().behind == 2);
  CHECK(driver.Live(5) == Words{});
  CHECK(driver.Live(6) == Words{});
  CHECK(driver.stats().held == 3);
  CHECK(driver.Replayed(2) == Words{});
  CHECK(driver.Replayed(3) == Words{"apply 3"});
  CHECK(driver.Replayed(4) == Words{"apply 4"});
  CHECK(driver.stats().held == 2);
  CHECK(driver.Ended() == Words{"apply 5", "apply 6"});
  CHECK(driver.Live(7) == Words{"apply 7"});

  const KvEventStreamStats stats = driver.stats();
  CHECK(stats.state == KvStreamState::kLive);
  CHECK(stats.complete);
  CHECK(stats.behind == 0);
  CHECK(stats.held == 0);
  CHECK(stats.held_bytes == 0);
  CHECK(stats.lost == 0);
  CHECK(stats.clears == 1);
  CHECK(stats.applied == 7);
  CHECK(stats.applied_replay == 3);
}

TEST_CASE("case 42: a gap without a replay source is lost, counted, and clears the instance") {
  Driver driver(WithoutReplay());
  CHECK(driver.Live(1) == Words{"clear", "apply 1"});
  CHECK(driver.Live(2) == Words{"apply 2"});
  CHECK(driver.Live(4) == Words{"clear", "apply 4"});
  CHECK(driver.stats().gaps == 1);
  CHECK(driver.stats().lost == 1);
  CHECK_FALSE(driver.stats().complete);
  CHECK(driver.Live(5) == Words{"apply 5"});

  KvEventStreamOptions keep = WithoutReplay();
  keep.clear_on_loss = false;
  Driver keeper(keep);
  keeper.Follow(2);
  CHECK(keeper.Live(9) == Words{"apply 9"});
  CHECK(keeper.stats().lost == 6);
}

TEST_CASE("case 43: seq 57 then 0 without a replay source clears before it applies") {
  Driver driver(WithoutReplay());
  driver.Follow(57);
  CHECK(driver.Live(0, 1) == Words{"clear", "apply 0"});
  CHECK(driver.Live(1, 1) == Words{"apply 1"});
  CHECK(driver.stats().restarts == 1);
  CHECK(driver.stats().lost == 0);
  CHECK(driver.stats().complete);
}

TEST_CASE("case 43: the number that was last, with another payload, is a restart too") {
  Driver driver(WithoutReplay());
  CHECK(driver.Live(0) == Words{"clear", "apply 0"});
  CHECK(driver.Live(0, 1) == Words{"clear", "apply 0"});
  CHECK(driver.stats().restarts == 1);
}

TEST_CASE("a restart that is first seen in the middle is replayed from the beginning") {
  Driver driver;
  driver.Follow(57);
  CHECK(driver.Live(3, 1) == Words{"clear", "fetch 1 from 0"});
  CHECK(driver.Live(4, 1) == Words{});
  for (uint64_t seq = 0; seq < 4; ++seq) {
    CHECK(driver.Replayed(seq, 1) == Words{"apply " + std::to_string(seq)});
  }
  CHECK(driver.Ended() == Words{"apply 4"});
  CHECK(driver.stats().restarts == 1);
  CHECK(driver.stats().gaps == 0);
  CHECK(driver.stats().complete);

  Driver without(WithoutReplay());
  without.Follow(57);
  CHECK(without.Live(3, 1) == Words{"clear", "apply 3"});
  CHECK_FALSE(without.stats().complete);
}

TEST_CASE("a restart during a replay drops what is held and the replay") {
  Driver driver;
  driver.Follow(5);
  CHECK(driver.Live(9) == Words{"fetch 1 from 5"});
  const uint64_t old_fetch = driver.stream.fetch();
  CHECK(driver.Live(0, 1) == Words{"clear", "apply 0"});
  CHECK(driver.stream.fetch() == 0);
  CHECK(driver.stats().held == 0);
  CHECK(InWords(driver.stream.Replayed(old_fetch, 6, Payload(6), 0)) == Words{});
  CHECK(InWords(driver.stream.ReplayEnded(old_fetch, 0)) == Words{});
  CHECK(InWords(driver.stream.ReplayFailed(old_fetch, 0)) == Words{});
  CHECK(driver.stats().ignored == 3);
  CHECK(driver.Live(1, 1) == Words{"apply 1"});
}

TEST_CASE("case 44: what a replay brings after newer messages is not applied again") {
  Driver driver(WithoutReplay());
  driver.Live(7);
  driver.Live(8);
  CHECK(driver.Live(9) == Words{"apply 9"});  // removes what message 3 stored
  CHECK(InWords(driver.stream.Replayed(0, 3, Payload(3), 0)) == Words{});
  CHECK(InWords(driver.stream.Replayed(1, 3, Payload(3), 0)) == Words{});

  Driver replaying;
  replaying.Follow(9);
  CHECK(replaying.Connected() == Words{"fetch 1 from 9"});
  CHECK(replaying.Replayed(3) == Words{});
  CHECK(replaying.Replayed(9) == Words{});
  CHECK(replaying.Ended() == Words{});
  CHECK(replaying.stats().applied == 10);
}

TEST_CASE("a stream that begins in the middle asks for everything") {
  Driver driver;
  CHECK(driver.Live(100) == Words{"fetch 1 from 0"});
  CHECK(driver.Live(101) == Words{});
  CHECK(driver.Replayed(0) == Words{"clear", "apply 0"});
  for (uint64_t seq = 1; seq <= 101; ++seq) driver.Replayed(seq);
  CHECK(driver.Ended() == Words{});
  CHECK(driver.stats().applied == 102);
  CHECK(driver.stats().complete);
  CHECK(driver.stats().gaps == 0);
}

TEST_CASE("a history that is shorter than the gap clears and starts from what there is") {
  Driver driver;
  driver.Follow(10);
  CHECK(driver.Live(100) == Words{"fetch 1 from 10"});
  CHECK(driver.Replayed(90) == Words{"clear", "apply 90"});
  CHECK(driver.stats().lost == 79);
  CHECK(driver.Replayed(91) == Words{"apply 91"});
  for (uint64_t seq = 92; seq <= 100; ++seq) driver.Replayed(seq);
  CHECK(driver.Ended() == Words{});
  CHECK_FALSE(driver.stats().complete);
  CHECK(driver.stats().last_applied == 100);

  // From the start of a stream nothing is lost that was ever known.
  Driver late;
  CHECK(late.Live(100) == Words{"fetch 1 from 0"});
  CHECK(late.Replayed(90) == Words{"clear", "apply 90"});
  CHECK(late.stats().lost == 0);
  CHECK_FALSE(late.stats().complete);
}

TEST_CASE("a replay that brings nothing of the gap leaves it lost") {
  Driver driver;
  driver.Follow(10);
  CHECK(driver.Live(12) == Words{"fetch 1 from 10"});
  CHECK(driver.Live(13) == Words{});
  CHECK(driver.Replayed(10) == Words{});
  CHECK(driver.Ended() == Words{"clear", "apply 12", "apply 13"});
  CHECK(driver.stats().lost == 1);
  CHECK(driver.stats().restarts == 0);
}

TEST_CASE("a hole inside a replay is asked for again, and lost if it stays") {
  Driver driver;
  driver.Follow(10);
  CHECK(driver.Live(20) == Words{"fetch 1 from 10"});
  driver.Replayed(10);
  CHECK(driver.Replayed(11) == Words{"apply 11"});
  CHECK(driver.Replayed(15) == Words{"fetch 2 from 11"});
  driver.Replayed(11);
  CHECK(driver.Replayed(15) == Words{"clear", "apply 15"});
  CHECK(driver.stats().lost == 3);
  for (uint64_t seq = 16; seq <= 20; ++seq) driver.Replayed(seq);
  CHECK(driver.Ended() == Words{});
  CHECK(driver.stats().last_applied == 20);
}

TEST_CASE("gaps among held messages are asked for one after the other") {
  Driver driver;
  driver.Follow(10);
  CHECK(driver.Live(12) == Words{"fetch 1 from 10"});
  CHECK(driver.Live(14) == Words{});
  CHECK(driver.Replayed(11) == Words{"apply 11"});
  CHECK(driver.Ended() == Words{"apply 12", "fetch 2 from 12"});
  CHECK(driver.stats().gaps == 2);
  CHECK(driver.stats().held == 1);
  CHECK(driver.Replayed(13) == Words{"apply 13"});
  CHECK(driver.Ended() == Words{"apply 14"});
  CHECK(driver.stats().lost == 0);
}

TEST_CASE("a message that comes twice is applied once, whatever came between") {
  Driver driver;
  driver.Follow(10);
  CHECK(driver.Live(10) == Words{});
  CHECK(driver.Live(7) == Words{});
  CHECK(driver.Live(11) == Words{"apply 11"});
  CHECK(driver.Live(13) == Words{"fetch 1 from 11"});
  CHECK(driver.Live(13) == Words{});  // held
  CHECK(driver.stats().duplicates == 3);
  CHECK(driver.stats().restarts == 0);
}

TEST_CASE("a live message that a replay has brought before is a duplicate") {
  Driver driver;
  CHECK(driver.Connected() == Words{"fetch 1 from 0"});
  for (uint64_t seq = 0; seq <= 20; ++seq) driver.Replayed(seq);
  CHECK(driver.Live(19) == Words{});
  CHECK(driver.Ended() == Words{});
  CHECK(driver.Live(20) == Words{});
  CHECK(driver.Live(21) == Words{"apply 21"});
  CHECK(driver.stats().duplicates == 2);
}

TEST_CASE("a queue of live messages that a replay has overtaken is all duplicates") {
  Driver driver;
  driver.Connected();
  for (uint64_t seq = 0; seq < 1000; ++seq) driver.Replayed(seq);
  driver.Ended();
  for (uint64_t seq = 0; seq < 1000; ++seq) REQUIRE(driver.Live(seq) == Words{});
  CHECK(driver.Live(1000) == Words{"apply 1000"});
  CHECK(driver.stats().duplicates == 1000);
  CHECK(driver.stats().restarts == 0);
}

TEST_CASE("live messages that follow others are duplicates however far a replay is ahead") {
  Driver driver;
  driver.Follow(9);
  CHECK(driver.Connected() == Words{"fetch 1 from 9"});
  for (uint64_t seq = 9; seq < 5000; ++seq) driver.Replayed(seq);
  driver.Ended();
  for (uint64_t seq = 10; seq < 5000; ++seq) REQUIRE(driver.Live(seq) == Words{});
  CHECK(driver.Live(5000) == Words{"apply 5000"});
  CHECK(driver.stats().restarts == 0);
  CHECK(driver.Live(0, 1) != Words{});  // numbers that go back are a restart
  CHECK(driver.stats().restarts == 1);
}

TEST_CASE("a replayed state, then a live message of a new process, is a restart") {
  Driver driver;
  driver.Connected();
  for (uint64_t seq = 0; seq <= 20; ++seq) driver.Replayed(seq);
  driver.Ended();
  CHECK(driver.Live(0, 1) == Words{"clear", "apply 0"});
  CHECK(driver.stats().restarts == 1);
}

// ---- Connections --------------------------------------------------------------------------------

TEST_CASE("a connection to a quiet engine brings what it has published before") {
  Driver driver;
  CHECK(driver.Connected() == Words{"fetch 1 from 0"});
  CHECK(driver.stats().connected);
  CHECK(driver.Replayed(0) == Words{"clear", "apply 0"});
  CHECK(driver.Replayed(1) == Words{"apply 1"});
  CHECK(driver.Ended() == Words{});
  CHECK(driver.stats().complete);
}

TEST_CASE("a connection to an engine that has published nothing clears what was known") {
  Driver driver;
  driver.Connected();
  CHECK(driver.Ended() == Words{"clear"});
  CHECK(driver.Live(0) == Words{"apply 0"});
  // Its first message may have been dropped.
  Driver late;
  late.Connected();
  late.Ended();
  CHECK(late.Live(1) == Words{"fetch 2 from 0"});
}

TEST_CASE("a connection that is regained is checked for what was missed") {
  Driver driver;
  driver.Follow(10);
  driver.stream.Disconnected();
  CHECK_FALSE(driver.stats().connected);
  CHECK(driver.Connected() == Words{"fetch 1 from 10"});
  CHECK(driver.Live(13) == Words{});
  CHECK(driver.Replayed(10) == Words{});
  CHECK(driver.Replayed(11) == Words{"apply 11"});
  CHECK(driver.Replayed(12) == Words{"apply 12"});
  CHECK(driver.Ended() == Words{"apply 13"});
  CHECK(driver.stats().lost == 0);
}

TEST_CASE("an engine that restarted while the connection was lost is found out") {
  SECTION("it has fewer messages than before") {
    Driver driver;
    driver.Follow(10);
    CHECK(driver.Connected() == Words{"fetch 1 from 10"});
    CHECK(driver.Ended() == Words{"clear", "fetch 2 from 0"});
    CHECK(driver.Replayed(0, 1) == Words{"apply 0"});
    CHECK(driver.Ended() == Words{});
    CHECK(driver.stats().restarts == 1);
    CHECK(driver.Live(1, 1) == Words{"apply 1"});
  }
  SECTION("it has more") {
    Driver driver;
    driver.Follow(10);
    driver.Connected();
    CHECK(driver.Replayed(10, 1) == Words{"clear", "fetch 2 from 0"});
    CHECK(driver.Replayed(0, 1) == Words{"apply 0"});
    CHECK(driver.stats().restarts == 1);
  }
  SECTION("a message of the old process is held") {
    Driver driver;
    driver.Follow(10);
    CHECK(driver.Connected() == Words{"fetch 1 from 10"});
    CHECK(driver.Live(12) == Words{});
    driver.stream.Live(13, Payload(13, 1), 0);
    CHECK(driver.Replayed(11, 1) == Words{"apply 11"});  // no longer has 10
    CHECK(driver.Replayed(12, 1) == Words{"clear", "fetch 2 from 0"});
  }
}

TEST_CASE("a connection regained during a replay asks again, for what is held too") {
  Driver driver;
  driver.Follow(10);
  CHECK(driver.Live(12) == Words{"fetch 1 from 10"});
  CHECK(driver.Connected() == Words{"fetch 2 from 10"});
  CHECK(driver.stats().held == 0);
  CHECK(driver.Live(13) == Words{});
  driver.Replayed(11);
  CHECK(driver.Replayed(12) == Words{"apply 12"});
  CHECK(driver.Ended() == Words{"apply 13"});
}

TEST_CASE("what comes between two connections is held, and dropped for the replay") {
  Driver driver;
  driver.Follow(10);
  driver.stream.Disconnected();
  CHECK(driver.Live(11, 1) == Words{});  // the next number, of another process
  CHECK(driver.stats().held == 1);
  CHECK(driver.Connected() == Words{"fetch 1 from 10"});
  CHECK(driver.stats().held == 0);
  CHECK(driver.Replayed(10, 1) == Words{"clear", "fetch 2 from 0"});
  // A replay under way is given up.
  driver.stream.Disconnected();
  CHECK(driver.stream.fetch() == 0);
  CHECK(InWords(driver.stream.Check(0)) == Words{});
  // Without a replay source nothing would bring it.
  Driver without(WithoutReplay());
  without.Follow(10);
  without.stream.Disconnected();
  CHECK(without.Live(11) == Words{"apply 11"});
}

TEST_CASE("an engine that restarted is found out though its first message seems to be the next") {
  Driver driver;
  driver.Follow(10);
  CHECK(driver.Connected() == Words{"fetch 1 from 10"});
  CHECK(driver.Live(11, 1) == Words{});  // it had published less when it was asked
  CHECK(driver.Ended() == Words{"clear", "fetch 2 from 0"});
  for (uint64_t seq = 0; seq < 11; ++seq) driver.Replayed(seq, 1);
  CHECK(driver.Ended() == Words{"apply 11"});
  CHECK(driver.stats().restarts == 1);
  CHECK(driver.stats().complete);
}

TEST_CASE("a check brings what no later message has shown") {
  Driver driver;
  driver.Follow(10);
  CHECK(InWords(driver.stream.Check(0)) == Words{"fetch 1 from 10"});
  driver.Replayed(10);
  CHECK(driver.Replayed(11) == Words{"apply 11"});
  CHECK(driver.Ended() == Words{});
  KvEventStream unnumbered = Make();
  unnumbered.LiveUnnumbered("a", 0);
  CHECK(InWords(unnumbered.Check(0)) == Words{});
  Driver without(WithoutReplay());
  without.Follow(10);
  CHECK(InWords(without.stream.Check(0)) == Words{});
}

// ---- Failures and bounds ------------------------------------------------------------------------

TEST_CASE("a failed replay is tried again after a delay that doubles, then given up") {
  KvEventStreamOptions options;
  options.replay_attempts = 4;
  options.retry_delay_s = 0.5;
  Driver driver(options);
  driver.Follow(10);
  CHECK(driver.Live(12) == Words{"fetch 1 from 10"});
  double delay_s = 0.5;
  for (int attempt = 2; attempt <= 4; ++attempt) {
    const auto actions = driver.stream.ReplayFailed(driver.stream.fetch(), 0);
    REQUIRE(actions.size() == 1);
    CHECK(actions[0].kind == KvStreamActionKind::kFetch);
    CHECK(actions[0].seq == 10);
    CHECK(actions[0].delay_s == delay_s);
    delay_s *= 2;
  }
  CHECK(driver.Live(13) == Words{});
  CHECK(driver.Failed() == Words{"clear", "apply 12", "apply 13"});
  CHECK(driver.stats().replays == 4);
  CHECK(driver.stats().replays_failed == 4);
  CHECK(driver.stats().lost == 1);
}

TEST_CASE("a replay that fails in the middle goes on where it was, and counts attempts anew") {
  KvEventStreamOptions options;
  options.replay_attempts = 2;
  Driver driver(options);
  driver.Follow(10);
  driver.Live(20);
  CHECK(driver.Failed() == Words{"fetch 2 from 10"});
  CHECK(driver.Replayed(11) == Words{"apply 11"});
  CHECK(driver.Failed() == Words{"fetch 3 from 11"});
  CHECK(driver.Failed() == Words{"clear", "apply 20"});
}

TEST_CASE("a check after a reconnection that fails loses nothing when nothing is missing") {
  KvEventStreamOptions options;
  options.replay_attempts = 1;
  Driver driver(options);
  driver.Follow(10);
  driver.Connected();
  CHECK(driver.Live(11) == Words{});
  CHECK(driver.Failed() == Words{"apply 11"});
  CHECK(driver.stats().lost == 0);
  CHECK(driver.stats().complete);
}

TEST_CASE("messages beyond the bound are dropped, counted, and fetched by a further replay") {
  KvEventStreamOptions options;
  options.max_held_messages = 3;
  Driver driver(options);
  driver.Follow(10);
  for (uint64_t seq = 12; seq <= 20; ++seq) driver.Live(seq);
  CHECK(driver.stats().held == 3);
  CHECK(driver.stats().dropped == 6);
  driver.Replayed(11);
  CHECK(driver.Ended() == Words{"apply 12", "apply 13", "apply 14", "fetch 2 from 14"});
  for (uint64_t seq = 14; seq <= 20; ++seq) driver.Replayed(seq);
  CHECK(driver.Ended() == Words{});
  CHECK(driver.stats().last_applied == 20);
  CHECK(driver.stats().lost == 0);
}

TEST_CASE("the bound on bytes holds, and a message above it is lost at worst") {
  KvEventStreamOptions options;
  options.max_held_bytes = 10000;
  options.replay_attempts = 1;
  Driver driver(options);
  driver.Follow(10);
  for (uint64_t seq = 12; seq < 1000; ++seq) {
    driver.stream.Live(seq, std::string(500, 'x'), 0);
    REQUIRE(driver.stats().held_bytes <= 10000);
  }
  CHECK(driver.stats().held + driver.stats().dropped == 988);
  CHECK(driver.stats().held >= 15);
  driver.Failed();

  Driver large(options);
  large.Follow(10);
  const std::string payload(20000, 'x');
  CHECK(InWords(large.stream.Live(12, payload, 0)) == Words{"fetch 1 from 10"});
  CHECK(large.Failed() == Words{"clear"});
  CHECK(large.stats().lost == 2);
  CHECK(large.Live(13) == Words{"apply 13"});

  // The same where nothing was applied before.
  Driver first(options);
  CHECK(InWords(first.stream.Live(5, payload, 0)) == Words{"fetch 1 from 0"});
  CHECK(first.Ended() == Words{"clear"});
  CHECK(first.Live(6) == Words{"apply 6"});
}

// ---- Messages without numbers, generations, odd input -------------------------------------------

TEST_CASE("messages without numbers are applied as they come") {
  KvEventStream stream = Make();
  CHECK(InWords(stream.LiveUnnumbered("a", 0)) == Words{"clear", "apply a"});
  CHECK(InWords(stream.LiveUnnumbered("b", 0)) == Words{"apply b"});
  CHECK(InWords(stream.LiveUnnumbered("b", 0)) == Words{"apply b"});
  CHECK(stream.Stats().unnumbered == 3);
  CHECK(stream.Stats().state == KvStreamState::kLive);
  CHECK_FALSE(stream.Stats().complete);
  // Nobody knows what was missed.
  stream.Disconnected();
  CHECK(InWords(stream.Connected(0)) == Words{"clear"});
  CHECK(InWords(stream.Connected(0)) == Words{});
  CHECK(InWords(stream.LiveUnnumbered("c", 0)) == Words{"apply c"});
  // The engine was replaced by one with numbers.
  CHECK(InWords(stream.Live(0, "d", 0)) == Words{"clear", "apply 0"});
  // And back, in the middle of a replay.
  CHECK(InWords(stream.Live(5, "e", 0)) == Words{"fetch 1 from 0"});
  CHECK(InWords(stream.LiveUnnumbered("f", 0)) == Words{"clear", "apply f"});
  CHECK(stream.fetch() == 0);
}

TEST_CASE("case 56: a stream of an instance that was removed does nothing until it is bound anew") {
  Driver driver;
  driver.Follow(10);
  driver.Live(12);
  const uint64_t fetch = driver.stream.fetch();
  driver.stream.Retire();
  CHECK(driver.stats().state == KvStreamState::kRetired);
  CHECK(driver.stats().held == 0);
  CHECK(driver.Live(13) == Words{});
  CHECK(InWords(driver.stream.LiveUnnumbered("x", 0)) == Words{});
  CHECK(InWords(driver.stream.Replayed(fetch, 11, Payload(11), 0)) == Words{});
  CHECK(InWords(driver.stream.ReplayEnded(fetch, 0)) == Words{});
  CHECK(InWords(driver.stream.ReplayFailed(fetch, 0)) == Words{});
  CHECK(driver.Connected() == Words{});
  CHECK(driver.stats().ignored == 6);

  const InstanceId next = InstanceId::Make(3, 2);
  driver.stream.Bind(next);
  CHECK(driver.stream.instance() == next);
  CHECK(driver.Live(14) == Words{"fetch 2 from 0"});
  CHECK(driver.Replayed(13) == Words{"clear", "apply 13"});
}

TEST_CASE("the number that ends replays is no message, and numbers near it do no harm") {
  Driver driver;
  CHECK(driver.Live(UINT64_MAX) == Words{});
  CHECK(driver.stats().malformed == 1);
  driver.Follow(3);
  CHECK(driver.Live(UINT64_MAX - 1) == Words{"fetch 1 from 3"});
  CHECK(driver.Replayed(UINT64_MAX) == Words{});
  CHECK(driver.Replayed(3) == Words{});
  CHECK(driver.Ended() == Words{"clear", "apply " + std::to_string(UINT64_MAX - 1)});
  CHECK(driver.stats().behind == 0);
  CHECK(driver.Live(0, 1) == Words{"clear", "apply 0"});
}

TEST_CASE("options out of their range are named") {
  const auto message = [](auto change) {
    KvEventStreamOptions options;
    change(options);
    auto stream = KvEventStream::Create(kInstance, options);
    CHECK(stream.status().code() == StatusCode::kInvalidArgument);
    return stream.status().message();
  };
  CHECK(message([](auto& o) { o.max_held_messages = 0; }) ==
        "KvEventStreamOptions::max_held_messages is 0, below 1");
  CHECK(message([](auto& o) { o.max_held_bytes = 0; }) ==
        "KvEventStreamOptions::max_held_bytes is 0, below 1");
  CHECK(message([](auto& o) { o.replay_attempts = 0; }) ==
        "KvEventStreamOptions::replay_attempts is 0, below 1");
  CHECK(message([](auto& o) { o.retry_delay_s = -1; }) ==
        "KvEventStreamOptions::retry_delay_s is -1.000000, not in 0 to 3600");
  CHECK(message([](auto& o) { o.retry_delay_s = NAN; }).find("nan") != std::string::npos);
}

TEST_CASE("every state has a name") {
  CHECK(KvStreamStateName(KvStreamState::kWaiting) == std::string("waiting"));
  CHECK(KvStreamStateName(KvStreamState::kLive) == std::string("live"));
  CHECK(KvStreamStateName(KvStreamState::kReplaying) == std::string("replaying"));
  CHECK(KvStreamStateName(KvStreamState::kRetired) == std::string("retired"));
}

}  // namespace prefixrouter
