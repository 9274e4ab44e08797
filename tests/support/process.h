// What the operating system says about this process: resident memory and threads. Linux only; on
// other systems the figures are 0 and the tests that need them skip themselves.
#ifndef PREFIXROUTER_TESTS_SUPPORT_PROCESS_H_
#define PREFIXROUTER_TESTS_SUPPORT_PROCESS_H_

#include <cstddef>

namespace prefixrouter::testing {

// Resident memory in bytes; 0 if not known.
size_t ResidentBytes();
// Threads of the process; 0 if not known.
size_t ThreadCount();

}  // namespace prefixrouter::testing

#endif  // PREFIXROUTER_TESTS_SUPPORT_PROCESS_H_
