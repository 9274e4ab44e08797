// What is out of these limits is no event of an engine.
#ifndef PREFIXROUTER_LIB_EVENTS_EVENT_LIMITS_H_
#define PREFIXROUTER_LIB_EVENTS_EVENT_LIMITS_H_

#include <cstdint>

namespace prefixrouter {

inline constexpr uint64_t kMaxBlockSize = uint64_t{1} << 20;
// No prompt is longer, in tokens.
inline constexpr int64_t kMaxContentOffset = int64_t{1} << 40;
// A time above this is in milliseconds: as seconds it lies after the year 5000.
inline constexpr double kMaxSeconds = 1e11;

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_EVENTS_EVENT_LIMITS_H_
