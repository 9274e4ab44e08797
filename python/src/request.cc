#include "request.h"

#include <array>
#include <string>

#include "arguments.h"

namespace prefixrouter::python {
namespace {

enum Keyword {
  kTokens,
  kModel,
  kAdapter,
  kSalt,
  kMultimodal,
  kAllowed,
  kSessionKey,
  kExpectedOutputTokens,
  kPriority,
  kMaxTtft,
  kKeywordCount
};
constexpr const char* kNames[kKeywordCount] = {
    "tokens",     "model",     "adapter",     "salt",
    "multimodal", "allowed",   "session_key", "expected_output_tokens",
    "priority",   "max_ttft_s"};

// The interned names: those in a call are the same objects.
std::array<PyObject*, kKeywordCount> interned_names;

int FindKeyword(PyObject* name) {
  for (int i = 0; i < kKeywordCount; ++i) {
    if (interned_names[i] == name) return i;
  }
  for (int i = 0; i < kKeywordCount; ++i) {
    if (PyUnicode_CompareWithASCIIString(name, kNames[i]) == 0) return i;
  }
  return kKeywordCount;
}

[[noreturn]] void RaiseCallError(const char* function, const std::string& message) {
  throw py::type_error(std::string(function) + "() " + message);
}

}  // namespace

void PyRequest::MakeNames() {
  for (int i = 0; i < kKeywordCount; ++i) {
    interned_names[i] = PyUnicode_InternFromString(kNames[i]);
    if (interned_names[i] == nullptr) throw py::error_already_set();
  }
}

PyRequest::PyRequest(PyRouter& router, const char* function, PyObject* const* arguments,
                     Py_ssize_t count, PyObject* keywords) {
  if (count > 1) {
    RaiseCallError(function, "takes one positional argument, tokens, but " + std::to_string(count) +
                                 " were given");
  }
  if (count == 1) prompt_.emplace(arguments[0]);
  if (keywords != nullptr) {
    const Py_ssize_t keyword_count = PyTuple_GET_SIZE(keywords);
    for (Py_ssize_t i = 0; i < keyword_count; ++i) {
      ReadKeyword(router, function, PyTuple_GET_ITEM(keywords, i), arguments[count + i]);
    }
  }
  if (!prompt_) RaiseCallError(function, "misses its argument tokens");
}

void PyRequest::ReadKeyword(PyRouter& router, const char* function, PyObject* name,
                            py::handle value) {
  switch (FindKeyword(name)) {
    case kTokens:
      if (prompt_) RaiseCallError(function, "got tokens twice");
      prompt_.emplace(value);
      return;
    case kModel:
      request_.key_space.model = ToText(value, "model");
      return;
    case kAdapter:
      request_.key_space.adapter = ToText(value, "adapter");
      return;
    case kSalt:
      request_.key_space.salt = ToText(value, "salt");
      return;
    case kMultimodal:
      ReadMultimodal(value);
      return;
    case kAllowed:
      ReadAllowed(router, value);
      return;
    case kSessionKey:
      request_.session_key = ToText(value, "session_key");
      return;
    case kExpectedOutputTokens:
      request_.expected_output_tokens = ToInteger<uint32_t>(value, "expected_output_tokens");
      return;
    case kPriority:
      request_.priority = ToInteger<int32_t>(value, "priority");
      return;
    case kMaxTtft:
      request_.max_ttft_s = ToDouble(value, "max_ttft_s");
      return;
    default:
      RaiseCallError(function, "got an unexpected keyword argument " + Shown(name));
  }
}

void PyRequest::ReadMultimodal(py::handle value) {
  if (PyUnicode_Check(value.ptr()) || PyBytes_Check(value.ptr()) ||
      !py::isinstance<py::iterable>(value)) {
    throw py::type_error("multimodal must be a list of (offset, content_hash), got " +
                         ShownWithType(value));
  }
  for (py::handle pair : py::iter(value)) {
    const std::string item = "multimodal[" + std::to_string(multimodal_.size()) + "]";
    if (!PyTuple_Check(pair.ptr()) && !PyList_Check(pair.ptr())) {
      throw py::type_error(item + " must be (offset, content_hash), got " + ShownWithType(pair));
    }
    const auto fields = py::reinterpret_steal<py::tuple>(PySequence_Tuple(pair.ptr()));
    if (!fields) throw py::error_already_set();
    if (fields.size() != 2) {
      throw py::value_error(item + " must be (offset, content_hash), got " + Shown(pair));
    }
    multimodal_.push_back(
        {ToUint64(fields[0], item + " offset"), ToUint64(fields[1], item + " content_hash")});
  }
  request_.multimodal = multimodal_;
}

void PyRequest::ReadAllowed(PyRouter& router, py::handle value) {
  if (value.is_none()) return;
  if (PyUnicode_Check(value.ptr()) || !py::isinstance<py::iterable>(value)) {
    throw py::type_error("allowed must be a list of instances or names, or None, got " +
                         ShownWithType(value));
  }
  for (py::handle instance : py::iter(value)) {
    allowed_.push_back(
        router.ToInstanceId(instance, "allowed[" + std::to_string(allowed_.size()) + "]"));
  }
  // To the library an empty list means all. What the caller says here is none.
  if (allowed_.empty()) allowed_.push_back(InstanceId());
  request_.allowed = allowed_;
}

}  // namespace prefixrouter::python
