// What the heap says about the program.
//
// AllocationCount counts allocations of the calling thread: every malloc, calloc, realloc and
// aligned allocation, whoever makes it (operator new of all forms ends there).
//
// heap.cc replaces the C library's malloc family in the program that it is linked
// into, which works with glibc. On other systems only operator new is counted.
#ifndef PREFIXROUTER_BENCHMARKS_HEAP_H_
#define PREFIXROUTER_BENCHMARKS_HEAP_H_

#include <cstddef>
#include <cstdint>
#include <optional>

namespace prefixrouter::bench {

// Of this thread, since it started.
uint64_t AllocationCount();

// Bytes that the C library's allocator has given out and not got back, by its own count. Empty
// where it has none (mallinfo2 came with glibc 2.33).
std::optional<size_t> AllocatedBytes();

}  // namespace prefixrouter::bench

#endif  // PREFIXROUTER_BENCHMARKS_HEAP_H_
