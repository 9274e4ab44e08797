// What the public calls refuse: every option and argument, at both ends of its range. A refusal
// names the argument and the value, has the documented code, and changes nothing.
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/fleet.h"

namespace prefixrouter::testing {
namespace {

const double kNan = std::numeric_limits<double>::quiet_NaN();
const double kInfinity = std::numeric_limits<double>::infinity();

bool Names(const Status& status, const std::string& word) {
  return status.message().find(word) != std::string::npos;
}

struct OptionCase {
  std::string option;
  std::string value;  // as the message must show it; empty: not checked
  std::function<void(RouterOptions&)> set;
};

template <typename T>
OptionCase Set(const char* option, T RouterOptions::*member, T value) {
  std::string shown;
  if constexpr (std::is_integral_v<T>) shown = std::to_string(value);
  return {option, shown, [member, value](RouterOptions& o) { o.*member = value; }};
}

TEST_CASE("Create refuses each option out of its range and names it", "[api][validation]") {
  using O = RouterOptions;
  std::vector<OptionCase> refused = {
      Set("block_size", &O::block_size, 0u),
      Set("block_size", &O::block_size, 32769u),
      Set("text_block_bytes", &O::text_block_bytes, 0u),
      Set("text_block_bytes", &O::text_block_bytes, 131073u),
      Set("index_budget_bytes", &O::index_budget_bytes, size_t{0}),
      Set("index_budget_bytes", &O::index_budget_bytes, size_t{65535}),
      Set("max_prompt_tokens", &O::max_prompt_tokens, uint64_t{0}),
      Set("max_prompt_tokens", &O::max_prompt_tokens, (uint64_t{1} << 24) + 1),
      Set("max_instances", &O::max_instances, 0u),
      Set("max_instances", &O::max_instances, (1u << 20) + 1),
      Set("max_sessions", &O::max_sessions, (1u << 31) + 1),
      {"policy", "no_such_policy", [](O& o) { o.policy = "no_such_policy"; }},
      {"policy", "", [](O& o) { o.policy.clear(); }},
      {"policy", "Prefix_Cost", [](O& o) { o.policy = "Prefix_Cost"; }},
  };
  struct Range {
    const char* option;
    double O::*member;
    double low, high;
  };
  const std::vector<Range> ranges = {
      {"text_bytes_per_token", &O::text_bytes_per_token, 0.25, 64},
      {"predicted_ttl_s", &O::predicted_ttl_s, 0, 1e9},
      {"confirm_window_s", &O::confirm_window_s, 0.001, 3600},
      {"default_prefill_tokens_per_s", &O::default_prefill_tokens_per_s, 1, 1e9},
      {"report_max_age_s", &O::report_max_age_s, 0.001, 1e6},
      {"lease_ttl_s", &O::lease_ttl_s, 0.001, 1e9},
      {"session_ttl_s", &O::session_ttl_s, 0.001, 1e9},
      {"session_slack_s", &O::session_slack_s, 0, 1e9},
  };
  for (const Range& range : ranges) {
    for (double value : {std::nextafter(range.low, -1.0), -1.0, -kInfinity, kNan, kInfinity,
                         std::nextafter(range.high, 1e300)}) {
      refused.push_back(Set(range.option, range.member, value));
    }
  }
  for (const OptionCase& wrong : refused) {
    CAPTURE(wrong.option, wrong.value);
    RouterOptions options;
    wrong.set(options);
    const auto router = PrefixRouter::Create(options);
    CHECK_FALSE(router.ok());
    CHECK(router.status().code() == StatusCode::kInvalidArgument);
    CAPTURE(router.status().message());
    CHECK(Names(router.status(), wrong.option));
    CHECK(Names(router.status(), wrong.value));
  }

  std::vector<OptionCase> accepted = {
      Set("block_size", &O::block_size, 1u),
      Set("block_size", &O::block_size, 32768u),
      Set("text_block_bytes", &O::text_block_bytes, 1u),
      Set("text_block_bytes", &O::text_block_bytes, 131072u),
      Set("index_budget_bytes", &O::index_budget_bytes, size_t{65536}),
      Set("index_budget_bytes", &O::index_budget_bytes, SIZE_MAX),
      Set("max_prompt_tokens", &O::max_prompt_tokens, uint64_t{1}),
      Set("max_prompt_tokens", &O::max_prompt_tokens, uint64_t{1} << 24),
      Set("max_instances", &O::max_instances, 1u),
      Set("max_instances", &O::max_instances, 1u << 20),
      Set("max_sessions", &O::max_sessions, 0u),
      Set("max_sessions", &O::max_sessions, 1u << 31),
  };
  for (const Range& range : ranges) {
    accepted.push_back(Set(range.option, range.member, range.low));
    accepted.push_back(Set(range.option, range.member, range.high));
  }
  for (const std::string& policy : PolicyNames()) {
    accepted.push_back({"policy", policy, [policy](O& o) { o.policy = policy; }});
  }
  PromptMaker prompts(1);
  const Tokens one_token = prompts.Random(1);
  for (const OptionCase& right : accepted) {
    CAPTURE(right.option, right.value);
    RouterOptions options;
    right.set(options);
    const auto router = PrefixRouter::Create(options);
    CAPTURE(router.status().message());
    REQUIRE(router.ok());
    // It works, not only exists.
    InstanceOptions instance;
    instance.name = "a";
    REQUIRE((*router)->AddInstance(instance).ok());
    CHECK((*router)->Route(one_token).ok());
    CHECK((*router)->Route(one_token).ok());
  }
}

TEST_CASE("Options of policies are checked, whichever policy is chosen", "[api][validation]") {
  using P = PolicyOptions;
  struct Case {
    const char* option;
    std::function<void(P&)> set;
  };
  const std::vector<Case> refused = {
      {"hash_load_factor", [](P& p) { p.hash_load_factor = 0.99; }},
      {"hash_load_factor", [](P& p) { p.hash_load_factor = kNan; }},
      {"hash_ring_points", [](P& p) { p.hash_ring_points = 0; }},
      {"hash_ring_points", [](P& p) { p.hash_ring_points = 4097; }},
      {"hash_prefix_tokens", [](P& p) { p.hash_prefix_tokens = 0; }},
      {"hash_prefix_tokens", [](P& p) { p.hash_prefix_tokens = (1u << 24) + 1; }},
      {"hash_max_requests", [](P& p) { p.hash_max_requests = 0; }},
      {"threshold_match", [](P& p) { p.threshold_match = 1.01; }},
      {"threshold_requests", [](P& p) { p.threshold_requests = -1; }},
      {"threshold_ratio", [](P& p) { p.threshold_ratio = 0.5; }},
      {"weight_match", [](P& p) { p.weight_match = -0.1; }},
      {"weight_queue", [](P& p) { p.weight_queue = kInfinity; }},
      {"weight_kv", [](P& p) { p.weight_kv = kNan; }},
      {"weight_match", [](P& p) { p.weight_match = p.weight_queue = p.weight_kv = 0; }},
      {"block_credit", [](P& p) { p.block_credit = -1; }},
  };
  for (const Case& wrong : refused) {
    CAPTURE(wrong.option);
    RouterOptions options;
    wrong.set(options.policy_options);
    const auto router = PrefixRouter::Create(options);
    REQUIRE_FALSE(router.ok());
    CHECK(router.status().code() == StatusCode::kInvalidArgument);
    CHECK(Names(router.status(), wrong.option));
  }
}

TEST_CASE("The options that a router shows can make its twin", "[api][validation]") {
  RouterOptions options;
  options.block_size = 32;
  options.policy = "random";
  const auto first = PrefixRouter::Create(options);
  REQUIRE(first.ok());
  const RouterOptions& shown = (*first)->options();
  CHECK(shown.block_size == 32);
  CHECK(shown.policy == "random");
  REQUIRE(shown.key_seed.has_value());
  REQUIRE(shown.random_seed.has_value());
  const auto other = PrefixRouter::Create(options);
  REQUIRE(other.ok());
  CHECK(shown.key_seed != (*other)->options().key_seed);  // drawn from the system
  CHECK(shown.random_seed != (*other)->options().random_seed);

  const auto twin = PrefixRouter::Create(shown);
  REQUIRE(twin.ok());
  const Tokens tokens = PromptMaker(2).Random(320);
  std::vector<uint64_t> keys(10), twin_keys(10), other_keys(10);
  (*first)->hasher().TokenBlockKeys({}, tokens, {}, keys);
  (*twin)->hasher().TokenBlockKeys({}, tokens, {}, twin_keys);
  (*other)->hasher().TokenBlockKeys({}, tokens, {}, other_keys);
  CHECK(keys == twin_keys);
  CHECK(keys != other_keys);
}

TEST_CASE("AddInstance refuses each option out of its range and names it", "[api][validation]") {
  using I = InstanceOptions;
  Fleet fleet(1);
  const std::string before = Describe(fleet.router().Stats());
  struct Wrong {
    const char* option;
    std::function<void(I&)> set;
  };
  const std::vector<Wrong> refused = {
      {"name", [](I& i) { i.name.clear(); }},
      {"name", [](I& i) { i.name.assign(65536, 'x'); }},
      {"capacity_blocks", [](I& i) { i.capacity_blocks = 0; }},
      {"capacity_blocks", [](I& i) { i.capacity_blocks = 1u << 31; }},
      {"prefill_tokens_per_s", [](I& i) { i.prefill_tokens_per_s = -1; }},
      {"prefill_tokens_per_s", [](I& i) { i.prefill_tokens_per_s = kNan; }},
      {"prefill_tokens_per_s", [](I& i) { i.prefill_tokens_per_s = kInfinity; }},
      {"weight", [](I& i) { i.weight = 0; }},
      {"weight", [](I& i) { i.weight = -1; }},
      {"weight", [](I& i) { i.weight = 1001; }},
      {"weight", [](I& i) { i.weight = kNan; }},
      {"weight", [](I& i) { i.weight = kInfinity; }},
  };
  for (const Wrong& wrong : refused) {
    CAPTURE(wrong.option);
    InstanceOptions instance;
    instance.name = "new";
    wrong.set(instance);
    const Result<InstanceId> id = fleet.router().AddInstance(instance);
    CHECK(id.status().code() == StatusCode::kInvalidArgument);
    CAPTURE(id.status().message());
    CHECK(Names(id.status(), wrong.option));
    CHECK(Describe(fleet.router().Stats()) == before);
  }

  InstanceOptions instance;
  instance.name = "i0";
  const Result<InstanceId> taken = fleet.router().AddInstance(instance);
  CHECK(taken.status().code() == StatusCode::kAlreadyExists);
  CHECK(Names(taken.status(), "i0"));
  CHECK(Describe(fleet.router().Stats()) == before);

  // The ends of the ranges, and names that are equal but for the rank.
  instance.rank = 1;
  CHECK(fleet.router().AddInstance(instance).ok());
  instance.rank = UINT32_MAX;
  instance.capacity_blocks = (1u << 31) - 1;
  instance.weight = 1000;
  CHECK(fleet.router().AddInstance(instance).ok());
  instance.name.assign(65535, 'x');
  instance.capacity_blocks = 1;
  instance.weight = 1e-9;
  CHECK(fleet.router().AddInstance(instance).ok());
  instance.name = std::string("nul\0inside", 10);
  CHECK(fleet.router().AddInstance(instance).ok());
  CHECK(fleet.router().FindInstance(instance.name, UINT32_MAX).ok());
  CHECK_FALSE(fleet.router().FindInstance("nul", UINT32_MAX).ok());

  const InstanceId id = *fleet.router().FindInstance(instance.name, UINT32_MAX);
  CHECK(*fleet.router().InstanceName(id) == instance.name);
  REQUIRE(fleet.router().RemoveInstance(id).ok());
  CHECK(fleet.router().InstanceName(id).status().code() == StatusCode::kNotFound);
  CHECK(fleet.router().InstanceName({}).status().code() == StatusCode::kNotFound);
}

TEST_CASE("Calls about an instance refuse what they cannot use", "[api][validation]") {
  Fleet fleet(2);
  PrefixRouter& router = fleet.router();
  REQUIRE(router.RemoveInstance(fleet[1]).ok());
  const std::string before = Describe(router.Stats());
  const std::vector<InstanceId> strangers = {InstanceId{},
                                             fleet[1],
                                             InstanceId::Make(1000, 1),
                                             InstanceId::Make(0, 0),
                                             InstanceId::Make(0, fleet[0].generation() + 1),
                                             InstanceId{UINT64_MAX}};
  for (InstanceId stranger : strangers) {
    CAPTURE(stranger.value);
    CHECK(router.RemoveInstance(stranger).code() == StatusCode::kNotFound);
    CHECK(router.SetInstanceState(stranger, InstanceState::kDown).code() == StatusCode::kNotFound);
    CHECK(router.ReportLoad(stranger, {}).code() == StatusCode::kNotFound);
  }
  for (double for_s : {-1.0, kNan, -kInfinity}) {
    const Status status = router.SetInstanceState(fleet[0], InstanceState::kDown, for_s);
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(Names(status, "for_s"));
  }
  for (int32_t state : {-1, 3, 1000}) {
    const Status status = router.SetInstanceState(fleet[0], static_cast<InstanceState>(state));
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(Names(status, "state"));
    CHECK(Names(status, std::to_string(state)));
  }
  const auto report = [&](double kv_usage, double age_s) {
    EngineLoad load;
    load.kv_usage = kv_usage;
    load.age_s = age_s;
    return router.ReportLoad(fleet[0], load);
  };
  for (double kv_usage : {1.001, 98.0, kNan, kInfinity}) {
    CAPTURE(kv_usage);
    CHECK(report(kv_usage, 0).code() == StatusCode::kInvalidArgument);
    CHECK(Names(report(kv_usage, 0), "kv_usage"));
  }
  for (double age_s : {-0.001, -kInfinity, kNan}) {
    CAPTURE(age_s);
    CHECK(report(0.5, age_s).code() == StatusCode::kInvalidArgument);
    CHECK(Names(report(0.5, age_s), "age_s"));
  }
  CHECK(Describe(router.Stats()) == before);
  CHECK(report(1, 0).ok());
  CHECK(report(0, 1e300).ok());
  CHECK(report(-1, 0).ok());
  // Figures beyond all sense are no reason to misbehave.
  EngineLoad huge;
  huge.running_requests = INT64_MAX;
  huge.waiting_requests = INT64_MAX;
  CHECK(router.ReportLoad(fleet[0], huge).ok());
  const Tokens prompt = PromptMaker(3).Random(100);
  CHECK(fleet.Route(Request::FromTokens(prompt)).instance == fleet[0]);
  const ScoreRow row = fleet.Row(0, Request::FromTokens(prompt));
  CHECK(row.cost.total >= 0);
  CHECK(row.predicted_ttft_s >= 0);
}

TEST_CASE("A malformed request is refused by every call and changes nothing", "[api][validation]") {
  RouterOptions options;
  options.max_prompt_tokens = 1000;
  Fleet fleet(2, options);
  PromptMaker prompts(4);
  const Tokens prompt = prompts.Random(1000);
  const Tokens longer = prompts.Random(1001);
  const std::string long_text(4 * 1001, 'x');
  const std::vector<uint64_t> many_keys(63, 5);  // 63 * 16 = 1008 tokens
  const std::vector<MultimodalItem> descending = {{20, 1}, {10, 2}};
  const std::vector<MultimodalItem> outside = {{1000, 1}};
  const std::vector<MultimodalItem> far_outside = {{UINT64_MAX, 1}};
  fleet.Place(0, Request::FromTokens(Head(prompt, 160)));

  struct Wrong {
    const char* named;
    Request request;
  };
  std::vector<Wrong> refused;
  const auto refuse = [&](const char* named, const std::function<void(Request&)>& change) {
    Request request = Request::FromTokens(prompt);
    change(request);
    refused.push_back({named, request});
  };
  refuse("max_prompt_tokens", [&](Request& r) { r.tokens = longer; });
  refuse("max_prompt_tokens", [&](Request& r) { r = Request::FromText(long_text); });
  refuse("max_prompt_tokens", [&](Request& r) { r = Request::FromBlockKeys(many_keys); });
  refuse("max_prompt_tokens", [&](Request& r) {
    r = Request::FromBlockKeys({many_keys.data(), 2}, 1001);
  });
  refuse("multimodal", [&](Request& r) { r.multimodal = descending; });
  refuse("multimodal", [&](Request& r) { r.multimodal = outside; });
  refuse("multimodal", [&](Request& r) { r.multimodal = far_outside; });
  refuse("max_ttft_s", [](Request& r) { r.max_ttft_s = -0.001; });
  refuse("max_ttft_s", [](Request& r) { r.max_ttft_s = kNan; });
  refuse("form", [](Request& r) { r.form = static_cast<PromptForm>(3); });
  refuse("form", [](Request& r) { r.form = static_cast<PromptForm>(-1); });

  const std::string before = Describe(fleet.router().Stats());
  for (const Wrong& wrong : refused) {
    CAPTURE(wrong.named);
    const std::vector<Status> answers = {fleet.router().Route(wrong.request).status(),
                                         fleet.router().Acquire(wrong.request).status(),
                                         fleet.router().Score(wrong.request).status()};
    for (const Status& status : answers) {
      CAPTURE(status.message());
      CHECK(status.code() == StatusCode::kInvalidArgument);
      CHECK(Names(status, wrong.named));
    }
    CHECK(Describe(fleet.router().Stats()) == before);
  }
  CHECK(fleet.router().Route(longer).status().code() == StatusCode::kInvalidArgument);

  // The ends of the ranges.
  const std::vector<MultimodalItem> last = {{0, 1}, {999, 2}};
  Request request = Request::FromTokens(prompt);
  request.multimodal = last;
  request.max_ttft_s = 1e300;
  CHECK(fleet.router().Route(request).ok());
  CHECK(fleet.router().Route(Request::FromText({long_text.data(), 4000})).ok());
  CHECK(fleet.router().Route(Request::FromBlockKeys({many_keys.data(), 62})).ok());
}

TEST_CASE("A router that cannot answer says why and changes nothing", "[api][validation]") {
  const Tokens prompt = PromptMaker(5).Random(1000);
  const Request request = Request::FromTokens(prompt);

  SECTION("without instances") {
    Fleet fleet(0);
    const RouterStats before = fleet.router().Stats();
    CHECK(fleet.router().Route(request).status().code() == StatusCode::kUnavailable);
    CHECK(fleet.router().Route(prompt).status().code() == StatusCode::kUnavailable);
    CHECK(fleet.router().Acquire(request).status().code() == StatusCode::kUnavailable);
    const Result<ScoreTable> table = fleet.router().Score(request);
    REQUIRE(table.ok());
    CHECK(table->rows.empty());
    CHECK(table->prompt_tokens == 1000);
    RouterStats after = fleet.router().Stats();
    CHECK(after.unavailable == before.unavailable + 3);
    after.unavailable = before.unavailable;
    CHECK(Describe(after) == Describe(before));
  }
  SECTION("with no instance ready") {
    Fleet fleet(2);
    REQUIRE(fleet.router().SetInstanceState(fleet[0], InstanceState::kDown).ok());
    REQUIRE(fleet.router().SetInstanceState(fleet[1], InstanceState::kDraining).ok());
    const RouterStats before = fleet.router().Stats();
    CHECK(fleet.router().Route(request).status().code() == StatusCode::kUnavailable);
    CHECK(fleet.router().Acquire(request).status().code() == StatusCode::kUnavailable);
    RouterStats after = fleet.router().Stats();
    CHECK(after.unavailable == before.unavailable + 2);
    after.unavailable = before.unavailable;
    CHECK(Describe(after) == Describe(before));
    CHECK(fleet.Row(0, request).cost.total == kInfinity);
  }
  SECTION("with none below the bound on the time to first token") {
    Fleet fleet(2);  // 10,000 tokens a second
    const Tokens other = PromptMaker(6).Random(5000);
    std::vector<Lease> load;
    for (size_t i = 0; i < 2; ++i) load.push_back(fleet.AcquireOn(i, Request::FromTokens(other)));
    const RouterStats before = fleet.router().Stats();
    Request bounded = request;
    bounded.max_ttft_s = 0.599;  // 5,000 pending + 1,000 uncached tokens take 0.6 s
    const Result<Decision> decision = fleet.router().Route(bounded);
    CHECK(decision.status().code() == StatusCode::kResourceExhausted);
    CHECK(Names(decision.status(), "max_ttft_s"));
    CHECK(fleet.router().Acquire(bounded).status().code() == StatusCode::kResourceExhausted);
    RouterStats after = fleet.router().Stats();
    CHECK(after.rejected == before.rejected + 2);
    after.rejected = before.rejected;
    CHECK(Describe(after) == Describe(before));
    CHECK(fleet.CachedTokens(0, request) == 0);

    bounded.max_ttft_s = 0.601;
    const Decision accepted = fleet.Route(bounded);
    CHECK(accepted.predicted_ttft_s > 0.599);
    CHECK(accepted.predicted_ttft_s < 0.601);
    // One that is faster than the bound is enough, and is the one that is taken.
    load[1].Cancel();
    bounded.max_ttft_s = 0.25;
    CHECK(fleet.Route(bounded).instance == fleet[1]);
  }
}

}  // namespace
}  // namespace prefixrouter::testing
