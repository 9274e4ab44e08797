// MemoryMeter: memory that is counted to the byte that the allocator takes, and what goes with it.
#ifndef PREFIXROUTER_LIB_BASE_MEMORY_H_
#define PREFIXROUTER_LIB_BASE_MEMORY_H_

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <utility>

namespace prefixrouter {

// What an allocation costs: a header of 8 bytes, rounded to 16, at least 32 (glibc's malloc; others
// differ by less than their own size classes).
inline constexpr size_t AllocationBytes(size_t size) {
  return size == 0 ? 0 : std::max<size_t>(32, (size + 8 + 15) & ~size_t{15});
}

// Memory of an absl::flat_hash_map: a slot and a control byte for each unit of capacity.
template <typename Map>
size_t MapBytes(size_t capacity) {
  return capacity == 0 ? 0
                       : AllocationBytes(capacity * (sizeof(typename Map::value_type) + 1) + 32);
}

// The most that adding entries takes. The map may double from 25/32 full on, because erased entries
// take places too.
template <typename Map>
size_t MapGrowthBound(const Map& map, size_t added) {
  const size_t size = map.size() + added;
  if (map.capacity() > 16 && size * 32 <= map.capacity() * 25) return 0;
  return MapBytes<Map>(std::bit_ceil(size * 32 / 25 + 16) * 2);
}

// Memory that waits to be freed, so that it happens when a lock is released: freeing touches memory
// that the lock does not protect, which has been cold for long.
//
// Some of it is kept for the owner to use again, 256 KiB at most. A thread that inserts prompts
// into a full index evicts as many others, of about the same sizes; and to allocate and free more
// than 1 KiB each time is slow: the C library takes a lock of its own, which a thread that frees
// what another has allocated shares with it, and reads and writes the neighbours in memory, cold
// too.
class Garbage {
 public:
#if defined(__SANITIZE_ADDRESS__)
  static constexpr bool kKeeps = false;  // what is read after it was freed would go unnoticed
#else
  static constexpr bool kKeeps = true;
#endif

  Garbage() = default;
  ~Garbage() {
    Free();
    for (const Piece& piece : kept_) std::free(piece.memory);
  }
  Garbage(const Garbage&) = delete;
  Garbage& operator=(const Garbage&) = delete;

  // False when there is no room for more.
  bool Add(void* memory, size_t size) {
    if (count_ == kCapacity) return false;
    pieces_[count_++] = {memory, size};
    return true;
  }
  void Free() {
    while (count_ > 0) {
      Piece piece = pieces_[--count_];
      // It takes the place of what has waited longest: sizes that are not needed do not stay.
      if (kKeeps && piece.size >= kLeastKept && piece.size <= kMostKept) {
        std::swap(piece, kept_[next_kept_]);
        next_kept_ = (next_kept_ + 1) % kKept;
      }
      std::free(piece.memory);
    }
  }
  // Kept memory of just this size, by malloc, which is the caller's from now on. Null without.
  void* Take(size_t size) {
    if (size < kLeastKept) return nullptr;
    for (Piece& piece : kept_) {
      if (piece.size == size) return std::exchange(piece, Piece()).memory;
    }
    return nullptr;
  }

 private:
  struct Piece {
    void* memory;
    size_t size;
  };
  static constexpr size_t kCapacity = 64;
  static constexpr size_t kKept = 16;
  static constexpr size_t kLeastKept = 1024;
  static constexpr size_t kMostKept = 16 * 1024;

  size_t count_ = 0;
  Piece pieces_[kCapacity];
  size_t next_kept_ = 0;
  Piece kept_[kKept] = {};
};

// Memory that `garbage`, which may be null, has kept, or else new memory. Throws std::bad_alloc.
inline void* AllocateFrom(Garbage* garbage, size_t size) {
  void* memory = garbage != nullptr ? garbage->Take(size) : nullptr;
  if (memory == nullptr) memory = std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

// Asks for one cache line, which will be written.
inline void PrefetchLine(const void* memory) {
#if defined(__GNUC__)
  __builtin_prefetch(memory, 1);
  // Else GCC takes functions that only prefetch for pure, and drops their calls.
  asm volatile("");
#endif
}

// Asks for the cache lines of `size` bytes, which will be written.
inline void Prefetch(const void* memory, size_t size) {
  constexpr uintptr_t kLine = 64;
  const uintptr_t begin = reinterpret_cast<uintptr_t>(memory) & ~(kLine - 1);
  for (uintptr_t line = begin; line < reinterpret_cast<uintptr_t>(memory) + size; line += kLine) {
    PrefetchLine(reinterpret_cast<const void*>(line));
  }
}

// malloc with a running total. Throws std::bad_alloc like operator new.
class MemoryMeter {
 public:
  size_t bytes() const { return bytes_; }

  void* Allocate(size_t size) { return Reallocate(nullptr, 0, size); }
  void Free(void* memory, size_t size) {
    Discard(memory, size);
    bytes_ -= AllocationBytes(size);
  }
  // What is freed goes into `garbage` while it has room; null ends that.
  void CollectIn(Garbage* garbage) { garbage_ = garbage; }
  // Like realloc; new_size 0 frees. While garbage is collected, short memory is copied.
  void* Reallocate(void* memory, size_t old_size, size_t new_size) {
    if (new_size == 0) {
      Free(memory, old_size);
      return nullptr;
    }
    // realloc takes a lock of the heap, and sleeps while another thread allocates or frees there;
    // who waits for the router's lock then sleeps as well. Copying 4 KiB takes 100 ns.
    const size_t kept = std::min(old_size, new_size);
    const bool anew = memory == nullptr || (garbage_ != nullptr && kept <= kMostCopied);
    void* const moved = anew ? AllocateFrom(garbage_, new_size) : std::realloc(memory, new_size);
    if (moved == nullptr) throw std::bad_alloc();
    if (anew && memory != nullptr) {
      std::memcpy(moved, memory, kept);
      Discard(memory, old_size);
    }
    bytes_ += AllocationBytes(new_size) - AllocationBytes(old_size);
    return moved;
  }
  // For memory that others allocate on the index's behalf.
  void Adjust(size_t old_bytes, size_t new_bytes) { bytes_ += new_bytes - old_bytes; }

 private:
  static constexpr size_t kMostCopied = 4096;

  void Discard(void* memory, size_t size) {
    if (memory == nullptr) return;
    if (garbage_ == nullptr || !garbage_->Add(memory, size)) std::free(memory);
  }

  size_t bytes_ = 0;
  Garbage* garbage_ = nullptr;
};

// Elements to allocate for `count`: at most 1/8 more, so that a run that grows by a few blocks a
// time is moved rarely. A function of the count alone: after any history the memory is that of a
// fresh build.
inline constexpr uint32_t ArrayCapacity(uint32_t count) {
  if (count <= 2) return count;
  const int width = std::bit_width(count - 1);
  const uint32_t step = width <= 4 ? 2 : uint32_t{1} << (width - 4);
  return (count + step - 1) / step * step;
}

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_BASE_MEMORY_H_
