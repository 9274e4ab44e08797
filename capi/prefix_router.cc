// The functions of the C library: each checks its arguments, converts them, and calls PrefixRouter.
// All arguments are checked before anything is done, so that a failure changes nothing.
#include "capi/prefix_router.h"

#include <algorithm>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "capi/boundary.h"
#include "capi/convert.h"
#include "capi/handles.h"
#include "lib/options.h"
#include "prefixrouter/engine_metrics.h"
#include "prefixrouter/prefix_router.h"
#include "prefixrouter/router_metrics.h"

using namespace prefixrouter;
using namespace prefixrouter::capi;

namespace {

int32_t RenderSources(Span<const MetricsSource> sources,
                      const prefix_router_metrics_options* options, char* buffer, size_t capacity,
                      size_t* size) {
  MetricsOptions cpp_options;
  if (int32_t status = ReadMetricsOptions(options, &cpp_options); status != 0) return status;
  const Result<std::string> page = RenderMetrics(sources, cpp_options);
  return page.ok() ? WriteText(*page, buffer, capacity, size) : Fail(page.status());
}

int32_t FailLease(uint64_t lease, const char* why) {
  return Fail(StatusCode::kNotFound, "lease " + std::to_string(lease) + " " + why);
}
constexpr char kEnded[] = "has ended, or never was";

}  // namespace

// ---- Creating a router --------------------------------------------------------------------------

int32_t prefix_router_create(const prefix_router_options* options, prefix_router** router) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    *router = nullptr;
    RouterOptions cpp_options;
    if (options != nullptr) {
      if (int32_t status = ReadOptions(options, &cpp_options); status != 0) return status;
    }
    auto handle = std::make_unique<prefix_router>();
    auto created = PrefixRouter::Create(cpp_options);
    if (!created.ok()) return Fail(created.status());
    handle->cpp = *std::move(created);
    *router = handle.release();
    return 0;
  });
}

void prefix_router_destroy(prefix_router* router) { delete router; }

int32_t prefix_router_get_options(const prefix_router* router, prefix_router_options* options) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    if (int32_t status = CheckOutput(options, "options"); status != 0) return status;
    Write(router->cpp->options(), options);
    return 0;
  });
}

// ---- Instances ----------------------------------------------------------------------------------

int32_t prefix_router_add_instance(prefix_router* router,
                                   const prefix_router_instance_options* options,
                                   uint64_t* instance) {
  return Guard([&] {
    if (instance == nullptr) return FailNull("instance");
    *instance = 0;
    if (router == nullptr) return FailNull("router");
    InstanceOptions cpp_options;
    if (int32_t status = ReadInstanceOptions(options, &cpp_options); status != 0) return status;
    const Result<InstanceId> added = router->cpp->AddInstance(cpp_options);
    if (!added.ok()) return Fail(added.status());
    *instance = added->value;
    return 0;
  });
}

int32_t prefix_router_remove_instance(prefix_router* router, uint64_t instance) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    const Status status = router->cpp->RemoveInstance({instance});
    return status.ok() ? 0 : Fail(status);
  });
}

int32_t prefix_router_find_instance(const prefix_router* router, const char* name, size_t name_size,
                                    uint32_t rank, uint64_t* instance) {
  return Guard([&] {
    if (instance == nullptr) return FailNull("instance");
    *instance = 0;
    if (router == nullptr) return FailNull("router");
    std::string_view text;
    if (int32_t status = ReadString(name, name_size, "name", &text); status != 0) return status;
    const Result<InstanceId> found = router->cpp->FindInstance(text, rank);
    if (!found.ok()) return Fail(found.status());
    *instance = found->value;
    return 0;
  });
}

int32_t prefix_router_get_instance_name(const prefix_router* router, uint64_t instance,
                                        char* buffer, size_t capacity, size_t* size) {
  return Guard([&] {
    if (int32_t status = CheckText(buffer, capacity, size); status != 0) return status;
    if (router == nullptr) return FailNull("router");
    const Result<std::string> name = router->cpp->InstanceName({instance});
    return name.ok() ? WriteText(*name, buffer, capacity, size) : Fail(name.status());
  });
}

int32_t prefix_router_set_instance_state(prefix_router* router, uint64_t instance, int32_t state,
                                         double for_s) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    const Status status =
        router->cpp->SetInstanceState({instance}, static_cast<InstanceState>(state), for_s);
    return status.ok() ? 0 : Fail(status);
  });
}

int32_t prefix_router_report_load(prefix_router* router, uint64_t instance,
                                  const prefix_router_engine_load* load) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    EngineLoad cpp_load;
    if (int32_t status = ReadEngineLoad(load, &cpp_load); status != 0) return status;
    const Status status = router->cpp->ReportLoad({instance}, cpp_load);
    return status.ok() ? 0 : Fail(status);
  });
}

// ---- Requests -----------------------------------------------------------------------------------

int32_t prefix_router_route(prefix_router* router, const uint32_t* tokens, size_t token_count,
                            uint64_t* instance) {
  return Guard([&] {
    if (instance == nullptr) return FailNull("instance");
    *instance = 0;
    if (router == nullptr) return FailNull("router");
    const Result<InstanceId> chosen = router->cpp->Route(Span<const uint32_t>(tokens, token_count));
    if (!chosen.ok()) return Fail(chosen.status());
    *instance = chosen->value;
    return 0;
  });
}

int32_t prefix_router_route_request(prefix_router* router, const prefix_router_request* request,
                                    prefix_router_decision* decision) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    if (int32_t status = CheckOutput(decision, "decision"); status != 0) return status;
    return WithRequest(request, [&](const Request& cpp_request) {
      const Result<Decision> decided = router->cpp->Route(cpp_request);
      if (!decided.ok()) return Fail(decided.status());
      Write(*decided, decision);
      return 0;
    });
  });
}

// ---- Leases -------------------------------------------------------------------------------------

int32_t prefix_router_acquire(prefix_router* router, const prefix_router_request* request,
                              prefix_router_decision* decision, uint64_t* lease) {
  return Guard([&] {
    if (lease == nullptr) return FailNull("lease");
    *lease = 0;
    if (router == nullptr) return FailNull("router");
    if (int32_t status = CheckOutput(decision, "decision"); status != 0) return status;
    return WithRequest(request, [&](const Request& cpp_request) {
      Result<Lease> acquired = router->cpp->Acquire(cpp_request);
      if (!acquired.ok()) return Fail(acquired.status());
      Write(acquired->decision(), decision);
      *lease = acquired->Release().value;
      return 0;
    });
  });
}

int32_t prefix_router_first_token(prefix_router* router, uint64_t lease) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    if (router->cpp->FirstToken({lease})) return 0;
    return FailLease(lease, "has ended, never was, or was told its first token already");
  });
}

int32_t prefix_router_finish(prefix_router* router, uint64_t lease,
                             const prefix_router_finish_info* info) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    FinishInfo cpp_info;
    if (info != nullptr) {
      if (int32_t status = ReadFinishInfo(info, &cpp_info); status != 0) return status;
    }
    return router->cpp->Finish({lease}, cpp_info) ? 0 : FailLease(lease, kEnded);
  });
}

int32_t prefix_router_cancel(prefix_router* router, uint64_t lease) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    return router->cpp->Cancel({lease}) ? 0 : FailLease(lease, kEnded);
  });
}

// ---- Looking into it ----------------------------------------------------------------------------

int32_t prefix_router_score(const prefix_router* router, const prefix_router_request* request,
                            prefix_router_score_table* table, prefix_router_score_row* rows,
                            size_t capacity, size_t* count) {
  return Guard([&] {
    if (int32_t status = CheckRows(rows, capacity, count); status != 0) return status;
    if (router == nullptr) return FailNull("router");
    if (table != nullptr) {
      if (int32_t status = CheckOutput(table, "table"); status != 0) return status;
    }
    return WithRequest(request, [&](const Request& cpp_request) {
      const Result<ScoreTable> scored = router->cpp->Score(cpp_request);
      if (!scored.ok()) return Fail(scored.status());
      if (int32_t status = CheckCapacity(scored->rows.size(), capacity, count); status != 0) {
        return status;
      }
      WriteRows(scored->rows, rows);
      if (table != nullptr) Write(*scored, table);
      return 0;
    });
  });
}

int32_t prefix_router_get_stats(const prefix_router* router, prefix_router_stats* stats,
                                prefix_router_instance_stats* rows, size_t capacity,
                                size_t* count) {
  return Guard([&] {
    const bool rows_wanted = rows != nullptr || capacity != 0 || count != nullptr;
    if (rows_wanted) {
      if (int32_t status = CheckRows(rows, capacity, count); status != 0) return status;
    }
    if (router == nullptr) return FailNull("router");
    if (stats != nullptr) {
      if (int32_t status = CheckOutput(stats, "stats"); status != 0) return status;
    }
    const RouterStats cpp_stats = router->cpp->Stats();
    if (rows_wanted) {
      const int32_t status = CheckCapacity(cpp_stats.instances.size(), capacity, count);
      if (status != 0) return status;
      WriteRows(cpp_stats.instances, rows);
    }
    if (stats != nullptr) Write(cpp_stats, stats);
    return 0;
  });
}

int32_t prefix_router_block_keys(const prefix_router* router, const prefix_router_request* request,
                                 uint64_t* keys, size_t capacity, size_t* count) {
  return Guard([&] {
    if (int32_t status = CheckList(keys, capacity, count, "keys"); status != 0) return status;
    if (router == nullptr) return FailNull("router");
    return WithRequest(request, [&](const Request& r) {
      if (const Status check = CheckRequest(r, router->cpp->options()); !check.ok()) {
        return Fail(check);
      }
      if (r.form == PromptForm::kBlockKeys) {
        return Invalid("form must be tokens or text, got block_keys");
      }
      const BlockHasher& hasher = router->cpp->hasher();
      const bool text = r.form == PromptForm::kText;
      const size_t needed =
          text ? hasher.TextBlockCount(r.text.size()) : hasher.BlockCount(r.tokens.size());
      if (int32_t status = CheckCapacity(needed, capacity, count); status != 0) return status;
      if (text) {
        hasher.TextBlockKeys(r.key_space, r.text, r.multimodal, {keys, needed});
      } else {
        hasher.TokenBlockKeys(r.key_space, r.tokens, r.multimodal, {keys, needed});
      }
      return 0;
    });
  });
}

// ---- Metrics ------------------------------------------------------------------------------------

int32_t prefix_router_parse_engine_metrics(const char* page, size_t page_size,
                                           const prefix_router_engine_metrics_options* options,
                                           prefix_router_engine_metrics* metrics,
                                           prefix_router_engine_rank_metrics* ranks,
                                           size_t capacity, size_t* count) {
  return Guard([&] {
    if (int32_t status = CheckRows(ranks, capacity, count, "ranks"); status != 0) return status;
    std::string_view text;
    if (int32_t status = ReadString(page, page_size, "page", &text); status != 0) return status;
    EngineMetricsOptions cpp_options;
    if (int32_t status = ReadEngineMetricsOptions(options, &cpp_options); status != 0) {
      return status;
    }
    if (metrics != nullptr) {
      if (int32_t status = CheckOutput(metrics, "metrics"); status != 0) return status;
    }
    const Result<EngineMetrics> parsed = ParseEngineMetrics(text, cpp_options);
    if (!parsed.ok()) return Fail(parsed.status());
    if (int32_t status = CheckCapacity(parsed->ranks.size(), capacity, count); status != 0) {
      return status;
    }
    WriteRows(parsed->ranks, ranks);
    if (metrics != nullptr) Write(*parsed, metrics);
    return 0;
  });
}

int32_t prefix_router_report_engine_metrics(prefix_router* router, const char* name,
                                            size_t name_size,
                                            const prefix_router_engine_rank_metrics* ranks,
                                            size_t rank_count, double age_s, uint32_t* reported) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    std::string_view text;
    if (int32_t status = ReadString(name, name_size, "name", &text); status != 0) return status;
    if (int32_t status = CheckArray(ranks, rank_count, "ranks"); status != 0) return status;
    EngineMetrics metrics;
    if (int32_t status = ReadRanks(ranks, rank_count, &metrics.ranks); status != 0) return status;
    const Result<uint32_t> result = ReportEngineMetrics(*router->cpp, text, metrics, age_s);
    if (!result.ok()) return Fail(result.status());
    if (reported != nullptr) *reported = *result;
    return 0;
  });
}

int32_t prefix_router_report_rank_metrics(prefix_router* router, uint64_t instance,
                                          const prefix_router_engine_rank_metrics* rank,
                                          double age_s) {
  return Guard([&] {
    if (router == nullptr) return FailNull("router");
    EngineRankMetrics metrics;
    if (int32_t status = ReadRank(rank, &metrics); status != 0) return status;
    EngineLoad& load = metrics.load;
    load.age_s = age_s;
    Status status = CheckLoad(load);
    if (status.ok()) {
      // An empty report would take the place of an earlier one.
      status = load.empty() ? router->cpp->InstanceName({instance}).status()
                            : router->cpp->ReportLoad({instance}, load);
    }
    return status.ok() ? 0 : Fail(status);
  });
}

uint32_t prefix_router_capacity_blocks(int64_t capacity_tokens, uint32_t block_size) {
  EngineRankMetrics metrics;
  metrics.capacity_tokens = capacity_tokens;
  return metrics.CapacityBlocks(block_size);
}

int32_t prefix_router_render_metrics(const prefix_router* router,
                                     const prefix_router_metrics_options* options, char* buffer,
                                     size_t capacity, size_t* size) {
  return Guard([&] {
    if (int32_t status = CheckText(buffer, capacity, size); status != 0) return status;
    if (router == nullptr) return FailNull("router");
    const RouterStats stats = router->cpp->Stats();
    const MetricsSource source = {&stats, {}};
    return RenderSources({&source, 1}, options, buffer, capacity, size);
  });
}

int32_t prefix_router_render_metrics_of(const prefix_router_metrics_source* sources,
                                        size_t source_count,
                                        const prefix_router_metrics_options* options, char* buffer,
                                        size_t capacity, size_t* size) {
  return Guard([&] {
    if (int32_t status = CheckText(buffer, capacity, size); status != 0) return status;
    if (int32_t status = CheckArray(sources, source_count, "sources"); status != 0) return status;
    std::vector<LabelledRouter> routers;
    if (int32_t status = ReadSources(sources, source_count, &routers); status != 0) return status;
    std::vector<RouterStats> stats;
    stats.reserve(routers.size());  // cpp_sources points into it
    std::vector<MetricsSource> cpp_sources;
    for (LabelledRouter& router : routers) {
      stats.push_back(router.router->cpp->Stats());
      cpp_sources.push_back({&stats.back(), std::move(router.labels)});
    }
    return RenderSources({cpp_sources.data(), cpp_sources.size()}, options, buffer, capacity, size);
  });
}

double prefix_router_duration_bound_s(size_t bucket) {
  return DurationHistogram::UpperBound(
      static_cast<int>(std::min<size_t>(bucket, DurationHistogram::kBuckets - 1)));
}

// ---- Names and versions -------------------------------------------------------------------------

const char* prefix_router_last_error(void) { return LastError(); }

const char* prefix_router_status_name(int32_t status) {
  return StatusCodeName(static_cast<StatusCode>(status));
}

const char* prefix_router_rule_name(int32_t rule) { return RuleName(static_cast<Rule>(rule)); }

const char* prefix_router_engine_name(int32_t engine) {
  return EngineName(static_cast<Engine>(engine));
}

const char* prefix_router_policy_name(size_t index) {
  try {
    static const std::vector<std::string> names = PolicyNames();
    return index < names.size() ? names[index].c_str() : nullptr;
  } catch (...) {
    FailWithException();
    return nullptr;
  }
}

const char* prefix_router_version(void) { return PREFIX_ROUTER_VERSION_STRING; }

uint32_t prefix_router_abi_version(void) {
  return uint32_t{PREFIX_ROUTER_ABI_MAJOR} << 16 | PREFIX_ROUTER_ABI_MINOR;
}

uint32_t prefix_router_key_format(void) { return kKeyFormat; }
