// docs/metrics.md: its table of engines' metrics is the one that the code has, and every metric of
// the router is in it.
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "lib/metrics/engine_names.h"
#include "prefixrouter/router_metrics.h"
#include "tests/catch.h"

namespace prefixrouter {
namespace {

std::string Doc() {
  std::ifstream file(std::string(PREFIX_ROUTER_TEST_DIR) + "/../docs/metrics.md");
  REQUIRE(file.is_open());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string EngineInDoc(Engine engine) {
  switch (engine) {
    case Engine::kVllm:
      return "vLLM";
    case Engine::kSglang:
      return "SGLang";
    case Engine::kTensorRtLlm:
      return "TensorRT-LLM";
    case Engine::kTriton:
      return "Triton";
  }
  return "";
}

std::string FieldInDoc(EngineField field) {
  switch (field) {
    case EngineField::kRunning:
      return "running";
    case EngineField::kWaiting:
      return "waiting";
    case EngineField::kKvUsage:
      return "KV use";
    case EngineField::kBlockSize:
      return "block size";
    case EngineField::kCapacityTokens:
      return "capacity in tokens";
    case EngineField::kCapacityBlocks:
      return "capacity in blocks";
    case EngineField::kPromptTokens:
      return "prompt tokens";
    case EngineField::kCachedTokens:
      return "cached tokens";
    case EngineField::kExternalCachedTokens:
      return "external cached tokens";
  }
  return "";
}

// The row of the table that describes `known`.
std::string Row(const KnownMetric& known) {
  std::string name(known.name);
  if (known.engine == Engine::kVllm || known.engine == Engine::kSglang) {
    name[name.find('_')] = ':';
  }
  if (IsCounter(known.field)) name += "_total";
  std::string row =
      "| " + EngineInDoc(known.engine) + " | " + FieldInDoc(known.field) + " | `" + name + "`";
  if (!known.value_label.empty()) {
    row += ", value of label `" + std::string(known.value_label) + "`";
  }
  if (!known.where_label.empty()) {
    row += ", where `" + std::string(known.where_label) + "` is `" +
           std::string(known.where_value) + "`";
  }
  return row + " |";
}

// Stretches of lower-case letters and '_'.
std::vector<std::string> Words(const std::string& text) {
  std::vector<std::string> words(1);
  for (char c : text) {
    if (c == '_' || (c >= 'a' && c <= 'z')) {
      words.back() += c;
    } else if (!words.back().empty()) {
      words.emplace_back();
    }
  }
  return words;
}

}  // namespace

TEST_CASE("docs/metrics.md has the engines' metrics that the code knows, and in its order") {
  std::istringstream lines(Doc());
  std::string line;
  while (std::getline(lines, line) && line != "| engine | figure | metric |") {
  }
  REQUIRE(std::getline(lines, line));  // the rule below the head
  uint8_t last_age = 0;
  for (const KnownMetric& known : KnownMetrics()) {
    REQUIRE(std::getline(lines, line));
    CHECK(line == Row(known));
    CHECK((known.age == 0 || known.age == last_age + 1));  // the upper of two names counts
    last_age = known.age;
  }
  REQUIRE(std::getline(lines, line));
  CHECK(line.empty());
}

TEST_CASE("docs/metrics.md has every metric of the router, and no other") {
  RouterStats stats;
  stats.instances.resize(1);
  const Result<std::string> page = RenderMetrics(stats);
  REQUIRE(page.ok());
  const std::string prefix = "prefix_router_";
  std::set<std::string> names;
  std::istringstream lines(*page);
  std::string line;
  while (std::getline(lines, line)) {
    if (line.compare(0, 7, "# TYPE ") == 0) names.insert(line.substr(7, line.find(' ', 7) - 7));
  }
  REQUIRE(names.size() > 30);

  // In the table they stand without the prefix; in the queries with it.
  std::set<std::string> in_table;
  std::istringstream doc(Doc());
  while (std::getline(doc, line) && line != "| question | metric |") {
  }
  while (std::getline(doc, line) && line.substr(0, 1) == "|") {
    for (const std::string& word : Words(line)) in_table.insert(prefix + word);
  }
  for (const std::string& name : names) {
    INFO(name);
    CHECK(in_table.count(name) == 1);
  }
  while (std::getline(doc, line)) {
    for (std::string word : Words(line)) {
      const std::string bucket = "_bucket";
      if (word.find(bucket) != std::string::npos) word.resize(word.find(bucket));
      if (word.substr(0, prefix.size()) != prefix) continue;
      INFO(word);
      CHECK(names.count(word) == 1);
    }
  }
  // What else has the form of a name there is a value or a label.
  for (const char* other : {"lowest_cost", "near_tie", "only_candidate", "ttft_bound",
                            "no_instance", "instance_name"}) {
    in_table.erase(prefix + other);
  }
  for (const std::string& name : in_table) {
    INFO(name);
    CHECK((names.count(name) == 1 || name.find('_', prefix.size()) == std::string::npos));
  }
}

}  // namespace prefixrouter
