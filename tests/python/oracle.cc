// prefix_router_python_oracle: performs operations on the C++ library that it reads as lines from
// standard input, and answers each with one line on standard output. tests/python/test_oracle.py
// performs the same operations in Python and compares.
//
// A line is a verb and arguments `name=value`, separated by spaces. Strings are the hexadecimal
// digits of their bytes. Floats are answered with 17 digits, which say them exactly. Errors are
// answered with the name of their code.
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "prefixrouter/engine_metrics.h"
#include "prefixrouter/prefix_router.h"
#include "prefixrouter/router_metrics.h"

namespace prefixrouter::python_oracle {
namespace {

using Arguments = std::map<std::string, std::string>;

std::string Unhex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (const char byte : bytes) {
    char digits[3];
    std::snprintf(digits, sizeof digits, "%02x", static_cast<unsigned char>(byte));
    hex += digits;
  }
  return hex;
}

std::vector<uint64_t> Numbers(const std::string& list) {
  std::vector<uint64_t> numbers;
  std::stringstream stream(list);
  for (std::string number; std::getline(stream, number, ',');) {
    numbers.push_back(std::strtoull(number.c_str(), nullptr, 10));
  }
  return numbers;
}

std::string Text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}
std::string Text(uint64_t value) { return std::to_string(value); }
std::string Text(int64_t value) { return std::to_string(value); }
// Negative is what is not known.
template <typename T>
std::string TextOrNone(T value) {
  return value < 0 ? "None" : Text(value);
}

// The callable of test_oracle.py computes the same, in the same order of operations.
class OraclePolicy final : public Policy {
 public:
  const char* name() const override { return "oracle"; }
  void Score(const PolicyInput& in, float* cost) const override {
    for (size_t i = 0; i < in.size; ++i) {
      cost[i] = (in.pending_tokens[i] + (in.prompt_tokens - in.cached_tokens(i))) *
                    in.seconds_per_token[i] +
                in.requests[i] + in.waiting[i] + in.overhead_tokens +
                (in.any_report ? in.kv_usage[i] : 1);
    }
    if (in.home != PolicyInput::kNoHome) {
      cost[in.home] -= in.home_tokens * in.seconds_per_token[in.home];
    }
  }
};

class Oracle {
 public:
  std::string Perform(const std::string& verb, const Arguments& arguments) {
    arguments_ = &arguments;
    if (verb == "new") return New();
    if (verb == "clock") return (clock_->SetNanos(Int("nanos")), "ok");
    if (verb == "add") return Add();
    if (verb == "remove") return OnInstance([&](InstanceId id) { return Remove(id); });
    if (verb == "state") return OnInstance([&](InstanceId id) { return SetState(id); });
    if (verb == "report") return OnInstance([&](InstanceId id) { return Report(id); });
    if (verb == "route") return Route();
    if (verb == "acquire") return Acquire();
    if (verb == "first") return Text(uint64_t{router_->FirstToken({Uint("lease")})});
    if (verb == "finish") {
      return Text(uint64_t{
          router_->Finish({Uint("lease")}, {Int("output_tokens"), Int("engine_cached_tokens")})});
    }
    if (verb == "cancel") return Text(uint64_t{router_->Cancel({Uint("lease")})});
    if (verb == "score") return Score();
    if (verb == "stats") return Stats();
    if (verb == "metrics") return Metrics();
    if (verb == "parse") return Parse();
    if (verb == "report_metrics") return ReportMetrics();
    return "unknown verb " + verb;
  }

 private:
  bool Has(const char* name) const { return arguments_->count(name) != 0; }
  std::string Get(const char* name) const { return Has(name) ? arguments_->at(name) : ""; }
  uint64_t Uint(const char* name) const { return std::strtoull(Get(name).c_str(), nullptr, 10); }
  int64_t Int(const char* name) const { return std::strtoll(Get(name).c_str(), nullptr, 10); }
  double Double(const char* name) const { return std::strtod(Get(name).c_str(), nullptr); }

  static std::string Fail(const Status& status) {
    return std::string("error ") + StatusCodeName(status.code());
  }

  std::string New() {
    RouterOptions options;
    clock_ = std::make_shared<ManualClock>();
    options.clock = clock_;
    options.key_seed = Uint("key_seed");
    options.routers = static_cast<uint32_t>(Uint("routers"));
    options.random_seed = Uint("random_seed");
    options.block_size = static_cast<uint32_t>(Uint("block_size"));
    options.text_block_bytes = static_cast<uint32_t>(Uint("text_block_bytes"));
    options.index_budget_bytes = Uint("index_budget_bytes");
    options.predicted_ttl_s = Double("predicted_ttl_s");
    options.lease_ttl_s = Double("lease_ttl_s");
    options.latency_interval_s = Double("latency_interval_s");
    ReadPolicyOptions(&options.policy_options);
    if (Get("policy") == "custom") {
      options.custom_policy = std::make_shared<OraclePolicy>();
    } else {
      options.policy = Get("policy");
    }
    auto router = PrefixRouter::Create(options);
    if (!router.ok()) return Fail(router.status());
    router_ = *std::move(router);
    names_.clear();
    return "ok";
  }

  void ReadPolicyOptions(PolicyOptions* options) const {
    const auto read = [&](const char* name, auto* field) {
      if (Has(name)) *field = static_cast<std::decay_t<decltype(*field)>>(Double(name));
    };
    read("hash_load_factor", &options->hash_load_factor);
    read("hash_ring_points", &options->hash_ring_points);
    read("hash_prefix_tokens", &options->hash_prefix_tokens);
    read("hash_max_requests", &options->hash_max_requests);
    read("threshold_match", &options->threshold_match);
    read("threshold_requests", &options->threshold_requests);
    read("threshold_ratio", &options->threshold_ratio);
    read("weight_match", &options->weight_match);
    read("weight_queue", &options->weight_queue);
    read("weight_kv", &options->weight_kv);
    read("block_credit", &options->block_credit);
  }

  std::string Add() {
    InstanceOptions options;
    options.name = Unhex(Get("name"));
    options.rank = static_cast<uint32_t>(Uint("rank"));
    options.capacity_blocks = static_cast<uint32_t>(Uint("capacity_blocks"));
    if (Has("prefill_tokens_per_s")) {
      options.prefill_tokens_per_s = Double("prefill_tokens_per_s");
    }
    if (Has("weight")) options.weight = Double("weight");
    const auto id = router_->AddInstance(options);
    if (!id.ok()) return Fail(id.status());
    names_[id->value] = Get("name") + "/" + Get("rank");
    return Text(id->value);
  }

  template <typename Operation>
  std::string OnInstance(Operation operation) {
    const auto id = router_->FindInstance(Unhex(Get("name")), static_cast<uint32_t>(Uint("rank")));
    const Status status = id.ok() ? operation(*id) : id.status();
    return status.ok() ? "ok" : Fail(status);
  }
  Status Remove(InstanceId id) { return router_->RemoveInstance(id); }
  Status SetState(InstanceId id) {
    return router_->SetInstanceState(id, static_cast<InstanceState>(Int("state")), Double("for_s"));
  }
  Status Report(InstanceId id) {
    EngineLoad load;
    if (Has("running_requests")) load.running_requests = Int("running_requests");
    if (Has("waiting_requests")) load.waiting_requests = Int("waiting_requests");
    if (Has("kv_usage")) load.kv_usage = Double("kv_usage");
    load.age_s = Double("age_s");
    return router_->ReportLoad(id, load);
  }

  // The request lives until the next one.
  const Request& MakeRequest() {
    request_ = Request();
    tokens_.clear();
    items_.clear();
    allowed_.clear();
    text_ = Unhex(Get("text"));
    if (Has("text")) {
      request_ = Request::FromText(text_);
    } else {
      for (uint64_t token : Numbers(Get("tokens"))) {
        tokens_.push_back(static_cast<uint32_t>(token));
      }
      request_ = Request::FromTokens(tokens_);
    }
    for (const char* name : {"model", "adapter", "salt", "session_key"}) {
      strings_[name] = Unhex(Get(name));
    }
    request_.key_space = {strings_["model"], strings_["adapter"], strings_["salt"]};
    request_.session_key = strings_["session_key"];
    const std::vector<uint64_t> pairs = Numbers(Get("multimodal"));
    for (size_t i = 0; i + 1 < pairs.size(); i += 2) items_.push_back({pairs[i], pairs[i + 1]});
    request_.multimodal = items_;
    for (uint64_t id : Numbers(Get("allowed"))) allowed_.push_back({id});
    request_.allowed = allowed_;
    request_.expected_output_tokens = static_cast<uint32_t>(Uint("expected_output_tokens"));
    request_.priority = static_cast<int32_t>(Int("priority"));
    request_.max_ttft_s = Double("max_ttft_s");
    return request_;
  }

  std::string Describe(const CostParts& cost) const {
    return Text(cost.pending) + " " + Text(cost.uncached) + " " + Text(cost.requests) + " " +
           Text(cost.pressure) + " " + Text(cost.total);
  }
  std::string Name(InstanceId id) const { return id.valid() ? names_.at(id.value) : "None"; }

  std::string Describe(const Decision& decision) const {
    return Name(decision.instance) + " " + RuleName(decision.rule) + " " +
           Text(decision.prompt_tokens) + " " + Text(decision.cached_tokens) + " " +
           Text(decision.uncached_tokens()) + " " + Text(decision.best_cached_tokens) + " " +
           Text(decision.predicted_ttft_s) + " " + Describe(decision.cost) + " " +
           Text(decision.miss_weight) + " " + Name(decision.runner_up) + " " +
           Text(decision.runner_up_cost) + " " + Text(uint64_t{decision.candidates}) + " " +
           Text(uint64_t{decision.stale_report}) + " " + Text(decision.home_tokens);
  }

  std::string Route() {
    const auto decision = router_->Route(MakeRequest());
    return decision.ok() ? Describe(*decision) : Fail(decision.status());
  }
  std::string Acquire() {
    auto lease = router_->Acquire(MakeRequest());
    if (!lease.ok()) return Fail(lease.status());
    const Decision decision = lease->decision();
    return Text(lease->Release().value) + " " + Describe(decision);
  }
  std::string Score() {
    const auto table = router_->Score(MakeRequest());
    if (!table.ok()) return Fail(table.status());
    std::string text = Text(table->prompt_tokens) + " " + Text(table->miss_weight);
    for (const ScoreRow& row : table->rows) {
      text += " | " + Name(row.instance) + " " + Text(uint64_t{row.eligible}) + " " +
              Text(uint64_t{row.stale_report}) + " " + Text(row.cached_tokens) + " " +
              Text(row.predicted_ttft_s) + " " + Describe(row.cost) + " " +
              Text(row.requests_in_flight) + " " + Text(row.pending_tokens) + " " +
              Text(row.home_tokens);
    }
    return text;
  }
  std::string Stats() {
    const RouterStats s = router_->Stats();
    std::string text;
    for (uint64_t figure : {s.requests,
                            s.rejected,
                            s.unavailable,
                            s.prompt_tokens,
                            s.cached_tokens,
                            s.best_cached_tokens,
                            s.stale_report_decisions,
                            s.decisions_by_rule[0],
                            s.decisions_by_rule[1],
                            s.decisions_by_rule[2],
                            s.decisions_by_rule[3],
                            s.leases_finished,
                            s.leases_cancelled,
                            s.leases_expired,
                            s.output_tokens,
                            s.reported_requests,
                            s.reported_cached_tokens,
                            s.predicted_cached_tokens,
                            s.over_predicted_tokens,
                            s.under_predicted_tokens,
                            s.requests_at_home,
                            uint64_t{s.index_bytes},
                            uint64_t{s.index_budget_bytes},
                            s.index_runs,
                            s.index_blocks,
                            s.blocks_held,
                            s.blocks_evicted,
                            s.blocks_evicted_by_budget,
                            s.blocks_not_remembered,
                            s.leases_active,
                            s.sessions}) {
      text += Text(figure) + " ";
    }
    for (const uint64_t count : s.route_duration.counts) text += Text(count) + " ";
    text += Text(s.route_duration.sum_s) + " " + Text(s.home_share) + " ";
    for (const InstanceStats& i : s.instances) {
      text += "| " + Name(i.id) + " " + Text(int64_t{static_cast<int32_t>(i.state)}) + " " +
              Text(i.requests_in_flight) + " " + Text(i.requests_waiting) + " " +
              Text(i.pending_tokens) + " " + Text(i.kv_tokens) + " " + Text(i.fluid_tokens) + " " +
              Text(i.blocks_held) + " " + Text(i.capacity_blocks) + " " + Text(i.capacity_scale) +
              " " + Text(i.prefill_tokens_per_s) + " " + Text(uint64_t{i.prefill_rate_learned}) +
              " " + TextOrNone(i.report_age_s) + " " + TextOrNone(i.reported_running_requests) +
              " " + TextOrNone(i.reported_waiting_requests) + " " +
              TextOrNone(i.reported_kv_usage) + " " + Text(i.requests) + " " +
              Text(i.prompt_tokens) + " " + Text(i.cached_tokens) + " ";
      for (const uint64_t count : i.requests_by_rule) text += Text(count) + " ";
    }
    return text.substr(0, text.size() - 1);
  }

  // The router's page; with `label`, as two sources of which one has that label.
  std::string Metrics() {
    MetricsOptions options;
    options.per_instance = Uint("per_instance") != 0;
    const RouterStats stats = router_->Stats();
    if (!Has("label")) {
      const auto page = RenderMetrics(stats, options);
      return page.ok() ? Hex(*page) : Fail(page.status());
    }
    const MetricsSource sources[] = {{&stats, {{"router", Unhex(Get("label"))}}}, {&stats, {}}};
    const auto page = RenderMetrics(sources, options);
    return page.ok() ? Hex(*page) : Fail(page.status());
  }

  static std::string Describe(const EngineRankMetrics& r) {
    return Text(uint64_t{r.rank}) + " " + TextOrNone(r.load.running_requests) + " " +
           TextOrNone(r.load.waiting_requests) + " " + TextOrNone(r.load.kv_usage) + " " +
           TextOrNone(r.block_size) + " " + TextOrNone(r.capacity_tokens) + " " +
           TextOrNone(r.prompt_tokens) + " " + TextOrNone(r.cached_tokens) + " " +
           TextOrNone(r.external_cached_tokens) + " " + Text(uint64_t{r.CapacityBlocks(16)});
  }
  std::string Parse() const {
    const std::string model = Unhex(Get("model"));
    EngineMetricsOptions options;
    options.model = model;
    options.max_ranks = static_cast<uint32_t>(Uint("max_ranks"));
    options.max_bytes = Uint("max_bytes");
    options.max_line_bytes = Uint("max_line_bytes");
    const auto metrics = ParseEngineMetrics(Unhex(Get("page")), options);
    if (!metrics.ok()) return Fail(metrics.status());
    const EngineMetrics& m = *metrics;
    std::string text = std::string(EngineName(m.engine)) + " " + TextOrNone(m.prompt_tokens) + " " +
                       TextOrNone(m.cached_tokens) + " " + TextOrNone(m.external_cached_tokens) +
                       " " + Text(m.samples) + " " + Text(m.unusable_values) + " " +
                       Text(m.malformed_lines) + " ";
    text += m.malformed_lines == 0
                ? "None None"
                : Text(m.first_malformed_line) + " " + Hex(m.first_malformed_reason);
    for (const EngineRankMetrics& rank : m.ranks) text += " | " + Describe(rank);
    return text;
  }
  std::string ReportMetrics() {
    const auto metrics = ParseEngineMetrics(Unhex(Get("page")));
    if (!metrics.ok()) return Fail(metrics.status());
    const auto reported =
        ReportEngineMetrics(*router_, Unhex(Get("name")), *metrics, Double("age_s"));
    return reported.ok() ? Text(uint64_t{*reported}) : Fail(reported.status());
  }

  const Arguments* arguments_ = nullptr;
  std::shared_ptr<ManualClock> clock_;
  std::unique_ptr<PrefixRouter> router_;
  std::map<uint64_t, std::string> names_;  // by id, as name/rank

  Request request_;
  std::vector<uint32_t> tokens_;
  std::vector<MultimodalItem> items_;
  std::vector<InstanceId> allowed_;
  std::map<std::string, std::string> strings_;
  std::string text_;
};

int Main() {
  Oracle oracle;
  for (std::string line; std::getline(std::cin, line);) {
    std::stringstream words(line);
    std::string verb;
    words >> verb;
    Arguments arguments;
    for (std::string word; words >> word;) {
      const size_t equal = word.find('=');
      arguments[word.substr(0, equal)] = word.substr(equal + 1);
    }
    std::cout << oracle.Perform(verb, arguments) << std::endl;
  }
  return 0;
}

}  // namespace
}  // namespace prefixrouter::python_oracle

int main() { return prefixrouter::python_oracle::Main(); }
