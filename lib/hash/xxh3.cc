#include "lib/hash/xxh3.h"

#include <xxhash.h>
#if defined(PREFIX_ROUTER_XXHASH_DISPATCH)
#include <xxh_x86dispatch.h>
#endif

namespace prefixrouter {

#if defined(PREFIX_ROUTER_XXHASH_DISPATCH)
namespace {

// xxHash's AVX functions leave the upper halves of the vector registers in use (0.8.1 and 0.8.2
// have no VZEROUPPER), and then the next SSE instruction, and the next AVX one after it, wait for
// about 90 ns each, under the router's lock (measured on Sapphire Rapids; Intel's optimization
// manual, "Mixing AVX code with SSE code").
const bool has_avx = __builtin_cpu_supports("avx") != 0;

__attribute__((target("avx"))) void ZeroUpper() { __builtin_ia32_vzeroupper(); }

uint64_t AfterAvx(uint64_t hash) {
  if (has_avx) ZeroUpper();
  return hash;
}

}  // namespace

uint64_t Xxh3(const void* data, size_t size) { return AfterAvx(XXH3_64bits_dispatch(data, size)); }

uint64_t Xxh3WithSecret(const void* data, size_t size, const void* secret, size_t secret_size) {
  return AfterAvx(XXH3_64bits_withSecret_dispatch(data, size, secret, secret_size));
}
#else
uint64_t Xxh3(const void* data, size_t size) { return XXH3_64bits(data, size); }

uint64_t Xxh3WithSecret(const void* data, size_t size, const void* secret, size_t secret_size) {
  return XXH3_64bits_withSecret(data, size, secret, secret_size);
}
#endif

}  // namespace prefixrouter
