#include "workload.h"

#include <cerrno>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "arguments.h"
#include "errors.h"
#include "gil.h"
#include "instance.h"
#include "prefixrouter/trace.h"

namespace prefixrouter::python {
namespace {

struct PyTrace {
  std::shared_ptr<const Trace> trace;
  std::vector<std::string> warnings;
};

struct PyTraceLines {
  std::shared_ptr<const Trace> trace;
  size_t next = 0;
};

constexpr const char* kTraceDoc =
    "Requests as they were recorded or generated, before their arrival times are set.\n"
    "\n"
    "Made by ``read_trace`` and ``generate_trace``. Iterating it gives each request as a line of\n"
    "JSON, without a line end, in the form that ``read_trace`` reads. Read-only.\n";

constexpr const char* kWorkloadDoc =
    "A trace made ready for ``simulate``: arrival times are set, prompts are hashed.\n"
    "\n"
    "Made once, it serves any number of simulations, in any number of threads. Read-only.\n";

constexpr const char* kWorkloadInitDoc =
    "__init__(self, trace, *, block_size=0, spread_ticks=True, session_window_s=None, speed=1.0, "
    "seed=1)\n--\n\n"
    "Args:\n"
    "    trace (Trace): From ``read_trace`` or ``generate_trace``.\n"
    "    block_size (int): Tokens a block in the simulated engines and in the routers; it must\n"
    "        divide the trace's block. 0: the trace's own, or 16 for one of token ids.\n"
    "    spread_ticks (bool): Where a trace rounds its times to a tick, spread the requests of\n"
    "        each tick uniformly inside it.\n"
    "    session_window_s (float | None): Sessions that all begin at one time are started within\n"
    "        this many seconds. None: the length of the longest session. 0: times are taken as\n"
    "        they are. 0 to 1e9.\n"
    "    speed (float): 2: requests come twice as fast. 1e-6 to 1e6.\n"
    "    seed (int): Of the arrival times that are drawn by chance.\n"
    "\n"
    "Raises:\n"
    "    TypeError: A value of the wrong type.\n"
    "    ValueError: A value out of its range, or a block size that does not divide the trace's.\n";

constexpr const char* kReadDoc =
    "read_trace(path, *, block_tokens=512, strict=False, limit=0)\n--\n\n"
    "Reads a request trace: JSON lines, plain or gzip.\n"
    "\n"
    "A line has ``timestamp`` (ms), ``input_length``, ``output_length`` and ``hash_ids``, one id\n"
    "for each block of the prompt; or ``arrival_time_ns``, ``input_toks``, ``output_toks`` and\n"
    "``input_tok_ids``. Both may have ``session_id`` and ``delay`` (ms after the turn before it).\n"
    "\n"
    "Args:\n"
    "    path (str | os.PathLike[str]): The file; ``-`` is standard input.\n"
    "    block_tokens (int): Tokens that a hash id stands for. 1 to 65,536.\n"
    "    strict (bool): Refuse a malformed line. Otherwise it is skipped, and named in\n"
    "        ``Trace.warnings``.\n"
    "    limit (int): Stop after so many requests. 0: read all.\n"
    "\n"
    "Returns:\n"
    "    Trace: The requests.\n"
    "\n"
    "Raises:\n"
    "    FileNotFoundError, OSError: It cannot be opened.\n"
    "    ValueError: It cannot be read, is empty or has no usable line; a malformed line, by its\n"
    "        number, if ``strict``; an argument out of range.\n";

constexpr const char* kGenerateDoc =
    "generate_trace(generator, *, requests=8000, seed=1)\n--\n\n"
    "Generates the requests of one kind of traffic, the same for one seed on every machine.\n"
    "\n"
    "Args:\n"
    "    generator (str): One of ``generators()``.\n"
    "    requests (int): How many to make, about: sessions are made whole. 1 to 10,000,000.\n"
    "    seed (int): Of everything that is drawn by chance, 64 bits.\n"
    "\n"
    "Returns:\n"
    "    Trace: The requests.\n"
    "\n"
    "Raises:\n"
    "    TypeError: A value of the wrong type.\n"
    "    ValueError: There is no such generator, or a value is out of its range.\n";

// Text with names of files in it, which need not be UTF-8.
py::str Text(const std::string& text) {
  PyObject* const decoded =
      PyUnicode_DecodeUTF8(text.data(), static_cast<py::ssize_t>(text.size()), "replace");
  if (decoded == nullptr) throw py::error_already_set();
  return py::reinterpret_steal<py::str>(decoded);
}

std::vector<std::string> Lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

PyTrace ReadTraceFile(py::handle path_like, py::handle block_tokens, py::handle strict,
                      py::handle limit) {
  const py::object path_object = py::reinterpret_steal<py::object>(PyOS_FSPath(path_like.ptr()));
  if (!path_object) throw py::error_already_set();
  PyObject* encoded = nullptr;
  if (PyUnicode_FSConverter(path_object.ptr(), &encoded) == 0) throw py::error_already_set();
  const std::string path = py::reinterpret_steal<py::bytes>(encoded);
  ReadOptions options;
  options.block_tokens = ToInteger<uint32_t>(block_tokens, "block_tokens");
  options.on_error = ToBool(strict, "strict") ? OnError::kRefuse : OnError::kSkip;
  options.limit = ToUint64(limit, "limit");
  std::ostringstream warnings;
  int error_number = 0;
  Result<Trace> trace = WithoutGil(true, [&] {
    errno = 0;
    Result<Trace> read = ReadTrace(path, options, warnings);
    error_number = errno;
    return read;
  });
  // A signal interrupts the reading of a terminal or a pipe.
  if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  if (trace.status().code() == StatusCode::kNotFound) {
    errno = error_number != 0 ? error_number : ENOENT;
    PyErr_SetFromErrnoWithFilenameObject(PyExc_OSError, path_object.ptr());
    throw py::error_already_set();
  }
  std::vector<std::string> lines = Lines(warnings.str());
  if (trace.status().code() == StatusCode::kInvalidArgument) {
    std::string message = trace.status().message();
    if (!lines.empty()) message += "; " + lines.front();
    PyErr_SetObject(PyExc_ValueError, Text(message).ptr());
    throw py::error_already_set();
  }
  return {std::make_shared<const Trace>(Take(std::move(trace))), std::move(lines)};
}

PyTrace Generate(py::handle generator, py::handle requests, py::handle seed) {
  const std::string name(ToText(generator, "generator"));
  GeneratorOptions options;
  options.requests = ToUint64(requests, "requests");
  options.seed = ToUint64(seed, "seed");
  Result<Trace> trace = WithoutGil(true, [&] { return GenerateTrace(name, options); });
  return {std::make_shared<const Trace>(Take(std::move(trace))), {}};
}

std::unique_ptr<PyWorkload> Create(const PyTrace& trace, py::handle block_size,
                                   py::handle spread_ticks, py::handle session_window_s,
                                   py::handle speed, py::handle seed) {
  WorkloadOptions options;
  options.block_size = ToInteger<uint32_t>(block_size, "block_size");
  options.arrivals.spread_ticks = ToBool(spread_ticks, "spread_ticks");
  if (!session_window_s.is_none()) {
    options.arrivals.session_window_s = ToDouble(session_window_s, "session_window_s");
  }
  options.arrivals.speed = ToDouble(speed, "speed");
  options.arrivals.seed = ToUint64(seed, "seed");
  auto workload = WithoutGil(true, [&] { return Workload::Create(*trace.trace, options); });
  return MakeContent<PyWorkload>(Take(std::move(workload)));
}

void BindTrace(py::module_& module) {
  py::class_<PyTraceLines> lines(module, "_TraceLines", py::is_final());
  ForbidNew(lines);
  lines.def("__iter__", [](py::object self) { return self; });
  lines.def("__next__", [](PyTraceLines& self) {
    if (self.next == self.trace->requests.size()) throw py::stop_iteration();
    return TraceLine(self.trace->requests[self.next++]);
  });

  py::class_<PyTrace> cls(module, "Trace", py::is_final(), kTraceDoc);
  ForbidNew(cls);
  cls.def_property_readonly(
      "name", [](const PyTrace& self) { return Text(self.trace->name); },
      "str: of the file or the generator.");
  cls.def_property_readonly(
      "block_tokens", [](const PyTrace& self) { return self.trace->block_tokens; },
      "int: tokens that a hash id stands for.");
  cls.def_property_readonly(
      "skipped_lines", [](const PyTrace& self) { return self.trace->skipped_lines; },
      "int: malformed lines.");
  cls.def_property_readonly(
      "cut_lines", [](const PyTrace& self) { return self.trace->cut_lines; },
      "int: lines whose length and number of ids do not agree; the shorter of the two counts.");
  cls.def_property_readonly(
      "warnings",
      [](const PyTrace& self) {
        py::tuple texts(self.warnings.size());
        for (size_t i = 0; i < self.warnings.size(); ++i) {
          texts[i] = Text(self.warnings[i]);
        }
        return texts;
      },
      "tuple[str, ...]: what was skipped and why, with line numbers; the first 20.");
  cls.def(
      "__len__", [](const PyTrace& self) { return self.trace->requests.size(); },
      "__len__(self)\n--\n\nRequests.");
  cls.def(
      "__iter__",
      [](const PyTrace& self) {
        return PyTraceLines{self.trace, 0};
      },
      "__iter__(self)\n--\n\nEach request as a line of JSON.");
  cls.def("__repr__", [](py::handle self) {
    return "<Trace " + py::repr(self.attr("name")).cast<std::string>() + ": " +
           std::to_string(py::len(self)) + " requests>";
  });
}

template <typename Value>
void BindValue(py::class_<PyWorkload>& cls, const char* name, Value (Workload::*value)() const,
               const char* doc) {
  cls.def_property_readonly(
      name, [value](const PyWorkload& self) { return (*self.workload.*value)(); }, doc);
}

void BindWorkloadClass(py::module_& module) {
  py::class_<PyWorkload> cls(module, "Workload", py::is_final(), kWorkloadDoc);
  cls.def(py::init(&Create), py::arg("trace"), py::kw_only(), py::arg("block_size") = 0,
          py::arg("spread_ticks") = true, py::arg("session_window_s") = py::none(),
          py::arg("speed") = 1.0, py::arg("seed") = 1, kWorkloadInitDoc);
  cls.def_property_readonly(
      "name", [](const PyWorkload& self) { return Text(self.workload->name()); },
      "str: of the trace.");
  BindValue(cls, "block_size", &Workload::block_size, "int: tokens a block.");
  BindValue(cls, "prompt_tokens", &Workload::prompt_tokens, "int: of all requests.");
  BindValue(cls, "output_tokens", &Workload::output_tokens, "int: of all requests.");
  BindValue(cls, "best_possible_share", &Workload::best_possible_share,
            "float: share of the prompt tokens that one cache without limit would find; the most\n"
            "that any routing could.");
  cls.def_property_readonly(
      "sessions", [](const PyWorkload& self) { return self.workload->sessions().size(); },
      "int: sessions.");
  cls.def_property_readonly(
      "span_s", [](const PyWorkload& self) { return self.workload->arrivals().span_s; },
      "float: seconds from the first to the last arrival.");
  cls.def_property_readonly(
      "tick_s", [](const PyWorkload& self) { return self.workload->arrivals().tick_s; },
      "float: the tick that arrivals were spread in, in seconds; 0: none.");
  cls.def_property_readonly(
      "session_window_s",
      [](const PyWorkload& self) { return self.workload->arrivals().session_window_s; },
      "float: the window that sessions were started in, in seconds; 0: none.");
  cls.def(
      "__len__", [](const PyWorkload& self) { return self.workload->requests().size(); },
      "__len__(self)\n--\n\nRequests.");
  cls.def("__repr__", [](py::handle self) {
    return "<Workload " + py::repr(self.attr("name")).cast<std::string>() + ": " +
           std::to_string(py::len(self)) + " requests over " +
           std::to_string(self.attr("span_s").cast<double>()) + " s>";
  });
}

}  // namespace

void BindWorkload(py::module_& module) {
  BindTrace(module);
  BindWorkloadClass(module);
  module.def("read_trace", &ReadTraceFile, py::arg("path"), py::kw_only(),
             py::arg("block_tokens") = 512, py::arg("strict") = false, py::arg("limit") = 0,
             kReadDoc);
  module.def("generate_trace", &Generate, py::arg("generator"), py::kw_only(),
             py::arg("requests") = 8000, py::arg("seed") = 1, kGenerateDoc);
  module.def(
      "generators",
      [] {
        py::dict names;
        for (const GeneratorInfo& info : Generators()) names[info.name.c_str()] = info.what;
        return names;
      },
      "generators()\n--\n\n"
      "What ``generate_trace`` can make.\n"
      "\n"
      "Returns:\n"
      "    dict[str, str]: Names, each with one sentence about it.\n");
}

}  // namespace prefixrouter::python
