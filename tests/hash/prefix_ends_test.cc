// PrefixEnds: what is hashed ahead, and when. That keys and decisions are the same with and without
// it is shown in prompt_keys_test.cc and api_prefix_ends_test.cc.
#include "lib/hash/prefix_ends.h"

#include <string>
#include <utility>
#include <vector>

#include "tests/catch.h"
#include "tests/support/prompts.h"

namespace prefixrouter {
namespace {

using testing::PromptMaker;
using testing::Tokens;

constexpr uint32_t kBlock = 16;

// What an index knows: the first `blocks` blocks of prompts that begin with `head`.
struct Known {
  const BlockHasher& hasher;
  Tokens head;
  uint32_t blocks;
  KeySpace space = {};

  Request RequestOf(const Tokens& tokens) const {
    Request request = Request::FromTokens(tokens);
    request.key_space = space;
    return request;
  }
  uint64_t last_key() const {
    const Request request = RequestOf(head);
    return PromptKeys(hasher, request).PrefixKey(blocks);
  }
  void Learn(PrefixEnds& ends, const Tokens& prompt) const {
    const Request request = RequestOf(prompt);
    PromptKeys keys(hasher, request);
    keys.Hash(true);
    ends.Learn(keys, blocks, last_key());
  }
  // Whether what is behind the known blocks is hashed ahead.
  bool HashesAhead(const PrefixEnds& ends, const Tokens& prompt) const {
    const Request request = RequestOf(prompt);
    PromptKeys keys(hasher, request);
    keys.Hash(true);
    ends.HashAhead(keys);
    return keys.HashedAhead(blocks, last_key());
  }
};

}  // namespace

TEST_CASE("prefix ends: one is believed when it was right for 1/16 of the blocks behind it") {
  const BlockHasher hasher(kBlock, 1);
  // Within the first chunk of 32 blocks, at the end of one, and somewhere.
  for (const uint32_t blocks : {1u, 31u, 32u, 64u, 77u}) {
    CAPTURE(blocks);
    PromptMaker random(1);
    const Known known{hasher, random.Random(blocks * kBlock), blocks};
    PrefixEnds ends;
    const auto prompt = [&] { return random.Extend(known.head, 48 * kBlock); };
    for (int right = 1; right <= 3; ++right) {
      CHECK(!known.HashesAhead(ends, prompt()));
      known.Learn(ends, prompt());
    }
    CHECK(known.HashesAhead(ends, prompt()));
    CHECK(known.HashesAhead(ends, random.Extend(known.head, kBlock)));
    CHECK(!known.HashesAhead(ends, random.Extend(known.head, 49 * kBlock)));
    CHECK(!known.HashesAhead(ends, known.head));  // nothing is behind it
    CHECK(!known.HashesAhead(ends, Tokens()));

    // One that is known further than that: from now on it is doubted.
    const Known whole{hasher, prompt(), blocks + 48};
    whole.Learn(ends, whole.head);
    CHECK(!known.HashesAhead(ends, prompt()));
    for (int right = 1; right <= 3; ++right) known.Learn(ends, prompt());
    CHECK(known.HashesAhead(ends, prompt()));
  }
}

TEST_CASE("prefix ends: each beginning has its own") {
  const BlockHasher hasher(kBlock, 1);
  PromptMaker random(2);
  std::vector<Known> all;
  for (const uint32_t blocks : {40u, 70u, 100u}) {
    all.push_back({hasher, random.Random(blocks * kBlock), blocks});
  }
  // Behind one that is there too.
  all.push_back({hasher, random.Extend(all[0].head, 60 * kBlock), 100});
  PrefixEnds ends;
  for (int round = 0; round < 2; ++round) {
    for (const Known& known : all) {
      for (int i = 0; i < 4; ++i) known.Learn(ends, random.Extend(known.head, 320));
      CHECK(known.HashesAhead(ends, random.Extend(known.head, 320)));
    }
  }
  for (size_t i = 1; i < all.size(); ++i) {
    CHECK(all[i].HashesAhead(ends, random.Extend(all[i].head, 320)));
  }
}

TEST_CASE("prefix ends: those that are seen once do not displace one that is believed") {
  const BlockHasher hasher(kBlock, 1);
  PromptMaker random(3);
  const Known known{hasher, random.Random(50 * kBlock), 50};
  PrefixEnds ends;
  for (int i = 0; i < 50; ++i) {
    known.Learn(ends, random.Extend(known.head, 320));
    known.Learn(ends, random.Extend(known.head, 320));
    const Known once{hasher, random.Random(60 * kBlock), 60};
    once.Learn(ends, random.Extend(once.head, 320));
    CHECK(known.HashesAhead(ends, random.Extend(known.head, 320)));
    CHECK(!once.HashesAhead(ends, random.Extend(once.head, 320)));
  }
}

TEST_CASE("prefix ends: no other key space, seed or block size has them") {
  PromptMaker random(4);
  const Tokens head = random.Random(64 * kBlock);
  const BlockHasher hasher(kBlock, 1), other_seed(kBlock, 2), other_size(2 * kBlock, 1);
  PrefixEnds ends;
  const Known known{hasher, head, 64, {"model", "adapter", "salt"}};
  for (int i = 0; i < 100; ++i) known.Learn(ends, random.Extend(head, 640));
  REQUIRE(known.HashesAhead(ends, random.Extend(head, 640)));

  const Known others[] = {{hasher, head, 64, {"model", "adapter", "other"}},
                          {hasher, head, 64, {"model", "other", "salt"}},
                          {hasher, head, 64, {"other", "adapter", "salt"}},
                          {hasher, head, 64, {}},
                          {other_seed, head, 64, known.space},
                          {other_size, head, 32, known.space}};
  for (const Known& other : others) {
    CHECK(!other.HashesAhead(ends, random.Extend(head, 640)));
  }
}

TEST_CASE("prefix ends: a prompt without chunk keys teaches nothing") {
  const BlockHasher hasher(kBlock, 1);
  PromptMaker random(5);
  const Known known{hasher, random.Random(64 * kBlock), 64};
  PrefixEnds ends;
  for (int i = 0; i < 10; ++i) {
    const Tokens tokens = random.Extend(known.head, 320);
    const Request request = Request::FromTokens(tokens);
    PromptKeys keys(hasher, request);
    keys.Hash(false);
    ends.Learn(keys, known.blocks, known.last_key());
  }
  CHECK(!known.HashesAhead(ends, random.Extend(known.head, 320)));
}

}  // namespace prefixrouter
