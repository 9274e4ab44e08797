// The public classes PrefixRouter and Lease: thin covers over RouterCore that let no exception out.
#include "prefixrouter/prefix_router.h"

#include <chrono>
#include <random>

#include "lib/base/guard.h"
#include "lib/options.h"
#include "lib/router_core.h"

namespace prefixrouter {
namespace {

class SystemClock final : public Clock {
 public:
  int64_t NowNanos() const override {
    return std::chrono::duration_cast<std::chrono::nanoseconds>(
               std::chrono::steady_clock::now().time_since_epoch())
        .count();
  }
};

uint64_t RandomFromSystem() {
  std::random_device device;
  return uint64_t{device()} << 32 | device();
}

}  // namespace

// ---- PrefixRouter ------------------------------------------------------------------------------

PrefixRouter::PrefixRouter(std::shared_ptr<RouterCore> core) : core_(std::move(core)) {}
PrefixRouter::~PrefixRouter() { core_->Close(); }

Result<std::unique_ptr<PrefixRouter>> PrefixRouter::Create(const RouterOptions& options) {
  return Guard([&]() -> Result<std::unique_ptr<PrefixRouter>> {
    if (Status check = CheckOptions(options); !check.ok()) return check;
    RouterOptions filled = options;
    if (!filled.key_seed) filled.key_seed = RandomFromSystem();
    if (!filled.random_seed) filled.random_seed = RandomFromSystem();
    if (filled.clock == nullptr) filled.clock = std::make_shared<SystemClock>();
    return std::unique_ptr<PrefixRouter>(new PrefixRouter(std::make_shared<RouterCore>(filled)));
  });
}

Result<InstanceId> PrefixRouter::AddInstance(const InstanceOptions& options) {
  return Guard([&] { return core_->AddInstance(options); });
}
Status PrefixRouter::RemoveInstance(InstanceId id) {
  return Guard([&] { return core_->RemoveInstance(id); });
}
Result<InstanceId> PrefixRouter::FindInstance(std::string_view name, uint32_t rank) const {
  return Guard([&]() -> Result<InstanceId> { return core_->FindInstance(name, rank); });
}
Result<std::string> PrefixRouter::InstanceName(InstanceId id) const {
  return Guard([&] { return core_->InstanceName(id); });
}
Status PrefixRouter::SetInstanceState(InstanceId id, InstanceState state, double for_s) {
  return Guard([&] { return core_->SetInstanceState(id, state, for_s); });
}
Status PrefixRouter::ReportLoad(InstanceId id, const EngineLoad& load) {
  return Guard([&] { return core_->ReportLoad(id, load); });
}

Result<KvEventResult> PrefixRouter::ApplyKvEvents(InstanceId id, const KvEventBatch& batch) {
  return Guard([&] { return core_->ApplyKvEvents(id, batch); });
}

Result<Decision> PrefixRouter::Route(const Request& request) {
  return Guard([&] { return core_->Place(request, nullptr); });
}
Result<InstanceId> PrefixRouter::Route(Span<const uint32_t> tokens) {
  Result<Decision> decision = Route(Request::FromTokens(tokens));
  if (!decision.ok()) return decision.status();
  return decision->instance;
}
Result<Lease> PrefixRouter::Acquire(const Request& request) {
  return Guard([&]() -> Result<Lease> {
    LeaseId id;
    Result<Decision> decision = core_->Place(request, &id);
    if (!decision.ok()) return decision.status();
    return Lease(core_, id, *decision);
  });
}
bool PrefixRouter::FirstToken(LeaseId lease) { return core_->FirstToken(lease); }
bool PrefixRouter::Finish(LeaseId lease, const FinishInfo& info) {
  return core_->Finish(lease, info);
}
bool PrefixRouter::Cancel(LeaseId lease) { return core_->Cancel(lease); }

Result<ScoreTable> PrefixRouter::Score(const Request& request) const {
  return Guard([&] { return core_->Score(request); });
}
RouterStats PrefixRouter::Stats() const { return core_->Stats(); }
const RouterOptions& PrefixRouter::options() const { return core_->options(); }
const BlockHasher& PrefixRouter::hasher() const { return core_->hasher(); }

// ---- Lease -------------------------------------------------------------------------------------

Lease::Lease(std::shared_ptr<RouterCore> core, LeaseId id, const Decision& decision)
    : core_(std::move(core)), id_(id), decision_(decision) {}

Lease::Lease(Lease&& other) noexcept
    : core_(std::move(other.core_)), id_(other.id_), decision_(other.decision_) {
  other.id_ = LeaseId();
}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    Cancel();
    core_ = std::move(other.core_);
    id_ = other.id_;
    decision_ = other.decision_;
    other.id_ = LeaseId();
  }
  return *this;
}

Lease::~Lease() { Cancel(); }

bool Lease::FirstToken() { return core_ != nullptr && core_->FirstToken(id_); }

bool Lease::Finish(const FinishInfo& info) {
  return core_ != nullptr && core_->Finish(Release(), info);
}

bool Lease::Cancel() { return core_ != nullptr && id_.valid() && core_->Cancel(Release()); }

LeaseId Lease::Release() {
  const LeaseId id = id_;
  id_ = LeaseId();
  return id;
}

}  // namespace prefixrouter
