// Simulation: the event loop of one run.
//
// Events are kept in a binary heap by time, then by the order in which they were made, so that a
// run is a function of its arguments. Arrivals of the open loop come from the workload, which is
// sorted. What happens to a request:
//
//   arrival -> Gateway::Send -> Engine::Submit -> steps ... first token -> ... -> end
//                    |                 |                 |                 |
//                rejected        does not fit        feedback          feedback, and in the closed
//                                                                      loop the next turn
//
// At the end of a step its KV events are sent to all gateways, if there are any.
//
// Feedback reaches the gateway after feedback_delay_s. When an instance fails, its requests' errors
// reach their gateways like feedback; these forget the instance and send the requests again, as
// they do with requests that they send to it before they know. The time to first token then counts
// from the first arrival on.
#ifndef PREFIXROUTER_LIB_SIM_SIMULATION_H_
#define PREFIXROUTER_LIB_SIM_SIMULATION_H_

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <queue>
#include <vector>

#include "lib/sim/engine.h"
#include "lib/sim/gateway.h"
#include "lib/sim/kv_publisher.h"
#include "lib/sim/random.h"
#include "prefixrouter/clock.h"
#include "prefixrouter/simulator.h"

namespace prefixrouter {

class Simulation {
 public:
  // REQUIRES: checked options. Both are borrowed.
  Simulation(const Workload& workload, const SimulationOptions& options);

  Result<SimulationResult> Run();

 private:
  enum class Kind : uint32_t {
    kArrival,     // of a later turn: request
    kStepEnd,     // instance, epoch
    kFirstToken,  // feedback: request, sends
    kFinish,      // the same
    kError,       // the same
    kPoll,        // metrics are read
    kMetrics,     // metrics arrive
    kKvEvents,    // KV events arrive: instance, epoch
    kFleet,       // event
  };
  struct Event {
    double time_s;
    uint64_t number;
    Kind kind;
    uint32_t subject;
    uint32_t version;  // events of an earlier epoch or send are void
    bool operator>(const Event& other) const {
      return time_s != other.time_s ? time_s > other.time_s : number > other.number;
    }
  };
  struct Instance {
    Engine engine;
    bool up = false;
    uint32_t epoch = 0;  // counts failures
    double step_start_s = 0;
    double work = 0;  // prefilled tokens / speed
  };
  struct Progress {
    Gateway::Sent sent;
    bool in_engine = false;
    bool over = false;
  };
  struct Metrics {
    uint32_t instance;
    uint32_t epoch;
    EngineLoad load;
  };

  void Push(double time_s, Kind kind, uint32_t subject, uint32_t version = 0);
  void SetTime(double time_s);
  Status Start();
  void Handle(const Event& event);
  void Send(uint32_t request);
  void StartStep(uint32_t instance);
  void EndStep(uint32_t instance);
  void Feedback(const Event& event);
  void Poll();
  void DeliverMetrics();
  Span<const uint64_t> RoutedKeys(const WorkloadRequest& request) const;
  void PublishKvEvents(uint32_t instance);
  void DeliverKvEvents(uint32_t instance, uint32_t epoch);
  void ChangeFleet(const FleetEvent& event);
  void Fail(uint32_t instance);
  // The request will not be looked at again; its session goes on.
  void Over(uint32_t request);
  double ThinkSeconds(uint32_t request, uint32_t next) const;
  InstanceSample& SampleAt(uint32_t instance, double time_s);
  void FillSeries(double time_s);

  const Workload& workload_;
  const SimulationOptions& options_;
  std::shared_ptr<ManualClock> clock_;
  SplitMix64 random_;
  double now_s_ = 0;
  uint64_t event_number_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<std::unique_ptr<Gateway>> gateways_;
  std::vector<Instance> instances_;
  std::vector<FleetEvent> fleet_events_;  // by time
  std::vector<Progress> progress_;        // by request
  std::vector<uint32_t> next_turn_;       // by request, in the closed loop; kNone: there is none
  std::deque<std::vector<Metrics>> metrics_;  // on their way
  std::vector<KvPublisher> publishers_;       // by instance; without KV events there are none
  std::vector<uint64_t> router_keys_;         // as the workload's own; the same
  std::deque<KvMessage> kv_messages_;         // on their way
  KvMessage::Scratch kv_scratch_;
  std::vector<EngineEvent> step_events_;
  uint64_t over_count_ = 0;
  double series_step_s_ = 0;
  size_t series_filled_ = 0;  // steps whose end has been sampled
  Status status_;             // of a call that must not fail
  SimulationResult result_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_SIM_SIMULATION_H_
