// What a replay prints: the table for people, and the same as JSON for programs.
#ifndef PREFIXROUTER_BENCHMARKS_REPLAY_REPORT_H_
#define PREFIXROUTER_BENCHMARKS_REPLAY_REPORT_H_

#include <string>

#include "benchmarks/replay/replay.h"
#include "prefixrouter/trace.h"

namespace prefixrouter::replay {

// Everything that a report is made of, borrowed.
struct Report {
  const Trace& trace;
  const ArrivalSummary& arrivals;
  const FleetOptions& fleet;
  const ReplaySummary& summary;
};

// How the figures were made, and one line for each policy.
std::string TableText(const Report& report);

// One JSON object, ending in a newline. Its names are in benchmarks/replay/report.cc.
std::string JsonText(const Report& report);

}  // namespace prefixrouter::replay

#endif  // PREFIXROUTER_BENCHMARKS_REPLAY_REPORT_H_
