// The measurements of prefix_router_ratios. Each function measures what its comment says and
// reports it under the names that benchmarks/bars.tsv lists, with bars and goals beside them.
#ifndef PREFIXROUTER_BENCHMARKS_RATIOS_H_
#define PREFIXROUTER_BENCHMARKS_RATIOS_H_

#include <string>

#include "benchmarks/measure.h"

namespace prefixrouter::bench {

struct RatioOptions {
  int repetitions = 11;   // of the slow pairs; quick ones are repeated 10 times as often
  std::string trace_dir;  // where the conversation trace is looked for
};

// ---- ratio_route.cc: Route against one XXH3 pass over the same bytes, and against itself
// ---------

// route_known_8k
void MeasureRouteKnown(const RatioOptions& options, Report& report);
// route_new_8k
void MeasureRouteNew(const RatioOptions& options, Report& report);
// route_4096_vs_64
void MeasureRouteManyInstances(const RatioOptions& options, Report& report);
// route_128k_vs_64k
void MeasureRouteLongPrompt(const RatioOptions& options, Report& report);
// route_allocations
void MeasureRouteAllocations(const RatioOptions& options, Report& report);

// ---- ratio_threads.cc ---------------------------------------------------------------------------

// threads_2_vs_1
void MeasureThreads(const RatioOptions& options, Report& report);

// ---- ratio_index.cc: memory and eviction --------------------------------------------------------

// bytes_per_holder_block_shared
void MeasureSharedPromptBytes(const RatioOptions& options, Report& report);
// evict_5m_vs_100k
void MeasureEvict(const RatioOptions& options, Report& report);

// ---- ratio_events.cc: KV events -----------------------------------------------------------------

// event_block_ops_per_s, event_apply_vs_decode
void MeasureEvents(const RatioOptions& options, Report& report);
// replay_1m_blocks_s
void MeasureReplay(const RatioOptions& options, Report& report);
// match_p99_under_events
void MeasureMatchUnderEvents(const RatioOptions& options, Report& report);
// bytes_per_membership_events
void MeasureEventBytes(const RatioOptions& options, Report& report);

// ---- ratio_capi.cc: what the C interface adds ---------------------------------------------------

// c_overhead_ns
void MeasureCOverhead(const RatioOptions& options, Report& report);

// ---- ratio_trace.cc: the conversation trace -----------------------------------------------------

// trace_vs_block_map
void MeasureTraceVsBlockMap(const RatioOptions& options, Report& report);
// bytes_per_holder_block_trace, index_bytes_vs_allocator
void MeasureTraceBytes(const RatioOptions& options, Report& report);
// cached_share_conversation, balance_conversation
void MeasureConversation(const RatioOptions& options, Report& report);

// ---- ratio_simulator.cc -------------------------------------------------------------------------

// simulator_seconds
void MeasureSimulator(const RatioOptions& options, Report& report);

}  // namespace prefixrouter::bench

#endif  // PREFIXROUTER_BENCHMARKS_RATIOS_H_
