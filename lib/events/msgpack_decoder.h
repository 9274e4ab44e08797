// DecodeMsgpack: batches of KV events of vLLM, SGLang and Mooncake, of all their versions.
#ifndef PREFIXROUTER_LIB_EVENTS_MSGPACK_DECODER_H_
#define PREFIXROUTER_LIB_EVENTS_MSGPACK_DECODER_H_

#include <string_view>

#include "lib/events/event_buffer.h"

namespace prefixrouter {

// Fills `buffer` with what `message` says. Throws StatusError when it is no batch as a whole.
void DecodeMsgpack(std::string_view message, KvEventBuffer* buffer);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_EVENTS_MSGPACK_DECODER_H_
