// The workload of the trace figures: Mooncake's conversation trace when it is there, otherwise one
// of the same shape that is generated from a fixed seed.
#ifndef PREFIXROUTER_BENCHMARKS_CONVERSATION_H_
#define PREFIXROUTER_BENCHMARKS_CONVERSATION_H_

#include <cstdint>
#include <string>
#include <vector>

#include "benchmarks/measure.h"
#include "lib/sim/prompt.h"
#include "prefixrouter/clock.h"
#include "prefixrouter/span.h"
#include "prefixrouter/trace.h"

namespace prefixrouter::bench {

class Conversation {
 public:
  // Reads DIR/mooncake_conversation_trace.jsonl.gz. When there is no such file, generates 12,031
  // requests over 3,537 s with a mean prompt of about 12,000 tokens, 61 % new conversations and 39
  // % that continue one, all behind one shared first block. Arrivals are spread inside their 3 s
  // tick.
  explicit Conversation(const std::string& trace_dir);

  const std::string& source() const { return source_; }  // which of the two, in words
  const Trace& trace() const { return trace_; }
  const std::vector<TraceRequest>& requests() const { return trace_.requests; }
  // Share of the prompt tokens that one cache without a bound would find.
  double best_cached_share() const { return best_cached_share_; }

  // The prompt of a request. The data are valid until the next call.
  Span<const uint32_t> Prompt(const TraceRequest& request) {
    BuildPrompt(request, trace_.block_tokens, &buffer_);
    return {buffer_.data(), buffer_.size()};
  }
  const TraceRequest& longest() const;

  // Calls route(tokens) for each request in order of arrival, with the clock set to it. Returns the
  // nanoseconds spent in these calls, without those of making the prompts.
  template <typename Route>
  double Replay(ManualClock& clock, Route&& route) {
    int64_t nanos = 0;
    for (const TraceRequest& request : trace_.requests) {
      const Span<const uint32_t> prompt = Prompt(request);
      clock.SetNanos(request.arrival_ns);
      const int64_t begin = NowNanos();
      route(prompt);
      nanos += NowNanos() - begin;
    }
    return static_cast<double>(nanos);
  }

 private:
  Trace trace_;
  std::string source_;
  double best_cached_share_ = 0;
  std::vector<uint32_t> buffer_;
};

}  // namespace prefixrouter::bench

#endif  // PREFIXROUTER_BENCHMARKS_CONVERSATION_H_
