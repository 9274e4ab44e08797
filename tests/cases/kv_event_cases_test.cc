// What broke in other routers that follow the KV events of engines: whose blocks an event is about,
// what becomes of those that cannot be placed, tiers, groups of layers and old messages.
//
// Each test restates one public report (named above it) as input and right result. The tag
// [case-NN] is the number that docs and commit messages use. Copies and holes of single blocks are
// in residency_cases_test.cc.
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "tests/catch.h"
#include "tests/support/fleet.h"
#include "tests/support/kv_event_batch.h"

namespace prefixrouter::testing {
namespace {

constexpr uint32_t kBlock = 16;  // the default block size
constexpr size_t kA = 0;
constexpr size_t kB = 1;

KvEventResult Apply(Fleet& fleet, InstanceId id, EventBatch& batch) {
  Result<KvEventResult> result = fleet.router().ApplyKvEvents(id, batch.Get());
  REQUIRE(result.ok());
  return *result;
}

// The instance stores a whole prompt, under ids from `first_id` on.
KvEventResult StorePrompt(Fleet& fleet, InstanceId id, const Tokens& prompt, uint64_t first_id,
                          uint32_t block_size = kBlock) {
  EventBatch batch;
  const size_t blocks = prompt.size() / block_size;
  batch.Stored(Ids(first_id, blocks), Head(prompt, blocks * block_size), block_size);
  return Apply(fleet, id, batch);
}

uint64_t Blocks(const Fleet& fleet, size_t index, const Tokens& prompt) {
  return fleet.CachedTokens(index, Request::FromTokens(prompt)) / kBlock;
}

Tokens Part(const Tokens& tokens, size_t begin, size_t end) {
  return Tokens(tokens.begin() + static_cast<std::ptrdiff_t>(begin),
                tokens.begin() + static_cast<std::ptrdiff_t>(end));
}

uint64_t Total(const KvEventCounts& counts) {
  uint64_t total = 0;
  for (uint64_t count : counts.counts) total += count;
  return total;
}

}  // namespace

// aibrix 2287, kv-cache 396: a clear of one instance, or of one rank, emptied others.
TEST_CASE("Cleared is the instance and rank that says so, and no other", "[cases][case-40]") {
  const uint64_t seed = TestSeed(40);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  InstanceOptions rank;
  rank.name = "dp";
  std::vector<InstanceId> ranks;
  for (rank.rank = 0; rank.rank < 3; ++rank.rank) {
    ranks.push_back(*fleet.router().AddInstance(rank));
  }
  const Tokens prompt = prompts.Random(kBlock * 20);
  std::vector<InstanceId> all = {fleet[kA], fleet[kB]};
  all.insert(all.end(), ranks.begin(), ranks.end());
  for (InstanceId id : all) StorePrompt(fleet, id, prompt, 100);
  const auto cached = [&](InstanceId id) {
    const ScoreTable table = *fleet.router().Score(Request::FromTokens(prompt));
    for (const ScoreRow& row : table.rows) {
      if (row.instance == id) return row.cached_tokens / kBlock;
    }
    return uint64_t{999};
  };
  for (InstanceId gone : all) {
    EventBatch clear;
    clear.Cleared();
    CHECK(Apply(fleet, gone, clear).counts[KvEventOutcome::kCleared] == 1);
    for (InstanceId id : all) CHECK(cached(id) == (id == gone ? 0 : 20));
    // The engine starts anew: all is as it was.
    CHECK(StorePrompt(fleet, gone, prompt, 7000).counts[KvEventOutcome::kStored] == 20);
    CHECK(cached(gone) == 20);
  }
}

// aibrix 2723: a block that one instance removed was gone for all.
TEST_CASE("A block that one instance removes stays on the others", "[cases][case-41]") {
  const uint64_t seed = TestSeed(41);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const Tokens prompt = prompts.Random(kBlock * 10);
  const uint64_t b_first = GENERATE(1, 500);  // the same ids on both, and others
  StorePrompt(fleet, fleet[kA], prompt, 1);
  StorePrompt(fleet, fleet[kB], prompt, b_first);
  for (uint64_t left = 10; left-- > 0;) {
    EventBatch batch;
    batch.Removed({1 + left});
    CHECK(Apply(fleet, fleet[kA], batch).counts[KvEventOutcome::kRemoved] == 1);
    CHECK(Blocks(fleet, kA, prompt) == left);
    CHECK(Blocks(fleet, kB, prompt) == 10);
  }
  CHECK(fleet.StatsOf(kA).engine_blocks == 0);
  CHECK(fleet.StatsOf(kB).engine_blocks == 10);
}

// dynamo 14652: an unknown block in a remove event made the rest of it fail.
TEST_CASE("Unknown blocks in a remove event do not keep the known ones", "[cases][case-45]") {
  const uint64_t seed = TestSeed(45);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const Tokens prompt = prompts.Random(kBlock * 6);
  StorePrompt(fleet, fleet[kA], prompt, 1);
  EventBatch batch;
  batch.Removed({900, 6, 901, 5, 902, 4, 4});
  const KvEventResult result = Apply(fleet, fleet[kA], batch);
  CHECK(result.counts[KvEventOutcome::kRemoved] == 3);
  CHECK(result.counts[KvEventOutcome::kAlreadyGone] == 4);
  CHECK_FALSE(result.needs_replay);
  CHECK(Blocks(fleet, kA, prompt) == 3);
}

// vllm 42892, dynamo 3180: engines send arrays or maps, signed or unsigned numbers; what one form
// stored, the other could not remove.
TEST_CASE("All forms of messages lead to one state", "[cases][case-47]") {
  const uint64_t seed = TestSeed(47);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(6);
  const Tokens prompt = prompts.Random(kBlock * 6);
  KvEventDecoder decoder;
  const auto apply = [&](size_t i, EventBatch& batch, KvEventEncoding encoding) {
    const Result<std::string> message = EncodeKvEvents(batch.Get(), encoding);
    REQUIRE(message.ok());
    const auto decoded = decoder.Decode(*message);
    REQUIRE(decoded.ok());
    REQUIRE(fleet.router().ApplyKvEvents(fleet[i], **decoded).ok());
  };
  const KvEventEncoding forms[] = {KvEventEncoding::kArrays, KvEventEncoding::kArraysShort,
                                   KvEventEncoding::kMaps, KvEventEncoding::kSglangArrays};
  const EngineIds ids = {1, uint64_t{1} << 63, ~uint64_t{0}, 4, 5, 6};
  for (size_t i = 0; i < 6; ++i) {
    // Instances 4 and 5 mix the forms.
    const auto form = [&](size_t message) { return forms[i < 4 ? i : (i + message) % 4]; };
    EventBatch first, second, third;
    first.Stored({ids[0], ids[1], ids[2]}, Head(prompt, kBlock * 3), kBlock);
    second.Stored({ids[3], ids[4], ids[5]}, Part(prompt, kBlock * 3, kBlock * 6), kBlock, ids[2]);
    third.Removed({ids[5], ids[2]});
    apply(i, first, form(0));
    apply(i, second, form(1));
    CHECK(Blocks(fleet, i, prompt) == 6);
    apply(i, third, form(2));
    CHECK(Blocks(fleet, i, prompt) == 2);
    CHECK(fleet.StatsOf(i).engine_blocks == 4);
  }

  // -1 as a signed number, and 2^64-1, are one block.
  const auto message = [](const std::string& id) {
    return "\x93\xcb" + std::string(8, '\0') +
           "\x91\x92\xac"
           "BlockRemoved\x91" +
           id + "\xc0";
  };
  for (size_t i = 0; i < 2; ++i) {
    EventBatch again;
    again.Stored({ids[2]}, Part(prompt, kBlock * 2, kBlock * 3), kBlock, ids[1]);
    apply(i, again, KvEventEncoding::kArrays);
    CHECK(Blocks(fleet, i, prompt) == 5);
    const std::string payload = message(i == 0 ? "\xff" : "\xcf" + std::string(8, '\xff'));
    const auto decoded = decoder.Decode(payload);
    REQUIRE(decoded.ok());
    const auto result = fleet.router().ApplyKvEvents(fleet[i], **decoded);
    REQUIRE(result.ok());
    CHECK(result->counts[KvEventOutcome::kRemoved] == 1);
    CHECK(Blocks(fleet, i, prompt) == 2);
  }
}

// kv-cache 372, vllm 49125: blocks whose parent was unknown became first blocks of prompts.
TEST_CASE("Blocks behind an unknown parent are kept out and counted", "[cases][case-48]") {
  const uint64_t seed = TestSeed(48);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const Tokens prompt = prompts.Random(kBlock * 9);
  StorePrompt(fleet, fleet[kA], Head(prompt, kBlock * 3), 1);
  const Tokens orphan = Part(prompt, kBlock * 6, kBlock * 8);

  EventBatch batch;  // blocks 4 to 6 were lost
  batch.Stored({7, 8}, orphan, kBlock, 6);
  batch.Stored({9}, Part(prompt, kBlock * 8, kBlock * 9), kBlock, 8);  // a child of such a block
  KvEventResult result = Apply(fleet, fleet[kA], batch);
  CHECK(result.counts[KvEventOutcome::kUnknownParent] == 3);
  CHECK(result.needs_replay);
  CHECK(Blocks(fleet, kA, prompt) == 3);
  CHECK(Blocks(fleet, kA, orphan) == 0);  // never the first block of a prompt
  CHECK(fleet.StatsOf(kA).engine_blocks == 3);

  // Another instance's block of that number is no parent.
  StorePrompt(fleet, fleet[kB], Head(prompt, kBlock * 6), 1);
  result = Apply(fleet, fleet[kA], batch);
  CHECK(result.counts[KvEventOutcome::kUnknownParent] == 3);

  // A removed parent is unknown, and no child brings it back.
  EventBatch removed;
  removed.Removed({3});
  removed.Stored({4}, Part(prompt, kBlock * 3, kBlock * 4), kBlock, 3);
  result = Apply(fleet, fleet[kA], removed);
  CHECK(result.counts[KvEventOutcome::kUnknownParent] == 1);
  CHECK(Blocks(fleet, kA, prompt) == 2);

  // A replay puts everything right.
  EventBatch replay;
  replay.Stored(Ids(1, 9), prompt, kBlock);
  CHECK_FALSE(Apply(fleet, fleet[kA], replay).needs_replay);
  CHECK(Blocks(fleet, kA, prompt) == 9);
}

TEST_CASE("A parent of 0 that is not known is what some senders write for none",
          "[cases][case-48]") {
  const uint64_t seed = TestSeed(148);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const Tokens prompt = prompts.Random(kBlock * 4);
  EventBatch batch;
  batch.Stored(Ids(1, 4), prompt, kBlock, 0);
  CHECK_FALSE(Apply(fleet, fleet[kA], batch).needs_replay);
  CHECK(Blocks(fleet, kA, prompt) == 4);
  // And 0 is a number like others when the engine has used it.
  EventBatch zero;
  zero.Stored({0}, Head(prompt, kBlock), kBlock);
  zero.Stored({55}, Part(prompt, kBlock, kBlock * 2), kBlock, 0);
  CHECK(Apply(fleet, fleet[kB], zero).counts[KvEventOutcome::kStored] == 2);
  CHECK(Blocks(fleet, kB, prompt) == 2);
}

// vllm 44451: hashes of some blocks are left out, and the others were placed one too early.
TEST_CASE("An event whose tokens are not those of its blocks is rejected alone",
          "[cases][case-49]") {
  const uint64_t seed = TestSeed(49);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const Tokens first = prompts.Random(kBlock * 3);
  const Tokens second = prompts.Random(kBlock * 3);
  const int difference = GENERATE(-1, 1);
  EventBatch batch;
  batch.Stored(Ids(1, difference < 0 ? 2 : 4), first, kBlock);
  batch.Stored({11, 12, 13}, second, kBlock);
  const KvEventResult result = Apply(fleet, fleet[kA], batch);
  CHECK(result.counts[KvEventOutcome::kNotDense] == 1);
  CHECK(result.counts[KvEventOutcome::kStored] == 3);
  CHECK(Blocks(fleet, kA, first) == 0);
  CHECK(Blocks(fleet, kA, second) == 3);
}

TEST_CASE("A block that one event stores at two places makes the rest of it malformed",
          "[cases][case-49]") {
  const uint64_t seed = TestSeed(149);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const Tokens prompt = prompts.Random(kBlock * 5);
  const uint32_t group = GENERATE(0u, 2u);
  EventBatch batch;
  batch.Stored({90}, Head(prompts.Random(kBlock), kBlock), kBlock);  // of the usual group
  batch.Stored({1, 2, 3, 2, 5}, prompt, kBlock).group = group;
  const KvEventResult result = Apply(fleet, fleet[kA], batch);
  CHECK(result.counts[KvEventOutcome::kStored] == 4);
  CHECK(result.counts[KvEventOutcome::kMalformedEvent] == 1);
  CHECK(Blocks(fleet, kA, prompt) == 3);
  EventBatch removed;
  removed.Removed({1, 2, 3, 2, 5}).group = group;
  CHECK(Apply(fleet, fleet[kA], removed).counts[KvEventOutcome::kRemoved] == 3);
  CHECK(Blocks(fleet, kA, prompt) == 0);
  CHECK(fleet.StatsOf(kA).blocks_held == 1);
}

// llm-d 2873, dynamo 1232: other block sizes than the router's matched nothing, without a word.
TEST_CASE("Engines with other block sizes match the same tokens", "[cases][case-50]") {
  const uint64_t seed = TestSeed(50);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  const uint32_t size = GENERATE(1u, 2u, 4u, 8u, 16u, 32u, 64u, 128u, 1024u);
  options.block_size = GENERATE(16u, 64u);
  CAPTURE(size, options.block_size);
  Fleet fleet(3, options);
  const Tokens prompt = prompts.Random(2048);
  const Request request = Request::FromTokens(prompt);

  // As one event, block by block, and behind a parent in the middle.
  CHECK(StorePrompt(fleet, fleet[0], prompt, 1, size).counts[KvEventOutcome::kStored] ==
        2048 / size);
  EventBatch singles, halves;
  for (uint64_t i = 0; i < 2048 / size; ++i) {
    const std::optional<uint64_t> parent = i == 0 ? std::nullopt : std::optional<uint64_t>(i);
    singles.Stored({i + 1}, Part(prompt, i * size, (i + 1) * size), size, parent);
  }
  Apply(fleet, fleet[1], singles);
  halves.Stored(Ids(1, 1024 / size), Head(prompt, 1024), size);
  halves.Stored(Ids(1024 / size + 1, 1024 / size), Part(prompt, 1024, 2048), size, 1024 / size);
  Apply(fleet, fleet[2], halves);
  for (size_t i = 0; i < 3; ++i) CHECK(fleet.CachedTokens(i, request) == 2048);

  // A part of a block of the router is none; a block of the engine may be several.
  if (size < options.block_size) {
    const Tokens longer = prompts.Extend(prompt, options.block_size - size);
    EventBatch parts;
    parts.Stored(Ids(90000, (options.block_size - size) / size), Part(longer, 2048, longer.size()),
                 size, 2048 / size);
    Apply(fleet, fleet[0], parts);
    CHECK(fleet.CachedTokens(0, Request::FromTokens(prompts.Extend(longer, 2000))) == 2048);
  }
  EventBatch removed;
  removed.Removed({2048 / size});
  Apply(fleet, fleet[0], removed);
  CHECK(fleet.CachedTokens(0, request) == 2048 - std::max(size, options.block_size));
}

TEST_CASE("A block size that fits neither way is counted, and nothing is stored",
          "[cases][case-50]") {
  const uint64_t seed = TestSeed(150);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const uint32_t size = GENERATE(3u, 24u, 40u, 17u);
  const Tokens prompt = prompts.Random(size * 8);
  const KvEventResult result = StorePrompt(fleet, fleet[kA], prompt, 1, size);
  CHECK(result.counts[KvEventOutcome::kWrongBlockSize] == 8);
  CHECK(Total(result.counts) == 8);
  CHECK(fleet.StatsOf(kA).blocks_held == 0);
  CHECK(fleet.StatsOf(kA).kv_events[KvEventOutcome::kWrongBlockSize] == 8);
}

// vllm 51875: engines of different random seeds give different hashes to the same tokens.
TEST_CASE("Instances with different block numbers for the same tokens match alike",
          "[cases][case-51]") {
  const uint64_t seed = TestSeed(51);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const Tokens prompt = prompts.Random(kBlock * 30);
  for (size_t i : {kA, kB}) {
    EngineIds ids(30);
    for (uint64_t& id : ids) id = prompts.Bits();
    EventBatch batch;
    batch.Stored(ids, prompt, kBlock);
    Apply(fleet, fleet[i], batch);
  }
  CHECK(Blocks(fleet, kA, prompt) == 30);
  CHECK(Blocks(fleet, kB, prompt) == 30);
  CHECK(fleet.router().Stats().index_blocks == 30);  // they share them
}

// llm-d 2927: blocks of an adapter matched the base model, or nothing at all.
TEST_CASE("Stored blocks match within their adapter, salt and model alone", "[cases][case-52]") {
  const uint64_t seed = TestSeed(52);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  InstanceOptions instance;
  instance.model = "m";
  Fleet fleet(2, {}, instance);
  const Tokens prompt = prompts.Random(kBlock * 4);
  EventBatch batch;
  batch.Stored({1, 2}, Head(prompt, kBlock * 2), kBlock).adapter = "ad";
  batch.Stored({3, 4}, Part(prompt, kBlock * 2, kBlock * 4), kBlock, 2).adapter = "ad";
  batch.Stored({11}, Head(prompt, kBlock), kBlock).salt = "salt";
  batch.Stored({21, 22, 23}, Head(prompt, kBlock * 3), kBlock);
  Apply(fleet, fleet[kA], batch);
  const auto blocks = [&](KeySpace space) {
    Request request = Request::FromTokens(prompt);
    request.key_space = space;
    return fleet.CachedTokens(kA, request) / kBlock;
  };
  CHECK(blocks({"m", "ad", ""}) == 4);
  CHECK(blocks({"m", "", "salt"}) == 1);
  CHECK(blocks({"m", "", ""}) == 3);
  CHECK(blocks({"m", "other", ""}) == 0);
  CHECK(blocks({"m", "ad", "salt"}) == 0);
  CHECK(blocks({"", "ad", ""}) == 0);
  CHECK(blocks({"", "", ""}) == 0);
}

TEST_CASE("Multimodal contents of stored blocks match those of prompts", "[cases][case-52]") {
  const uint64_t seed = TestSeed(152);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const uint32_t size = GENERATE(4u, 16u, 32u);
  CAPTURE(size);
  const Tokens prompt = prompts.Random(kBlock * 8);
  // The first content begins at token 37 and reaches into the next block, which names it too; the
  // second at 100.
  EventBatch batch;
  KvEvent& event = batch.Stored(Ids(1, prompt.size() / size), prompt, size);
  batch.Multimodal(event, {{37 / size, "image-1", 37 % size},
                           {37 / size + 1, "image-1", int64_t{37 % size} - size},
                           {100 / size, "image-2", 100 % size}});
  CHECK(Apply(fleet, fleet[kA], batch).counts[KvEventOutcome::kStored] == prompt.size() / size);
  const auto blocks = [&](std::vector<MultimodalItem> items) {
    Request request = Request::FromTokens(prompt);
    request.multimodal = items;
    return fleet.CachedTokens(kA, request) / kBlock;
  };
  const uint64_t first = MultimodalHash("image-1");
  const uint64_t second = MultimodalHash("image-2");
  CHECK(blocks({{37, first}, {100, second}}) == 8);
  CHECK(blocks({{37, first}}) == 6);
  CHECK(blocks({{37, first}, {100, first}}) == 6);
  CHECK(blocks({}) == 2);
  CHECK(blocks({{38, first}, {100, second}}) == 2);
}

// llm-d 1952: blocks in CPU memory counted as if they were on the GPU, or not at all.
TEST_CASE("Blocks below the GPU count as cached, and their weight as saved", "[cases][case-53]") {
  const uint64_t seed = TestSeed(53);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  options.cpu_tier_weight = GENERATE(0.25, 0.5, 1.0);
  Fleet fleet(2, options);
  const Tokens prompt = prompts.Random(kBlock * 15);
  const Request request = Request::FromTokens(prompt);
  EventBatch batch;
  batch.Stored(Ids(1, 10), Head(prompt, kBlock * 10), kBlock);
  batch.Stored(Ids(11, 5), Part(prompt, kBlock * 10, kBlock * 15), kBlock, 10).tier = KvTier::kCpu;
  Apply(fleet, fleet[kA], batch);
  const auto credit = static_cast<uint64_t>((10 + 5 * options.cpu_tier_weight) * kBlock);
  const ScoreRow row = fleet.Row(kA, request);
  CHECK(row.cached_tokens == 15 * kBlock);
  CHECK(row.cached_credit_tokens == credit);
  const InstanceStats stats = fleet.StatsOf(kA);
  CHECK(stats.confirmed_blocks[0] == 10);
  CHECK(stats.confirmed_blocks[1] == 5);
  // The time that is predicted goes by what is saved, in whole blocks.
  const double blocks = std::round(10 + 5 * options.cpu_tier_weight);
  CHECK(row.predicted_ttft_s == Approx((15 - blocks) * kBlock / 10000));
  CHECK(fleet.Row(kB, request).cached_credit_tokens == 0);

  const Decision decision = fleet.Place(kA, request);
  CHECK(decision.cached_tokens == 15 * kBlock);
  CHECK(decision.cached_credit_tokens == credit);
  CHECK(decision.best_cached_tokens == 15 * kBlock);
}

TEST_CASE("A block that moves to another tier stays held", "[cases][case-53]") {
  const uint64_t seed = TestSeed(153);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  options.cpu_tier_weight = 0.5;
  options.external_tier_weight = 0;
  Fleet fleet(2, options);
  const uint32_t size = GENERATE(4u, 16u, 32u);
  const Tokens prompt = prompts.Random(kBlock * 8);
  const Request request = Request::FromTokens(prompt);
  const size_t count = prompt.size() / size;
  StorePrompt(fleet, fleet[kA], prompt, 1, size);
  EventBatch offload;  // with tokens, or without
  offload.Stored(Ids(1, count), GENERATE(true, false) ? prompt : Tokens(), size).tier =
      KvTier::kCpu;
  CHECK(Apply(fleet, fleet[kA], offload).counts[KvEventOutcome::kStored] == count);
  CHECK(fleet.Row(kA, request).cached_credit_tokens == kBlock * 8);
  EventBatch removed;
  removed.Removed(Ids(1, count));
  CHECK(Apply(fleet, fleet[kA], removed).counts[KvEventOutcome::kCopyRemoved] == count);
  CHECK(fleet.Row(kA, request).cached_tokens == kBlock * 8);
  CHECK(fleet.Row(kA, request).cached_credit_tokens == kBlock * 4);
  // It is gone from the GPU, so it cannot be removed from there again.
  CHECK(Apply(fleet, fleet[kA], removed).counts[KvEventOutcome::kAlreadyGone] == count);
  EventBatch back;
  back.Stored(Ids(1, count), prompt, size);
  back.Removed(Ids(1, count), KvTier::kCpu);
  Apply(fleet, fleet[kA], back);
  CHECK(fleet.Row(kA, request).cached_credit_tokens == kBlock * 8);
  Apply(fleet, fleet[kA], removed);
  CHECK(fleet.Row(kA, request).cached_tokens == 0);
  CHECK(fleet.StatsOf(kA).engine_blocks == 0);

  // Without tokens nothing can be made of blocks that are not held; and a tier of weight 0 is none.
  EventBatch unknown;
  unknown.Stored({77}, {}, size).tier = KvTier::kCpu;
  CHECK(Apply(fleet, fleet[kA], unknown).counts[KvEventOutcome::kNoTokens] == 1);
  EventBatch external;
  external.Stored(Ids(1, count), prompt, size).tier = KvTier::kExternal;
  external.Removed(Ids(1, count), KvTier::kExternal);
  CHECK(Apply(fleet, fleet[kA], external).counts[KvEventOutcome::kNotCounted] == 2 * count);
  CHECK(fleet.Row(kA, request).cached_tokens == 0);
}

// llm-d 2362: blocks of a sliding window counted as if the whole prompt were there.
TEST_CASE("Groups of layers that are not full attention do not count", "[cases][case-54]") {
  const uint64_t seed = TestSeed(54);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const Tokens prompt = prompts.Random(kBlock * 10);
  const KvAttention attention = GENERATE(KvAttention::kPartial, KvAttention::kNotPrefix);
  const uint32_t full_group = GENERATE(0u, 1u, 3u);
  const uint32_t partial_group = full_group == 1 ? 0 : 1;
  EventBatch batch;
  KvEvent& partial = batch.Stored(Ids(1, 10), prompt, kBlock);
  partial.group = partial_group;
  partial.attention = attention;
  batch.Stored(Ids(1, 4), Head(prompt, kBlock * 4), kBlock).group = full_group;
  KvEventResult result = Apply(fleet, fleet[kA], batch);
  CHECK(result.counts[KvEventOutcome::kNotCounted] == 10);
  CHECK(result.counts[KvEventOutcome::kStored] == 4);
  CHECK(Blocks(fleet, kA, prompt) == 4);
  EventBatch removed;
  removed.Removed(Ids(1, 10)).group = partial_group;
  result = Apply(fleet, fleet[kA], removed);
  CHECK(result.counts[KvEventOutcome::kNotCounted] == 10);
  CHECK(Blocks(fleet, kA, prompt) == 4);

  // A second full group: held until both are gone.
  EventBatch second;
  second.Stored(Ids(1, 4), Head(prompt, kBlock * 4), kBlock).group = 7;
  second.Removed(Ids(1, 4)).group = full_group;
  result = Apply(fleet, fleet[kA], second);
  CHECK(result.counts[KvEventOutcome::kCopyRemoved] == 4);
  CHECK(Blocks(fleet, kA, prompt) == 4);
  EventBatch last;
  last.Removed(Ids(1, 4)).group = 7;
  CHECK(Apply(fleet, fleet[kA], last).counts[KvEventOutcome::kRemoved] == 4);
  CHECK(Blocks(fleet, kA, prompt) == 0);
}

// kv-cache 369: between routing and the first event the prompt was unknown; without events it
// stayed for ever.
TEST_CASE("A routed prompt counts until its events could have come", "[cases][case-55]") {
  const uint64_t seed = TestSeed(55);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  options.confirm_window_s = 3;
  Fleet fleet(4, options);
  EventBatch heartbeat;
  for (size_t i = 0; i < 4; ++i) Apply(fleet, fleet[i], heartbeat);
  CHECK(fleet.StatsOf(0).event_driven);
  CHECK(fleet.StatsOf(0).last_event_age_s == 0);
  const Tokens prompt = prompts.Random(kBlock * 100);
  const Request request = Request::FromTokens(prompt);

  const InstanceId first = fleet.Route(request).instance;
  const Decision again = fleet.Route(request);
  CHECK(again.instance == first);
  CHECK(again.cached_tokens == prompt.size());
  const size_t index = fleet.IndexOf(first);

  // Its first half is confirmed.
  EventBatch batch;
  batch.Stored(Ids(1, 50), Head(prompt, kBlock * 50), kBlock);
  Apply(fleet, first, batch);
  fleet.clock().AdvanceSeconds(2.9);
  CHECK(Blocks(fleet, index, prompt) == 100);
  fleet.clock().AdvanceSeconds(0.2);
  CHECK(Blocks(fleet, index, prompt) == 50);
  CHECK(fleet.StatsOf(index).last_event_age_s == Approx(3.1));
  fleet.clock().AdvanceSeconds(1e6);
  CHECK(Blocks(fleet, index, prompt) == 50);  // what the engine has said stays
}

// kthena 1513: events of an instance that was gone, or of its predecessor, brought blocks back.
TEST_CASE("Late events of a removed instance are ignored", "[cases][case-56]") {
  const uint64_t seed = TestSeed(56);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(2);
  const Tokens prompt = prompts.Random(kBlock * 5);
  const InstanceId old = fleet[kA];
  StorePrompt(fleet, old, prompt, 1);
  REQUIRE(fleet.router().RemoveInstance(old).ok());
  KvEventResult result = StorePrompt(fleet, old, prompt, 1);
  CHECK(result.counts[KvEventOutcome::kOldGeneration] == 1);
  CHECK(Total(result.counts) == 1);
  CHECK(fleet.router().Stats().blocks_held == 0);

  InstanceOptions again;
  again.name = "i0";
  const InstanceId added = *fleet.router().AddInstance(again);
  REQUIRE(added.slot() == old.slot());
  CHECK(StorePrompt(fleet, old, prompt, 1).counts[KvEventOutcome::kOldGeneration] == 1);
  CHECK(fleet.router().Stats().blocks_held == 0);
  CHECK(StorePrompt(fleet, added, prompt, 1).counts[KvEventOutcome::kStored] == 5);
  CHECK(fleet.router().Stats().blocks_held == 5);
  CHECK(fleet.router().Stats().kv_events[KvEventOutcome::kOldGeneration] == 2);
}

}  // namespace prefixrouter::testing
