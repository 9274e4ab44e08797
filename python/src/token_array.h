// Token ids in an array of whatever integer type: a view of it, and its checked copy to uint32.
#ifndef PREFIXROUTER_PYTHON_SRC_TOKEN_ARRAY_H_
#define PREFIXROUTER_PYTHON_SRC_TOKEN_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "prefixrouter/status.h"

namespace prefixrouter::python {

// One-dimensional integers in native byte order.
struct ArrayView {
  const char* data = nullptr;
  size_t size = 0;
  ptrdiff_t stride_bytes = 0;  // from one element to the next; may be negative
  size_t item_bytes = 0;       // 1, 2, 4 or 8; others are refused by CopyTokens
  bool is_signed = false;

  // Can be used where it lies: contiguous, aligned, uint32.
  bool IsPlainUint32() const;
};

// Copies the elements to `tokens`, which has room for them. INVALID_ARGUMENT names the first one
// that is no token id, and its position. Needs no GIL.
Status CopyTokens(const ArrayView& view, uint32_t* tokens);

// What is said of a number that is no token id.
Status TokenOutOfRange(size_t position, const std::string& number);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_TOKEN_ARRAY_H_
