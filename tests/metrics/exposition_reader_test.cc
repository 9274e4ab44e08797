// ExpositionReader: what is a sample, what is not, and that nothing breaks it.
#include "lib/metrics/exposition_reader.h"

#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace prefixrouter {
namespace {

std::vector<ExpositionSample> ReadAll(ExpositionReader& reader) {
  std::vector<ExpositionSample> samples;
  while (reader.Next()) samples.push_back(reader.sample());
  return samples;
}

// The one sample of a page of one line. Labels with escapes point into the reader.
ExpositionSample ReadOne(ExpositionReader& reader) {
  const bool found = reader.Next();
  INFO(reader.first_malformed_reason());
  REQUIRE(found);
  return reader.sample();
}

std::string WhatIsWrong(const std::string& line) {
  const std::string page = "before 1\n" + line + "\nbehind 2\n";
  ExpositionReader reader(page);
  const std::vector<ExpositionSample> samples = ReadAll(reader);
  CHECK(samples.size() == 2);  // its neighbours are not lost
  CHECK(reader.malformed_lines() == 1);
  CHECK(reader.first_malformed_line() == 2);
  return reader.first_malformed_reason();
}

}  // namespace

TEST_CASE("exposition reader: names, labels and values as the format has them") {
  const std::string page =
      "# HELP plain A help text with \\n and \"quotes\".\n"
      "# TYPE plain gauge\n"
      "plain 1\n"
      "\n"
      "with:colon_1 2.5e3\n"
      "  blanks\t{ a = \"1\" , b=\"2\" , }   -3.5\t\n"
      "no_labels{} +4\n"
      "#not a comment by the letter, but no sample either\n"
      "tight{a=\"b\"}5\n"
      "windows 6\r\n";
  ExpositionReader reader(page);
  const std::vector<ExpositionSample> samples = ReadAll(reader);
  CHECK(reader.malformed_lines() == 0);
  REQUIRE(samples.size() == 6);
  CHECK(samples[0].name == "plain");
  CHECK(samples[0].value == 1);
  CHECK(samples[0].labels.empty());
  CHECK(samples[1].name == "with:colon_1");
  CHECK(samples[1].value == 2500);
  CHECK(samples[2].name == "blanks");
  CHECK(samples[2].value == -3.5);
  REQUIRE(samples[2].labels.size() == 2);
  CHECK(samples[2].Label("a") == "1");
  CHECK(samples[2].Label("b") == "2");
  CHECK(samples[2].Label("c") == "");
  CHECK(samples[3].value == 4);
  CHECK(samples[4].Label("a") == "b");
  CHECK(samples[4].value == 5);
  CHECK(samples[5].value == 6);
}

TEST_CASE("exposition reader: NaN, infinities, timestamps, exemplars and the end mark") {
  const std::string page =
      "a NaN\n"
      "b +Inf\n"
      "c -Inf 1780000000000\n"
      "d 1 1780000000.123\n"
      "e 2 # {trace_id=\"x\"} 0.5\n"
      "f{x=\"#\"} 3 1780000000.123 # {trace_id=\"x\"} 0.5 1780000000.0\n"
      "# EOF\n"
      "g 4 -1\n";
  ExpositionReader reader(page);
  const std::vector<ExpositionSample> samples = ReadAll(reader);
  CHECK(reader.malformed_lines() == 0);
  REQUIRE(samples.size() == 7);
  CHECK(std::isnan(samples[0].value));
  CHECK(samples[1].value == INFINITY);
  CHECK(samples[2].value == -INFINITY);
  CHECK(samples[3].value == 1);
  CHECK(samples[4].value == 2);
  CHECK(samples[5].value == 3);
  CHECK(samples[6].value == 4);
}

TEST_CASE("exposition reader: escapes in label values") {
  const std::string page = R"(m{a="\"\\\n",b="plain",c="\t\x",d="} 9 # ,=",e="ü日",f=""} 1)"
                           "\n";
  ExpositionReader reader(page);
  const ExpositionSample sample = ReadOne(reader);
  CHECK(sample.Label("a") == "\"\\\n");
  CHECK(sample.Label("b") == "plain");
  CHECK(sample.Label("c") == "\\t\\x");
  CHECK(sample.Label("d") == "} 9 # ,=");
  CHECK(sample.Label("e") == "ü日");
  CHECK(sample.labels.size() == 6);
  CHECK(sample.value == 1);
}

TEST_CASE("exposition reader: names in quotes") {
  const std::string page =
      "{\"my.metric\"} 1\n"
      "{\"my.metric\",\"my.label\"=\"v\",plain=\"w\"} 2\n";
  ExpositionReader reader(page);
  CHECK(ReadOne(reader).name == "my.metric");
  const ExpositionSample sample = ReadOne(reader);
  CHECK(sample.name == "my.metric");
  CHECK(sample.Label("my.label") == "v");
  CHECK(sample.Label("plain") == "w");
  CHECK(sample.value == 2);
}

TEST_CASE("exposition reader: a malformed line is skipped and described, its neighbours count") {
  CHECK(WhatIsWrong("1 2") == "the line does not begin with a metric name");
  CHECK(WhatIsWrong("= 2") == "the line does not begin with a metric name");
  CHECK(WhatIsWrong("{} 2") == "the line does not begin with a metric name");
  CHECK(WhatIsWrong("m-n 2") == "the metric name has a character that it may not have");
  CHECK(WhatIsWrong("m") == "the metric name has a character that it may not have");
  CHECK(WhatIsWrong("m{") == "the labels do not end");
  CHECK(WhatIsWrong("m{a=\"1\"") == "the labels do not end");
  CHECK(WhatIsWrong("m{a=\"1\" b=\"2\"} 1") == "there is no comma between two labels");
  CHECK(WhatIsWrong("m{a} 1") == "a label has no value");
  CHECK(WhatIsWrong("m{\"a\"} 1") == "a label has no value");  // a second name
  CHECK(WhatIsWrong("m{=\"1\"} 1") == "a label has no name");
  CHECK(WhatIsWrong("m{,} 1") == "a label has no name");
  CHECK(WhatIsWrong("m{a:b=\"1\"} 1") == "a label has no value");
  CHECK(WhatIsWrong("m{a=1} 1") == "a label value has no quotes");
  CHECK(WhatIsWrong("m{a=\"1} 1") == "a label value has no closing quote");
  CHECK(WhatIsWrong("m{a=\"1\\\"} 1") == "a label value has no closing quote");
  CHECK(WhatIsWrong("m{a=\"1\",a=\"1\"} 1") == "a label is there twice");
  for (const char* value : {"x", "1,5", "++1", "+-1", "--1", "1_000", "1e", "1e999", "."}) {
    INFO(value);
    CHECK(WhatIsWrong(std::string("m ") + value) == "the value is not a number");
  }
  CHECK(WhatIsWrong("m ") == "the value is not a number");
  CHECK(WhatIsWrong("m{a=\"1\"}") == "the value is not a number");
  CHECK(WhatIsWrong("m 1 yesterday") == "the timestamp is not a number");
  CHECK(WhatIsWrong("m 1 2 3") == "there is something behind the value and its timestamp");
}

TEST_CASE(
    "exposition reader: a page that was cut off inside a number does not give a smaller one") {
  const std::string page = "a 1\nb 123";
  ExpositionReader reader(page);
  CHECK(ReadAll(reader).size() == 1);
  CHECK(reader.malformed_lines() == 1);
  CHECK(reader.first_malformed_line() == 2);

  const std::string comment = "a 1\n# EOF";
  ExpositionReader without_samples_at_the_end(comment);
  CHECK(ReadAll(without_samples_at_the_end).size() == 1);
  CHECK(without_samples_at_the_end.malformed_lines() == 0);
}

TEST_CASE("exposition reader: limits on the length of a line and the number of labels") {
  ExpositionLimits limits;
  limits.max_line_bytes = 100;
  limits.max_labels = 3;
  const std::string page = "m{a=\"" + std::string(200, 'x') +
                           "\"} 1\n"
                           "m{a=\"1\",b=\"2\",c=\"3\",d=\"4\"} 2\n"
                           "m{a=\"1\",b=\"2\",c=\"3\"} 3\n";
  ExpositionReader reader(page, limits);
  const std::vector<ExpositionSample> samples = ReadAll(reader);
  REQUIRE(samples.size() == 1);
  CHECK(samples[0].value == 3);
  CHECK(reader.malformed_lines() == 2);
  CHECK(reader.first_malformed_reason() == std::string("the line is longer than max_line_bytes"));
}

TEST_CASE("exposition reader: whatever the bytes, every line is a sample, malformed, or nothing") {
  const std::string alphabet = "am{}=\"\\,#  01.e+-Nf\t\r\n\n";
  std::mt19937_64 random(17);
  for (int round = 0; round < 20000; ++round) {
    std::string page;
    for (size_t length = random() % 80; length > 0; --length) {
      page +=
          random() % 50 == 0 ? static_cast<char>(random()) : alphabet[random() % alphabet.size()];
    }
    ExpositionReader reader(page);
    size_t samples = 0;
    while (reader.Next()) {
      ++samples;
      REQUIRE(!reader.sample().name.empty());
      for (const ExpositionLabel& label : reader.sample().labels) REQUIRE(!label.name.empty());
    }
    size_t lines = 0;  // that are neither blank nor a comment
    size_t begin = 0;
    while (begin < page.size()) {
      const size_t end = std::min(page.find('\n', begin), page.size());
      std::string line = page.substr(begin, end - begin);
      if (!line.empty() && line.back() == '\r') line.pop_back();
      const size_t text = line.find_first_not_of(" \t");
      if (text != std::string::npos && line[text] != '#') ++lines;
      begin = end + 1;
    }
    INFO(page);
    REQUIRE(samples + reader.malformed_lines() == lines);
  }
}

}  // namespace prefixrouter
