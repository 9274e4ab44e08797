#include "lib/index/displacement.h"

#include <algorithm>
#include <cmath>

namespace prefixrouter {
namespace {

constexpr size_t kTableSize = 8192;
// Blocks of the sample that a fleet holds, at most: what it has evicted needs room too.
constexpr size_t kSampledBlocks = kTableSize / 4;
// In this time what was counted fades to a third.
constexpr double kFadeNanos = 60e9;
constexpr double kFadeStepNanos = 1e9;
// So many evicted blocks, of which none was wanted, count as seen: a few say nothing yet.
constexpr double kPriorBlocks = 64;

}  // namespace

void Displacement::Stored(uint64_t key, bool alone, double weight) {
  if (seen_.empty()) return;
  uint64_t& place = seen_[(key >> 32) % kTableSize];  // the lowest bits are those of the sample
  if (place == key && alone) wanted_ += weight * static_cast<double>(sample_mask_ + 1);
  place = key;
}

double Displacement::Fade(int64_t then_nanos, int64_t now_nanos) {
  const double age_nanos = static_cast<double>(now_nanos) - static_cast<double>(then_nanos);
  return age_nanos < kFadeStepNanos ? 1 : std::exp(-age_nanos / kFadeNanos);
}

void Displacement::Count(uint32_t slot, uint64_t stored, uint64_t evicted, uint64_t held_blocks,
                         int64_t now_nanos) {
  if (seen_.empty()) seen_.resize(kTableSize);
  if (slot >= slots_.size()) slots_.resize(slot + 1);
  for (Counts* counts : {&slots_[slot], &fleet_}) {
    const double left = Fade(counts->nanos, now_nanos);
    if (left != 1) {
      counts->stored *= left;
      counts->evicted *= left;
      counts->nanos = now_nanos;
      if (counts == &fleet_) wanted_ *= left;
    }
    counts->stored += static_cast<double>(stored);
    counts->evicted += static_cast<double>(evicted);
  }
  while (held_blocks / (sample_mask_ + 1) > kSampledBlocks) sample_mask_ = sample_mask_ * 2 + 1;
}

void Displacement::Forget(uint32_t slot) {
  if (slot < slots_.size()) slots_[slot] = Counts();
}

double Displacement::cost(uint32_t slot) const {
  if (slot >= slots_.size()) return 0;
  const Counts& counts = slots_[slot];
  const double evicted = std::min(counts.evicted / std::max(counts.stored, 1.0), 1.0);
  return evicted * std::min(wanted_ / (fleet_.evicted + kPriorBlocks), 1.0);
}

}  // namespace prefixrouter
