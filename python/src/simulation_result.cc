#include "simulation_result.h"

#include <pybind11/native_enum.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "column.h"
#include "instance.h"

namespace prefixrouter::python {
namespace {

struct PyRequests {
  std::shared_ptr<const std::vector<RequestResult>> requests;
};

struct PySeries {
  double step_s;
  std::shared_ptr<const std::vector<std::vector<InstanceSample>>> samples;
};

struct PyResult {
  SimulationSummary summary;
  PyRequests requests;
  PySeries series;
};

constexpr const char* kResultDoc = "What ``simulate`` found. Read-only.\n";

constexpr const char* kSummaryDoc =
    "The figures of one simulation. Read-only.\n"
    "\n"
    "Requests that count are those that arrive from ``measure_from_s`` on.\n";

constexpr const char* kRequestsDoc =
    "Every request of a simulation, by column, in the order of the workload. Read-only.\n"
    "\n"
    "The columns are memoryviews of shape ``(len(requests),)``; ``numpy.asarray`` takes them\n"
    "without a copy.\n";

constexpr const char* kSeriesDoc =
    "What each instance did over time. Read-only.\n"
    "\n"
    "The arrays are memoryviews of shape ``(instances, steps)``; a step is ``step_s`` long.\n";

constexpr const char* kLevelsDoc =
    "Arrival scales at which policies are compared, found with ``least_requests``. Read-only.\n";

void BindOutcome(py::module_& module) {
  py::native_enum<Outcome> outcomes(module, "Outcome", "enum.IntEnum",
                                    "How a simulated request ended.");
  outcomes.value("DONE", Outcome::kDone)
      .value("REJECTED", Outcome::kRejected)
      .value("TOO_LONG", Outcome::kTooLong)
      .finalize();
}

void BindSummary(py::module_& module) {
  using S = SimulationSummary;
  py::class_<S> cls(module, "SimulationSummary", py::is_final(), kSummaryDoc);
  ForbidNew(cls);
  cls.def_readonly("requests", &S::requests, "int: done, of those that count.")
      .def_readonly("rejected", &S::rejected, "int: refused by routers or engines.")
      .def_readonly("resent", &S::resent, "int: sends beyond the first.")
      .def_readonly("preemptions", &S::preemptions, "int: times that an engine ran out of memory.")
      .def_readonly("ttft_mean_s", &S::ttft_mean_s, "float: time to first token, in seconds.")
      .def_readonly("ttft_p50_s", &S::ttft_p50_s, "float: the same, median.")
      .def_readonly("ttft_p90_s", &S::ttft_p90_s, "float: the same, 90th percentile.")
      .def_readonly("ttft_p99_s", &S::ttft_p99_s, "float: the same, 99th percentile.")
      .def_readonly("e2e_mean_s", &S::e2e_mean_s, "float: time to the end, in seconds.")
      .def_readonly("e2e_p50_s", &S::e2e_p50_s, "float: the same, median.")
      .def_readonly("e2e_p90_s", &S::e2e_p90_s, "float: the same, 90th percentile.")
      .def_readonly("e2e_p99_s", &S::e2e_p99_s, "float: the same, 99th percentile.")
      .def_readonly("tpot_mean_s", &S::tpot_mean_s,
                    "float: time an output token after the first, in seconds.")
      .def_readonly("tpot_p50_s", &S::tpot_p50_s, "float: the same, median.")
      .def_readonly("tpot_p90_s", &S::tpot_p90_s, "float: the same, 90th percentile.")
      .def_readonly("tpot_p99_s", &S::tpot_p99_s, "float: the same, 99th percentile.")
      .def_readonly("cached_token_share", &S::cached_token_share,
                    "float: share of prompt tokens that the engines found cached.")
      .def_readonly("predicted_token_share", &S::predicted_token_share,
                    "float: the same by the routers' reckoning.")
      .def_readonly("best_possible_share", &S::best_possible_share,
                    "float: the same with one cache without limit, of the whole workload.")
      .def_readonly("max_over_mean_work", &S::max_over_mean_work,
                    "float: prefilled tokens an instance over its speed, most over mean.")
      .def_readonly("end_s", &S::end_s, "float: when the last request ended, in seconds.");
  cls.def("__repr__", [](const S& self) {
    char text[160];
    std::snprintf(text, sizeof text,
                  "<SimulationSummary: %llu requests, TTFT mean %.4g s, p99 %.4g s, cached share "
                  "%.3f>",
                  static_cast<unsigned long long>(self.requests), self.ttft_mean_s, self.ttft_p99_s,
                  self.cached_token_share);
    return std::string(text);
  });
}

template <typename Field>
void BindColumnOf(py::class_<PyRequests>& cls, const char* name, Field RequestResult::*field,
                  const char* doc) {
  cls.def_property_readonly(
      name, [field](const PyRequests& self) { return MakeFieldView(self.requests, field); }, doc);
}

void BindRequestColumns(py::module_& module) {
  py::class_<PyRequests> cls(module, "SimulatedRequests", py::is_final(), kRequestsDoc);
  ForbidNew(cls);
  using R = RequestResult;
  BindColumnOf(cls, "arrival_s", &R::arrival_s, "memoryview of float64: when it was sent.");
  BindColumnOf(cls, "first_token_s", &R::first_token_s,
               "memoryview of float64: when its first token came; negative: never.");
  BindColumnOf(cls, "end_s", &R::end_s,
               "memoryview of float64: when its last token came; negative: never.");
  BindColumnOf(cls, "prompt_tokens", &R::prompt_tokens, "memoryview of uint32: of the prompt.");
  BindColumnOf(cls, "output_tokens", &R::output_tokens, "memoryview of uint32: of the answer.");
  BindColumnOf(cls, "cached_tokens", &R::cached_tokens,
               "memoryview of uint32: found by the engine when it admitted the request.");
  BindColumnOf(cls, "predicted_tokens", &R::predicted_tokens,
               "memoryview of uint32: found cached by the router's reckoning.");
  BindColumnOf(cls, "instance", &R::instance,
               "memoryview of uint32: where it went; 2**32 - 1: nowhere.");
  BindColumnOf(cls, "router", &R::router, "memoryview of uint32: who sent it there.");
  BindColumnOf(cls, "sends", &R::sends,
               "memoryview of uint32: more than 1: an instance failed under it.");
  BindColumnOf(cls, "preemptions", &R::preemptions,
               "memoryview of uint32: times that its engine ran out of memory under it.");
  cls.def_property_readonly(
      "outcome",
      [](const PyRequests& self) {
        std::vector<int32_t> outcomes;
        outcomes.reserve(self.requests->size());
        for (const R& request : *self.requests) {
          outcomes.push_back(static_cast<int32_t>(request.outcome));
        }
        return MakeArrayView(std::move(outcomes));
      },
      "memoryview of int32: values of ``Outcome``.");
  cls.def(
      "__len__", [](const PyRequests& self) { return self.requests->size(); },
      "__len__(self)\n--\n\nRequests.");
  cls.def("__repr__", [](const PyRequests& self) {
    return "<SimulatedRequests: " + std::to_string(self.requests->size()) + ">";
  });
}

template <typename Field>
void BindArrayOf(py::class_<PySeries>& cls, const char* name, Field InstanceSample::*field,
                 const char* doc) {
  cls.def_property_readonly(
      name,
      [field](const PySeries& self) {
        std::vector<Field> values;
        for (const auto& samples : *self.samples) {
          for (const InstanceSample& sample : samples) values.push_back(sample.*field);
        }
        return MakeArrayView(std::move(values), static_cast<py::ssize_t>(self.samples->size()));
      },
      doc);
}

void BindSeries(py::module_& module) {
  py::class_<PySeries> cls(module, "InstanceSeries", py::is_final(), kSeriesDoc);
  ForbidNew(cls);
  using S = InstanceSample;
  cls.def_readonly("step_s", &PySeries::step_s, "float: length of a step, in seconds.");
  BindArrayOf(cls, "prefill_tokens", &S::prefill_tokens,
              "memoryview of uint64: prompt tokens computed in the step.");
  BindArrayOf(cls, "decode_tokens", &S::decode_tokens,
              "memoryview of uint64: output tokens made in the step.");
  BindArrayOf(cls, "busy_s", &S::busy_s,
              "memoryview of float64: seconds of engine steps that ended in the step.");
  BindArrayOf(cls, "running", &S::running, "memoryview of uint32: running requests at its end.");
  BindArrayOf(cls, "waiting", &S::waiting, "memoryview of uint32: waiting requests at its end.");
  BindArrayOf(cls, "kv_usage", &S::kv_usage,
              "memoryview of float32: share of KV memory that running requests hold at its end.");
  cls.def("__repr__", [](const PySeries& self) {
    const size_t steps = self.samples->empty() ? 0 : self.samples->front().size();
    return "<InstanceSeries: " + std::to_string(self.samples->size()) + " instances, " +
           std::to_string(steps) + " steps>";
  });
}

void BindResult(py::module_& module) {
  py::class_<PyResult> cls(module, "SimulationResult", py::is_final(), kResultDoc);
  ForbidNew(cls);
  cls.def_readonly("summary", &PyResult::summary, "SimulationSummary: the figures.");
  cls.def_readonly("requests", &PyResult::requests, "SimulatedRequests: every request.");
  cls.def_readonly("series", &PyResult::series, "InstanceSeries: every instance over time.");
  cls.def("__repr__", [](py::handle self) {
    return "<SimulationResult " + py::repr(self.attr("summary")).cast<std::string>() + ">";
  });
}

void BindLevels(py::module_& module) {
  py::class_<LoadLevels> cls(module, "LoadLevels", py::is_final(), kLevelsDoc);
  ForbidNew(cls);
  cls.def_readonly("capacity_scale", &LoadLevels::capacity_scale,
                   "float: requests come as fast as the fleet can serve them.")
      .def_readonly("half_scale", &LoadLevels::half_scale, "float: half of that.")
      .def_readonly("knee_scale", &LoadLevels::knee_scale,
                    "float: mean TTFT is twice that at ``half_scale``, within 5 %.")
      .def_readonly("past_scale", &LoadLevels::past_scale, "float: 1.25 times ``knee_scale``.")
      .def_readonly("half_ttft_s", &LoadLevels::half_ttft_s, "float: mean TTFT, in seconds.")
      .def_readonly("knee_ttft_s", &LoadLevels::knee_ttft_s, "float: mean TTFT, in seconds.");
  cls.def("__repr__", [](const LoadLevels& self) {
    char text[120];
    std::snprintf(text, sizeof text, "<LoadLevels: half %.4g, knee %.4g, past %.4g>",
                  self.half_scale, self.knee_scale, self.past_scale);
    return std::string(text);
  });
}

}  // namespace

void BindSimulationResult(py::module_& module) {
  BindColumn(module);
  BindOutcome(module);
  BindSummary(module);
  BindRequestColumns(module);
  BindSeries(module);
  BindResult(module);
  BindLevels(module);
}

py::object MakeSimulationResult(SimulationResult result) {
  PyResult made{
      result.summary,
      {std::make_shared<const std::vector<RequestResult>>(std::move(result.requests))},
      {result.series_step_s,
       std::make_shared<const std::vector<std::vector<InstanceSample>>>(std::move(result.series))}};
  return py::cast(std::move(made));
}

py::object MakeLoadLevels(const LoadLevels& levels) { return py::cast(levels); }

}  // namespace prefixrouter::python
