// Any bytes are a message of msgpack: what is read from it is in range, and is read again after it
// was written in each encoding.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/kv_events_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static prefixrouter::KvEventDecoder decoder;
  static prefixrouter::KvEventDecoder again;
  const auto batch = decoder.Decode({reinterpret_cast<const char*>(data), size});
  if (!batch.ok()) {
    prefixrouter::fuzz::Require(!batch.status().message().empty());
    return 0;
  }
  prefixrouter::fuzz::CheckBatch(**batch, again);
  return 0;
}
