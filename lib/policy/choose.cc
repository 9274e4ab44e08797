#include "lib/policy/choose.h"

#include <algorithm>
#include <cmath>

#include "lib/base/vector.h"

namespace prefixrouter {
namespace {

// `omp simd` allows the compiler to take the minimum of floats in vector registers, whose order of
// comparisons it must otherwise keep. It needs no OpenMP runtime.

// cost += penalty, NaN becomes infinity; returns the lowest.
PREFIX_ROUTER_VECTOR float AddPenalties(const float* penalty, float* cost, size_t size) {
  float lowest = INFINITY;
#pragma omp simd reduction(min : lowest)
  for (size_t i = 0; i < size; ++i) {
    const float sum = cost[i] + penalty[i];
    const float number = sum < INFINITY ? sum : INFINITY;
    cost[i] = number;
    lowest = number < lowest ? number : lowest;
  }
  return lowest;
}

PREFIX_ROUTER_VECTOR float Lowest(const float* values, size_t size) {
  float lowest = INFINITY;
#pragma omp simd reduction(min : lowest)
  for (size_t i = 0; i < size; ++i) lowest = values[i] < lowest ? values[i] : lowest;
  return lowest;
}

PREFIX_ROUTER_VECTOR uint32_t CountEqual(const float* values, size_t size, float value) {
  uint32_t count = 0;
#pragma omp simd reduction(+ : count)
  for (size_t i = 0; i < size; ++i) count += values[i] == value ? 1 : 0;
  return count;
}

// The n-th slot, from 0, whose value is `value`. REQUIRES: there are more than n.
uint32_t FindNth(const float* values, size_t size, float value, uint32_t n) {
  constexpr size_t kStretch = 256;
  size_t i = 0;
  for (; i + kStretch <= size; i += kStretch) {
    const uint32_t count = CountEqual(values + i, kStretch, value);
    if (n < count) break;
    n -= count;
  }
  for (;; ++i) {
    if (values[i] == value && n-- == 0) return static_cast<uint32_t>(i);
  }
}

uint32_t Find(const float* values, size_t size, float value) {
  return FindNth(values, size, value, 0);
}

// out = value where key is `wanted` or less, else infinity.
PREFIX_ROUTER_VECTOR void KeepWhere(const float* key, float wanted, const float* value, float* out,
                                    size_t size) {
  for (size_t i = 0; i < size; ++i) out[i] = key[i] <= wanted ? value[i] : INFINITY;
}

// Of the slots whose cost is at most `limit`, the fewest requests, then the least pending work, then
// by chance.
uint32_t BreakTie(const PolicyInput& in, const float* cost, float limit, float* scratch) {
  const size_t size = in.size;
  for (const float* const value : {in.requests, in.pending_tokens}) {
    KeepWhere(cost, limit, value, scratch, size);
    cost = scratch;
    limit = Lowest(scratch, size);
  }
  const uint32_t equal = CountEqual(scratch, size, limit);
  // Multiplied rather than divided: uniform, and independent of the low bits that policies draw from.
  const uint32_t nth = static_cast<uint32_t>((in.random >> 32) * equal >> 32);
  return FindNth(scratch, size, limit, nth);
}

PREFIX_ROUTER_VECTOR uint32_t Most(const uint32_t* values, const float* penalty, size_t size) {
  uint32_t most = 0;
#pragma omp simd reduction(max : most)
  for (size_t i = 0; i < size; ++i) {
    const uint32_t value = penalty[i] == 0 ? values[i] : 0;
    most = value > most ? value : most;
  }
  return most;
}

}  // namespace

uint32_t MostCachedBlocks(const PolicyInput& in, const float* penalty) {
  return Most(in.cached_blocks, penalty, in.size);
}

Choice ChooseLowest(const Policy& policy, const PolicyInput& in, const float* penalty, float* cost,
                    float* scratch) {
  Choice choice;
  const size_t size = in.size;
  float lowest = AddPenalties(penalty, cost, size);
  if (lowest == INFINITY) {
    std::copy_n(penalty, size, cost);
    lowest = 0;
  }
  choice.slot = Find(cost, size, lowest);
  const auto lowest_of_others = [&] {
    const float own = cost[choice.slot];
    cost[choice.slot] = INFINITY;
    const float others = Lowest(cost, size);
    if (others < INFINITY) choice.runner_up = Find(cost, size, others);
    cost[choice.slot] = own;
    return others;
  };
  const float limit = lowest + std::max(policy.TieTolerance(in, choice.slot), 0.0f);
  if (lowest_of_others() <= limit) {
    choice.rule = Rule::kNearTie;
    choice.slot = BreakTie(in, cost, limit, scratch);
    lowest_of_others();
  }
  return choice;
}

}  // namespace prefixrouter
