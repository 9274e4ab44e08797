// Prompts for tests: random ones, ones that share a beginning, and the seed they are made from.
//
// Every randomised test asks TestSeed for its seed and prints it (CAPTURE). The default is fixed,
// so that a run can be repeated; PREFIX_ROUTER_TEST_SEED=<number> in the environment sets another.
#ifndef PREFIXROUTER_TESTS_SUPPORT_PROMPTS_H_
#define PREFIXROUTER_TESTS_SUPPORT_PROMPTS_H_

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

namespace prefixrouter::testing {

using Tokens = std::vector<uint32_t>;

inline uint64_t TestSeed(uint64_t fallback) {
  const char* text = std::getenv("PREFIX_ROUTER_TEST_SEED");
  return text != nullptr && *text != '\0' ? std::strtoull(text, nullptr, 10) : fallback;
}

class PromptMaker {
 public:
  explicit PromptMaker(uint64_t seed) : random_(seed) {}

  uint64_t Bits() { return random_(); }
  // Uniform in [0, bound). REQUIRES: bound > 0. The bias of the remainder is far below what any
  // test can see.
  uint64_t Below(uint64_t bound) { return random_() % bound; }
  bool Chance(double share) {
    return std::uniform_real_distribution<double>(0, 1)(random_) < share;
  }

  Tokens Random(size_t count) {
    Tokens tokens(count);
    for (uint32_t& token : tokens) token = static_cast<uint32_t>(Below(kVocabulary));
    return tokens;
  }
  // `prefix` and `count` random tokens behind it.
  Tokens Extend(const Tokens& prefix, size_t count) {
    Tokens tokens = prefix;
    tokens.reserve(prefix.size() + count);
    while (count-- > 0) tokens.push_back(static_cast<uint32_t>(Below(kVocabulary)));
    return tokens;
  }
  std::string RandomBytes(size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(Below(256));
    return bytes;
  }

 private:
  static constexpr uint64_t kVocabulary = 128000;
  std::mt19937_64 random_;
};

inline Tokens Head(const Tokens& tokens, size_t count) {
  return Tokens(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(count));
}

}  // namespace prefixrouter::testing

#endif  // PREFIXROUTER_TESTS_SUPPORT_PROMPTS_H_
