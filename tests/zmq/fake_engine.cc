#include "tests/zmq/fake_engine.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>

#include "prefixrouter/kv_event_frames.h"

namespace prefixrouter::testing {
namespace {

constexpr size_t kPrompts = 30;
constexpr size_t kSharedPrompts = 5;  // so many beginnings
constexpr size_t kSharedBlocks = 3;
constexpr size_t kMaxBlocks = 9;
constexpr int kServeMs = 5;

uint64_t Mix(uint64_t a, uint64_t b) {
  uint64_t x = (a ^ (b + 0x9e3779b97f4a7c15)) * 0xbf58476d1ce4e5b9;
  x ^= x >> 31;
  x *= 0x94d049bb133111eb;
  return x ^ x >> 29;
}

// Catch2's assertions are for one thread; engines run in many.
void Require(const Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

ZmqSocket Open(void* context, int type, bool ipv6) {
  ZmqSocketOptions options;
  options.ipv6 = ipv6;
  options.reconnect_ms = 10;
  options.max_reconnect_ms = 10;
  auto socket = ZmqSocket::Open(context, type, options);
  Require(socket.status());
  return *std::move(socket);
}

void SendFrames(const ZmqSocket& socket, const std::vector<std::string>& frames) {
  for (size_t i = 0; i < frames.size(); ++i) {
    const int more = i + 1 < frames.size() ? ZMQ_SNDMORE : 0;
    zmq_send(socket.get(), frames[i].data(), frames[i].size(), more | ZMQ_DONTWAIT);
  }
}

}  // namespace

FakeEngine::FakeEngine(const EngineKnobs& knobs, uint64_t seed)
    : knobs_(knobs), context_(zmq_ctx_new()), random_(seed) {
  if (knobs_.endpoint.empty()) knobs_.endpoint = "tcp://127.0.0.1:*";
  if (knobs_.replay_endpoint.empty()) knobs_.replay_endpoint = "tcp://127.0.0.1:*";
  Start();
}

FakeEngine::~FakeEngine() {
  Stop();
  zmq_ctx_term(context_);
}

void FakeEngine::Start() {
  const std::lock_guard<std::mutex> lock(mutex_);
  const bool ipv6 = knobs_.endpoint.find('[') != std::string::npos;
  live_ = Open(context_, ZMQ_PUB, ipv6);
  router_ = Open(context_, ZMQ_ROUTER, ipv6);
  // The address may be in use for a moment after the last process.
  const auto bind = [](ZmqSocket& socket, std::string* endpoint) {
    Status status = socket.Bind(endpoint);
    for (int i = 0; i < 200 && status.code() == StatusCode::kAlreadyExists; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
      status = socket.Bind(endpoint);
    }
    Require(status);
  };
  if (knobs_.dials) {
    Require(live_.Connect(knobs_.endpoint));
  } else {
    bind(live_, &knobs_.endpoint);
  }
  bind(router_, &knobs_.replay_endpoint);
  ++process_;
  published_ = 0;
  stopping_ = false;
  server_ = std::thread([this] { Serve(); });
}

void FakeEngine::Stop() {
  stopping_ = true;
  if (server_.joinable()) server_.join();
  const std::lock_guard<std::mutex> lock(mutex_);
  live_.Close();
  router_.Close();
  blocks_.clear();
  by_use_.clear();
  events_.clear();
  history_.clear();
  held_.clear();
}

// ---- Cache --------------------------------------------------------------------------------------

bool FakeEngine::Chance(double share) {
  return std::uniform_real_distribution<double>(0, 1)(random_) < share;
}

std::vector<uint32_t> FakeEngine::PromptTokens(uint64_t prompt, size_t blocks) const {
  std::vector<uint32_t> tokens;
  for (size_t i = 0; i < blocks * knobs_.block_size; ++i) {
    const bool shared = i < kSharedBlocks * knobs_.block_size;
    const uint64_t source = shared ? prompt % kSharedPrompts : 1000 + prompt;
    tokens.push_back(static_cast<uint32_t>(Mix(source, i) % 50000));
  }
  return tokens;
}

// The numbers of the blocks: those of another process are others.
std::vector<uint64_t> FakeEngine::Chain(const std::vector<uint32_t>& tokens) const {
  std::vector<uint64_t> chain;
  uint64_t hash = Mix(static_cast<uint64_t>(process_), 77);
  for (size_t i = 0; i < tokens.size(); ++i) {
    hash = Mix(hash, tokens[i]);
    if ((i + 1) % knobs_.block_size == 0) chain.push_back(hash);
  }
  return chain;
}

void FakeEngine::Step() {
  const std::lock_guard<std::mutex> lock(mutex_);
  Request();
  Publish(knobs_.drop_every > 0 && published_ % static_cast<uint64_t>(knobs_.drop_every) == 1);
  if (Chance(knobs_.late_clear)) {
    AddEvent(KvEventKind::kCleared, KvTier::kGpu, {});
    blocks_.clear();
    by_use_.clear();
  }
}

void FakeEngine::Steps(int count) {
  for (int i = 0; i < count; ++i) Step();
  const std::lock_guard<std::mutex> lock(mutex_);
  Request();
  Publish(/*drop=*/false);
}

void FakeEngine::Send(const std::vector<std::string>& frames) {
  const std::lock_guard<std::mutex> lock(mutex_);
  SendFrames(live_, frames);
}

void FakeEngine::Request() {
  const std::vector<uint32_t> tokens = PromptTokens(Below(kPrompts), 1 + Below(kMaxBlocks));
  const std::vector<uint64_t> chain = Chain(tokens);
  for (size_t i = 0; i < chain.size();) {  // stretches of what is not there
    if (blocks_[chain[i]].copies > 0) {
      ++i;
      continue;
    }
    size_t end = i;
    while (end < chain.size() && blocks_[chain[end]].copies == 0) ++end;
    StoreRun(chain, tokens, i, end);
    i = end;
  }
  if (Chance(knobs_.copies)) StoreRun(chain, tokens, 0, chain.size());
  for (auto id = chain.rbegin(); id != chain.rend(); ++id) {  // the end is the first to go
    by_use_.remove(*id);
    by_use_.push_back(*id);
  }
  while (by_use_.size() > knobs_.capacity) Evict();
}

void FakeEngine::StoreRun(const std::vector<uint64_t>& chain, const std::vector<uint32_t>& tokens,
                          size_t first, size_t end) {
  const size_t size = knobs_.block_size;
  AddEvent(KvEventKind::kStored, KvTier::kGpu, {chain.begin() + first, chain.begin() + end});
  OwnedEvent& stored = events_.back();
  stored.tokens.assign(tokens.begin() + first * size, tokens.begin() + end * size);
  stored.event.tokens = stored.tokens;
  stored.event.has_parent = first > 0;
  stored.event.parent_id = first > 0 ? chain[first - 1] : 0;
  for (size_t i = first; i < end; ++i) {
    Block& block = blocks_[chain[i]];
    block.has_parent = i > 0;
    block.parent = i > 0 ? chain[i - 1] : 0;
    block.tokens.assign(tokens.begin() + i * size, tokens.begin() + (i + 1) * size);
    ++block.copies;
  }
}

void FakeEngine::Evict() {
  auto victim = by_use_.begin();
  if (knobs_.orphans) std::advance(victim, Below(by_use_.size()));
  const uint64_t id = *victim;
  by_use_.erase(victim);
  Block& block = blocks_[id];
  if (knobs_.offload && !block.on_cpu && Chance(0.5)) {
    AddEvent(KvEventKind::kStored, KvTier::kCpu, {id});
    events_.back().event.has_parent = block.has_parent;
    events_.back().event.parent_id = block.parent;
    block.on_cpu = true;
  }
  for (; block.copies > 0; --block.copies) {
    OwnedEvent* last = events_.empty() ? nullptr : &events_.back();
    if (!knobs_.one_by_one && last != nullptr && last->event.kind == KvEventKind::kRemoved &&
        last->event.tier == KvTier::kGpu) {
      last->ids.push_back(id);
      last->event.block_ids = last->ids;
    } else {
      AddEvent(KvEventKind::kRemoved, KvTier::kGpu, {id});
    }
  }
  if (block.on_cpu && Chance(0.3)) {
    AddEvent(KvEventKind::kRemoved, KvTier::kCpu, {id});
    block.on_cpu = false;
  }
}

void FakeEngine::AddEvent(KvEventKind kind, KvTier tier, std::vector<uint64_t> ids) {
  events_.emplace_back();
  OwnedEvent& added = events_.back();
  added.ids = std::move(ids);
  added.event.kind = kind;
  added.event.tier = tier;
  added.event.block_ids = added.ids;
  added.event.block_size = knobs_.block_size;
}

// ---- Sockets ------------------------------------------------------------------------------------

void FakeEngine::Publish(bool drop) {
  const uint64_t seq = knobs_.first_seq + published_++;
  KvEventBatch batch;
  batch.timestamp_s = process_ * 1e6 + static_cast<double>(seq);
  batch.has_rank = knobs_.rank >= 0;
  batch.rank = static_cast<uint32_t>(std::max(0, knobs_.rank));
  std::vector<KvEvent> events;
  for (const OwnedEvent& owned : events_) {
    events.push_back(owned.event);
    for (const uint64_t id : owned.ids) {
      const std::pair<KvTier, uint64_t> key(owned.event.tier, id);
      if (owned.event.kind == KvEventKind::kStored) {
        ++held_[key];
      } else if (--held_[key] == 0) {
        held_.erase(key);
      }
    }
    if (owned.event.kind == KvEventKind::kCleared) held_.clear();
  }
  batch.events = events;
  const Result<std::string> payload = EncodeKvEvents(batch, knobs_.encoding, knobs_.bytes_ids);
  Require(payload.status());
  events_.clear();
  last_ = batch.timestamp_s;
  after_[last_] = held_;
  history_.push_back({seq, *payload});
  while (history_.size() > knobs_.history) history_.pop_front();
  if (drop) return;
  if (knobs_.unnumbered) {
    SendFrames(live_, {knobs_.topic, *payload});
  } else {
    SendFrames(live_, {knobs_.topic, KvSeqFrame(seq), *payload});
  }
}

void FakeEngine::Serve() {
  ZmqMessage request;
  while (!stopping_) {
    zmq_pollitem_t item = {router_.get(), 0, ZMQ_POLLIN, 0};
    if (zmq_poll(&item, 1, kServeMs) <= 0) continue;
    const std::lock_guard<std::mutex> lock(mutex_);
    while (request.Receive(router_)) Answer(request);
  }
}

// [client, "", first number] -> [client, "", (topic,) number, payload]...
void FakeEngine::Answer(const ZmqMessage& request) {
  ++replays_;
  const auto frames = request.frames();
  if (!knobs_.answers || frames.size() != 3 || !frames[1].empty()) return;
  const std::string_view numbered[] = {"", frames[2], ""};
  const auto first = ParseKvLiveFrames(numbered);
  if (!first.ok()) return;
  const auto answer = [&](const std::string& topic, uint64_t seq, const std::string& payload) {
    std::vector<std::string> reply = {std::string(frames[0]), ""};
    if (knobs_.new_framing) reply.push_back(topic);
    reply.push_back(KvSeqFrame(seq));
    reply.push_back(payload);
    SendFrames(router_, reply);
  };
  for (const Message& message : history_) {
    if (message.seq >= first->seq) answer(knobs_.topic, message.seq, message.payload);
  }
  answer("", kKvEndOfReplay, "");
}

// ---- Oracle -------------------------------------------------------------------------------------

FakeEngine::Held FakeEngine::held() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return held_;
}

double FakeEngine::last() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return last_;
}

FakeEngine::Held FakeEngine::HeldAfter(double timestamp) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = after_.find(timestamp);
  return found == after_.end() ? Held() : found->second;
}

std::vector<std::pair<std::vector<uint32_t>, size_t>> FakeEngine::Prompts() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<std::pair<std::vector<uint32_t>, size_t>> prompts;
  for (uint64_t prompt = 0; prompt < kPrompts; ++prompt) {
    std::vector<uint32_t> tokens = PromptTokens(prompt, kMaxBlocks);
    size_t held = 0;
    for (const uint64_t id : Chain(tokens)) {
      if (held_.count({KvTier::kGpu, id}) + held_.count({KvTier::kCpu, id}) == 0) break;
      ++held;
    }
    prompts.emplace_back(std::move(tokens), held);
  }
  return prompts;
}

}  // namespace prefixrouter::testing
