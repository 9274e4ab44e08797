#include "lib/policy/choose.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "lib/base/vector.h"

namespace prefixrouter {
namespace {

// `omp simd` allows the compiler to take the minimum of floats in vector registers, whose order of
// comparisons it must otherwise keep. It needs no OpenMP runtime.

// Costs are looked at in tiles that keep their lowest one, so that finding the winner and the
// runner-up reads two tiles and not the whole fleet.
constexpr size_t kTile = 256;

// A reduction to the minimum begins with the largest number, which is finite for some compilers
// (Clang 14) and infinite for others (GCC 12). So costs are below this one, or infinite.
constexpr float kLargest = std::numeric_limits<float>::max();
float LowestOrInfinity(float lowest) { return lowest < kLargest ? lowest : INFINITY; }

// cost += penalty, NaN becomes infinity; returns the lowest.
PREFIX_ROUTER_VECTOR float AddPenalties(const float* penalty, float* cost, size_t size) {
  float lowest = INFINITY;
#pragma omp simd reduction(min : lowest)
  for (size_t i = 0; i < size; ++i) {
    const float sum = cost[i] + penalty[i];
    const float number = sum < kLargest ? sum : INFINITY;
    cost[i] = number;
    lowest = number < lowest ? number : lowest;
  }
  return LowestOrInfinity(lowest);
}

// The same without penalties, which spares the memory of a large fleet one reading and one writing.
PREFIX_ROUTER_VECTOR float TakeNumbers(float* cost, size_t size) {
  float lowest = INFINITY;
  uint32_t others = 0;
#pragma omp simd reduction(min : lowest) reduction(+ : others)
  for (size_t i = 0; i < size; ++i) {
    const bool number = cost[i] < kLargest;
    const float value = number ? cost[i] : INFINITY;
    lowest = value < lowest ? value : lowest;
    others += number ? 0 : 1;
  }
  for (size_t i = 0; others != 0 && i < size; ++i) {
    if (!(cost[i] < kLargest)) cost[i] = INFINITY;
  }
  return LowestOrInfinity(lowest);
}

// The lowest value but that of one slot.
PREFIX_ROUTER_VECTOR float LowestBut(const float* values, uint32_t size, uint32_t slot) {
  float lowest = INFINITY;
#pragma omp simd reduction(min : lowest)
  for (uint32_t i = 0; i < size; ++i) {
    const float value = i == slot ? INFINITY : values[i];
    lowest = value < lowest ? value : lowest;
  }
  return LowestOrInfinity(lowest);
}

// The first slot but one whose value is `value`; `size` if there is none. Looks at all: leaving the
// loop at an unforeseeable place takes longer than a tile does.
PREFIX_ROUTER_VECTOR uint32_t FindFirstBut(const float* values, uint32_t size, float value,
                                           uint32_t slot) {
  uint32_t first = size;
  for (uint32_t i = 0; i < size; ++i) {
    const uint32_t found = values[i] == value && i != slot ? i : size;
    first = found < first ? found : first;
  }
  return first;
}

PREFIX_ROUTER_VECTOR uint32_t CountEqual(const float* values, size_t size, float value) {
  uint32_t count = 0;
  for (size_t i = 0; i < size; ++i) count += values[i] == value ? 1 : 0;
  return count;
}

// By bit: which of 32 values are `value`.
PREFIX_ROUTER_VECTOR uint32_t EqualBits(const float* values, float value) {
  uint32_t bits = 0;
#pragma omp simd reduction(| : bits)
  for (uint32_t i = 0; i < 32; ++i) bits |= values[i] == value ? 1u << i : 0u;
  return bits;
}

// The n-th slot, from 0, whose value is `value`. REQUIRES: there are more than n.
uint32_t FindNth(const float* values, size_t size, float value, uint32_t n) {
  uint32_t i = 0;
  for (; i + 32 <= size; i += 32) {
    uint32_t bits = EqualBits(values + i, value);
    const uint32_t count = static_cast<uint32_t>(std::popcount(bits));
    if (n < count) {
      for (; n > 0; --n) bits &= bits - 1;
      return i + static_cast<uint32_t>(std::countr_zero(bits));
    }
    n -= count;
  }
  for (;; ++i) {
    if (values[i] == value && n-- == 0) return i;
  }
}

// out = value where key is `wanted` or less, else infinity; returns the lowest. `out` may be `key`.
PREFIX_ROUTER_VECTOR float KeepWhere(const float* key, float wanted, const float* value, float* out,
                                     size_t size) {
  float lowest = INFINITY;
#pragma omp simd reduction(min : lowest)
  for (size_t i = 0; i < size; ++i) {
    const float kept = key[i] <= wanted ? value[i] : INFINITY;
    out[i] = kept;
    lowest = kept < lowest ? kept : lowest;
  }
  return LowestOrInfinity(lowest);
}

// Of the slots whose cost is at most `limit`, the fewest requests, then the least pending work,
// then by chance.
uint32_t BreakTie(const PolicyInput& in, const float* cost, float limit, float* scratch) {
  const size_t size = in.size;
  for (const float* const value : {in.requests, in.pending_tokens}) {
    limit = KeepWhere(cost, limit, value, scratch, size);
    cost = scratch;
  }
  const uint32_t equal = CountEqual(scratch, size, limit);
  // Multiplied rather than divided: uniform, and independent of the low bits that policies draw
  // from.
  const uint32_t nth = static_cast<uint32_t>((in.random >> 32) * equal >> 32);
  return FindNth(scratch, size, limit, nth);
}

PREFIX_ROUTER_VECTOR uint32_t Most(const uint32_t* values, size_t size) {
  uint32_t most = 0;
  for (size_t i = 0; i < size; ++i) most = values[i] > most ? values[i] : most;
  return most;
}

PREFIX_ROUTER_VECTOR uint32_t MostWithoutPenalty(const uint32_t* values, const float* penalty,
                                                 size_t size) {
  uint32_t most = 0;
#pragma omp simd reduction(max : most)
  for (size_t i = 0; i < size; ++i) {
    const uint32_t value = penalty[i] == 0 ? values[i] : 0;
    most = value > most ? value : most;
  }
  return most;
}

}  // namespace

uint32_t MostCachedBlocks(const uint32_t* cached_blocks, const float* penalty, size_t size) {
  return penalty == nullptr ? Most(cached_blocks, size)
                            : MostWithoutPenalty(cached_blocks, penalty, size);
}

Choice ChooseLowest(const Policy& policy, const PolicyInput& in, const float* penalty, float* cost,
                    float* scratch) {
  const size_t size = in.size;
  const size_t tiles = (size + kTile - 1) / kTile;
  float* const lowest_of_tile = scratch;
  const auto tile_size = [&](size_t tile) {
    return static_cast<uint32_t>(std::min(kTile, size - tile * kTile));
  };
  const auto add_penalties = [&] {
    for (size_t tile = 0; tile < tiles; ++tile) {
      const size_t begin = tile * kTile;
      lowest_of_tile[tile] = penalty == nullptr
                                 ? TakeNumbers(cost + begin, tile_size(tile))
                                 : AddPenalties(penalty + begin, cost + begin, tile_size(tile));
    }
  };
  // The first slot of the lowest cost, but for one; kNone if none is finite. For tiles that are up
  // to date.
  const auto find_lowest_but = [&](uint32_t slot) {
    const size_t tile = static_cast<size_t>(
        std::min_element(lowest_of_tile, lowest_of_tile + tiles) - lowest_of_tile);
    if (lowest_of_tile[tile] == INFINITY) return Choice::kNone;
    const uint32_t begin = static_cast<uint32_t>(tile * kTile);
    return begin + FindFirstBut(cost + begin, tile_size(tile), lowest_of_tile[tile], slot - begin);
  };

  Choice choice;
  add_penalties();
  choice.slot = find_lowest_but(Choice::kNone);
  if (choice.slot == Choice::kNone) {
    std::fill_n(cost, size, 0.0f);
    add_penalties();
    choice.slot = find_lowest_but(Choice::kNone);
  }
  const size_t tile = choice.slot / kTile;
  lowest_of_tile[tile] = LowestBut(cost + tile * kTile, tile_size(tile), choice.slot % kTile);
  choice.runner_up = find_lowest_but(choice.slot);
  if (choice.runner_up == Choice::kNone) return choice;
  const float limit = cost[choice.slot] + std::max(policy.TieTolerance(in, choice.slot), 0.0f);
  if (cost[choice.runner_up] <= limit) {
    choice.rule = Rule::kNearTie;
    const uint32_t best = choice.slot, second = choice.runner_up;
    choice.slot = BreakTie(in, cost, limit, scratch);
    choice.runner_up = choice.slot == best ? second : best;
  }
  return choice;
}

}  // namespace prefixrouter
