// When each request of a trace is sent.
//
// Two kinds of trace need help. Some round their times to a tick (3 s in one public trace), and a
// hundred requests in one instant are not what a gateway sees: they are spread uniformly inside the
// tick, in the order of the trace. Others record each session by itself, from its own time 0: the
// sessions are started at uniform times within a window, so that they overlap.
#ifndef PREFIXROUTER_BENCHMARKS_REPLAY_ARRIVALS_H_
#define PREFIXROUTER_BENCHMARKS_REPLAY_ARRIVALS_H_

#include <cstdint>
#include <optional>

#include "benchmarks/replay/trace.h"
#include "prefixrouter/status.h"

namespace prefixrouter::replay {

struct ArrivalOptions {
  bool spread_ticks = true;
  // Sessions that all begin at one time are started within this many seconds. Empty: the length of
  // the longest session. 0: times are taken as they are.
  std::optional<double> session_window_s;
  double speed = 1;  // 2: requests come twice as fast
  uint64_t seed = 1;
};

struct ArrivalSummary {
  double span_s = 0;  // from the first to the last arrival
  double tick_s = 0;  // 0: nothing was spread
  uint64_t shifted_sessions = 0;
  double session_window_s = 0;  // before `speed`
};

// Sets arrival_ns of every request (the first is at 0) and sorts the requests by it.
// kInvalidArgument: the trace would take more than 1e9 seconds.
Result<ArrivalSummary> ScheduleArrivals(const ArrivalOptions& options, Trace* trace);

}  // namespace prefixrouter::replay

#endif  // PREFIXROUTER_BENCHMARKS_REPLAY_ARRIVALS_H_
