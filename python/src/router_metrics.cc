#include "router_metrics.h"

#include <memory>
#include <utility>
#include <vector>

#include "arguments.h"
#include "errors.h"
#include "gil.h"
#include "stats.h"

namespace prefixrouter::python {
namespace {

constexpr const char* kRenderDoc =
    "render_metrics(sources, *, per_instance=True)\n--\n\n"
    "The statistics of several routers as one page for Prometheus.\n"
    "\n"
    "Args:\n"
    "    sources (Iterable[tuple[Stats, dict[str, str]]]): The statistics of each router, and\n"
    "        labels, by name, that tell it from the others. Names are letters, digits and ``_``,\n"
    "        begin with no digit and not with ``__``, and are none of those that the router uses\n"
    "        itself (docs/metrics.md).\n"
    "    per_instance (bool): Series for each instance too: about 1.8 KB each.\n"
    "\n"
    "Returns:\n"
    "    str: The page, to be served as ``METRICS_CONTENT_TYPE``.\n"
    "\n"
    "Raises:\n"
    "    ValueError: A label that may not be, or two sources with the same labels.\n"
    "    TypeError: A wrong argument.\n";

MetricsSource ToSource(py::handle value, const std::string& name,
                       std::vector<std::shared_ptr<const RouterStats>>* all) {
  if (!PyTuple_Check(value.ptr()) || PyTuple_GET_SIZE(value.ptr()) != 2) {
    throw py::type_error(name + " must be a tuple of a Stats and a dict of labels, got " +
                         ShownWithType(value));
  }
  const py::handle stats = PyTuple_GET_ITEM(value.ptr(), 0);
  const py::handle labels = PyTuple_GET_ITEM(value.ptr(), 1);
  if (!PyDict_Check(labels.ptr())) {
    throw py::type_error(name + " labels must be a dict, got " + ShownWithType(labels));
  }
  all->push_back(ToStats(stats, name + " stats"));
  MetricsSource source;
  source.stats = all->back().get();
  for (const auto& [label, text] : py::reinterpret_borrow<py::dict>(labels)) {
    const std::string_view label_name = ToText(label, name + " label");
    source.labels.emplace_back(label_name,
                               ToText(text, name + " label " + std::string(label_name)));
  }
  return source;
}

py::str Render(py::handle sources, py::handle per_instance) {
  MetricsOptions options;
  options.per_instance = ToBool(per_instance, "per_instance");
  if (PyUnicode_Check(sources.ptr()) || !py::isinstance<py::iterable>(sources)) {
    throw py::type_error("sources must be a list of (stats, labels), got " +
                         ShownWithType(sources));
  }
  std::vector<std::shared_ptr<const RouterStats>> all;
  std::vector<MetricsSource> read;
  for (py::handle source : py::iter(sources)) {
    read.push_back(ToSource(source, "sources[" + std::to_string(read.size()) + "]", &all));
  }
  return ToPage(WithoutGil(true, [&] { return RenderMetrics(read, options); }));
}

}  // namespace

void BindRouterMetrics(py::module_& module) {
  module.attr("METRICS_CONTENT_TYPE") = kMetricsContentType;
  module.def("render_metrics", &Render, py::arg("sources"), py::kw_only(),
             py::arg("per_instance") = true, kRenderDoc);
}

py::str ToPage(const Result<std::string>& page) {
  RaiseUnlessOk(page.status());
  return py::str(*page);
}

}  // namespace prefixrouter::python
