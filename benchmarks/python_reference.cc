// What benchmarks/python_ratios.py compares the Python package with: the same calls on a router of
// the same state, made from C++ and timed there. Loaded with ctypes, so that both sides alternate
// in one process and on the same arrays.
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "prefixrouter/prefix_router.h"

namespace {

using prefixrouter::InstanceId;
using prefixrouter::PrefixRouter;
using prefixrouter::Request;

struct Reference {
  std::unique_ptr<PrefixRouter> router;
  std::vector<InstanceId> instances;
};

}  // namespace

extern "C" {

// A router as the benchmark makes it in Python. Null when it is refused.
__attribute__((visibility("default"))) Reference* reference_new(uint64_t seed, uint32_t instances,
                                                                uint32_t capacity_blocks) {
  prefixrouter::RouterOptions options;
  options.key_seed = seed;
  options.random_seed = seed;
  auto router = PrefixRouter::Create(options);
  if (!router.ok()) return nullptr;
  auto reference = std::make_unique<Reference>();
  reference->router = *std::move(router);
  for (uint32_t i = 0; i < instances; ++i) {
    prefixrouter::InstanceOptions instance;
    instance.name = "instance-" + std::to_string(i);
    instance.capacity_blocks = capacity_blocks;
    const auto id = reference->router->AddInstance(instance);
    if (!id.ok()) return nullptr;
    reference->instances.push_back(*id);
  }
  return reference.release();
}

__attribute__((visibility("default"))) void reference_delete(Reference* reference) {
  delete reference;
}

// Routes a prompt to one instance. Returns the cached tokens, or -1.
__attribute__((visibility("default"))) int64_t reference_route_to(Reference* reference,
                                                                  uint32_t instance,
                                                                  const uint32_t* tokens,
                                                                  uint64_t count) {
  Request request = Request::FromTokens({tokens, count});
  request.allowed = {&reference->instances[instance], 1};
  const auto decision = reference->router->Route(request);
  return decision.ok() ? static_cast<int64_t>(decision->cached_tokens) : -1;
}

// Nanoseconds of one Route, mean of all prompts; negative when one was refused.
__attribute__((visibility("default"))) double reference_route_nanos(Reference* reference,
                                                                    const uint32_t* const* prompts,
                                                                    uint64_t prompt_count,
                                                                    uint64_t tokens) {
  bool ok = true;
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t i = 0; i < prompt_count; ++i) {
    ok &= reference->router->Route({prompts[i], tokens}).ok();
  }
  const std::chrono::duration<double, std::nano> time = std::chrono::steady_clock::now() - begin;
  return ok ? time.count() / static_cast<double>(prompt_count) : -1;
}

}  // extern "C"
