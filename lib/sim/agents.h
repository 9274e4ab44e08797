// The built-in workload: coding and research agents, generated, for a replay without a trace file.
//
// There are a few kinds of agent. All sessions of a kind begin with its system prompt and tool
// definitions. Every step of a session sends the whole history again and ends with what is new: the
// model's last answer and the output of the tool that it called. So nearly all of a prompt can be
// found cached, on the instance that served the session's last step, and some of it on any instance
// that has seen the kind. The figures of such a workload show that the router works; they say
// nothing about real traffic.
#ifndef PREFIXROUTER_LIB_SIM_AGENTS_H_
#define PREFIXROUTER_LIB_SIM_AGENTS_H_

#include <cstdint>

#include "prefixrouter/trace.h"

namespace prefixrouter {

struct AgentTraceOptions {
  uint32_t agent_kinds = 6;
  uint32_t sessions = 480;
  double session_window_s = 300;  // sessions start uniformly within it
  uint64_t seed = 1;
};

// The same trace for the same options, on every machine. Requests are in the order of their times.
Trace AgentTrace(const AgentTraceOptions& options);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_SIM_AGENTS_H_
