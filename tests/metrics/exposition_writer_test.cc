// ExpositionWriter: what it writes, ExpositionReader reads back; and it is valid UTF-8 whatever the
// label values are.
#include "lib/metrics/exposition_writer.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>

#include "lib/metrics/exposition_reader.h"
#include "tests/catch.h"

namespace prefixrouter {
namespace {

std::string Label(std::string_view value) {
  std::string labels;
  AppendLabel("a", value, &labels);
  return labels;
}

std::string Utf8(uint32_t code) {
  const auto byte = [](uint32_t bits) { return static_cast<char>(bits); };
  if (code < 0x80) return {byte(code)};
  if (code < 0x800) return {byte(0xC0 | code >> 6), byte(0x80 | (code & 63))};
  if (code < 0x10000) {
    return {byte(0xE0 | code >> 12), byte(0x80 | (code >> 6 & 63)), byte(0x80 | (code & 63))};
  }
  return {byte(0xF0 | code >> 18), byte(0x80 | (code >> 12 & 63)), byte(0x80 | (code >> 6 & 63)),
          byte(0x80 | (code & 63))};
}

}  // namespace

TEST_CASE("exposition writer: labels") {
  std::string labels = Label("b");
  AppendLabel("c", "", &labels);
  CHECK(labels == R"(a="b",c="")");
  CHECK(Label("quote \" backslash \\ line\nfeed") == R"(a="quote \" backslash \\ line\nfeed")");
  CHECK(Label("ü 日 😀") == "a=\"ü 日 😀\"");
}

TEST_CASE("exposition writer: bytes that are not UTF-8 are spelled out, one by one") {
  CHECK(Label("a\xff"
              "b") == R"(a="a\\xffb")");
  CHECK(Label("\x80") == R"(a="\\x80")");                             // a continuation alone
  CHECK(Label("\xc3") == R"(a="\\xc3")");                             // cut off
  CHECK(Label("\xe6\x97") == R"(a="\\xe6\\x97")");                    // cut off
  CHECK(Label("\xc0\xaf") == R"(a="\\xc0\\xaf")");                    // overlong
  CHECK(Label("\xe0\x80\xaf") == R"(a="\\xe0\\x80\\xaf")");           // overlong
  CHECK(Label("\xf0\x80\x80\xaf") == R"(a="\\xf0\\x80\\x80\\xaf")");  // overlong
  CHECK(Label("\xed\xa0\x80") == R"(a="\\xed\\xa0\\x80")");           // a surrogate
  CHECK(Label("\xf4\x90\x80\x80") == R"(a="\\xf4\\x90\\x80\\x80")");  // above U+10FFFF
}

TEST_CASE("exposition writer: every code point is written as it is, every other sequence is not") {
  for (uint32_t code = 0; code <= 0x10FFFF; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    if (code == '"' || code == '\\' || code == '\n') continue;
    const std::string text = Utf8(code);
    if (Label(text) != "a=\"" + text + "\"") FAIL("U+" << std::hex << code);
  }
}

TEST_CASE("exposition writer: numbers read back as they were") {
  CHECK(FormatValue(0) == "0");
  CHECK(FormatValue(0.000512) == "0.000512");
  CHECK(FormatValue(-1.5) == "-1.5");
  CHECK(FormatValue(NAN) == "NaN");
  CHECK(FormatValue(INFINITY) == "+Inf");
  CHECK(FormatValue(-INFINITY) == "-Inf");
  std::mt19937_64 random(3);
  for (int i = 0; i < 10000; ++i) {
    const uint64_t bits = random();
    double value;
    std::memcpy(&value, &bits, sizeof(value));
    ExpositionWriter writer;
    writer.Family("m", "gauge", "Help.");
    writer.Add("", "", value);
    writer.Add("_sum", "a=\"b\"", bits);
    const std::string page = writer.TakePage();
    ExpositionReader reader(page);
    REQUIRE(reader.Next());
    if (std::isnan(value)) {
      REQUIRE(std::isnan(reader.sample().value));
    } else {
      REQUIRE(reader.sample().value == value);
    }
    REQUIRE(reader.Next());
    REQUIRE(reader.sample().name == "m_sum");
    REQUIRE(reader.sample().value == static_cast<double>(bits));
    REQUIRE(!reader.Next());
    REQUIRE(reader.malformed_lines() == 0);
  }
}

TEST_CASE(
    "exposition writer: label values of any bytes read back, spelled out where they must be") {
  std::mt19937_64 random(4);
  for (int round = 0; round < 5000; ++round) {
    std::string value;
    std::string expected;  // of code points only
    for (size_t length = random() % 12; length > 0; --length) {
      const uint32_t code = random() % 3 == 0 ? static_cast<uint32_t>(random() % 0xD800)
                                              : static_cast<uint32_t>(random() % 128);
      value += Utf8(code);
    }
    expected = value;
    if (random() % 2 == 0) {
      value += "\xff";
      expected += "\\xff";
    }
    ExpositionWriter writer;
    writer.Family("m", "gauge", "Help.");
    writer.Add("", Label(value), 1);
    const std::string page = writer.TakePage();
    ExpositionReader reader(page);
    INFO(page);
    REQUIRE(reader.Next());
    REQUIRE(reader.sample().Label("a") == expected);
    REQUIRE(!reader.Next());
    REQUIRE(reader.malformed_lines() == 0);
  }
}

}  // namespace prefixrouter
