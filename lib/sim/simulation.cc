#include "lib/sim/simulation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>

#include "lib/sim/summary.h"

namespace prefixrouter {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr size_t kMostSeriesSteps = 10'000;
constexpr uint64_t kEventsBetweenProgress = 4096;

}  // namespace

Simulation::Simulation(const Workload& workload, const SimulationOptions& options)
    : workload_(workload),
      options_(options),
      clock_(std::make_shared<ManualClock>()),
      random_(options.seed),
      progress_(workload.requests().size()) {}

void Simulation::Push(double time_s, Kind kind, uint32_t subject, uint32_t version) {
  events_.push({time_s, event_number_++, kind, subject, version});
}

void Simulation::SetTime(double time_s) {
  now_s_ = time_s;
  clock_->SetNanos(static_cast<int64_t>(std::min(time_s, 9e9) * 1e9));
  if (time_s >= static_cast<double>(series_filled_ + 1) * series_step_s_ &&
      series_filled_ < kMostSeriesSteps) {
    FillSeries(time_s);
  }
}

// ---- Series ------------------------------------------------------------------------------------

// Samples the state at the ends of all steps up to time_s, before it changes.
void Simulation::FillSeries(double time_s) {
  const size_t steps = std::min(static_cast<size_t>(time_s / series_step_s_), kMostSeriesSteps);
  for (size_t i = 0; i < instances_.size(); ++i) {
    const Engine& engine = instances_[i].engine;
    std::vector<InstanceSample>& samples = result_.series[i];
    samples.resize(std::max(samples.size(), steps));
    for (size_t step = series_filled_; step < steps; ++step) {
      samples[step].running = engine.running();
      samples[step].waiting = engine.waiting();
      samples[step].kv_usage = static_cast<float>(engine.kv_usage());
    }
  }
  series_filled_ = std::max(series_filled_, steps);
}

InstanceSample& Simulation::SampleAt(uint32_t instance, double time_s) {
  std::vector<InstanceSample>& samples = result_.series[instance];
  const size_t step = std::min(static_cast<size_t>(time_s / series_step_s_), kMostSeriesSteps - 1);
  if (step >= samples.size()) samples.resize(step + 1);
  return samples[step];
}

// ---- Requests ----------------------------------------------------------------------------------

void Simulation::Over(uint32_t request) {
  progress_[request].over = true;
  ++over_count_;
  if (next_turn_.empty() || next_turn_[request] == kNone) return;
  const uint32_t next = next_turn_[request];
  Push(now_s_ + ThinkSeconds(request, next), Kind::kArrival, next);
}

double Simulation::ThinkSeconds(uint32_t request, uint32_t next) const {
  const WorkloadRequest& before = workload_.requests()[request];
  const WorkloadRequest& after = workload_.requests()[next];
  if (after.delay_s >= 0) return after.delay_s;
  const double served_s = kNominalOutputTokenSeconds * before.output_tokens;
  return std::max(after.arrival_s - before.arrival_s - served_s, 0.0);
}

void Simulation::Send(uint32_t request) {
  const WorkloadRequest& from = workload_.requests()[request];
  RequestResult& result = result_.requests[request];
  Progress& progress = progress_[request];
  if (result.sends == 0) {
    result.arrival_s = now_s_;
    result.router = static_cast<uint32_t>(random_.Between(0, options_.routers - 1));
  }
  Result<Gateway::Sent> sent = gateways_[result.router]->Send(from, RoutedKeys(from));
  if (!sent.ok()) {
    const StatusCode code = sent.status().code();
    if (code != StatusCode::kUnavailable && code != StatusCode::kResourceExhausted) {
      status_ = sent.status();
    }
    result.outcome = Outcome::kRejected;
    Over(request);
    return;
  }
  progress.sent = *sent;
  ++result.sends;
  result.instance = sent->instance;
  result.predicted_tokens = sent->predicted_tokens;
  Instance& instance = instances_[sent->instance];
  if (!instance.up) {
    Push(now_s_ + options_.feedback_delay_s, Kind::kError, request, result.sends);
    return;
  }
  if (!instance.engine.Fits(from.prompt_tokens, from.output_tokens)) {
    result.outcome = Outcome::kTooLong;
    Push(now_s_ + options_.feedback_delay_s, Kind::kError, request, result.sends);
    return;
  }
  progress.in_engine = true;
  instance.engine.Submit({request, from.prompt_tokens, from.output_tokens, workload_.keys(from)});
  if (!instance.engine.stepping()) StartStep(sent->instance);
}

void Simulation::Feedback(const Event& event) {
  const uint32_t request = event.subject;
  RequestResult& result = result_.requests[request];
  if (event.version != result.sends) return;  // it has been sent again since
  Gateway& gateway = *gateways_[result.router];
  const Gateway::Sent& sent = progress_[request].sent;
  if (event.kind == Kind::kFirstToken) {
    gateway.FirstToken(sent);
  } else if (event.kind == Kind::kFinish) {
    FinishInfo info;
    info.output_tokens = result.output_tokens;
    if (options_.report_cached_tokens) info.engine_cached_tokens = result.cached_tokens;
    gateway.Finish(sent, info);
  } else {
    gateway.Cancel(sent);
    if (result.outcome == Outcome::kTooLong) {
      Over(request);
      return;
    }
    // The gateway forgets the instance, unless it has come back in the meantime.
    if (!instances_[sent.instance].up) gateway.Remove(sent.instance);
    Send(request);
  }
}

// ---- Engines -----------------------------------------------------------------------------------

void Simulation::StartStep(uint32_t index) {
  Instance& instance = instances_[index];
  const double seconds = instance.engine.StartStep();
  if (seconds <= 0) return;
  instance.step_start_s = now_s_;
  Push(now_s_ + seconds, Kind::kStepEnd, index, instance.epoch);
}

void Simulation::EndStep(uint32_t index) {
  Instance& instance = instances_[index];
  const StepWork& work = instance.engine.last_step();
  instance.work += static_cast<double>(work.prefill_tokens) / options_.instances[index].speed;
  InstanceSample& sample = SampleAt(index, now_s_);
  sample.prefill_tokens += work.prefill_tokens;
  sample.decode_tokens += work.decode_requests;
  sample.busy_s += now_s_ - instance.step_start_s;

  step_events_.clear();
  instance.engine.FinishStep(&step_events_);
  for (const EngineEvent& event : step_events_) {
    RequestResult& result = result_.requests[event.id];
    const double known_s = now_s_ + options_.feedback_delay_s;
    // A request that lost its instance after its first token has shown it to the client.
    if (event.first_token) {
      if (result.first_token_s < 0) result.first_token_s = now_s_;
      Push(known_s, Kind::kFirstToken, event.id, result.sends);
    }
    if (event.finished) {
      result.end_s = now_s_;
      result.cached_tokens = event.cached_tokens;
      result.preemptions += event.preemptions;
      result.outcome = Outcome::kDone;
      progress_[event.id].in_engine = false;
      Push(known_s, Kind::kFinish, event.id, result.sends);
      Over(event.id);
    }
  }
  if (options_.kv_events) PublishKvEvents(index);
  StartStep(index);
}

// ---- Metrics -----------------------------------------------------------------------------------

void Simulation::Poll() {
  std::vector<Metrics> read;
  read.reserve(instances_.size());
  for (uint32_t i = 0; i < instances_.size(); ++i) {
    const Instance& instance = instances_[i];
    if (!instance.up) continue;
    EngineLoad load;
    load.running_requests = instance.engine.running();
    load.waiting_requests = instance.engine.waiting();
    load.kv_usage = std::min(instance.engine.kv_usage(), 1.0);
    load.age_s = options_.metrics_age_s;
    read.push_back({i, instance.epoch, load});
  }
  metrics_.push_back(std::move(read));
  if (options_.metrics_age_s > 0) {
    Push(now_s_ + options_.metrics_age_s, Kind::kMetrics, 0);
  } else {
    DeliverMetrics();
  }
  if (over_count_ < progress_.size()) Push(now_s_ + options_.metrics_period_s, Kind::kPoll, 0);
}

void Simulation::DeliverMetrics() {
  for (const Metrics& metrics : metrics_.front()) {
    if (metrics.epoch != instances_[metrics.instance].epoch) continue;
    for (const auto& gateway : gateways_) gateway->Report(metrics.instance, metrics.load);
  }
  metrics_.pop_front();
}

// ---- KV events ---------------------------------------------------------------------------------

Span<const uint64_t> Simulation::RoutedKeys(const WorkloadRequest& request) const {
  if (!options_.kv_events) return workload_.keys(request);
  return {router_keys_.data() + request.first_key, request.key_count};
}

void Simulation::PublishKvEvents(uint32_t instance) {
  KvMessage message = publishers_[instance].Take();
  if (message.empty()) return;
  kv_messages_.push_back(std::move(message));
  Push(now_s_ + options_.kv_event_delay_s, Kind::kKvEvents, instance, instances_[instance].epoch);
}

// What an instance sent before it failed is lost.
void Simulation::DeliverKvEvents(uint32_t instance, uint32_t epoch) {
  const KvMessage message = std::move(kv_messages_.front());  // all are equally long on their way
  kv_messages_.pop_front();
  if (epoch != instances_[instance].epoch) return;
  const KvEventBatch batch = message.Batch(workload_.block_size(), &kv_scratch_);
  for (const auto& gateway : gateways_) {
    if (Status applied = gateway->ApplyKvEvents(instance, batch); !applied.ok()) status_ = applied;
  }
}

// ---- Fleet -------------------------------------------------------------------------------------

void Simulation::Fail(uint32_t index) {
  Instance& instance = instances_[index];
  instance.up = false;
  ++instance.epoch;
  for (const uint32_t request : instance.engine.Fail()) {
    progress_[request].in_engine = false;
    Push(now_s_ + options_.feedback_delay_s, Kind::kError, request,
         result_.requests[request].sends);
  }
}

void Simulation::ChangeFleet(const FleetEvent& event) {
  Instance& instance = instances_[event.instance];
  switch (event.change) {
    case FleetChange::kFail:
      Fail(event.instance);
      break;
    case FleetChange::kRestart:
    case FleetChange::kJoin:
      if (instance.engine.idle()) {  // one that left comes back empty
        instance.engine.Fail();
        ++instance.epoch;
      }
      instance.up = true;
      for (const auto& gateway : gateways_) {
        gateway->Remove(event.instance);  // who has not noticed that it was gone
        if (Status added = gateway->Add(event.instance); !added.ok()) status_ = added;
      }
      break;
    case FleetChange::kLeave:
      for (const auto& gateway : gateways_) gateway->Drain(event.instance);
      break;
  }
}

// ---- The run -----------------------------------------------------------------------------------

Status Simulation::Start() {
  const std::vector<WorkloadRequest>& requests = workload_.requests();
  result_.requests.resize(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    result_.requests[i].prompt_tokens = requests[i].prompt_tokens;
    result_.requests[i].output_tokens = requests[i].output_tokens;
  }
  series_step_s_ = options_.series_step_s;
  if (series_step_s_ == 0) {
    series_step_s_ = std::max(workload_.arrivals().span_s / options_.arrival_scale / 100, 1e-3);
  }
  result_.series_step_s = series_step_s_;
  result_.series.resize(options_.instances.size());

  if (options_.closed_loop) {
    next_turn_.assign(requests.size(), kNone);
    std::vector<uint32_t> last(workload_.sessions().size(), kNone);
    for (uint32_t i = 0; i < requests.size(); ++i) {
      if (requests[i].session == Workload::kNoSession) continue;
      uint32_t& before = last[requests[i].session];
      if (before != kNone) next_turn_[before] = i;
      before = i;
    }
  }

  for (uint32_t number = 0; number < options_.routers; ++number) {
    Result<std::unique_ptr<Gateway>> gateway = Gateway::Create(workload_, options_, clock_, number);
    if (!gateway.ok()) return gateway.status();
    gateways_.push_back(*std::move(gateway));
  }
  std::vector<FleetEvent> fleet_events = options_.events;
  std::stable_sort(fleet_events.begin(), fleet_events.end(),
                   [](const auto& a, const auto& b) { return a.time_s < b.time_s; });
  for (uint32_t i = 0; i < options_.instances.size(); ++i) {
    const SimulatedInstance& simulated = options_.instances[i];
    Instance instance{
        Engine(options_.engine, simulated.speed, simulated.capacity, workload_.block_size())};
    const auto first = std::find_if(fleet_events.begin(), fleet_events.end(),
                                    [&](const FleetEvent& event) { return event.instance == i; });
    instance.up = first == fleet_events.end() || first->change != FleetChange::kJoin;
    instances_.push_back(std::move(instance));
    if (!instances_.back().up) continue;
    for (const auto& gateway : gateways_) {
      if (Status added = gateway->Add(i); !added.ok()) return added;
    }
  }
  if (options_.kv_events) {
    router_keys_ = RouterKeys(workload_, options_.seed);
    publishers_.resize(instances_.size());
    for (size_t i = 0; i < instances_.size(); ++i) {
      instances_[i].engine.cache().set_listener(&publishers_[i]);
    }
  }
  for (uint32_t i = 0; i < fleet_events.size(); ++i) {
    Push(fleet_events[i].time_s, Kind::kFleet, i);
  }
  fleet_events_ = std::move(fleet_events);
  if (options_.metrics_period_s > 0) Push(0, Kind::kPoll, 0);
  return Status();
}

void Simulation::Handle(const Event& event) {
  switch (event.kind) {
    case Kind::kArrival:
      Send(event.subject);
      break;
    case Kind::kStepEnd:
      if (event.version == instances_[event.subject].epoch) EndStep(event.subject);
      break;
    case Kind::kFirstToken:
    case Kind::kFinish:
    case Kind::kError:
      Feedback(event);
      break;
    case Kind::kPoll:
      Poll();
      break;
    case Kind::kMetrics:
      DeliverMetrics();
      break;
    case Kind::kKvEvents:
      DeliverKvEvents(event.subject, event.version);
      break;
    case Kind::kFleet:
      ChangeFleet(fleet_events_[event.subject]);
      break;
  }
}

Result<SimulationResult> Simulation::Run() {
  if (Status started = Start(); !started.ok()) return started;
  const std::vector<WorkloadRequest>& requests = workload_.requests();
  uint32_t next = 0;  // of the open loop, or the first turn of a session
  const auto comes_later = [&](uint32_t i) { return options_.closed_loop && requests[i].turn > 0; };
  uint64_t until_progress = options_.progress ? kEventsBetweenProgress : UINT64_MAX;
  while (over_count_ < requests.size() && status_.ok()) {
    if (--until_progress == 0) {
      if (!options_.progress(over_count_)) {
        return Status(StatusCode::kCancelled, "the simulation was stopped");
      }
      until_progress = kEventsBetweenProgress;
    }
    while (next < requests.size() && comes_later(next)) ++next;
    const double arrival_s = next < requests.size()
                                 ? requests[next].arrival_s / options_.arrival_scale
                                 : std::numeric_limits<double>::infinity();
    if (!events_.empty() && events_.top().time_s < arrival_s) {
      const Event event = events_.top();
      events_.pop();
      SetTime(event.time_s);
      Handle(event);
    } else {
      SetTime(arrival_s);
      Send(next++);
    }
  }
  if (!status_.ok()) return status_;
  result_.summary = Summarise(workload_, options_, result_.requests);
  result_.summary.end_s = now_s_;
  std::vector<double> work;
  for (const Instance& instance : instances_) work.push_back(instance.work);
  result_.summary.max_over_mean_work = MaxOverMean(work);
  size_t steps = 0;
  for (const auto& samples : result_.series) steps = std::max(steps, samples.size());
  for (auto& samples : result_.series) samples.resize(steps);
  return std::move(result_);
}

}  // namespace prefixrouter
