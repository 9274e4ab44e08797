#include "capi/boundary.h"

#include <algorithm>

#include "lib/base/exceptions.h"

namespace prefixrouter::capi {
namespace {

// Plain memory, so that a failure needs no allocation and a thread's end no destructor of a library
// that may have been unloaded.
thread_local char last_error[1024] = "";

}  // namespace

int32_t Fail(StatusCode code, std::string_view message) noexcept {
  const size_t length = std::min(message.size(), sizeof last_error - 1);
  std::memcpy(last_error, message.data(), length);
  last_error[length] = '\0';
  return static_cast<int32_t>(code);
}

int32_t Invalid(const std::string& message) { return Fail(StatusCode::kInvalidArgument, message); }

int32_t FailNull(const char* name) { return Invalid(std::string(name) + " is NULL"); }

int32_t FailWithException() noexcept { return Fail(CurrentExceptionStatus()); }

const char* LastError() noexcept { return last_error; }

int32_t CheckStructSize(size_t struct_size, size_t first_size, const char* name) {
  if (struct_size >= first_size && struct_size <= kLargestStruct) return 0;
  return Invalid(std::string(name) + ": struct_size must be the size of the struct, which is " +
                 std::to_string(first_size) + " or more, got " + std::to_string(struct_size));
}

int32_t CheckTail(const void* data, size_t known_size, size_t struct_size, const char* name) {
  const char* const bytes = static_cast<const char*>(data);
  const char* const end = bytes + struct_size;
  const char* const set = std::find_if(bytes + known_size, end, [](char c) { return c != 0; });
  if (set == end) return 0;
  return Fail(StatusCode::kUnimplemented,
              std::string(name) + ": the library knows the first " + std::to_string(known_size) +
                  " bytes of the struct, and byte " + std::to_string(set - bytes) + " is not 0");
}

int32_t CheckFlag(int32_t value, const char* name) {
  if (value == 0 || value == 1) return 0;
  return Invalid(std::string(name) + " must be 0 or 1, got " + std::to_string(value));
}

int32_t CheckUnused(uint32_t value, const char* name) {
  if (value == 0) return 0;
  return Fail(
      StatusCode::kUnimplemented,
      std::string(name) + " has bits that this library does not know: " + std::to_string(value));
}

std::string ElementName(const char* array, size_t index) {
  return std::string(array) + "[" + std::to_string(index) + "]";
}

int32_t FailString(size_t size, const char* name) {
  if (size == SIZE_MAX) return FailNull(name);
  return Invalid(std::string(name) + " is NULL with a size of " + std::to_string(size));
}

int32_t CheckArray(const void* array, size_t count, const char* name) {
  if (array != nullptr || count == 0) return 0;
  return Invalid(std::string(name) + " is NULL with a count of " + std::to_string(count));
}

int32_t CheckList(const void* list, size_t capacity, size_t* count, const char* name) {
  if (count == nullptr) return FailNull("count");
  *count = 0;
  if (list != nullptr || capacity == 0) return 0;
  return Invalid(std::string(name) + " is NULL with a capacity of " + std::to_string(capacity));
}

int32_t CheckCapacity(size_t needed, size_t capacity, size_t* count) {
  *count = needed;
  if (needed <= capacity) return 0;
  return Fail(StatusCode::kOutOfRange, "capacity is " + std::to_string(capacity) + ", and " +
                                           std::to_string(needed) + " are needed");
}

int32_t CheckText(const char* buffer, size_t capacity, size_t* size) {
  if (size == nullptr) return FailNull("size");
  return CheckList(buffer, capacity, size, "buffer");
}

int32_t WriteText(std::string_view text, char* buffer, size_t capacity, size_t* size) {
  *size = text.size();
  size_t needed;
  if (int32_t status = CheckCapacity(text.size() + 1, capacity, &needed); status != 0) {
    return status;
  }
  text.copy(buffer, text.size());
  buffer[text.size()] = '\0';
  return 0;
}

}  // namespace prefixrouter::capi
