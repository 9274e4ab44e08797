#include "lib/router_core.h"

#include <algorithm>
#include <cmath>

#include "lib/base/exceptions.h"
#include "lib/options.h"
#include "lib/policy/builtin.h"

namespace prefixrouter {
namespace {

// A new part up to this many blocks is hashed under the lock (about 50 ns): leaving it and matching
// again costs more.
constexpr uint32_t kFewBlocks = 8;

// How many requests it takes to believe that first blocks are known now, or unknown.
constexpr int kStreak = 4;

// An index this full says something about the true capacity.
constexpr double kFullShare = 0.9;

// SplitMix64 (G. Steele, D. Lea, C. Flood, 2014): the number that follows a state.
constexpr uint64_t kRandomStep = 0x9E3779B97F4A7C15u;
uint64_t RandomAfter(uint64_t state) {
  uint64_t z = state + kRandomStep;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  return z ^ z >> 31;
}

std::string Describe(InstanceId id) {
  return "instance " + std::to_string(id.slot()) + "." + std::to_string(id.generation());
}

Status NotFound(InstanceId id) {
  return Status(StatusCode::kNotFound, "no such instance: " + Describe(id));
}

}  // namespace

struct RouterCore::Snapshot {
  explicit Snapshot(const PolicyInput& in)
      : ids(in.ids, in.ids + in.size),
        eligible(in.eligible, in.eligible + in.size),
        cached_blocks(in.cached_blocks, in.cached_blocks + in.size),
        costs(in.size, 0.0f),
        input(in) {
    const float** const arrays[] = {
        &input.pending_tokens, &input.tokens_per_s, &input.seconds_per_token, &input.requests,
        &input.waiting,        &input.crowding,     &input.kv_tokens,         &input.kv_usage,
        &input.weight,         &input.displacement};
    floats.reserve(in.size * std::size(arrays));
    for (const float** array : arrays) {
      const float* const copy = floats.data() + floats.size();
      floats.insert(floats.end(), *array, *array + in.size);
      *array = copy;
    }
    input.ids = ids.data();
    input.eligible = eligible.data();
    input.cached_blocks = cached_blocks.data();
  }

  std::vector<InstanceId> ids;
  std::vector<uint8_t> eligible;
  std::vector<uint32_t> cached_blocks;
  std::vector<float> floats;
  std::vector<float> costs;
  PolicyInput input;
};

// The scratch of this thread, for as long as a decision lasts. A custom policy may use another
// router meanwhile, which then gets a new one. At the end the decision's garbage goes, so it
// has to be made before the lock is taken.
class RouterCore::ScratchLoan {
 public:
  explicit ScratchLoan(RouterCore& core) : scratch_(std::move(spare_)) {
    if (scratch_ != nullptr) return;
    scratch_ = std::make_unique<Scratch>();
    scratch_->thread = core.next_thread_.fetch_add(1, std::memory_order_relaxed);
  }
  ~ScratchLoan() {
    scratch_->garbage.Free();
    spare_ = std::move(scratch_);
  }
  ScratchLoan(const ScratchLoan&) = delete;
  ScratchLoan& operator=(const ScratchLoan&) = delete;

  Scratch& operator*() const { return *scratch_; }

 private:
  static thread_local std::unique_ptr<Scratch> spare_;

  std::unique_ptr<Scratch> scratch_;
};

thread_local std::unique_ptr<RouterCore::Scratch> RouterCore::ScratchLoan::spare_;

// Times a call from its Query to the end of the scope, which is to be outside of the lock.
class RouterCore::Timer {
 public:
  Timer(RouterCore& core, const Query& query)
      : core_(core), due_(core.latency_.Due(query.now_nanos)), started_nanos_(query.now_nanos) {}
  ~Timer() {
    if (due_) core_.latency_.Record(core_.Now() - started_nanos_);
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

 private:
  RouterCore& core_;
  const bool due_;
  const int64_t started_nanos_;
};

RouterCore::Query::Query(const RouterCore& core, const Request& request_in)
    : request(request_in),
      now_nanos(core.Now()),
      keys(core.hasher_, request_in),
      prompt_tokens(PromptTokens(request_in, core.options_)),
      tokens_per_block(request_in.form == PromptForm::kText
                           ? static_cast<float>(core.options_.text_block_bytes /
                                                core.options_.text_bytes_per_token)
                           : static_cast<float>(core.options_.block_size)) {
  if (!request.session_key.empty()) {
    session = core.hasher_.HashBytes(request.session_key.data(), request.session_key.size());
    if (session == 0) session = 1;
  }
  affinity = session;
  if (affinity == 0) affinity = keys.first_key();
  if (core.prefix_tokens_ > 0) {
    const float blocks = std::ceil(core.prefix_tokens_ / tokens_per_block);
    prefix_hash = keys.PrefixKey(static_cast<uint32_t>(blocks));
  }
}

uint64_t RouterCore::Query::CachedTokens(double blocks) const {
  return std::min(prompt_tokens,
                  static_cast<uint64_t>(static_cast<double>(tokens_per_block) * blocks));
}

RouterCore::RouterCore(const RouterOptions& options)
    : options_(options),
      hasher_(options.block_size, *options.key_seed, options.text_block_bytes),
      policy_(options.custom_policy != nullptr
                  ? options.custom_policy
                  : std::shared_ptr<Policy>(MakePolicy(options.policy, options.policy_options))),
      custom_policy_(options.custom_policy != nullptr),
      prefix_tokens_(!custom_policy_ && options.policy == "prefix_hash"
                         ? static_cast<float>(options.policy_options.hash_prefix_tokens)
                         : 0),
      latency_(std::isinf(options.latency_interval_s)
                   ? LatencyRecorder::kNever
                   : static_cast<uint64_t>(Nanos(options.latency_interval_s))),
      index_(options.index_budget_bytes),
      awaited_(Nanos(options.confirm_window_s)),
      load_(options),
      sessions_(options.max_sessions, Nanos(options.session_ttl_s)),
      homes_(custom_policy_ || options.policy == "prefix_cost" ? options.routers : 1),
      random_state_(*options.random_seed) {
  const double weights[] = {1, options.cpu_tier_weight, options.disk_tier_weight,
                            options.external_tier_weight};
  static_assert(kKvTierCount == PrefixIndex::kTierCount && kKvTierCount == std::size(weights));
  for (uint32_t tier = 0; tier < kKvTierCount; ++tier) {
    tier_weights_[tier] = weights[tier];
    if (weights[tier] > 0) counted_tiers_ |= 1u << tier;
  }
}

// ---- Instances ---------------------------------------------------------------------------------

Result<InstanceId> RouterCore::AddInstance(const InstanceOptions& options) {
  if (Status check = CheckInstance(options); !check.ok()) return check;
  MutexLock lock(mutex_);
  const std::pair<std::string, uint32_t> key(options.name, options.rank);
  if (names_.contains(key)) {
    return Status(StatusCode::kAlreadyExists, "there is an instance \"" + options.name +
                                                  "\" of rank " + std::to_string(options.rank));
  }
  if (load_.live_count() >= options_.max_instances) {
    return Status(StatusCode::kResourceExhausted,
                  "max_instances is " + std::to_string(options_.max_instances));
  }
  uint32_t slot;
  if (free_slots_.empty()) {
    slot = static_cast<uint32_t>(generations_.size());
    generations_.push_back(0);
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
  }
  if (++generations_[slot] == 0) generations_[slot] = 1;
  const InstanceId id = InstanceId::Make(slot, generations_[slot]);
  homes_.InstanceAdded(id, options.name, options.rank);
  names_[key] = id;
  load_.Add(id, options);
  counters_.AddSlot(slot);
  index_.AddSlot(slot, options.capacity_blocks, Nanos(options_.predicted_ttl_s));
  policy_->InstanceAdded(id, options.name, options.rank);
  return id;
}

Status RouterCore::RemoveInstance(InstanceId id) {
  MutexLock lock(mutex_);
  if (!load_.Live(id)) return NotFound(id);
  names_.erase({load_.name(id), load_.rank(id)});
  policy_->InstanceRemoved(id);
  homes_.InstanceRemoved(id);
  stats_.leases_cancelled += leases_.RemoveAllOf(id);
  index_.RemoveSlot(id.slot());
  if (id.slot() < events_.size()) events_[id.slot()] = EventState();
  awaited_.Forget(id.slot());
  displacement_.Forget(id.slot());
  load_.Remove(id);
  free_slots_.push_back(id.slot());
  return Status();
}

Result<InstanceId> RouterCore::FindInstance(std::string_view name, uint32_t rank) const {
  MutexLock lock(mutex_);
  const auto found = names_.find(std::pair<std::string, uint32_t>(name, rank));
  if (found != names_.end()) return found->second;
  return Status(StatusCode::kNotFound,
                "no instance \"" + std::string(name) + "\" of rank " + std::to_string(rank));
}

Result<std::string> RouterCore::InstanceName(InstanceId id) const {
  MutexLock lock(mutex_);
  if (!load_.Live(id)) return NotFound(id);
  return std::string(load_.name(id));
}

Status RouterCore::SetInstanceState(InstanceId id, InstanceState state, double for_s) {
  if (state != InstanceState::kReady && state != InstanceState::kDraining &&
      state != InstanceState::kDown) {
    return Status(StatusCode::kInvalidArgument, "state must be ready, draining or down, got " +
                                                    std::to_string(static_cast<int32_t>(state)));
  }
  if (!(for_s >= 0)) {
    return Status(StatusCode::kInvalidArgument,
                  "for_s must be 0 or more, got " + std::to_string(for_s));
  }
  const int64_t now = Now();
  MutexLock lock(mutex_);
  if (!load_.Live(id)) return NotFound(id);
  const int64_t until = for_s == 0 ? INT64_MAX : Advance(now) + Nanos(for_s);
  load_.SetState(id, state, until);
  return Status();
}

Status RouterCore::ReportLoad(InstanceId id, const EngineLoad& load) {
  if (Status check = CheckLoad(load); !check.ok()) return check;
  const int64_t now = Now();
  MutexLock lock(mutex_);
  if (!load_.Live(id)) return NotFound(id);
  load_.Report(id, load, Advance(now));
  return Status();
}

void RouterCore::Close() {
  MutexLock lock(mutex_);
  leases_ = LeaseTable();
}

// ---- Leases ------------------------------------------------------------------------------------

int64_t RouterCore::Advance(int64_t now_nanos) {
  now_nanos_ = std::max(now_nanos_, now_nanos);
  for (uint32_t slot; (slot = awaited_.EndNext(now_nanos_)) != AwaitedPrefills::kNone;) {
    index_.AwaitSince(slot, awaited_.Since(slot));
  }
  index_.Expire(now_nanos_);
  const int64_t ttl_nanos = Nanos(options_.lease_ttl_s);
  for (LeaseId oldest = leases_.Oldest(); oldest.valid(); oldest = leases_.Oldest()) {
    if (leases_.Find(oldest)->started_nanos > now_nanos_ - ttl_nanos) break;
    EndLease(oldest, LeaseEnd::kExpired, {}, now_nanos_);
  }
  load_.Refresh(now_nanos_);
  return now_nanos_;
}

bool RouterCore::EndLease(LeaseId id, LeaseEnd end, const FinishInfo& info, int64_t now_nanos) {
  const LeaseRecord* found = leases_.Find(id);
  if (found == nullptr) return false;
  const LeaseRecord lease = *found;
  leases_.Remove(id);
  switch (end) {
    case LeaseEnd::kFinished:
      ++stats_.leases_finished;
      break;
    case LeaseEnd::kCancelled:
      ++stats_.leases_cancelled;
      break;
    case LeaseEnd::kExpired:
      ++stats_.leases_expired;
      break;
  }
  index_.Unpin(lease.pinned, now_nanos);
  load_.Release(lease, now_nanos);
  awaited_.Settle(lease.instance.slot(), lease.awaited, now_nanos);  // may find no memory
  if (info.output_tokens > 0) stats_.output_tokens += static_cast<uint64_t>(info.output_tokens);
  if (info.engine_cached_tokens >= 0) {
    Learn(lease, std::min(static_cast<uint64_t>(info.engine_cached_tokens), lease.prompt_tokens));
  }
  return true;
}

void RouterCore::Learn(const LeaseRecord& lease, uint64_t reported_cached_tokens) {
  const uint64_t predicted = lease.cached_tokens;
  ++stats_.reported_requests;
  stats_.reported_cached_tokens += reported_cached_tokens;
  stats_.predicted_cached_tokens += predicted;
  stats_.over_predicted_tokens += predicted - std::min(predicted, reported_cached_tokens);
  stats_.under_predicted_tokens +=
      reported_cached_tokens - std::min(predicted, reported_cached_tokens);
  if (const uint64_t known = lease.known_at_home; known < lease.prompt_tokens) {
    homes_.Learn(static_cast<double>(lease.prompt_tokens - known),
                 static_cast<double>(std::max(reported_cached_tokens, known) - known));
  }
  const uint32_t slot = lease.instance.slot();
  if (EventDriven(slot)) return;  // what it holds is known
  const uint64_t capacity = load_.CapacityBlocks(lease.instance);
  const bool full =
      static_cast<double>(index_.held_blocks(slot)) >= kFullShare * static_cast<double>(capacity);
  if (load_.LearnCapacity(lease, reported_cached_tokens, full)) {
    index_.SetCapacity(slot, load_.CapacityBlocks(lease.instance));
  }
}

bool RouterCore::FirstToken(LeaseId id) {
  const int64_t now = Now();
  MutexLock lock(mutex_);
  Advance(now);
  LeaseRecord* lease = leases_.Find(id);
  if (lease == nullptr || lease->first_token) return false;
  load_.FirstToken(*lease, now_nanos_);
  lease->first_token = true;
  awaited_.Settle(lease->instance.slot(), lease->awaited, now_nanos_);  // may find no memory
  return true;
}

bool RouterCore::Finish(LeaseId id, const FinishInfo& info) {
  const int64_t now = Now();
  MutexLock lock(mutex_);
  Advance(now);
  return EndLease(id, LeaseEnd::kFinished, info, now_nanos_);
}

bool RouterCore::Cancel(LeaseId id) {
  const int64_t now = Now();
  MutexLock lock(mutex_);
  Advance(now);
  return EndLease(id, LeaseEnd::kCancelled, {}, now_nanos_);
}

// ---- Decisions ---------------------------------------------------------------------------------

PolicyInput RouterCore::MakeInput(const Query& query, Scratch& scratch) {
  const Request& request = query.request;
  PolicyInput in;
  load_.FillInput(&in);
  in.cached_blocks = scratch.path.matched.data();
  if (index_.HasLowerTiers()) {
    const Path& path = scratch.path;
    scratch.credit_blocks.assign(path.matched.begin(), path.matched.end());
    scratch.rounded_credit = path.matched;
    for (uint32_t slot = 0; slot < path.matched.size(); ++slot) {
      if (path.matched[slot] == 0 || !index_.HasLowerTiers(slot)) continue;
      scratch.credit_blocks[slot] = index_.Credit(path, slot, tier_weights_);
      scratch.rounded_credit[slot] =
          static_cast<uint32_t>(std::lround(scratch.credit_blocks[slot]));
    }
    in.cached_blocks = scratch.rounded_credit.data();
  }
  in.tokens_per_block = query.tokens_per_block;
  in.prompt_tokens = static_cast<float>(query.prompt_tokens);
  in.expected_output_tokens = static_cast<float>(request.expected_output_tokens);
  in.priority = request.priority;
  in.affinity_hash = query.affinity;
  in.prefix_hash = query.prefix_hash;
  in.sequence = sequence_;
  in.random = RandomAfter(random_state_);

  scratch.costs.resize(in.size);
  scratch.ties.resize(in.size);
  scratch.penalty = load_.ready_count() == in.size ? nullptr : load_.penalty();
  scratch.candidates = scratch.choosable = load_.ready_count();
  const bool masked = !request.allowed.empty() || request.max_ttft_s != 0;
  if (masked) MaskForbidden(request, scratch, &in);
  if (homes_.used() && scratch.candidates != 0) FindHome(query, scratch, &in);
  if (masked) MaskSlow(query, scratch, &in);
  return in;
}

void RouterCore::MaskForbidden(const Request& request, Scratch& scratch, PolicyInput* in) {
  if (request.allowed.empty()) {
    scratch.masked_eligible.assign(in->eligible, in->eligible + in->size);
  } else {
    scratch.masked_eligible.assign(in->size, 0);
    scratch.candidates = 0;
    for (InstanceId id : request.allowed) {
      if (!load_.Live(id) || scratch.masked_eligible[id.slot()] != 0) continue;
      scratch.masked_eligible[id.slot()] = in->eligible[id.slot()];
      scratch.candidates += in->eligible[id.slot()];
    }
  }
  in->eligible = scratch.masked_eligible.data();
}

void RouterCore::MaskSlow(const Query& query, Scratch& scratch, PolicyInput* in) {
  const double max_ttft_s = query.request.max_ttft_s;
  scratch.masked_penalty.assign(in->size, INFINITY);
  scratch.choosable = 0;
  for (uint32_t slot = 0; slot < in->size; ++slot) {
    if (scratch.masked_eligible[slot] == 0) continue;
    if (max_ttft_s == 0 || PredictedTtft(query, *in, slot) <= max_ttft_s) {
      scratch.masked_penalty[slot] = 0;
      ++scratch.choosable;
    } else {
      scratch.masked_eligible[slot] = 0;
    }
  }
  scratch.penalty = scratch.masked_penalty.data();
  // Other routers do not know of the bound, so it does not move the home.
  if (in->home != PolicyInput::kNoHome && scratch.masked_eligible[in->home] == 0) {
    in->home = PolicyInput::kNoHome;
    in->home_tokens = 0;
  }
}

void RouterCore::FindHome(const Query& query, Scratch& scratch, PolicyInput* in) {
  const Path& path = scratch.path;
  const Branch branch = PrefixIndex::BranchOf(query.keys, path);
  const uint64_t key = query.session != 0 ? query.session : branch.key;
  if (key == 0) return;
  const uint32_t home = homes_.Find(*in, key);
  if (home == PolicyInput::kNoHome) return;
  // KV events tell what of the branch is held anywhere. If home holds less, it is not at home; if
  // not, more may be on its way there.
  if (EventDriven(home) && path.matched[home] < path.blocks && path.blocks > branch.start) return;
  const uint64_t shared = query.CachedTokens(branch.start);
  scratch.known_at_home = std::max(shared, query.CachedTokens(path.matched[home]));
  const auto unknown = static_cast<double>(query.prompt_tokens - scratch.known_at_home);
  const auto own = static_cast<double>(query.prompt_tokens - shared);
  in->home = home;
  in->home_tokens = static_cast<float>(homes_.Tokens(unknown, own));
}

uint64_t RouterCore::CreditTokens(const Query& query, const Scratch& scratch, uint32_t slot) const {
  return query.CachedTokens(index_.HasLowerTiers() ? scratch.credit_blocks[slot]
                                                   : scratch.path.matched[slot]);
}

double RouterCore::PredictedTtft(const Query& query, const PolicyInput& in, uint32_t slot) const {
  const uint64_t uncached = query.prompt_tokens - query.CachedTokens(in.cached_blocks[slot]);
  return (static_cast<double>(in.overhead_tokens) + static_cast<double>(in.pending_tokens[slot]) +
          static_cast<double>(uncached)) /
         in.tokens_per_s[slot];
}

Status RouterCore::NoCandidate(const Request& request, const Scratch& scratch) const {
  if (scratch.candidates != 0) {
    return Status(StatusCode::kResourceExhausted,
                  "the predicted time to first token of all " + std::to_string(scratch.candidates) +
                      " candidates is above max_ttft_s, " + std::to_string(request.max_ttft_s));
  }
  if (load_.live_count() == 0) return Status(StatusCode::kUnavailable, "there is no instance");
  return Status(StatusCode::kUnavailable,
                std::to_string(load_.live_count()) + " instances, of which " +
                    std::to_string(load_.ready_count()) + " are ready" +
                    (request.allowed.empty() ? "" : " and none of those is in `allowed`"));
}

Status RouterCore::ScoreWithoutLock(const Query& query, Scratch& scratch) {
  Snapshot snapshot(MakeInput(query, scratch));
  Status status;
  {
    MutexUnlock unlocked(mutex_);
    try {
      policy_->Score(snapshot.input, snapshot.costs.data());
    } catch (...) {
      status = CurrentExceptionStatus(std::string("policy ") + policy_->name() + " failed: ");
    }
  }
  if (!status.ok()) return status;
  // Instances may have come and gone: costs belong to ids, not to slots.
  scratch.costs.assign(load_.slot_limit(), INFINITY);
  for (size_t i = 0; i < snapshot.ids.size(); ++i) {
    if (load_.Live(snapshot.ids[i])) scratch.costs[i] = snapshot.costs[i];
  }
  index_.Match(query.keys, &scratch.path, true);
  return Status();
}

uint32_t RouterCore::SessionSlot(const Query& query, const PolicyInput& in, uint32_t chosen) {
  InstanceId id;
  double slack_s = options_.session_slack_s;
  if (!custom_policy_ && in.home != PolicyInput::kNoHome) {
    // What this router remembers the others do not. They go home, as far as that has come true.
    id = load_.id(in.home);
    slack_s *= homes_.share();
  } else {
    id = sessions_.Find(query.session, now_nanos_);
  }
  if (!id.valid() || !load_.Live(id) || in.eligible[id.slot()] == 0) return Choice::kNone;
  const double extra = PredictedTtft(query, in, id.slot()) - PredictedTtft(query, in, chosen);
  return extra <= slack_s ? id.slot() : Choice::kNone;
}

// Matches the request, hashing it as far as that needs. Leaves the lock for all long hashing, and
// returns right after a match under it.
void RouterCore::MatchQuery(Query& query, bool for_insert, Path* path) {
  PromptKeys& keys = query.keys;
  if (!for_insert && !keys.complete() && index_.KnowsFirstBlock(keys.first_key())) {
    MutexUnlock unlocked(mutex_);
    keys.Hash(true);
  }
  index_.Match(keys, path);
  if (path->needs_block_keys) {
    {
      MutexUnlock unlocked(mutex_);
      keys.HashBlocks(0, keys.root_key());
    }
    index_.Match(keys, path);
  }
  if (!for_insert || path->blocks >= keys.keys_begin()) return;
  const uint32_t first = path->blocks;
  const uint64_t last_key = path->last_key;
  if (keys.block_count() - first <= kFewBlocks || keys.HashedAhead(first, last_key)) {
    keys.HashBlocks(first, last_key);
    return;
  }
  {
    MutexUnlock unlocked(mutex_);
    keys.HashBlocks(first, last_key);
  }
  index_.Match(keys, path, true);
}

Result<Decision> RouterCore::Place(const Request& request, LeaseId* lease) {
  if (Status check = CheckRequest(request, options_); !check.ok()) return check;
  Query query(*this, request);
  const Timer timer(*this, query);
  const ScratchLoan loan(*this);
  Scratch& scratch = *loan;
  query.keys.UseMemoryOf(&scratch.garbage);
  // A visit to the lock to look at the first block would cost more than a wrong guess now and then.
  query.keys.Hash(known_streak_.load(std::memory_order_relaxed) >= 0);
  if (!query.keys.complete()) scratch.ends.HashAhead(query.keys);
  Decision decision;
  const Status decided = Decide(query, scratch, &decision, lease);
  scratch.ends.Learn(query.keys, scratch.known_blocks, scratch.known_key);
  if (!decided.ok()) return decided;
  return decision;
}

Status RouterCore::Decide(Query& query, Scratch& scratch, Decision* result, LeaseId* lease) {
  Path& path = scratch.path;
  MutexLock lock(mutex_);
  Advance(query.now_nanos);
  MatchQuery(query, true, &path);
  scratch.known_blocks = path.blocks;
  scratch.known_key = path.last_key;
  const int streak = known_streak_.load(std::memory_order_relaxed);
  const int next_streak = std::clamp(streak + (path.steps.empty() ? -1 : 1), -kStreak, kStreak - 1);
  if (next_streak != streak) known_streak_.store(next_streak, std::memory_order_relaxed);
  if (custom_policy_) {
    if (Status scored = ScoreWithoutLock(query, scratch); !scored.ok()) return scored;
  }
  const int64_t now = now_nanos_;
  const PolicyInput in = MakeInput(query, scratch);
  if (scratch.choosable == 0) {
    ++(scratch.candidates != 0 ? stats_.rejected : stats_.unavailable);
    return NoCandidate(query.request, scratch);
  }
  float* const costs = scratch.costs.data();
  if (!custom_policy_) policy_->Score(in, costs);
  const Choice choice = ChooseLowest(*policy_, in, scratch.penalty, costs, scratch.ties.data());
  uint32_t slot = choice.slot;

  Decision& decision = *result;
  decision.rule = scratch.candidates == 1 ? Rule::kOnlyCandidate : choice.rule;
  uint32_t runner_up = choice.runner_up;
  if (query.session != 0) {
    const uint32_t session_slot = SessionSlot(query, in, slot);
    if (session_slot != Choice::kNone && scratch.candidates > 1) {
      if (session_slot != slot) runner_up = slot;
      slot = session_slot;
      decision.rule = Rule::kSession;
    }
  }

  const uint32_t missing_blocks = query.keys.block_count() - path.matched[slot];
  index_.PrefetchInsert(slot, path);
  index_.PrefetchOldest(slot, missing_blocks);
  decision.instance = load_.id(slot);
  decision.prompt_tokens = query.prompt_tokens;
  decision.cached_tokens = query.CachedTokens(path.matched[slot]);
  decision.cached_credit_tokens = CreditTokens(query, scratch, slot);
  decision.best_cached_tokens = decision.cached_tokens;
  if (path.matched[slot] != path.blocks) {  // nobody holds more than the path is long
    decision.best_cached_tokens =
        query.CachedTokens(MostCachedBlocks(path.matched.data(), scratch.penalty, in.size));
  }
  decision.predicted_ttft_s = PredictedTtft(query, in, slot);
  decision.cost = policy_->Explain(in, slot, scratch.costs[slot]);
  decision.miss_weight = policy_->MissWeight(in);
  if (slot == in.home) decision.home_tokens = in.home_tokens;
  if (runner_up != Choice::kNone) {
    decision.runner_up = load_.id(runner_up);
    decision.runner_up_cost = scratch.costs[runner_up];
  }
  decision.candidates = scratch.candidates;
  decision.stale_report = load_.StaleReport(slot, now);

  index_.PrefetchOldestRun(slot, missing_blocks);

  // From here on the decision has its effects.
  random_state_ += kRandomStep;
  ++sequence_;
  counters_.Count(scratch.thread, decision);
  if (slot == in.home) ++stats_.requests_at_home;
  load_.CountRequest(decision.uncached_tokens(), now);
  if (query.session != 0) sessions_.Set(query.session, decision.instance, now);

  const InsertResult inserted = index_.Insert(slot, query.keys, &path, now, lease != nullptr);
  if (lease == nullptr) {
    load_.AddFluid(decision.instance, decision.uncached_tokens());
    return Status();
  }
  LeaseRecord record;
  record.instance = decision.instance;
  record.started_nanos = now;
  record.prompt_tokens = decision.prompt_tokens;
  record.cached_tokens = decision.cached_tokens;
  record.kv_tokens = decision.prompt_tokens + query.request.expected_output_tokens;
  record.pinned = inserted.pinned;
  if (slot == in.home) record.known_at_home = scratch.known_at_home;
  load_.Reserve(&record);
  if (EventDriven(slot)) {
    record.awaited = awaited_.Add(slot, now);
    index_.AwaitSince(slot, awaited_.Since(slot));
  }
  *lease = leases_.Add(record);
  return Status();
}

Result<ScoreTable> RouterCore::Score(const Request& request) {
  if (Status check = CheckRequest(request, options_); !check.ok()) return check;
  Query query(*this, request);
  const ScratchLoan loan(*this);
  Scratch& scratch = *loan;
  MutexLock lock(mutex_);
  Advance(query.now_nanos);
  MatchQuery(query, false, &scratch.path);
  if (custom_policy_) {
    if (Status scored = ScoreWithoutLock(query, scratch); !scored.ok()) return scored;
  }
  const int64_t now = now_nanos_;
  const PolicyInput in = MakeInput(query, scratch);
  if (!custom_policy_) policy_->Score(in, scratch.costs.data());

  ScoreTable table;
  table.prompt_tokens = query.prompt_tokens;
  table.miss_weight = policy_->MissWeight(in);
  table.rows.reserve(load_.live_count());
  for (uint32_t slot = 0; slot < in.size; ++slot) {
    if (!load_.id(slot).valid()) continue;
    ScoreRow row;
    row.instance = load_.id(slot);
    row.eligible = in.eligible[slot] != 0;
    row.stale_report = load_.StaleReport(slot, now);
    row.cached_tokens = query.CachedTokens(scratch.path.matched[slot]);
    row.cached_credit_tokens = CreditTokens(query, scratch, slot);
    if (slot == in.home) row.home_tokens = in.home_tokens;
    row.predicted_ttft_s = PredictedTtft(query, in, slot);
    row.cost = policy_->Explain(in, slot, scratch.costs[slot]);
    if (!row.eligible || std::isnan(row.cost.total)) row.cost.total = INFINITY;
    row.requests_in_flight = load_.Stats(slot, now).requests_in_flight;
    row.pending_tokens = in.pending_tokens[slot];
    table.rows.push_back(row);
  }
  return table;
}

RouterStats RouterCore::Stats() {
  const int64_t now = Now();
  MutexLock lock(mutex_);
  Advance(now);
  RouterStats stats = stats_;
  counters_.AddTo(&stats);
  stats.route_duration = latency_.Read();
  if (homes_.used()) stats.home_share = homes_.share();
  stats.index_bytes = index_.bytes();
  stats.index_budget_bytes = index_.budget_bytes();
  stats.index_runs = index_.run_count();
  stats.index_blocks = index_.block_count();
  stats.blocks_held = index_.total_held_blocks();
  stats.blocks_evicted = index_.evicted_blocks();
  stats.blocks_evicted_by_budget = index_.budget_evicted_blocks();
  stats.blocks_not_remembered = index_.not_remembered_blocks();
  stats.leases_active = leases_.size();
  stats.sessions = sessions_.size();
  stats.instances.reserve(load_.live_count());
  for (uint32_t slot = 0; slot < load_.slot_limit(); ++slot) {
    if (!load_.id(slot).valid()) continue;
    stats.instances.push_back(load_.Stats(slot, now_nanos_));
    InstanceStats& instance = stats.instances.back();
    counters_.AddTo(slot, &instance);
    instance.blocks_held = index_.held_blocks(slot);
    if (slot >= events_.size() || events_[slot].blocks == nullptr) continue;
    const EventState& events = events_[slot];
    instance.event_driven = true;
    instance.last_event_age_s = static_cast<double>(now_nanos_ - events.last_nanos) / 1e9;
    instance.kv_events = events.counts;
    instance.engine_blocks = events.blocks->size();
    std::copy_n(index_.tier_blocks(slot), kKvTierCount, instance.confirmed_blocks);
  }
  return stats;
}

}  // namespace prefixrouter
