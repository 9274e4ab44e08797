// How the C library reads and writes structs that have grown: a caller may be older than the
// library.
#include "capi/boundary.h"

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/catch.h"

namespace prefixrouter::capi {
namespace {

struct FirstOptions {
  size_t struct_size;
  uint64_t a;
};
struct GrownOptions {
  size_t struct_size;
  uint64_t a;
  uint64_t b;
  uint64_t c;
};

}  // namespace

template <>
inline constexpr size_t kFirstSize<GrownOptions> = sizeof(FirstOptions);

namespace {

TEST_CASE("What an older caller does not know of an options struct is taken as 0", "[capi]") {
  // In memory of just that size, so that the address sanitizer sees a read past its end.
  auto first = std::make_unique<FirstOptions>(FirstOptions{sizeof(FirstOptions), 7});
  Input<GrownOptions> input;
  REQUIRE(input.Read(reinterpret_cast<const GrownOptions*>(first.get()), "options") == 0);
  CHECK((*input).a == 7);
  CHECK((*input).b == 0);
  CHECK((*input).c == 0);
}

TEST_CASE("A caller between two versions gets the members that it knows", "[capi]") {
  GrownOptions grown = {offsetof(GrownOptions, c), 7, 8, 9};
  Input<GrownOptions> input;
  REQUIRE(input.Read(&grown, "options") == 0);
  CHECK((*input).b == 8);
  CHECK((*input).c == 0);
}

TEST_CASE("An options struct of the library's size is read where it lies", "[capi]") {
  GrownOptions grown = {sizeof(GrownOptions), 7, 8, 9};
  Input<GrownOptions> input;
  REQUIRE(input.Read(&grown, "options") == 0);
  CHECK(&*input == &grown);
}

TEST_CASE("A struct shorter than that of the first version is refused", "[capi]") {
  GrownOptions grown = {sizeof(FirstOptions) - 1, 7, 8, 9};
  Input<GrownOptions> input;
  CHECK(input.Read(&grown, "options") == static_cast<int32_t>(StatusCode::kInvalidArgument));
  CHECK(std::string(LastError()) ==
        "options: struct_size must be the size of the struct, which is 16 or more, got 15");
  CHECK(CheckOutput(&grown, "result") == static_cast<int32_t>(StatusCode::kInvalidArgument));
}

TEST_CASE("An older caller's result gets what it has room for, and nothing behind it", "[capi]") {
  struct {
    FirstOptions first;
    uint64_t behind;
  } memory = {{sizeof(FirstOptions), 0}, 77};
  // volatile: the compiler is not to know, as it would not know a caller's memory.
  GrownOptions* volatile out = reinterpret_cast<GrownOptions*>(&memory);
  REQUIRE(CheckOutput<GrownOptions>(out, "result") == 0);
  WriteOutput<GrownOptions>(out, out->struct_size, [](GrownOptions* whole) {
    *whole = {0, 1, 2, 3};
  });
  CHECK(memory.first.struct_size == sizeof(FirstOptions));
  CHECK(memory.first.a == 1);
  CHECK(memory.behind == 77);
}

TEST_CASE("A long error text is cut, and ends", "[capi]") {
  CHECK(Fail(StatusCode::kInternal, std::string(5000, 'x')) == 13);
  CHECK(std::strlen(LastError()) == 1023);
}

TEST_CASE("Each thread has an error text of its own, empty at first", "[capi]") {
  Fail(StatusCode::kInternal, "of the main thread");
  std::string before = "not run", after;
  std::thread([&] {
    before = LastError();
    Fail(StatusCode::kInternal, "of the other thread");
    after = LastError();
  }).join();
  CHECK(before.empty());
  CHECK(after == "of the other thread");
  CHECK(std::string(LastError()) == "of the main thread");
}

TEST_CASE("What is thrown inside a call becomes its status", "[capi]") {
  CHECK(Guard([]() -> int32_t { throw std::invalid_argument("bad 7"); }) ==
        static_cast<int32_t>(StatusCode::kInvalidArgument));
  CHECK(std::string(LastError()) == "bad 7");
  CHECK(Guard([]() -> int32_t { throw 7; }) == static_cast<int32_t>(StatusCode::kInternal));
}

}  // namespace
}  // namespace prefixrouter::capi
