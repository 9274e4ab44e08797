// What an exception becomes where none may pass: a Status.
#ifndef PREFIXROUTER_LIB_BASE_EXCEPTIONS_H_
#define PREFIXROUTER_LIB_BASE_EXCEPTIONS_H_

#include <exception>
#include <string>
#include <utility>

#include "prefixrouter/status.h"

namespace prefixrouter {

// An exception that carries its Status, for code that is called back and can return nothing.
class StatusError final : public std::exception {
 public:
  explicit StatusError(Status status) : status_(std::move(status)) {}
  const Status& status() const { return status_; }
  const char* what() const noexcept override { return status_.message().c_str(); }

 private:
  Status status_;
};

// For use inside a catch (...): StatusError is its status, std::bad_alloc kResourceExhausted,
// std::invalid_argument kInvalidArgument, anything else kInternal. The message is that of the
// exception, with `context` before it.
Status CurrentExceptionStatus(const std::string& context = "") noexcept;

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_BASE_EXCEPTIONS_H_
