#include "benchmarks/fleet.h"

#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "lib/sim/random.h"

namespace prefixrouter::bench {
namespace {

// Fill's prompts are unrelated to those that are measured.
constexpr uint64_t kFillSeed = kSeed + 1;

void RequireOk(const Status& status) {
  if (!status.ok()) Require(false, status.ToString().c_str());
}

}  // namespace

void Require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "benchmark: %s\n", what);
  std::exit(1);
}

PromptFamily::PromptFamily(size_t tokens, size_t shared_tokens, uint64_t seed)
    : tokens_(tokens), shared_tokens_(shared_tokens) {
  SplitMix64 random(seed);
  for (uint32_t& token : tokens_) token = static_cast<uint32_t>(random.Next() >> 47);
}

Fleet::Fleet(const FleetOptions& options) {
  RouterOptions router_options;
  router_options.block_size = kBlockSize;
  router_options.key_seed = kSeed;
  router_options.random_seed = kSeed;
  router_options.index_budget_bytes = size_t{8} << 30;
  router_options.clock = clock_;
  Result<std::unique_ptr<PrefixRouter>> router = PrefixRouter::Create(router_options);
  RequireOk(router.status());
  router_ = *std::move(router);
  for (size_t i = 0; i < options.instances; ++i) {
    InstanceOptions instance;
    instance.name = "instance-" + std::to_string(i);
    instance.capacity_blocks = options.capacity_blocks;
    const Result<InstanceId> id = router_->AddInstance(instance);
    RequireOk(id.status());
    instances_.push_back(*id);
  }
}

Decision Fleet::Route(Span<const uint32_t> tokens) {
  const Result<Decision> decision = router_->Route(Request::FromTokens(tokens));
  RequireOk(decision.status());
  return *decision;
}

void Fleet::RouteTo(size_t instance, Span<const uint32_t> tokens) {
  Request request = Request::FromTokens(tokens);
  request.allowed = {&instances_[instance], 1};
  RequireOk(router_->Route(request).status());
}

void Fleet::Fill(uint64_t blocks, size_t prompt_tokens) {
  const size_t prompt_blocks = prompt_tokens / kBlockSize;
  PromptFamily prompts(prompt_tokens, 0, kFillSeed);
  for (uint64_t n = 0; n * prompt_blocks < blocks; ++n) {
    RouteTo(n % instances_.size(), prompts.Get(n));
  }
}

}  // namespace prefixrouter::bench
