// RenderMetrics: a router's statistics as a page for Prometheus.
//
//   auto stats = router->Stats();
//   auto page = prefixrouter::RenderMetrics(stats);
//   if (page.ok()) Respond(200, prefixrouter::kMetricsContentType, *page);
//
// docs/metrics.md says which metric answers which question. All names begin with prefix_router_;
// durations are in seconds, sizes in bytes, counters end in _total. Labels of a series of one
// instance are `instance_name` and `rank` (`instance` is a label of Prometheus itself). A name that
// is not valid UTF-8, which Prometheus would refuse together with the whole page, is written with
// \xNN for each byte that is at fault.
//
// Thread-safe; keeps nothing. Cost: about 2 us and 1.8 KB an instance, and 5 us for the rest. A
// gateway of thousands of instances that is scraped often sets per_instance to false.
#ifndef PREFIXROUTER_ROUTER_METRICS_H_
#define PREFIXROUTER_ROUTER_METRICS_H_

#include <string>
#include <utility>
#include <vector>

#include "prefixrouter/span.h"
#include "prefixrouter/stats.h"
#include "prefixrouter/status.h"

namespace prefixrouter {

// For the header Content-Type of the answer.
inline constexpr char kMetricsContentType[] = "text/plain; version=0.0.4; charset=utf-8";

struct MetricsOptions {
  // Series for each instance too. Default true.
  bool per_instance = true;
};

// One of several routers on a page: its statistics, and labels that tell it from the others.
struct MetricsSource {
  const RouterStats* stats = nullptr;
  // Name and value. Names are letters, digits and '_', begin with no digit and not with "__", and
  // are none of the labels that the router uses itself (docs/metrics.md).
  std::vector<std::pair<std::string, std::string>> labels;
};

// Fails only for lack of memory: kResourceExhausted.
Result<std::string> RenderMetrics(const RouterStats& stats, const MetricsOptions& options = {});

// Several routers on one page, as the format wants it: by metric, then by router. kInvalidArgument:
// a null pointer, a label that may not be, or two sources with the same labels.
Result<std::string> RenderMetrics(Span<const MetricsSource> sources,
                                  const MetricsOptions& options = {});

}  // namespace prefixrouter

#endif  // PREFIXROUTER_ROUTER_METRICS_H_
