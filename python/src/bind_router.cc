// PrefixRouter as Python sees it: its methods with their documentation.
#include "decision.h"
#include "errors.h"
#include "gil.h"
#include "lease.h"
#include "request.h"
#include "router.h"

namespace prefixrouter::python {
namespace {

constexpr const char* kDoc =
    "Picks the inference instance that will answer a prompt first.\n"
    "\n"
    "It knows what each instance has cached (from what was routed there) and how busy each one is\n"
    "(leases, engine reports), and answers in microseconds: no I/O, no threads.\n"
    "\n"
    "All methods may be called from any thread. For long prompts they leave the GIL while they\n"
    "work. As a context manager it is closed at the end of the block.\n"
    "\n"
    "A prompt, the argument ``tokens``, is one of\n"
    "\n"
    "* token ids, of shape ``(n,)``: a list or tuple of ints, or an array of any integer type\n"
    "  (numpy, ``array.array``, tensors in CPU memory). A contiguous uint32 array is read in\n"
    "  place, others are copied once. It must not change during the call.\n"
    "* text, for gateways without a tokenizer: str (as UTF-8), bytes or bytearray.\n"
    "\n"
    "Example:\n"
    "    >>> router = PrefixRouter(block_size=16)\n"
    "    >>> router.add_instance(\"10.0.0.1:8000\")\n"
    "    <Instance '10.0.0.1:8000' rank 0>\n"
    "    >>> router.route([1, 2, 3])\n"
    "    '10.0.0.1:8000'\n";

constexpr const char* kInitDoc =
    "__init__(self, *, block_size=16, text_block_bytes=64, text_bytes_per_token=4.0, "
    "policy='prefix_cost', policy_options=None, key_seed=None, routers=1, "
    "random_seed=None, predicted_ttl_s=0.0, "
    "confirm_window_s=2.0, cpu_tier_weight=0.8, disk_tier_weight=0.5, external_tier_weight=0.5, "
    "default_prefill_tokens_per_s=10000.0, calibrate=True, "
    "report_max_age_s=5.0, lease_ttl_s=600.0, session_ttl_s=3600.0, session_slack_s=0.25, "
    "index_budget_bytes=1073741824, max_prompt_tokens=16777216, max_instances=65536, "
    "max_sessions=262144, clock=None, latency_interval_s=0.0001)\n--\n\n"
    "Makes a router without instances.\n"
    "\n"
    "Args:\n"
    "    block_size (int): Tokens a block; best the engines' own block size. 1 to 32,768.\n"
    "    text_block_bytes (int): Bytes a block of text prompts. 1 to 131,072.\n"
    "    text_bytes_per_token (float): To estimate the length of text prompts. 0.25 to 64.\n"
    "    policy (str | Callable[[PolicyInput], costs]): One of ``policy_names()``, or a callable\n"
    "        that gives each instance a cost, of which the lowest wins: a list or tuple of\n"
    "        numbers, or an array of shape ``(size,)`` of a float type (or an integer type of 4\n"
    "        or 8 bytes). It runs on the thread of the call; what it raises leaves that call, and\n"
    "        nothing is changed. It must not call the router.\n"
    "    policy_options (PolicyOptions | None): A dict of numbers of the named policies. None:\n"
    "        the defaults.\n"
    "    key_seed (int | None): Secret of the block keys, 64 bits. None: from the operating\n"
    "        system. Set it for repeatable runs, or for routers that share keys.\n"
    "    routers (int): Routers, this one included, that send requests to the same instances and\n"
    "        do not know of each other's. With more than one, ``prefix_cost`` (and a callable, by\n"
    "        ``PolicyInput.home``) prefers to place a session where the others will look for it.\n"
    "        They need one ``key_seed`` and one ``block_size`` (``text_block_bytes`` for text), "
    "and\n"
    "        must give the instances the same names and ranks. 1 to 1,000,000.\n"
    "    random_seed (int | None): Seed of the choice between near-ties, 64 bits. None: as above.\n"
    "    predicted_ttl_s (float): A block that no request has used for this long, in seconds, no\n"
    "        longer counts as cached. 0: until it is evicted. 0 to 1e9.\n"
    "    confirm_window_s (float): How long a routed prompt counts as cached before the KV events\n"
    "        of its instance arrive, in seconds. 0.001 to 3600.\n"
    "    cpu_tier_weight (float): How much of a cached token's prefill is saved when KV events "
    "say\n"
    "        that it lies in CPU memory and has to be loaded. 0: it does not count as cached. 0 "
    "to\n"
    "        1.\n"
    "    disk_tier_weight (float): The same on disk.\n"
    "    external_tier_weight (float): The same outside of the machine.\n"
    "    default_prefill_tokens_per_s (float): Prefill rate of instances that have shown none "
    "yet,\n"
    "        in tokens a second. 1 to 1e9.\n"
    "    calibrate (bool): Learn prefill rates and cache capacities from what leases are told.\n"
    "    report_max_age_s (float): Age, in seconds, at which an engine report has faded to\n"
    "        nothing. 0.001 to 1e6.\n"
    "    lease_ttl_s (float): A lease that is not ended within this time, in seconds, is dropped.\n"
    "        0.001 to 1e9.\n"
    "    session_ttl_s (float): A session that is silent for this long, in seconds, is forgotten.\n"
    "        0.001 to 1e9.\n"
    "    session_slack_s (float): A session stays on its instance as long as that costs at most\n"
    "        this much more time to first token, in seconds. 0 to 1e9.\n"
    "    index_budget_bytes (int): Limit of the memory of the prefix index, in bytes. At least\n"
    "        65,536; plan 9 bytes for each distinct block.\n"
    "    max_prompt_tokens (int): Longest prompt. 1 to 2**24.\n"
    "    max_instances (int): 1 to 1,048,576.\n"
    "    max_sessions (int): 0 to 2**31.\n"
    "    clock (Callable[[], int] | None): Returns the time in nanoseconds, for tests and "
    "replays.\n"
    "        It is read at the start of each call. None: the system's monotonic clock.\n"
    "    latency_interval_s (float): Of ``Stats.route_duration``: each thread times at most one\n"
    "        call in this time, in seconds, and all of them where they are fewer. 0: every call.\n"
    "        math.inf: none.\n"
    "\n"
    "Raises:\n"
    "    TypeError: A value of the wrong type, or an unknown keyword.\n"
    "    ValueError: A value out of its range; several ``routers`` without a ``key_seed``.\n";

#define PREFIX_ROUTER_REQUEST_DOC                                                                \
  "Args:\n"                                                                                      \
  "    tokens: The prompt: token ids of shape ``(n,)``, or text; see PrefixRouter.\n"            \
  "    model (str): Prompts of different models, adapters or salts never share cached blocks.\n" \
  "    adapter (str): LoRA adapter.\n"                                                           \
  "    salt (str): Cache salt.\n"                                                                \
  "    multimodal (Iterable[tuple[int, int]]): Images and the like, as pairs of the offset of\n" \
  "        the first placeholder, in tokens (text: bytes), and a hash of 64 bits. Offsets\n"     \
  "        ascend.\n"                                                                            \
  "    allowed (Iterable[Instance | str] | None): Only these may be chosen; a name means rank "  \
  "0.\n"                                                                                         \
  "        None: all may. Instances that were removed are ignored.\n"                            \
  "    session_key (str): Requests with one key go to one instance while that costs at most\n"   \
  "        ``session_slack_s``. Empty: none.\n"                                                  \
  "    expected_output_tokens (int): For the KV memory that a lease reserves. 0: unknown.\n"     \
  "    priority (int): Passed on to a custom policy. -2**31 to 2**31 - 1.\n"                     \
  "    max_ttft_s (float): Refuse when every predicted time to first token is above this, in\n"  \
  "        seconds. 0: no bound.\n"                                                              \
  "\n"

#define PREFIX_ROUTER_REQUEST_RAISES                                                              \
  "Raises:\n"                                                                                     \
  "    TypeError, ValueError: A wrong argument, or a token that is no id; named with its\n"       \
  "        position.\n"                                                                           \
  "    KeyError: A name in ``allowed`` is unknown.\n"                                             \
  "    Error: UNAVAILABLE when no instance is ready and allowed, RESOURCE_EXHAUSTED when none\n"  \
  "        is below ``max_ttft_s``, FAILED_PRECONDITION when the router is closed. Whatever is\n" \
  "        raised, nothing has changed.\n"

constexpr const char* kRouteDoc =
    "route" PREFIX_ROUTER_REQUEST_SIGNATURE
    "Chooses an instance, and remembers that the prompt will be cached there.\n"
    "\n"
    "The load that it causes is predicted to drain at the instance's prefill rate. Callers that\n"
    "can say when a request ends use ``acquire``.\n"
    "\n" PREFIX_ROUTER_REQUEST_DOC
    "Returns:\n"
    "    str: The name of the instance. Where a server has several data-parallel ranks, use\n"
    "    ``decide``, whose result has the rank too.\n"
    "\n" PREFIX_ROUTER_REQUEST_RAISES;

constexpr const char* kDecideDoc = "decide" PREFIX_ROUTER_REQUEST_SIGNATURE
                                   "The same as ``route``, with the reasons.\n"
                                   "\n" PREFIX_ROUTER_REQUEST_DOC
                                   "Returns:\n"
                                   "    Decision: The chosen instance, and why it was chosen.\n"
                                   "\n" PREFIX_ROUTER_REQUEST_RAISES;

constexpr const char* kAcquireDoc =
    "acquire" PREFIX_ROUTER_REQUEST_SIGNATURE
    "The same choice as ``route``, with load that counts exactly until the lease is ended.\n"
    "\n" PREFIX_ROUTER_REQUEST_DOC
    "Returns:\n"
    "    Lease: To be finished, best by ``with`` or ``async with``.\n"
    "\n" PREFIX_ROUTER_REQUEST_RAISES;

constexpr const char* kScoreDoc =
    "score" PREFIX_ROUTER_REQUEST_SIGNATURE
    "What ``route`` would base its choice on, for every instance, without any effect.\n"
    "\n" PREFIX_ROUTER_REQUEST_DOC
    "Returns:\n"
    "    ScoreTable: One row for each live instance.\n"
    "\n" PREFIX_ROUTER_REQUEST_RAISES;

// The router of a method's object, which CPython has checked to be a PrefixRouter. pybind11's cast
// would first look up its type.
PyRouter& RouterOf(PyObject* self) {
  const auto* const object = reinterpret_cast<const py::detail::instance*>(self);
  if (object->simple_layout && object->simple_holder_constructed) {
    return *static_cast<PyRouter*>(object->simple_value_holder[0]);
  }
  return py::handle(self).cast<PyRouter&>();
}

PyObject* Route(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return Guarded([&] {
    PyRouter& router = RouterOf(self);
    const PyRouter::Call call(router);
    PyRequest request(router, "route", arguments, count, keywords);
    const Result<Decision> decision =
        request.Perform([&](const Request& r) { return call->Route(r); });
    RaiseUnlessOk(decision.status());
    return router.instances().Name(decision->instance).inc_ref().ptr();
  });
}

PyObject* Decide(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return Guarded([&] {
    PyRouter& router = RouterOf(self);
    const PyRouter::Call call(router);
    PyRequest request(router, "decide", arguments, count, keywords);
    const Result<Decision> decision =
        request.Perform([&](const Request& r) { return call->Route(r); });
    RaiseUnlessOk(decision.status());
    return MakeDecision(*decision, router.instances()).release().ptr();
  });
}

PyObject* Acquire(PyObject* self, PyObject* const* arguments, Py_ssize_t count,
                  PyObject* keywords) {
  return Guarded([&] {
    PyRouter& router = RouterOf(self);
    const PyRouter::Call call(router);
    PyRequest request(router, "acquire", arguments, count, keywords);
    Result<Lease> lease = request.Perform([&](const Request& r) { return call->Acquire(r); });
    RaiseUnlessOk(lease.status());
    py::object decision = MakeDecision(lease->decision(), router.instances());
    return MakeLease(*std::move(lease), self, std::move(decision)).release().ptr();
  });
}

PyObject* Score(PyObject* self, PyObject* const* arguments, Py_ssize_t count, PyObject* keywords) {
  return Guarded([&] {
    PyRouter& router = RouterOf(self);
    const PyRouter::Call call(router);
    PyRequest request(router, "score", arguments, count, keywords);
    const Result<ScoreTable> table =
        request.Perform([&](const Request& r) { return call->Score(r); });
    RaiseUnlessOk(table.status());
    return MakeScoreTable(*table, router.instances()).release().ptr();
  });
}

using FastMethod = PyObject* (*)(PyObject*, PyObject* const*, Py_ssize_t, PyObject*);

PyMethodDef FastMethodDef(const char* name, FastMethod method, const char* doc) {
  return {name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(method)),
          METH_FASTCALL | METH_KEYWORDS, doc};
}

void BindRequests(py::handle cls) {
  static PyMethodDef methods[] = {
      FastMethodDef("route", Route, kRouteDoc),
      FastMethodDef("decide", Decide, kDecideDoc),
      FastMethodDef("acquire", Acquire, kAcquireDoc),
      FastMethodDef("score", Score, kScoreDoc),
  };
  for (PyMethodDef& method : methods) {
    const py::object descriptor = py::reinterpret_steal<py::object>(
        PyDescr_NewMethod(reinterpret_cast<PyTypeObject*>(cls.ptr()), &method));
    if (!descriptor) throw py::error_already_set();
    cls.attr(method.ml_name) = descriptor;
  }
}

void BindLeaseCalls(py::class_<PyRouter>& cls) {
  cls.def(
         "first_token",
         [](PyRouter& self, py::handle lease) {
           const LeaseId id = ToLeaseId(lease);
           return PyRouter::Call(self)->FirstToken(id);
         },
         py::arg("lease"),
         "first_token(self, lease)\n--\n\n"
         "``Lease.first_token`` by number, for leases given up with ``Lease.release``.\n"
         "\n"
         "Args:\n"
         "    lease (int): The number.\n"
         "\n"
         "Returns:\n"
         "    bool: False if the lease has ended, or its first token was there already.\n")
      .def(
          "finish",
          [](PyRouter& self, py::handle lease, py::handle output_tokens,
             py::handle engine_cached_tokens) {
            const LeaseId id = ToLeaseId(lease);
            const FinishInfo info = ToFinishInfo(output_tokens, engine_cached_tokens);
            return PyRouter::Call(self)->Finish(id, info);
          },
          py::arg("lease"), py::kw_only(), py::arg("output_tokens") = py::none(),
          py::arg("engine_cached_tokens") = py::none(),
          "finish(self, lease, *, output_tokens=None, engine_cached_tokens=None)\n--\n\n"
          "``Lease.finish`` by number.\n"
          "\n"
          "Args:\n"
          "    lease (int): The number that ``Lease.release`` has returned.\n"
          "    output_tokens (int | None): Tokens generated; None when not known.\n"
          "    engine_cached_tokens (int | None): Prompt tokens that the engine found cached.\n"
          "\n"
          "Returns:\n"
          "    bool: False if the lease has ended already.\n")
      .def(
          "cancel",
          [](PyRouter& self, py::handle lease) {
            const LeaseId id = ToLeaseId(lease);
            return PyRouter::Call(self)->Cancel(id);
          },
          py::arg("lease"),
          "cancel(self, lease)\n--\n\n"
          "``Lease.cancel`` by number.\n"
          "\n"
          "Args:\n"
          "    lease (int): The number that ``Lease.release`` has returned.\n"
          "\n"
          "Returns:\n"
          "    bool: False if the lease has ended already.\n");
}

void BindInstanceCalls(py::class_<PyRouter>& cls) {
  const InstanceOptions defaults;
  cls.def(
         "add_instance", &PyRouter::AddInstance, py::arg("name"), py::arg("rank") = 0,
         py::kw_only(), py::arg("capacity_blocks") = defaults.capacity_blocks,
         py::arg("prefill_tokens_per_s") = defaults.prefill_tokens_per_s,
         py::arg("weight") = defaults.weight, py::arg("model") = defaults.model,
         "add_instance(self, name, rank=0, *, capacity_blocks=65536, prefill_tokens_per_s=0.0, "
         "weight=1.0, model='')\n--\n\n"
         "Adds an instance that is ready and holds nothing.\n"
         "\n"
         "Args:\n"
         "    name (str): By which the caller knows it, for example ``\"10.0.0.7:8000\"``; at\n"
         "        most 65,535 bytes.\n"
         "    rank (int): Data-parallel rank. Name and rank together are unique.\n"
         "    capacity_blocks (int): Blocks of ``block_size`` tokens that its KV cache holds. 1\n"
         "        to 2**31 - 1.\n"
         "    prefill_tokens_per_s (float): How fast it prefills, in tokens a second. 0: unknown.\n"
         "    weight (float): Share of the traffic relative to others. More than 0, at most 1000.\n"
         "    model (str): The ``model`` of the prompts that are routed to it, for its KV events,\n"
         "        which do not name it. At most 65,535 bytes.\n"
         "\n"
         "Returns:\n"
         "    Instance: What stands for it from now on.\n"
         "\n"
         "Raises:\n"
         "    TypeError, ValueError: A wrong argument.\n"
         "    Error: ALREADY_EXISTS when name and rank are taken, RESOURCE_EXHAUSTED when\n"
         "        ``max_instances`` are there.\n")
      .def("remove_instance", &PyRouter::RemoveInstance, py::arg("instance"),
           "remove_instance(self, instance)\n--\n\n"
           "Forgets an instance, all that it held and all its load.\n"
           "\n"
           "Args:\n"
           "    instance (Instance | str): The instance, or the name of one of rank 0.\n"
           "\n"
           "Raises:\n"
           "    KeyError: There is no such instance.\n")
      .def("find_instance", &PyRouter::FindInstance, py::arg("name"), py::arg("rank") = 0,
           "find_instance(self, name, rank=0)\n--\n\n"
           "The live instance of this name and rank.\n"
           "\n"
           "Args:\n"
           "    name (str): Its name.\n"
           "    rank (int): Its data-parallel rank.\n"
           "\n"
           "Returns:\n"
           "    Instance: What ``add_instance`` has returned.\n"
           "\n"
           "Raises:\n"
           "    KeyError: There is none.\n")
      .def_property_readonly(
          "instances",
          [](PyRouter& self) {
            const PyRouter::Call call(self);
            return self.instances().Live();
          },
          "list[Instance]: the live instances.")
      .def("set_instance_state", &PyRouter::SetInstanceState, py::arg("instance"), py::arg("state"),
           py::arg("for_s") = 0.0,
           "set_instance_state(self, instance, state, for_s=0.0)\n--\n\n"
           "Sets whether an instance takes requests. Its load and its cached blocks stay.\n"
           "\n"
           "Args:\n"
           "    instance (Instance | str): The instance, or the name of one of rank 0.\n"
           "    state (InstanceState): READY, DRAINING or DOWN.\n"
           "    for_s (float): After so many seconds it is ready again by itself. 0: never.\n"
           "\n"
           "Raises:\n"
           "    KeyError: There is no such instance.\n"
           "    TypeError, ValueError: A wrong argument.\n")
      .def("report_load", &PyRouter::ReportLoad, py::arg("instance"), py::kw_only(),
           py::arg("running_requests") = py::none(), py::arg("waiting_requests") = py::none(),
           py::arg("kv_usage") = py::none(), py::arg("age_s") = 0.0,
           "report_load(self, instance, *, running_requests=None, waiting_requests=None, "
           "kv_usage=None, age_s=0.0)\n--\n\n"
           "Takes over what the engine's own metrics say. The latest report counts, and fades.\n"
           "\n"
           "Args:\n"
           "    instance (Instance | str): The instance, or the name of one of rank 0.\n"
           "    running_requests (int | None): Requests in the engine's batch.\n"
           "    waiting_requests (int | None): Requests in the engine's queue.\n"
           "    kv_usage (float | None): Share of KV blocks in use by running requests, 0 to 1.\n"
           "    age_s (float): How old the figures are, in seconds.\n"
           "\n"
           "Raises:\n"
           "    KeyError: There is no such instance.\n"
           "    TypeError, ValueError: A wrong argument.\n")
      .def(
          "report_engine_metrics", &PyRouter::ReportEngineMetrics, py::arg("name"),
          py::arg("metrics"), py::kw_only(), py::arg("age_s") = 0.0,
          "report_engine_metrics(self, name, metrics, *, age_s=0.0)\n--\n\n"
          "``report_load`` for each rank of an engine's /metrics page that has a live instance.\n"
          "\n"
          "Ranks without an instance, and those of which the page says no load, are passed over.\n"
          "A page of a single rank that has no instance goes to rank 0.\n"
          "\n"
          "Args:\n"
          "    name (str): Name of the server's instances.\n"
          "    metrics (EngineMetrics | str | bytes): What ``parse_engine_metrics`` has returned,\n"
          "        or the page itself.\n"
          "    age_s (float): How old the page is, in seconds.\n"
          "\n"
          "Returns:\n"
          "    int: Instances that got a report.\n"
          "\n"
          "Raises:\n"
          "    KeyError: None of the ranks is a live instance of this name.\n"
          "    Error, ValueError: As for ``parse_engine_metrics``. Whatever is raised, nothing\n"
          "        has changed.\n"
          "    TypeError: A wrong argument.\n")
      .def(
          "apply_kv_events", &PyRouter::ApplyKvEvents, py::arg("instance"), py::arg("events"),
          py::arg("decoder") = py::none(),
          "apply_kv_events(self, instance, events, decoder=None)\n--\n\n"
          "Takes over what an engine says that it holds.\n"
          "\n"
          "From the first call on the instance is driven by its events: what they store is cached\n"
          "until they remove it, and routed prompts count only for ``confirm_window_s`` unless\n"
          "events confirm them. Without the GIL.\n"
          "\n"
          "Args:\n"
          "    instance (Instance | str): Whose events they are. For one that was removed nothing\n"
          "        is done, and ``old_generation`` counted.\n"
          "    events (KvEventBatch | bytes | bytearray | memoryview | str): The payload of a\n"
          "        message, which is not made into Python objects, or a batch; a str only as "
          "JSON.\n"
          "    decoder (KvEventDecoder | None): What reads a payload. None: one for msgpack, made\n"
          "        for this call.\n"
          "\n"
          "Returns:\n"
          "    KvApplyResult: What became of the events.\n"
          "\n"
          "Raises:\n"
          "    ValueError: The payload is not a message of the decoder's format; the text says at\n"
          "        which byte.\n"
          "    KeyError: There is no instance of this name.\n"
          "    TypeError: A wrong argument.\n");
}

void SetUpGarbageCollection(PyHeapTypeObject* heap_type) {
  PyTypeObject* const type = &heap_type->ht_type;
  type->tp_flags |= Py_TPFLAGS_HAVE_GC;
  type->tp_traverse = [](PyObject* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    if (!py::detail::is_holder_constructed(self)) return 0;
    return py::handle(self).cast<const PyRouter&>().Traverse(visit, arg);
  };
  type->tp_clear = [](PyObject* self) {
    if (py::detail::is_holder_constructed(self)) py::handle(self).cast<PyRouter&>().Clear();
    return 0;
  };
}

}  // namespace

void BindRouter(py::module_& module) {
  PyRequest::MakeNames();
  py::class_<PyRouter> cls(module, "PrefixRouter", py::custom_type_setup(SetUpGarbageCollection),
                           kDoc);
  cls.def(py::init([](const py::kwargs& options) {
            return std::unique_ptr<PyRouter>(::new PyRouter(options));
          }),
          kInitDoc);
  BindInstanceCalls(cls);
  BindRequests(cls);
  BindLeaseCalls(cls);
  cls.def("stats", &PyRouter::Stats,
          "stats(self)\n--\n\n"
          "Counters and sizes, as one consistent copy.\n"
          "\n"
          "Returns:\n"
          "    Stats: The copy.\n")
      .def("metrics", &PyRouter::Metrics, py::kw_only(), py::arg("per_instance") = true,
           "metrics(self, *, per_instance=True)\n--\n\n"
           "``stats`` as a page for Prometheus, to be served as ``METRICS_CONTENT_TYPE``.\n"
           "\n"
           "docs/metrics.md says which metric answers which question.\n"
           "\n"
           "Args:\n"
           "    per_instance (bool): Series for each instance too: about 1.8 KB each.\n"
           "\n"
           "Returns:\n"
           "    str: The page.\n")
      .def_property_readonly("options", &PyRouter::Options,
                             "dict[str, object]: the arguments of PrefixRouter that make the\n"
                             "same router again, its seeds included.")
      .def("close", &PyRouter::Close,
           "close(self)\n--\n\n"
           "Frees the router's memory. Further calls raise Error, FAILED_PRECONDITION; those on\n"
           "their way in other threads are finished; leases end. Closing twice does nothing.\n")
      .def_property_readonly("closed", &PyRouter::closed, "bool: ``close`` was called.")
      .def(
          "__enter__", [](py::object self) { return self; }, "__enter__(self)\n--\n\n")
      .def(
          "__exit__", [](PyRouter& self, py::handle, py::handle, py::handle) { self.Close(); },
          py::arg("exc_type"), py::arg("exc_value"), py::arg("traceback"),
          "__exit__(self, exc_type, exc_value, traceback)\n--\n\n")
      .def("__repr__", [](const PyRouter& self) {
        return "<PrefixRouter of " + std::to_string(self.instances().Live().size()) + " instances" +
               (self.closed() ? ", closed>" : ">");
      });
}

}  // namespace prefixrouter::python
