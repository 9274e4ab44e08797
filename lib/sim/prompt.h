// The token ids of a request. A trace that names blocks by id has no text: each id stands for a
// fixed pseudo-random sequence of tokens, so that equal ids give equal tokens. Prompts are built
// one at a time, since all prompts of a trace together would take gigabytes.
#ifndef PREFIXROUTER_LIB_SIM_PROMPT_H_
#define PREFIXROUTER_LIB_SIM_PROMPT_H_

#include <cstdint>
#include <vector>

#include "prefixrouter/trace.h"

namespace prefixrouter {

// Generated token ids are below this, as in the vocabularies of current models.
inline constexpr uint32_t kVocabulary = 128000;

// Replaces the contents of `tokens` by the request's prompt. About 1 ns a token; allocates only to
// grow. block_tokens: tokens that a hash id stands for.
void BuildPrompt(const TraceRequest& request, uint32_t block_tokens, std::vector<uint32_t>* tokens);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_SIM_PROMPT_H_
