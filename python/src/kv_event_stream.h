// The Python objects KvEventStream, KvStreamAction and KvEventStreamStats.
#ifndef PREFIXROUTER_PYTHON_SRC_KV_EVENT_STREAM_H_
#define PREFIXROUTER_PYTHON_SRC_KV_EVENT_STREAM_H_

#include <pybind11/pybind11.h>

#include "prefixrouter/kv_event_stream.h"

namespace prefixrouter::python {

namespace py = pybind11;

void BindKvEventStream(py::module_& module);

// The options of a stream as keyword arguments, but has_replay, without which a subscriber does.
struct StreamArguments {
  py::object max_held_messages, max_held_bytes, replay_attempts, retry_delay_s, clear_on_loss;
};
KvEventStreamOptions ToStreamOptions(const StreamArguments& arguments);

}  // namespace prefixrouter::python

#endif  // PREFIXROUTER_PYTHON_SRC_KV_EVENT_STREAM_H_
