#include "prompt.h"

#include "arguments.h"
#include "errors.h"
#include "numpy_array.h"

namespace prefixrouter::python {
namespace {

// The value of a small int, as nearly all token ids are, without a call. False for others.
inline bool SmallInt(PyObject* item, uint32_t* token) {
#if PY_VERSION_HEX >= 0x030C0000
  const auto* const number = reinterpret_cast<const PyLongObject*>(item);
  if (!PyUnstable_Long_IsCompact(number)) return false;
  const Py_ssize_t value = PyUnstable_Long_CompactValue(number);
  if (value < 0 || value > static_cast<Py_ssize_t>(UINT32_MAX)) return false;
  *token = static_cast<uint32_t>(value);
  return true;
#else
  // An int is its sign times its number of digits, and the digits: one of them below 2^15 or 2^30.
  const Py_ssize_t size = Py_SIZE(item);
  if (size != 1 && size != 0) return false;
  *token = size == 0 ? 0 : reinterpret_cast<const PyLongObject*>(item)->ob_digit[0];
  return true;
#endif
}

uint32_t ReadItem(PyObject* item, size_t position) {
  // __index__ and __repr__ may run any code, which may take the item out of its list.
  const py::object held = py::reinterpret_borrow<py::object>(item);
  if (PyBool_Check(item) || !PyIndex_Check(item)) {
    throw py::type_error("tokens[" + std::to_string(position) + "] must be an int, got " +
                         ShownWithType(item));
  }
  const py::object index = py::reinterpret_steal<py::object>(PyNumber_Index(item));
  if (!index) throw py::error_already_set();
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(index.ptr(), &overflow);
  if (value == -1 && PyErr_Occurred() != nullptr) throw py::error_already_set();
  if (overflow != 0 || value < 0 || value > static_cast<long long>(UINT32_MAX)) {
    Raise(TokenOutOfRange(position, Shown(index)));
  }
  return static_cast<uint32_t>(value);
}

}  // namespace

Prompt::Prompt(py::handle value) {
  PyObject* const object = value.ptr();
  if (ViewNumpyUint32(value, &array_)) {
    held_ = py::reinterpret_borrow<py::object>(value);
  } else if (PyList_Check(object) || PyTuple_Check(object)) {
    ReadItems(value);
  } else if (PyUnicode_Check(object)) {
    form_ = PromptForm::kText;
    text_ = ToText(value, "tokens");
  } else if (PyBytes_Check(object)) {
    form_ = PromptForm::kText;
    text_ = {PyBytes_AS_STRING(object), static_cast<size_t>(PyBytes_GET_SIZE(object))};
  } else if (PyObject_CheckBuffer(object)) {
    ReadBuffer(value);
  } else if (DlpackTensor::Accepts(value)) {
    tensor_.emplace(value);
    array_ = tensor_->view();
  } else {
    throw py::type_error(
        "tokens must be a list, a tuple, an array of integers, a str or bytes, got " +
        ShownWithType(value));
  }
}

Status Prompt::Put(Request* request) {
  if (array_.IsPlainUint32()) {
    tokens_ = {reinterpret_cast<const uint32_t*>(array_.data), array_.size};
  } else if (array_.size != 0) {
    copy_.reset(new uint32_t[array_.size]);
    tokens_ = {copy_.get(), array_.size};
    if (Status copied = CopyTokens(array_, copy_.get()); !copied.ok()) return copied;
  }
  request->form = form_;
  request->tokens = tokens_;
  request->text = text_;
  return Status();
}

size_t Prompt::bytes_left() const { return text_.size() + array_.size * array_.item_bytes; }

void Prompt::ReadItems(py::handle sequence) {
  PyObject* const object = sequence.ptr();
  const bool is_list = PyList_Check(object);
  const auto size = static_cast<size_t>(Py_SIZE(object));
  copy_.reset(new uint32_t[size]);
  for (size_t i = 0; i < size; ++i) {
    // Code that ran for an earlier item may have changed the list.
    if (static_cast<size_t>(Py_SIZE(object)) != size) {
      throw py::value_error("tokens changed its size from " + std::to_string(size) + " to " +
                            std::to_string(Py_SIZE(object)) + " while it was read");
    }
    PyObject* const item = is_list ? PyList_GET_ITEM(object, static_cast<Py_ssize_t>(i))
                                   : PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(i));
    if (!PyLong_CheckExact(item) || !SmallInt(item, &copy_[i])) copy_[i] = ReadItem(item, i);
  }
  tokens_ = {copy_.get(), size};
}

void Prompt::ReadBuffer(py::handle value) {
  buffer_.Hold(value, "tokens");
  if (PyByteArray_Check(value.ptr())) {
    form_ = PromptForm::kText;
    text_ = {buffer_.data(), buffer_.size_bytes()};
    return;
  }
  const Buffer::Kind kind = buffer_.kind();
  if (kind != Buffer::Kind::kUnsigned && kind != Buffer::Kind::kSigned) {
    throw py::type_error(std::string("tokens must be of an integer type in native byte order, "
                                     "got items of format '") +
                         buffer_.format() + "'");
  }
  if (PyMemoryView_Check(value.ptr()) && buffer_.item_bytes() == 1) {
    throw py::type_error(
        "tokens is a memoryview of bytes, which may be text or token ids: pass bytes(view) for "
        "text, view.cast('I') for token ids");
  }
  if (buffer_.dimensions() != 1) RaiseWrongShape(buffer_.shape(), buffer_.dimensions());
  array_.data = buffer_.data();
  array_.size = buffer_.size();
  array_.stride_bytes = buffer_.stride_bytes();
  array_.item_bytes = buffer_.item_bytes();
  array_.is_signed = kind == Buffer::Kind::kSigned;
}

}  // namespace prefixrouter::python
