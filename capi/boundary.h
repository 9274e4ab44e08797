// What every function of the C library does at the boundary between C and C++: it lets no exception
// out, leaves a text for prefix_router_last_error, and reads and writes structs whose size the
// caller tells.
#ifndef PREFIXROUTER_CAPI_BOUNDARY_H_
#define PREFIXROUTER_CAPI_BOUNDARY_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "prefixrouter/status.h"

namespace prefixrouter::capi {

// ---- Failures -----------------------------------------------------------------------------------

// All keep the text for the calling thread, and answer the code. REQUIRES: not OK.
int32_t Fail(StatusCode code, std::string_view message) noexcept;
inline int32_t Fail(const Status& status) noexcept { return Fail(status.code(), status.message()); }
// PREFIX_ROUTER_INVALID_ARGUMENT.
int32_t Invalid(const std::string& message);
// "`name` is NULL".
int32_t FailNull(const char* name);
// For use inside a catch (...).
int32_t FailWithException() noexcept;

const char* LastError() noexcept;

// Runs `call`, which answers a status; what it throws becomes one.
template <typename Call>
int32_t Guard(Call call) noexcept {
  try {
    return call();
  } catch (...) {
    return FailWithException();
  }
}

// ---- Structs ------------------------------------------------------------------------------------

// Bytes of T in the first ABI of this major number. A struct that has grown since then says here
// where it ended: it may come as short as that.
template <typename T>
inline constexpr size_t kFirstSize = sizeof(T);

// No struct is larger; a larger size is one that was never set.
inline constexpr size_t kLargestStruct = 65536;

// OK if `struct_size` can be the size of a struct that the caller calls `name`.
int32_t CheckStructSize(size_t struct_size, size_t first_size, const char* name);
// OK if the bytes of a caller's struct past those that the library knows are 0.
int32_t CheckTail(const void* data, size_t known_size, size_t struct_size, const char* name);

// A struct of options that the caller passed: its own memory when the sizes agree, else a copy in
// which what the caller does not know is 0.
template <typename T>
class Input {
 public:
  // `name` is that of the parameter.
  int32_t Read(const T* in, const char* name) {
    if (in == nullptr) return FailNull(name);
    return Read(in, in->struct_size, name);
  }
  // For an element of an array, whose first element tells the size. REQUIRES: not null
  int32_t Read(const T* in, size_t struct_size, const char* name) {
    view_ = in;
    if (struct_size == sizeof(T)) return 0;
    if (int32_t status = CheckStructSize(struct_size, kFirstSize<T>, name); status != 0) {
      return status;
    }
    if (struct_size > sizeof(T)) return CheckTail(in, sizeof(T), struct_size, name);
    std::memset(&copy_, 0, sizeof(T));
    std::memcpy(&copy_, in, struct_size);
    view_ = &copy_;
    return 0;
  }
  // REQUIRES: Read answered OK.
  const T& operator*() const { return *view_; }

 private:
  const T* view_;
  T copy_;
};

// OK if a result can be written to `out`.
template <typename T>
int32_t CheckOutput(const T* out, const char* name) {
  if (out == nullptr) return FailNull(name);
  if (out->struct_size == sizeof(T)) return 0;
  return CheckStructSize(out->struct_size, kFirstSize<T>, name);
}

// Fills a caller's struct of `struct_size` bytes with what fill(T*) makes: what it has room for,
// and 0 behind that. A struct of the library's size is filled where it lies. REQUIRES: CheckOutput
// answered OK.
template <typename T, typename FillStruct>
void WriteOutput(T* out, size_t struct_size, FillStruct fill) {
  if (struct_size == sizeof(T)) {
    fill(out);
  } else {
    T whole;
    fill(&whole);
    const size_t known = struct_size < sizeof(T) ? struct_size : sizeof(T);
    std::memcpy(static_cast<void*>(out), &whole, known);
    std::memset(reinterpret_cast<char*>(out) + known, 0, struct_size - known);
  }
  out->struct_size = struct_size;
}

// Fails unless it is 0 or 1; `name` is that of the member.
int32_t CheckFlag(int32_t value, const char* name);
// For members and bits that later versions may use: fails unless 0.
int32_t CheckUnused(uint32_t value, const char* name);

// Element `index` of a caller's array, whose first element tells the size of all.
template <typename T>
const T* Element(const T* first, size_t index) {
  return reinterpret_cast<const T*>(reinterpret_cast<const char*>(first) +
                                    index * first->struct_size);
}
// "ranks[2]"
std::string ElementName(const char* array, size_t index);

// ---- Strings and lists --------------------------------------------------------------------------

// A string that the caller passed as pointer and size. Not valid when the pointer is NULL and the
// size is not 0; `name` is that of the pointer.
int32_t FailString(size_t size, const char* name);
inline int32_t ReadString(const char* data, size_t size, const char* name, std::string_view* out) {
  if (size == 0) return 0;  // *out is empty
  if (data == nullptr) return FailString(size, name);
  *out = {data, size == SIZE_MAX ? std::strlen(data) : size};
  return 0;
}

// OK if (array, count) can be an array that the caller passed; `name` is that of the array.
int32_t CheckArray(const void* array, size_t count, const char* name);

// OK if (list, capacity, count) can take a list; *count becomes 0. `name` is that of the list.
int32_t CheckList(const void* list, size_t capacity, size_t* count, const char* name);
// Sets *count; OK if that many elements fit.
int32_t CheckCapacity(size_t needed, size_t capacity, size_t* count);

// The same for a caller's buffer of characters.
int32_t CheckText(const char* buffer, size_t capacity, size_t* size);
// Writes `text` with a terminating zero if it fits; *size becomes its length in any case.
int32_t WriteText(std::string_view text, char* buffer, size_t capacity, size_t* size);

}  // namespace prefixrouter::capi

#endif  // PREFIXROUTER_CAPI_BOUNDARY_H_
