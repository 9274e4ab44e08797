// Request: one prompt to route, and what the caller wants of the answer.
//
// A Request borrows everything that it points at for the length of the call.
//
//   auto request = Request::FromTokens(tokens);
//   request.key_space.adapter = "legal-lora";
//   request.session_key = conversation_id;
//   auto decision = router->Route(request);
#ifndef PREFIXROUTER_REQUEST_H_
#define PREFIXROUTER_REQUEST_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "prefixrouter/instance.h"
#include "prefixrouter/span.h"

namespace prefixrouter {

// What must never share cached blocks: prompts of different models, LoRA adapters or cache salts.
// Each part is hashed with its length and its role, so that ("a", "b") never equals ("ab", "") and
// a salt never equals an adapter of the same name. Empty means none.
struct KeySpace {
  std::string_view model;
  std::string_view adapter;
  std::string_view salt;
};

// An image, audio clip or other content that stands in the prompt as placeholder tokens. Its hash
// is mixed into the key of the block that holds `offset`, so that equal placeholders with different
// content do not match behind it.
struct MultimodalItem {
  uint64_t offset = 0;  // of its first placeholder: in tokens, or in bytes for a text prompt
  uint64_t content_hash = 0;
};

enum class PromptForm : int32_t {
  kTokens = 0,     // token ids, from the model's tokenizer
  kText = 1,       // bytes, for gateways without a tokenizer; need not be valid UTF-8
  kBlockKeys = 2,  // keys that the caller computed with BlockHasher, or of its own making
};

struct Request {
  PromptForm form = PromptForm::kTokens;
  Span<const uint32_t> tokens;      // for kTokens
  std::string_view text;            // for kText
  Span<const uint64_t> block_keys;  // for kBlockKeys: key i stands for blocks 0 to i of the prompt
  // For kBlockKeys: the prompt's length in tokens. 0 means block_keys.size() * block_size.
  uint64_t prompt_tokens = 0;

  KeySpace key_space;  // not used with kBlockKeys, whose keys hold it already
  // Ascending offsets inside the prompt. Not used with kBlockKeys.
  Span<const MultimodalItem> multimodal;

  // Only these instances may be chosen. Ids of removed instances are ignored. Empty: all may.
  Span<const InstanceId> allowed;
  // Requests with one key go to one instance while it is ready, allowed and not overloaded (see
  // RouterOptions::session_slack_s). Empty: none.
  std::string_view session_key;
  // Output length that the caller expects, for the KV memory that a lease reserves. 0: unknown.
  uint32_t expected_output_tokens = 0;
  // Passed on to the policy. The built-in policies do not look at it.
  int32_t priority = 0;
  // When every candidate's predicted time to first token is above this, the call answers
  // kResourceExhausted (a gateway sends HTTP 429) and nothing is reserved. 0: no bound.
  double max_ttft_s = 0;

  static Request FromTokens(Span<const uint32_t> tokens) {
    Request request;
    request.tokens = tokens;
    return request;
  }
  static Request FromText(std::string_view text) {
    Request request;
    request.form = PromptForm::kText;
    request.text = text;
    return request;
  }
  static Request FromBlockKeys(Span<const uint64_t> block_keys, uint64_t prompt_tokens = 0) {
    Request request;
    request.form = PromptForm::kBlockKeys;
    request.block_keys = block_keys;
    request.prompt_tokens = prompt_tokens;
    return request;
  }
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_REQUEST_H_
