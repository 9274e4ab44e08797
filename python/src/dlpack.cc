#include "dlpack.h"

#include <string>

#include "arguments.h"
#include "prompt.h"

namespace prefixrouter::python {
namespace {

enum DeviceType : int32_t { kCpu = 1, kCudaHost = 3, kRocmHost = 11 };
enum TypeCode : uint8_t { kInt = 0, kUint = 1 };

struct Device {
  int32_t type;
  int32_t id;
};
struct DataType {
  uint8_t code;
  uint8_t bits;
  uint16_t lanes;
};
struct Tensor {
  void* data;
  Device device;
  int32_t dimensions;
  DataType type;
  int64_t* shape;
  int64_t* strides;  // in elements; null: contiguous
  uint64_t byte_offset;
};
struct ManagedTensor {
  Tensor tensor;
  void* context;
  void (*deleter)(ManagedTensor*);
};
struct VersionedTensor {
  uint32_t major_version;
  uint32_t minor_version;
  void* context;
  void (*deleter)(VersionedTensor*);
  uint64_t flags;
  Tensor tensor;
};

constexpr uint32_t kMajorVersion = 1;

constexpr const char* kName = "dltensor";
constexpr const char* kUsedName = "used_dltensor";
constexpr const char* kVersionedName = "dltensor_versioned";
constexpr const char* kUsedVersionedName = "used_dltensor_versioned";

void RequireReadable(int64_t device_type) {
  if (device_type == kCpu || device_type == kCudaHost || device_type == kRocmHost) return;
  throw py::type_error("tokens must be in CPU memory, got a tensor on DLPack device type " +
                       std::to_string(device_type));
}

// Objects of version 0 do not know the argument.
py::object Export(py::handle value) {
  const py::object method = value.attr("__dlpack__");
  try {
    return method(py::arg("max_version") = py::make_tuple(kMajorVersion, 0));
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError)) throw;
  }
  return method();
}

ArrayView View(const Tensor& tensor) {
  RequireReadable(tensor.device.type);
  if ((tensor.type.code != kInt && tensor.type.code != kUint) || tensor.type.lanes != 1 ||
      tensor.type.bits % 8 != 0) {
    throw py::type_error("tokens must be of an integer type, got a tensor of DLPack type code " +
                         std::to_string(tensor.type.code) + ", " +
                         std::to_string(tensor.type.bits) + " bits, " +
                         std::to_string(tensor.type.lanes) + " lanes");
  }
  if (tensor.dimensions != 1) RaiseWrongShape(tensor.shape, tensor.dimensions);
  if (tensor.shape[0] < 0) throw py::value_error("tokens has a negative size");
  ArrayView view;
  view.data = static_cast<const char*>(tensor.data) + tensor.byte_offset;
  view.size = static_cast<size_t>(tensor.shape[0]);
  view.item_bytes = tensor.type.bits / 8u;
  view.stride_bytes =
      static_cast<ptrdiff_t>(view.item_bytes) * (tensor.strides == nullptr ? 1 : tensor.strides[0]);
  view.is_signed = tensor.type.code == kInt;
  return view;
}

}  // namespace

bool DlpackTensor::Accepts(py::handle value) {
  // Of the type, as Python looks up its own special methods.
  return py::hasattr(py::type::handle_of(value), "__dlpack__");
}

DlpackTensor::DlpackTensor(py::handle value) {
  // Asked first: a tensor on another device may be copied by its export.
  if (py::hasattr(value, "__dlpack_device__")) {
    const py::object device = value.attr("__dlpack_device__")();
    if (!PyTuple_Check(device.ptr()) || PyTuple_GET_SIZE(device.ptr()) != 2) {
      throw py::type_error("__dlpack_device__ must return (type, id), got " +
                           ShownWithType(device));
    }
    RequireReadable(ToInteger<int32_t>(PyTuple_GET_ITEM(device.ptr(), 0), "the DLPack device"));
  }
  const py::object capsule = Export(value);
  versioned_ = PyCapsule_IsValid(capsule.ptr(), kVersionedName) != 0;
  if (!versioned_ && PyCapsule_IsValid(capsule.ptr(), kName) == 0) {
    throw py::type_error("__dlpack__ must return a capsule with a tensor, got " +
                         ShownWithType(capsule));
  }
  void* const managed = PyCapsule_GetPointer(capsule.ptr(), versioned_ ? kVersionedName : kName);
  if (versioned_) {
    const auto& tensor = *static_cast<const VersionedTensor*>(managed);
    // The capsule, which still owns the tensor, frees it.
    if (tensor.major_version != kMajorVersion) {
      throw py::type_error("tokens are in a tensor of DLPack version " +
                           std::to_string(tensor.major_version) + ", not 1");
    }
    view_ = View(tensor.tensor);
  } else {
    view_ = View(static_cast<const ManagedTensor*>(managed)->tensor);
  }
  if (PyCapsule_SetName(capsule.ptr(), versioned_ ? kUsedVersionedName : kUsedName) != 0) {
    throw py::error_already_set();
  }
  managed_ = managed;
}

DlpackTensor::~DlpackTensor() {
  if (managed_ == nullptr) return;
  if (versioned_) {
    auto* const tensor = static_cast<VersionedTensor*>(managed_);
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  } else {
    auto* const tensor = static_cast<ManagedTensor*>(managed_);
    if (tensor->deleter != nullptr) tensor->deleter(tensor);
  }
}

}  // namespace prefixrouter::python
