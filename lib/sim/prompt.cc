#include "lib/sim/prompt.h"

#include <algorithm>

#include "lib/sim/random.h"

namespace prefixrouter {

void BuildPrompt(const TraceRequest& request, uint32_t block_tokens,
                 std::vector<uint32_t>* tokens) {
  if (!request.tokens.empty()) {
    tokens->assign(request.tokens.begin(),
                   request.tokens.begin() + static_cast<int64_t>(request.prompt_tokens));
    return;
  }
  tokens->resize(request.prompt_tokens);
  uint32_t* const end = tokens->data() + tokens->size();
  uint32_t* next = tokens->data();
  for (const uint64_t id : request.hash_ids) {
    SplitMix64 random(SplitMix64(id).Next());  // the streams of neighbouring ids do not overlap
    uint32_t* const block_end = next + std::min<ptrdiff_t>(block_tokens, end - next);
    while (next < block_end) {
      const uint64_t bits = random.Next();  // two tokens of 32 bits each
      *next++ = static_cast<uint32_t>(((bits >> 32) * kVocabulary) >> 32);
      if (next < block_end) {
        *next++ = static_cast<uint32_t>(((bits & 0xffffffff) * kVocabulary) >> 32);
      }
    }
  }
}

}  // namespace prefixrouter
