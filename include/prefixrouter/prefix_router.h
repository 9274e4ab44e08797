// PrefixRouter: picks the inference instance that will answer a prompt first.
//
// It knows what each instance has cached (a prefix index, filled by what was routed there) and how
// busy each one is (leases, engine reports), and answers in microseconds inside the caller's
// process: no I/O, no threads, no global state.
//
//   auto router = prefixrouter::PrefixRouter::Create({}).value_or(nullptr);
//   InstanceId a = *router->AddInstance({"10.0.0.1:8000"});
//   InstanceId b = *router->AddInstance({"10.0.0.2:8000"});
//   Result<InstanceId> chosen = router->Route(prompt_tokens);
//
// Every method may be called from any thread at any time. A call sees the effect of every call that
// returned before it began. For one seed, clock and order of calls the answers are always the same.
//
// Cost: Route and Acquire take about one XXH3 pass over the prompt, plus the path of the prompt in
// the index (stretches without a branch, not blocks), plus a few vector operations over the
// instances. A prompt that is known allocates nothing. Memory: about 9 bytes for each distinct
// block that any instance holds, bounded by RouterOptions::index_budget_bytes, and 300 bytes an
// instance.
//
// Neighbours: BlockHasher for callers with keys of their own, Policy for own rules, Lease for load
// that is exact rather than estimated.
#ifndef PREFIXROUTER_PREFIX_ROUTER_H_
#define PREFIXROUTER_PREFIX_ROUTER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "prefixrouter/block_hasher.h"
#include "prefixrouter/decision.h"
#include "prefixrouter/instance.h"
#include "prefixrouter/kv_events.h"
#include "prefixrouter/lease.h"
#include "prefixrouter/options.h"
#include "prefixrouter/request.h"
#include "prefixrouter/span.h"
#include "prefixrouter/stats.h"
#include "prefixrouter/status.h"
#include "prefixrouter/version.h"

namespace prefixrouter {

class PrefixRouter {
 public:
  // A router without instances. kInvalidArgument names an option out of its range.
  static Result<std::unique_ptr<PrefixRouter>> Create(const RouterOptions& options);
  ~PrefixRouter();
  PrefixRouter(const PrefixRouter&) = delete;
  PrefixRouter& operator=(const PrefixRouter&) = delete;

  // ---- Instances ------------------------------------------------------------------------------

  // Adds an instance that is ready and holds nothing. kInvalidArgument: an option is out of range;
  // kAlreadyExists: name and rank are taken; kResourceExhausted: max_instances are there.
  Result<InstanceId> AddInstance(const InstanceOptions& options);

  // Forgets the instance, all that it held and all its load. Leases on it stay harmless.
  // kNotFound: no such instance.
  Status RemoveInstance(InstanceId id);

  // The live instance of this name and rank. kNotFound: there is none.
  Result<InstanceId> FindInstance(std::string_view name, uint32_t rank = 0) const;

  // The name of a live instance. kNotFound: no such instance.
  Result<std::string> InstanceName(InstanceId id) const;

  // Load and cached blocks stay whatever the state. With for_s > 0 the instance is ready again by
  // itself after that time: a mark of overload or failure carries its own end. kNotFound: no such
  // instance. kInvalidArgument: for_s is negative or no number, or the state is unknown.
  Status SetInstanceState(InstanceId id, InstanceState state, double for_s = 0);

  // Takes over what the engine's metrics say. The latest report counts. kNotFound: no such
  // instance. kInvalidArgument: kv_usage above 1, or age_s negative or no number.
  Status ReportLoad(InstanceId id, const EngineLoad& load);

  // ---- KV events ------------------------------------------------------------------------------

  // Takes over what the engine says that it holds. From the first batch on the instance is driven
  // by its events: what they store is cached until they remove it, and routed prompts count only
  // for confirm_window_s unless events confirm them. Events are applied one after the other and in
  // steps, so requests are routed in between.
  //
  // Each block and event that is not taken over is counted under its reason. For an instance that
  // was removed nothing is done, and kOldGeneration counted. O(blocks): about 50 ns each. Memory:
  // about 25 bytes for each block and instance, within index_budget_bytes.
  // kInvalidArgument: a span is null, but not empty. kResourceExhausted: out of memory.
  Result<KvEventResult> ApplyKvEvents(InstanceId id, const KvEventBatch& batch);

  // ---- Requests -------------------------------------------------------------------------------

  // Chooses an instance and remembers that the prompt will be cached there. The load that it causes
  // is predicted to drain at the instance's prefill rate; callers that can say when a request ends
  // use Acquire.
  //
  // kUnavailable: no instance is ready and allowed. kResourceExhausted: none is below max_ttft_s.
  // kInvalidArgument: the request is malformed. In all three cases nothing has changed.
  // A prompt shorter than one block is routed by load alone.
  Result<Decision> Route(const Request& request);

  // The short form, for token ids and nothing else.
  Result<InstanceId> Route(Span<const uint32_t> tokens);

  // The same choice, with load that counts exactly until the lease is ended. Errors as for Route.
  Result<Lease> Acquire(const Request& request);

  // By number, for leases given up with Lease::Release. False if the lease has ended already.
  bool FirstToken(LeaseId lease);
  bool Finish(LeaseId lease, const FinishInfo& info = {});
  bool Cancel(LeaseId lease);

  // What Route would base its choice on, for every instance, without any effect. kInvalidArgument:
  // the request is malformed.
  Result<ScoreTable> Score(const Request& request) const;

  // ---- Observation ----------------------------------------------------------------------------

  RouterStats Stats() const;
  const RouterOptions& options() const;  // as given, with seeds filled in
  // Computes the keys that this router uses.
  const BlockHasher& hasher() const;

 private:
  explicit PrefixRouter(std::shared_ptr<RouterCore> core);

  std::shared_ptr<RouterCore> core_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_PREFIX_ROUTER_H_
