// See fleet.h.
#include "tests/support/fleet.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "tests/catch.h"

namespace prefixrouter::testing {

namespace {

template <typename T>
T Taken(Result<T> result) {
  INFO(result.status().ToString());
  REQUIRE(result.ok());
  return *std::move(result);
}

}  // namespace

Fleet::Fleet(size_t instance_count, RouterOptions options, InstanceOptions instance)
    : clock_(std::make_shared<ManualClock>(1'000'000'000)) {
  options.clock = clock_;
  if (!options.key_seed.has_value()) options.key_seed = kKeySeed;
  if (!options.random_seed.has_value()) options.random_seed = kRandomSeed;
  router_ = Taken(PrefixRouter::Create(options));
  for (size_t i = 0; i < instance_count; ++i) Add(instance);
}

size_t Fleet::IndexOf(InstanceId id) const {
  return static_cast<size_t>(std::find(ids_.begin(), ids_.end(), id) - ids_.begin());
}

size_t Fleet::Add(InstanceOptions instance) {
  instance.name = "i" + std::to_string(ids_.size());
  ids_.push_back(Taken(router_->AddInstance(instance)));
  return ids_.size() - 1;
}

Decision Fleet::Route(const Request& request) { return Taken(router_->Route(request)); }

Lease Fleet::Acquire(const Request& request) { return Taken(router_->Acquire(request)); }

Decision Fleet::Place(size_t index, Request request) {
  request.allowed = {&ids_[index], 1};
  const Decision decision = Route(request);
  REQUIRE(decision.instance == ids_[index]);
  return decision;
}

Lease Fleet::AcquireOn(size_t index, Request request) {
  request.allowed = {&ids_[index], 1};
  Lease lease = Acquire(request);
  REQUIRE(lease.instance() == ids_[index]);
  return lease;
}

std::vector<Lease> Fleet::AcquireOn(size_t index, const Request& request, size_t count) {
  std::vector<Lease> leases;
  while (leases.size() < count) leases.push_back(AcquireOn(index, request));
  return leases;
}

ScoreRow Fleet::Row(size_t index, const Request& request) const {
  const ScoreTable table = Taken(router_->Score(request));
  for (const ScoreRow& row : table.rows) {
    if (row.instance == ids_[index]) return row;
  }
  FAIL("instance i" << index << " is not in the score table");
  return {};
}

InstanceStats Fleet::StatsOf(size_t index) const {
  for (InstanceStats& instance : router_->Stats().instances) {
    if (instance.id == ids_[index]) return std::move(instance);
  }
  FAIL("instance i" << index << " is not in the statistics");
  return {};
}

std::vector<uint64_t> Fleet::RequestCounts() const {
  std::vector<uint64_t> counts(ids_.size(), 0);
  for (const InstanceStats& instance : router_->Stats().instances) {
    const size_t index = IndexOf(instance.id);
    if (index < counts.size()) counts[index] = instance.requests;
  }
  return counts;
}

std::string Describe(const RouterStats& s) {
  std::ostringstream out;
  out.precision(17);
  out << "requests " << s.requests << "\nrejected " << s.rejected << "\nunavailable "
      << s.unavailable << "\nprompt_tokens " << s.prompt_tokens << "\ncached_tokens "
      << s.cached_tokens << "\nbest_cached_tokens " << s.best_cached_tokens
      << "\nstale_report_decisions " << s.stale_report_decisions << "\ndecisions_by_rule";
  for (uint64_t count : s.decisions_by_rule) out << ' ' << count;
  out << "\nleases_finished " << s.leases_finished << "\nleases_cancelled " << s.leases_cancelled
      << "\nleases_expired " << s.leases_expired << "\nreported_requests " << s.reported_requests
      << "\nreported_cached_tokens " << s.reported_cached_tokens << "\npredicted_cached_tokens "
      << s.predicted_cached_tokens << "\nover_predicted_tokens " << s.over_predicted_tokens
      << "\nunder_predicted_tokens " << s.under_predicted_tokens << "\nrequests_at_home "
      << s.requests_at_home << "\nhome_share " << s.home_share << "\nindex_bytes " << s.index_bytes
      << "\nindex_budget_bytes " << s.index_budget_bytes << "\nindex_runs " << s.index_runs
      << "\nindex_blocks " << s.index_blocks << "\nblocks_held " << s.blocks_held
      << "\nblocks_evicted " << s.blocks_evicted << "\nblocks_evicted_by_budget "
      << s.blocks_evicted_by_budget << "\nblocks_not_remembered " << s.blocks_not_remembered
      << "\nleases_active " << s.leases_active << "\nsessions " << s.sessions
      << "\nkv_event_batches " << s.kv_event_batches << "\nkv_events";
  for (uint64_t count : s.kv_events.counts) out << ' ' << count;
  out << '\n';
  for (const InstanceStats& i : s.instances) {
    out << "instance " << i.id.value << " name " << i.name << " rank " << i.rank << " state "
        << static_cast<int32_t>(i.state) << " in_flight " << i.requests_in_flight << " waiting "
        << i.requests_waiting << " pending " << i.pending_tokens << " kv " << i.kv_tokens
        << " fluid " << i.fluid_tokens << " held " << i.blocks_held << " capacity "
        << i.capacity_blocks << " scale " << i.capacity_scale << " rate " << i.prefill_tokens_per_s
        << " learned " << i.prefill_rate_learned << " report_age " << i.report_age_s << " reported "
        << i.reported_running_requests << ' ' << i.reported_waiting_requests << ' '
        << i.reported_kv_usage << " requests " << i.requests << " prompt_tokens " << i.prompt_tokens
        << " cached_tokens " << i.cached_tokens << " event_driven " << i.event_driven
        << " last_event_age " << i.last_event_age_s << " engine_blocks " << i.engine_blocks
        << " kv_events";
    for (uint64_t count : i.kv_events.counts) out << ' ' << count;
    out << " confirmed";
    for (uint64_t count : i.confirmed_blocks) out << ' ' << count;
    out << '\n';
  }
  return out.str();
}

std::string Describe(const Decision& d) {
  std::ostringstream out;
  out.precision(17);
  out << "instance " << d.instance.value << " rule " << RuleName(d.rule) << " prompt "
      << d.prompt_tokens << " cached " << d.cached_tokens << " best_cached " << d.best_cached_tokens
      << " ttft " << d.predicted_ttft_s << " pending " << d.cost.pending << " uncached "
      << d.cost.uncached << " requests " << d.cost.requests << " pressure " << d.cost.pressure
      << " total " << d.cost.total << " miss_weight " << d.miss_weight << " runner_up "
      << d.runner_up.value << " runner_up_cost " << d.runner_up_cost << " candidates "
      << d.candidates << " stale_report " << d.stale_report << " cached_credit "
      << d.cached_credit_tokens << " home " << d.home_tokens;
  return out.str();
}

std::string Describe(const ScoreTable& table) {
  std::ostringstream out;
  out.precision(17);
  out << "prompt " << table.prompt_tokens << " miss_weight " << table.miss_weight << '\n';
  for (const ScoreRow& row : table.rows) {
    out << "instance " << row.instance.value << " eligible " << row.eligible << " stale "
        << row.stale_report << " cached " << row.cached_tokens << " ttft " << row.predicted_ttft_s
        << " pending " << row.cost.pending << " uncached " << row.cost.uncached << " requests "
        << row.cost.requests << " pressure " << row.cost.pressure << " total " << row.cost.total
        << " in_flight " << row.requests_in_flight << " pending_tokens " << row.pending_tokens
        << " cached_credit " << row.cached_credit_tokens << " home " << row.home_tokens << '\n';
  }
  return out.str();
}

uint64_t Spread(const std::vector<uint64_t>& counts) {
  const auto [low, high] = std::minmax_element(counts.begin(), counts.end());
  return *high - *low;
}

}  // namespace prefixrouter::testing
