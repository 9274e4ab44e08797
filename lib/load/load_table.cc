#include "lib/load/load_table.h"

#include <algorithm>
#include <cmath>

#include "lib/base/vector.h"

namespace prefixrouter {
namespace {

constexpr int64_t kFluidStepNanos = 1'000'000;
constexpr int64_t kFadeSteps = 256;
// Uncached tokens of a typical request, until requests have shown it.
constexpr double kTypicalUncachedTokens = 1000;
constexpr double kMeanDecay = 0.95;
// The model's slope is passed on to all instances when it has moved by this share.
constexpr double kSlopeStep = 0.02;
constexpr int64_t kFadeFactorsNanos = 1'000'000'000;

}  // namespace

LoadTable::LoadTable(const RouterOptions& options)
    : default_rate_(options.default_prefill_tokens_per_s),
      calibrate_(options.calibrate),
      report_max_age_nanos_(static_cast<int64_t>(options.report_max_age_s * 1e9)),
      others_(options.routers),
      mean_uncached_tokens_(kTypicalUncachedTokens) {}

// ---- Instances ---------------------------------------------------------------------------------

void LoadTable::Add(InstanceId id, const InstanceOptions& options) {
  const uint32_t slot = id.slot();
  if (slot >= instances_.size()) {
    const size_t size = slot + 1;
    instances_.resize(size);
    ids_.resize(size);
    eligible_.resize(size);
    penalty_.resize(size, INFINITY);
    for (LineVector<float>* array :
         {&pending_, &lease_pending_, &fluid_, &external_pending_, &external_requests_, &requests_,
          &waiting_, &kv_tokens_, &kv_usage_, &displacement_}) {
      array->resize(size, 0);
    }
    crowding_.resize(size, 1);
    tokens_per_s_.resize(size, 1);
    seconds_per_token_.resize(size, 1);
    weight_.resize(size, 1);
  }
  Instance& instance = instances_[slot];
  instance = Instance();
  instance.options = options;
  ids_[slot] = id;
  weight_[slot] = static_cast<float>(options.weight);
  others_.InstanceAdded(slot);
  ++live_count_;
  UpdateRate(slot);
  UpdateState(slot);
}

void LoadTable::Remove(InstanceId id) {
  const uint32_t slot = id.slot();
  requests_waiting_ -= instances_[slot].requests_waiting;
  external_waiting_ -= instances_[slot].faded_waiting;
  instances_[slot] = Instance();
  others_.InstanceRemoved(slot);
  fluid_total_ -= fluid_[slot];
  for (LineVector<float>* array :
       {&pending_, &lease_pending_, &fluid_, &external_pending_, &external_requests_, &requests_,
        &waiting_, &kv_tokens_, &kv_usage_}) {
    (*array)[slot] = 0;
  }
  crowding_[slot] = 1;
  if (displacement_[slot] != 0) --displaced_count_;
  displacement_[slot] = 0;
  ids_[slot] = InstanceId();
  --live_count_;
  UpdateState(slot);
}

void LoadTable::SetState(InstanceId id, InstanceState state, int64_t until_nanos) {
  Instance& instance = instances_[id.slot()];
  instance.state = state;
  instance.state_until_nanos = state == InstanceState::kReady ? INT64_MAX : until_nanos;
  next_state_end_nanos_ = std::min(next_state_end_nanos_, instance.state_until_nanos);
  UpdateState(id.slot());
}

void LoadTable::UpdateState(uint32_t slot) {
  const bool ready = ids_[slot].valid() && instances_[slot].state == InstanceState::kReady;
  ready_count_ += static_cast<uint32_t>(ready) - eligible_[slot];
  eligible_[slot] = ready ? 1 : 0;
  penalty_[slot] = ready ? 0 : INFINITY;
}

void LoadTable::Report(InstanceId id, const EngineLoad& load, int64_t now_nanos) {
  Instance& instance = instances_[id.slot()];
  const double running = static_cast<double>(std::max<int64_t>(load.running_requests, 0));
  const double waiting = static_cast<double>(std::max<int64_t>(load.waiting_requests, 0));
  instance.reported = any_report_ = true;
  instance.report = load;
  const int64_t age_nanos = static_cast<int64_t>(std::min(load.age_s, 1e9) * 1e9);
  instance.report_nanos = std::max(now_nanos, INT64_MIN + age_nanos) - age_nanos;
  if (age_nanos > 0) any_aged_report_ = true;
  NoteOwn(&instance, now_nanos);
  const OwnRequests own = instance.history.At(instance.report_nanos, Own(instance));
  instance.external_requests = std::max(running + waiting - own.in_flight, 0.0);
  instance.external_waiting = std::max(waiting - own.waiting, 0.0);
  if (load.running_requests >= 0 || load.waiting_requests >= 0) {
    others_.Reported(id.slot(), instance.external_requests, now_nanos);
  }
  FadeReport(id.slot(), now_nanos, others_.Rate(now_nanos));
}

// ---- Work --------------------------------------------------------------------------------------

void LoadTable::Reserve(LeaseRecord* record) {
  const LeaseRecord& lease = *record;
  const uint32_t slot = lease.instance.slot();
  Instance& instance = instances_[slot];
  ++instance.requests_in_flight;
  ++instance.requests_waiting;
  ++requests_waiting_;
  NoteOwn(&instance, lease.started_nanos);
  instance.pending_tokens += static_cast<int64_t>(lease.uncached_tokens());
  instance.kv_tokens += static_cast<int64_t>(lease.kv_tokens);
  UpdateRequests(slot);
  UpdatePending(slot);
  record->pending_tokens = pending_[slot];
}

void LoadTable::FirstToken(const LeaseRecord& lease, int64_t now_nanos) {
  const uint32_t slot = lease.instance.slot();
  Instance& instance = instances_[slot];
  --instance.requests_waiting;
  --requests_waiting_;
  NoteOwn(&instance, now_nanos);
  instance.pending_tokens -= static_cast<int64_t>(lease.uncached_tokens());
  UpdateRequests(slot);
  UpdatePending(slot);
  if (calibrate_) {
    // The model is of an instance of the default rate.
    const double relative_rate = ConfiguredRate(instance.options) / default_rate_;
    const double prefill_s = lease.pending_tokens / default_rate_;
    // Clocks may have any value, even such that the difference is no int64_t.
    const double ttft_s =
        1e-9 * (static_cast<double>(now_nanos) - static_cast<double>(lease.started_nanos));
    const double modelled_s = model_.Predict(prefill_s) / relative_rate;
    speed_spread_.Add(instance.speed, modelled_s, ttft_s);
    instance.speed.Add(modelled_s, ttft_s, now_nanos);
    model_.Add(prefill_s, ttft_s * relative_rate);
    const double moved = model_.slope() / slope_in_use_;
    if (moved < 1 - kSlopeStep || moved > 1 + kSlopeStep) {
      slope_in_use_ = model_.slope();
      UpdateRates();
    } else {
      UpdateRate(slot);
    }
  }
}

double LoadTable::ConfiguredRate(const InstanceOptions& options) const {
  return options.prefill_tokens_per_s > 0 ? options.prefill_tokens_per_s : default_rate_;
}

void LoadTable::Release(const LeaseRecord& lease, int64_t now_nanos) {
  const uint32_t slot = lease.instance.slot();
  Instance& instance = instances_[slot];
  --instance.requests_in_flight;
  instance.kv_tokens -= static_cast<int64_t>(lease.kv_tokens);
  if (!lease.first_token) {
    --instance.requests_waiting;
    --requests_waiting_;
    instance.pending_tokens -= static_cast<int64_t>(lease.uncached_tokens());
    UpdatePending(slot);
  }
  NoteOwn(&instance, now_nanos);
  UpdateRequests(slot);
}

bool LoadTable::LearnCapacity(const LeaseRecord& lease, uint64_t reported_cached_tokens,
                              bool index_full) {
  return calibrate_ &&
         instances_[lease.instance.slot()].capacity.AddReport(
             static_cast<double>(lease.prompt_tokens), static_cast<double>(lease.cached_tokens),
             static_cast<double>(reported_cached_tokens), index_full);
}

void LoadTable::SetDisplacement(InstanceId id, float displacement) {
  float& own = displacement_[id.slot()];
  displaced_count_ += static_cast<uint32_t>(displacement != 0) - static_cast<uint32_t>(own != 0);
  own = displacement;
}

uint64_t LoadTable::CapacityBlocks(InstanceId id) const {
  const Instance& instance = instances_[id.slot()];
  const double blocks = instance.options.capacity_blocks * instance.capacity.scale();
  return std::max<uint64_t>(1, static_cast<uint64_t>(std::llround(blocks)));
}

void LoadTable::AddFluid(InstanceId id, uint64_t uncached_tokens) {
  if (uncached_tokens == 0) return;  // other threads read the memory; leave it alone
  fluid_[id.slot()] += static_cast<float>(uncached_tokens);
  fluid_total_ += static_cast<double>(uncached_tokens);
  UpdatePending(id.slot());
}

void LoadTable::CountRequest(uint64_t uncached_tokens, int64_t now_nanos) {
  // At least 1: where everything is cached it would become subnormal, which is slow.
  const double uncached = std::max(static_cast<double>(uncached_tokens), 1.0);
  mean_uncached_tokens_ = kMeanDecay * mean_uncached_tokens_ + (1 - kMeanDecay) * uncached;
  others_.Sent(now_nanos);
}

void LoadTable::UpdateRequests(uint32_t slot) {
  const Instance& instance = instances_[slot];
  requests_[slot] = static_cast<float>(instance.requests_in_flight) + external_requests_[slot];
  waiting_[slot] =
      static_cast<float>(static_cast<double>(instance.requests_waiting) + instance.faded_waiting);
  crowding_[slot] = Crowding(requests_[slot], waiting_[slot]);
  kv_tokens_[slot] = static_cast<float>(instance.kv_tokens);
}

void LoadTable::UpdatePending(uint32_t slot) {
  lease_pending_[slot] = static_cast<float>(instances_[slot].pending_tokens);
  pending_[slot] = lease_pending_[slot] + fluid_[slot] + external_pending_[slot];
}

void LoadTable::UpdateRate(uint32_t slot) {
  const Instance& instance = instances_[slot];
  const double factor = calibrate_ ? slope_in_use_ * instance.speed.factor(speed_spread_) : 1;
  const double rate = std::clamp(ConfiguredRate(instance.options) / factor, 1e-6, 1e9);
  tokens_per_s_[slot] = static_cast<float>(rate);
  seconds_per_token_[slot] = static_cast<float>(1 / (rate * weight_[slot]));
}

void LoadTable::UpdateRates() {
  for (uint32_t slot = 0; slot < instances_.size(); ++slot) UpdateRate(slot);
}

void LoadTable::FadeFactors(int64_t now_nanos) {
  next_factor_fade_nanos_ = std::min(now_nanos, INT64_MAX - kFadeFactorsNanos) + kFadeFactorsNanos;
  for (uint32_t slot = 0; slot < instances_.size(); ++slot) {
    SpeedFactor& speed = instances_[slot].speed;
    if (!speed.any()) continue;
    speed.Fade(now_nanos);
    UpdateRate(slot);  // what is believed of it changes with the fleet's spread as well
  }
}

// ---- Time --------------------------------------------------------------------------------------

void LoadTable::Refresh(int64_t now_nanos) {
  if (now_nanos >= next_state_end_nanos_) {
    next_state_end_nanos_ = INT64_MAX;
    for (uint32_t slot = 0; slot < instances_.size(); ++slot) {
      Instance& instance = instances_[slot];
      if (now_nanos >= instance.state_until_nanos) {
        instance.state = InstanceState::kReady;
        instance.state_until_nanos = INT64_MAX;
        UpdateState(slot);
      }
      next_state_end_nanos_ = std::min(next_state_end_nanos_, instance.state_until_nanos);
    }
  }
  if (any_report_ && now_nanos >= next_fade_nanos_) {
    next_fade_nanos_ = now_nanos + report_max_age_nanos_ / kFadeSteps;
    any_report_ = false;
    const double others_rate = others_.Rate(now_nanos);
    for (uint32_t slot = 0; slot < instances_.size(); ++slot) {
      FadeReport(slot, now_nanos, others_rate);
    }
  }
  if (now_nanos >= next_factor_fade_nanos_) FadeFactors(now_nanos);
  if (fluid_nanos_ == INT64_MIN) fluid_nanos_ = now_nanos;
  if (now_nanos - fluid_nanos_ >= kFluidStepNanos) DrainFluid(now_nanos);
}

void LoadTable::FadeReport(uint32_t slot, int64_t now_nanos, double others_rate) {
  Instance& instance = instances_[slot];
  if (!instance.reported) return;
  const double age_nanos =
      static_cast<double>(now_nanos) - static_cast<double>(instance.report_nanos);
  const double age = age_nanos / static_cast<double>(report_max_age_nanos_);
  const double share = std::clamp(2 * (1 - age), 0.0, 1.0);
  if (share > 0) any_report_ = true;  // it has to fade further
  const double sent_since = others_.Expected(slot, 1e-9 * age_nanos, others_rate);
  const double waiting = (instance.external_waiting + sent_since) * share;
  external_waiting_ += waiting - instance.faded_waiting;
  instance.faded_waiting = waiting;
  external_pending_[slot] = static_cast<float>(waiting * mean_uncached_tokens_);
  external_requests_[slot] = static_cast<float>((instance.external_requests + sent_since) * share);
  kv_usage_[slot] = static_cast<float>(std::max(instance.report.kv_usage, 0.0) * share);
  UpdateRequests(slot);
  UpdatePending(slot);
}

PREFIX_ROUTER_VECTOR void LoadTable::DrainFluid(int64_t now_nanos) {
  const float seconds = 1e-9f * static_cast<float>(now_nanos - fluid_nanos_);
  fluid_nanos_ = now_nanos;
  if (fluid_total_ <= 0) return;
  const size_t size = instances_.size();
  float* const fluid = fluid_.data();
  float* const pending = pending_.data();
  const float* const rate = tokens_per_s_.data();
  const float* const leased = lease_pending_.data();
  const float* const external = external_pending_.data();
  float total = 0;
#pragma omp simd reduction(+ : total)
  for (size_t i = 0; i < size; ++i) {
    const float left = fluid[i] - rate[i] * seconds;
    fluid[i] = left > 0 ? left : 0;
    total += fluid[i];
    pending[i] = leased[i] + fluid[i] + external[i];
  }
  fluid_total_ = total;
}

bool LoadTable::StaleReport(uint32_t slot, int64_t now_nanos) const {
  const Instance& instance = instances_[slot];
  return instance.reported && now_nanos - instance.report_nanos >= report_max_age_nanos_;
}

void LoadTable::FillInput(PolicyInput* in) const {
  in->size = instances_.size();
  in->ids = ids_.data();
  in->eligible = eligible_.data();
  in->pending_tokens = pending_.data();
  in->tokens_per_s = tokens_per_s_.data();
  in->seconds_per_token = seconds_per_token_.data();
  in->requests = requests_.data();
  in->waiting = waiting_.data();
  in->crowding = crowding_.data();
  in->kv_tokens = kv_tokens_.data();
  in->kv_usage = kv_usage_.data();
  in->any_report = any_report_;
  in->displacement = displacement_.data();
  in->any_displacement = displaced_count_ != 0;
  in->weight = weight_.data();
  in->overhead_tokens = static_cast<float>(overhead_tokens());
  const double waiting = static_cast<double>(requests_waiting_) + external_waiting_ +
                         fluid_total_ / mean_uncached_tokens_;
  in->mean_waiting = static_cast<float>(waiting / std::max<uint32_t>(ready_count_, 1));
}

InstanceStats LoadTable::Stats(uint32_t slot, int64_t now_nanos) const {
  const Instance& instance = instances_[slot];
  InstanceStats stats;
  stats.id = ids_[slot];
  stats.name = instance.options.name;
  stats.rank = instance.options.rank;
  stats.state = instance.state;
  stats.requests_in_flight = instance.requests_in_flight;
  stats.requests_waiting = instance.requests_waiting;
  stats.pending_tokens = instance.pending_tokens;
  stats.kv_tokens = instance.kv_tokens;
  stats.fluid_tokens = fluid_[slot];
  stats.capacity_blocks = instance.options.capacity_blocks;
  stats.capacity_scale = instance.capacity.scale();
  stats.prefill_tokens_per_s = tokens_per_s_[slot];
  stats.prefill_rate_learned = instance.speed.learned();
  if (instance.reported) {
    stats.report_age_s = 1e-9 * static_cast<double>(now_nanos - instance.report_nanos);
    stats.reported_running_requests = instance.report.running_requests;
    stats.reported_waiting_requests = instance.report.waiting_requests;
    stats.reported_kv_usage = instance.report.kv_usage;
  }
  return stats;
}

}  // namespace prefixrouter
