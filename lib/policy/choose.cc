#include "lib/policy/choose.h"

#include <algorithm>
#include <cmath>

#include "lib/base/vector.h"

namespace prefixrouter {
namespace {

// Loops over all slots keep one result for each of this many lanes, which lets the compiler use
// vector registers without changing the meaning of float arithmetic.
constexpr size_t kLanes = 16;

float LowestLane(const float* lanes) { return *std::min_element(lanes, lanes + kLanes); }

// cost += penalty, NaN becomes infinity; returns the lowest.
PREFIX_ROUTER_VECTOR float AddPenalties(const float* penalty, float* cost, size_t size) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, INFINITY);
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      const float sum = cost[i + j] + penalty[i + j];
      const float number = sum < INFINITY ? sum : INFINITY;
      cost[i + j] = number;
      lanes[j] = number < lanes[j] ? number : lanes[j];
    }
  }
  for (; i < size; ++i) {
    const float sum = cost[i] + penalty[i];
    cost[i] = sum < INFINITY ? sum : INFINITY;
    lanes[0] = std::min(lanes[0], cost[i]);
  }
  return LowestLane(lanes);
}

PREFIX_ROUTER_VECTOR float Lowest(const float* cost, size_t size) {
  float lanes[kLanes];
  std::fill_n(lanes, kLanes, INFINITY);
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      lanes[j] = cost[i + j] < lanes[j] ? cost[i + j] : lanes[j];
    }
  }
  for (; i < size; ++i) lanes[0] = std::min(lanes[0], cost[i]);
  return LowestLane(lanes);
}

// How many are at most `limit`.
PREFIX_ROUTER_VECTOR uint32_t CountUpTo(const float* cost, size_t size, float limit) {
  uint32_t lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) lanes[j] += cost[i + j] <= limit ? 1 : 0;
  }
  uint32_t count = 0;
  for (; i < size; ++i) count += cost[i] <= limit ? 1 : 0;
  for (size_t j = 0; j < kLanes; ++j) count += lanes[j];
  return count;
}

// First slot whose value is `value`. REQUIRES: there is one.
PREFIX_ROUTER_VECTOR uint32_t Find(const float* values, size_t size, float value) {
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    uint32_t equal = 0;
    for (size_t j = 0; j < kLanes; ++j) equal |= values[i + j] == value ? 1 : 0;
    if (equal) break;
  }
  while (values[i] != value) ++i;
  return static_cast<uint32_t>(i);
}

// Of the slots whose cost is at most `limit`, the fewest requests, then the least pending work, then
// by chance.
uint32_t BreakTie(const PolicyInput& in, const float* cost, float limit) {
  float requests = INFINITY, pending = INFINITY;
  uint32_t equal = 0;
  const auto visit = [&](auto&& each) {
    for (uint32_t i = 0; i < in.size; ++i) {
      if (cost[i] <= limit) each(i, in.requests[i] / in.weight[i], in.pending_tokens[i]);
    }
  };
  visit([&](uint32_t, float r, float p) {
    if (r < requests || (r == requests && p < pending)) {
      requests = r;
      pending = p;
      equal = 0;
    }
    if (r == requests && p == pending) ++equal;
  });
  // The high half of the random number: policies that draw use the low half first.
  uint64_t left = (in.random >> 32) * equal >> 32;
  uint32_t chosen = Choice::kNone;
  visit([&](uint32_t i, float r, float p) {
    if (r == requests && p == pending && chosen == Choice::kNone && left-- == 0) chosen = i;
  });
  return chosen;
}

PREFIX_ROUTER_VECTOR uint32_t Most(const uint32_t* values, const float* penalty, size_t size) {
  uint32_t lanes[kLanes] = {};
  size_t i = 0;
  for (; i + kLanes <= size; i += kLanes) {
    for (size_t j = 0; j < kLanes; ++j) {
      const uint32_t value = penalty[i + j] == 0 ? values[i + j] : 0;
      lanes[j] = value > lanes[j] ? value : lanes[j];
    }
  }
  for (; i < size; ++i) lanes[0] = std::max(lanes[0], penalty[i] == 0 ? values[i] : 0u);
  return *std::max_element(lanes, lanes + kLanes);
}

}  // namespace

uint32_t MostCachedBlocks(const PolicyInput& in, const float* penalty) {
  return Most(in.cached_blocks, penalty, in.size);
}

Choice ChooseLowest(const Policy& policy, const PolicyInput& in, const float* penalty,
                    float* cost) {
  Choice choice;
  const size_t size = in.size;
  float lowest = AddPenalties(penalty, cost, size);
  if (lowest == INFINITY) {
    std::copy_n(penalty, size, cost);
    lowest = 0;
  }
  const uint32_t best = Find(cost, size, lowest);
  const float limit = lowest + std::max(policy.TieTolerance(in, best), 0.0f);
  if (CountUpTo(cost, size, limit) <= 1) {
    choice.slot = best;
  } else {
    choice.slot = BreakTie(in, cost, limit);
    choice.rule = Rule::kNearTie;
  }

  const float chosen_cost = cost[choice.slot];
  cost[choice.slot] = INFINITY;
  const float second = Lowest(cost, size);
  if (second < INFINITY) choice.runner_up = Find(cost, size, second);
  cost[choice.slot] = chosen_cost;
  return choice;
}

}  // namespace prefixrouter
