// Callbacks that throw C++ exceptions, and memory that runs out, for tests in C.
#ifndef PREFIXROUTER_TESTS_CAPI_THROWING_H_
#define PREFIXROUTER_TESTS_CAPI_THROWING_H_

#include "prefix_router.h"

#ifdef __cplusplus
extern "C" {
#endif

// What to throw: user_data points to one of them.
enum {
  THROW_NOTHING = 0,
  THROW_BAD_ALLOC = 1,
  THROW_INVALID_ARGUMENT = 2,  // "injected argument"
  THROW_RUNTIME_ERROR = 3,     // "injected failure"
  THROW_INT = 4                // no std::exception at all
};

int32_t throwing_policy(const prefix_router_policy_input* input, float* costs, void* user_data);
int64_t throwing_clock(void* user_data);

// From now on, the calling thread's allocations by operator new but the first `count` of them throw
// std::bad_alloc. Returns whether any has since the last call.
int fail_allocations_after(uint64_t count);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PREFIXROUTER_TESTS_CAPI_THROWING_H_
