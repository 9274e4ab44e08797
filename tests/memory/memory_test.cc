// What the router takes from the heap, counted where it is taken: this executable puts counting
// functions in place of glibc's malloc, realloc and free, which operator new uses as well. (It is
// not built with sanitizers, which replace them too, nor with another C library.)
#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "prefixrouter/kv_events.h"
#include "tests/catch.h"
#include "tests/support/fleet.h"
#include "tests/support/kv_events.h"
#include "tests/support/msgpack.h"

// glibc's own functions, under the names that it keeps for those who replace the public ones.
extern "C" {
void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* memory, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
void __libc_free(void* memory);
}

namespace {

std::atomic<size_t> allocation_count{0};
std::atomic<size_t> live_bytes{0};
std::atomic<size_t> peak_bytes{0};  // the most that live_bytes was, until someone sets it back

// What the allocator has set aside for a block: its usable size and the word before it.
size_t HeapBytes(void* memory) {
  return memory == nullptr ? 0 : malloc_usable_size(memory) + sizeof(size_t);
}

void* Counted(void* memory) {
  allocation_count.fetch_add(1, std::memory_order_relaxed);
  const size_t bytes = HeapBytes(memory);
  const size_t live = live_bytes.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  size_t peak = peak_bytes;
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) {
  }
  return memory;
}

}  // namespace

extern "C" {

void* malloc(size_t size) noexcept { return Counted(__libc_malloc(size)); }

void* calloc(size_t count, size_t size) noexcept { return Counted(__libc_calloc(count, size)); }

void* realloc(void* memory, size_t size) noexcept {
  const size_t before = HeapBytes(memory);
  void* moved = __libc_realloc(memory, size);
  if (moved != nullptr || size == 0) live_bytes.fetch_sub(before, std::memory_order_relaxed);
  return moved == nullptr ? nullptr : Counted(moved);
}

void* memalign(size_t alignment, size_t size) noexcept {
  return Counted(__libc_memalign(alignment, size));
}

void* aligned_alloc(size_t alignment, size_t size) noexcept {
  return Counted(__libc_memalign(alignment, size));
}

void free(void* memory) noexcept {
  live_bytes.fetch_sub(HeapBytes(memory), std::memory_order_relaxed);
  __libc_free(memory);
}

}  // extern "C"

namespace prefixrouter::testing {
namespace {

constexpr uint32_t kBlock = 16;

TEST_CASE("The counting functions count", "[memory]") {
  const size_t count = allocation_count;
  const size_t bytes = live_bytes;
  auto memory = std::make_unique<std::vector<char>>(100000);
  const size_t count_with = allocation_count;
  const size_t bytes_with = live_bytes;
  memory.reset();
  const size_t bytes_after = live_bytes;
  CHECK(count_with == count + 2);
  CHECK(bytes_with >= bytes + 100000);
  CHECK(bytes_with <= bytes + 110000);
  CHECK(bytes_after == bytes);
}

TEST_CASE("A known prompt is routed without an allocation", "[memory]") {
  const size_t length = GENERATE(0, 100, 8192, 131072);
  CAPTURE(length);
  PromptMaker prompts(1);
  Fleet fleet(64);
  const Tokens prompt = prompts.Random(length);
  const Request request = Request::FromTokens(prompt);
  // Warm: every instance knows the prompt, and the tables of leases have their size.
  for (size_t i = 0; i < fleet.size(); ++i) fleet.Place(i, request);
  { const std::vector<Lease> leases = fleet.AcquireOn(0, request, 10); }
  for (int i = 0; i < 100; ++i) fleet.Acquire(request);

  size_t failures = 0;
  const size_t before = allocation_count;
  for (int i = 0; i < 1000; ++i) failures += !fleet.router().Route(request).ok();
  const size_t by_route = allocation_count - before;
  for (int i = 0; i < 1000; ++i) {
    Result<Lease> lease = fleet.router().Acquire(request);
    failures += !lease.ok();
    failures += !lease->FirstToken();
    failures += !lease->Finish();
  }
  const size_t by_acquire = allocation_count - before - by_route;
  CHECK(failures == 0);
  CHECK(by_route == 0);
  CHECK(by_acquire == 0);
}

// The most that decoding of a message takes.
size_t PeakOf(KvEventDecoder& decoder, const std::string& message, bool good) {
  const size_t before = live_bytes;
  peak_bytes = before;
  const bool decoded = decoder.Decode(message).ok();
  const size_t peak = peak_bytes - before;
  CHECK(decoded == good);
  return peak;
}

// Short values that become long ones: content, events, block numbers, tokens.
TEST_CASE("Decoding of KV events takes memory in proportion to the message", "[memory]") {
  const int kind = GENERATE(0, 1, 2, 3, 4, 5);
  CAPTURE(kind);
  constexpr size_t kCount = 100000;
  const auto repeat = [](const std::string& text) {
    std::string all;
    for (size_t i = 0; i < kCount; ++i) all += text;
    return all;
  };
  const auto list = [&](const std::string& text) { return pack::ArrayHead(kCount) + repeat(text); };
  KvEventFormat format = KvEventFormat::kMsgpack;
  std::string message;
  if (kind == 0) {
    message = pack::Batch(
        {pack::Stored({pack::Uints({1}), pack::Nil(), pack::Uints({1}), pack::Uint(1), pack::Nil(),
                       pack::Nil(), pack::Str("ad"), pack::Array({list(pack::Str("a"))})})});
  } else if (kind == 1) {
    const std::string event = pack::Array({pack::Str("BlockRemoved"), pack::Array({})});
    message = pack::Array({pack::Float(1), list(event)});
  } else if (kind == 2) {
    message = pack::Batch({pack::Array({pack::Str("BlockRemoved"), list(pack::Uint(1))})});
  } else if (kind == 3) {
    message = pack::Batch(
        {pack::Stored({list(pack::Uint(1)), pack::Nil(), list(pack::Uint(1)), pack::Uint(1)})});
  } else {
    format = KvEventFormat::kTrtLlmJson;
    message = "[";
    for (int level = 1; kind == 4 && level < 5; ++level) {
      message +=
          R"({"data":{"type":"updated","block_hash":1,"cache_level":{"old_value":0,"new_value":)" +
          std::to_string(level) + "}}},";
    }
    message += kind == 4 ? R"({"data":{"type":"removed","block_hashes":[)" + repeat("1,") + "1]}}]"
                         : R"({"data":{"type":"stored","parent_hash":null,"blocks":[)" +
                               repeat(R"({"block_hash":1,"tokens":[{"token_id":1}]},)") +
                               R"({"block_hash":1,"tokens":[{"token_id":1}]}]}}])";
  }
  KvEventDecoder decoder(format);
  const size_t peak = PeakOf(decoder, message, /*good=*/true);
  CAPTURE(peak, message.size());
  CHECK(peak <= 64 * message.size());
  if (format != KvEventFormat::kMsgpack) return;
  const size_t before = allocation_count;
  CHECK(PeakOf(decoder, message, /*good=*/true) == 0);
  CHECK(allocation_count == before);  // its memory was there
}

TEST_CASE("A length that a message has no bytes for is not allocated", "[memory]") {
  const std::string head = pack::ArrayHead(3) + pack::Float(1) + pack::ArrayHead(1) +
                           pack::ArrayHead(4) + pack::Str("BlockStored");
  for (const char* form : {"\xdd", "\xdf", "\xdb", "\xc6", "\xc9"}) {
    const std::string huge = form + pack::Big(0xffffffff, 4);
    for (const std::string& message : {huge, head + huge, head + pack::Uints({1}) + huge}) {
      KvEventDecoder decoder;
      CHECK(PeakOf(decoder, message, /*good=*/false) < 4096);
    }
  }
}

TEST_CASE("The index's own count of bytes agrees with the allocator", "[memory]") {
  const std::string shape = GENERATE(as<std::string>(), "unique", "branching", "shared");
  CAPTURE(shape);
  const uint64_t seed = TestSeed(2);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  InstanceOptions instance;
  instance.capacity_blocks = 60000;
  Fleet fleet(16, {}, instance);
  const size_t live_before = live_bytes;
  const size_t index_before = fleet.router().Stats().index_bytes;

  std::vector<Tokens> stems;
  for (int i = 0; i < 20; ++i) stems.push_back(prompts.Random(kBlock * 200));
  for (int i = 0; i < 4000; ++i) {
    Tokens prompt;
    if (shape == "unique") {
      prompt = prompts.Random(kBlock * prompts.Below(200));
    } else if (shape == "branching") {
      const Tokens& stem = stems[prompts.Below(stems.size())];
      prompt = prompts.Extend(Head(stem, prompts.Below(stem.size() + 1)), prompts.Below(400));
    } else {
      prompt = stems[prompts.Below(stems.size())];
    }
    fleet.Place(prompts.Below(16), Request::FromTokens(prompt));
  }
  stems.clear();
  stems.shrink_to_fit();
  const double counted = static_cast<double>(fleet.router().Stats().index_bytes - index_before);
  const double allocated = static_cast<double>(live_bytes - live_before);
  CAPTURE(counted, allocated);
  // Beside the index there are tables of the router that do not grow with it.
  CHECK(counted > 0.9 * allocated - 50000);
  CHECK(counted < 1.1 * allocated);
}

TEST_CASE("A router gives everything back", "[memory]") {
  const std::string policy = GENERATE(from_range(PolicyNames()));
  CAPTURE(policy);
  const Tokens prompt = PromptMaker(3).Random(5000);
  const auto use_a_router = [&] {
    RouterOptions options;
    options.policy = policy;
    Fleet fleet(10, options);
    std::vector<Lease> leases;
    for (int i = 0; i < 50; ++i) {
      Request request = Request::FromTokens(prompt);
      const std::string session = "s" + std::to_string(i);
      request.session_key = session;
      leases.push_back(fleet.Acquire(request));
    }
    leases[0].Finish();
    leases[1].Release();
    (void)fleet.router().RemoveInstance(fleet[3]);
    // The rest outlives the router.
    fleet.DestroyRouter();
  };
  use_a_router();  // Catch2 and the C++ library have taken what they keep
  const size_t before = live_bytes;
  use_a_router();
  const size_t after = live_bytes;
  CHECK(after == before);
}

}  // namespace
}  // namespace prefixrouter::testing
