// Guard: the border that no exception crosses. Every public call that can allocate runs inside it.
#ifndef PREFIXROUTER_LIB_BASE_GUARD_H_
#define PREFIXROUTER_LIB_BASE_GUARD_H_

#include <type_traits>

#include "lib/base/exceptions.h"

namespace prefixrouter {

// Runs `call`, which returns a Status or a Result; what it throws becomes a Status.
template <typename Call>
std::invoke_result_t<Call> Guard(Call call) noexcept {
  try {
    return call();
  } catch (...) {
    return CurrentExceptionStatus();
  }
}

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_BASE_GUARD_H_
