#include "lib/sim/engine.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace prefixrouter {
namespace {

uint32_t PageTokens(uint32_t page_tokens, uint32_t block_tokens) {
  return block_tokens % page_tokens == 0 ? page_tokens : block_tokens;
}

uint64_t CapacityPages(const EngineOptions& options, double capacity, uint32_t page_tokens) {
  const double tokens = static_cast<double>(options.kv_capacity_tokens) * capacity;
  return std::max<uint64_t>(static_cast<uint64_t>(tokens) / page_tokens, 1);
}

}  // namespace

Engine::Engine(const EngineOptions& options, double speed, double capacity, uint32_t block_tokens)
    : options_(options),
      speed_(speed),
      block_tokens_(block_tokens),
      page_tokens_(PageTokens(options.page_tokens, block_tokens)),
      cache_(CapacityPages(options, capacity, page_tokens_), block_tokens / page_tokens_) {}

bool Engine::Fits(uint32_t prompt_tokens, uint32_t output_tokens) const {
  return PagesFor(uint64_t{prompt_tokens} + output_tokens, 0) <= cache_.capacity_pages();
}

void Engine::Submit(const EngineRequest& request) {
  State state;
  state.request = request;
  state.request.output_tokens = std::max(request.output_tokens, 1u);
  state.known = std::max(request.prompt_tokens, 1u);
  waiting_.push_back(std::move(state));
}

bool Engine::Grow(State* state, uint32_t tokens) {
  const uint64_t pages = PagesFor(uint64_t{state->computed} + tokens, state->blocks.size());
  if (pages <= state->private_pages) return true;
  if (!cache_.Allocate(pages - state->private_pages)) return false;
  state->private_pages = static_cast<uint32_t>(pages);
  return true;
}

void Engine::Schedule(State* state, uint32_t tokens) {
  state->scheduled = tokens;
  const double computed = state->computed;
  if (state->generated > 0 && tokens == 1) {
    ++work_.decode_requests;
    work_.decode_context += computed + 1;
  } else {
    work_.prefill_tokens += tokens;
    work_.prefill_pairs += tokens * (computed + 0.5 * (tokens + 1.0));
  }
}

void Engine::Drop(State* state) {
  cache_.Release(state->blocks);
  cache_.Free(state->private_pages);
  state->blocks.clear();
  state->private_pages = 0;
  state->computed = 0;
  state->scheduled = 0;
}

void Engine::PreemptLast() {
  State state = std::move(running_.back());
  running_.pop_back();
  Drop(&state);
  ++state.preemptions;
  waiting_.push_front(std::move(state));
}

bool Engine::AdmitNext(uint32_t budget) {
  State& next = waiting_.front();
  const Span<const uint64_t> keys = next.request.keys;
  const size_t most = std::min<size_t>(keys.size(), (next.known - 1) / block_tokens_);
  const BlockCache::Match match = cache_.Find(keys.subspan(0, most));
  if (!cache_.HasRoom(PagesFor(next.known, match.blocks), match.idle)) return false;

  State state = std::move(next);
  waiting_.pop_front();
  state.blocks.reserve(keys.size());
  cache_.Acquire(keys.subspan(0, match.blocks), &state.blocks);
  state.computed = match.blocks * block_tokens_;
  if (!state.admitted) state.cached_tokens = state.computed;
  state.admitted = true;
  const uint32_t tokens = std::min(state.known - state.computed, budget);
  Grow(&state, tokens);
  Schedule(&state, tokens);
  running_.push_back(std::move(state));
  return true;
}

double Engine::StartStep() {
  work_ = StepWork();
  uint32_t budget = options_.max_batched_tokens;
  bool preempted = false;
  for (size_t i = 0; i < running_.size() && budget > 0; ++i) {
    const uint32_t tokens = std::min(running_[i].known - running_[i].computed, budget);
    while (i < running_.size() && !Grow(&running_[i], tokens)) {
      PreemptLast();
      preempted = true;
    }
    if (i == running_.size()) break;
    Schedule(&running_[i], tokens);
    budget -= tokens;
  }
  while (!preempted && budget > 0 && !waiting_.empty() &&
         running_.size() < options_.max_running_requests && AdmitNext(budget)) {
    budget -= running_.back().scheduled;
  }
  if (running_.empty()) return 0;
  stepping_ = true;
  return StepSeconds(options_, work_) / speed_;
}

void Engine::PublishBlocks(State* state) {
  const Span<const uint64_t> keys = state->request.keys;
  uint64_t done = state->blocks.size();
  if (done == keys.size()) return;
  while (done < keys.size() && (done + 1) * block_tokens_ <= state->computed) {
    const uint64_t parent = done == 0 ? 0 : keys[done - 1];
    state->blocks.push_back(cache_.Publish(keys[done], parent, done == 0));
    state->private_pages -= block_tokens_ / page_tokens_;
    ++done;
  }
}

void Engine::FinishStep(std::vector<EngineEvent>* events) {
  stepping_ = false;
  size_t kept = 0;
  for (size_t i = 0; i < running_.size(); ++i) {
    State& state = running_[i];
    state.computed += state.scheduled;
    state.scheduled = 0;
    PublishBlocks(&state);
    bool finished = false;
    if (state.computed == state.known) {
      ++state.generated;
      ++state.known;
      finished = state.generated == state.request.output_tokens;
      if (finished || state.generated == 1) {
        events->push_back({state.request.id, state.generated == 1, finished, state.cached_tokens,
                           state.preemptions});
      }
    }
    if (finished) {
      Drop(&state);
      continue;
    }
    if (kept != i) running_[kept] = std::move(state);
    ++kept;
  }
  running_.erase(running_.begin() + static_cast<int64_t>(kept), running_.end());
}

std::vector<uint32_t> Engine::Fail() {
  std::vector<uint32_t> ids;
  for (State& state : running_) {
    ids.push_back(state.request.id);
    cache_.Release(state.blocks);
  }
  for (const State& state : waiting_) ids.push_back(state.request.id);
  running_.clear();
  waiting_.clear();
  cache_.Clear();
  stepping_ = false;
  return ids;
}

}  // namespace prefixrouter
