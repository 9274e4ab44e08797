// MemoryMeter: what is resized keeps its contents and is counted, whether or not garbage is
// collected meanwhile.
#include "lib/base/memory.h"

#include <cstring>
#include <numeric>
#include <vector>

#include "tests/catch.h"

namespace prefixrouter {

TEST_CASE("memory meter: what is resized keeps its contents and is counted") {
  for (const bool collects : {false, true}) {
    MemoryMeter meter;
    Garbage garbage;
    if (collects) meter.CollectIn(&garbage);
    std::vector<unsigned char> bytes(20000);
    std::iota(bytes.begin(), bytes.end(), static_cast<unsigned char>(0));
    void* memory = nullptr;
    size_t size = 0;
    // More often than there is room for garbage.
    for (int round = 0; round < 30; ++round) {
      for (const size_t next : {100u, 5000u, 20000u, 4097u, 4096u, 1u, 10u}) {
        CAPTURE(collects, round, size, next);
        memory = meter.Reallocate(memory, size, next);
        REQUIRE(std::memcmp(memory, bytes.data(), std::min(size, next)) == 0);
        std::memcpy(memory, bytes.data(), next);
        size = next;
        REQUIRE(meter.bytes() == AllocationBytes(size));
      }
    }
    REQUIRE(meter.Reallocate(memory, size, 0) == nullptr);
    REQUIRE(meter.bytes() == 0);
  }
}

TEST_CASE("memory meter: what is freed can be read until the garbage is") {
  MemoryMeter meter;
  Garbage garbage;
  meter.CollectIn(&garbage);
  auto* const memory = static_cast<unsigned char*>(meter.Allocate(1000));
  std::memset(memory, 7, 1000);
  void* const smaller = meter.Reallocate(memory, 1000, 100);
  REQUIRE(smaller != memory);
  REQUIRE(memory[999] == 7);
  meter.Free(smaller, 100);
  REQUIRE(meter.bytes() == 0);
  garbage.Free();
}

}  // namespace prefixrouter
