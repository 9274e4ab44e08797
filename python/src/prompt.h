// Prompt: what Python passes as `tokens`, borrowed where it lies or copied once, for one call.
//
//   str, bytes, bytearray                  text, in place
//   list, tuple                            token ids, each read directly
//   a buffer of uint32, contiguous         token ids, in place (numpy, array.array, memoryview)
//   a buffer of another integer type       token ids, one checked copy
//   a tensor with __dlpack__               as a buffer
//
// Anything else is a TypeError, and what is no token id a TypeError or ValueError that names it and
// its position. Floats are never rounded, and numbers never wrapped around.
#ifndef PREFIXROUTER_PYTHON_SRC_PROMPT_H_
#define PREFIXROUTER_PYTHON_SRC_PROMPT_H_

#include <pybind11/pybind11.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "buffer.h"
#include "dlpack.h"
#include "prefixrouter/request.h"

namespace prefixrouter::python {

namespace py = pybind11;

class Prompt {
 public:
  // `value` must outlive the prompt. Needs the GIL.
  explicit Prompt(py::handle value);
  Prompt(const Prompt&) = delete;
  Prompt& operator=(const Prompt&) = delete;

  // Sets the request's form and its tokens or text.
  void Put(Request* request) const;
  // Length of what is hashed.
  size_t bytes() const;

 private:
  void ReadItems(py::handle sequence);
  void ReadBuffer(py::handle value);
  void Read(const ArrayView& view);

  std::string_view text_;
  Span<const uint32_t> tokens_;
  PromptForm form_ = PromptForm::kTokens;

  // What tokens_ lie in.
  std::unique_ptr<uint32_t[]> copy_;
  std::optional<DlpackTensor> tensor_;
  Buffer buffer_;
};

// The exceptions that all forms of token ids share.
[[noreturn]] void RaiseTokenOutOfRange(size_t position, const std::string& token);
template <typename Size>
[[noreturn]] void RaiseWrongShape(const Size* shape, int dimensions) {
  std::string text = "tokens must have one dimension, got shape (";
  for (int i = 0; i < dimensions; ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  throw py::value_error(text + ")");
}

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_PROMPT_H_
