// Lists the policies and engines that the simulator knows.
#include <cstdio>

#include "prefixrouter/simulator.h"

int main() {
  const auto policies = prefixrouter::SimulatedPolicies();
  for (const auto& policy : policies) std::printf("%s\n", policy.name.c_str());
  return policies.size() > prefixrouter::PolicyNames().size() / 2 &&
                 prefixrouter::EnginePreset("llama-70b-8xh100").ok()
             ? 0
             : 1;
}
