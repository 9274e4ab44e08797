#include "benchmarks/heap.h"

#if __has_include(<malloc.h>)
#include <malloc.h>
#endif

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace prefixrouter::bench {
namespace {

thread_local uint64_t allocation_count = 0;

}  // namespace

uint64_t AllocationCount() { return allocation_count; }

std::optional<size_t> AllocatedBytes() {
#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 33)
  const struct mallinfo2 info = mallinfo2();
  return info.uordblks + info.hblkhd;  // in arenas, and in blocks mapped one by one
#else
  return std::nullopt;
#endif
}

}  // namespace prefixrouter::bench

using prefixrouter::bench::allocation_count;

#if defined(__GLIBC__)

// glibc's own functions under their second names. free stays as it is: these return its memory.
extern "C" {

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* pointer, size_t size);
void* __libc_memalign(size_t alignment, size_t size);

void* malloc(size_t size) {
  ++allocation_count;
  return __libc_malloc(size);
}

void* calloc(size_t count, size_t size) {
  ++allocation_count;
  return __libc_calloc(count, size);
}

void* realloc(void* pointer, size_t size) {
  ++allocation_count;
  return __libc_realloc(pointer, size);
}

void* aligned_alloc(size_t alignment, size_t size) {
  ++allocation_count;
  return __libc_memalign(alignment, size);
}

void* memalign(size_t alignment, size_t size) {
  ++allocation_count;
  return __libc_memalign(alignment, size);
}

int posix_memalign(void** pointer, size_t alignment, size_t size) {
  ++allocation_count;
  *pointer = __libc_memalign(alignment, size);
  return *pointer == nullptr ? ENOMEM : 0;
}

}  // extern "C"

#else

void* operator new(size_t size) {
  ++allocation_count;
  if (void* pointer = std::malloc(size)) return pointer;
  throw std::bad_alloc();
}
void operator delete(void* pointer) noexcept { std::free(pointer); }
void operator delete(void* pointer, size_t) noexcept { std::free(pointer); }

#endif
