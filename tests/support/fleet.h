// Fleet: a router with instances "i0", "i1", ... on a clock that the test moves, with fixed seeds,
// so that a test is the same every time. And short names for what tests ask a router.
//
//   Fleet fleet(4);
//   fleet.Place(0, Request::FromTokens(prompt));   // i0 now holds the prompt
//   fleet.Drain();                                 // and has finished working on it
//   CHECK(fleet.Route(Request::FromTokens(prompt)).instance == fleet[0]);
//
// The helpers fail the running test when the router refuses, so they are for the test's own thread.
#ifndef PREFIXROUTER_TESTS_SUPPORT_FLEET_H_
#define PREFIXROUTER_TESTS_SUPPORT_FLEET_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "prefixrouter/prefix_router.h"
#include "tests/support/prompts.h"

namespace prefixrouter::testing {

inline constexpr uint64_t kKeySeed = 0x5eed0001;
inline constexpr uint64_t kRandomSeed = 0x5eed0002;

class Fleet {
 public:
  // `options`: as given, but for the clock, and for seeds that are not set. `instance`: what all
  // instances have in common; the name is not used.
  explicit Fleet(size_t instance_count, RouterOptions options = {}, InstanceOptions instance = {});

  PrefixRouter& router() { return *router_; }
  const PrefixRouter& router() const { return *router_; }
  ManualClock& clock() { return *clock_; }
  size_t size() const { return ids_.size(); }
  const std::vector<InstanceId>& ids() const { return ids_; }
  InstanceId operator[](size_t index) const { return ids_[index]; }
  // The index of `id`; size() if it is none of ours.
  size_t IndexOf(InstanceId id) const;

  // Adds one more, named after its index, and returns the index.
  size_t Add(InstanceOptions instance = {});
  // Ends the router before the fleet, for what outlives it.
  void DestroyRouter() { router_.reset(); }

  Decision Route(const Request& request);
  Lease Acquire(const Request& request);
  // The same on instance `index` and no other.
  Decision Place(size_t index, Request request);
  Lease AcquireOn(size_t index, Request request);
  std::vector<Lease> AcquireOn(size_t index, const Request& request, size_t count);

  // Lets so much time pass that work without a lease has drained, without touching leases: they
  // live for 600 s by default.
  void Drain() { clock_->AdvanceSeconds(500); }

  ScoreRow Row(size_t index, const Request& request) const;
  uint64_t CachedTokens(size_t index, const Request& request) const {
    return Row(index, request).cached_tokens;
  }
  InstanceStats StatsOf(size_t index) const;
  int64_t InFlight(size_t index) const { return StatsOf(index).requests_in_flight; }
  // Requests chosen since the fleet was made, by instance.
  std::vector<uint64_t> RequestCounts() const;

 private:
  std::shared_ptr<ManualClock> clock_;
  std::unique_ptr<PrefixRouter> router_;
  std::vector<InstanceId> ids_;
};

// All figures as text, one a line: equal texts mean equal statistics, and a failed comparison shows
// which figure differs.
std::string Describe(const RouterStats& stats);
std::string Describe(const Decision& decision);
std::string Describe(const ScoreTable& table);

// Largest minus smallest. REQUIRES: !counts.empty()
uint64_t Spread(const std::vector<uint64_t>& counts);

}  // namespace prefixrouter::testing

#endif  // PREFIXROUTER_TESTS_SUPPORT_FLEET_H_
