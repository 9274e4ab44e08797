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

// Whether the interpreter is on its way down.
inline bool Finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// The calling thread does not hold the GIL while an object of this class lives, if `release`.
class GilReleased {
 public:
  explicit GilReleased(bool release = true)
      : state_(release && !Finalizing() ? PyEval_SaveThread() : nullptr) {
    if (state_ != nullptr) EndTurn();
  }
  ~GilReleased() {
    if (state_ == nullptr) return;
    // A daemon thread that comes back while the interpreter ends must not go on, and Python before
    // 3.14 would end it here, in the middle of C++ code. It waits for the end of the process.
    while (Finalizing()) std::this_thread::sleep_for(std::chrono::hours(1));
    WaitForTurn();
    PyEval_RestoreThread(state_);
    turn_.store(state_, std::memory_order_relaxed);
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  // 4 us and more, as long as the processor's pause takes. The other thread may be doing something
  // else by now, so there is a limit.
  static constexpr int kSpins = 400;

  void EndTurn() const {
    PyThreadState* mine = state_;
    turn_.compare_exchange_strong(mine, nullptr, std::memory_order_relaxed);
  }
  void WaitForTurn() const {
    for (int spin = 0; spin < kSpins; ++spin) {
      PyThreadState* turn = turn_.load(std::memory_order_relaxed);
      if (turn == state_) return;
      if (turn == nullptr &&
          turn_.compare_exchange_strong(turn, state_, std::memory_order_relaxed)) {
        return;
      }
#if defined(__x86_64__) || defined(__i386__)
      __builtin_ia32_pause();
#endif
    }
  }

  // The thread that has come back last and has not left again. Only a hint: the GIL itself decides.
  alignas(64) static inline std::atomic<PyThreadState*> turn_{nullptr};

  PyThreadState* const state_;
};

// The value of run(), without the GIL if `release`.
template <typename Run>
auto WithoutGil(bool release, Run&& run) {
  const GilReleased released(release);
  return run();
}

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_GIL_H_
