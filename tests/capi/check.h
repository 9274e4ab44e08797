// What the C tests share: checks that count, a table of cases, and routers to test with.
#ifndef PREFIXROUTER_TESTS_CAPI_CHECK_H_
#define PREFIXROUTER_TESTS_CAPI_CHECK_H_

#include "prefix_router.h"

// Each prints what was expected when it fails, and the test goes on. They answer 1 if it holds.
#define CHECK(condition) check_that((condition) != 0, #condition, __FILE__, __LINE__)
#define CHECK_OK(call) check_status((call), PREFIX_ROUTER_OK, NULL, #call, __FILE__, __LINE__)
// The call fails with this status, and prefix_router_last_error() has `text` in it.
#define CHECK_FAILS(call, status, text) \
  check_status((call), (status), (text), #call, __FILE__, __LINE__)

int check_that(int holds, const char* what, const char* file, int line);
int check_status(int32_t actual, int32_t expected, const char* text, const char* call,
                 const char* file, int line);

// A test case: `name` is a sentence that says what is proved.
typedef struct test_case {
  const char* name;
  void (*run)(void);
} test_case;

// The cases of each file, up to one whose name is NULL.
extern const test_case create_tests[];
extern const test_case instance_tests[];
extern const test_case route_tests[];
extern const test_case lease_tests[];
extern const test_case inspect_tests[];
extern const test_case metrics_tests[];
extern const test_case events_tests[];
extern const test_case event_stream_tests[];
extern const test_case callback_tests[];
extern const test_case struct_size_tests[];
extern const test_case exception_tests[];
extern const test_case threads_tests[];

// A clock that stands still until it is moved.
int64_t read_clock(void* nanos);

// All zeros but for struct_size.
prefix_router_options default_options(void);
prefix_router_request token_request(const uint32_t* tokens, size_t count);
prefix_router_decision empty_decision(void);

// A router with fixed seeds and `instances` instances named "a", "b", ..., whose numbers go to ids.
// The clock is *nanos if that is not NULL. Ends the program if it cannot be made.
prefix_router* make_router(size_t instances, uint64_t* ids, int64_t* nanos);
uint64_t add_instance(prefix_router* router, const char* name);

// Fills tokens[0, count) with ids that depend on `seed`.
void fill_tokens(uint32_t* tokens, size_t count, uint32_t seed);

uint64_t requests_routed(const prefix_router* router);

#endif  // PREFIXROUTER_TESTS_CAPI_CHECK_H_
