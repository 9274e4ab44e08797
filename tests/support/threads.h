// Runs one piece of work in several threads that start together.
//
// Catch2's checks are not thread-safe, so the threads count what is wrong, and the test checks the
// counts when they have ended.
#ifndef PREFIXROUTER_TESTS_SUPPORT_THREADS_H_
#define PREFIXROUTER_TESTS_SUPPORT_THREADS_H_

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace prefixrouter::testing {

// A scheduler may run one thread to its end before another begins. So where a test is about what
// happens meanwhile, whoever makes the changes goes on, after its fixed share, until it has
// happened more often than this, or something was wrong.
constexpr size_t kEnough = 10;

// Calls work(0), ..., work(count - 1), each in its own thread, and waits for all of them.
template <typename Work>
void RunThreads(size_t count, const Work& work) {
  std::atomic<size_t> waiting{count};
  std::vector<std::thread> threads;
  for (size_t t = 0; t < count; ++t) {
    threads.emplace_back([&waiting, &work, t] {
      --waiting;
      while (waiting.load() > 0) std::this_thread::yield();
      work(t);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace prefixrouter::testing

#endif  // PREFIXROUTER_TESTS_SUPPORT_THREADS_H_
