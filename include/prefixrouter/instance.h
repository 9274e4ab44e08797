// What the router is told about an inference instance: its identity, its options, its state and the
// load that its engine reports.
//
// An *instance* is one routing target with one KV cache. A server with several data-parallel ranks
// is several instances with one name and different ranks.
#ifndef PREFIXROUTER_INSTANCE_H_
#define PREFIXROUTER_INSTANCE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace prefixrouter {

// A handle of an instance, valid from AddInstance to RemoveInstance. It carries a generation: after
// a removal the same handle never means another instance, so that whatever arrives late is ignored.
struct InstanceId {
  uint64_t value = 0;  // low 32 bits: slot, high 32 bits: generation (from 1). 0 is no instance.

  constexpr bool valid() const { return value != 0; }
  constexpr uint32_t slot() const { return static_cast<uint32_t>(value); }
  constexpr uint32_t generation() const { return static_cast<uint32_t>(value >> 32); }
  static constexpr InstanceId Make(uint32_t slot, uint32_t generation) {
    return {static_cast<uint64_t>(generation) << 32 | slot};
  }
  friend constexpr bool operator==(InstanceId a, InstanceId b) { return a.value == b.value; }
  friend constexpr bool operator!=(InstanceId a, InstanceId b) { return a.value != b.value; }
  friend constexpr bool operator<(InstanceId a, InstanceId b) { return a.value < b.value; }
};

enum class InstanceState : int32_t {
  kReady = 0,     // takes requests
  kDraining = 1,  // takes no new request; running ones, its load and its cached blocks stay
  kDown = 2,      // the same to the router; the name tells operators that it failed
};

struct InstanceOptions {
  // The name by which the caller knows it, for example "10.0.0.7:8000". Not empty, at most 65,535
  // bytes. Name and rank together are unique among live instances.
  std::string name;
  // Data-parallel rank. Default 0.
  uint32_t rank = 0;
  // How many blocks of RouterOptions::block_size tokens the instance's KV cache holds: the engine's
  // number of GPU blocks (vLLM prints it at start-up). Predicted residency stays within it.
  // Range 1 to 2^31 - 1. Default 65,536 (1 M tokens at block size 16). With calibration a wrong
  // value is corrected from the cached tokens that engines report.
  uint32_t capacity_blocks = 65536;
  // How fast it prefills, in tokens a second. 0 (the default) means unknown: it is taken as
  // RouterOptions::default_prefill_tokens_per_s until first-token times have shown the true rate.
  // Otherwise 1 to 1e9.
  double prefill_tokens_per_s = 0;
  // Share of the traffic that it should take relative to the others, on top of its rate.
  // More than 0, at most 1000. Default 1. An operator who fills a new instance slowly sets it low.
  double weight = 1;
  // The KeySpace::model of the prompts that are routed to it, for its KV events, which do not name
  // the model. Default: empty, as in requests that name none. At most 65,535 bytes.
  std::string model{};
};

// What an engine's own metrics say. Everything is optional: negative means "not reported".
// A report never overwrites what the router counts itself. It adds what the router cannot know (the
// requests of other gateways, memory pressure), and fades to nothing within
// RouterOptions::report_max_age_s.
struct EngineLoad {
  int64_t running_requests = -1;  // requests in the engine's batch
  int64_t waiting_requests = -1;  // requests in the engine's queue
  double kv_usage = -1;           // share of KV blocks in use by running requests, 0 to 1
  // How old the figures are at the time of the call, >= 0. The requests that the router had on the
  // instance at that time are taken off, and with RouterOptions::routers what the others are
  // expected to have sent since is added; without the age a request of its own that they do not
  // show yet would hide one of another router.
  double age_s = 0;

  // Nothing is reported.
  bool empty() const { return running_requests < 0 && waiting_requests < 0 && kv_usage < 0; }
};

}  // namespace prefixrouter

template <>
struct std::hash<prefixrouter::InstanceId> {
  size_t operator()(prefixrouter::InstanceId id) const noexcept {
    return std::hash<uint64_t>()(id.value);
  }
};

#endif  // PREFIXROUTER_INSTANCE_H_
