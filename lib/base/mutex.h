// Mutex: std::mutex that spins for a moment before it sleeps, with the annotations of Clang's
// -Wthread-safety (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html).
//
// The router's critical sections last under a microsecond, less than putting a thread to sleep and
// waking it costs, so a waiter tries for about that long first.
#ifndef PREFIXROUTER_LIB_BASE_MUTEX_H_
#define PREFIXROUTER_LIB_BASE_MUTEX_H_

#include <mutex>

#if defined(__clang__)
#define PREFIX_ROUTER_ANNOTATE(x) __attribute__((x))
#else
#define PREFIX_ROUTER_ANNOTATE(x)
#endif
#define PREFIX_ROUTER_GUARDED_BY(x) PREFIX_ROUTER_ANNOTATE(guarded_by(x))
#define PREFIX_ROUTER_REQUIRES(x) PREFIX_ROUTER_ANNOTATE(requires_capability(x))

namespace prefixrouter {

class PREFIX_ROUTER_ANNOTATE(capability("mutex")) Mutex {
 public:
  void Lock() PREFIX_ROUTER_ANNOTATE(acquire_capability()) {
    for (int attempt = 0; attempt < kSpins; ++attempt) {
      if (mutex_.try_lock()) return;
      Pause();
    }
    mutex_.lock();
  }
  void Unlock() PREFIX_ROUTER_ANNOTATE(release_capability()) { mutex_.unlock(); }

 private:
  static constexpr int kSpins = 256;

  static void Pause() {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#endif
  }

  std::mutex mutex_;
};

// Holds the mutex for its own lifetime, but for stretches between Unlock and Lock.
class PREFIX_ROUTER_ANNOTATE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) PREFIX_ROUTER_ANNOTATE(acquire_capability(mutex))
      : mutex_(mutex) {
    mutex_.Lock();
  }
  ~MutexLock() PREFIX_ROUTER_ANNOTATE(release_capability()) {
    if (held_) mutex_.Unlock();
  }
  void Unlock() PREFIX_ROUTER_ANNOTATE(release_capability()) {
    held_ = false;
    mutex_.Unlock();
  }
  void Lock() PREFIX_ROUTER_ANNOTATE(acquire_capability()) {
    mutex_.Lock();
    held_ = true;
  }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
  bool held_ = true;
};

}  // namespace prefixrouter

#endif  // PREFIXROUTER_LIB_BASE_MUTEX_H_
