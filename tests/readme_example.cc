// The example of README.md; scripts/test.sh checks that both are the same below this comment.
#include <cstdio>
#include <vector>

#include "prefixrouter/prefix_router.h"

int main() {
  auto router = prefixrouter::PrefixRouter::Create({});
  if (!router.ok()) return 1;
  for (const char* name : {"10.0.0.1:8000", "10.0.0.2:8000"}) {
    prefixrouter::InstanceOptions instance;
    instance.name = name;
    if (!(*router)->AddInstance(instance).ok()) return 1;
  }
  const std::vector<uint32_t> prompt(1000, 42);  // token ids, from the model's tokenizer
  uint64_t cached_tokens = 0;
  for (int turn = 1; turn <= 2; ++turn) {
    auto lease = (*router)->Acquire(prefixrouter::Request::FromTokens(prompt));
    if (!lease.ok()) return 1;
    cached_tokens = lease->decision().cached_tokens;
    std::printf("turn %d: instance %u, %u of 1000 tokens cached\n", turn, lease->instance().slot(),
                static_cast<unsigned>(cached_tokens));
    lease->FirstToken();  // when the first byte of the answer arrives
    lease->Finish();      // when the answer is complete
  }
  return cached_tokens == 992 ? 0 : 1;  // 62 blocks of 16 tokens
}
