// What the generators make prompts of: texts that are named by block ids alone, and random lengths.
#ifndef PREFIXROUTER_LIB_SIM_GENERATED_TEXT_H_
#define PREFIXROUTER_LIB_SIM_GENERATED_TEXT_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <utility>
#include <vector>

#include "lib/sim/random.h"

namespace prefixrouter {

// Tokens a block of all generated traces.
inline constexpr uint32_t kGeneratedBlockTokens = 64;

// A growing text, with an id for each of its blocks. A text is never shared beyond its end, so new
// blocks take new ids, and a partial last block keeps its id when it grows.
class GeneratedText {
 public:
  explicit GeneratedText(std::vector<uint64_t> shared_ids = {}) : ids_(std::move(shared_ids)) {
    tokens_ = ids_.size() * kGeneratedBlockTokens;
  }

  void Append(uint64_t tokens, uint64_t* next_id) {
    tokens_ += tokens;
    while (ids_.size() * kGeneratedBlockTokens < tokens_) ids_.push_back((*next_id)++);
  }

  uint64_t tokens() const { return tokens_; }
  const std::vector<uint64_t>& ids() const { return ids_; }

 private:
  std::vector<uint64_t> ids_;
  uint64_t tokens_;
};

// Log-normal by its median and the standard deviation of its logarithm, within [low, high]. The
// normal number is the sum of twelve uniform ones less six: the same on every machine.
inline uint64_t LogNormalTokens(double median, double sigma, uint64_t low, uint64_t high,
                                SplitMix64* random) {
  double normal = -6;
  for (int i = 0; i < 12; ++i) normal += random->Uniform();
  const double value = median * std::exp(sigma * normal);
  return std::clamp(static_cast<uint64_t>(value), low, high);
}

// Exponential, in the unit of its mean.
inline double Exponential(double mean, SplitMix64* random) {
  return -mean * std::log1p(-random->Uniform());
}

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_SIM_GENERATED_TEXT_H_
