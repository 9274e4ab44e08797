// What the C interface adds to a call.
#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/fleet.h"
#include "benchmarks/ratios.h"
#include "capi/prefix_router.h"

namespace prefixrouter::bench {
namespace {

constexpr size_t kPromptTokens = 256;
constexpr size_t kInstances = 64;
constexpr int kPrompts = 16;
constexpr int kCalls = 256;  // a measurement

// Two routers of equal options, instances and history, one behind each interface. They are two
// copies of the same code at different addresses with different heaps, so each round of the
// measurement makes new ones.
struct Routers {
  Routers() {
    RouterOptions options;
    options.key_seed = kSeed;
    options.random_seed = kSeed;
    cpp = *PrefixRouter::Create(options);
    prefix_router_options c_options = {};
    c_options.struct_size = sizeof c_options;
    c_options.has_key_seed = c_options.has_random_seed = 1;
    c_options.key_seed = c_options.random_seed = kSeed;
    Require(prefix_router_create(&c_options, &c) == PREFIX_ROUTER_OK, prefix_router_last_error());
    for (size_t i = 0; i < kInstances; ++i) {
      InstanceOptions instance;
      instance.name = "instance-" + std::to_string(i);
      Require(cpp->AddInstance(instance).ok(), "AddInstance failed");
      prefix_router_instance_options c_instance = {};
      c_instance.struct_size = sizeof c_instance;
      c_instance.name = instance.name.data();
      c_instance.name_size = instance.name.size();
      uint64_t id;
      Require(prefix_router_add_instance(c, &c_instance, &id) == PREFIX_ROUTER_OK,
              prefix_router_last_error());
    }
  }
  ~Routers() { prefix_router_destroy(c); }

  std::unique_ptr<PrefixRouter> cpp;
  prefix_router* c = nullptr;
};

// Differences of one round, in nanoseconds a call, and the C++ call's time.
struct Round {
  double tokens = 0;   // prefix_router_route
  double request = 0;  // prefix_router_route_request
  double cpp = 0;
};

Round MeasureRound(const std::vector<std::vector<uint32_t>>& prompts, int pairs) {
  Routers routers;
  const auto prompt = [&](int i) { return Span<const uint32_t>(prompts[i % kPrompts]); };
  const auto cpp_tokens = [&] {
    return NanosPerCall(kCalls, [&](int i) { Keep(routers.cpp->Route(prompt(i))); });
  };
  const auto c_tokens = [&] {
    return NanosPerCall(kCalls, [&](int i) {
      uint64_t instance;
      Keep(prefix_router_route(routers.c, prompt(i).data(), kPromptTokens, &instance));
      Keep(instance);
    });
  };
  const auto cpp_request = [&] {
    return NanosPerCall(kCalls,
                        [&](int i) { Keep(routers.cpp->Route(Request::FromTokens(prompt(i)))); });
  };
  const auto c_request = [&] {
    return NanosPerCall(kCalls, [&](int i) {
      prefix_router_request request = {};
      request.struct_size = sizeof request;
      request.tokens = prompt(i).data();
      request.token_count = kPromptTokens;
      prefix_router_decision decision;
      decision.struct_size = sizeof decision;
      Keep(prefix_router_route_request(routers.c, &request, &decision));
      Keep(decision.instance);
    });
  };
  Round round;
  const PairResult tokens = MeasurePair(pairs, c_tokens, cpp_tokens);
  const PairResult request = MeasurePair(pairs, c_request, cpp_request);
  round.tokens = tokens.difference;
  round.request = request.difference;
  round.cpp = tokens.b;

  // Both have done the same, and found the prompts.
  prefix_router_stats stats;
  stats.struct_size = sizeof stats;
  Require(prefix_router_get_stats(routers.c, &stats, nullptr, 0, nullptr) == PREFIX_ROUTER_OK,
          prefix_router_last_error());
  const RouterStats cpp_stats = routers.cpp->Stats();
  Require(stats.requests == cpp_stats.requests, "the routers were called unequally often");
  const double found =
      static_cast<double>(stats.cached_tokens) / static_cast<double>(stats.prompt_tokens);
  Require(found > 0.9 && cpp_stats.cached_tokens > stats.prompt_tokens * 9 / 10,
          "the prompts were not known");
  return round;
}

}  // namespace

void MeasureCOverhead(const RatioOptions& options, Report& report) {
  std::vector<std::vector<uint32_t>> prompts;
  PromptFamily family(kPromptTokens);
  for (int i = 0; i < kPrompts; ++i) {
    const Span<const uint32_t> prompt = family.Get(i);
    prompts.emplace_back(prompt.begin(), prompt.end());
  }
  std::vector<double> tokens, request, cpp;
  for (int i = 0; i < options.repetitions; ++i) {
    const Round round = MeasureRound(prompts, options.repetitions * 10);
    tokens.push_back(round.tokens);
    request.push_back(round.request);
    cpp.push_back(round.cpp);
  }
  report.Figure("c_overhead_ns", Median(tokens));
  report.Detail("c_overhead_ns",
                "prefix_router_route - Route(tokens), %.0f ns; with a request and a decision %.1f "
                "ns; medians of %d pairs of routers, which gave %.1f to %.1f",
                Median(cpp), Median(request), options.repetitions,
                *std::min_element(tokens.begin(), tokens.end()),
                *std::max_element(tokens.begin(), tokens.end()));
}

}  // namespace prefixrouter::bench
