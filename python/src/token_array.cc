#include "token_array.h"

#include <cstring>
#include <string>
#include <type_traits>

#include "arguments.h"
#include "prompt.h"

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
void CopyAs(const ArrayView& view, uint32_t* out) {
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
  if (all_bits >> 32 == 0) return;
  const char* place = view.data;
  for (size_t i = 0; i < view.size; ++i, place += view.stride_bytes) {
    const T value = Load<T>(place);
    if (Widen(value) >> 32 != 0) RaiseTokenOutOfRange(i, std::to_string(value));
  }
}

}  // namespace

bool ArrayView::IsPlainUint32() const {
  return item_bytes == sizeof(uint32_t) && !is_signed &&
         (stride_bytes == static_cast<ptrdiff_t>(sizeof(uint32_t)) || size <= 1) &&
         reinterpret_cast<uintptr_t>(data) % alignof(uint32_t) == 0;
}

std::unique_ptr<uint32_t[]> CopyTokens(const ArrayView& view) {
  std::unique_ptr<uint32_t[]> tokens(new uint32_t[view.size]);
  switch (view.item_bytes * 2 + (view.is_signed ? 1 : 0)) {
    case 2:
      CopyAs<uint8_t>(view, tokens.get());
      break;
    case 3:
      CopyAs<int8_t>(view, tokens.get());
      break;
    case 4:
      CopyAs<uint16_t>(view, tokens.get());
      break;
    case 5:
      CopyAs<int16_t>(view, tokens.get());
      break;
    case 8:
      CopyAs<uint32_t>(view, tokens.get());
      break;
    case 9:
      CopyAs<int32_t>(view, tokens.get());
      break;
    case 16:
      CopyAs<uint64_t>(view, tokens.get());
      break;
    case 17:
      CopyAs<int64_t>(view, tokens.get());
      break;
    default:
      throw py::type_error("tokens must have items of 1, 2, 4 or 8 bytes, got " +
                           std::to_string(view.item_bytes));
  }
  return tokens;
}

}  // namespace prefixrouter::python
