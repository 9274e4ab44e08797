// A request trace, and how it is read: JSON lines, plain or gzip, from a file or standard input.
//
// Two forms of line are known. Other fields are ignored, and so are blank lines:
//
//   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, ...]}
//   {"arrival_time_ns": 46926808, "input_toks": 2358, "output_toks": 531, "input_tok_ids": [...]}
//
// The first names each block of the prompt by an id: equal ids mean an equal prefix up to the end
// of that block (`timestamp` is in milliseconds, the last block may be partial). The second holds
// real token ids. Either may have a `session_id`, a string or a whole number.
#ifndef PREFIXROUTER_BENCHMARKS_REPLAY_TRACE_H_
#define PREFIXROUTER_BENCHMARKS_REPLAY_TRACE_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "prefixrouter/status.h"

namespace prefixrouter::replay {

// Longest prompt and output that a line may name: the router's own bound on prompts.
inline constexpr uint64_t kMaxTokens = uint64_t{1} << 24;

struct TraceRequest {
  int64_t timestamp_ns = 0;  // as the trace has it
  int64_t arrival_ns = 0;    // when the replay sends it: set by ScheduleArrivals
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

enum class OnError { kSkip, kRefuse };

struct ReadOptions {
  uint32_t block_tokens = 512;
  OnError on_error = OnError::kSkip;
  uint64_t limit = 0;  // stop after so many requests; 0: read all
};

// Reads `path`, or standard input when it is "-". Gzip is recognised by its first bytes. A
// malformed line is named on `warnings` and skipped, or refused with kInvalidArgument.
//
// kNotFound: the file cannot be opened. kInvalidArgument: it cannot be read as text or gzip, is
// empty, or has no usable line.
Result<Trace> ReadTrace(const std::string& path, const ReadOptions& options,
                        std::ostream& warnings);

// One line. `cut` is set when its length and ids do not agree. kInvalidArgument says what is wrong,
// naming the field and the value.
Result<TraceRequest> ParseTraceLine(std::string_view line, uint32_t block_tokens, bool* cut);

}  // namespace prefixrouter::replay

#endif  // PREFIXROUTER_BENCHMARKS_REPLAY_TRACE_H_
