#include "benchmarks/conversation.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <numbers>
#include <utility>

#include "benchmarks/fleet.h"
#include "benchmarks/replay/replay.h"
#include "lib/sim/random.h"
#include "prefixrouter/trace.h"

namespace prefixrouter::bench {
namespace {

constexpr char kTraceFile[] = "mooncake_conversation_trace.jsonl.gz";

// The shape of the generated workload, taken from the trace: sizes, and how far requests share.
constexpr uint64_t kRequests = 12031;
constexpr uint64_t kTicks = 1179;
constexpr int64_t kTickNanos = 3'000'000'000;
constexpr double kContinuedShare = 0.39;
constexpr size_t kOpenConversations = 1200;  // a request continues one of the latest so many
constexpr double kFirstPromptMedian = 4700;
constexpr double kAddedMedian = 3300;  // the answer and the next question
constexpr double kSigma = 1.1;         // of the logarithm of both
constexpr uint64_t kMinTokens = 600;
constexpr uint64_t kMaxTokens = 126'000;

double LogNormal(SplitMix64& random, double median) {
  const double radius = std::sqrt(-2 * std::log(1 - random.Uniform()));
  return median * std::exp(kSigma * radius * std::cos(2 * std::numbers::pi * random.Uniform()));
}

Trace Generate() {
  Trace trace;
  SplitMix64 random(kSeed);
  uint64_t next_id = 1;  // id 0 is the block that all share
  // Of each conversation the latest request.
  std::vector<size_t> open;
  for (uint64_t n = 0; n < kRequests; ++n) {
    TraceRequest request;
    request.timestamp_ns = static_cast<int64_t>(n * kTicks / kRequests) * kTickNanos;
    double tokens = 0;
    size_t* conversation = nullptr;
    if (!open.empty() && random.Uniform() < kContinuedShare) {
      const size_t from = open.size() - std::min(open.size(), kOpenConversations);
      conversation = &open[random.Between(from, open.size() - 1)];
      const TraceRequest& previous = trace.requests[*conversation];
      const size_t full_blocks = previous.prompt_tokens / trace.block_tokens;
      request.hash_ids.assign(previous.hash_ids.begin(),
                              previous.hash_ids.begin() + static_cast<ptrdiff_t>(full_blocks));
      tokens = static_cast<double>(previous.prompt_tokens) + LogNormal(random, kAddedMedian);
    } else {
      request.hash_ids = {0};
      conversation = &open.emplace_back();
      tokens = LogNormal(random, kFirstPromptMedian);
    }
    *conversation = trace.requests.size();
    request.prompt_tokens = std::clamp(static_cast<uint64_t>(tokens), kMinTokens, kMaxTokens);
    while (request.hash_ids.size() * trace.block_tokens < request.prompt_tokens) {
      request.hash_ids.push_back(next_id++);
    }
    trace.requests.push_back(std::move(request));
  }
  return trace;
}

}  // namespace

Conversation::Conversation(const std::string& trace_dir) {
  const std::filesystem::path path = std::filesystem::path(trace_dir) / kTraceFile;
  if (std::filesystem::exists(path)) {
    Result<Trace> trace = ReadTrace(path.string(), {}, std::cerr);
    if (!trace.ok()) Require(false, trace.status().ToString().c_str());
    trace_ = *std::move(trace);
    source_ = "mooncake_conversation_trace";
  } else {
    std::cerr << "  " << path.string() << " is not there: the trace figures are of a generated "
              << "workload of the same shape\n";
    trace_ = Generate();
    source_ = "generated, for lack of the conversation trace";
  }
  const auto arrivals = ScheduleArrivals({}, &trace_);
  if (!arrivals.ok()) Require(false, arrivals.status().ToString().c_str());
  best_cached_share_ = replay::BestPossibleShare(trace_, RouterOptions().block_size);
}

const TraceRequest& Conversation::longest() const {
  return *std::max_element(requests().begin(), requests().end(), [](const auto& a, const auto& b) {
    return a.prompt_tokens < b.prompt_tokens;
  });
}

}  // namespace prefixrouter::bench
