// The words of the wire formats for KvTier and KvAttention.
#ifndef PREFIXROUTER_LIB_EVENTS_EVENT_NAMES_H_
#define PREFIXROUTER_LIB_EVENTS_EVENT_NAMES_H_

#include <string_view>

#include "prefixrouter/kv_events.h"

namespace prefixrouter {

inline constexpr std::string_view kStoredTag = "BlockStored";
inline constexpr std::string_view kRemovedTag = "BlockRemoved";
inline constexpr std::string_view kClearedTag = "AllBlocksCleared";

KvTier TierOfMedium(std::string_view medium);
KvAttention AttentionOfKind(std::string_view kind);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_EVENTS_EVENT_NAMES_H_
