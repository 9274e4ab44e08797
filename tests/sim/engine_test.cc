// The simulated engine against schedules worked out by hand. Steps of its model engine take 1 s,
// plus 1 ms a prefill token, plus 10 ms a decoding request, so that a step's length tells what was
// in it.
#include "lib/sim/engine.h"

#include <deque>
#include <set>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace prefixrouter {
namespace {

constexpr uint32_t kBlock = 16;

EngineOptions ModelEngine(uint64_t kv_capacity_tokens = 16000) {
  EngineOptions engine;
  engine.linear.step_s = 1;
  engine.linear.prefill_token_s = 0.001;
  engine.linear.decode_request_s = 0.010;
  engine.kv_capacity_tokens = kv_capacity_tokens;
  engine.max_batched_tokens = 100;
  engine.max_running_requests = 8;
  return engine;
}

double Step(uint32_t prefill_tokens, uint32_t decoding) {
  return 1 + 0.001 * prefill_tokens + 0.010 * decoding;
}

// Keys of `blocks` blocks: those of one family are equal in their first `shared` ones.
std::vector<uint64_t> Keys(uint64_t family, uint64_t prompt, size_t blocks, size_t shared = 0) {
  std::vector<uint64_t> keys;
  for (size_t i = 0; i < blocks; ++i) {
    keys.push_back(family * 1'000'000 + i + (i < shared ? 0 : (prompt + 1) * 1000));
  }
  return keys;
}

class Harness {
 public:
  explicit Harness(const EngineOptions& options) : engine(options, 1, 1, kBlock) {}

  void Submit(uint32_t id, uint32_t prompt, uint32_t output, const std::vector<uint64_t>& keys) {
    keys_.push_back(keys);  // the engine borrows them
    engine.Submit({id, prompt, output, keys_.back()});
  }
  // One step. Its length, and what it did in `events`.
  double Run() {
    events.clear();
    const double seconds = engine.StartStep();
    if (seconds > 0) engine.FinishStep(&events);
    return seconds;
  }
  bool FirstToken(uint32_t id) const {
    for (const EngineEvent& event : events) {
      if (event.id == id && event.first_token) return true;
    }
    return false;
  }
  const EngineEvent* Finished(uint32_t id) const {
    for (const EngineEvent& event : events) {
      if (event.id == id && event.finished) return &event;
    }
    return nullptr;
  }

  Engine engine;
  std::vector<EngineEvent> events;

 private:
  std::deque<std::vector<uint64_t>> keys_;
};

}  // namespace

TEST_CASE("a prompt is prefilled in chunks, its first token comes with the last one", "[sim]") {
  Harness h(ModelEngine());
  h.Submit(1, 250, 3, Keys(1, 0, 15));
  CHECK(h.Run() == Approx(Step(100, 0)));
  CHECK(h.events.empty());
  CHECK(h.Run() == Approx(Step(100, 0)));
  CHECK(h.Run() == Approx(Step(50, 0)));
  CHECK(h.FirstToken(1));
  CHECK(h.Run() == Approx(Step(0, 1)));  // second token
  CHECK(h.events.empty());
  CHECK(h.Run() == Approx(Step(0, 1)));  // third
  CHECK(h.Finished(1) != nullptr);
  CHECK(h.Run() == 0);
  CHECK(h.engine.idle());
}

TEST_CASE("decoding comes first in the token budget, the rest is for the next prompts", "[sim]") {
  Harness h(ModelEngine());
  h.Submit(1, 40, 5, Keys(1, 0, 2));
  h.Submit(2, 80, 5, Keys(2, 0, 5));
  CHECK(h.Run() == Approx(Step(100, 0)));  // 40 of the first, 60 of the second
  CHECK(h.FirstToken(1));
  CHECK_FALSE(h.FirstToken(2));
  h.Submit(3, 500, 5, Keys(3, 0, 31));
  CHECK(h.Run() == Approx(Step(99, 1)));  // one of 1, the last 20 of 2, 79 of 3
  CHECK(h.FirstToken(2));
  CHECK(h.Run() == Approx(Step(98, 2)));  // 98 of 3: its 177 are computed
  CHECK(h.engine.running() == 3);
}

TEST_CASE("at most max_running_requests are in the batch, first come first served", "[sim]") {
  EngineOptions options = ModelEngine();
  options.max_running_requests = 2;
  Harness h(options);
  for (uint32_t id = 1; id <= 3; ++id) h.Submit(id, 10, 2, {});
  CHECK(h.Run() == Approx(Step(20, 0)));
  CHECK(h.FirstToken(1));
  CHECK(h.FirstToken(2));
  CHECK(h.engine.waiting() == 1);
  CHECK(h.Run() == Approx(Step(0, 2)));  // both end, the third could not start in this step
  CHECK(h.Finished(1) != nullptr);
  CHECK(h.Run() == Approx(Step(10, 0)));
  CHECK(h.FirstToken(3));
}

TEST_CASE("cached leading blocks are not computed again, but one token always is", "[sim]") {
  Harness h(ModelEngine());
  h.Submit(1, 64, 1, Keys(1, 0, 4, 2));
  CHECK(h.Run() == Approx(Step(64, 0)));
  CHECK(h.Finished(1)->cached_tokens == 0);

  h.Submit(2, 70, 1, Keys(1, 0, 4, 2));  // the same four blocks and six tokens
  CHECK(h.Run() == Approx(Step(6, 0)));
  CHECK(h.Finished(2)->cached_tokens == 64);

  h.Submit(3, 64, 1, Keys(1, 0, 4, 2));  // all of it is cached: the last block is computed again
  CHECK(h.Run() == Approx(Step(16, 0)));
  CHECK(h.Finished(3)->cached_tokens == 48);

  h.Submit(4, 64, 1, Keys(1, 9, 4, /*shared=*/2));
  CHECK(h.Run() == Approx(Step(32, 0)));
  CHECK(h.Finished(4)->cached_tokens == 32);
}

TEST_CASE("hits are judged at admission, and blocks are visible once they are computed", "[sim]") {
  Harness h(ModelEngine());
  // Both are admitted in one step, before anything is computed.
  h.Submit(1, 48, 1, Keys(1, 0, 3));
  h.Submit(2, 48, 1, Keys(1, 0, 3));
  CHECK(h.Run() == Approx(Step(96, 0)));
  CHECK(h.Finished(2)->cached_tokens == 0);
  CHECK(h.engine.cache().cached_blocks() == 3);  // the second copy is dropped

  // Of a prompt that is half computed, that half is visible.
  h.Submit(3, 192, 1, Keys(2, 0, 12));
  CHECK(h.Run() == Approx(Step(100, 0)));  // six blocks and four tokens
  h.Submit(4, 192, 1, Keys(2, 0, 12));
  CHECK(h.Run() == Approx(Step(100, 0)));  // 92 of 3, then 8 of 4 behind 96 cached tokens
  CHECK(h.Run() == Approx(Step(88, 0)));
  CHECK(h.Finished(4)->cached_tokens == 96);
}

TEST_CASE("idle blocks are evicted least recently used first, deepest first", "[sim]") {
  Harness h(ModelEngine(/*kv_capacity_tokens=*/10 * kBlock));
  h.Submit(1, 65, 1, Keys(1, 0, 4));
  h.Run();
  h.Submit(2, 33, 1, Keys(2, 0, 2));
  h.Run();
  CHECK(h.engine.cache().cached_blocks() == 6);
  // Needs six blocks and a page for a token, four are free: three of the first prompt's four go.
  h.Submit(3, 97, 1, Keys(3, 0, 6));
  CHECK(h.Run() == Approx(Step(97, 0)));
  CHECK(h.engine.cache().Find(Keys(1, 0, 4)).blocks == 1);
  CHECK(h.engine.cache().Find(Keys(2, 0, 2)).blocks == 2);
  CHECK(h.engine.cache().Find(Keys(3, 0, 6)).blocks == 6);
}

TEST_CASE("blocks of running requests stay, and the queue waits for a whole prompt's room",
          "[sim]") {
  Harness h(ModelEngine(/*kv_capacity_tokens=*/10 * kBlock));
  h.Submit(1, 96, 20, Keys(1, 0, 6));
  h.Run();
  h.Submit(2, 80, 1, Keys(2, 0, 5));  // five pages; three are free: not admitted
  h.Submit(3, 16, 1, Keys(3, 0, 1));  // would fit, but comes later
  for (int token = 2; token < 20; ++token) {
    CHECK(h.Run() == Approx(Step(0, 1)));
    CHECK(h.engine.waiting() == 2);
  }
  CHECK(h.Run() == Approx(Step(0, 1)));
  CHECK(h.Finished(1) != nullptr);
  CHECK(h.Run() == Approx(Step(96, 0)));
  CHECK(h.Finished(2) != nullptr);
  CHECK(h.Finished(3) != nullptr);
}

TEST_CASE("when decoding runs out of memory the last one is preempted and computed again",
          "[sim]") {
  Harness h(ModelEngine(/*kv_capacity_tokens=*/8 * kBlock));
  h.Submit(1, 48, 40, Keys(1, 0, 3));  // 48 + 40 tokens: up to six pages
  h.Submit(2, 48, 40, Keys(2, 0, 3));
  CHECK(h.Run() == Approx(Step(96, 0)));  // three pages each
  // Tokens 2 to 17 fit into one more page each: the memory is full.
  for (int step = 0; step < 16; ++step) CHECK(h.Run() == Approx(Step(0, 2)));
  CHECK(h.engine.kv_usage() == Approx(1));
  // The next needs a page: the second request gives its four up.
  CHECK(h.Run() == Approx(Step(0, 1)));
  CHECK(h.engine.running() == 1);
  CHECK(h.engine.waiting() == 1);
  // It needs five pages for its 48 + 17 tokens; two blocks of it stay cached as the first grows,
  // but there is no room for all of it until the first ends (40 tokens, 18 are out).
  for (int step = 18; step < 40; ++step) CHECK(h.Run() == Approx(Step(0, 1)));
  CHECK(h.Finished(1) != nullptr);
  CHECK(h.Finished(1)->preemptions == 0);
  // Its first block has been evicted last, so something of it may be left: two of three blocks.
  CHECK(h.Run() == Approx(Step(65 - 32, 0)));
  CHECK_FALSE(h.FirstToken(2));  // that was long ago
  for (int step = 18; step < 39; ++step) CHECK(h.Run() == Approx(Step(0, 1)));
  CHECK(h.Run() == Approx(Step(0, 1)));
  REQUIRE(h.Finished(2) != nullptr);
  CHECK(h.Finished(2)->preemptions == 1);
  CHECK(h.Finished(2)->cached_tokens == 0);  // as of the first admission
}

TEST_CASE("a failure drops requests and cache", "[sim]") {
  Harness h(ModelEngine());
  h.Submit(1, 48, 40, Keys(1, 0, 3));
  h.Run();
  h.Submit(2, 48, 40, Keys(2, 0, 3));
  h.engine.StartStep();
  CHECK(h.engine.Fail() == std::vector<uint32_t>{1, 2});
  CHECK(h.engine.idle());
  CHECK(h.engine.cache().cached_blocks() == 0);
  CHECK(h.engine.kv_usage() == 0);
  h.Submit(3, 48, 1, Keys(1, 0, 3));
  CHECK(h.Run() == Approx(Step(48, 0)));
}

TEST_CASE("speed divides the time, capacity multiplies the memory", "[sim]") {
  Engine engine(ModelEngine(160), 2, 0.5, kBlock);
  CHECK(engine.Fits(60, 20));
  CHECK_FALSE(engine.Fits(61, 20));
  engine.Submit({1, 60, 20, {}});
  CHECK(engine.StartStep() == Approx(Step(60, 0) / 2));
}

TEST_CASE("what an engine would publish as KV events adds up to its cache", "[sim]") {
  struct Listener final : BlockListener {
    void BlockStored(uint64_t key, uint64_t parent, bool first) override {
      CHECK(held.insert(key).second);
      CHECK((first || held.count(parent) == 1));
    }
    void BlockRemoved(uint64_t key) override { CHECK(held.erase(key) == 1); }
    void AllBlocksCleared() override { held.clear(); }
    std::set<uint64_t> held;
  } listener;
  Harness h(ModelEngine(/*kv_capacity_tokens=*/20 * kBlock));
  h.engine.cache().set_listener(&listener);
  for (uint32_t i = 0; i < 40; ++i) {
    const uint32_t blocks = 2 + i * 7 % 11;
    h.Submit(i, blocks * kBlock + i % 5, 1 + i % 9, Keys(i % 3, i, blocks, i % 4));
    h.Run();
    CHECK(listener.held.size() == h.engine.cache().cached_blocks());
  }
  while (h.Run() > 0) CHECK(listener.held.size() == h.engine.cache().cached_blocks());
  CHECK_FALSE(listener.held.empty());
  h.engine.Fail();
  CHECK(listener.held.empty());
}

TEST_CASE("a step of the linear model is the sum of its terms", "[sim]") {
  EngineOptions engine;
  engine.linear = {1, 2, 3, 4, 5};
  CHECK(StepSeconds(engine, {10, 100.0, 1000, 10000.0}) == 1 + 20 + 300 + 4000 + 50000);
}

TEST_CASE("a step of the roofline model is the slower of computing and reading", "[sim]") {
  EngineOptions engine;
  engine.cost_model = CostModel::kRoofline;
  RooflineCost& cost = engine.roofline;
  cost.flops_per_token = 10;
  cost.flops_per_pair = 2;
  cost.weight_bytes = 1000;
  cost.kv_token_bytes = 8;
  cost.flops_per_s = 100;
  cost.bytes_per_s = 50;
  cost.step_overhead_s = 0.5;
  cost.token_overhead_s = 0.25;
  // Decoding of four reads the weights (20 s rather than 0.4 s) and 100 tokens of context (16 s
  // rather than 2 s).
  CHECK(StepSeconds(engine, {0, 0.0, 4, 100.0}) == Approx(0.5 + 1 + 20 + 16));
  // A prefill of 400 tokens computes: 40 s rather than 20 s, and 1,000 pairs in 20 s.
  CHECK(StepSeconds(engine, {400, 1000.0, 0, 0.0}) == Approx(0.5 + 100 + 40 + 20));
}

TEST_CASE("presets are the machines that they are named after", "[sim]") {
  for (const std::string& name : EnginePresetNames()) {
    const Result<EngineOptions> engine = EnginePreset(name);
    REQUIRE(engine.ok());
    CHECK(engine->name == name);
    INFO(name);
    // A whole prefill budget behind 8,192 tokens: between 20 % and 70 % of the peak.
    StepWork prefill;
    prefill.prefill_tokens = 8192;
    prefill.prefill_pairs = 8192 * 12288.0;
    const double flops = engine->roofline.flops_per_token * 8192 +
                         engine->roofline.flops_per_pair * prefill.prefill_pairs;
    const double gpus = name.find("8x") != name.npos ? 8 : name.find("2x") != name.npos ? 2 : 1;
    const double share = flops / StepSeconds(*engine, prefill) / (gpus * 989e12);
    CHECK(share > 0.2);
    CHECK(share < 0.7);
    // 32 requests of 4,096 tokens decode at 10 to 40 ms a token.
    StepWork decode;
    decode.decode_requests = 32;
    decode.decode_context = 32 * 4096.0;
    CHECK(StepSeconds(*engine, decode) > 0.005);
    CHECK(StepSeconds(*engine, decode) < 0.040);
    CHECK(engine->kv_capacity_tokens > 250'000);
    CHECK(engine->kv_capacity_tokens < 2'000'000);
  }
  const Result<EngineOptions> unknown = EnginePreset("gpt");
  REQUIRE_FALSE(unknown.ok());
  CHECK(unknown.status().message().find("\"gpt\"") != std::string::npos);
}

}  // namespace prefixrouter
