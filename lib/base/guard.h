// Guard: the border that no exception crosses. Every public call that can allocate runs inside it.
#ifndef PREFIXROUTER_LIB_BASE_GUARD_H_
#define PREFIXROUTER_LIB_BASE_GUARD_H_

#include <exception>
#include <new>
#include <type_traits>

#include "prefixrouter/status.h"

namespace prefixrouter {

// Runs `call`, which returns a Status or a Result; what it throws becomes a Status.
template <typename Call>
std::invoke_result_t<Call> Guard(Call call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return Status(StatusCode::kResourceExhausted, "out of memory");
  } catch (const std::exception& e) {
    return Status(StatusCode::kInternal, e.what());
  } catch (...) {
    return Status(StatusCode::kInternal, "unknown exception");
  }
}

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_BASE_GUARD_H_
