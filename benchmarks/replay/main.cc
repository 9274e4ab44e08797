// prefix-router-replay: routes a request trace through a fleet and compares policies.
//
//   prefix-router-replay                                 the built-in agent workload
//   prefix-router-replay trace.jsonl.gz --instances 8    a trace; formats:
//   prefixrouter/trace.h zcat trace.jsonl.gz | prefix-router-replay - --policy all --json
//   figures.json
//
// Results go to standard output, everything else to standard error. Exit code: 0 it worked, 1 it
// failed, 2 the arguments or the trace were refused.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "benchmarks/arguments.h"
#include "benchmarks/replay/replay.h"
#include "benchmarks/replay/report.h"
#include "lib/sim/agents.h"
#include "prefixrouter/policy.h"
#include "prefixrouter/trace.h"
#include "prefixrouter/version.h"

namespace prefixrouter::replay {
namespace {

constexpr int kOk = 0;
constexpr int kFailed = 1;
constexpr int kRefused = 2;

struct Arguments {
  std::string trace_path;  // empty: the built-in workload
  std::vector<std::string> policies = {"prefix_cost", "random", "least_requests"};
  std::string json_path;  // empty: none
  std::string on_error = "skip";
  ReadOptions read;
  ArrivalOptions arrivals;
  FleetOptions fleet;
};

void Declare(CLI::App* app, Arguments* arguments) {
  constexpr uint64_t kMax = std::numeric_limits<uint64_t>::max();
  std::vector<std::string> names = PolicyNames();
  names.push_back("all");

  app->add_option("TRACE", arguments->trace_path,
                  "JSON lines, plain or gzip; - is standard input. Without it: the built-in "
                  "generated agent workload");
  app->add_option("--policy", arguments->policies, "Policies to compare, or all")
      ->delimiter(',')
      ->allow_extra_args(false)  // TRACE may follow
      ->check(CLI::IsMember(names).description(""))
      ->type_name("NAME,...")
      ->capture_default_str();
  app->add_option("--json", arguments->json_path,
                  "Write the figures to this file; - is standard output, without the table")
      ->type_name("FILE");

  FleetOptions& fleet = arguments->fleet;
  app->add_option("--instances", fleet.instances, "Instances, 1 to 65536")
      ->check(WholeNumber(1, 65536))
      ->capture_default_str();
  app->add_option("--capacity-tokens", fleet.capacity_tokens, "KV cache of an instance in tokens")
      ->check(WholeNumber(1, kMax))
      ->capture_default_str();
  app->add_option("--prefill-rate", fleet.prefill_tokens_per_s,
                  "Prefill tokens a second of an instance, 1 to 1e9")
      ->check(Number(1.0, 1e9))
      ->capture_default_str();
  app->add_option("--block-size", fleet.block_size, "Tokens a block of the router, 1 to 32768")
      ->check(WholeNumber(1, 32768))
      ->capture_default_str();
  app->add_option("--seed", fleet.seed, "Seed of keys, near-ties, arrivals and the workload")
      ->check(WholeNumber(0, kMax))
      ->capture_default_str();
  app->add_flag("--leases", fleet.leases,
                "Hold leases: load counts until a first token at the predicted time, and an end "
                "20 ms an output token later. Without it load drains at the prefill rate");
  app->add_flag("--session-keys", fleet.session_keys,
                "Pass session_id to the router as session key");

  app->add_option("--trace-block", arguments->read.block_tokens,
                  "Tokens that a hash id of the trace stands for, 1 to 65536")
      ->check(WholeNumber(1, 65536))
      ->capture_default_str();
  app->add_option("--limit", arguments->read.limit,
                  "Use only the first so many requests of the trace; 0: all")
      ->check(WholeNumber(0, kMax))
      ->capture_default_str();
  app->add_option("--on-error", arguments->on_error,
                  "What to do with a malformed line: skip or refuse")
      ->check(CLI::IsMember({"skip", "refuse"}).description(""))
      ->type_name("NAME")
      ->capture_default_str();

  ArrivalOptions& arrivals = arguments->arrivals;
  app->add_option("--speed", arrivals.speed, "2: requests come twice as fast. 0.001 to 1000")
      ->check(Number(0.001, 1000.0))
      ->capture_default_str();
  app->add_flag("--spread-ticks,!--no-spread-ticks", arrivals.spread_ticks,
                "Spread requests of one timestamp over the time to the next (default: on)");
  app->add_option("--session-window", arrivals.session_window_s,
                  "Start sessions that all begin at one time within so many seconds; 0: as they "
                  "are. Default: the length of the longest session")
      ->check(Number(0.0, 1e9));
}

int Refuse(const Status& status) {
  std::cerr << "prefix-router-replay: " << status.message() << "\n";
  const bool callers_fault =
      status.code() == StatusCode::kInvalidArgument || status.code() == StatusCode::kNotFound;
  return callers_fault ? kRefused : kFailed;
}

int WriteFile(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text << std::flush;
  if (file) return kOk;
  std::cerr << "prefix-router-replay: cannot write " << path << "\n";
  return kFailed;
}

int Run(Arguments arguments) {
  if (std::count(arguments.policies.begin(), arguments.policies.end(), "all") > 0) {
    arguments.policies = PolicyNames();
  }
  arguments.read.on_error = arguments.on_error == "refuse" ? OnError::kRefuse : OnError::kSkip;
  arguments.arrivals.seed = arguments.fleet.seed;

  Trace trace;
  if (arguments.trace_path.empty()) {
    AgentTraceOptions workload;
    workload.seed = arguments.fleet.seed;
    trace = AgentTrace(workload);
    const uint64_t limit = arguments.read.limit;
    if (limit > 0 && limit < trace.requests.size()) trace.requests.resize(limit);
  } else {
    Result<Trace> read = ReadTrace(arguments.trace_path, arguments.read, std::cerr);
    if (!read.ok()) return Refuse(read.status());
    trace = *std::move(read);
  }

  Result<ArrivalSummary> arrivals = ScheduleArrivals(arguments.arrivals, &trace);
  if (!arrivals.ok()) return Refuse(arrivals.status());
  Result<ReplaySummary> summary = Replay(trace, arguments.fleet, arguments.policies);
  if (!summary.ok()) return Refuse(summary.status());

  const Report report = {trace, *arrivals, arguments.fleet, *summary};
  const bool json_only = arguments.json_path == "-";
  std::cout << (json_only ? JsonText(report) : TableText(report)) << std::flush;
  if (!std::cout) {
    std::cerr << "prefix-router-replay: cannot write to standard output\n";
    return kFailed;
  }
  if (json_only || arguments.json_path.empty()) return kOk;
  return WriteFile(arguments.json_path, JsonText(report));
}

int Main(int argc, char** argv) {
  CLI::App app("Routes a request trace through a fleet of instances and compares policies.",
               "prefix-router-replay");
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
    std::cerr << "prefix-router-replay: " << error.what() << "\n";
    return kFailed;
  }
}

}  // namespace
}  // namespace prefixrouter::replay

int main(int argc, char** argv) { return prefixrouter::replay::Main(argc, argv); }
