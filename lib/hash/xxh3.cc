#include "lib/hash/xxh3.h"

#include <xxhash.h>
#if defined(PREFIX_ROUTER_XXHASH_DISPATCH)
#include <xxh_x86dispatch.h>
#endif

namespace prefixrouter {

#if defined(PREFIX_ROUTER_XXHASH_DISPATCH)
uint64_t Xxh3(const void* data, size_t size) { return XXH3_64bits_dispatch(data, size); }

uint64_t Xxh3WithSecret(const void* data, size_t size, const void* secret, size_t secret_size) {
  return XXH3_64bits_withSecret_dispatch(data, size, secret, secret_size);
}
#else
uint64_t Xxh3(const void* data, size_t size) { return XXH3_64bits(data, size); }

uint64_t Xxh3WithSecret(const void* data, size_t size, const void* secret, size_t secret_size) {
  return XXH3_64bits_withSecret(data, size, secret, secret_size);
}
#endif

}  // namespace prefixrouter
