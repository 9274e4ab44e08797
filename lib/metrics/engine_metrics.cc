// From the samples of a page to the figures of each rank:
//
//   1. every sample that some engine's table knows becomes an observation
//   2. the engine with the most load samples is the page's; observations of others are dropped
//   3. observations are grouped by rank, field, age of the name, and series
//   4. of each field the newest name counts; its series are combined into one figure
#include "prefixrouter/engine_metrics.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/hash/hash.h"
#include "absl/strings/numbers.h"
#include "lib/base/guard.h"
#include "lib/metrics/engine_names.h"
#include "lib/metrics/exposition_reader.h"
#include "lib/options.h"
#include "prefixrouter/prefix_router.h"

namespace prefixrouter {
namespace {

constexpr int kEngineCount = 4;
// Counts above this are not exact in a double, and no engine has them.
constexpr double kMaxCount = 9007199254740992;  // 2^53
// A share is above 1 by rounding, or is no share.
constexpr double kMaxShare = 1.01;
// More ranks than RouterOptions::max_instances by default.
constexpr uint32_t kMaxRanks = 65536;

Status Invalid(std::string message) {
  return Status(StatusCode::kInvalidArgument, std::move(message));
}

struct Observation {
  Engine engine;
  EngineField field;
  uint8_t age;
  bool labelled;    // its rank was given
  uint32_t rank;    // 0 if not labelled
  uint64_t series;  // hash of the labels that tell series of one rank apart
  double value;
};

// The figures of one rank, by field. Negative: there is none.
struct Figures {
  Figures() { std::fill(std::begin(values), std::end(values), -1.0); }
  double& operator[](EngineField field) { return values[static_cast<int>(field)]; }
  double operator[](EngineField field) const { return values[static_cast<int>(field)]; }
  int64_t Count(EngineField field) const { return static_cast<int64_t>((*this)[field]); }

  double values[kEngineFieldCount];
};

bool Usable(EngineField field, double value) {
  if (!(value >= 0)) return false;  // NaN too
  return value <= (field == EngineField::kKvUsage ? kMaxShare : kMaxCount);
}

// Digits and nothing else, unlike SimpleAtoi alone.
template <typename Integer>
bool ParseDigits(std::string_view text, Integer* value) {
  return text.find_first_not_of("0123456789") == std::string_view::npos &&
         absl::SimpleAtoi(absl::string_view(text.data(), text.size()), value);
}

bool OfModel(const ExpositionSample& sample, std::string_view model) {
  for (std::string_view label : {"model_name", "model"}) {
    const std::string_view value = sample.Label(label);
    if (!model.empty() && !value.empty() && value != model) return false;
  }
  return true;
}

// What tells the sample's series apart, and its rank.
void Identify(const ExpositionSample& sample, Observation* observation) {
  const std::string_view rank_label = RankLabel(observation->engine);
  observation->labelled = ParseDigits(sample.Label(rank_label), &observation->rank);
  if (!observation->labelled) observation->rank = 0;
  observation->series = 0;
  for (const ExpositionLabel& label : sample.labels) {
    if (IsWorkerLabel(label.name) || (observation->labelled && label.name == rank_label)) continue;
    // The same in whatever order the labels come.
    observation->series += absl::HashOf(label.name, label.value);
  }
}

// Adds what the sample says to `observations`. Counts in `unusable` what cannot be.
void Observe(const ExpositionSample& sample, std::vector<Observation>* observations,
             uint64_t* unusable) {
  for (const KnownMetric& known : KnownMetrics()) {
    if (!MetricMatches(known, sample.name)) continue;
    if (sample.Label(known.where_label) != known.where_value) continue;
    // SGLang with priorities: one series for each, and one with all of them and an empty label.
    if (known.engine == Engine::kSglang && !sample.Label("priority").empty()) continue;
    Observation observation;
    observation.engine = known.engine;
    observation.field = known.field;
    observation.age = known.age;
    observation.value = sample.value;
    if (!known.value_label.empty()) {
      uint64_t value;
      // "None" and the like: the engine does not know it.
      if (!ParseDigits(sample.Label(known.value_label), &value)) continue;
      observation.value = static_cast<double>(value);
    }
    if (!Usable(known.field, observation.value)) {
      ++*unusable;
      continue;
    }
    if (known.field != EngineField::kKvUsage) observation.value = std::floor(observation.value);
    Identify(sample, &observation);
    observations->push_back(observation);
  }
}

// The engine with the most observations of load. False if there are none.
bool FindEngine(const std::vector<Observation>& observations, Engine* engine) {
  uint64_t counts[kEngineCount] = {};
  for (const Observation& observation : observations) {
    if (IsLoad(observation.field)) ++counts[static_cast<int>(observation.engine)];
  }
  const uint64_t* const most = std::max_element(std::begin(counts), std::end(counts));
  *engine = static_cast<Engine>(most - counts);
  return *most != 0;
}

// Combines the observations of one field of one rank, which are sorted by age and series.
double Combine(Span<const Observation> observations) {
  const EngineField field = observations[0].field;
  const bool adds_up =
      IsCounter(field) || field == EngineField::kRunning || field == EngineField::kWaiting;
  double total = 0;
  for (size_t i = 0; i < observations.size() && observations[i].age == observations[0].age;) {
    const uint64_t series = observations[i].series;
    double largest = 0;
    for (; i < observations.size() && observations[i].age == observations[0].age &&
           observations[i].series == series;
         ++i) {
      largest = std::max(largest, observations[i].value);
    }
    total = adds_up ? total + largest : std::max(total, largest);
  }
  return std::min(total, field == EngineField::kKvUsage ? 1 : kMaxCount);
}

// REQUIRES: all of one rank; sorted by field, age and series.
Figures CombineAll(Span<const Observation> observations) {
  Figures figures;
  for (size_t begin = 0; begin < observations.size();) {
    size_t end = begin + 1;
    while (end < observations.size() && observations[end].field == observations[begin].field) ++end;
    figures[observations[begin].field] = Combine(observations.subspan(begin, end - begin));
    begin = end;
  }
  return figures;
}

EngineRankMetrics MakeRank(uint32_t rank, const Figures& figures) {
  EngineRankMetrics metrics;
  metrics.rank = rank;
  metrics.load.running_requests = figures.Count(EngineField::kRunning);
  metrics.load.waiting_requests = figures.Count(EngineField::kWaiting);
  metrics.load.kv_usage = figures[EngineField::kKvUsage];
  const double block_size = figures[EngineField::kBlockSize];
  if (block_size > 0) metrics.block_size = figures.Count(EngineField::kBlockSize);
  const double blocks = figures[EngineField::kCapacityBlocks];
  if (figures[EngineField::kCapacityTokens] > 0) {
    metrics.capacity_tokens = figures.Count(EngineField::kCapacityTokens);
  } else if (blocks > 0 && block_size > 0) {
    metrics.capacity_tokens = static_cast<int64_t>(std::min(blocks * block_size, kMaxCount));
  }
  metrics.prompt_tokens = figures.Count(EngineField::kPromptTokens);
  metrics.cached_tokens = figures.Count(EngineField::kCachedTokens);
  metrics.external_cached_tokens = figures.Count(EngineField::kExternalCachedTokens);
  return metrics;
}

void AddCounter(const Figures& figures, EngineField field, int64_t* total) {
  if (figures[field] < 0) return;
  *total = std::max<int64_t>(*total, 0) + figures.Count(field);
}

void AddCounters(const Figures& figures, EngineMetrics* metrics) {
  AddCounter(figures, EngineField::kPromptTokens, &metrics->prompt_tokens);
  AddCounter(figures, EngineField::kCachedTokens, &metrics->cached_tokens);
  AddCounter(figures, EngineField::kExternalCachedTokens, &metrics->external_cached_tokens);
}

// What the page says of no rank in particular holds for each of them, as far as it is a constant.
void TakeConstants(const Figures& shared, Figures* figures) {
  for (EngineField field :
       {EngineField::kBlockSize, EngineField::kCapacityTokens, EngineField::kCapacityBlocks}) {
    if ((*figures)[field] < 0) (*figures)[field] = shared[field];
  }
}

std::vector<uint32_t> LabelledRanks(const std::vector<Observation>& observations) {
  std::vector<uint32_t> ranks;
  for (const Observation& observation : observations) {
    if (observation.labelled) ranks.push_back(observation.rank);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// REQUIRES: observations of one engine.
Status FillRanks(std::vector<Observation> observations, uint32_t max_ranks,
                 EngineMetrics* metrics) {
  const std::vector<uint32_t> ranks = LabelledRanks(observations);
  if (ranks.size() > max_ranks) {
    return Invalid("the page has " + std::to_string(ranks.size()) + " ranks, max_ranks is " +
                   std::to_string(max_ranks));
  }
  if (ranks.size() <= 1) {  // all is of that one
    for (Observation& observation : observations) {
      observation.rank = ranks.empty() ? 0 : ranks[0];
      observation.labelled = true;
    }
  }
  std::sort(observations.begin(), observations.end(),
            [](const Observation& a, const Observation& b) {
              return std::tie(a.labelled, a.rank, a.field, a.age, a.series) <
                     std::tie(b.labelled, b.rank, b.field, b.age, b.series);
            });
  Figures shared;
  for (size_t begin = 0; begin < observations.size();) {
    const Observation& first = observations[begin];
    size_t end = begin + 1;
    while (end < observations.size() && observations[end].labelled == first.labelled &&
           observations[end].rank == first.rank) {
      ++end;
    }
    Figures figures = CombineAll({observations.data() + begin, end - begin});
    AddCounters(figures, metrics);
    if (first.labelled) {
      TakeConstants(shared, &figures);
      metrics->ranks.push_back(MakeRank(first.rank, figures));
    } else {
      shared = figures;  // sorted before all others
    }
    begin = end;
  }
  return Status();
}

Result<EngineMetrics> Parse(std::string_view page, const EngineMetricsOptions& options) {
  if (options.max_ranks < 1 || options.max_ranks > kMaxRanks) {
    return Invalid("max_ranks must be 1 to " + std::to_string(kMaxRanks) + ", got " +
                   std::to_string(options.max_ranks));
  }
  if (page.size() > options.max_bytes) {
    return Invalid("the page has " + std::to_string(page.size()) + " bytes, max_bytes is " +
                   std::to_string(options.max_bytes));
  }
  ExpositionLimits limits;
  limits.max_line_bytes = options.max_line_bytes;
  ExpositionReader reader(page, limits);
  EngineMetrics metrics;
  std::vector<Observation> observations;
  while (reader.Next()) {
    ++metrics.samples;
    if (!OfModel(reader.sample(), options.model)) continue;
    Observe(reader.sample(), &observations, &metrics.unusable_values);
  }
  metrics.malformed_lines = reader.malformed_lines();
  metrics.first_malformed_line = reader.first_malformed_line();
  metrics.first_malformed_reason = reader.first_malformed_reason();

  if (!FindEngine(observations, &metrics.engine)) {
    std::string message = "no load metric of vLLM, SGLang, TensorRT-LLM or Triton";
    if (!options.model.empty()) message += " for model \"" + std::string(options.model) + "\"";
    message += " in " + std::to_string(metrics.samples) + " samples";
    if (metrics.malformed_lines != 0) {
      message += "; " + std::to_string(metrics.malformed_lines) +
                 " malformed lines, the first is " + std::to_string(metrics.first_malformed_line) +
                 ": " + metrics.first_malformed_reason;
    }
    return Status(StatusCode::kNotFound, std::move(message));
  }
  observations.erase(
      std::remove_if(observations.begin(), observations.end(),
                     [&](const Observation& o) { return o.engine != metrics.engine; }),
      observations.end());
  const Status filled = FillRanks(std::move(observations), options.max_ranks, &metrics);
  if (!filled.ok()) return filled;
  return metrics;
}

// All that can fail comes before the first report, so that a failure changes nothing.
Result<uint32_t> Report(PrefixRouter& router, std::string_view instance_name,
                        const EngineMetrics& metrics, double age_s) {
  if (!(age_s >= 0)) return Invalid("age_s must be 0 or more, got " + std::to_string(age_s));
  std::vector<std::pair<InstanceId, EngineLoad>> loads;
  for (const EngineRankMetrics& rank : metrics.ranks) {
    if (Status check = CheckLoad(rank.load); !check.ok()) {
      return Invalid("rank " + std::to_string(rank.rank) + ": " + check.message());
    }
    Result<InstanceId> id = router.FindInstance(instance_name, rank.rank);
    if (!id.ok() && metrics.ranks.size() == 1) id = router.FindInstance(instance_name, 0);
    if (id.ok()) {
      loads.emplace_back(*id, rank.load);
      loads.back().second.age_s = age_s;
    } else if (id.status().code() != StatusCode::kNotFound) {
      return id.status();
    }
  }
  if (loads.empty()) {
    return Status(StatusCode::kNotFound, "no instance \"" + std::string(instance_name) +
                                             "\" of any of the page's " +
                                             std::to_string(metrics.ranks.size()) + " ranks");
  }
  uint32_t reported = 0;
  for (const auto& [id, load] : loads) {
    if (load.empty()) continue;
    const Status status = router.ReportLoad(id, load);
    if (status.ok()) {
      ++reported;
    } else if (status.code() != StatusCode::kNotFound) {  // removed meanwhile
      return status;
    }
  }
  return reported;
}

}  // namespace

const char* EngineName(Engine engine) {
  switch (engine) {
    case Engine::kVllm:
      return "vllm";
    case Engine::kSglang:
      return "sglang";
    case Engine::kTensorRtLlm:
      return "tensorrt_llm";
    case Engine::kTriton:
      return "triton";
  }
  return "unknown";
}

uint32_t EngineRankMetrics::CapacityBlocks(uint32_t router_block_size) const {
  if (capacity_tokens <= 0 || router_block_size == 0) return 0;
  return static_cast<uint32_t>(std::min<int64_t>(capacity_tokens / router_block_size, INT32_MAX));
}

Result<EngineMetrics> ParseEngineMetrics(std::string_view page,
                                         const EngineMetricsOptions& options) {
  return Guard([&] { return Parse(page, options); });
}

Result<uint32_t> ReportEngineMetrics(PrefixRouter& router, std::string_view instance_name,
                                     const EngineMetrics& metrics, double age_s) {
  return Guard([&] { return Report(router, instance_name, metrics, age_s); });
}

}  // namespace prefixrouter
