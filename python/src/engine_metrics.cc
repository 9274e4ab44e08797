#include "engine_metrics.h"

#include <string>
#include <string_view>
#include <utility>

#include "arguments.h"
#include "errors.h"
#include "gil.h"
#include "instance.h"

namespace prefixrouter::python {
namespace {

struct PyEngineMetrics {
  EngineMetrics metrics;
  py::tuple ranks;
};

constexpr const char* kMetricsDoc =
    "What an engine's /metrics page says. Read-only. None: the page does not say it.\n";

constexpr const char* kRankDoc =
    "What the page says of one data-parallel rank, in ``EngineMetrics.ranks``. Read-only. None:\n"
    "it does not say it.\n";

constexpr const char* kParseDoc =
    "parse_engine_metrics(page, *, model='', max_bytes=16777216, max_line_bytes=65536, "
    "max_ranks=1024)\n--\n\n"
    "Reads the /metrics page of vLLM, SGLang, TensorRT-LLM or Triton.\n"
    "\n"
    "docs/metrics.md lists the metrics that it knows. Others are passed over; lines that are\n"
    "malformed are skipped and counted.\n"
    "\n"
    "Args:\n"
    "    page (str | bytes): The page, in the text format of Prometheus or OpenMetrics.\n"
    "    model (str): Only series of this model count, by their label ``model_name`` or\n"
    "        ``model``; those without such a label do too. Empty: all.\n"
    "    max_bytes (int): A longer page is refused.\n"
    "    max_line_bytes (int): A longer line is skipped as malformed.\n"
    "    max_ranks (int): A page with more ranks is refused. 1 to 65,536.\n"
    "\n"
    "Returns:\n"
    "    EngineMetrics: What it says.\n"
    "\n"
    "Raises:\n"
    "    Error: NOT_FOUND when no load metric of a known engine is on the page.\n"
    "    ValueError: The page is too large or has too many ranks, or an argument is out of its\n"
    "        range.\n"
    "    TypeError: A wrong argument.\n";

template <typename Class, typename Figure>
void BindFigure(Class& cls, const char* name, Figure figure, const char* doc) {
  cls.def_property_readonly(
      name, [figure](const typename Class::type& self) { return NoneIfNegative(figure(self)); },
      doc);
}

// The bytes of a page, which nothing can change: they may be read without the GIL.
std::string_view ToPageText(py::handle value, const char* name, const char* wanted) {
  if (PyUnicode_Check(value.ptr())) return ToText(value, name);
  if (!PyBytes_Check(value.ptr())) {
    throw py::type_error(std::string(name) + " must be " + wanted + ", got " +
                         ShownWithType(value));
  }
  return {PyBytes_AS_STRING(value.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(value.ptr()))};
}

py::object Parse(std::string_view page, const EngineMetricsOptions& options) {
  // Below that it takes less time than leaving the GIL may.
  constexpr size_t kLongEnough = 8192;
  Result<EngineMetrics> metrics =
      WithoutGil(page.size() >= kLongEnough, [&] { return ParseEngineMetrics(page, options); });
  // It is no instance that is missing, so not a KeyError.
  const Status& status = metrics.status();
  if (status.code() == StatusCode::kNotFound) RaiseError(status.code(), status.message());
  PyEngineMetrics made{Take(std::move(metrics)), py::tuple()};
  made.ranks = py::tuple(made.metrics.ranks.size());
  for (size_t i = 0; i < made.ranks.size(); ++i) made.ranks[i] = py::cast(made.metrics.ranks[i]);
  return py::cast(std::move(made));
}

py::object ParsePage(py::handle page, py::handle model, py::handle max_bytes,
                     py::handle max_line_bytes, py::handle max_ranks) {
  EngineMetricsOptions options;
  options.model = ToText(model, "model");
  options.max_bytes = ToUint64(max_bytes, "max_bytes");
  options.max_line_bytes = ToUint64(max_line_bytes, "max_line_bytes");
  options.max_ranks = ToInteger<uint32_t>(max_ranks, "max_ranks");
  return Parse(ToPageText(page, "page", "a str or bytes"), options);
}

void BindRank(py::module_& module) {
  py::class_<EngineRankMetrics> cls(module, "EngineRankMetrics", py::is_final(), kRankDoc);
  ForbidNew(cls);
  using Rank = EngineRankMetrics;
  cls.def_readonly("rank", &Rank::rank, "int: the rank.");
  BindFigure(
      cls, "running_requests", [](const Rank& rank) { return rank.load.running_requests; },
      "int or None: requests in the engine's batch.");
  BindFigure(
      cls, "waiting_requests", [](const Rank& rank) { return rank.load.waiting_requests; },
      "int or None: requests in the engine's queue.");
  BindFigure(
      cls, "kv_usage", [](const Rank& rank) { return rank.load.kv_usage; },
      "float or None: share of KV blocks in use by running requests, 0 to 1.");
  BindFigure(
      cls, "block_size", [](const Rank& rank) { return rank.block_size; },
      "int or None: tokens a block.");
  BindFigure(
      cls, "capacity_tokens", [](const Rank& rank) { return rank.capacity_tokens; },
      "int or None: tokens that its KV cache has room for.");
  BindFigure(
      cls, "prompt_tokens", [](const Rank& rank) { return rank.prompt_tokens; },
      "int or None: prompt tokens since the engine started.");
  BindFigure(
      cls, "cached_tokens", [](const Rank& rank) { return rank.cached_tokens; },
      "int or None: of them, found in the prefix cache.");
  BindFigure(
      cls, "external_cached_tokens", [](const Rank& rank) { return rank.external_cached_tokens; },
      "int or None: of them, found in a cache beyond the engine's own.");
  cls.def(
      "capacity_blocks",
      [](const Rank& self, py::handle block_size) {
        return self.CapacityBlocks(ToInteger<uint32_t>(block_size, "block_size"));
      },
      py::arg("block_size"),
      "capacity_blocks(self, block_size)\n--\n\n"
      "For ``capacity_blocks`` of ``PrefixRouter.add_instance``.\n"
      "\n"
      "Args:\n"
      "    block_size (int): Tokens a block of the router.\n"
      "\n"
      "Returns:\n"
      "    int: How many such blocks fit in ``capacity_tokens``, at most 2**31 - 1. 0 when the\n"
      "    capacity is not known, or is less than one block.\n");
  cls.def("__repr__", [](const Rank& self) {
    const auto figure = [](auto value) { return Shown(NoneIfNegative(value)); };
    return "<EngineRankMetrics of rank " + std::to_string(self.rank) + ": " +
           figure(self.load.running_requests) + " running, " + figure(self.load.waiting_requests) +
           " waiting, KV usage " + figure(self.load.kv_usage) + ">";
  });
}

}  // namespace

void BindEngineMetrics(py::module_& module) {
  BindRank(module);
  py::class_<PyEngineMetrics> cls(module, "EngineMetrics", py::is_final(), kMetricsDoc);
  ForbidNew(cls);
  using Self = PyEngineMetrics;
  cls.def_property_readonly(
      "engine", [](const Self& self) { return EngineName(self.metrics.engine); },
      "str: ``vllm``, ``sglang``, ``tensorrt_llm`` or ``triton``.");
  cls.def_property_readonly(
      "ranks", [](const Self& self) { return self.ranks; },
      "tuple[EngineRankMetrics, ...]: ascending by rank, at least one. A page without rank\n"
      "labels is of rank 0.");
  BindFigure(
      cls, "prompt_tokens", [](const Self& self) { return self.metrics.prompt_tokens; },
      "int or None: prompt tokens since the engine started, of the whole page. More than the sum\n"
      "over the ranks where an engine counts tokens without saying for which rank (SGLang).");
  BindFigure(
      cls, "cached_tokens", [](const Self& self) { return self.metrics.cached_tokens; },
      "int or None: of them, found in the prefix cache.");
  BindFigure(
      cls, "external_cached_tokens",
      [](const Self& self) { return self.metrics.external_cached_tokens; },
      "int or None: of them, found in a cache beyond the engine's own.");
  cls.def_property_readonly(
      "samples", [](const Self& self) { return self.metrics.samples; },
      "int: well-formed samples on the page, known or not.");
  cls.def_property_readonly(
      "unusable_values", [](const Self& self) { return self.metrics.unusable_values; },
      "int: samples of known metrics that are NaN, negative, infinite, or a share above 1.");
  cls.def_property_readonly(
      "malformed_lines", [](const Self& self) { return self.metrics.malformed_lines; },
      "int: lines that were skipped.");
  cls.def_property_readonly(
      "first_malformed_line",
      [](const Self& self) -> py::object {
        if (self.metrics.malformed_lines == 0) return py::none();
        return py::int_(self.metrics.first_malformed_line);
      },
      "int or None: the first of them, from 1.");
  cls.def_property_readonly(
      "first_malformed_reason",
      [](const Self& self) -> py::object {
        if (self.metrics.malformed_lines == 0) return py::none();
        return py::str(self.metrics.first_malformed_reason);
      },
      "str or None: what is wrong with it.");
  cls.def("__repr__", [](const Self& self) {
    return std::string("<EngineMetrics of ") + EngineName(self.metrics.engine) + ": " +
           std::to_string(self.ranks.size()) + " ranks, " + std::to_string(self.metrics.samples) +
           " samples>";
  });

  const EngineMetricsOptions defaults;
  module.def("parse_engine_metrics", &ParsePage, py::arg("page"), py::kw_only(),
             py::arg("model") = "", py::arg("max_bytes") = defaults.max_bytes,
             py::arg("max_line_bytes") = defaults.max_line_bytes,
             py::arg("max_ranks") = defaults.max_ranks, kParseDoc);
}

py::object ToEngineMetrics(py::handle value) {
  if (py::isinstance<PyEngineMetrics>(value)) return py::reinterpret_borrow<py::object>(value);
  return Parse(ToPageText(value, "metrics", "an EngineMetrics, a str or bytes"), {});
}

const EngineMetrics& EngineMetricsOf(py::handle metrics) {
  return metrics.cast<const PyEngineMetrics&>().metrics;
}

}  // namespace prefixrouter::python
