// SplitMix64: the random numbers of the replay tool. The standard library's distributions differ
// between implementations; these give the same trace and the same prompts everywhere.
#ifndef PREFIXROUTER_LIB_SIM_RANDOM_H_
#define PREFIXROUTER_LIB_SIM_RANDOM_H_

#include <cstdint>

namespace prefixrouter {

class SplitMix64 {
 public:
  explicit SplitMix64(uint64_t seed) : state_(seed) {}

  uint64_t Next() {
    uint64_t z = state_ += 0x9e3779b97f4a7c15;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }

  // Uniform in [0, 1).
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  // Uniform in [low, high]. REQUIRES: low <= high, high - low < 2^32 - 1.
  uint64_t Between(uint64_t low, uint64_t high) {
    return low + (((Next() >> 32) * (high - low + 1)) >> 32);
  }

 private:
  uint64_t state_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_SIM_RANDOM_H_
