// prefix-router-simulate: policies beside each other on a simulated fleet.
//
//   prefix-router-simulate --workload chat --level knee
//   prefix-router-simulate trace.jsonl.gz --policy all --instances 8 --seeds 3 --json figures.json
//
// Results go to standard output, everything else to standard error. Exit code: 0 it worked, 1 it
// failed, 2 the arguments or the trace were refused.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/arguments.h"
#include "benchmarks/table.h"
#include "prefixrouter/simulator.h"
#include "prefixrouter/version.h"

namespace prefixrouter {
namespace {

constexpr int kOk = 0;
constexpr int kFailed = 1;
constexpr int kRefused = 2;

struct Arguments {
  std::string trace_path;
  std::string generator = "agents";
  GeneratorOptions generated;
  std::vector<std::string> policies = {"prefix_cost", "random", "least_requests"};
  std::string engine = "llama-70b-8xh100";
  std::string level;
  std::string json_path;
  uint32_t instances = 4;
  std::vector<double> speeds;
  bool configured_speeds = false;
  uint32_t seeds = 1;
  uint64_t capacity_tokens = 0;
  double prefill_rate = 0;
  double cache_factor = 1;
  ReadOptions read;
  WorkloadOptions workload;
  SimulationOptions simulation;
};

void Declare(CLI::App* app, Arguments* a) {
  constexpr uint64_t kMax = UINT64_MAX;
  std::vector<std::string> generators, policies = {"all"};
  for (const GeneratorInfo& info : Generators()) generators.push_back(info.name);
  for (const SimulatedPolicy& policy : SimulatedPolicies()) policies.push_back(policy.name);
  const auto name = [&](const char* option, std::string* value, const char* what,
                        const std::vector<std::string>& names) {
    app->add_option(option, *value, what)
        ->check(CLI::IsMember(names).description(""))
        ->type_name("NAME")
        ->capture_default_str();
  };
  app->add_option("TRACE", a->trace_path, "JSON lines, plain or gzip; - is standard input");
  name("--workload", &a->generator, "Without a TRACE: what to generate", generators);
  app->add_option("--requests", a->generated.requests, "How many requests to generate")
      ->check(WholeNumber(1, 10'000'000))
      ->capture_default_str();
  app->add_option("--policy", a->policies, "Policies to compare, or all")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember(policies).description(""))
      ->type_name("NAME,...")
      ->capture_default_str();
  name("--engine", &a->engine, "Model and GPUs of an instance", EnginePresetNames());
  app->add_option("--instances", a->instances, "Instances, 1 to 65536")
      ->check(WholeNumber(1, 65536))
      ->capture_default_str();
  app->add_option("--speeds", a->speeds, "Speeds of the instances, used in turn: 1,1,2,4")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(Number(0.001, 1000));
  app->add_flag("--configured-speeds", a->configured_speeds, "Tell the routers about them");
  app->add_option("--capacity-tokens", a->capacity_tokens, "KV cache, instead of the engine's")
      ->check(WholeNumber(1, uint64_t{1} << 40));
  app->add_option("--prefill-rate", a->prefill_rate,
                  "Prompt tokens a second and nothing else, instead of the engine's costs of them")
      ->check(Number(1, 1e9));
  app->add_option("--cache-factor", a->cache_factor,
                  "KV capacity that routers are told, times the true one")
      ->check(Number(1e-6, 1e6));
  SimulationOptions& s = a->simulation;
  app->add_option("--rate", s.arrival_scale, "2: requests come twice as fast")
      ->check(Number(1e-6, 1e6))
      ->capture_default_str();
  name("--level", &a->level, "Choose the rate: half, knee or past (docs/simulator.md)",
       {"half", "knee", "past"});
  app->add_option("--routers", s.routers, "Routers, which know how many they are, 1 to 1024")
      ->check(WholeNumber(1, 1024))
      ->capture_default_str();
  app->add_flag("--closed-loop", s.closed_loop, "Turns of a session wait for the one before");
  app->add_flag("--calibrate,!--no-calibrate", s.router.calibrate,
                "Routers learn rates and capacities (default: on)");
  app->add_flag("--session-keys", s.session_keys, "Pass session_id to the router");
  app->add_option("--feedback-delay", s.feedback_delay_s, "Seconds")
      ->check(Number(0, 1e6))
      ->capture_default_str();
  app->add_flag("--report-cached-tokens,!--no-report-cached-tokens", s.report_cached_tokens,
                "Engines tell cached tokens at the end of a request (default: on)");
  app->add_option("--metrics-period", s.metrics_period_s, "Seconds; 0: metrics are not read")
      ->check(Number(0, 1e6))
      ->capture_default_str();
  app->add_option("--metrics-age", s.metrics_age_s, "Seconds")
      ->check(Number(0, 1e6))
      ->capture_default_str();
  app->add_flag("--kv-events", s.kv_events, "Engines publish KV events, and routers apply them");
  app->add_option("--kv-event-delay", s.kv_event_delay_s, "Until they arrive. Seconds")
      ->check(Number(0, 1e6))
      ->capture_default_str();
  app->add_option("--measure-from", s.measure_from_s, "Leave out what arrives earlier. Seconds")
      ->check(Number(0, 1e9));
  app->add_option("--seed", s.seed, "The first seed")
      ->check(WholeNumber(0, kMax))
      ->capture_default_str();
  app->add_option("--seeds", a->seeds, "How many")
      ->check(WholeNumber(1, 1000))
      ->capture_default_str();
  app->add_option("--trace-block", a->read.block_tokens, "Tokens that a hash id stands for")
      ->check(WholeNumber(1, 65536))
      ->capture_default_str();
  app->add_option("--block-size", a->workload.block_size,
                  "Tokens a block that is simulated; 0: the trace's")
      ->check(WholeNumber(0, 32768))
      ->capture_default_str();
  app->add_option("--limit", a->read.limit, "Use only the first so many requests of a trace")
      ->check(WholeNumber(0, kMax));
  app->add_option("--json", a->json_path, "Also write this file; - : standard output, no table")
      ->type_name("FILE");
}

int Refuse(const Status& status) {
  std::cerr << "prefix-router-simulate: " << status.message() << "\n";
  const bool callers_fault =
      status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kNotFound;
  return callers_fault ? kRefused : kFailed;
}

// ---- Figures -----------------------------------------------------------------------------------

struct Figure {
  const char* name;
  double SimulationSummary::*field;
};
constexpr Figure kFigures[] = {
    {"ttft_mean_s", &SimulationSummary::ttft_mean_s},
    {"ttft_p50_s", &SimulationSummary::ttft_p50_s},
    {"ttft_p90_s", &SimulationSummary::ttft_p90_s},
    {"ttft_p99_s", &SimulationSummary::ttft_p99_s},
    {"e2e_mean_s", &SimulationSummary::e2e_mean_s},
    {"tpot_mean_s", &SimulationSummary::tpot_mean_s},
    {"cached_token_share", &SimulationSummary::cached_token_share},
    {"best_possible_share", &SimulationSummary::best_possible_share},
    {"max_over_mean_work", &SimulationSummary::max_over_mean_work},
};

struct PolicyFigures {
  std::string name;
  std::vector<SimulationSummary> summaries;  // by seed
  double seconds = 0;                        // of this program

  double Mean(double SimulationSummary::*field) const {
    double sum = 0;
    for (const SimulationSummary& summary : summaries) sum += summary.*field;
    return sum / static_cast<double>(summaries.size());
  }
  std::pair<double, double> Spread(double SimulationSummary::*field) const {
    std::pair<double, double> spread(summaries.front().*field, summaries.front().*field);
    for (const SimulationSummary& summary : summaries) {
      spread.first = std::min(spread.first, summary.*field);
      spread.second = std::max(spread.second, summary.*field);
    }
    return spread;
  }
};

std::string Table(const std::vector<PolicyFigures>& policies) {
  std::vector<Row> rows = {{"policy", "ttft s", "", "", "", "e2e s", "tpot ms", "cached", "max/",
                            "rejected", "preempted", "cpu s"},
                           {"", "mean", "p50", "p90", "p99", "mean", "mean", "share", "mean"}};
  for (const PolicyFigures& policy : policies) {
    uint64_t rejected = 0, preemptions = 0;
    for (const SimulationSummary& summary : policy.summaries) {
      rejected += summary.rejected;
      preemptions += summary.preemptions;
    }
    rows.push_back({policy.name, Fixed(policy.Mean(&SimulationSummary::ttft_mean_s), 3),
                    Fixed(policy.Mean(&SimulationSummary::ttft_p50_s), 3),
                    Fixed(policy.Mean(&SimulationSummary::ttft_p90_s), 3),
                    Fixed(policy.Mean(&SimulationSummary::ttft_p99_s), 3),
                    Fixed(policy.Mean(&SimulationSummary::e2e_mean_s), 2),
                    Fixed(1e3 * policy.Mean(&SimulationSummary::tpot_mean_s), 1),
                    Fixed(policy.Mean(&SimulationSummary::cached_token_share), 3),
                    Fixed(policy.Mean(&SimulationSummary::max_over_mean_work), 2),
                    std::to_string(rejected), std::to_string(preemptions),
                    Fixed(policy.seconds, 2)});
  }
  return Aligned(rows);
}

// Whose rule a policy is, SimulatedPolicy::Kind as a word.
const char* Kind(const std::string& policy) {
  for (const SimulatedPolicy& known : SimulatedPolicies()) {
    if (known.name != policy) continue;
    if (known.kind == SimulatedPolicy::Kind::kGateway) return "gateway";
    if (known.kind == SimulatedPolicy::Kind::kResearch) return "research";
  }
  return "router";
}

// span_s: from the first arrival to the last, at `rate`, with the first seed.
std::string Json(const Arguments& a, const std::string& trace,
                 const std::vector<PolicyFigures>& policies, double rate, double span_s,
                 const LoadLevels& levels) {
  using Object = nlohmann::ordered_json;
  Object list = Object::array();
  for (const PolicyFigures& policy : policies) {
    Object entry = {{"name", policy.name}, {"kind", Kind(policy.name)}};
    Object spread;
    for (const Figure& figure : kFigures) {
      entry[figure.name] = policy.Mean(figure.field);
      const auto [low, high] = policy.Spread(figure.field);
      spread[figure.name] = {low, high};
    }
    uint64_t requests = 0, rejected = 0;
    for (const SimulationSummary& summary : policy.summaries) {
      requests += summary.requests;
      rejected += summary.rejected;
    }
    entry["requests"] = requests / policy.summaries.size();
    entry["rejected"] = rejected / policy.summaries.size();
    entry["spread"] = spread;
    list.push_back(std::move(entry));
  }
  Object json = {{"trace", trace},
                 {"engine", a.engine},
                 {"instances", a.instances},
                 {"seeds", a.seeds},
                 {"rate", rate},
                 {"span_s", span_s},
                 {"routers", a.simulation.routers},
                 {"policies", std::move(list)}};
  if (levels.knee_scale > 0) {
    json["levels"] = {{"capacity", levels.capacity_scale},
                      {"half", levels.half_scale},
                      {"knee", levels.knee_scale},
                      {"past", levels.past_scale}};
  }
  return json.dump(2, ' ', false, Object::error_handler_t::replace) + "\n";
}

// ---- Runs --------------------------------------------------------------------------------------

Result<std::shared_ptr<const Workload>> MakeWorkload(const Arguments& a, const Trace* trace,
                                                     uint64_t seed) {
  WorkloadOptions options = a.workload;
  options.arrivals.seed = seed;
  if (trace != nullptr) return Workload::Create(*trace, options);
  GeneratorOptions generated = a.generated;
  generated.seed = seed;
  Result<Trace> made = GenerateTrace(a.generator, generated);
  if (!made.ok()) return made.status();
  return Workload::Create(*made, options);
}

int Run(Arguments a) {
  SimulationOptions& options = a.simulation;
  Result<EngineOptions> engine = EnginePreset(a.engine);
  if (!engine.ok()) return Refuse(engine.status());
  options.engine = *engine;
  if (a.capacity_tokens > 0) options.engine.kv_capacity_tokens = a.capacity_tokens;
  if (a.prefill_rate > 0) {
    options.engine.cost_model = CostModel::kLinear;
    options.engine.linear.prefill_token_s = 1 / a.prefill_rate;
    options.engine.linear.prefill_pair_s = 0;
  }
  StepWork step;  // what a configured rate is: that of a full step
  step.prefill_tokens = options.engine.max_batched_tokens;
  step.prefill_pairs = 0.5 * static_cast<double>(step.prefill_tokens * step.prefill_tokens);
  const double rate = static_cast<double>(step.prefill_tokens) / StepSeconds(options.engine, step);
  options.instances.assign(a.instances, SimulatedInstance());
  for (size_t i = 0; i < options.instances.size(); ++i) {
    SimulatedInstance& instance = options.instances[i];
    instance.configured_capacity = a.cache_factor;
    if (!a.speeds.empty()) instance.speed = a.speeds[i % a.speeds.size()];
    if (a.configured_speeds) instance.configured_prefill_tokens_s = rate * instance.speed;
  }
  if (std::count(a.policies.begin(), a.policies.end(), "all") > 0) {
    a.policies.clear();
    for (const SimulatedPolicy& policy : SimulatedPolicies()) a.policies.push_back(policy.name);
  }

  Result<Trace> trace = Trace();
  if (!a.trace_path.empty()) {
    trace = ReadTrace(a.trace_path, a.read, std::cerr);
    if (!trace.ok()) return Refuse(trace.status());
  }
  std::vector<PolicyFigures> policies;
  for (const std::string& name : a.policies) policies.push_back({name, {}, 0});
  std::string header;
  std::string source;
  double span_s = 0;
  LoadLevels levels;
  for (uint32_t i = 0; i < a.seeds; ++i) {
    const uint64_t seed = a.simulation.seed + i;
    auto workload = MakeWorkload(a, a.trace_path.empty() ? nullptr : &*trace, seed);
    if (!workload.ok()) return Refuse(workload.status());
    SimulationOptions run = options;
    run.seed = seed;
    if (i == 0) {
      const Workload& w = **workload;
      source = w.name();
      if (!a.level.empty()) {
        Result<LoadLevels> found = FindLoadLevels(w, options);
        if (!found.ok()) return Refuse(found.status());
        levels = *found;
        options.arrival_scale = a.level == "half"   ? levels.half_scale
                                : a.level == "knee" ? levels.knee_scale
                                                    : levels.past_scale;
        run.arrival_scale = options.arrival_scale;
        header = "levels     capacity " + Fixed(levels.capacity_scale, 3) + ", half " +
                 Fixed(levels.half_scale, 3) + " (" + Fixed(levels.half_ttft_s, 3) + " s), knee " +
                 Fixed(levels.knee_scale, 3) + " (" + Fixed(levels.knee_ttft_s, 3) + " s), past " +
                 Fixed(levels.past_scale, 3) + "\n";
      }
      span_s = w.arrivals().span_s / options.arrival_scale;
      header = "workload   " + w.name() + ": " + std::to_string(w.requests().size()) +
               " requests over " + Fixed(span_s, 0) + " s, best possible share " +
               Fixed(w.best_possible_share(), 3) + ", blocks of " + std::to_string(w.block_size()) +
               "\nfleet      " + std::to_string(a.instances) + " x " + a.engine + ", " +
               std::to_string(options.engine.kv_capacity_tokens) + " tokens of KV each, " +
               Fixed(rate, 0) + " prefill tokens/s\n" + header + "rate       " +
               Fixed(options.arrival_scale, 3) + "\n\n";
    }
    for (PolicyFigures& policy : policies) {
      run.router.policy = policy.name;
      const auto start = std::chrono::steady_clock::now();
      Result<SimulationResult> result = Simulate(**workload, run);
      policy.seconds +=
          std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      if (!result.ok()) return Refuse(result.status());
      policy.summaries.push_back(result->summary);
    }
  }
  const std::string json = Json(a, source, policies, options.arrival_scale, span_s, levels);
  std::cout << (a.json_path == "-" ? json : header + Table(policies)) << std::flush;
  if (!std::cout) {
    std::cerr << "prefix-router-simulate: cannot write to standard output\n";
    return kFailed;
  }
  if (a.json_path.empty() || a.json_path == "-") return kOk;
  std::ofstream file(a.json_path, std::ios::binary);
  file << json << std::flush;
  if (file) return kOk;
  std::cerr << "prefix-router-simulate: cannot write " << a.json_path << "\n";
  return kFailed;
}

int Main(int argc, char** argv) {
  CLI::App app("Compares routing policies on a simulated fleet.", "prefix-router-simulate");
  app.set_version_flag("--version", PREFIX_ROUTER_VERSION_STRING);
  Arguments arguments;
  Declare(&app, &arguments);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kOk : kRefused;
  }
  try {
    return Run(std::move(arguments));
  } catch (const std::exception& error) {  // out of memory
    std::cerr << "prefix-router-simulate: " << error.what() << "\n";
    return kFailed;
  }
}

}  // namespace
}  // namespace prefixrouter

int main(int argc, char** argv) { return prefixrouter::Main(argc, argv); }
