// Arrival times: delays become times first, then sessions are shifted, ticks are spread, and the
// speed is applied.
#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "lib/sim/random.h"
#include "prefixrouter/trace.h"

namespace prefixrouter {
namespace {

constexpr double kMaxSpanSeconds = 1e9;

struct Session {
  int64_t first_ns = std::numeric_limits<int64_t>::max();
  int64_t last_ns = 0;
  int64_t shift_ns = 0;
};

// Turns that have a delay in place of a time, in the order of the trace.
void PlaceDelayedTurns(std::vector<TraceRequest>* requests) {
  constexpr int64_t kFarthestNs = std::numeric_limits<int64_t>::max() / 4;
  std::map<std::string_view, int64_t> turn_end_ns;  // of the sessions' last turn so far
  for (TraceRequest& request : *requests) {
    if (request.session_id.empty()) continue;
    const auto previous = turn_end_ns.find(request.session_id);
    if (request.timestamp_ns < 0) {
      request.arrival_ns = previous == turn_end_ns.end()
                               ? 0
                               : previous->second + std::min(request.delay_ns, kFarthestNs);
    }
    const double output_s = kNominalOutputTokenSeconds * static_cast<double>(request.output_tokens);
    turn_end_ns[request.session_id] =
        std::min(request.arrival_ns + static_cast<int64_t>(output_s * 1e9), kFarthestNs);
  }
}

// The sessions of a trace in which all begin at one time; else none.
std::map<std::string, Session> RelativeSessions(const Trace& trace) {
  std::map<std::string, Session> sessions;
  for (const TraceRequest& request : trace.requests) {
    if (request.session_id.empty()) return {};
    Session& session = sessions[request.session_id];
    session.first_ns = std::min(session.first_ns, request.arrival_ns);
    session.last_ns = std::max(session.last_ns, request.arrival_ns);
  }
  const auto begins_elsewhere = [&](const auto& entry) {
    return entry.second.first_ns != sessions.begin()->second.first_ns;
  };
  if (sessions.size() < 2 || std::any_of(sessions.begin(), sessions.end(), begins_elsewhere)) {
    return {};
  }
  return sessions;
}

void ShiftSessions(const ArrivalOptions& options, Trace* trace, ArrivalSummary* summary) {
  if (options.session_window_s == 0) return;
  std::map<std::string, Session> sessions = RelativeSessions(*trace);
  if (sessions.empty()) return;

  double window_ns = 0;
  for (const auto& [id, session] : sessions) {
    window_ns = std::max(window_ns, static_cast<double>(session.last_ns - session.first_ns));
  }
  if (options.session_window_s) window_ns = *options.session_window_s * 1e9;

  SplitMix64 random(options.seed);
  for (auto& [id, session] : sessions) {
    session.shift_ns = static_cast<int64_t>(random.Uniform() * window_ns);
  }
  for (TraceRequest& request : trace->requests) {
    request.arrival_ns += sessions[request.session_id].shift_ns;
  }
  summary->shifted_sessions = sessions.size();
  summary->session_window_s = window_ns / 1e9;
}

// REQUIRES: the requests are sorted by arrival.
void SpreadTicks(uint64_t seed, std::vector<TraceRequest>* requests, ArrivalSummary* summary) {
  int64_t tick_ns = 0;
  bool shared = false;
  for (size_t i = 1; i < requests->size(); ++i) {
    const int64_t step_ns = (*requests)[i].arrival_ns - (*requests)[i - 1].arrival_ns;
    shared |= step_ns == 0;
    if (step_ns > 0 && (tick_ns == 0 || step_ns < tick_ns)) tick_ns = step_ns;
  }
  if (!shared || tick_ns == 0) return;

  SplitMix64 random(seed);
  std::vector<int64_t> offsets;
  for (size_t begin = 0; begin < requests->size();) {
    const int64_t at_ns = (*requests)[begin].arrival_ns;
    size_t end = begin;
    for (; end < requests->size() && (*requests)[end].arrival_ns == at_ns; ++end) {
      offsets.push_back(static_cast<int64_t>(random.Uniform() * static_cast<double>(tick_ns)));
    }
    std::sort(offsets.begin(), offsets.end());
    for (size_t i = begin; i < end; ++i) (*requests)[i].arrival_ns += offsets[i - begin];
    offsets.clear();
    begin = end;
  }
  summary->tick_s = static_cast<double>(tick_ns) / 1e9;
}

}  // namespace

Result<ArrivalSummary> ScheduleArrivals(const ArrivalOptions& options, Trace* trace) {
  const auto refuse = [](const char* field, double value, const char* range) {
    return Status(StatusCode::kInvalidArgument,
                  std::string(field) + " must be " + range + ", got " + std::to_string(value));
  };
  if (!(options.speed >= 1e-6 && options.speed <= 1e6)) {
    return refuse("speed", options.speed, "1e-6 to 1e6");
  }
  const double window_s = options.session_window_s.value_or(0);
  if (!(window_s >= 0 && window_s <= 1e9)) {
    return refuse("session_window_s", window_s, "0 to 1e9");
  }
  ArrivalSummary summary;
  std::vector<TraceRequest>& requests = trace->requests;
  if (requests.empty()) return summary;

  for (TraceRequest& request : requests) request.arrival_ns = request.timestamp_ns;
  PlaceDelayedTurns(&requests);
  ShiftSessions(options, trace, &summary);
  std::stable_sort(requests.begin(), requests.end(),
                   [](const auto& a, const auto& b) { return a.arrival_ns < b.arrival_ns; });
  if (options.spread_ticks) SpreadTicks(options.seed, &requests, &summary);

  const int64_t first_ns = requests.front().arrival_ns;
  summary.span_s = static_cast<double>(requests.back().arrival_ns - first_ns) / 1e9 / options.speed;
  if (!(summary.span_s <= kMaxSpanSeconds)) {
    return Status(StatusCode::kInvalidArgument, trace->name + ": its times span " +
                                                    std::to_string(summary.span_s) +
                                                    " s at this speed; at most 1e9 are replayed");
  }
  for (TraceRequest& request : requests) {
    request.arrival_ns =
        static_cast<int64_t>(static_cast<double>(request.arrival_ns - first_ns) / options.speed);
  }
  return summary;
}

}  // namespace prefixrouter
