// Status and Result<T>: how every call of this library says that it failed.
//
// No exception leaves the library. A call that can fail returns a Status, or a Result<T> that holds
// either a value or the Status that explains why there is none. Messages are for people: they name
// the argument and the value that was refused. Codes are for programs: their numbers are those of
// gRPC (https://grpc.io/docs/guides/status-codes/) and do not change.
//
//   prefixrouter::Result<prefixrouter::InstanceId> chosen = router->Route(tokens);
//   if (!chosen.ok()) return Fail(chosen.status().message());
//   Forward(*chosen);
//
// Both types are values without locks: share one between threads as you would an int.
#ifndef PREFIXROUTER_STATUS_H_
#define PREFIXROUTER_STATUS_H_

#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>

namespace prefixrouter {

enum class StatusCode : int32_t {
  kOk = 0,                  // it worked
  kCancelled = 1,           // the caller gave up
  kUnknown = 2,             // a failure that fits no other code
  kInvalidArgument = 3,     // the argument is wrong whatever the state of the router
  kDeadlineExceeded = 4,    // time ran out
  kNotFound = 5,            // no such instance
  kAlreadyExists = 6,       // an instance of this name and rank is there already
  kPermissionDenied = 7,    // not allowed
  kResourceExhausted = 8,   // a limit is reached: instances, memory, or the bound on predicted TTFT
  kFailedPrecondition = 9,  // the router is not in a state to do this
  kAborted = 10,            // a concurrent change won
  kOutOfRange = 11,         // a value is past the end of what is there
  kUnimplemented = 12,      // not offered by this build
  kInternal = 13,           // a fault of the library itself
  kUnavailable = 14,        // no instance can take a request now: none, none ready, or none allowed
};

// "INVALID_ARGUMENT" and so on; "UNKNOWN" for a number that is no code.
const char* StatusCodeName(StatusCode code);

class [[nodiscard]] Status {
 public:
  Status() = default;  // OK
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  // Empty when ok().
  const std::string& message() const { return message_; }
  // "OK", or "INVALID_ARGUMENT: block_size must be ...".
  std::string ToString() const;

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

template <typename T>
class [[nodiscard]] Result {
 public:
  Result(T value) : value_(std::move(value)) {}
  // REQUIRES: !status.ok()
  Result(Status status) : status_(std::move(status)) {}

  bool ok() const { return value_.has_value(); }
  // OK when ok().
  const Status& status() const { return status_; }

  // REQUIRES: ok()
  T& operator*() & { return *value_; }
  const T& operator*() const& { return *value_; }
  T&& operator*() && { return *std::move(value_); }
  T* operator->() { return &*value_; }
  const T* operator->() const { return &*value_; }

  // The value, or `fallback` when there is none.
  T value_or(T fallback) && { return ok() ? *std::move(value_) : std::move(fallback); }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_STATUS_H_
