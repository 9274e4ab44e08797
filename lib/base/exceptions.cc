#include "lib/base/exceptions.h"

#include <new>
#include <stdexcept>

namespace prefixrouter {

Status CurrentExceptionStatus(const std::string& context) noexcept {
  try {
    try {
      throw;
    } catch (const StatusError& e) {
      return Status(e.status().code(), context + e.what());
    } catch (const std::bad_alloc&) {
      return Status(StatusCode::kResourceExhausted, context + "out of memory");
    } catch (const std::invalid_argument& e) {
      return Status(StatusCode::kInvalidArgument, context + e.what());
    } catch (const std::exception& e) {
      return Status(StatusCode::kInternal, context + e.what());
    } catch (...) {
      return Status(StatusCode::kInternal, context + "unknown exception");
    }
  } catch (...) {  // no memory for the message; this one needs none
    return Status(StatusCode::kResourceExhausted, "out of memory");
  }
}

}  // namespace prefixrouter
