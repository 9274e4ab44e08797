#include "buffer.h"

#include <cstdint>
#include <cstring>
#include <string>

#include "arguments.h"

namespace prefixrouter::python {
namespace {

bool LittleEndian() {
  const uint16_t one = 1;
  return *reinterpret_cast<const char*>(&one) == 1;
}

bool IsOneOf(char c, const char* set) { return c != '\0' && std::strchr(set, c) != nullptr; }

}  // namespace

void Buffer::Hold(py::handle value, const char* name) {
  if (PyObject_GetBuffer(value.ptr(), &view_, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
    // Some arrays of no numbers refuse like that.
    py::error_already_set cause;
    py::raise_from(cause, PyExc_TypeError,
                   (std::string(name) + " cannot be read: " + Shown(value)).c_str());
    throw py::error_already_set();
  }
  held_ = true;
}

Buffer::Kind Buffer::kind() const {
  // A format of the struct module: an optional mark of the byte order, then the type.
  const char* type = format();
  if (IsOneOf(*type, "@=") || IsOneOf(*type, LittleEndian() ? "<" : ">!") ||
      (view_.itemsize == 1 && IsOneOf(*type, "<>!"))) {
    ++type;
  }
  if (*type == '\0' || type[1] != '\0') return Kind::kOther;
  if (IsOneOf(*type, "BHILQN")) return Kind::kUnsigned;
  if (IsOneOf(*type, "bhilqn")) return Kind::kSigned;
  if (IsOneOf(*type, "fd")) return Kind::kFloat;
  return Kind::kOther;
}

}  // namespace prefixrouter::python
