// PREFIX_ROUTER_VECTOR: in front of a function whose loops run over all instances, makes the
// compiler build it for AVX2 and AVX-512 as well, and the program take the best version that the
// machine has. The results are the same to the last bit (-ffp-contract=off: none fuses a product
// with a sum). Sanitizers cannot run code before main, which choosing needs.
#ifndef PREFIXROUTER_LIB_BASE_VECTOR_H_
#define PREFIXROUTER_LIB_BASE_VECTOR_H_

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PREFIX_ROUTER_VECTOR __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define PREFIX_ROUTER_VECTOR
#endif

#endif  // PREFIXROUTER_LIB_BASE_VECTOR_H_
