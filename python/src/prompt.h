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
  // `value` must outlive the prompt.
  explicit Prompt(py::handle value);
  Prompt(const Prompt&) = delete;
  Prompt& operator=(const Prompt&) = delete;

  // Sets the request's form and its tokens or text, after copying an array that has to be copied.
  // Once. INVALID_ARGUMENT: it has an element that is no token id. Needs no GIL.
  Status Put(Request* request);
  // Length of what is still to be read, without the GIL. 0 for lists and tuples, which have been
  // read with it: that takes ten times as long as the rest of the call, too long for other threads
  // to gain from the rest.
  size_t bytes_left() const;

 private:
  void ReadItems(py::handle sequence);
  void ReadBuffer(py::handle value);

  std::string_view text_;
  Span<const uint32_t> tokens_;
  ArrayView array_;  // to be copied to copy_ and tokens_, if its size is not 0
  PromptForm form_ = PromptForm::kTokens;

  // What tokens_ lie in.
  py::object held_;  // a numpy array, which refuses to be resized as long as it is
  std::unique_ptr<uint32_t[]> copy_;
  std::optional<DlpackTensor> tensor_;
  Buffer buffer_;
};

// ValueError: an array of other than one dimension.
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
