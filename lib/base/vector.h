// For loops that run over all instances.
//
// PREFIX_ROUTER_VECTOR in front of a function makes the compiler build it for AVX2 and AVX-512 as
// well, and the program take the best version that the machine has. The results are the same to the
// last bit (-ffp-contract=off: none fuses a product with a sum). Sanitizers cannot run code before
// main, which choosing needs.
//
// LineVector is a std::vector that begins at a cache line, so that no vector load takes two of
// them: with 4,096 instances a decision reads and writes 130 KiB, and takes 3.0 us instead of 3.4.
#ifndef PREFIXROUTER_LIB_BASE_VECTOR_H_
#define PREFIXROUTER_LIB_BASE_VECTOR_H_

#include <cstddef>
#include <new>
#include <vector>

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PREFIX_ROUTER_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PREFIX_ROUTER_VECTOR
#endif

namespace prefixrouter {

template <typename T>
struct LineAllocator {
  using value_type = T;
  static constexpr std::align_val_t kLine{64};

  LineAllocator() = default;
  template <typename Other>
  LineAllocator(const LineAllocator<Other>&) {}
  T* allocate(size_t count) { return static_cast<T*>(::operator new(count * sizeof(T), kLine)); }
  void deallocate(T* memory, size_t) { ::operator delete(memory, kLine); }
  friend bool operator==(const LineAllocator&, const LineAllocator&) { return true; }
};
template <typename T>
using LineVector = std::vector<T, LineAllocator<T>>;

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_BASE_VECTOR_H_
