// MemoryMeter: what is resized keeps its contents and is counted, whether or not garbage is
// collected meanwhile, and garbage that is used again.
#include "lib/base/memory.h"

#include <cstdlib>
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

TEST_CASE("memory meter: freed memory of some size is used again") {
  MemoryMeter meter;
  Garbage garbage;
  meter.CollectIn(&garbage);
  for (const size_t size : {1000u, 1024u, 4096u, 16384u, 16385u}) {
    CAPTURE(size);
    void* const memory = meter.Allocate(size);
    meter.Free(memory, size);
    REQUIRE(garbage.Take(size) == nullptr);  // others may be reading it still
    garbage.Free();
    REQUIRE(garbage.Take(size + 8) == nullptr);
    void* const again = garbage.Take(size);
    REQUIRE((again != nullptr) == (Garbage::kKeeps && size >= 1024 && size <= 16384));
    if (again != nullptr) REQUIRE(again == memory);
    REQUIRE(garbage.Take(size) == nullptr);
    std::free(again);
  }
  // By the meter too, which counts it as it counts what is new.
  void* const memory = meter.Allocate(2048);
  meter.Free(memory, 2048);
  garbage.Free();
  void* const again = meter.Allocate(2048);
  REQUIRE((!Garbage::kKeeps || again == memory));
  REQUIRE(meter.bytes() == AllocationBytes(2048));
  meter.Free(again, 2048);
}

TEST_CASE("memory meter: of the memory that is used again there are few pieces, the latest") {
  Garbage garbage;
  for (size_t i = 0; i < 100; ++i) {
    REQUIRE(garbage.Add(std::malloc(2000 + i), 2000 + i));
    garbage.Free();
  }
  for (size_t i = 0; i < 100; ++i) {
    void* const memory = garbage.Take(2000 + i);
    REQUIRE((memory != nullptr) == (Garbage::kKeeps && i >= 84));
    std::free(memory);
  }
}

}  // namespace prefixrouter
