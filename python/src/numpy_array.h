// Reads numpy arrays of uint32 where they lie, without numpy's own way to do so.
//
// The buffer protocol of numpy describes the array anew for each call: it allocates, formats the
// type as text and compares it with the last one, 0.1 us. What it allocates comes from memory that
// all threads share, so that with two of them it took 0.25 us, with the GIL held.
#ifndef PREFIXROUTER_PYTHON_SRC_NUMPY_ARRAY_H_
#define PREFIXROUTER_PYTHON_SRC_NUMPY_ARRAY_H_

#include <pybind11/pybind11.h>

#include "token_array.h"

namespace prefixrouter::python {

namespace py = pybind11;

// Sets *view to the memory of `value` if it is a numpy array of native uint32 and one dimension.
// False for everything else, which the buffer protocol has to read or to refuse. The memory is
// there as long as `value` is, which the caller must hold. Needs numpy for nothing: an array can
// only come from a program that has loaded it.
bool ViewNumpyUint32(py::handle value, ArrayView* view);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_NUMPY_ARRAY_H_
