// ParseEngineMetrics: the pages of the engines in tests/metrics/pages, and what may be wrong with a
// page. ReportEngineMetrics: from a page to the load of the right instances.
#include "prefixrouter/engine_metrics.h"

#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/fleet.h"

namespace prefixrouter {
namespace {

using testing::Fleet;

std::string Page(const std::string& name) {
  const std::string path = std::string(PREFIX_ROUTER_TEST_DIR) + "/metrics/pages/" + name;
  std::ifstream file(path, std::ios::binary);
  INFO(path);
  REQUIRE(file.is_open());
  return std::string(std::istreambuf_iterator<char>(file), {});
}

EngineMetrics Parse(const std::string& page, const EngineMetricsOptions& options = {}) {
  Result<EngineMetrics> metrics = ParseEngineMetrics(page, options);
  INFO(metrics.status().ToString());
  REQUIRE(metrics.ok());
  return *std::move(metrics);
}

// Of a page that has one rank.
EngineRankMetrics ParseOne(const std::string& page, const EngineMetricsOptions& options = {}) {
  const EngineMetrics metrics = Parse(page, options);
  REQUIRE(metrics.ranks.size() == 1);
  return metrics.ranks[0];
}

std::string Replace(std::string text, const std::string& from, const std::string& to) {
  for (size_t at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
    text.replace(at, from.size(), to);
  }
  return text;
}

}  // namespace

TEST_CASE("engine metrics of vLLM: two ranks in one page") {
  const EngineMetrics metrics = Parse(Page("vllm_two_ranks.txt"));
  CHECK(metrics.engine == Engine::kVllm);
  CHECK(EngineName(metrics.engine) == std::string("vllm"));
  CHECK(metrics.malformed_lines == 0);
  CHECK(metrics.unusable_values == 0);
  REQUIRE(metrics.ranks.size() == 2);

  const EngineRankMetrics& first = metrics.ranks[0];
  CHECK(first.rank == 0);
  CHECK(first.load.running_requests == 12);
  CHECK(first.load.waiting_requests == 3);
  CHECK(first.load.kv_usage == 0.4375);
  CHECK(first.load.age_s == 0);
  CHECK(first.block_size == 16);
  CHECK(first.capacity_tokens == 463456);
  CHECK(first.CapacityBlocks(16) == 28966);
  CHECK(first.prompt_tokens == 1048576);
  CHECK(first.cached_tokens == 786432);
  CHECK(first.external_cached_tokens == 4096);

  const EngineRankMetrics& second = metrics.ranks[1];
  CHECK(second.rank == 1);
  CHECK(second.load.running_requests == 7);
  CHECK(second.load.waiting_requests == 0);
  CHECK(second.load.kv_usage == 0.125);
  CHECK(second.capacity_tokens == 28000 * 16);  // from the blocks, as the tokens are "None"
  CHECK(second.CapacityBlocks(32) == 14000);
  CHECK(second.prompt_tokens == 524288);

  CHECK(metrics.prompt_tokens == 1048576 + 524288);
  CHECK(metrics.cached_tokens == 786432 + 131072);
  CHECK(metrics.external_cached_tokens == 4096);
}

TEST_CASE("engine metrics of vLLM: the names of earlier versions") {
  const EngineRankMetrics rank = ParseOne(Page("vllm_old_names.txt"));
  CHECK(rank.rank == 0);
  CHECK(rank.load.running_requests == 4);
  CHECK(rank.load.waiting_requests == 1);
  CHECK(rank.load.kv_usage == 0.0625);
  CHECK(rank.block_size == 32);
  CHECK(rank.capacity_tokens == 32768);
  CHECK(rank.prompt_tokens == 5000);
  CHECK(rank.cached_tokens == 1600);
  CHECK(rank.external_cached_tokens == -1);
}

TEST_CASE("engine metrics: of two names of one figure the newer counts, wherever it stands") {
  const std::string load = "vllm:num_requests_running 1\n";
  const std::string newer = "vllm:kv_cache_usage_perc 0.5\n";
  const std::string older = "vllm:gpu_cache_usage_perc 0.75\n";
  CHECK(ParseOne(load + newer + older).load.kv_usage == 0.5);
  CHECK(ParseOne(older + newer + load).load.kv_usage == 0.5);
  CHECK(ParseOne(load + older).load.kv_usage == 0.75);
  // A value that is none does not count.
  CHECK(ParseOne(older + "vllm:kv_cache_usage_perc NaN\n").load.kv_usage == 0.75);
}

TEST_CASE("engine metrics of vLLM: OpenMetrics with timestamps, exemplars and an end mark") {
  const EngineMetrics metrics = Parse(Page("vllm_openmetrics.txt"));
  CHECK(metrics.malformed_lines == 0);
  REQUIRE(metrics.ranks.size() == 1);
  CHECK(metrics.ranks[0].load.running_requests == 2);
  CHECK(metrics.ranks[0].load.waiting_requests == 5);
  CHECK(metrics.ranks[0].load.kv_usage == 0.75);
  CHECK(metrics.ranks[0].prompt_tokens == 300);
  CHECK(metrics.ranks[0].cached_tokens == 100);
}

TEST_CASE("engine metrics of SGLang: ranks, workers that repeat each other, priorities") {
  const EngineMetrics metrics = Parse(Page("sglang_two_ranks_two_workers.txt"));
  CHECK(metrics.engine == Engine::kSglang);
  CHECK(metrics.malformed_lines == 0);
  CHECK(metrics.unusable_values == 0);  // the NaN is of another metric
  REQUIRE(metrics.ranks.size() == 2);
  CHECK(metrics.ranks[0].load.running_requests == 9);  // not 9 + 9 of two workers, nor 9 + 6 + 3
  CHECK(metrics.ranks[0].load.waiting_requests == 2);
  CHECK(metrics.ranks[0].load.kv_usage == 0.53125);
  CHECK(metrics.ranks[0].block_size == 64);
  CHECK(metrics.ranks[0].capacity_tokens == 1041408);
  CHECK(metrics.ranks[0].CapacityBlocks(64) == 16272);
  CHECK(metrics.ranks[1].rank == 1);
  CHECK(metrics.ranks[1].load.running_requests == 4);
  CHECK(metrics.ranks[1].load.kv_usage == 0.25);
  CHECK(metrics.ranks[1].capacity_tokens == 1041408);
  // Counted for the server as a whole.
  CHECK(metrics.ranks[0].prompt_tokens == -1);
  CHECK(metrics.prompt_tokens == 20000);
  CHECK(metrics.cached_tokens == 8500);
  CHECK(metrics.external_cached_tokens == -1);
}

TEST_CASE("engine metrics of SGLang: the names of earlier versions") {
  const EngineRankMetrics rank = ParseOne(Page("sglang_old_names.txt"));
  CHECK(rank.load.running_requests == 162);
  CHECK(rank.load.waiting_requests == 2826);
  CHECK(rank.load.kv_usage == 0.28);
  CHECK(rank.block_size == 16);
  CHECK(rank.capacity_tokens == 80000);
  CHECK(rank.prompt_tokens == 8128902);
  CHECK(rank.cached_tokens == 61000);
}

TEST_CASE("engine metrics of TensorRT-LLM") {
  const EngineMetrics metrics = Parse(Page("trtllm_serve.txt"));
  CHECK(metrics.engine == Engine::kTensorRtLlm);
  REQUIRE(metrics.ranks.size() == 1);
  CHECK(metrics.ranks[0].load.running_requests == 21);
  CHECK(metrics.ranks[0].load.waiting_requests == 6);
  CHECK(metrics.ranks[0].load.kv_usage == 0.625);
  CHECK(metrics.ranks[0].block_size == 32);
  CHECK(metrics.ranks[0].capacity_tokens == 128000);
  CHECK(metrics.ranks[0].prompt_tokens == 70000);
  CHECK(metrics.ranks[0].cached_tokens == 28000);
}

TEST_CASE("engine metrics of Triton: one metric, told apart by a label") {
  const EngineMetrics metrics = Parse(Page("triton.txt"));
  CHECK(metrics.engine == Engine::kTriton);
  REQUIRE(metrics.ranks.size() == 1);
  CHECK(metrics.ranks[0].load.running_requests == 14);
  CHECK(metrics.ranks[0].load.waiting_requests == 2);
  CHECK(metrics.ranks[0].load.kv_usage == 0.3125);
  CHECK(metrics.ranks[0].block_size == 64);
  CHECK(metrics.ranks[0].capacity_tokens == 6239 * 64);
  CHECK(metrics.ranks[0].cached_tokens == -1);
}

TEST_CASE("engine metrics: names that a gateway between engine and scraper has changed") {
  const std::string page = Page("vllm_two_ranks.txt");
  const EngineMetrics expected = Parse(page);
  for (const char* prefix : {"vllm_", "ray_vllm_", "ray_vllm:"}) {
    const EngineMetrics metrics = Parse(Replace(page, "vllm:", prefix));
    INFO(prefix);
    REQUIRE(metrics.ranks.size() == 2);
    CHECK(metrics.ranks[1].load.running_requests == expected.ranks[1].load.running_requests);
    CHECK(metrics.ranks[0].capacity_tokens == expected.ranks[0].capacity_tokens);
    CHECK(metrics.cached_tokens == expected.cached_tokens);
  }
  // Counters without their suffix. A gauge with it is another metric.
  const EngineMetrics bare = Parse(Replace(page, "_total", ""));
  CHECK(bare.cached_tokens == expected.cached_tokens);
  CHECK(!ParseEngineMetrics("vllm:num_requests_running_total 3\n").ok());
}

TEST_CASE("engine metrics: values that cannot be are not taken over, the rest of the page is") {
  for (const char* value : {"NaN", "-1", "+Inf", "-Inf", "1e300"}) {
    const EngineMetrics metrics = Parse(std::string("vllm:num_requests_running ") + value +
                                        "\nvllm:num_requests_waiting 4\n");
    INFO(value);
    CHECK(metrics.unusable_values == 1);
    CHECK(metrics.ranks[0].load.running_requests == -1);
    CHECK(metrics.ranks[0].load.waiting_requests == 4);
  }
  const auto usage = [](const char* value) {
    return ParseOne(std::string("vllm:num_requests_running 1\nvllm:kv_cache_usage_perc ") + value +
                    "\n")
        .load.kv_usage;
  };
  CHECK(usage("1") == 1);
  CHECK(usage("1.0000000002") == 1);  // rounding
  CHECK(usage("43.75") == -1);        // per cent, or nonsense
  CHECK(usage("0") == 0);
}

TEST_CASE("engine metrics: counts are whole, and too large a sum is bounded") {
  const std::string huge = "9007199254740992";  // 2^53
  const EngineRankMetrics rank = ParseOne(
      "vllm:num_requests_running{pool=\"a\"} " + huge + "\nvllm:num_requests_running{pool=\"b\"} " +
      huge + "\nvllm:num_requests_waiting 2.75\nvllm:cache_config_info{block_size=\"" + huge +
      "\",num_gpu_blocks=\"" + huge + "\"} 1\n");
  CHECK(rank.load.running_requests == int64_t{1} << 53);
  CHECK(rank.load.waiting_requests == 2);
  CHECK(rank.capacity_tokens == int64_t{1} << 53);
  CHECK(rank.CapacityBlocks(1) == std::numeric_limits<int32_t>::max());
  CHECK(rank.CapacityBlocks(0) == 0);
  // Less than one is none.
  const EngineRankMetrics small = ParseOne(
      "sglang:num_running_reqs 0.5\nsglang:page_size 0.5\nsglang:max_total_num_tokens 0.5\n");
  CHECK(small.load.running_requests == 0);
  CHECK(small.block_size == -1);
  CHECK(small.capacity_tokens == -1);
  CHECK(EngineRankMetrics().CapacityBlocks(16) == 0);
}

TEST_CASE("engine metrics: malformed lines are skipped, counted, and the first is described") {
  const std::string page = Page("vllm_two_ranks.txt");
  const EngineMetrics whole = Parse(page);
  const EngineMetrics metrics =
      Parse("\x01\xff junk\n" + page + "vllm:num_requests_running{engine=\"0\" 99\n<html>\n");
  CHECK(metrics.malformed_lines == 3);
  CHECK(metrics.first_malformed_line == 1);
  CHECK(metrics.first_malformed_reason == "the line does not begin with a metric name");
  CHECK(metrics.samples == whole.samples);
  CHECK(metrics.ranks[0].load.running_requests == 12);
}

TEST_CASE("engine metrics: wherever a page is cut off, no figure is invented") {
  for (const char* name :
       {"vllm_two_ranks.txt", "sglang_two_ranks_two_workers.txt", "triton.txt"}) {
    const std::string page = Page(name);
    const EngineMetrics whole = Parse(page);
    for (size_t size = 0; size < page.size(); ++size) {
      const Result<EngineMetrics> cut = ParseEngineMetrics(page.substr(0, size));
      if (!cut.ok()) {
        REQUIRE(cut.status().code() == StatusCode::kNotFound);
        continue;
      }
      for (const EngineRankMetrics& rank : cut->ranks) {
        INFO(name << " after " << size << " bytes");
        REQUIRE(rank.rank < whole.ranks.size());
        const EngineLoad& load = whole.ranks[rank.rank].load;
        for (int64_t running : {rank.load.running_requests, rank.load.waiting_requests}) {
          REQUIRE((running == -1 || running == load.running_requests ||
                   running == load.waiting_requests));
        }
        REQUIRE(rank.load.kv_usage <= load.kv_usage);
      }
    }
  }
}

TEST_CASE("engine metrics: a page without load says what it has instead") {
  const auto message = [](const std::string& page, const EngineMetricsOptions& options = {}) {
    const Result<EngineMetrics> metrics = ParseEngineMetrics(page, options);
    REQUIRE(metrics.status().code() == StatusCode::kNotFound);
    return metrics.status().message();
  };
  CHECK(message("") == "no load metric of vLLM, SGLang, TensorRT-LLM or Triton in 0 samples");
  CHECK(message("go_goroutines 12\nup 1\n") ==
        "no load metric of vLLM, SGLang, TensorRT-LLM or Triton in 2 samples");
  CHECK(message("<!doctype html>\n") ==
        "no load metric of vLLM, SGLang, TensorRT-LLM or Triton in 0 samples; 1 malformed lines, "
        "the first is 1: the line does not begin with a metric name");
  EngineMetricsOptions other;
  other.model = "org/other";
  CHECK(message(Page("vllm_two_ranks.txt"), other).find("for model \"org/other\" in ") !=
        std::string::npos);
  // Constants and counters alone do not make a report.
  CHECK(!ParseEngineMetrics("vllm:prefix_cache_hits_total 3\n").ok());
}

TEST_CASE("engine metrics: the series of one model of several") {
  const std::string page =
      "nv_trt_llm_request_metrics{model=\"a\",request_type=\"scheduled\"} 3\n"
      "nv_trt_llm_request_metrics{model=\"b\",request_type=\"scheduled\"} 5\n"
      "nv_trt_llm_kv_cache_block_metrics{model=\"a\",kv_cache_block_type=\"fraction\"} 0.5\n"
      "nv_trt_llm_kv_cache_block_metrics{model=\"b\",kv_cache_block_type=\"fraction\"} 0.25\n";
  EngineMetricsOptions options;
  CHECK(ParseOne(page).load.running_requests == 8);
  CHECK(ParseOne(page).load.kv_usage == 0.5);
  options.model = "b";
  CHECK(ParseOne(page, options).load.running_requests == 5);
  CHECK(ParseOne(page, options).load.kv_usage == 0.25);
  // Series without a model are of all.
  CHECK(ParseOne("vllm:num_requests_running 2\n", options).load.running_requests == 2);
}

TEST_CASE("engine metrics: ranks") {
  // One labelled rank: what has no label is its own.
  EngineRankMetrics one =
      ParseOne("vllm:num_requests_running 2\nvllm:kv_cache_usage_perc{engine=\"3\"} 0.5\n");
  CHECK(one.rank == 3);
  CHECK(one.load.running_requests == 2);
  CHECK(one.load.kv_usage == 0.5);
  // Several: only constants hold for each of them.
  const EngineMetrics two = Parse(
      "vllm:num_requests_running{engine=\"7\"} 1\nvllm:num_requests_running{engine=\"2\"} 2\n"
      "vllm:num_requests_waiting 9\nvllm:cache_config_info{block_size=\"16\"} 1\n"
      "vllm:prefix_cache_hits_total 100\nvllm:prefix_cache_hits_total{engine=\"2\"} 11\n");
  REQUIRE(two.ranks.size() == 2);
  CHECK(two.ranks[0].rank == 2);
  CHECK(two.ranks[1].rank == 7);
  CHECK(two.ranks[0].load.waiting_requests == -1);
  CHECK(two.ranks[1].block_size == 16);
  CHECK(two.ranks[0].cached_tokens == 11);
  CHECK(two.ranks[1].cached_tokens == -1);
  CHECK(two.cached_tokens == 111);
  // What is no number is no rank.
  for (const char* label : {"-1", " 1", "+1", "1.0", "one", "4294967296", ""}) {
    INFO(label);
    CHECK(ParseOne(std::string("vllm:num_requests_running{engine=\"") + label + "\"} 1\n").rank ==
          0);
  }
  CHECK(ParseOne("vllm:num_requests_running{engine=\"4294967295\"} 1\n").rank == 4294967295u);
}

TEST_CASE("engine metrics: of two engines on a page, the one with more load metrics counts") {
  const EngineMetrics metrics =
      Parse("sglang:num_running_reqs 1\nvllm:num_requests_running 2\nsglang:num_queue_reqs 3\n");
  CHECK(metrics.engine == Engine::kSglang);
  REQUIRE(metrics.ranks.size() == 1);
  CHECK(metrics.ranks[0].load.running_requests == 1);
}

TEST_CASE("engine metrics: limits") {
  const std::string page = Page("vllm_two_ranks.txt");
  EngineMetricsOptions options;
  options.max_bytes = page.size();
  CHECK(ParseEngineMetrics(page, options).ok());
  options.max_bytes = page.size() - 1;
  Status status = ParseEngineMetrics(page, options).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message() == "the page has " + std::to_string(page.size()) +
                                " bytes, max_bytes is " + std::to_string(page.size() - 1));
  options = {};
  options.max_ranks = 1;
  status = ParseEngineMetrics(page, options).status();
  CHECK(status.code() == StatusCode::kInvalidArgument);
  CHECK(status.message() == "the page has 2 ranks, max_ranks is 1");
  for (uint32_t max_ranks : {0u, 65537u}) {
    options.max_ranks = max_ranks;
    CHECK(ParseEngineMetrics(page, options).status().message() ==
          "max_ranks must be 1 to 65536, got " + std::to_string(max_ranks));
  }
  options = {};
  options.max_line_bytes = 10;
  CHECK(ParseEngineMetrics(page, options).status().code() == StatusCode::kNotFound);
}

TEST_CASE("reporting engine metrics: each rank's load goes to its own instance") {
  InstanceOptions instance;
  instance.capacity_blocks = 1000;
  Fleet fleet(0);
  std::vector<InstanceId> ids;
  for (uint32_t rank = 0; rank < 3; ++rank) {
    instance.name = "10.0.0.7:8000";
    instance.rank = rank;
    ids.push_back(*fleet.router().AddInstance(instance));
  }
  const Result<uint32_t> reported =
      ReportEngineMetrics(fleet.router(), "10.0.0.7:8000", Parse(Page("vllm_two_ranks.txt")), 0.5);
  REQUIRE(reported.ok());
  CHECK(*reported == 2);
  const RouterStats stats = fleet.router().Stats();
  REQUIRE(stats.instances.size() == 3);
  CHECK(stats.instances[0].report_age_s == Approx(0.5));
  CHECK(stats.instances[1].report_age_s == Approx(0.5));
  CHECK(stats.instances[2].report_age_s == -1);

  // Ranks 0 and 1 have requests of other gateways, so new work goes to rank 2.
  for (uint32_t i = 0; i < 5; ++i) {
    const std::vector<uint32_t> prompt(1000, i);
    CHECK(fleet.Route(Request::FromTokens(prompt)).instance == ids[2]);
    fleet.clock().AdvanceSeconds(0.1);
  }
}

TEST_CASE("reporting engine metrics: a server whose only rank has a number") {
  Fleet fleet(1);
  const EngineMetrics third = Parse("vllm:num_requests_running{engine=\"3\"} 2\n");
  CHECK(*ReportEngineMetrics(fleet.router(), "i0", third) == 1);
  CHECK(fleet.StatsOf(0).report_age_s == 0);

  // With a name that has this rank, it is that one.
  InstanceOptions instance;
  instance.name = "i0";
  instance.rank = 3;
  const InstanceId id = *fleet.router().AddInstance(instance);
  fleet.clock().AdvanceSeconds(1);
  CHECK(*ReportEngineMetrics(fleet.router(), "i0", third) == 1);
  CHECK(fleet.StatsOf(0).report_age_s == Approx(1));
  REQUIRE(fleet.router().RemoveInstance(id).ok());

  // A page of several ranks is about several instances: none is guessed.
  const EngineMetrics several = Parse(
      "vllm:num_requests_running{engine=\"3\"} 2\nvllm:num_requests_running{engine=\"4\"} 2\n");
  const Status status = ReportEngineMetrics(fleet.router(), "i0", several).status();
  CHECK(status.code() == StatusCode::kNotFound);
  CHECK(status.message() == "no instance \"i0\" of any of the page's 2 ranks");
}

TEST_CASE("reporting engine metrics: what cannot be reported changes nothing") {
  Fleet fleet(1);
  const EngineMetrics metrics = Parse(Page("vllm_two_ranks.txt"));
  CHECK(ReportEngineMetrics(fleet.router(), "elsewhere", metrics).status().code() ==
        StatusCode::kNotFound);
  for (double age_s : {-1.0, std::nan("")}) {
    const Status status = ReportEngineMetrics(fleet.router(), "i0", metrics, age_s).status();
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find("age_s must be 0 or more, got ") == 0);
  }
  // A rank without load figures does not overwrite an earlier report with nothing.
  EngineMetrics empty;
  empty.ranks.resize(1);
  const Result<uint32_t> reported = ReportEngineMetrics(fleet.router(), "i0", empty);
  REQUIRE(reported.ok());
  CHECK(*reported == 0);
  CHECK(fleet.StatsOf(0).report_age_s == -1);
  // A bad figure of a later rank keeps the good ones of earlier ranks from being reported.
  EngineMetrics made = metrics;
  for (double kv_usage : {1.5, std::nan("")}) {
    made.ranks[1].load.kv_usage = kv_usage;
    const Status status = ReportEngineMetrics(fleet.router(), "i0", made).status();
    CHECK(status.code() == StatusCode::kInvalidArgument);
    CHECK(status.message().find("rank 1: kv_usage must be 0 to 1") == 0);
    CHECK(fleet.StatsOf(0).report_age_s == -1);
  }
}

}  // namespace prefixrouter
