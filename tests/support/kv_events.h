// KV events in tests: the sample messages of engines, and events as text, to be compared.
#ifndef PREFIXROUTER_TESTS_SUPPORT_KV_EVENTS_H_
#define PREFIXROUTER_TESTS_SUPPORT_KV_EVENTS_H_

#include <string>
#include <string_view>
#include <vector>

#include "prefixrouter/kv_events.h"

namespace prefixrouter::testing {

// The bytes that a string of hexadecimal digits stands for.
std::string FromHex(std::string_view digits);

// A whole message, as an engine sends it.
struct SampleMessage {
  const char* name;
  std::string bytes;
};
const std::vector<SampleMessage>& SampleMessages();
// REQUIRES: there is one of this name.
const std::string& Sample(std::string_view name);

// "stored gpu ids 1,2 parent 7 size 2 tokens 1,2,3,4", then what is not the default.
std::string ToText(const KvEvent& event);
// All of it but what was skipped: "1.5 rank 0: ...; ...".
std::string ToText(const KvEventBatch& batch);
// "unknown_event 1, not_dense 2", without what is 0.
std::string ToText(const KvEventCounts& counts);

}  // namespace prefixrouter::testing

#endif  // PREFIXROUTER_TESTS_SUPPORT_KV_EVENTS_H_
