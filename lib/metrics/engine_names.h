// Which metric of which engine says what: the one place to add a name to. docs/metrics.md has the
// same table for readers, and a test compares the two.
#ifndef PREFIXROUTER_LIB_METRICS_ENGINE_NAMES_H_
#define PREFIXROUTER_LIB_METRICS_ENGINE_NAMES_H_

#include <cstdint>
#include <string_view>

#include "prefixrouter/engine_metrics.h"
#include "prefixrouter/span.h"

namespace prefixrouter {

enum class EngineField : uint8_t {
  // Gauges that change all the time. Only these make a page one of an engine.
  kRunning,
  kWaiting,
  kKvUsage,
  // Constants of an engine.
  kBlockSize,
  kCapacityTokens,
  kCapacityBlocks,
  // Counters of tokens.
  kPromptTokens,
  kCachedTokens,
  kExternalCachedTokens,
};
inline constexpr int kEngineFieldCount = 9;

inline constexpr bool IsLoad(EngineField field) { return field <= EngineField::kKvUsage; }
inline constexpr bool IsCounter(EngineField field) { return field >= EngineField::kPromptTokens; }

struct KnownMetric {
  Engine engine;
  EngineField field;
  // With '_' for ':', see MetricMatches; of a counter without `_total`.
  std::string_view name;
  // Several names of one field: the lowest age that is on the page counts.
  uint8_t age = 0;
  // The figure is the value of this label. Empty: it is that of the sample.
  std::string_view value_label = {};
  // Only samples whose label has this value. Empty: all.
  std::string_view where_label = {};
  std::string_view where_value = {};
};

Span<const KnownMetric> KnownMetrics();

// Whether a sample of this name is one of `known`. Engines write "vllm:name"; gateways between
// engine and scraper (OpenTelemetry, Ray) turn ':' into '_', and Ray puts "ray_" in front. Counters
// may have `_total` or not.
bool MetricMatches(const KnownMetric& known, std::string_view name);

// The label that holds the number of a data-parallel rank.
std::string_view RankLabel(Engine engine);
// Whether this label is the number of a worker inside of a rank, all of which say the same.
bool IsWorkerLabel(std::string_view label);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_METRICS_ENGINE_NAMES_H_
