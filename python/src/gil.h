// Leaving the GIL while the library works, so that other Python threads run.
#ifndef PREFIXROUTER_PYTHON_SRC_GIL_H_
#define PREFIXROUTER_PYTHON_SRC_GIL_H_

#include <pybind11/pybind11.h>

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
      : state_(release && !Finalizing() ? PyEval_SaveThread() : nullptr) {}
  ~GilReleased() {
    if (state_ == nullptr) return;
    // A daemon thread that comes back while the interpreter ends must not go on, and Python before
    // 3.14 would end it here, in the middle of C++ code. It waits for the end of the process.
    while (Finalizing()) std::this_thread::sleep_for(std::chrono::hours(1));
    PyEval_RestoreThread(state_);
  }
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

// The value of run(), without the GIL if `release`.
template <typename Run>
auto WithoutGil(bool release, Run&& run) {
  const GilReleased released(release);
  return run();
}

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_GIL_H_
