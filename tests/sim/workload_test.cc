// Workloads and generators: keys, sessions and shares of a trace, and what generators promise.
// tests/replay_test.cc has the tests of reading traces and of arrival times.
#include "prefixrouter/workload.h"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "lib/sim/prompt.h"
#include "prefixrouter/block_hasher.h"
#include "tests/catch.h"

namespace prefixrouter {
namespace {

TraceRequest MakeRequest(double time_s, uint64_t prompt_tokens, std::vector<uint64_t> ids) {
  TraceRequest request;
  request.timestamp_ns = static_cast<int64_t>(time_s * 1e9);
  request.prompt_tokens = prompt_tokens;
  request.output_tokens = 10;
  request.hash_ids = std::move(ids);
  return request;
}

Trace SmallTrace() {
  Trace trace;
  trace.name = "small";
  trace.block_tokens = 64;
  trace.requests.push_back(MakeRequest(0, 128, {1, 2}));
  trace.requests.push_back(MakeRequest(2, 64, {9}));
  trace.requests.push_back(MakeRequest(1, 200, {1, 2, 3, 4}));  // out of order
  trace.requests.push_back(MakeRequest(3, 190, {1, 2, 3}));     // a partial block
  trace.requests[1].session_id = "s";
  trace.requests[3].session_id = "s";
  trace.requests[3].delay_ns = 5'000'000'000;
  return trace;
}

std::shared_ptr<const Workload> Make(const Trace& trace, uint32_t block_size = 0) {
  WorkloadOptions options;
  options.block_size = block_size;
  Result<std::shared_ptr<const Workload>> workload = Workload::Create(trace, options);
  INFO(workload.status().message());
  REQUIRE(workload.ok());
  return *workload;
}

std::string Refusal(const Trace& trace, uint32_t block_size) {
  WorkloadOptions options;
  options.block_size = block_size;
  const Result<std::shared_ptr<const Workload>> workload = Workload::Create(trace, options);
  REQUIRE_FALSE(workload.ok());
  CHECK(workload.status().code() == StatusCode::kInvalidArgument);
  return workload.status().message();
}

}  // namespace

TEST_CASE("a workload has the trace's requests by arrival, with keys of their full blocks",
          "[sim]") {
  const auto workload = Make(SmallTrace());
  CHECK(workload->name() == "small");
  CHECK(workload->block_size() == 64);
  const std::vector<WorkloadRequest>& requests = workload->requests();
  REQUIRE(requests.size() == 4);
  CHECK(requests[1].prompt_tokens == 200);
  CHECK(requests[1].arrival_s == 1);
  CHECK(requests[0].key_count == 2);
  CHECK(requests[1].key_count == 3);
  CHECK(requests[3].key_count == 2);
  for (size_t i = 0; i < 2; ++i) {
    CHECK(workload->keys(requests[0])[i] == workload->keys(requests[1])[i]);
    CHECK(workload->keys(requests[0])[i] == workload->keys(requests[3])[i]);
  }
  CHECK(workload->keys(requests[2])[0] != workload->keys(requests[0])[0]);
  CHECK(workload->sessions() == std::vector<std::string>{"s"});
  CHECK(requests[0].session == Workload::kNoSession);
  CHECK(requests[2].session == 0);
  CHECK(requests[2].turn == 0);
  CHECK(requests[3].turn == 1);
  CHECK(requests[3].delay_s == 5);
  CHECK(requests[2].delay_s < 0);
  CHECK(workload->prompt_tokens() == 128 + 64 + 200 + 190);
  CHECK(workload->output_tokens() == 40);
  CHECK(workload->best_possible_share() == Approx((128 + 128) / 582.0));
}

TEST_CASE("finer blocks see a partial last block in more detail", "[sim]") {
  const auto workload = Make(SmallTrace(), 16);
  CHECK(workload->requests()[0].key_count == 8);
  CHECK(workload->requests()[1].key_count == 12);
  CHECK(workload->requests()[3].key_count == 11);  // 176 of 190 tokens
  CHECK(workload->best_possible_share() == Approx((128 + 176) / 582.0));
  std::set<uint64_t> distinct;
  for (const WorkloadRequest& request : workload->requests()) {
    const Span<const uint64_t> keys = workload->keys(request);
    distinct.insert(keys.begin(), keys.end());
  }
  CHECK(distinct.size() == 12 + 4);
}

TEST_CASE("prompts of token ids have the keys that a router would compute", "[sim]") {
  Trace trace;
  TraceRequest request;
  request.tokens = {5, 6, 7, 8, 9, 1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3, 4};
  request.prompt_tokens = request.tokens.size();
  trace.requests = {request, request};
  const auto workload = Make(trace);
  CHECK(workload->block_size() == 16);
  CHECK(workload->requests()[0].key_count == 1);
  CHECK(workload->best_possible_share() == Approx(16 / 36.0));
}

TEST_CASE("a trace that cannot be a workload is refused", "[sim]") {
  CHECK(Refusal(Trace(), 0).find("no requests") != std::string::npos);
  CHECK(Refusal(SmallTrace(), 48) ==
        "block_size must divide the trace's block of 64 tokens, got 48");
  CHECK(Refusal(SmallTrace(), 128).find("got 128") != std::string::npos);
  CHECK(Refusal(SmallTrace(), 40000).find("at most 32768") != std::string::npos);
  Trace huge = SmallTrace();
  huge.requests[2].prompt_tokens = uint64_t{1} << 33;
  CHECK(Refusal(huge, 0).find("8589934592 prompt") != std::string::npos);
  // Ids that end too early: what they name counts.
  Trace cut = SmallTrace();
  cut.requests[0].prompt_tokens = 10'000;
  CHECK(Make(cut)->requests()[0].key_count == 2);
}

// ---- Generators --------------------------------------------------------------------------------

TEST_CASE("every generator makes the same trace for a seed, of about the length asked for",
          "[sim]") {
  for (const GeneratorInfo& info : Generators()) {
    CAPTURE(info.name);
    CHECK_FALSE(info.what.empty());
    GeneratorOptions options;
    options.requests = 2000;
    const Result<Trace> trace = GenerateTrace(info.name, options);
    REQUIRE(trace.ok());
    CHECK(trace->requests.size() > 1600);
    CHECK(trace->requests.size() < 2400);
    const Result<Trace> again = GenerateTrace(info.name, options);
    options.seed = 2;
    const Result<Trace> other = GenerateTrace(info.name, options);
    const auto lines = [](const Trace& of) {
      std::string text;
      for (const TraceRequest& request : of.requests) text += TraceLine(request) + "\n";
      return text;
    };
    CHECK(lines(*trace) == lines(*again));
    CHECK(lines(*trace) != lines(*other));

    int64_t last_ns = 0;
    for (const TraceRequest& request : trace->requests) {
      CHECK(request.timestamp_ns >= last_ns);
      last_ns = request.timestamp_ns;
      CHECK(request.prompt_tokens > 0);
      CHECK(request.output_tokens > 0);
      const uint64_t blocks = (request.prompt_tokens + 63) / 64;
      CHECK(request.hash_ids.size() == blocks);
    }
  }
}

TEST_CASE("generators reuse as much as their names say", "[sim]") {
  std::map<std::string, double> share;
  for (const GeneratorInfo& info : Generators()) {
    share[info.name] = Make(*GenerateTrace(info.name, {}))->best_possible_share();
  }
  CHECK(share["unique"] == 0);
  CHECK(share["shared_prompts"] > 0.85);
  CHECK(share["chat"] > 0.7);
  CHECK(share["agents"] > 0.9);
  CHECK(share["bursts"] > 0.8);
}

TEST_CASE("a conversation's turns begin with the prompt before, and carry their delays", "[sim]") {
  const Result<Trace> trace = GenerateTrace("chat", {});
  REQUIRE(trace.ok());
  std::map<std::string, const TraceRequest*> last;
  size_t later = 0;
  for (const TraceRequest& request : trace->requests) {
    REQUIRE_FALSE(request.session_id.empty());
    const TraceRequest*& before = last[request.session_id];
    CHECK((request.delay_ns >= 0) == (before != nullptr));
    if (before != nullptr) {
      ++later;
      const size_t whole = before->prompt_tokens / 64;
      CHECK(std::equal(before->hash_ids.begin(), before->hash_ids.begin() + whole,
                       request.hash_ids.begin()));
      CHECK(request.prompt_tokens > before->prompt_tokens + before->output_tokens);
      CHECK(request.timestamp_ns > before->timestamp_ns + request.delay_ns);
    }
    before = &request;
  }
  CHECK(later > trace->requests.size() / 2);
}

TEST_CASE("an unknown generator and wrong options are refused", "[sim]") {
  CHECK(GenerateTrace("magic", {}).status().message().find("\"magic\"") != std::string::npos);
  GeneratorOptions options;
  options.requests = 0;
  CHECK(GenerateTrace("chat", options).status().message() ==
        "requests must be 1 to 10000000, got 0");
}

// ---- Lines and delays --------------------------------------------------------------------------

TEST_CASE("a line that is written is read back", "[sim]") {
  TraceRequest request = MakeRequest(1.5, 100, {7, 18446744073709551615u});
  request.session_id = "a \"b\"";
  request.delay_ns = 2'500'000;
  bool cut = true;
  for (const bool timed : {true, false}) {
    if (!timed) request.timestamp_ns = -1;
    const Result<TraceRequest> read = ParseTraceLine(TraceLine(request), 64, &cut);
    REQUIRE(read.ok());
    CHECK_FALSE(cut);
    CHECK(read->timestamp_ns == request.timestamp_ns);
    CHECK(read->delay_ns == request.delay_ns);
    CHECK(read->session_id == request.session_id);
    CHECK(read->hash_ids == request.hash_ids);
    CHECK(read->prompt_tokens == 100);
    CHECK(read->output_tokens == 10);
  }
  TraceRequest tokens;
  tokens.timestamp_ns = 12345;
  tokens.tokens = {1, 2, 3};
  tokens.prompt_tokens = 3;
  const Result<TraceRequest> read = ParseTraceLine(TraceLine(tokens), 64, &cut);
  REQUIRE(read.ok());
  CHECK(read->tokens == tokens.tokens);
  CHECK(read->timestamp_ns == 12345);
}

TEST_CASE("a turn with a delay in place of a time follows the turn before it", "[sim]") {
  Trace trace = SmallTrace();
  trace.requests.resize(2);
  trace.requests[0].session_id = "a";
  trace.requests[0].output_tokens = 100;  // 2 s at the nominal 20 ms
  TraceRequest turn = MakeRequest(0, 64, {5});
  turn.session_id = "a";
  turn.timestamp_ns = -1;
  turn.delay_ns = 3'000'000'000;
  trace.requests.push_back(turn);
  turn.delay_ns = 1'000'000'000;
  trace.requests.push_back(turn);  // 10 tokens: 0.2 s
  const auto workload = Make(trace);
  CHECK(workload->requests()[2].arrival_s == Approx(5));
  CHECK(workload->requests()[3].arrival_s == Approx(6.2));

  bool cut = false;
  const std::string line = R"({"input_length": 1, "output_length": 1, "hash_ids": [1], )";
  CHECK(ParseTraceLine(line + R"("session_id": 1, "delay": 5})", 64, &cut).ok());
  CHECK(ParseTraceLine(line + R"("delay": 5})", 64, &cut).status().message() ==
        "field timestamp is missing");
  CHECK(ParseTraceLine(line + R"("session_id": 1, "delay": -5})", 64, &cut)
            .status()
            .message()
            .find("delay is -5") != std::string::npos);
}

}  // namespace prefixrouter
