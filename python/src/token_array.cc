#include "token_array.h"

#include <cstring>
#include <type_traits>

namespace prefixrouter::python {
namespace {

template <typename T>
uint64_t Widen(T value) {
  // A negative number gets a high half that is not 0, as a large one has.
  if constexpr (std::is_signed_v<T>) {
    return static_cast<uint64_t>(static_cast<int64_t>(value));
  } else {
    return value;
  }
}

template <typename T>
T Load(const char* place) {
  T value;
  std::memcpy(&value, place, sizeof value);
  return value;
}

template <typename T>
Status CopyAs(const ArrayView& view, uint32_t* out) {
  uint64_t all_bits = 0;
  if (view.stride_bytes == static_cast<ptrdiff_t>(sizeof(T))) {
    // A loop of its own, because the compiler makes vector instructions of this one.
    for (size_t i = 0; i < view.size; ++i) {
      const uint64_t wide = Widen(Load<T>(view.data + i * sizeof(T)));
      all_bits |= wide;
      out[i] = static_cast<uint32_t>(wide);
    }
  } else {
    const char* place = view.data;
    for (size_t i = 0; i < view.size; ++i, place += view.stride_bytes) {
      const uint64_t wide = Widen(Load<T>(place));
      all_bits |= wide;
      out[i] = static_cast<uint32_t>(wide);
    }
  }
  if (all_bits >> 32 == 0) return Status();
  const char* place = view.data;
  for (size_t i = 0; i < view.size; ++i, place += view.stride_bytes) {
    const T value = Load<T>(place);
    if (Widen(value) >> 32 != 0) return TokenOutOfRange(i, std::to_string(value));
  }
  // Another thread has changed the array meanwhile.
  return Status(StatusCode::kInvalidArgument, "tokens changed while they were read");
}

}  // namespace

bool ArrayView::IsPlainUint32() const {
  return item_bytes == sizeof(uint32_t) && !is_signed &&
         (stride_bytes == static_cast<ptrdiff_t>(sizeof(uint32_t)) || size <= 1) &&
         reinterpret_cast<uintptr_t>(data) % alignof(uint32_t) == 0;
}

Status CopyTokens(const ArrayView& view, uint32_t* tokens) {
  switch (view.item_bytes * 2 + (view.is_signed ? 1 : 0)) {
    case 2:
      return CopyAs<uint8_t>(view, tokens);
    case 3:
      return CopyAs<int8_t>(view, tokens);
    case 4:
      return CopyAs<uint16_t>(view, tokens);
    case 5:
      return CopyAs<int16_t>(view, tokens);
    case 8:
      return CopyAs<uint32_t>(view, tokens);
    case 9:
      return CopyAs<int32_t>(view, tokens);
    case 16:
      return CopyAs<uint64_t>(view, tokens);
    case 17:
      return CopyAs<int64_t>(view, tokens);
    default:
      return Status(
          StatusCode::kInvalidArgument,
          "tokens must have items of 1, 2, 4 or 8 bytes, got " + std::to_string(view.item_bytes));
  }
}

Status TokenOutOfRange(size_t position, const std::string& number) {
  return Status(StatusCode::kInvalidArgument, "tokens[" + std::to_string(position) + "] is " +
                                                  number + "; token ids are 0 to 4294967295");
}

}  // namespace prefixrouter::python
