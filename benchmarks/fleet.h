// What the benchmarks measure with: prompts made from a fixed seed, a clock that can skip time, and
// a router with equal instances that can be filled to a size.
#ifndef PREFIXROUTER_BENCHMARKS_FLEET_H_
#define PREFIXROUTER_BENCHMARKS_FLEET_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "prefixrouter/prefix_router.h"

namespace prefixrouter::bench {

inline constexpr uint64_t kSeed = 20250101;
inline constexpr uint32_t kBlockSize = 16;

// Ends the program with a message when `ok` is false: a benchmark of failing calls measures
// nothing.
void Require(bool ok, const char* what);

// A family of prompts that agree in their first `shared_tokens` and in no block behind.
//
// All members are made in one buffer by writing the member's number behind the shared part. That is
// enough: keys are chained, so the keys of the block with the number, and of all blocks after it,
// are unrelated to those of every other member. The prompt is in the processor's cache, as it is in
// a gateway that has just tokenized it, for the router and for the XXH3 pass it is compared with.
class PromptFamily {
 public:
  // REQUIRES: shared_tokens + 2 <= tokens
  explicit PromptFamily(size_t tokens, size_t shared_tokens = 0, uint64_t seed = kSeed);

  // Member n. The data are valid until the next call.
  Span<const uint32_t> Get(uint64_t n) {
    tokens_[shared_tokens_] = static_cast<uint32_t>(n);
    tokens_[shared_tokens_ + 1] = static_cast<uint32_t>(n >> 32);
    return {tokens_.data(), tokens_.size()};
  }

 private:
  std::vector<uint32_t> tokens_;
  size_t shared_tokens_;
};

// The system's monotonic clock, at its real cost, that can also be moved on: past the predicted
// work of the requests that filled an index, so that measured ones find idle instances.
class SkippingClock final : public Clock {
 public:
  int64_t NowNanos() const override {
    return std::chrono::steady_clock::now().time_since_epoch().count() +
           skipped_nanos_.load(std::memory_order_relaxed);
  }
  void SkipSeconds(int64_t seconds) {
    skipped_nanos_.fetch_add(seconds * 1'000'000'000, std::memory_order_relaxed);
  }

 private:
  std::atomic<int64_t> skipped_nanos_{0};
};

struct FleetOptions {
  size_t instances = 64;
  uint32_t capacity_blocks = 1u << 30;  // for each instance; the default evicts nothing
};

// A router with block size 16, prefix_cost, fixed seeds and equal instances.
class Fleet {
 public:
  explicit Fleet(const FleetOptions& options);

  PrefixRouter& router() { return *router_; }
  size_t size() const { return instances_.size(); }
  InstanceId id(size_t instance) const { return instances_[instance]; }

  // Routes a prompt.
  Decision Route(Span<const uint32_t> tokens);
  // Routes it to one instance, whatever the policy says.
  void RouteTo(size_t instance, Span<const uint32_t> tokens);

  // Gives the instances, in turns, unrelated prompts until they hold `blocks` blocks together.
  void Fill(uint64_t blocks, size_t prompt_tokens);
  // Lets the predicted work of all requests pass.
  void Drain() { clock_->SkipSeconds(1'000'000); }

 private:
  std::shared_ptr<SkippingClock> clock_ = std::make_shared<SkippingClock>();
  std::unique_ptr<PrefixRouter> router_;
  std::vector<InstanceId> instances_;
};

}  // namespace prefixrouter::bench

#endif  // PREFIXROUTER_BENCHMARKS_FLEET_H_
