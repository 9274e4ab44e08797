// Reads /proc/self.
#include "tests/support/process.h"

#include <unistd.h>

#include <fstream>
#include <string>

namespace prefixrouter::testing {

size_t ResidentBytes() {
  std::ifstream statm("/proc/self/statm");
  size_t total_pages = 0;
  size_t resident_pages = 0;
  if (!(statm >> total_pages >> resident_pages)) return 0;
  return resident_pages * static_cast<size_t>(sysconf(_SC_PAGESIZE));
}

size_t ThreadCount() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    size_t threads = 0;
    if (word == "Threads:" && status >> threads) return threads;
  }
  return 0;
}

}  // namespace prefixrouter::testing
