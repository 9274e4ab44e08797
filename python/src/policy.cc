#include "policy.h"

#include <array>
#include <cstring>
#include <stdexcept>
#include <string>

#include "arguments.h"
#include "buffer.h"
#include "errors.h"
#include "gil.h"
#include "router.h"

namespace prefixrouter::python {
namespace {

// Arrays of a PolicyInput, in the order in which they lie in its memory.
enum Array {
  kPendingTokens,
  kTokensPerSecond,
  kSecondsPerToken,
  kRequests,
  kWaiting,
  kKvTokens,
  kKvUsage,
  kWeight,
  kDisplacement,
  kCachedTokens,
  kCachedBlocks,
  kEligible,  // one byte an element; four all others
};

// A copy, for the callable to keep as long as it likes.
struct PyPolicyInput {
  PyPolicyInput(const PolicyInput& in, const InstanceDirectory& directory)
      : size(in.size),
        scalars(in),
        memory(static_cast<const char*>(nullptr), in.size * (kEligible * sizeof(float) + 1)),
        instances(in.size) {
    char* const bytes = PyBytes_AS_STRING(memory.ptr());
    const auto place = [&](Array array) { return bytes + in.size * sizeof(float) * array; };
    const float* const floats[] = {in.pending_tokens, in.tokens_per_s, in.seconds_per_token,
                                   in.requests,       in.waiting,      in.kv_tokens,
                                   in.kv_usage,       in.weight,       in.displacement};
    for (size_t array = 0; array < std::size(floats); ++array) {
      std::memcpy(place(static_cast<Array>(array)), floats[array], in.size * sizeof(float));
    }
    for (size_t i = 0; i < in.size; ++i) {
      const float cached = in.cached_tokens(i);
      std::memcpy(place(kCachedTokens) + i * sizeof cached, &cached, sizeof cached);
      instances[i] = in.eligible[i] != 0 ? directory.Find(in.ids[i]) : py::none();
    }
    std::memcpy(place(kCachedBlocks), in.cached_blocks, in.size * sizeof(uint32_t));
    std::memcpy(place(kEligible), in.eligible, in.size);
    scalars.size = 0;  // its arrays are gone after the call
  }

  py::object View(Array array, const char* format) const {
    const size_t begin = size * sizeof(float) * array;
    const size_t end = begin + size * (array == kEligible ? 1 : sizeof(float));
    const py::object view =
        py::reinterpret_steal<py::object>(PyMemoryView_FromObject(memory.ptr()));
    if (!view) throw py::error_already_set();
    return view[py::slice(static_cast<py::ssize_t>(begin), static_cast<py::ssize_t>(end), 1)].attr(
        "cast")(format);
  }

  size_t size;
  PolicyInput scalars;
  py::bytes memory;
  py::tuple instances;
};

[[noreturn]] void RaiseWrongCount(size_t count, size_t size) {
  throw py::value_error("the policy must return " + std::to_string(size) + " costs, got " +
                        std::to_string(count));
}

template <typename T>
void ReadNumbers(const Buffer& buffer, float* cost) {
  const char* place = buffer.data();
  for (size_t i = 0; i < buffer.size(); ++i, place += buffer.stride_bytes()) {
    T number;
    std::memcpy(&number, place, sizeof number);
    cost[i] = static_cast<float>(number);
  }
}

void ReadBuffer(py::handle value, size_t size, float* cost) {
  Buffer buffer;
  buffer.Hold(value, "the policy's costs");
  if (buffer.dimensions() != 1) {
    throw py::value_error("the policy's costs must have one dimension, got " +
                          std::to_string(buffer.dimensions()));
  }
  if (buffer.size() != size) RaiseWrongCount(buffer.size(), size);
  const Buffer::Kind kind = buffer.kind();
  const size_t bytes = buffer.item_bytes();
  if (kind == Buffer::Kind::kFloat && bytes == 4) {
    ReadNumbers<float>(buffer, cost);
  } else if (kind == Buffer::Kind::kFloat && bytes == 8) {
    ReadNumbers<double>(buffer, cost);
  } else if (kind == Buffer::Kind::kSigned && bytes == 4) {
    ReadNumbers<int32_t>(buffer, cost);
  } else if (kind == Buffer::Kind::kSigned && bytes == 8) {
    ReadNumbers<int64_t>(buffer, cost);
  } else if (kind == Buffer::Kind::kUnsigned && bytes == 4) {
    ReadNumbers<uint32_t>(buffer, cost);
  } else if (kind == Buffer::Kind::kUnsigned && bytes == 8) {
    ReadNumbers<uint64_t>(buffer, cost);
  } else {
    throw py::type_error(
        std::string("the policy's costs must be of a float type, or of an integer type of 4 or 8 "
                    "bytes, got items of format '") +
        buffer.format() + "'");
  }
}

void ReadCosts(py::handle value, size_t size, float* cost) {
  PyObject* const object = value.ptr();
  const bool is_list = PyList_Check(object);
  if (!is_list && !PyTuple_Check(object)) {
    if (!PyObject_CheckBuffer(object) || PyBytes_Check(object) || PyByteArray_Check(object)) {
      throw py::type_error("the policy must return a list or an array of costs, got " +
                           ShownWithType(value));
    }
    ReadBuffer(value, size, cost);
    return;
  }
  for (size_t i = 0; i < size; ++i) {
    // Code that ran for an earlier item may have changed the list.
    const auto count = static_cast<size_t>(Py_SIZE(object));
    if (count != size) RaiseWrongCount(count, size);
    const py::object item = py::reinterpret_borrow<py::object>(
        is_list ? PyList_GET_ITEM(object, static_cast<Py_ssize_t>(i))
                : PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(i)));
    cost[i] =
        static_cast<float>(PyFloat_CheckExact(item.ptr())
                               ? PyFloat_AS_DOUBLE(item.ptr())
                               : ToDouble(item, "the policy's costs[" + std::to_string(i) + "]"));
  }
  const auto count = static_cast<size_t>(Py_SIZE(object));
  if (count != size) RaiseWrongCount(count, size);
}

constexpr const char* kDoc =
    "The state of the fleet for one request, as a custom policy gets it. Read-only.\n"
    "\n"
    "The arrays are memoryviews of shape ``(size,)``; ``numpy.asarray`` takes them without a\n"
    "copy. An element belongs to the instance in the same place of ``instances``. They are a "
    "copy,\n"
    "and stay valid after the call.\n";

void BindArray(py::class_<PyPolicyInput>& cls, const char* name, Array array, const char* format,
               const char* doc) {
  cls.def_property_readonly(
      name, [array, format](const PyPolicyInput& self) { return self.View(array, format); }, doc);
}

template <typename Field>
void BindScalar(py::class_<PyPolicyInput>& cls, const char* name, Field PolicyInput::*field,
                const char* doc) {
  cls.def_property_readonly(
      name, [field](const PyPolicyInput& self) { return self.scalars.*field; }, doc);
}

}  // namespace

void BindPolicy(py::module_& module) {
  py::class_<PyPolicyInput> cls(module, "PolicyInput", py::is_final(), kDoc);
  ForbidNew(cls);
  cls.def_readonly("size", &PyPolicyInput::size, "int: elements of each array.");
  cls.def(
      "__len__", [](const PyPolicyInput& self) { return self.size; }, "__len__(self)\n--\n\n");
  cls.def_property_readonly(
      "instances", [](const PyPolicyInput& self) { return self.instances; },
      "tuple[Instance | None, ...]: None in places that may not be chosen.");
  BindArray(cls, "eligible", kEligible, "B",
            "memoryview of uint8: 1, or 0 in places that are empty, not ready or not allowed; the\n"
            "cost there is ignored.");
  BindArray(cls, "cached_tokens", kCachedTokens, "f",
            "memoryview of float32: tokens of the prompt that the instance holds.");
  BindArray(cls, "cached_blocks", kCachedBlocks, "I",
            "memoryview of uint32: leading blocks of the prompt that it holds.");
  BindArray(cls, "pending_tokens", kPendingTokens, "f",
            "memoryview of float32: prompt tokens assigned to it and not prefilled yet.");
  BindArray(cls, "tokens_per_s", kTokensPerSecond, "f",
            "memoryview of float32: prefill rate in tokens a second, more than 0.");
  BindArray(cls, "seconds_per_token", kSecondsPerToken, "f",
            "memoryview of float32: ``1 / (tokens_per_s * weight)``.");
  BindArray(cls, "requests", kRequests, "f",
            "memoryview of float32: requests in flight: leases, and what the engine reports\n"
            "beyond them.");
  BindArray(cls, "waiting", kWaiting, "f",
            "memoryview of float32: of them, those that wait for their first token: leases, and\n"
            "the queue that the engine reports beyond them.");
  BindArray(cls, "kv_tokens", kKvTokens, "f",
            "memoryview of float32: tokens of prompts and outputs in flight.");
  BindArray(cls, "kv_usage", kKvUsage, "f",
            "memoryview of float32: reported share of KV memory in use, faded by age; 0 when not\n"
            "known.");
  BindScalar(
      cls, "any_report", &PolicyInput::any_report,
      "bool: some instance's engine report counts still; without one ``kv_usage`` is all 0.");
  BindArray(cls, "weight", kWeight, "f",
            "memoryview of float32: ``weight`` of ``PrefixRouter.add_instance``.");
  BindArray(cls, "displacement", kDisplacement, "f",
            "memoryview of float32: prefill that storing a block is expected to cost later, for\n"
            "what it pushes out of the KV cache and is asked for again, as a share of the block's\n"
            "prefill, 0 to 1; learned from KV events, 0 without them.");
  cls.def_property_readonly(
      "home",
      [](const PyPolicyInput& self) -> py::object {
        const uint32_t home = self.scalars.home;
        return home == PolicyInput::kNoHome ? py::object(py::none()) : py::int_(home);
      },
      "int | None: where other routers of this fleet look for the prompt (``routers`` of\n"
      "``PrefixRouter``): a place in the arrays, of an instance that may be chosen. None: there\n"
      "is no such place, or only one router.");
  BindScalar(cls, "home_tokens", &PolicyInput::home_tokens,
             "float: tokens of prefill that placing the prompt at ``home`` is expected to save,\n"
             "beyond ``cached_tokens``: now, as others may have sent there what this router does\n"
             "not know of, and later, as they will find it. May exceed the prompt; 0 without a\n"
             "home.");
  BindScalar(cls, "prompt_tokens", &PolicyInput::prompt_tokens,
             "float: length of the prompt in tokens.");
  BindScalar(cls, "tokens_per_block", &PolicyInput::tokens_per_block,
             "float: tokens that a block stands for.");
  BindScalar(cls, "overhead_tokens", &PolicyInput::overhead_tokens,
             "float: what a first token takes beside prefill, as tokens of prefill; learned, 0\n"
             "until then.");
  BindScalar(cls, "expected_output_tokens", &PolicyInput::expected_output_tokens,
             "float: as the request says; 0 when not known.");
  BindScalar(cls, "priority", &PolicyInput::priority, "int: as the request says.");
  BindScalar(cls, "mean_waiting", &PolicyInput::mean_waiting,
             "float: requests that wait for their first token, mean over eligible instances.");
  BindScalar(cls, "affinity_hash", &PolicyInput::affinity_hash,
             "int: hash of the session key if there is one, else of the prompt's first block; 0\n"
             "for a prompt shorter than a block.");
  BindScalar(cls, "sequence", &PolicyInput::sequence, "int: number of the request, from 0.");
  BindScalar(cls, "random", &PolicyInput::random,
             "int: 64 uniform bits, from the router's ``random_seed``.");
  cls.def("__repr__", [](const PyPolicyInput& self) {
    return "<PolicyInput of " + std::to_string(self.size) + " instances>";
  });
}

namespace {

// Runs body(), which calls a policy; what it throws is kept for Raise (errors.h).
template <typename Body>
void CallPython(Body&& body) {
  const GilHeld gil;
  try {
    body();
    return;
  } catch (...) {
    StashCurrentException();
  }
  throw std::runtime_error("the policy has raised an exception");
}

void GetCosts(py::handle policy, const PolicyInput& in, const InstanceDirectory& instances,
              float* cost) {
  const py::object input = py::cast(PyPolicyInput(in, instances));
  const py::object costs = py::reinterpret_steal<py::object>(
      WithGilOrNever([&] { return PyObject_CallOneArg(policy.ptr(), input.ptr()); }));
  if (!costs) throw py::error_already_set();
  ReadCosts(costs, in.size, cost);
}

}  // namespace

void PythonPolicy::Score(const PolicyInput& in, float* cost) const {
  CallPython([&] {
    const py::object policy = router_.policy();  // held: the callable may close the router
    if (!policy) throw std::runtime_error("the policy is gone");
    GetCosts(policy, in, router_.instances(), cost);
  });
}

SimulatedPythonPolicy::~SimulatedPythonPolicy() {
  const GilHeld gil;
  policy_ = py::object();
  instances_ = InstanceDirectory();
}

void SimulatedPythonPolicy::Score(const PolicyInput& in, float* cost) const {
  CallPython([&] { GetCosts(policy_, in, instances_, cost); });
}

void SimulatedPythonPolicy::InstanceAdded(InstanceId id, const std::string& name, uint32_t rank) {
  CallPython([&] {
    Instance instance;
    instance.name = name;
    instance.rank = rank;
    instance.id = id;
    py::object object = py::cast(std::move(instance));
    instances_.Reserve();
    instances_.Add(std::move(object), id);
    instances_.Forget();
  });
}

}  // namespace prefixrouter::python
