// Exceptions do not leave the library: whatever is thrown inside a call becomes its status.
#include "lib/base/exceptions.h"

#include <functional>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "tests/catch.h"
#include "tests/support/fleet.h"

namespace prefixrouter::testing {
namespace {

template <typename Thrown>
Status StatusOf(const Thrown& thrown) {
  try {
    throw thrown;
  } catch (...) {
    return CurrentExceptionStatus("context: ");
  }
}

TEST_CASE("Exceptions become statuses with their text", "[exceptions]") {
  CHECK(StatusOf(std::bad_alloc()).ToString() == "RESOURCE_EXHAUSTED: context: out of memory");
  CHECK(StatusOf(std::invalid_argument("bad 7")).ToString() == "INVALID_ARGUMENT: context: bad 7");
  CHECK(StatusOf(std::length_error("too long")).ToString() == "INTERNAL: context: too long");
  CHECK(StatusOf(7).ToString() == "INTERNAL: context: unknown exception");
  CHECK(StatusOf(StatusError(Status(StatusCode::kAborted, "as it says"))).ToString() ==
        "ABORTED: context: as it says");
}

class ThrowingPolicy final : public Policy {
 public:
  const char* name() const override { return "throwing"; }
  void Score(const PolicyInput&, float*) const override {
    if (before_score) before_score();
  }
  std::function<void()> before_score;
};

TEST_CASE("What a custom policy throws fails the call, and nothing changes", "[exceptions]") {
  const auto policy = std::make_shared<ThrowingPolicy>();
  RouterOptions options;
  options.custom_policy = policy;
  Fleet fleet(2, options);
  const Tokens prompt = PromptMaker(1).Random(160);
  const Request request = Request::FromTokens(prompt);
  const auto check = [&](StatusCode code, const std::string& message) {
    const Status statuses[] = {fleet.router().Route(request).status(),
                               fleet.router().Acquire(request).status(),
                               fleet.router().Score(request).status()};
    for (const Status& status : statuses) {
      CHECK(status.code() == code);
      CHECK(status.message() == message);
    }
  };
  policy->before_score = [] { throw std::invalid_argument("no such tenant"); };
  check(StatusCode::kInvalidArgument, "policy throwing failed: no such tenant");
  policy->before_score = [] { throw std::bad_alloc(); };
  check(StatusCode::kResourceExhausted, "policy throwing failed: out of memory");
  policy->before_score = [] { throw 7; };
  check(StatusCode::kInternal, "policy throwing failed: unknown exception");
  CHECK(fleet.router().Stats().requests == 0);
  CHECK(fleet.router().Stats().leases_active == 0);
  policy->before_score = nullptr;
  CHECK(fleet.Route(request).cached_tokens == 0);  // nothing was remembered
}

}  // namespace
}  // namespace prefixrouter::testing
