// Homes: where routers that know nothing of each other look for a prompt.
//
// A router remembers what it has sent itself. Of several in front of the same instances, each sees
// a part of a session's turns, and the next turn mostly comes to one that has not seen the last. So
// they agree without a message: each prompt has a *home*, the instance that a hash of its *branch*
// names. The branch is the session key or, without one, the key of the first block in which the
// prompt differs from all that other prompts share; all routers of one key_seed find the same. Each
// takes off the home's work (PolicyInput::home_tokens)
//
//   share * (unknown + kFuture * branch)
//
//   unknown  tokens of the prompt from its branch on that this router does not know the home to
//            hold. Other routers may have sent them there
//   branch   tokens of the prompt from its branch on. What is placed at home now will be found by
//            the others. Without it a session that begins, of which no one has anything cached, is
//            placed by load alone, and who gets its second turn looks in vain
//   share    learned: of what was unknown in prompts that were placed at home, what their engines
//            reported as cached. Where sessions have one turn, or the routers do not agree, it
//            falls, and with it all that homes do
//
// Not thread-safe. O(log instances) to find, times the share of instances that are no candidates;
// O(instances) for the first time after the fleet has changed. 2 KiB an instance.
#ifndef PREFIXROUTER_LIB_POLICY_HOMES_H_
#define PREFIXROUTER_LIB_POLICY_HOMES_H_

#include <algorithm>
#include <cstdint>
#include <string>

#include "lib/policy/hash_ring.h"
#include "prefixrouter/policy.h"

namespace prefixrouter {

class Homes {
 public:
  // routers: that send to the instances; with one there are no homes.
  explicit Homes(uint32_t routers) : used_(routers > 1), ring_(kPoints) {}

  bool used() const { return used_; }

  void InstanceAdded(InstanceId id, const std::string& name, uint32_t rank);
  void InstanceRemoved(InstanceId id);

  // The slot of the candidate that is home to the branch, or PolicyInput::kNoHome.
  uint32_t Find(const PolicyInput& in, uint64_t branch_key) const;
  // What is taken off the work at home. Not negative.
  double Tokens(double unknown, double branch) const {
    return Share(unknown) * (unknown + kFuture * branch);
  }

  // Of a prompt that was placed at home, `found` of `unknown` tokens were cached.
  void Learn(double unknown, double found);
  // As learned so far, 0 to 1; before anything is learned, what is expected.
  double share() const { return Share(0); }

 private:
  static constexpr uint32_t kPoints = 128;  // of an instance on the ring
  static constexpr double kFuture = 3;
  // Besides what was learned, so many prompts like the one in question speak for this share: one
  // that is longer than most is more often of a session. But of at most so many times the mean
  // length, so that they do not outweigh what was learned of short ones.
  static constexpr double kPrior = 2;
  static constexpr double kPriorShare = 0.5;
  static constexpr double kPriorLongest = 4;

  double Share(double unknown) const {
    const double mean = prompts_ == 0 ? std::max(unknown, 1.0) : std::max(unknown_ / prompts_, 1.0);
    const double prior = kPrior * std::clamp(unknown, mean, kPriorLongest * mean);
    return (found_ + kPriorShare * prior) / (unknown_ + prior);
  }

  const bool used_;
  HashRing ring_;
  // Decaying sums, of prompts placed at home.
  double prompts_ = 0;
  double unknown_ = 0;
  double found_ = 0;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_POLICY_HOMES_H_
