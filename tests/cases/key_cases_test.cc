// What broke in the keys of other routers: prompts that must not share, and prompts that must.
//
// Each test restates one public report (named above it) as input and right result, and checks the
// whole kind of fault rather than the one example. The tag [case-NN] is the number that docs and
// commit messages use.
#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/build_kind.h"
#include "tests/support/fleet.h"

namespace prefixrouter::testing {
namespace {

constexpr uint32_t kBlock = 16;

// smg 2420, vllm 44701: prompts of different tenants, adapters or models shared cache entries.
// Same tokens with salt 1 on A: a query with salt 2 matches 0, with salt 1 all. The same for LoRA
// adapter and model, in any combination, also when their names run into each other.
TEST_CASE("Prompts of different models and adapters and salts never share", "[cases][case-36]") {
  const bool text_form = GENERATE(false, true);
  CAPTURE(text_form);
  const uint64_t seed = TestSeed(36);
  CAPTURE(seed);
  PromptMaker prompts(seed);

  std::vector<KeySpace> spaces;
  const std::string_view nul_name("a\0", 2);
  for (std::string_view model : {"", "a", "b", "ab"}) {
    for (std::string_view adapter : {"", "a", "b", "ab"}) {
      for (std::string_view salt : {"", "a", "b", "ab"}) spaces.push_back({model, adapter, salt});
    }
  }
  spaces.push_back({nul_name, "", ""});
  spaces.push_back({"", nul_name, ""});
  spaces.push_back({"a", std::string_view("\0", 1), ""});
  spaces.push_back({"model", "adapter", "salt"});
  spaces.push_back({"modelada", "pter", "salt"});

  RouterOptions options;
  options.text_bytes_per_token = 1;
  Fleet fleet(spaces.size(), options);
  const Tokens tokens = prompts.Random(kBlock * 7);
  const std::string text = prompts.RandomBytes(64 * 7);
  const auto request_in = [&](const KeySpace& space) {
    Request request = text_form ? Request::FromText(text) : Request::FromTokens(tokens);
    request.key_space = space;
    return request;
  };
  const uint64_t full = text_form ? text.size() : tokens.size();

  for (size_t i = 0; i < spaces.size(); ++i) fleet.Place(i, request_in(spaces[i]));
  size_t shared = 0;
  size_t lost = 0;
  for (size_t query = 0; query < spaces.size(); ++query) {
    const Result<ScoreTable> table = fleet.router().Score(request_in(spaces[query]));
    REQUIRE(table.ok());
    for (const ScoreRow& row : table->rows) {
      const bool same = fleet.IndexOf(row.instance) == query;
      lost += same && row.cached_tokens != full;
      shared += !same && row.cached_tokens != 0;
    }
  }
  CHECK(shared == 0);
  CHECK(lost == 0);
  CHECK(fleet.router().Stats().index_blocks == 7 * spaces.size());
}

// The same kind: a prompt of bytes is not the prompt of tokens that lies the same way in memory.
TEST_CASE("Text prompts and token prompts never share", "[cases][case-36]") {
  const uint64_t seed = TestSeed(136);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(1);
  const Tokens tokens = prompts.Random(kBlock * 4);
  const std::string_view same_bytes(reinterpret_cast<const char*>(tokens.data()),
                                    tokens.size() * sizeof(uint32_t));
  fleet.Place(0, Request::FromTokens(tokens));
  CHECK(fleet.CachedTokens(0, Request::FromText(same_bytes)) == 0);
  CHECK(fleet.CachedTokens(0, Request::FromTokens(tokens)) == tokens.size());
}

// vllm router 294: prompts of equal length were taken as equal.
// Two random prompts of equal length: match 0. Nor do prompts with the same blocks in other order.
TEST_CASE("Prompts of equal length but other content do not match", "[cases][case-37]") {
  const uint64_t seed = TestSeed(37);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  Fleet fleet(1);
  const size_t count = Sized(3000u, 300u);
  std::vector<Tokens> held;
  size_t matched = 0;
  for (size_t i = 0; i < count; ++i) {
    held.push_back(prompts.Random(kBlock * 8));
    matched += fleet.Place(0, Request::FromTokens(held.back())).cached_tokens;
  }
  CHECK(matched == 0);

  size_t wrong = 0;
  for (const Tokens& prompt : held) {
    // The same blocks, but the first k of them in another order.
    const size_t k = 2 + prompts.Below(7);
    Tokens rotated = prompt;
    std::rotate(rotated.begin(), rotated.begin() + kBlock,
                rotated.begin() + static_cast<std::ptrdiff_t>(kBlock * k));
    wrong += fleet.CachedTokens(0, Request::FromTokens(rotated)) != 0;
    // One token changed: the match ends at its block.
    Tokens changed = prompt;
    const size_t position = prompts.Below(changed.size());
    changed[position] ^= 1u << prompts.Below(32);
    wrong += fleet.CachedTokens(0, Request::FromTokens(changed)) != position / kBlock * kBlock;
    // Moved by one token.
    const Tokens shifted(prompt.begin() + 1, prompt.end());
    wrong += fleet.CachedTokens(0, Request::FromTokens(shifted)) != 0;
  }
  CHECK(wrong == 0);
}

// sglang 16228: a prompt that was cut inside a multi-byte character crashed the router.
// Text with 3-byte UTF-8, prompts that fork inside a code point: the right match, no crash.
TEST_CASE("Text prompts may fork at any byte", "[cases][case-38]") {
  const uint32_t block_bytes = GENERATE(1u, 2u, 3u, 4u, 7u, 64u, 131072u);
  CAPTURE(block_bytes);
  const uint64_t seed = TestSeed(38);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  options.text_block_bytes = block_bytes;
  options.text_bytes_per_token = 1;  // so that cached tokens are bytes
  Fleet fleet(1, options);
  const size_t b = block_bytes;

  // U+4E2D U+6587, 3 bytes each.
  std::string base;
  while (base.size() < std::max<size_t>(600, 2 * b)) base += "\xE4\xB8\xAD\xE6\x96\x87";
  fleet.Place(0, Request::FromText(base));
  CHECK(fleet.CachedTokens(0, Request::FromText(base)) == base.size() / b * b);

  size_t wrong = 0;
  for (size_t fork = 0; fork <= 30; ++fork) {
    std::string other = base;
    // U+4E2E and U+6588 differ in the last byte of the character, others in the first or second.
    other[fork] = static_cast<char>(other[fork] ^ (1 << prompts.Below(8)));
    wrong += fleet.CachedTokens(0, Request::FromText(other)) != fork / b * b;
    // Cut there.
    const std::string_view cut = std::string_view(base).substr(0, fork);
    wrong += fleet.CachedTokens(0, Request::FromText(cut)) != fork / b * b;
    wrong += fleet.Place(0, Request::FromText(other)).prompt_tokens != other.size();
    wrong += fleet.CachedTokens(0, Request::FromText(other)) != other.size() / b * b;
  }
  CHECK(wrong == 0);
}

// The same kind: bytes that are no UTF-8 at all, with zeros, at any length.
TEST_CASE("Text prompts may be any bytes", "[cases][case-38]") {
  const uint64_t seed = TestSeed(138);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  RouterOptions options;
  options.text_block_bytes = 3;
  options.text_bytes_per_token = 1;
  Fleet fleet(1, options);
  size_t wrong = 0;
  std::string longest;
  for (size_t length = 0; length < 200; ++length) {
    const std::string bytes = prompts.RandomBytes(length);
    wrong += fleet.Place(0, Request::FromText(bytes)).prompt_tokens != length;
    wrong += fleet.CachedTokens(0, Request::FromText(bytes)) != length / 3 * 3;
    longest = bytes;
  }
  const std::string zeros(90, '\0');
  wrong += fleet.Place(0, Request::FromText(zeros)).cached_tokens != 0;
  wrong += fleet.CachedTokens(0, Request::FromText(zeros.substr(0, 45))) != 45;
  CHECK(wrong == 0);

  // With the default settings a block of 64 bytes is an estimated 16 tokens.
  Fleet estimated(1);
  const std::string text = prompts.RandomBytes(64 * 10 + 20);
  CHECK(estimated.Place(0, Request::FromText(text)).prompt_tokens == 165);
  CHECK(estimated.CachedTokens(0, Request::FromText(text)) == 160);
}

// kv-cache 411, LMCache 4086: two images behind the same placeholder tokens were taken as one.
// Same tokens, other multimodal ids: no match behind the image.
TEST_CASE("Other multimodal content ends the match at its block", "[cases][case-39]") {
  const uint64_t seed = TestSeed(39);
  CAPTURE(seed);
  PromptMaker prompts(seed);
  const bool text_form = GENERATE(false, true);
  CAPTURE(text_form);
  RouterOptions options;
  options.text_block_bytes = kBlock;
  options.text_bytes_per_token = 1;
  Fleet fleet(1, options);
  const size_t length = kBlock * 100 + 5;
  const Tokens tokens(length, 151655);  // placeholders everywhere
  const std::string text(length, '#');
  std::string salt;  // a world of its own for each round
  const auto with = [&](const std::vector<MultimodalItem>& items) {
    Request request = text_form ? Request::FromText(text) : Request::FromTokens(tokens);
    request.multimodal = items;
    request.key_space.salt = salt;
    return request;
  };
  const auto block_of = [](uint64_t offset) { return offset / kBlock * kBlock; };
  const uint64_t full = kBlock * 100;

  size_t wrong = 0;
  for (int round = 0; round < 200; ++round) {
    salt = std::to_string(round);
    // Up to five items, ascending; one of them is changed.
    std::map<uint64_t, uint64_t> hash_by_offset;
    for (uint64_t i = prompts.Below(5) + 1; i > 0; --i) {
      hash_by_offset[prompts.Below(full)] = prompts.Bits();
    }
    std::vector<MultimodalItem> items;
    for (const auto& [offset, hash] : hash_by_offset) items.push_back({offset, hash});
    fleet.Place(0, with(items));
    wrong += fleet.CachedTokens(0, with(items)) != full;

    const size_t pick = prompts.Below(items.size());
    std::vector<MultimodalItem> changed = items;
    changed[pick].content_hash ^= uint64_t{1} << prompts.Below(64);
    wrong += fleet.CachedTokens(0, with(changed)) != block_of(items[pick].offset);
    std::vector<MultimodalItem> missing = items;
    missing.erase(missing.begin() + static_cast<std::ptrdiff_t>(pick));
    wrong += fleet.CachedTokens(0, with(missing)) != block_of(items[pick].offset);
  }
  CHECK(wrong == 0);

  salt = "the last one";
  // Content 0 is content; order counts; two items in one block do not cancel each other.
  const std::vector<MultimodalItem> zero = {{20, 0}};
  fleet.Place(0, with(zero));
  CHECK(fleet.CachedTokens(0, with({})) <= kBlock);
  const std::vector<MultimodalItem> two = {{20, 1}, {21, 2}};
  const std::vector<MultimodalItem> swapped = {{20, 2}, {21, 1}};
  const std::vector<MultimodalItem> twins = {{20, 7}, {21, 7}};
  const std::vector<MultimodalItem> other_twins = {{20, 8}, {21, 8}};
  fleet.Place(0, with(two));
  fleet.Place(0, with(twins));
  CHECK(fleet.CachedTokens(0, with(swapped)) == kBlock);
  CHECK(fleet.CachedTokens(0, with(other_twins)) == kBlock);
  CHECK(fleet.CachedTokens(0, with(two)) == full);
  // An item in the partial last block has no key to be mixed into, and is no error.
  const std::vector<MultimodalItem> in_tail = {{full + 2, 3}};
  CHECK(fleet.Route(with(in_tail)).prompt_tokens == length);
}

// The same report: ids that were close to each other gave equal keys.
// A million random ids: no two equal keys. Nor for consecutive ones.
TEST_CASE("A million multimodal ids give a million keys", "[cases][case-39]") {
  const bool consecutive = GENERATE(false, true);
  CAPTURE(consecutive);
  const uint64_t seed = TestSeed(139);
  CAPTURE(seed);
  std::mt19937_64 random(seed);
  const size_t count = Sized(1'000'000u, 50'000u);
  const BlockHasher hasher(kBlock, seed);
  const Tokens block(kBlock, 151655);
  std::vector<uint64_t> ids(count);
  for (size_t i = 0; i < count; ++i) ids[i] = consecutive ? i : random();
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  std::vector<uint64_t> keys(ids.size());
  for (size_t i = 0; i < ids.size(); ++i) {
    const MultimodalItem item{3, ids[i]};
    hasher.TokenBlockKeys({}, block, {&item, 1}, {&keys[i], 1});
  }
  std::sort(keys.begin(), keys.end());
  CHECK(std::adjacent_find(keys.begin(), keys.end()) == keys.end());
}

}  // namespace
}  // namespace prefixrouter::testing
