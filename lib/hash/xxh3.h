// XXH3 with the instruction set chosen at run time: a library that is built for baseline x86-64
// hashes with AVX2 or AVX-512 where the machine has it, if the xxHash it is linked with was built
// for that (Debian's is). For inputs above 240 bytes, where it matters; shorter ones are hashed by
// scalar code that gives the same values.
#ifndef PREFIXROUTER_LIB_HASH_XXH3_H_
#define PREFIXROUTER_LIB_HASH_XXH3_H_

#include <cstddef>
#include <cstdint>

namespace prefixrouter {

// XXH3_64bits: the default secret. The yardstick of the benchmarks.
uint64_t Xxh3(const void* data, size_t size);

// XXH3_64bits_withSecret. REQUIRES: secret_size >= 136.
uint64_t Xxh3WithSecret(const void* data, size_t size, const void* secret, size_t secret_size);

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_HASH_XXH3_H_
