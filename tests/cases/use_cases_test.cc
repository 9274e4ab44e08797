// What broke in other routers in long use: leaks of routers, of threads, of report histories.
//
// Each test restates one public report (named above it) as input and right result. The tag
// [case-NN] is the number that docs and commit messages use. Resident memory is judged in measured
// builds only (build_kind.h).
#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/build_kind.h"
#include "tests/support/fleet.h"
#include "tests/support/process.h"

namespace prefixrouter::testing {
namespace {

// dynamo 10729: each router left threads and memory behind.
// Create and destroy 10,000 routers: no leak, no thread.
TEST_CASE("Ten thousand routers leave no memory and no thread behind", "[cases][case-59]") {
  const uint64_t seed = TestSeed(59);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  const size_t threads_before = ThreadCount();
  size_t threads_most = 0;
  size_t resident_warm = 0;
  size_t failures = 0;
  const int total = Sized(10000, 500);
  const std::vector<std::string> policies = PolicyNames();
  std::vector<Lease> orphans;
  for (int i = 0; i < total; ++i) {
    RouterOptions options;
    options.policy = policies[static_cast<size_t>(i) % policies.size()];
    Result<std::unique_ptr<PrefixRouter>> router = PrefixRouter::Create(options);
    REQUIRE(router.ok());
    InstanceOptions instance;
    instance.name = "a";
    failures += !(*router)->AddInstance(instance).ok();
    const Tokens prompt = prompts.Random(500);
    Request request = Request::FromTokens(prompt);
    request.session_key = "session";
    failures += !(*router)->Route(request).ok();
    Result<Lease> lease = (*router)->Acquire(request);
    failures += !lease.ok();
    // Some leases outlive their router.
    if (i % 10 == 0) orphans.push_back(*std::move(lease));
    if (orphans.size() > 20) orphans.erase(orphans.begin(), orphans.begin() + 10);
    if (i % 100 == 0) threads_most = std::max(threads_most, ThreadCount());
    if (i == total / 10) resident_warm = ResidentBytes();
  }
  CHECK(failures == 0);
  CHECK(threads_most == threads_before);
  if (kMeasuredBuild && resident_warm > 0) {
    const size_t resident = ResidentBytes();
    CAPTURE(resident_warm, resident);
    CHECK(resident < resident_warm + (size_t{1} << 20));
  }
}

// llm-d 2118: each metrics report was kept.
// ReportLoad a million times: no growth, and the latest report is the one that counts.
TEST_CASE("A million load reports leave nothing behind but the last", "[cases][case-61]") {
  const uint64_t seed = TestSeed(61);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(100);
  const Tokens prompt = prompts.Random(500);
  const auto report_all = [&](int64_t times) {
    size_t failures = 0;
    EngineLoad load;
    for (int64_t i = 0; i < times; ++i) {
      load.running_requests = static_cast<int64_t>(prompts.Below(100));
      load.waiting_requests = static_cast<int64_t>(prompts.Below(100));
      load.kv_usage = static_cast<double>(prompts.Below(101)) / 100;
      failures += !fleet.router().ReportLoad(fleet[static_cast<size_t>(i) % 100], load).ok();
      if (i % 100 == 0) fleet.clock().AdvanceSeconds(0.01);
    }
    return failures;
  };
  REQUIRE(report_all(1000) == 0);
  const size_t resident_before = ResidentBytes();
  const size_t index_bytes_before = fleet.router().Stats().index_bytes;
  CHECK(report_all(Sized(1'000'000, 50'000)) == 0);
  CHECK(fleet.router().Stats().index_bytes == index_bytes_before);
  if (kMeasuredBuild && resident_before > 0) {
    const size_t resident = ResidentBytes();
    CAPTURE(resident_before, resident);
    CHECK(resident < resident_before + (size_t{1} << 18));
  }

  EngineLoad idle;
  idle.running_requests = 0;
  idle.waiting_requests = 0;
  idle.kv_usage = 0;
  EngineLoad busy = idle;
  busy.waiting_requests = 50;
  for (size_t i = 0; i < 100; ++i) {
    REQUIRE(fleet.router().ReportLoad(fleet[i], i == 42 ? idle : busy).ok());
  }
  CHECK(fleet.StatsOf(42).report_age_s == 0);
  CHECK(fleet.Route(Request::FromTokens(prompt)).instance == fleet[42]);
}

}  // namespace
}  // namespace prefixrouter::testing
