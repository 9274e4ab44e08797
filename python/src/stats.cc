#include "stats.h"

#include <string>
#include <utility>

#include "arguments.h"
#include "kv_events.h"
#include "prefixrouter/decision.h"

namespace prefixrouter::python {
namespace {

struct PyInstanceStats {
  std::shared_ptr<const RouterStats> all;
  size_t index;  // in all->instances
  py::object instance;

  const InstanceStats& stats() const { return all->instances[index]; }
};

struct PyStats {
  std::shared_ptr<const RouterStats> all;
  py::tuple instances;

  const RouterStats& stats() const { return *all; }
};

constexpr const char* kStatsDoc =
    "Counters and sizes of a router, as one consistent copy. Read-only.\n";

constexpr const char* kInstanceStatsDoc = "Counters of one instance, in ``Stats.instances``.\n";

constexpr const char* kHistogramDoc =
    "Durations by size, in buckets that double: quantiles are known to a factor of 2, from 250 ns\n"
    "to 131 ms. Read-only.\n";

template <typename Class, typename Stats, typename Field>
void Bind(py::class_<Class>& cls, const char* name, Field Stats::*field, const char* doc) {
  cls.def_property_readonly(
      name, [field](const Class& self) { return self.stats().*field; }, doc);
}

// What is negative when it is not known, as None.
template <typename Field>
void BindOptional(py::class_<PyInstanceStats>& cls, const char* name, Field InstanceStats::*field,
                  const char* doc) {
  cls.def_property_readonly(
      name, [field](const PyInstanceStats& self) { return NoneIfNegative(self.stats().*field); },
      doc);
}

py::dict ByTier(const uint64_t (&counts)[kKvTierCount]) {
  py::dict by_tier;
  for (int tier = 0; tier < kKvTierCount; ++tier) {
    by_tier[KvTierName(static_cast<KvTier>(tier))] = counts[tier];
  }
  return by_tier;
}

py::dict ByRule(const uint64_t (&counts)[kRuleCount]) {
  py::dict by_rule;
  for (int rule = 0; rule < kRuleCount; ++rule) {
    by_rule[RuleName(static_cast<Rule>(rule))] = counts[rule];
  }
  return by_rule;
}

void BindHistogram(py::module_& module) {
  py::class_<DurationHistogram> cls(module, "DurationHistogram", py::is_final(), kHistogramDoc);
  ForbidNew(cls);
  cls.def_property_readonly(
         "counts",
         [](const DurationHistogram& self) {
           py::tuple counts(DurationHistogram::kBuckets);
           for (int i = 0; i < DurationHistogram::kBuckets; ++i) counts[i] = self.counts[i];
           return counts;
         },
         "tuple[int, ...]: durations by bucket: of at most ``upper_bounds_s[i]``, and in no\n"
         "earlier bucket.")
      .def_property_readonly(
          "upper_bounds_s",
          [](const DurationHistogram&) {
            py::tuple bounds(DurationHistogram::kBuckets);
            for (int i = 0; i < DurationHistogram::kBuckets; ++i) {
              bounds[i] = DurationHistogram::UpperBound(i);
            }
            return bounds;
          },
          "tuple[float, ...]: bounds of the buckets, in seconds; the last one is infinite.")
      .def_property_readonly("count", &DurationHistogram::count, "int: all durations.")
      .def_readonly("sum_s", &DurationHistogram::sum_s, "float: their sum, in seconds.")
      .def("__repr__", [](const DurationHistogram& self) {
        return "<DurationHistogram: " + std::to_string(self.count()) + " durations, " +
               std::to_string(self.sum_s) + " s>";
      });
}

void BindInstanceStats(py::module_& module) {
  py::class_<PyInstanceStats> cls(module, "InstanceStats", py::is_final(), kInstanceStatsDoc);
  ForbidNew(cls);
  cls.def_property_readonly(
      "instance", [](const PyInstanceStats& self) { return self.instance; },
      "Instance: whose counters they are.");
  Bind(cls, "name", &InstanceStats::name, "str: its name.");
  Bind(cls, "rank", &InstanceStats::rank, "int: its data-parallel rank.");
  Bind(cls, "state", &InstanceStats::state, "InstanceState: its state now.");
  Bind(cls, "requests_in_flight", &InstanceStats::requests_in_flight, "int: leases.");
  Bind(cls, "requests_waiting", &InstanceStats::requests_waiting,
       "int: leases before their first token.");
  Bind(cls, "pending_tokens", &InstanceStats::pending_tokens, "int: uncached tokens of those.");
  Bind(cls, "kv_tokens", &InstanceStats::kv_tokens, "int: prompt and output tokens of leases.");
  Bind(cls, "fluid_tokens", &InstanceStats::fluid_tokens,
       "float: predicted work, in tokens, of requests without a lease.");
  Bind(cls, "blocks_held", &InstanceStats::blocks_held, "int: blocks, predicted and confirmed.");
  Bind(cls, "capacity_blocks", &InstanceStats::capacity_blocks, "int: as configured.");
  Bind(cls, "capacity_scale", &InstanceStats::capacity_scale,
       "float: learned; the true capacity is ``capacity_blocks * capacity_scale``.");
  Bind(cls, "prefill_tokens_per_s", &InstanceStats::prefill_tokens_per_s,
       "float: that decisions use; learned, configured or the fleet's.");
  Bind(cls, "prefill_rate_learned", &InstanceStats::prefill_rate_learned,
       "bool: the rate is learned.");
  BindOptional(cls, "report_age_s", &InstanceStats::report_age_s,
               "float or None: age of the last engine report, in seconds.");
  BindOptional(cls, "reported_running_requests", &InstanceStats::reported_running_requests,
               "int or None: in that report, as it was given; requests in the engine's batch.");
  BindOptional(cls, "reported_waiting_requests", &InstanceStats::reported_waiting_requests,
               "int or None: in that report; requests in the engine's queue.");
  BindOptional(cls, "reported_kv_usage", &InstanceStats::reported_kv_usage,
               "float or None: in that report; share of KV blocks in use.");
  Bind(cls, "requests", &InstanceStats::requests, "int: requests since it was added.");
  cls.def_property_readonly(
      "requests_by_rule",
      [](const PyInstanceStats& self) { return ByRule(self.stats().requests_by_rule); },
      "dict[str, int]: ``requests`` by ``Decision.rule``.");
  Bind(cls, "prompt_tokens", &InstanceStats::prompt_tokens, "int: of them.");
  Bind(cls, "cached_tokens", &InstanceStats::cached_tokens,
       "int: of them, predicted cached when routed.");
  Bind(cls, "event_driven", &InstanceStats::event_driven,
       "bool: some batch of its KV events was applied.");
  BindOptional(cls, "last_event_age_s", &InstanceStats::last_event_age_s,
               "float or None: seconds since the last batch was applied.");
  cls.def_property_readonly(
      "kv_events", [](const PyInstanceStats& self) { return ByOutcome(self.stats().kv_events); },
      "dict[str, int]: blocks, events and messages by what became of them, as in\n"
      "``KvApplyResult.counts``.");
  Bind(cls, "engine_blocks", &InstanceStats::engine_blocks,
       "int: blocks that its events have stored, by the engine's count.");
  cls.def_property_readonly(
      "confirmed_blocks",
      [](const PyInstanceStats& self) { return ByTier(self.stats().confirmed_blocks); },
      "dict[str, int]: of ``blocks_held``, those confirmed by events, by their best tier.");
  cls.def("__repr__", [](const PyInstanceStats& self) {
    const InstanceStats& stats = self.stats();
    return "<InstanceStats " + py::repr(self.instance).cast<std::string>() + ": " +
           std::to_string(stats.requests) + " requests, " +
           std::to_string(stats.requests_in_flight) + " in flight, " +
           std::to_string(stats.cached_tokens) + " of " + std::to_string(stats.prompt_tokens) +
           " tokens cached>";
  });
}

}  // namespace

void BindStats(py::module_& module) {
  BindHistogram(module);
  BindInstanceStats(module);
  py::class_<PyStats> cls(module, "Stats", py::is_final(), kStatsDoc);
  ForbidNew(cls);
  Bind(cls, "requests", &RouterStats::requests, "int: requests that got an instance.");
  Bind(cls, "rejected", &RouterStats::rejected, "int: requests refused by ``max_ttft_s``.");
  Bind(cls, "unavailable", &RouterStats::unavailable,
       "int: requests refused because no instance was ready and allowed.");
  Bind(cls, "prompt_tokens", &RouterStats::prompt_tokens, "int: of ``requests``.");
  Bind(cls, "cached_tokens", &RouterStats::cached_tokens,
       "int: of them, predicted cached on the chosen instance.");
  Bind(cls, "best_cached_tokens", &RouterStats::best_cached_tokens,
       "int: of them, the most that any candidate held.");
  cls.def_property_readonly(
      "decisions_by_rule",
      [](const PyStats& self) { return ByRule(self.stats().decisions_by_rule); },
      "dict[str, int]: requests by ``Decision.rule``.");
  Bind(cls, "stale_report_decisions", &RouterStats::stale_report_decisions,
       "int: requests whose instance had an engine report that was too old to be used.");
  Bind(cls, "leases_finished", &RouterStats::leases_finished, "int: leases finished.");
  Bind(cls, "leases_cancelled", &RouterStats::leases_cancelled, "int: leases cancelled.");
  Bind(cls, "leases_expired", &RouterStats::leases_expired, "int: leases expired.");
  Bind(cls, "output_tokens", &RouterStats::output_tokens, "int: reported by finished leases.");
  Bind(cls, "route_duration", &RouterStats::route_duration,
       "DurationHistogram: how long requests took, by the router's clock, with waiting for other\n"
       "threads and a custom policy's time, whatever their outcome; without the reading of the\n"
       "arguments. A sample, see ``latency_interval_s``.");
  Bind(cls, "reported_requests", &RouterStats::reported_requests,
       "int: finished leases whose engine reported its cached tokens.");
  Bind(cls, "reported_cached_tokens", &RouterStats::reported_cached_tokens,
       "int: tokens that it reported.");
  Bind(cls, "predicted_cached_tokens", &RouterStats::predicted_cached_tokens,
       "int: tokens that were predicted for the same requests.");
  Bind(cls, "over_predicted_tokens", &RouterStats::over_predicted_tokens,
       "int: tokens predicted but not found.");
  Bind(cls, "under_predicted_tokens", &RouterStats::under_predicted_tokens,
       "int: tokens found but not predicted.");
  Bind(cls, "requests_at_home", &RouterStats::requests_at_home,
       "int: with several routers in front of one fleet (``routers``), requests that were placed\n"
       "where the others look for them.");
  Bind(cls, "home_share", &RouterStats::home_share,
       "float: share of what this router did not know to be there that engines then reported as\n"
       "cached: learned, 0 to 1, and one half until then. 0 with one router, and with policies\n"
       "without homes.");
  Bind(cls, "index_bytes", &RouterStats::index_bytes, "int: memory of the index now, in bytes.");
  Bind(cls, "index_budget_bytes", &RouterStats::index_budget_bytes, "int: its limit, in bytes.");
  Bind(cls, "index_runs", &RouterStats::index_runs, "int: stretches of blocks without a branch.");
  Bind(cls, "index_blocks", &RouterStats::index_blocks, "int: distinct blocks.");
  Bind(cls, "blocks_held", &RouterStats::blocks_held, "int: (block, instance) pairs.");
  Bind(cls, "blocks_evicted", &RouterStats::blocks_evicted,
       "int: blocks forgotten by capacity or TTL of an instance.");
  Bind(cls, "blocks_evicted_by_budget", &RouterStats::blocks_evicted_by_budget,
       "int: blocks forgotten by ``index_budget_bytes``.");
  Bind(cls, "blocks_not_remembered", &RouterStats::blocks_not_remembered,
       "int: blocks that found no room beside those of running requests.");
  Bind(cls, "kv_event_batches", &RouterStats::kv_event_batches,
       "int: batches of KV events that were applied, of all instances that were ever there.");
  cls.def_property_readonly(
      "kv_events", [](const PyStats& self) { return ByOutcome(self.stats().kv_events); },
      "dict[str, int]: of those batches, blocks, events and messages by what became of them, as\n"
      "in ``KvApplyResult.counts``.");
  Bind(cls, "leases_active", &RouterStats::leases_active, "int: leases now.");
  Bind(cls, "sessions", &RouterStats::sessions, "int: sessions now.");
  cls.def_property_readonly(
      "instances", [](const PyStats& self) { return self.instances; },
      "tuple[InstanceStats, ...]: of the live instances.");
  cls.def("__repr__", [](const PyStats& self) {
    const RouterStats& stats = self.stats();
    return "<Stats: " + std::to_string(stats.requests) + " requests, " +
           std::to_string(stats.cached_tokens) + " of " + std::to_string(stats.prompt_tokens) +
           " tokens cached, " + std::to_string(stats.leases_active) + " leases active, " +
           std::to_string(self.instances.size()) + " instances, index of " +
           std::to_string(stats.index_bytes) + " bytes>";
  });
}

py::object MakeStats(RouterStats stats, const InstanceDirectory& instances) {
  const auto all = std::make_shared<const RouterStats>(std::move(stats));
  PyStats made{all, py::tuple(all->instances.size())};
  for (size_t i = 0; i < all->instances.size(); ++i) {
    made.instances[i] = py::cast(PyInstanceStats{
        all, i, py::reinterpret_borrow<py::object>(instances.Find(all->instances[i].id))});
  }
  return py::cast(std::move(made));
}

std::shared_ptr<const RouterStats> ToStats(py::handle value, const std::string& name) {
  if (!py::isinstance<PyStats>(value)) {
    throw py::type_error(name + " must be a Stats, got " + ShownWithType(value));
  }
  return value.cast<const PyStats&>().all;
}

}  // namespace prefixrouter::python
