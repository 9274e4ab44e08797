// Arrays and holder tables of a run: their forms, and memory to the byte.
#include "lib/index/run.h"

#include <map>
#include <random>
#include <vector>

#include "tests/catch.h"

namespace prefixrouter {

TEST_CASE("array capacities cover the count and waste at most an eighth") {
  uint32_t previous = 0;
  for (uint32_t count = 0; count < 100000; ++count) {
    const uint32_t capacity = ArrayCapacity(count);
    REQUIRE(capacity >= count);
    REQUIRE(capacity >= previous);
    REQUIRE(capacity - count <= std::max(2u, count / 8));
    previous = capacity;
  }
}

TEST_CASE("key arrays keep their keys when they are resized and cut at the front") {
  MemoryMeter meter;
  KeyArray keys;
  uint32_t size = 0;
  std::vector<uint64_t> model;
  std::mt19937_64 random(3);
  for (int i = 0; i < 5000; ++i) {
    const uint32_t wanted = static_cast<uint32_t>(random() % 300);
    if (wanted < size && random() % 2 == 0) {
      keys.DropFront(meter, size, size - wanted);
      model.erase(model.begin(), model.end() - wanted);
    } else {
      keys.Resize(meter, size, wanted);
      model.resize(wanted);
      for (uint32_t k = size; k < wanted; ++k) keys.data()[k] = model[k] = random();
    }
    size = wanted;
    REQUIRE(std::vector<uint64_t>(keys.data(), keys.data() + size) == model);
    REQUIRE(meter.bytes() == KeyArray::Bytes(size));
  }
  keys.Resize(meter, size, 0);
  REQUIRE(meter.bytes() == 0);
}

TEST_CASE("holders equal a map in every form, and their memory is bounded") {
  for (const uint32_t slot_limit : {3u, 40u, 500u}) {
    MemoryMeter meter;
    Holders holders;
    std::map<uint32_t, std::pair<uint32_t, Segment*>> model;
    std::vector<Segment> segments(slot_limit);
    std::mt19937_64 random(slot_limit);
    bool was_dense = false;
    for (int i = 0; i < 20000; ++i) {
      const uint32_t slot = static_cast<uint32_t>(random() % slot_limit);
      const bool growing = i / 5000 % 2 == 0;  // to full, to nearly empty, and again
      const uint32_t position = holders.Find(slot);
      REQUIRE((position != Holders::kNone) == (model.count(slot) == 1));
      if (position == Holders::kNone) {
        if (!growing && random() % 4 != 0) continue;
        const size_t bound = Holders::BytesBound(holders.count() + 1, slot_limit);
        const uint32_t added = holders.Add(meter, slot, slot_limit);
        holders.set_first(added, &segments[slot]);
        holders.set_held(added, i + 1);
        model[slot] = {i + 1, &segments[slot]};
        REQUIRE(meter.bytes() <= bound);
      } else if (!growing || random() % 4 == 0) {
        if (random() % 8 == 0) {  // several at once
          for (uint32_t k = 0; k < holders.limit(); ++k) {
            if (holders.first(k) == nullptr || random() % 3 != 0) continue;
            model.erase(holders.slot(k));
            holders.set_first(k, nullptr);
          }
          holders.RemoveEmpty(meter, slot_limit);
        } else {
          holders.Remove(meter, position, slot_limit);
          model.erase(slot);
        }
      }
      was_dense |= holders.dense();
      REQUIRE(holders.count() == model.size());
      if (i % 64 == 0) {
        size_t seen = 0;
        for (uint32_t k = 0; k < holders.limit(); ++k) {
          if (holders.first(k) == nullptr) continue;
          const auto& [held, segment] = model.at(holders.slot(k));
          REQUIRE(holders.held(k) == held);
          REQUIRE(holders.first(k) == segment);
          ++seen;
        }
        REQUIRE(seen == model.size());
      }
    }
    REQUIRE(was_dense == (slot_limit == 500));
    holders.Free(meter);
    REQUIRE(meter.bytes() == 0);
  }
}

}  // namespace prefixrouter
