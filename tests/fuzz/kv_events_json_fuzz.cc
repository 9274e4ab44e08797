// Any bytes are messages of TensorRT-LLM, one a line: what is read from each is in range, and is
// read again after it was written as msgpack.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "tests/fuzz/kv_events_check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using prefixrouter::fuzz::Require;
  prefixrouter::KvEventDecoder decoder(prefixrouter::KvEventFormat::kTrtLlmJson);
  static prefixrouter::KvEventDecoder again;
  std::string_view rest(reinterpret_cast<const char*>(data), size);
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(rest.size(), line.size() + 1));
    const int64_t last_event_id = decoder.last_event_id();
    const uint64_t lost_events = decoder.lost_events();
    const auto batch = decoder.Decode(line);
    Require(decoder.lost_events() >= lost_events);
    if (!batch.ok()) {
      Require(!batch.status().message().empty());
      Require(decoder.last_event_id() == last_event_id && decoder.lost_events() == lost_events);
      continue;
    }
    prefixrouter::fuzz::CheckBatch(**batch, again);
  }
  return 0;
}
