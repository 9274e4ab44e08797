// Prints a page of two routers' metrics for lint_metrics.py, which knows what it has to say.
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "prefixrouter/engine_metrics.h"
#include "prefixrouter/prefix_router.h"
#include "prefixrouter/router_metrics.h"

namespace {

using namespace prefixrouter;  // NOLINT: a program of one file

bool Fill(PrefixRouter& router, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    InstanceOptions instance;
    instance.name = name;
    if (!router.AddInstance(instance).ok()) return false;
  }
  const std::vector<uint32_t> prompt(1000, 42);
  for (int i = 0; i < 20; ++i) {
    auto lease = router.Acquire(Request::FromTokens(prompt));
    if (!lease.ok()) return false;
    FinishInfo info;
    info.engine_cached_tokens = 100;
    if (!lease->FirstToken() || !lease->Finish(info)) return false;
  }
  const uint64_t block = 1;
  KvEvent stored;
  stored.kind = KvEventKind::kStored;
  stored.block_ids = {&block, 1};
  stored.block_size = router.options().block_size;
  stored.tokens = Span<const uint32_t>(prompt).subspan(0, stored.block_size);
  KvEventBatch batch;
  batch.events = {&stored, 1};
  if (!router.ApplyKvEvents(*router.FindInstance(names[0]), batch).ok()) return false;
  const auto engine =
      ParseEngineMetrics("vllm:num_requests_running 3\nvllm:kv_cache_usage_perc 0.25\n");
  return engine.ok() && ReportEngineMetrics(router, names[0], *engine, 1.5).ok();
}

}  // namespace

int main() {
  RouterOptions options;
  options.latency_interval_s = 0;
  auto first = PrefixRouter::Create(options);
  auto second = PrefixRouter::Create(options);
  if (!first.ok() || !second.ok()) return 1;
  if (!Fill(**first, {"10.0.0.1:8000", "odd \"name\" \\ of\ntwo lines \xc3\xbc \xff"})) return 1;
  if (!Fill(**second, {"10.0.0.2:8000"})) return 1;
  const RouterStats small = (*first)->Stats();
  const RouterStats large = (*second)->Stats();
  const std::vector<MetricsSource> sources = {{&small, {{"model", "small"}}},
                                              {&large, {{"model", "large"}}}};
  const auto page = RenderMetrics(sources);
  if (!page.ok()) return 1;
  return std::fwrite(page->data(), 1, page->size(), stdout) == page->size() ? 0 : 1;
}
