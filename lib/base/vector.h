// PREFIX_ROUTER_VECTOR: in front of a function whose loops run over all instances, makes the
// compiler build it for AVX2 as well, and the program take that version where the machine has it.
// The results are the same to the last bit. Sanitizers cannot run code before main, which choosing
// needs.
#ifndef PREFIXROUTER_LIB_BASE_VECTOR_H_
#define PREFIXROUTER_LIB_BASE_VECTOR_H_

#if defined(__x86_64__) && defined(__linux__) && defined(__GNUC__) && !defined(__clang__) && \
    !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
#define PREFIX_ROUTER_VECTOR __attribute__((target_clones("avx2", "default")))
#else
#define PREFIX_ROUTER_VECTOR
#endif

#endif  // PREFIXROUTER_LIB_BASE_VECTOR_H_
