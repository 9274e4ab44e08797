// Random runs of a KvEventStream against a model of an engine behind a network that drops messages,
// breaks connections and cuts replays short, and whose process restarts.
//
// The oracle: whatever happened, what was applied since the last clear is, once the run is quiet,
// an unbroken row of the living process's messages that ends with its newest. So the state is that
// of the run without loss, or of its end where history was lost; and no block is held whose removal
// was published. A run that promises to keep its history must have the whole row.
#include <algorithm>
#include <cstdint>
#include <deque>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "prefixrouter/kv_event_stream.h"
#include "tests/catch.h"
#include "tests/support/prompts.h"

namespace prefixrouter {
namespace {

struct Message {
  uint64_t seq;
  std::string payload;
};

struct Knobs {
  double drop = 0;            // share of live messages
  double twice = 0;           // share of live messages that come twice
  double restart = 0;         // chance, each step
  double disconnect = 0;      // chance, each step
  double fail = 0;            // share of replays
  double hole = 0;            // share of replayed messages that are dropped
  uint64_t first_seq = 0;     // 0 or 1
  size_t history = SIZE_MAX;  // messages that the engine keeps
  KvEventStreamOptions options;
};

class Run {
 public:
  Run(const Knobs& knobs, uint64_t seed)
      : knobs_(knobs), random_(seed), stream_(*KvEventStream::Create({1}, knobs.options)) {
    Restart();
    Obey(stream_.Connected(now_));
  }

  void Steps(int count) {
    for (int i = 0; i < count; ++i) {
      now_ += 0.01;
      if (Chance(knobs_.restart)) Restart();
      if (Chance(knobs_.disconnect)) connected_ = false;
      Publish(/*reliably=*/false);
      if (!connected_ && Chance(0.3)) Reconnect();
      for (int n = static_cast<int>(random_() % 4); n > 0; --n) Serve(/*reliably=*/false);
    }
  }

  // Nothing goes wrong any more, and a message comes.
  void BeQuiet() {
    if (!connected_) Reconnect();
    for (int i = 0; i < 3; ++i) {
      Publish(/*reliably=*/true);
      for (int n = 0; fetch_ != 0; ++n) {
        REQUIRE(n < 1000000);
        Serve(/*reliably=*/true);
      }
    }
  }

  void Check(bool whole) const {
    const KvEventStreamStats stats = stream_.Stats();
    REQUIRE(stats.state == KvStreamState::kLive);
    REQUIRE(stats.held == 0);
    REQUIRE(stats.held_bytes == 0);
    REQUIRE(stats.behind == 0);
    REQUIRE(applied_.size() <= published_.size());
    const size_t skipped = published_.size() - applied_.size();
    for (size_t i = 0; i < applied_.size(); ++i) {
      REQUIRE(applied_[i] == published_[skipped + i].payload);
    }
    REQUIRE(!applied_.empty());
    if (whole) REQUIRE(skipped == 0);
    // A row that begins at 1 may be that of a publisher that begins there.
    if (stats.complete) REQUIRE(skipped <= 1 - knobs_.first_seq);
  }

  const KvEventStream& stream() const { return stream_; }

 private:
  bool Chance(double share) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < share;
  }

  void Restart() {
    ++process_;
    published_.clear();
    asked_.clear();  // the replay socket is gone too
    connected_ = process_ == 1;
  }

  void Publish(bool reliably) {
    const uint64_t seq = knobs_.first_seq + published_.size();
    Message message{seq, std::to_string(process_) + ":" + std::to_string(seq)};
    published_.push_back(message);
    if (!connected_ || (!reliably && Chance(knobs_.drop))) return;
    Obey(stream_.Live(seq, message.payload, now_));
    if (!reliably && Chance(knobs_.twice)) Obey(stream_.Live(seq, message.payload, now_));
  }

  void Reconnect() {
    stream_.Disconnected();
    connected_ = true;
    Obey(stream_.Connected(now_));
  }

  // One step of the replay that is wanted: the answer, all of it at once; then each of its
  // messages.
  void Serve(bool reliably) {
    if (fetch_ != stream_.fetch()) {  // given up
      fetch_ = 0;
      asked_.clear();
      answered_ = false;
    }
    if (fetch_ == 0) return;
    if (!reliably && Chance(knobs_.fail)) {
      asked_.clear();
      return Obey(stream_.ReplayFailed(fetch_, now_));
    }
    if (!answered_) {
      answered_ = true;
      const size_t kept = std::min(knobs_.history, published_.size());
      for (size_t i = published_.size() - kept; i < published_.size(); ++i) {
        if (published_[i].seq < from_ || (!reliably && Chance(knobs_.hole))) continue;
        asked_.push_back(published_[i]);
      }
      return;
    }
    if (asked_.empty()) return Obey(stream_.ReplayEnded(fetch_, now_));
    const Message message = asked_.front();
    asked_.pop_front();
    Obey(stream_.Replayed(fetch_, message.seq, message.payload, now_));
  }

  void Obey(KvEventStream::Actions actions) {
    bool fetched = false;
    for (const KvStreamAction& action : actions) {
      REQUIRE_FALSE(fetched);  // it is always last
      switch (action.kind) {
        case KvStreamActionKind::kApply:
          applied_.emplace_back(action.payload);
          break;
        case KvStreamActionKind::kClear:
          applied_.clear();
          break;
        case KvStreamActionKind::kFetch:
          fetched = true;
          fetch_ = action.fetch;
          from_ = action.seq;
          asked_.clear();
          answered_ = false;
          break;
      }
    }
    const KvEventStreamStats stats = stream_.Stats();
    REQUIRE(stats.held <= knobs_.options.max_held_messages);
    REQUIRE(stats.held_bytes <= knobs_.options.max_held_bytes);
    if (stream_.fetch() == 0) fetch_ = 0;
  }

  Knobs knobs_;
  std::mt19937_64 random_;
  KvEventStream stream_;
  double now_ = 0;
  int process_ = 0;
  bool connected_ = false;
  std::vector<Message> published_;  // by the living process

  uint64_t fetch_ = 0;  // 0: no replay is wanted
  uint64_t from_ = 0;
  bool answered_ = false;
  std::deque<Message> asked_;  // on their way

  std::vector<std::string> applied_;  // since the last clear
};

void RunMany(const Knobs& knobs, bool whole) {
  const uint64_t first_seed = testing::TestSeed(1);
  for (uint64_t seed = first_seed; seed < first_seed + 100; ++seed) {
    CAPTURE(seed);
    Run run(knobs, seed);
    run.Steps(200);
    run.BeQuiet();
    run.Check(whole);
  }
}

}  // namespace

TEST_CASE("dropped and repeated messages and lost connections leave no trace") {
  Knobs knobs;
  knobs.drop = 0.1;
  knobs.twice = 0.05;
  knobs.disconnect = 0.02;
  for (knobs.first_seq = 0; knobs.first_seq < 2; ++knobs.first_seq) RunMany(knobs, true);
}

TEST_CASE("bounds on what is held delay messages, but lose none") {
  Knobs knobs;
  knobs.drop = 0.1;
  knobs.disconnect = 0.02;
  knobs.options.max_held_messages = 2;
  RunMany(knobs, true);
}

TEST_CASE("failed replays lose nothing while attempts last") {
  Knobs knobs;
  knobs.drop = 0.1;
  knobs.fail = 0.2;
  knobs.options.replay_attempts = 1000;
  RunMany(knobs, true);
}

TEST_CASE("restarts, short histories, holes in replays and failures never leave a false block") {
  Knobs knobs;
  knobs.drop = 0.1;
  knobs.twice = 0.02;
  knobs.disconnect = 0.02;
  knobs.restart = 0.02;
  SECTION("restarts") {}
  SECTION("short history") { knobs.history = 5; }
  SECTION("no history") { knobs.history = 0; }
  SECTION("holes") { knobs.hole = 0.05; }
  SECTION("failures") { knobs.fail = 0.3; }
  SECTION("everything") {
    knobs.history = 20;
    knobs.hole = 0.05;
    knobs.fail = 0.3;
    knobs.first_seq = 1;
    knobs.options.max_held_messages = 3;
  }
  RunMany(knobs, false);
}

TEST_CASE("without a replay source what is left is the end of the messages, unbroken") {
  Knobs knobs;
  knobs.drop = 0.05;
  knobs.options.has_replay = false;
  RunMany(knobs, false);
}

TEST_CASE("a run without loss or restarts asks for nothing but its connection") {
  Run run({}, 1);
  run.Steps(1000);
  run.BeQuiet();
  run.Check(true);
  const KvEventStreamStats stats = run.stream().Stats();
  CHECK(stats.replays == 1);
  CHECK(stats.applied == 1003);
  CHECK(stats.restarts + stats.gaps + stats.lost + stats.dropped == 0);
}

}  // namespace prefixrouter
