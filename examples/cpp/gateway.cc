// What a gateway does with PrefixRouter, in C++: it registers instances, asks for each request
// where to send it, says how the request went, and prints why each choice was made.
//
//   c++ -std=c++17 gateway.cc $(pkg-config --cflags --libs prefixrouter)
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "prefixrouter/prefix_router.h"

using prefixrouter::Decision;
using prefixrouter::PrefixRouter;
using prefixrouter::Request;

namespace {

bool Fail(const prefixrouter::Status& status) {
  std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return false;
}

// Stands for the model's tokenizer: a system prompt that all users share, then the user's words.
std::vector<uint32_t> MakePrompt(uint32_t user) {
  constexpr uint32_t kPromptTokens = 1000, kSystemTokens = 800;
  std::vector<uint32_t> tokens(kPromptTokens);
  for (uint32_t i = 0; i < kPromptTokens; ++i) {
    tokens[i] = i < kSystemTokens ? i : (user + 1) * 100000 + i;
  }
  return tokens;
}

// One request: where to, why, and what came of it.
bool Serve(PrefixRouter& router, uint32_t user) {
  const std::vector<uint32_t> prompt = MakePrompt(user);
  auto lease = router.Acquire(Request::FromTokens(prompt));
  if (!lease.ok()) return Fail(lease.status());
  const Decision& decision = lease->decision();
  const std::string name = router.InstanceName(decision.instance).value_or("removed meanwhile");
  std::printf("user %u: %s by %s, %u of %u tokens cached, first token in %.3f s\n", user,
              name.c_str(), prefixrouter::RuleName(decision.rule),
              static_cast<unsigned>(decision.cached_tokens),
              static_cast<unsigned>(decision.prompt_tokens), decision.predicted_ttft_s);

  // Here the request goes to the instance. When the first byte of the answer arrives:
  lease->FirstToken();
  // When the answer is complete:
  prefixrouter::FinishInfo info;
  info.output_tokens = 100;
  return lease->Finish(info);
}

}  // namespace

int main() {
  auto router = PrefixRouter::Create({});
  if (!router.ok()) return !Fail(router.status());
  for (const char* name : {"10.0.0.1:8000", "10.0.0.2:8000"}) {
    prefixrouter::InstanceOptions options;
    options.name = name;
    if (auto added = (*router)->AddInstance(options); !added.ok()) return !Fail(added.status());
  }
  for (uint32_t turn = 0; turn < 6; ++turn) {
    if (!Serve(**router, turn % 3)) return 1;
  }
  const prefixrouter::RouterStats stats = (*router)->Stats();
  std::printf(
      "%u requests, %.0f %% of their tokens cached\n", static_cast<unsigned>(stats.requests),
      100.0 * static_cast<double>(stats.cached_tokens) / static_cast<double>(stats.prompt_tokens));
  return stats.requests == 6 && stats.cached_tokens > stats.prompt_tokens / 2 ? 0 : 1;
}
