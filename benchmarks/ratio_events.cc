// KV events: how quickly they are read and applied, what a match pays meanwhile, and their memory.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "benchmarks/fleet.h"
#include "benchmarks/ratios.h"
#include "prefixrouter/kv_event_stream.h"
#include "prefixrouter/kv_events.h"

namespace prefixrouter::bench {
namespace {

constexpr size_t kInstances = 64;
constexpr uint32_t kEventBlocks = 64;
constexpr size_t kEventTokens = size_t{kEventBlocks} * kBlockSize;

// The engines of a fleet. Each holds prompts that begin with one of 16 system prompts of 64 blocks,
// which all instances have, and go on with 192 blocks of their own. When a prompt is stored, in
// three events of 64 blocks, the oldest one goes, from its end.
class Engines {
 public:
  explicit Engines(size_t blocks_each) : prompts_each_(blocks_each / kOwnBlocks) {
    for (size_t i = 0; i < kSystemPrompts; ++i) system_prompts_.push_back(RandomTokens());
    engines_.resize(kInstances);
  }

  // Until all engines are full: the messages that get there, for one engine after the other.
  template <typename Send>
  void Fill(Send send) {
    for (size_t i = 0; i < engines_.size(); ++i) {
      for (const auto& tokens : system_prompts_) {
        engines_[i].system_ids.push_back(NewIds());
        send(i, Message({{tokens, engines_[i].system_ids.back(), 0, false}}, {}));
      }
      for (size_t prompt = 0; prompt < prompts_each_ * kEventsAPrompt; ++prompt) {
        send(i, NextMessage(i, false));
      }
    }
  }
  // 64 blocks are stored, and 64 removed.
  std::string Next(size_t engine) { return NextMessage(engine, true); }

 private:
  static constexpr size_t kSystemPrompts = 16;
  static constexpr size_t kEventsAPrompt = 3;
  static constexpr size_t kOwnBlocks = kEventsAPrompt * kEventBlocks;

  using Ids = std::vector<uint64_t>;
  using Tokens = std::vector<uint32_t>;
  struct Engine {
    std::vector<Ids> system_ids;
    std::deque<Ids> held;      // of each event, oldest prompt first, each from its end
    std::vector<Ids> growing;  // of the prompt that is being stored
  };
  struct Store {
    const Tokens& tokens;
    const Ids& ids;
    uint64_t parent;
    bool has_parent;
  };

  // Small ids are frequent, as in text: one in five takes four bytes.
  Tokens RandomTokens() {
    Tokens tokens(kEventTokens);
    for (uint32_t& token : tokens) {
      const double share = static_cast<double>(random_() >> 11) * 0x1p-53;
      token = static_cast<uint32_t>(128'000 * share * share * share);
    }
    return tokens;
  }
  Ids NewIds() {
    Ids ids(kEventBlocks);
    for (uint64_t& id : ids) id = random_();
    return ids;
  }
  std::string Message(const std::vector<Store>& stores, const Ids& removed) {
    std::vector<KvEvent> events;
    for (const Store& store : stores) {
      KvEvent& event = events.emplace_back();
      event.kind = KvEventKind::kStored;
      event.block_ids = store.ids;
      event.tokens = store.tokens;
      event.block_size = kBlockSize;
      event.has_parent = store.has_parent;
      event.parent_id = store.parent;
    }
    if (!removed.empty()) {
      KvEvent& event = events.emplace_back();
      event.kind = KvEventKind::kRemoved;
      event.block_ids = removed;
    }
    KvEventBatch batch;
    batch.timestamp_s = 1.78e9;
    batch.events = events;
    Result<std::string> message = EncodeKvEvents(batch, KvEventEncoding::kMaps);
    Require(message.ok(), "the events cannot be encoded");
    return *std::move(message);
  }
  std::string NextMessage(size_t i, bool remove) {
    Engine& engine = engines_[i];
    const Ids& system = engine.system_ids[random_() % kSystemPrompts];
    const uint64_t parent = engine.growing.empty() ? system.back() : engine.growing.back().back();
    engine.growing.push_back(NewIds());
    Ids removed;
    if (remove) {
      removed = std::move(engine.held.front());
      engine.held.pop_front();
    }
    const Tokens tokens = RandomTokens();
    std::string message = Message({{tokens, engine.growing.back(), parent, true}}, removed);
    if (engine.growing.size() == kEventsAPrompt) {
      for (size_t event = kEventsAPrompt; event-- > 0;) {
        std::reverse(engine.growing[event].begin(), engine.growing[event].end());
        engine.held.push_back(std::move(engine.growing[event]));
      }
      engine.growing.clear();
    }
    return message;
  }

  const size_t prompts_each_;
  std::mt19937_64 random_{kSeed};
  std::vector<Tokens> system_prompts_;
  std::vector<Engine> engines_;
};

// A fleet whose instances follow the events of engines.
struct EventFleet {
  explicit EventFleet(size_t blocks_each)
      : fleet({.instances = kInstances, .capacity_blocks = 65536}), engines(blocks_each) {
    engines.Fill([&](size_t i, const std::string& message) { Apply(i, message); });
  }

  void Apply(size_t i, const std::string& message) {
    const int64_t begin = NowNanos();
    const auto batch = decoder.Decode(message);
    const int64_t decoded = NowNanos();
    Require(batch.ok(), "a message cannot be decoded");
    const auto result = fleet.router().ApplyKvEvents(fleet.id(i), **batch);
    const int64_t applied = NowNanos();
    decode_nanos += decoded - begin;
    apply_nanos += applied - decoded;
    Require(result.ok() && !result->needs_replay, "events were not applied");
    for (int outcome = 0; outcome < kKvEventOutcomeCount; ++outcome) {
      const auto which = static_cast<KvEventOutcome>(outcome);
      const uint64_t count = result->counts[which];
      if (which == KvEventOutcome::kStored || which == KvEventOutcome::kRemoved) {
        operations += count;
      } else {
        Require(count == 0, KvEventOutcomeName(which));
      }
    }
  }

  Fleet fleet;
  Engines engines;
  KvEventDecoder decoder;
  int64_t decode_nanos = 0;
  int64_t apply_nanos = 0;
  uint64_t operations = 0;
};

struct Message {
  size_t instance;
  std::string payload;
};

std::vector<Message> NextMessages(Engines& engines, size_t count) {
  std::vector<Message> messages;
  for (size_t i = 0; i < count; ++i) {
    messages.push_back({i % kInstances, engines.Next(i % kInstances)});
  }
  return messages;
}

double Quantile(std::vector<double>& values, double share) {
  const auto at =
      values.begin() + static_cast<ptrdiff_t>(share * static_cast<double>(values.size()));
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

}  // namespace

void MeasureEvents(const RatioOptions& options, Report& report) {
  constexpr size_t kBlocksEach = 16384;
  EventFleet events(kBlocksEach);
  const uint64_t held = events.fleet.router().Stats().blocks_held;
  Require(held >= 1'000'000, "fewer than a million blocks are held");
  std::vector<double> rates, ratios, decodes, applies;
  for (int repetition = -1; repetition < options.repetitions; ++repetition) {
    const std::vector<Message> messages = NextMessages(events.engines, 2048);
    events.decode_nanos = events.apply_nanos = 0;
    events.operations = 0;
    const int64_t begin = NowNanos();
    for (const Message& message : messages) events.Apply(message.instance, message.payload);
    const int64_t nanos = NowNanos() - begin;
    Require(events.operations == messages.size() * 2 * kEventBlocks, "blocks are missing");
    if (repetition < 0) continue;
    const auto operations = static_cast<double>(events.operations);
    rates.push_back(operations * 1e9 / static_cast<double>(nanos));
    decodes.push_back(static_cast<double>(events.decode_nanos) / operations);
    applies.push_back(static_cast<double>(events.apply_nanos) / operations);
    ratios.push_back(applies.back() / decodes.back());
  }
  Require(events.fleet.router().Stats().blocks_held == held, "not all that is stored is removed");
  report.Figure("event_block_ops_per_s", Median(rates));
  report.Detail("event_block_ops_per_s", "%llu blocks held by %zu instances",
                static_cast<unsigned long long>(held), kInstances);
  report.Figure("event_apply_vs_decode", Median(ratios));
  report.Detail("event_apply_vs_decode", "%.1f and %.1f ns a block, stored or removed",
                Median(applies), Median(decodes));
}

void MeasureReplay(const RatioOptions& options, Report& report) {
  std::vector<std::vector<std::string>> histories(kInstances);
  Engines engines(16384);
  engines.Fill([&](size_t i, std::string message) { histories[i].push_back(std::move(message)); });
  std::vector<double> seconds, streams;
  uint64_t held = 0;
  for (int repetition = -1; repetition < options.repetitions; ++repetition) {
    Fleet fleet({.instances = kInstances, .capacity_blocks = 65536});
    KvEventDecoder decoder;
    int64_t apply_nanos = 0;
    const auto apply = [&](size_t i, KvEventStream::Actions actions) {
      const int64_t begin = NowNanos();
      for (const KvStreamAction& action : actions) {
        KvEvent cleared;
        KvEventBatch batch;
        batch.events = {&cleared, 1};
        const KvEventBatch* events = &batch;
        if (action.kind == KvStreamActionKind::kFetch) continue;
        if (action.kind == KvStreamActionKind::kApply) {
          const auto decoded = decoder.Decode(action.payload);
          Require(decoded.ok(), "a message cannot be decoded");
          events = *decoded;
        }
        const auto result = fleet.router().ApplyKvEvents(fleet.id(i), *events);
        Require(result.ok() && !result->needs_replay, "events were not applied");
      }
      apply_nanos += NowNanos() - begin;
    };
    const int64_t begin = NowNanos();
    for (size_t i = 0; i < kInstances; ++i) {
      auto stream = KvEventStream::Create(fleet.id(i));
      Require(stream.ok(), "there is no stream");
      apply(i, stream->Connected(0));
      for (size_t seq = 0; seq < histories[i].size(); ++seq) {
        apply(i, stream->Replayed(stream->fetch(), seq, histories[i][seq], 0));
      }
      apply(i, stream->ReplayEnded(stream->fetch(), 0));
      Require(stream->Stats().complete, "the replay is not complete");
    }
    const int64_t nanos = NowNanos() - begin;
    held = fleet.router().Stats().blocks_held;
    Require(held >= 1'000'000, "fewer than a million blocks are held");
    if (repetition < 0) continue;
    seconds.push_back(static_cast<double>(nanos) / 1e9);
    streams.push_back(static_cast<double>(nanos - apply_nanos) / 1e6);
  }
  report.Figure("replay_1m_blocks_s", Median(seconds));
  report.Detail("replay_1m_blocks_s",
                "%llu blocks, %zu instances; %.1f ms outside decode and apply",
                static_cast<unsigned long long>(held), kInstances, Median(streams));
}

void MeasureMatchUnderEvents(const RatioOptions& options, Report& report) {
  constexpr size_t kPromptTokens = 32768;
  constexpr size_t kSamples = 20000;
  constexpr int64_t kMessageNanos = 2 * kEventBlocks * 1000;  // a million blocks a second
  EventFleet events(16384);
  PromptFamily prompts(kPromptTokens);
  const Request request = Request::FromTokens(prompts.Get(0));
  // Known by events too, or it would be forgotten.
  std::vector<uint64_t> ids(kPromptTokens / kBlockSize);
  for (size_t i = 0; i < kInstances; ++i) {
    for (size_t block = 0; block < ids.size(); ++block) ids[block] = (block + 1) * 7;
    KvEvent event;
    event.kind = KvEventKind::kStored;
    event.block_ids = ids;
    event.tokens = prompts.Get(0);
    event.block_size = kBlockSize;
    KvEventBatch batch;
    batch.events = {&event, 1};
    Require(events.fleet.router().ApplyKvEvents(events.fleet.id(i), batch).ok(), "events fail");
  }

  const auto p99 = [&] {
    std::vector<double> nanos(kSamples);
    for (double& sample : nanos) {
      const int64_t begin = NowNanos();
      const auto table = events.fleet.router().Score(request);
      sample = static_cast<double>(NowNanos() - begin);
      Require(table.ok() && table->rows[0].cached_tokens == kPromptTokens, "the match is short");
    }
    return Quantile(nanos, 0.99);
  };
  double rate = 0;
  const auto p99_under_events = [&] {
    const std::vector<Message> messages = NextMessages(events.engines, 8192);
    std::atomic<bool> stop{false};
    std::atomic<bool> started{false};
    std::thread sender([&] {
      const int64_t begin = NowNanos();
      size_t sent = 0;
      started = true;
      while (!stop && sent < messages.size()) {
        events.Apply(messages[sent].instance, messages[sent].payload);
        ++sent;
        while (!stop && NowNanos() < begin + static_cast<int64_t>(sent) * kMessageNanos) {
        }
      }
      rate =
          static_cast<double>(sent) * 2e9 * kEventBlocks / static_cast<double>(NowNanos() - begin);
      // What is left, so that the engines and the router agree.
      for (; sent < messages.size(); ++sent) {
        events.Apply(messages[sent].instance, messages[sent].payload);
      }
    });
    while (!started) {
    }
    const double result = p99();
    stop = true;
    sender.join();
    return result;
  };
  const PairResult result = MeasurePair(options.repetitions, p99_under_events, p99);
  report.Figure("match_p99_under_events", result.ratio);
  report.Detail("match_p99_under_events", "%.1f and %.1f us, %.2f M blocks a second",
                result.a / 1e3, result.b / 1e3, rate / 1e6);
}

void MeasureEventBytes(const RatioOptions&, Report& report) {
  constexpr size_t kPrompts = 64;
  constexpr size_t kPromptTokens = 8192;
  constexpr size_t kPromptBlocks = kPromptTokens / kBlockSize;
  Fleet fleet({.instances = kInstances, .capacity_blocks = 65536});
  PromptFamily prompts(kPromptTokens, kPromptTokens / 4);
  std::vector<uint64_t> ids(kPromptBlocks);
  std::mt19937_64 random(kSeed);
  for (size_t i = 0; i < kInstances; ++i) {
    for (uint64_t& id : ids) id = random();
    for (size_t prompt = 0; prompt < kPrompts; ++prompt) {
      for (size_t block = kPromptBlocks / 4; block < kPromptBlocks; ++block) ids[block] = random();
      KvEvent event;
      event.kind = KvEventKind::kStored;
      event.tokens = prompts.Get(prompt);
      event.block_ids = ids;
      event.block_size = kBlockSize;
      if (prompt != 0) {  // what is shared is announced once
        event.tokens = event.tokens.subspan(kPromptTokens / 4);
        event.block_ids = event.block_ids.subspan(kPromptBlocks / 4);
        event.has_parent = true;
        event.parent_id = ids[kPromptBlocks / 4 - 1];
      }
      KvEventBatch batch;
      batch.events = {&event, 1};
      Require(fleet.router().ApplyKvEvents(fleet.id(i), batch).ok(), "events fail");
    }
  }
  const RouterStats stats = fleet.router().Stats();
  const uint64_t expected = kInstances * (kPromptBlocks / 4 + kPrompts * (kPromptBlocks / 4 * 3));
  Require(stats.blocks_held == expected, "not all instances hold all prompts");
  report.Figure("bytes_per_membership_events",
                static_cast<double>(stats.index_bytes) / static_cast<double>(stats.blocks_held));
  report.Detail("bytes_per_membership_events", "%zu bytes for %llu blocks held, %llu distinct",
                stats.index_bytes, static_cast<unsigned long long>(stats.blocks_held),
                static_cast<unsigned long long>(stats.index_blocks));
}

}  // namespace prefixrouter::bench
