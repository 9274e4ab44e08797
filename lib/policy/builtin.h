// The built-in policies, all reached by name through MakePolicy. prefix_cost has a file of its own;
// the others are grouped by what they look at.
#ifndef PREFIXROUTER_LIB_POLICY_BUILTIN_H_
#define PREFIXROUTER_LIB_POLICY_BUILTIN_H_

#include <memory>
#include <string>

#include "prefixrouter/policy.h"

namespace prefixrouter {

// Null when there is no policy of this name. REQUIRES: checked options.
std::unique_ptr<Policy> MakePolicy(const std::string& name, const PolicyOptions& options = {});

std::unique_ptr<Policy> MakePrefixCost();
std::unique_ptr<Policy> MakeRandom();
std::unique_ptr<Policy> MakeRoundRobin();
std::unique_ptr<Policy> MakeLeastRequests();
std::unique_ptr<Policy> MakeLeastTokens();
std::unique_ptr<Policy> MakePowerOfTwo();
std::unique_ptr<Policy> MakeConsistentHash(const PolicyOptions& options = {});
std::unique_ptr<Policy> MakePrefixHash(const PolicyOptions& options = {});
std::unique_ptr<Policy> MakeCacheThreshold(const PolicyOptions& options = {});
std::unique_ptr<Policy> MakeWeighted(const PolicyOptions& options = {});
std::unique_ptr<Policy> MakeBlockCost(const PolicyOptions& options = {});
std::unique_ptr<Policy> MakeMultiplicative(const PolicyOptions& options = {});

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_POLICY_BUILTIN_H_
