// Leaving the GIL while the library works, so that other Python threads run.
//
// Leaving and taking it costs 40 ns. But a thread that finds it taken sleeps until it is woken, and
// that takes tens of microseconds, longer than several calls of this library: with two threads that
// do nothing but route, each slept so often that both together did less than one alone. The GIL is
// then mostly taken by the other thread, which is between two calls and will leave it within a
// microsecond. So threads take turns in coming back: one that finds another between two calls first
// waits a moment for it to leave. docs/python.md has the figures.
#ifndef PREFIXROUTER_PYTHON_SRC_GIL_H_
#define PREFIXROUTER_PYTHON_SRC_GIL_H_

#include <pybind11/pybind11.h>

#include <atomic>
#include <chrono>
#include <thread>

namespace prefixrouter::python {

// Runs call(), which takes the GIL or may lose it, and throws nothing. When the interpreter ends
// meanwhile, Python before 3.14 ends the thread in there, by an unwinding that C++ code must not
// stop, though it has work in its hands; later versions let the thread wait for the end of the
// process. So does this.
template <typename Call>
auto WithGilOrNever(Call&& call) {
  try {
    return call();
  } catch (...) {
    for (;;) std::this_thread::sleep_for(std::chrono::hours(1));
  }
}

// The GIL as one thread leaves it and comes back to it.
class Gil {
 public:
  // REQUIRES: the calling thread holds the GIL.
  static void Leave() {
    away_ = PyEval_SaveThread();
    PyThreadState* mine = away_;
    turn_.compare_exchange_strong(mine, nullptr, std::memory_order_relaxed);
  }
  // REQUIRES: it has left it by Leave.
  static void ComeBack() {
    PyThreadState* const state = away_;
    away_ = nullptr;
    WaitForTurn(state);
    // PyGILState_Ensure would need parts of the interpreter that may be gone by now.
    WithGilOrNever([state] { PyEval_RestoreThread(state); });
    turn_.store(state, std::memory_order_relaxed);
  }
  static bool IsAway() { return away_ != nullptr; }

 private:
  // 4 us and more, as long as the processor's pause takes. The other thread may be doing something
  // else by now, so there is a limit.
  static constexpr int kSpins = 400;

  static void WaitForTurn(PyThreadState* state) {
    for (int spin = 0; spin < kSpins; ++spin) {
      PyThreadState* turn = turn_.load(std::memory_order_relaxed);
      if (turn == state) return;
      if (turn == nullptr &&
          turn_.compare_exchange_strong(turn, state, std::memory_order_relaxed)) {
        return;
      }
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
  }

  // The thread that has come back last and has not left again. Only a hint: the GIL itself decides.
  alignas(64) static inline std::atomic<PyThreadState*> turn_{nullptr};
  // The state of a thread that is away.
  static inline thread_local PyThreadState* away_ = nullptr;
};

// The calling thread does not hold the GIL while an object of this class lives, if `release`.
class GilReleased {
 public:
  explicit GilReleased(bool release = true) : released_(release) {
    if (released_) Gil::Leave();
  }
  ~GilReleased() {
    if (released_) Gil::ComeBack();
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  const bool released_;
};

// The opposite, for what the library calls: the thread holds the GIL, whether it has left it or
// not.
class GilHeld {
 public:
  GilHeld() : was_away_(Gil::IsAway()) {
    if (was_away_) Gil::ComeBack();
  }
  ~GilHeld() {
    if (was_away_) Gil::Leave();
  }
  GilHeld(const GilHeld&) = delete;
  GilHeld& operator=(const GilHeld&) = delete;

 private:
  const bool was_away_;
};

// The value of run(), without the GIL if `release`.
template <typename Run>
auto WithoutGil(bool release, Run&& run) {
  const GilReleased released(release);
  return run();
}

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_GIL_H_
