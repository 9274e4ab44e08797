#include "decision.h"

#include <cstdio>
#include <string>

namespace prefixrouter::python {
namespace {

struct PyDecision {
  Decision decision;
  py::object instance;
  py::object runner_up;  // None when there is none
};

struct PyScoreRow {
  ScoreRow row;
  py::object instance;
};

struct PyScoreTable {
  uint64_t prompt_tokens;
  double miss_weight;
  py::tuple rows;
};

std::string Text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.6g", value);
  return text;
}

std::string Text(const CostParts& cost) {
  return "CostParts(pending=" + Text(cost.pending) + ", uncached=" + Text(cost.uncached) +
         ", requests=" + Text(cost.requests) + ", pressure=" + Text(cost.pressure) +
         ", total=" + Text(cost.total) + ")";
}

std::string Text(py::handle object) { return py::repr(object).cast<std::string>(); }

std::string Describe(const PyDecision& self) {
  const Decision& decision = self.decision;
  std::string text = Text(self.instance) + " by " + RuleName(decision.rule) + " of " +
                     std::to_string(decision.candidates) + ": " +
                     std::to_string(decision.cached_tokens) + " of " +
                     std::to_string(decision.prompt_tokens) + " tokens cached";
  if (decision.best_cached_tokens > decision.cached_tokens) {
    text += " (at best " + std::to_string(decision.best_cached_tokens) + ")";
  }
  text += ", first token predicted in " + Text(decision.predicted_ttft_s) + " s, cost " +
          Text(decision.cost.total);
  if (!self.runner_up.is_none()) {
    text += "; runner-up " + Text(self.runner_up) + ", cost " + Text(decision.runner_up_cost);
  }
  return text;
}

constexpr const char* kDecisionDoc =
    "The chosen instance, and why it was chosen. Read-only.\n"
    "\n"
    "``str(decision)`` says it in one line.\n";

constexpr const char* kCostDoc =
    "What the cost of an instance is made of. Read-only.\n"
    "\n"
    "In seconds for the policy ``prefix_cost``. Other policies set only ``total``, in their own\n"
    "unit.\n";

constexpr const char* kTableDoc =
    "What ``PrefixRouter.score`` found: one row for each live instance. Read-only.\n";

constexpr const char* kRowDoc = "One instance in a ``ScoreTable``. Read-only.\n";

template <typename Class, typename Field>
void Bind(py::class_<Class>& cls, const char* name, Field Decision::*field, const char* doc) {
  cls.def_property_readonly(
      name, [field](const Class& self) { return self.decision.*field; }, doc);
}

template <typename Class, typename Field>
void Bind(py::class_<Class>& cls, const char* name, Field ScoreRow::*field, const char* doc) {
  cls.def_property_readonly(
      name, [field](const Class& self) { return self.row.*field; }, doc);
}

void BindCostParts(py::module_& module) {
  py::class_<CostParts> cls(module, "CostParts", py::is_final(), kCostDoc);
  ForbidNew(cls);
  cls.def_readonly("pending", &CostParts::pending, "Prefill work that is ahead of the request.")
      .def_readonly(
          "uncached", &CostParts::uncached,
          "The prompt's uncached tokens, times the miss weight. At the prompt's home\n"
          "(``PolicyInput.home``) less what that is worth; below 0 when it is worth more.")
      .def_readonly("requests", &CostParts::requests, "Requests in flight.")
      .def_readonly("pressure", &CostParts::pressure, "KV memory that is nearly full.")
      .def_readonly("total", &CostParts::total,
                    "The cost itself; infinite for an instance that may not be chosen.")
      .def("__repr__", [](const CostParts& self) { return Text(self); });
}

void BindDecisionClass(py::module_& module) {
  py::class_<PyDecision> cls(module, "Decision", py::is_final(), kDecisionDoc);
  ForbidNew(cls);
  cls.def_property_readonly(
      "instance", [](const PyDecision& self) { return self.instance; },
      "Instance: the chosen one.");
  cls.def_property_readonly(
      "name", [](const PyDecision& self) { return self.instance.cast<const Instance&>().name; },
      "str: name of the chosen instance.");
  cls.def_property_readonly(
      "rank", [](const PyDecision& self) { return self.instance.cast<const Instance&>().rank; },
      "int: data-parallel rank of the chosen instance.");
  cls.def_property_readonly(
      "rule", [](const PyDecision& self) { return RuleName(self.decision.rule); },
      "str: the rule that made the choice.\n\n"
      "``lowest_cost``, ``near_tie`` (costs differed too little to matter: the least busy, then\n"
      "chance), ``only_candidate``, or ``session`` (it holds the session key).");
  Bind(cls, "prompt_tokens", &Decision::prompt_tokens,
       "int: length of the prompt in tokens; estimated for text.");
  Bind(cls, "cached_tokens", &Decision::cached_tokens,
       "int: tokens of the prompt that the chosen instance holds.");
  cls.def_property_readonly(
      "uncached_tokens", [](const PyDecision& self) { return self.decision.uncached_tokens(); },
      "int: tokens of the prompt that it does not hold.");
  Bind(cls, "best_cached_tokens", &Decision::best_cached_tokens,
       "int: the most tokens that any candidate holds.");
  Bind(cls, "cached_credit_tokens", &Decision::cached_credit_tokens,
       "int: ``cached_tokens``, those that KV events place below the GPU at their weight\n"
       "(``cpu_tier_weight`` and so on): how many tokens of prefill are saved.");
  Bind(cls, "home_tokens", &Decision::home_tokens,
       "float: what it is worth, in tokens, that other routers look for this prompt on the chosen\n"
       "instance (``PolicyInput.home_tokens``); ``prefix_cost`` has taken it off the uncached "
       "ones.\n"
       "0: it is not the prompt's home, or there is only one router.");
  Bind(cls, "predicted_ttft_s", &Decision::predicted_ttft_s,
       "float: predicted time to first token, in seconds.");
  Bind(cls, "cost", &Decision::cost, "CostParts: cost of the chosen instance.");
  Bind(cls, "miss_weight", &Decision::miss_weight,
       "float: weight of an uncached token against a queued one.");
  cls.def_property_readonly(
      "runner_up", [](const PyDecision& self) { return self.runner_up; },
      "Instance or None: the lowest cost among the others.");
  Bind(cls, "runner_up_cost", &Decision::runner_up_cost,
       "float: cost of the runner-up; 0 when there is none.");
  Bind(cls, "candidates", &Decision::candidates, "int: instances that were ready and allowed.");
  Bind(cls, "stale_report", &Decision::stale_report,
       "bool: the chosen instance's engine report was too old to be used.");
  cls.def("__repr__", [](const PyDecision& self) { return "<Decision: " + Describe(self) + ">"; });
  cls.def("__str__", [](const PyDecision& self) { return Describe(self); });
}

void BindScoreRow(py::module_& module) {
  py::class_<PyScoreRow> cls(module, "ScoreRow", py::is_final(), kRowDoc);
  ForbidNew(cls);
  cls.def_property_readonly(
      "instance", [](const PyScoreRow& self) { return self.instance; },
      "Instance: whose row it is.");
  cls.def_property_readonly(
      "name", [](const PyScoreRow& self) { return self.instance.cast<const Instance&>().name; },
      "str: its name.");
  cls.def_property_readonly(
      "rank", [](const PyScoreRow& self) { return self.instance.cast<const Instance&>().rank; },
      "int: its data-parallel rank.");
  Bind(cls, "eligible", &ScoreRow::eligible, "bool: ready, allowed and below ``max_ttft_s``.");
  Bind(cls, "stale_report", &ScoreRow::stale_report,
       "bool: its engine report is too old to be used.");
  Bind(cls, "cached_tokens", &ScoreRow::cached_tokens, "int: tokens of the prompt that it holds.");
  Bind(cls, "cached_credit_tokens", &ScoreRow::cached_credit_tokens,
       "int: the same by the weights of the tiers that they lie in.");
  Bind(
      cls, "home_tokens", &ScoreRow::home_tokens,
      "float: what it is worth, in tokens, that other routers look for this prompt there; 0 where\n"
      "they do not.");
  Bind(cls, "predicted_ttft_s", &ScoreRow::predicted_ttft_s,
       "float: predicted time to first token, in seconds.");
  Bind(cls, "cost", &ScoreRow::cost, "CostParts: its cost.");
  Bind(cls, "requests_in_flight", &ScoreRow::requests_in_flight, "int: leases on it.");
  Bind(cls, "pending_tokens", &ScoreRow::pending_tokens,
       "float: prompt tokens that it has not prefilled yet.");
  cls.def("__repr__", [](const PyScoreRow& self) {
    return "<ScoreRow " + Text(self.instance) + ": " + (self.row.eligible ? "" : "not eligible, ") +
           std::to_string(self.row.cached_tokens) + " tokens cached, first token predicted in " +
           Text(self.row.predicted_ttft_s) + " s, cost " + Text(self.row.cost.total) + ">";
  });
}

}  // namespace

void BindDecision(py::module_& module) {
  BindCostParts(module);
  BindDecisionClass(module);
  BindScoreRow(module);
  py::class_<PyScoreTable> cls(module, "ScoreTable", py::is_final(), kTableDoc);
  ForbidNew(cls);
  cls.def_readonly("prompt_tokens", &PyScoreTable::prompt_tokens,
                   "int: length of the prompt in tokens; estimated for text.")
      .def_readonly("miss_weight", &PyScoreTable::miss_weight,
                    "float: weight of an uncached token against a queued one.")
      .def_property_readonly(
          "rows", [](const PyScoreTable& self) { return self.rows; },
          "tuple[ScoreRow, ...]: the live instances, in a fixed order.")
      .def("__repr__", [](const PyScoreTable& self) {
        return "<ScoreTable of " + std::to_string(self.prompt_tokens) + " tokens, " +
               std::to_string(self.rows.size()) + " rows>";
      });
}

py::object MakeDecision(const Decision& decision, const InstanceDirectory& instances) {
  PyDecision made{decision, py::reinterpret_borrow<py::object>(instances.Find(decision.instance)),
                  py::none()};
  if (decision.runner_up.valid()) {
    made.runner_up = py::reinterpret_borrow<py::object>(instances.Find(decision.runner_up));
  }
  return py::cast(std::move(made));
}

py::object MakeScoreTable(const ScoreTable& table, const InstanceDirectory& instances) {
  PyScoreTable made{table.prompt_tokens, table.miss_weight, py::tuple(table.rows.size())};
  for (size_t i = 0; i < table.rows.size(); ++i) {
    const ScoreRow& row = table.rows[i];
    made.rows[i] =
        py::cast(PyScoreRow{row, py::reinterpret_borrow<py::object>(instances.Find(row.instance))});
  }
  return py::cast(std::move(made));
}

}  // namespace prefixrouter::python
