// Mutex: std::mutex that spins for a moment before it sleeps, with the annotations of Clang's
// -Wthread-safety (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html).
//
// The router's critical sections last about a microsecond, less than putting a thread to sleep and
// waking it costs, so a waiter tries for longer than that first: for longer also than an interrupt
// takes the owner's processor, 30 to 100 us on a virtual machine. Now and then it offers its own
// processor to others, in case that the owner waits for it. It waits by reading a flag, not by
// trying to lock: attempts would take the cache line from the owner, who needs it to unlock. For
// the same reason the mutex has a cache line of its own.
#ifndef PREFIXROUTER_LIB_BASE_MUTEX_H_
#define PREFIXROUTER_LIB_BASE_MUTEX_H_

#include <atomic>
#include <mutex>
#include <thread>

#if defined(__clang__)
#define PREFIX_ROUTER_ANNOTATE(x) __attribute__((x))
#else
#define PREFIX_ROUTER_ANNOTATE(x)
#endif
#define PREFIX_ROUTER_GUARDED_BY(x) PREFIX_ROUTER_ANNOTATE(guarded_by(x))
#define PREFIX_ROUTER_REQUIRES(x) PREFIX_ROUTER_ANNOTATE(requires_capability(x))

namespace prefixrouter {

class alignas(64) PREFIX_ROUTER_ANNOTATE(capability("mutex")) Mutex {
 public:
  void Lock() PREFIX_ROUTER_ANNOTATE(acquire_capability()) {
    if (!TryLock()) LockSlowly();
  }
  void Unlock() PREFIX_ROUTER_ANNOTATE(release_capability()) {
    held_.store(false, std::memory_order_relaxed);
    mutex_.unlock();
  }

 private:
  static constexpr int kRounds = 5;
  static constexpr int kSpins = 1000;  // 15 to 60 us on x86-64

  bool TryLock() {
    if (!mutex_.try_lock()) return false;
    held_.store(true, std::memory_order_relaxed);
    return true;
  }
  void LockSlowly() {
    for (int round = 0; round < kRounds; ++round) {
      for (int spin = 0; spin < kSpins; ++spin) {
        if (!held_.load(std::memory_order_relaxed) && TryLock()) return;
        Pause();
      }
      std::this_thread::yield();
    }
    mutex_.lock();
    held_.store(true, std::memory_order_relaxed);
  }
  static void Pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    asm volatile("isb");  // `yield` does not wait on most of them
#endif
  }

  std::mutex mutex_;
  std::atomic<bool> held_{false};  // a hint for waiters
};

// Holds the mutex for its own lifetime.
class PREFIX_ROUTER_ANNOTATE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PREFIX_ROUTER_ANNOTATE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() PREFIX_ROUTER_ANNOTATE(release_capability()) { mutex_.Unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// The opposite: leaves a mutex that is held for its own lifetime. Both ends are annotated as
// releasing, which is how the analysis is told of a scope that takes a capability away.
class PREFIX_ROUTER_ANNOTATE(scoped_lockable) MutexUnlock {
 public:
  explicit MutexUnlock(Mutex& mutex) PREFIX_ROUTER_ANNOTATE(release_capability(mutex))
      : mutex_(mutex) {
    mutex_.Unlock();
  }
  ~MutexUnlock() PREFIX_ROUTER_ANNOTATE(release_capability()) { mutex_.Lock(); }
  MutexUnlock(const MutexUnlock&) = delete;
  MutexUnlock& operator=(const MutexUnlock&) = delete;

 private:
  Mutex& mutex_;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_BASE_MUTEX_H_
