// The built-in policies. Each is one file or, where it is a few lines, a class in
// simple_policies.cc; all are reached by name through MakePolicy.
#ifndef PREFIXROUTER_LIB_POLICY_BUILTIN_H_
#define PREFIXROUTER_LIB_POLICY_BUILTIN_H_

#include <memory>
#include <string>

#include "prefixrouter/policy.h"

namespace prefixrouter {

// Null when there is no policy of this name.
std::unique_ptr<Policy> MakePolicy(const std::string& name);

std::unique_ptr<Policy> MakePrefixCost();
std::unique_ptr<Policy> MakeRandom();
std::unique_ptr<Policy> MakeRoundRobin();
std::unique_ptr<Policy> MakeLeastRequests();
std::unique_ptr<Policy> MakeLeastTokens();
std::unique_ptr<Policy> MakePowerOfTwo();
std::unique_ptr<Policy> MakeConsistentHash();

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_POLICY_BUILTIN_H_
