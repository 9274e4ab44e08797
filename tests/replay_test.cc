// The replay tool's parts: reading traces, arrival times, prompts, the built-in workload, and what
// a replay of small traces must find. replay_cli_test.sh tests the tool as a program.
#include "benchmarks/replay/replay.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/replay/report.h"
#include "lib/sim/agents.h"
#include "lib/sim/prompt.h"
#include "prefixrouter/policy.h"
#include "prefixrouter/trace.h"
#include "tests/catch.h"

namespace prefixrouter::replay {
namespace {

// A file in the system's temporary folder that is gone at the end of the test.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& content) {
    static int count = 0;
    const std::string name =
        "prefix_router_replay_test_" + std::to_string(::getpid()) + "_" + std::to_string(count++);
    path_ = std::filesystem::temp_directory_path() / name;
    std::ofstream(path_, std::ios::binary) << content;
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() { std::filesystem::remove(path_); }

  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

struct ReadOutcome {
  Result<Trace> trace;
  std::string warnings;
};

ReadOutcome ReadText(const std::string& content, const ReadOptions& options = {}) {
  const TemporaryFile file(content);
  std::ostringstream warnings;
  Result<Trace> trace = ReadTrace(file.path(), options, warnings);
  return {std::move(trace), warnings.str()};
}

std::string Line(int64_t timestamp_ms, uint64_t input_length, const std::string& hash_ids,
                 const std::string& session_id = "") {
  std::string line = "{\"timestamp\": " + std::to_string(timestamp_ms) +
                     ", \"input_length\": " + std::to_string(input_length) +
                     ", \"output_length\": 10, \"hash_ids\": [" + hash_ids + "]";
  if (!session_id.empty()) line += ", \"session_id\": \"" + session_id + "\"";
  return line + "}\n";
}

std::vector<uint32_t> Prompt(const TraceRequest& request, uint32_t block_tokens) {
  std::vector<uint32_t> tokens = {1, 2, 3};  // BuildPrompt replaces what was there
  BuildPrompt(request, block_tokens, &tokens);
  return tokens;
}

TraceRequest MakeRequest(double timestamp_s, uint64_t prompt_tokens, std::vector<uint64_t> hash_ids,
                         std::string session_id = "") {
  TraceRequest request;
  request.timestamp_ns = static_cast<int64_t>(timestamp_s * 1e9);
  request.prompt_tokens = prompt_tokens;
  request.output_tokens = 10;
  request.hash_ids = std::move(hash_ids);
  request.session_id = std::move(session_id);
  return request;
}

void CheckContains(const std::string& text, const std::string& part) {
  CAPTURE(text, part);
  CHECK(text.find(part) != std::string::npos);
}

void CheckNear(double value, double expected, double relative_error = 1e-9) {
  CAPTURE(value, expected);
  CHECK(std::abs(value - expected) <= relative_error * std::abs(expected));
}

// What a parsed trace is, for comparisons.
std::vector<std::pair<int64_t, std::vector<uint64_t>>> Contents(const Trace& trace) {
  std::vector<std::pair<int64_t, std::vector<uint64_t>>> contents;
  for (const TraceRequest& request : trace.requests) {
    contents.emplace_back(request.timestamp_ns, request.hash_ids);
  }
  return contents;
}

// ---- Lines -------------------------------------------------------------------------------------

TEST_CASE("A line that names blocks is read with all its fields", "[replay]") {
  bool cut = true;
  const Result<TraceRequest> request = ParseTraceLine(
      R"({"timestamp": 27482, "input_length": 1030, "output_length": 52, "hash_ids": [46, 7, 9],)"
      R"( "session_id": "s1", "other": {"ignored": true}})",
      512, &cut);
  REQUIRE(request.ok());
  CHECK(request->timestamp_ns == 27'482'000'000);
  CHECK(request->prompt_tokens == 1030);
  CHECK(request->output_tokens == 52);
  CHECK(request->hash_ids == std::vector<uint64_t>{46, 7, 9});
  CHECK(request->tokens.empty());
  CHECK(request->session_id == "s1");
  CHECK_FALSE(cut);
}

TEST_CASE("A line with real token ids is read with all its fields", "[replay]") {
  bool cut = true;
  const Result<TraceRequest> request =
      ParseTraceLine(R"({"input_toks": 3, "output_toks": 531, "arrival_time_ns": 46926808,)"
                     R"( "input_tok_ids": [5971, 0, 4294967295], "session_id": 12})",
                     512, &cut);
  REQUIRE(request.ok());
  CHECK(request->timestamp_ns == 46'926'808);
  CHECK(request->prompt_tokens == 3);
  CHECK(request->output_tokens == 531);
  CHECK(request->tokens == std::vector<uint32_t>{5971, 0, 4294967295});
  CHECK(request->session_id == "12");
  CHECK_FALSE(cut);
}

TEST_CASE("Timestamps may have fractions of milliseconds", "[replay]") {
  bool cut = false;
  const Result<TraceRequest> request = ParseTraceLine(
      R"({"timestamp": 1.5, "input_length": 0, "output_length": 0, "hash_ids": []})", 512, &cut);
  REQUIRE(request.ok());
  CHECK(request->timestamp_ns == 1'500'000);
}

TEST_CASE("A prompt is as long as the shorter of its length and its ids", "[replay]") {
  struct Case {
    const char* length_and_ids;
    uint64_t prompt_tokens;
    bool cut;
  };
  const Case cases[] = {
      {R"("input_length": 32, "hash_ids": [1, 2])", 32, false},
      {R"("input_length": 17, "hash_ids": [1, 2])", 17, false},  // a partial last block
      {R"("input_length": 16, "hash_ids": [1, 2])", 16, true},
      {R"("input_length": 33, "hash_ids": [1, 2])", 32, true},
      {R"("input_length": 0, "hash_ids": [])", 0, false},
      {R"("input_length": 5, "hash_ids": [])", 0, true},
      {R"("input_length": 0, "hash_ids": [1])", 0, true},
  };
  for (const Case& c : cases) {
    CAPTURE(c.length_and_ids);
    bool cut = !c.cut;
    const Result<TraceRequest> request = ParseTraceLine(
        std::string(R"({"timestamp": 0, "output_length": 1, )") + c.length_and_ids + "}", 16, &cut);
    REQUIRE(request.ok());
    CHECK(request->prompt_tokens == c.prompt_tokens);
    CHECK(cut == c.cut);
  }
}

TEST_CASE("A malformed line is refused with the field and the value named", "[replay]") {
  struct Case {
    const char* line;
    std::vector<std::string> named;
  };
  const std::vector<Case> cases = {
      {"", {"not JSON"}},
      {"{\"timestamp\": 1", {"not JSON", "column 16"}},
      {"{} trailing", {"not JSON"}},
      {"[1, 2]", {"not a JSON object", "[1,2]"}},
      {"{}", {"timestamp", "missing"}},
      {R"({"timestamp": 0, "output_length": 1, "hash_ids": [1]})", {"input_length", "missing"}},
      {R"({"timestamp": 0, "input_length": 1, "hash_ids": [1]})", {"output_length", "missing"}},
      {R"({"timestamp": 0, "input_length": 1, "output_length": 1})", {"hash_ids", "missing"}},
      {R"({"timestamp": 0, "input_length": -5, "output_length": 1, "hash_ids": [1]})",
       {"input_length is -5", "0 to 16777216"}},
      {R"({"timestamp": 0, "input_length": 16777217, "output_length": 1, "hash_ids": [1]})",
       {"input_length is 16777217", "16777216"}},
      {R"({"timestamp": 0, "input_length": 99999999999999999999, "output_length": 1})",
       {"input_length is 1e+20", "whole number"}},
      {R"({"timestamp": 0, "input_length": 1e999, "output_length": 1, "hash_ids": [1]})",
       {"number overflow", "1e999"}},
      {R"({"timestamp": 0, "input_length": 2.5, "output_length": 1, "hash_ids": [1]})",
       {"input_length is 2.5", "whole number"}},
      {R"({"timestamp": 0, "input_length": "8", "output_length": 1, "hash_ids": [1]})",
       {"input_length is \"8\""}},
      {R"({"timestamp": 0, "input_length": 8, "output_length": -1, "hash_ids": [1]})",
       {"output_length is -1"}},
      {R"({"timestamp": -1, "input_length": 8, "output_length": 1, "hash_ids": [1]})",
       {"timestamp is -1"}},
      {R"({"timestamp": 1e300, "input_length": 8, "output_length": 1, "hash_ids": [1]})",
       {"timestamp is 1e+300"}},
      {R"({"timestamp": null, "input_length": 8, "output_length": 1, "hash_ids": [1]})",
       {"timestamp is null"}},
      {R"({"timestamp": 0, "input_length": 8, "output_length": 1, "hash_ids": 7})",
       {"hash_ids is 7", "array"}},
      {R"({"timestamp": 0, "input_length": 8, "output_length": 1, "hash_ids": {"0": 7}})",
       {"hash_ids is {\"0\":7}", "array"}},
      {R"({"timestamp": 0, "input_length": 8, "output_length": 1, "hash_ids": [4, "x"]})",
       {"hash_ids[1] is \"x\""}},
      {R"({"timestamp": 0, "input_length": 8, "output_length": 1, "hash_ids": [-4]})",
       {"hash_ids[0] is -4"}},
      {R"({"timestamp": 0, "input_length": 8, "output_length": 1, "hash_ids": [1],)"
       R"( "session_id": [1]})",
       {"session_id is [1]"}},
      {R"({"arrival_time_ns": 0, "input_toks": 1, "output_toks": 1, "input_tok_ids": [4294967296]})",
       {"input_tok_ids[0] is 4294967296", "4294967295"}},
      {R"({"input_toks": 1, "output_toks": 1, "input_tok_ids": [4]})",
       {"arrival_time_ns", "missing"}},
      {"{\"timestamp\": \"\xff\"}", {"not JSON", "UTF-8"}},
  };
  for (const Case& c : cases) {
    CAPTURE(c.line);
    bool cut = false;
    const Result<TraceRequest> request = ParseTraceLine(c.line, 512, &cut);
    REQUIRE_FALSE(request.ok());
    CHECK(request.status().code() == StatusCode::kInvalidArgument);
    for (const std::string& part : c.named) CheckContains(request.status().message(), part);
  }
}

TEST_CASE("A value that is very long is shortened in the message", "[replay]") {
  bool cut = false;
  const std::string line = "{\"timestamp\": \"" + std::string(100'000, 'x') + "\"}";
  const Result<TraceRequest> request = ParseTraceLine(line, 512, &cut);
  REQUIRE_FALSE(request.ok());
  CHECK(request.status().message().size() < 200);
}

// ---- Files -------------------------------------------------------------------------------------

// Two lines: timestamps 0 and 3000, ids [1] and [1,2].
const unsigned char kGzipTrace[] = {
    0x1f, 0x8b, 0x08, 0x00, 0x00, 0x00, 0x00, 0x00, 0x02, 0x03, 0xab, 0x56, 0x2a, 0xc9,
    0xcc, 0x4d, 0x2d, 0x2e, 0x49, 0xcc, 0x2d, 0x50, 0xb2, 0x52, 0x30, 0xd0, 0x51, 0x50,
    0xca, 0xcc, 0x2b, 0x28, 0x2d, 0x89, 0xcf, 0x49, 0xcd, 0x4b, 0x2f, 0xc9, 0x00, 0x0a,
    0x99, 0x1a, 0x1a, 0x01, 0x05, 0xf3, 0x4b, 0x4b, 0x50, 0x44, 0x0d, 0x41, 0x2a, 0x33,
    0x12, 0x8b, 0x33, 0xe2, 0x33, 0x53, 0x8a, 0x81, 0xfc, 0x68, 0xc3, 0xd8, 0x5a, 0xae,
    0x6a, 0x14, 0xb3, 0x8c, 0x0d, 0x0c, 0xb0, 0x18, 0x67, 0x06, 0x16, 0x24, 0x6c, 0x9c,
    0x8e, 0x82, 0x11, 0xd0, 0x44, 0x00, 0xaf, 0x0c, 0x29, 0x73, 0x9e, 0x00, 0x00, 0x00};
const std::string kPlainTrace = Line(0, 512, "1") + Line(3000, 600, "1, 2");

std::string GzipTrace() { return std::string(std::begin(kGzipTrace), std::end(kGzipTrace)); }

TEST_CASE("A gzip trace is recognised by its first bytes and equals the plain one", "[replay]") {
  const ReadOutcome plain = ReadText(kPlainTrace);
  const ReadOutcome gzip = ReadText(GzipTrace());
  REQUIRE(plain.trace.ok());
  REQUIRE(gzip.trace.ok());
  REQUIRE(plain.trace->requests.size() == 2);
  CHECK(Contents(*gzip.trace) == Contents(*plain.trace));
}

TEST_CASE("Gzip files that were joined are read to the end", "[replay]") {
  const ReadOutcome joined = ReadText(GzipTrace() + GzipTrace());
  REQUIRE(joined.trace.ok());
  CHECK(joined.trace->requests.size() == 4);
}

TEST_CASE("A gzip file that is cut short or damaged is refused", "[replay]") {
  std::string content = GzipTrace();
  SECTION("cut short") { content.resize(content.size() - 10); }
  SECTION("damaged") {
    content[content.size() / 2] = static_cast<char>(content[content.size() / 2] ^ 0x55);
  }
  const ReadOutcome outcome = ReadText(content);
  REQUIRE_FALSE(outcome.trace.ok());
  CHECK(outcome.trace.status().code() == StatusCode::kInvalidArgument);
  CheckContains(outcome.trace.status().message(), "cannot be read");
}

TEST_CASE("Malformed lines are skipped, counted and named by number", "[replay]") {
  const ReadOutcome outcome =
      ReadText(Line(0, 512, "1") + "nonsense\n\n" + Line(1, -1, "1") + Line(2, 512, "1"));
  REQUIRE(outcome.trace.ok());
  CHECK(outcome.trace->requests.size() == 2);
  CHECK(outcome.trace->skipped_lines == 2);
  CheckContains(outcome.warnings, "line 2: not JSON");
  CheckContains(outcome.warnings, "line 4: input_length is");  // blank lines count
}

TEST_CASE("A malformed line is refused by its number when asked", "[replay]") {
  ReadOptions options;
  options.on_error = OnError::kRefuse;
  const ReadOutcome outcome = ReadText(Line(0, 512, "1") + "nonsense\n", options);
  REQUIRE_FALSE(outcome.trace.ok());
  CHECK(outcome.trace.status().code() == StatusCode::kInvalidArgument);
  CheckContains(outcome.trace.status().message(), "line 2: not JSON");
  CHECK(outcome.warnings.empty());
}

TEST_CASE("Thousands of malformed lines do not flood the terminal", "[replay]") {
  std::string content = Line(0, 512, "1");
  for (int i = 0; i < 5000; ++i) content += "nonsense\n";
  const ReadOutcome outcome = ReadText(content);
  REQUIRE(outcome.trace.ok());
  CHECK(outcome.trace->skipped_lines == 5000);
  CHECK(std::count(outcome.warnings.begin(), outcome.warnings.end(), '\n') == 21);
  CheckContains(outcome.warnings, "4980 more lines");
}

TEST_CASE("A file without a usable line is refused", "[replay]") {
  struct Case {
    std::string content;
    std::string message;
  };
  const Case cases[] = {{"", "is empty"},
                        {"\n \r\n\t\n", "is empty"},
                        {"nonsense\n{}\n", "no usable line (2 malformed)"},
                        {std::string(100, '\0'), "no usable line (1 malformed)"}};
  for (const Case& c : cases) {
    const ReadOutcome outcome = ReadText(c.content);
    REQUIRE_FALSE(outcome.trace.ok());
    CHECK(outcome.trace.status().code() == StatusCode::kInvalidArgument);
    CheckContains(outcome.trace.status().message(), c.message);
  }
}

TEST_CASE("A file that is missing or a folder is refused by its name", "[replay]") {
  std::ostringstream warnings;
  const std::string folder = std::filesystem::temp_directory_path().string();
  const Result<Trace> missing = ReadTrace(folder + "/no/such/trace", {}, warnings);
  REQUIRE_FALSE(missing.ok());
  CHECK(missing.status().code() == StatusCode::kNotFound);
  CheckContains(missing.status().message(), "/no/such/trace");

  const Result<Trace> directory = ReadTrace(folder, {}, warnings);
  REQUIRE_FALSE(directory.ok());
  CHECK(directory.status().code() == StatusCode::kInvalidArgument);
  CheckContains(directory.status().message(), folder);
}

TEST_CASE("Line ends of other systems and a missing last one are no fault", "[replay]") {
  std::string content = Line(0, 512, "1");
  content.insert(content.size() - 1, "\r");
  content += Line(1, 512, "1");
  content.pop_back();
  const ReadOutcome outcome = ReadText(content);
  REQUIRE(outcome.trace.ok());
  CHECK(outcome.trace->requests.size() == 2);
  CHECK(outcome.trace->skipped_lines == 0);
}

TEST_CASE("Lines longer than a read are whole", "[replay]") {
  std::string ids = "0";
  for (int id = 1; id < 100'000; ++id) ids += "," + std::to_string(id);
  ReadOptions options;
  options.block_tokens = 16;
  const ReadOutcome outcome =
      ReadText(Line(0, 16, "7") + Line(1, 1'600'000, ids) + Line(2, 16, "8"), options);
  REQUIRE(outcome.trace.ok());
  REQUIRE(outcome.trace->requests.size() == 3);
  REQUIRE(outcome.trace->requests[1].hash_ids.size() == 100'000);
  CHECK(outcome.trace->requests[1].hash_ids[99'999] == 99'999);
  CHECK(outcome.trace->requests[2].hash_ids == std::vector<uint64_t>{8});
}

TEST_CASE("Only so many requests are read as the limit says", "[replay]") {
  ReadOptions options;
  options.limit = 2;
  const ReadOutcome outcome =
      ReadText(Line(0, 512, "1") + "nonsense\n" + Line(1, 512, "1") + Line(2, 512, "1"), options);
  REQUIRE(outcome.trace.ok());
  CHECK(outcome.trace->requests.size() == 2);
  CHECK(outcome.trace->skipped_lines == 1);
}

// ---- Prompts -----------------------------------------------------------------------------------

TEST_CASE("Equal ids give equal tokens, other ids give others", "[replay]") {
  const std::vector<uint32_t> one = Prompt(MakeRequest(0, 1024, {5, 6}), 512);
  const std::vector<uint32_t> other = Prompt(MakeRequest(0, 1024, {5, 7}), 512);
  REQUIRE(one.size() == 1024);
  REQUIRE(other.size() == 1024);
  CHECK(std::equal(one.begin(), one.begin() + 512, other.begin()));
  size_t equal = 0;
  for (size_t i = 512; i < 1024; ++i) equal += one[i] == other[i];
  CHECK(equal < 5);  // by chance, 512 pairs in a vocabulary of 128,000
}

TEST_CASE("A partial last block is the beginning of the whole one", "[replay]") {
  const std::vector<uint32_t> whole = Prompt(MakeRequest(0, 64, {3, 4}), 32);
  for (const uint64_t length : {0, 1, 31, 32, 33, 63}) {
    const std::vector<uint32_t> part = Prompt(MakeRequest(0, length, {3, 4}), 32);
    REQUIRE(part.size() == length);
    CHECK(std::equal(part.begin(), part.end(), whole.begin()));
  }
}

TEST_CASE("Generated tokens are inside the vocabulary and use all of it", "[replay]") {
  uint32_t largest = 0;
  double sum = 0;
  const std::vector<uint32_t> tokens = Prompt(MakeRequest(0, 1 << 16, {1}), 1 << 16);
  for (const uint32_t token : tokens) {
    largest = std::max(largest, token);
    sum += token;
  }
  CHECK(largest < kVocabulary);
  CHECK(largest > kVocabulary * 0.999);
  CheckNear(sum / static_cast<double>(tokens.size()), kVocabulary / 2, 0.01);
}

TEST_CASE("Real token ids are passed on as they are", "[replay]") {
  TraceRequest request = MakeRequest(0, 2, {});
  request.tokens = {9, 8, 7};
  CHECK(Prompt(request, 512) == std::vector<uint32_t>{9, 8});
}

// ---- Arrivals ----------------------------------------------------------------------------------

Trace TickTrace() {
  Trace trace;
  for (const double tick_s : {30.0, 33.0, 39.0}) {
    for (uint64_t i = 0; i < 100; ++i) trace.requests.push_back(MakeRequest(tick_s, 1, {i}));
  }
  return trace;
}

std::vector<int64_t> Arrivals(const Trace& trace) {
  std::vector<int64_t> arrivals;
  for (const TraceRequest& request : trace.requests) arrivals.push_back(request.arrival_ns);
  return arrivals;
}

TEST_CASE("Requests of one tick are spread inside it, in the order of the trace", "[replay]") {
  Trace trace = TickTrace();
  const Result<ArrivalSummary> summary = ScheduleArrivals({}, &trace);
  REQUIRE(summary.ok());
  CHECK(summary->tick_s == 3.0);
  CHECK(trace.requests.front().arrival_ns == 0);
  CheckNear(summary->span_s, static_cast<double>(trace.requests.back().arrival_ns) / 1e9);

  std::set<int64_t> distinct;
  for (size_t i = 0; i < trace.requests.size(); ++i) {
    const TraceRequest& request = trace.requests[i];
    CHECK(request.hash_ids[0] == i % 100);
    CHECK((i == 0 || trace.requests[i - 1].arrival_ns <= request.arrival_ns));
    distinct.insert(request.arrival_ns);
  }
  CHECK(distinct.size() > 290);
  // The first request of each tick is early in it, the last one late: the tick is used whole.
  const int64_t tick_ns = 3'000'000'000;
  for (const size_t first : {0, 100, 200}) {
    const int64_t width_ns =
        trace.requests[first + 99].arrival_ns - trace.requests[first].arrival_ns;
    CHECK(width_ns < tick_ns);
    CHECK(width_ns > tick_ns / 2);
  }
}

TEST_CASE("Spreading depends on the seed alone, and can be left out", "[replay]") {
  const auto arrivals = [](const ArrivalOptions& options) {
    Trace trace = TickTrace();
    REQUIRE(ScheduleArrivals(options, &trace).ok());
    return Arrivals(trace);
  };
  ArrivalOptions other_seed;
  other_seed.seed = 2;
  CHECK(arrivals({}) == arrivals({}));
  CHECK(arrivals({}) != arrivals(other_seed));

  ArrivalOptions as_given;
  as_given.spread_ticks = false;
  const std::vector<int64_t> given = arrivals(as_given);
  CHECK(std::set<int64_t>(given.begin(), given.end()) ==
        std::set<int64_t>{0, 3'000'000'000, 9'000'000'000});
}

TEST_CASE("Times without a shared tick stay as they are", "[replay]") {
  Trace trace;
  for (const double time_s : {7.0, 5.0, 6.5}) trace.requests.push_back(MakeRequest(time_s, 1, {1}));
  const Result<ArrivalSummary> summary = ScheduleArrivals({}, &trace);
  REQUIRE(summary.ok());
  CHECK(summary->tick_s == 0);
  CHECK(Arrivals(trace) == std::vector<int64_t>{0, 1'500'000'000, 2'000'000'000});
}

TEST_CASE("Speed shortens the time between requests", "[replay]") {
  Trace trace;
  for (const double time_s : {1.0, 2.0, 5.0}) trace.requests.push_back(MakeRequest(time_s, 1, {1}));
  ArrivalOptions options;
  options.speed = 4;
  const Result<ArrivalSummary> summary = ScheduleArrivals(options, &trace);
  REQUIRE(summary.ok());
  CHECK(summary->span_s == 1.0);
  CHECK(Arrivals(trace) == std::vector<int64_t>{0, 250'000'000, 1'000'000'000});
}

// Five sessions of three requests, 10 s apart, all from time 0.
Trace SessionTrace() {
  Trace trace;
  for (uint64_t session = 0; session < 5; ++session) {
    for (uint64_t step = 0; step < 3; ++step) {
      trace.requests.push_back(
          MakeRequest(10.0 * static_cast<double>(step), 1, {step}, std::to_string(session)));
    }
  }
  return trace;
}

TEST_CASE("Sessions that all begin at one time are started within a window", "[replay]") {
  Trace trace = SessionTrace();
  const Result<ArrivalSummary> summary = ScheduleArrivals({}, &trace);
  REQUIRE(summary.ok());
  CHECK(summary->shifted_sessions == 5);
  CHECK(summary->session_window_s == 20);  // the longest session

  std::map<std::string, std::vector<int64_t>> sessions;
  for (const TraceRequest& request : trace.requests) {
    sessions[request.session_id].push_back(request.arrival_ns);
  }
  std::set<int64_t> starts;
  for (const auto& [id, arrivals] : sessions) {
    REQUIRE(arrivals.size() == 3);
    CHECK(arrivals[1] - arrivals[0] == 10'000'000'000);  // a session keeps its own times
    CHECK(arrivals[2] - arrivals[1] == 10'000'000'000);
    starts.insert(arrivals[0]);
  }
  CHECK(starts.size() == 5);
  CHECK(*starts.begin() == 0);
  CHECK(*starts.rbegin() < 20'000'000'000);
}

TEST_CASE("Sessions start as given with a window of 0, or when they begin at several times",
          "[replay]") {
  Trace trace = SessionTrace();
  ArrivalOptions options;
  options.spread_ticks = false;
  SECTION("window of 0") { options.session_window_s = 0; }
  SECTION("several times") { trace.requests.front().timestamp_ns += 1; }
  const Result<ArrivalSummary> summary = ScheduleArrivals(options, &trace);
  REQUIRE(summary.ok());
  CHECK(summary->shifted_sessions == 0);
  CheckNear(summary->span_s, 20);
}

TEST_CASE("A trace that spans decades is refused", "[replay]") {
  Trace trace;
  trace.requests.push_back(MakeRequest(0, 1, {1}));
  trace.requests.push_back(MakeRequest(1.8e9, 1, {1}));  // Unix time after a time from 0
  const Result<ArrivalSummary> summary = ScheduleArrivals({}, &trace);
  REQUIRE_FALSE(summary.ok());
  CHECK(summary.status().code() == StatusCode::kInvalidArgument);
  CheckContains(summary.status().message(), "1800000000");
}

// ---- The built-in workload ---------------------------------------------------------------------

TEST_CASE("The built-in workload is the same for the same seed", "[replay]") {
  AgentTraceOptions options;
  options.sessions = 20;
  const Trace trace = AgentTrace(options);
  CHECK(Contents(trace) == Contents(AgentTrace(options)));
  options.seed = 2;
  CHECK(Contents(trace) != Contents(AgentTrace(options)));
}

TEST_CASE("Each step of a built-in session repeats its history and adds to it", "[replay]") {
  const Trace trace = AgentTrace({});
  CHECK(trace.requests.size() > 1000);
  std::map<std::string, const TraceRequest*> last;
  std::set<uint64_t> first_ids;
  int64_t time_ns = 0;
  for (const TraceRequest& request : trace.requests) {
    REQUIRE(request.timestamp_ns >= time_ns);
    time_ns = request.timestamp_ns;
    // As many ids as the prompt has blocks.
    REQUIRE(request.hash_ids.size() ==
            (request.prompt_tokens + trace.block_tokens - 1) / trace.block_tokens);
    first_ids.insert(request.hash_ids[0]);

    const TraceRequest*& before = last[request.session_id];
    if (before != nullptr) {
      REQUIRE(request.prompt_tokens > before->prompt_tokens + before->output_tokens);
      REQUIRE(request.timestamp_ns > before->timestamp_ns);
      REQUIRE(
          std::equal(before->hash_ids.begin(), before->hash_ids.end(), request.hash_ids.begin()));
    }
    before = &request;
  }
  CHECK(last.size() == AgentTraceOptions().sessions);
  CHECK(first_ids.size() == AgentTraceOptions().agent_kinds);  // sessions of a kind begin alike
}

// ---- Replays -----------------------------------------------------------------------------------

FleetOptions SmallFleet() {
  FleetOptions fleet;
  fleet.instances = 2;
  fleet.capacity_tokens = 100'000;
  return fleet;
}

// Requests far apart, so that load plays no part: [1 2], [1 2 3], [9], [1 2 3].
Trace SmallTrace() {
  Trace trace;
  trace.block_tokens = 64;
  trace.requests.push_back(MakeRequest(0, 128, {1, 2}));
  trace.requests.push_back(MakeRequest(100, 192, {1, 2, 3}));
  trace.requests.push_back(MakeRequest(200, 64, {9}));
  trace.requests.push_back(MakeRequest(300, 190, {1, 2, 3}));
  REQUIRE(ScheduleArrivals({}, &trace).ok());
  return trace;
}

TEST_CASE("The best possible share is what one cache without limit finds", "[replay]") {
  const Trace trace = SmallTrace();
  FleetOptions fleet = SmallFleet();
  const auto best = [&](uint32_t block_size) {
    fleet.block_size = block_size;
    const Result<ReplaySummary> summary = Replay(trace, fleet, {});
    REQUIRE(summary.ok());
    CHECK(summary->prompt_tokens == 574);
    return summary->best_possible_share;
  };
  // 128 of the second prompt, and of the last 190 what is in whole blocks.
  CheckNear(best(16), (128.0 + 176) / 574);
  CheckNear(best(64), (128.0 + 128) / 574);
  CheckNear(best(128), (128.0 + 128) / 574);
  CHECK(best(256) == 0);
}

TEST_CASE("A replay without load finds all that can be found", "[replay]") {
  const bool leases = GENERATE(false, true);
  CAPTURE(leases);
  FleetOptions fleet = SmallFleet();
  fleet.leases = leases;
  const Result<ReplaySummary> summary = Replay(SmallTrace(), fleet, {"prefix_cost"});
  REQUIRE(summary.ok());
  REQUIRE(summary->policies.size() == 1);
  const PolicyResult& result = summary->policies[0];
  CheckNear(result.cached_token_share, summary->best_possible_share);
  CHECK(result.index_blocks == 16);  // 192 + 64 tokens
  CHECK(result.blocks_held == 16);
  CHECK(result.route_p50_us > 0);
  CHECK(result.route_p99_us >= result.route_p50_us);
}

TEST_CASE("The figures of every policy agree with each other", "[replay]") {
  AgentTraceOptions workload;
  workload.sessions = 30;
  workload.session_window_s = 60;
  Trace trace = AgentTrace(workload);
  REQUIRE(ScheduleArrivals({}, &trace).ok());
  FleetOptions fleet = SmallFleet();
  fleet.instances = 3;
  fleet.capacity_tokens = 1'000'000;
  fleet.leases = GENERATE(false, true);
  const Result<ReplaySummary> summary = Replay(trace, fleet, PolicyNames());
  REQUIRE(summary.ok());
  REQUIRE(summary->policies.size() == PolicyNames().size());
  for (size_t i = 0; i < summary->policies.size(); ++i) {
    const PolicyResult& result = summary->policies[i];
    CAPTURE(result.name, fleet.leases);
    CHECK(result.name == PolicyNames()[i]);
    REQUIRE(result.instances.size() == 3);
    InstanceResult total;
    uint64_t most = 0;
    for (const InstanceResult& instance : result.instances) {
      total.requests += instance.requests;
      total.prompt_tokens += instance.prompt_tokens;
      total.cached_tokens += instance.cached_tokens;
      most = std::max(most, instance.uncached_tokens());
    }
    CHECK(total.requests == trace.requests.size());
    CHECK(total.prompt_tokens == summary->prompt_tokens);
    CheckNear(result.cached_token_share,
              static_cast<double>(total.cached_tokens) / static_cast<double>(total.prompt_tokens));
    CHECK(result.cached_token_share <= summary->best_possible_share);
    CheckNear(result.work_share_max,
              static_cast<double>(most) / static_cast<double>(total.uncached_tokens()));
    CheckNear(result.max_over_mean_work, 3 * result.work_share_max);
    CHECK(result.work_share_min <= 1.0 / 3);
    CHECK(result.work_share_max >= 1.0 / 3);
    CHECK(result.blocks_held <= 3 * CapacityBlocks(fleet));
    CHECK(result.blocks_held >= result.index_blocks);
    CHECK(result.index_bytes > 0);
  }
}

TEST_CASE("A replay can be repeated exactly", "[replay]") {
  AgentTraceOptions workload;
  workload.sessions = 20;
  Trace trace = AgentTrace(workload);
  REQUIRE(ScheduleArrivals({}, &trace).ok());
  FleetOptions fleet;
  fleet.leases = GENERATE(false, true);
  const auto counts = [&] {
    const Result<ReplaySummary> summary = Replay(trace, fleet, {"prefix_cost", "random"});
    REQUIRE(summary.ok());
    std::vector<std::pair<uint64_t, uint64_t>> per_instance;
    for (const PolicyResult& policy : summary->policies) {
      for (const InstanceResult& instance : policy.instances) {
        per_instance.emplace_back(instance.requests, instance.cached_tokens);
      }
    }
    return per_instance;
  };
  CHECK(counts() == counts());
}

TEST_CASE("Options that the router refuses are named", "[replay]") {
  const Trace trace = SmallTrace();
  FleetOptions fleet = SmallFleet();
  std::string policy = "prefix_cost";
  std::string named;
  SECTION("capacity of less than a block") {
    fleet.capacity_tokens = 15;
    named = "15 tokens in blocks of 16";
  }
  SECTION("capacity beyond what is counted") {
    fleet.capacity_tokens = uint64_t{1} << 40;
    named = "1099511627776";
  }
  SECTION("block size of 0") {
    fleet.block_size = 0;
    named = "blocks of 0";
  }
  SECTION("a policy that is not there") {
    policy = "magic";
    named = "magic";
  }
  const Result<ReplaySummary> summary = Replay(trace, fleet, {policy});
  REQUIRE_FALSE(summary.ok());
  CHECK(summary.status().code() == StatusCode::kInvalidArgument);
  CheckContains(summary.status().message(), named);
}

TEST_CASE("Table and JSON say how the figures were made", "[replay]") {
  Trace trace = SmallTrace();
  trace.name = "small \"trace\"";
  trace.skipped_lines = 3;
  const FleetOptions fleet = SmallFleet();
  const ArrivalSummary arrivals = {300, 0, 0, 0};
  const Result<ReplaySummary> summary = Replay(trace, fleet, {"prefix_cost", "random"});
  REQUIRE(summary.ok());
  const Report report = {trace, arrivals, fleet, *summary};

  const std::string table = TableText(report);
  for (const char* part : {"small \"trace\"", "4 within 300 s", "574 prompt tokens", "3 malformed",
                           "2 instances of 100,000 tokens", "prefix_cost", "random", "0.530"}) {
    CheckContains(table, part);
  }
  const std::string json = JsonText(report);
  for (const char* part : {"\"small \\\"trace\\\"\"", "\"requests\": 4", "\"skipped_lines\": 3",
                           "\"name\": \"random\"", "\"best_possible_share\": 0.5296"}) {
    CheckContains(json, part);
  }
}

}  // namespace
}  // namespace prefixrouter::replay
