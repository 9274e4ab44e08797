// Request traces: what is in one, how it is read, and when its requests are sent.
//
// A trace is JSON lines, plain or gzip, from a file or standard input. Two forms of line are known.
// Other fields are ignored, and so are blank lines:
//
//   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, ...]}
//   {"arrival_time_ns": 46926808, "input_toks": 2358, "output_toks": 531, "input_tok_ids": [...]}
//
// The first is the form of Mooncake and AIPerf: each block of the prompt has an id, and equal ids
// mean an equal prefix up to the end of that block (`timestamp` is in milliseconds, the last block
// may be partial). The second holds real token ids. Either may have a `session_id`, a string or a
// whole number; lines with one id are the turns of a conversation, in their order. A later turn may
// have `delay` in place of `timestamp`: milliseconds from the end of the turn before it.
//
//   Result<Trace> trace = ReadTrace("trace.jsonl.gz", {}, std::cerr);
//   Result<ArrivalSummary> arrivals = ScheduleArrivals({}, &*trace);
//
// Plain data without locks. Neighbours: generators and Workload in workload.h.
#ifndef PREFIXROUTER_TRACE_H_
#define PREFIXROUTER_TRACE_H_

#include <cstdint>
#include <optional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "prefixrouter/status.h"

namespace prefixrouter {

// Longest prompt and output that a line may name: the router's own bound on prompts.
inline constexpr uint64_t kMaxTraceTokens = uint64_t{1} << 24;

// How long an output token is taken to have lasted where a trace does not tell when a turn ended.
inline constexpr double kNominalOutputTokenSeconds = 0.02;

struct TraceRequest {
  int64_t timestamp_ns = 0;  // as the trace has it; negative: it has none, only a delay
  int64_t arrival_ns = 0;    // when it is sent: set by ScheduleArrivals
  int64_t delay_ns = -1;     // from the end of the session's turn before it; negative: not given
  uint64_t prompt_tokens = 0;
  uint64_t output_tokens = 0;
  std::vector<uint64_t> hash_ids;  // one for each trace block; empty if `tokens` is not
  std::vector<uint32_t> tokens;    // real token ids
  std::string session_id;          // empty: none
};

struct Trace {
  std::string name;
  uint32_t block_tokens = 512;  // tokens that a hash id stands for
  std::vector<TraceRequest> requests;
  uint64_t skipped_lines = 0;  // malformed
  // Lines whose length and number of ids do not agree. The shorter of the two counts: some traces
  // list full blocks only.
  uint64_t cut_lines = 0;
};

// ---- Reading -----------------------------------------------------------------------------------

enum class OnError { kSkip, kRefuse };

struct ReadOptions {
  uint32_t block_tokens = 512;  // tokens that a hash id stands for, 1 to 65,536
  OnError on_error = OnError::kSkip;
  uint64_t limit = 0;  // stop after so many requests; 0: read all
};

// Reads `path`, or standard input when it is "-". Gzip is recognised by its first bytes. A
// malformed line is named on `warnings` (the first 20 of them) and skipped, or refused with
// kInvalidArgument.
//
// kNotFound: the file cannot be opened. kInvalidArgument: it cannot be read as text or gzip, is
// empty, or has no usable line; or block_tokens is out of range.
Result<Trace> ReadTrace(const std::string& path, const ReadOptions& options,
                        std::ostream& warnings);

// One line. `cut` is set when its length and ids do not agree. kInvalidArgument says what is wrong,
// naming the field and the value.
Result<TraceRequest> ParseTraceLine(std::string_view line, uint32_t block_tokens, bool* cut);

// The request as one line of the first form (of the second if it has token ids), without a line
// end. ParseTraceLine reads it back.
std::string TraceLine(const TraceRequest& request);

// ---- Arrival times -----------------------------------------------------------------------------

// Three kinds of trace need help. Some round their times to a tick (3 s in one public trace), and a
// hundred requests in one instant are not what a gateway sees: they are spread uniformly inside the
// tick, in the order of the trace. Others record each session by itself, from its own time 0: the
// sessions are started at uniform times within a window, so that they overlap. And some give later
// turns as delays: these follow the turn before them after its output, at
// kNominalOutputTokenSeconds a token, and the delay.
struct ArrivalOptions {
  bool spread_ticks = true;
  // Sessions that all begin at one time are started within this many seconds. Empty: the length of
  // the longest session. 0: times are taken as they are. Range 0 to 1e9.
  std::optional<double> session_window_s;
  double speed = 1;  // 2: requests come twice as fast. Range 1e-6 to 1e6.
  uint64_t seed = 1;
};

struct ArrivalSummary {
  double span_s = 0;  // from the first to the last arrival
  double tick_s = 0;  // 0: nothing was spread
  uint64_t shifted_sessions = 0;
  double session_window_s = 0;  // before `speed`
};

// Sets arrival_ns of every request (the first is at 0) and sorts the requests by it.
// kInvalidArgument: an option is out of range, or the trace would take more than 1e9 seconds.
Result<ArrivalSummary> ScheduleArrivals(const ArrivalOptions& options, Trace* trace);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_TRACE_H_
