// Package prefixrouter calls the C library of PrefixRouter through cgo: register instances, ask for
// each prompt which of them should get it, and say how the request went. It covers what a gateway
// needs first; the rest of prefix_router.h is bound in the same way.
//
// A call costs one crossing into C and allocates nothing in Go (the cgo of Go 1.19 makes a small
// allocation of its own). How it keeps to the rules:
//
//   - The C functions of the preamble take their arguments flat and build the structs on the C
//     stack. A struct in Go memory that holds a pointer to a Go slice may not be passed to C.
//   - A slice or string that is an argument of the call stays where it is and alive until the call
//     returns, so tokens and names are passed without a copy. The library keeps no pointer to them.
//   - Results come back by value: a pointer to a Go variable would move it to the heap.
//   - The text of an error belongs to the thread that made the call. A goroutine may go on on
//     another one, so the text is fetched within the same crossing.
package prefixrouter

/*
#cgo pkg-config: prefixrouter-c
#include <stdlib.h>
#include <string.h>
#include <prefix_router.h>

typedef struct {
  uint64_t value;
  char* error;  // NULL, or a copy of the text, to be freed
  int32_t status;
} result;

typedef struct {
  result lease;
  prefix_router_decision decision;
} acquired;

static inline result with_error(result r) {
  if (r.status != PREFIX_ROUTER_OK) r.error = strdup(prefix_router_last_error());
  return r;
}

static inline result create(prefix_router** router) {
  result r = {0};
  r.status = prefix_router_create(NULL, router);
  return with_error(r);
}

static inline result add_instance(prefix_router* router, _GoString_ name, uint32_t capacity_blocks) {
  result r = {0};
  prefix_router_instance_options options = {.struct_size = sizeof options};
  options.name = _GoStringPtr(name);
  options.name_size = _GoStringLen(name);
  options.capacity_blocks = capacity_blocks;
  r.status = prefix_router_add_instance(router, &options, &r.value);
  return with_error(r);
}

static inline result route(prefix_router* router, const uint32_t* tokens, size_t token_count) {
  result r = {0};
  r.status = prefix_router_route(router, tokens, token_count, &r.value);
  return with_error(r);
}

static inline acquired acquire(prefix_router* router, const uint32_t* tokens, size_t token_count) {
  acquired a = {.decision = {.struct_size = sizeof a.decision}};
  prefix_router_request request = {.struct_size = sizeof request};
  request.tokens = tokens;
  request.token_count = token_count;
  a.lease.status = prefix_router_acquire(router, &request, &a.decision, &a.lease.value);
  a.lease = with_error(a.lease);
  return a;
}

static inline result first_token(prefix_router* router, uint64_t lease) {
  result r = {0};
  r.status = prefix_router_first_token(router, lease);
  return with_error(r);
}

static inline result finish(prefix_router* router, uint64_t lease, uint64_t output_tokens) {
  result r = {0};
  prefix_router_finish_info info = {.struct_size = sizeof info};
  info.reported = PREFIX_ROUTER_REPORTS_OUTPUT_TOKENS;
  info.output_tokens = output_tokens;
  r.status = prefix_router_finish(router, lease, &info);
  return with_error(r);
}

static inline result cancel(prefix_router* router, uint64_t lease) {
  result r = {0};
  r.status = prefix_router_cancel(router, lease);
  return with_error(r);
}
*/
import "C"

import (
	"fmt"
	"time"
	"unsafe"
)

// Code is a status of the C library; the numbers are those of gRPC.
type Code int32

// The codes that a gateway answers in its own way.
const (
	InvalidArgument   Code = C.PREFIX_ROUTER_INVALID_ARGUMENT
	NotFound          Code = C.PREFIX_ROUTER_NOT_FOUND
	AlreadyExists     Code = C.PREFIX_ROUTER_ALREADY_EXISTS
	ResourceExhausted Code = C.PREFIX_ROUTER_RESOURCE_EXHAUSTED // HTTP 429
	Unavailable       Code = C.PREFIX_ROUTER_UNAVAILABLE        // HTTP 503
)

func (c Code) String() string { return C.GoString(C.prefix_router_status_name(C.int32_t(c))) }

// Error is what every failed call returns. The message names the argument and the refused value.
type Error struct {
	Code    Code
	Message string
}

func (e *Error) Error() string { return fmt.Sprintf("%v: %s", e.Code, e.Message) }

func errorOf(r C.result) error {
	if r.status == C.PREFIX_ROUTER_OK {
		return nil
	}
	defer C.free(unsafe.Pointer(r.error))
	return &Error{Code(r.status), C.GoString(r.error)}
}

// Instance is a routing target of one Router. The numbers are never used again.
type Instance uint64

// Rule is what made a choice.
type Rule int32

func (r Rule) String() string { return C.GoString(C.prefix_router_rule_name(C.int32_t(r))) }

// Decision is the chosen instance, and why.
type Decision struct {
	Instance      Instance
	PromptTokens  uint64
	CachedTokens  uint64        // of the prompt, held by the instance
	PredictedTTFT time.Duration // time to the first token
	Rule          Rule
}

// Router chooses instances. Its methods may be called from any goroutine; none may run during or
// after Close.
type Router struct{ handle *C.prefix_router }

// New makes a router without instances, with default options.
func New() (*Router, error) {
	r := &Router{}
	if err := errorOf(C.create(&r.handle)); err != nil {
		return nil, err
	}
	return r, nil
}

// Close frees the router; its leases end with it.
func (r *Router) Close() {
	C.prefix_router_destroy(r.handle)
	r.handle = nil
}

// Handle is the prefix_router* for C functions of the caller's own, valid until Close.
func (r *Router) Handle() unsafe.Pointer { return unsafe.Pointer(r.handle) }

// AddInstance adds an instance that is ready. capacityBlocks is what its KV cache holds, in blocks
// of 16 tokens; 0 for the default.
func (r *Router) AddInstance(name string, capacityBlocks uint32) (Instance, error) {
	added := C.add_instance(r.handle, name, C.uint32_t(capacityBlocks))
	return Instance(added.value), errorOf(added)
}

// Route chooses the instance for a prompt, without a lease.
func (r *Router) Route(tokens []uint32) (Instance, error) {
	routed := C.route(r.handle, first(tokens), C.size_t(len(tokens)))
	return Instance(routed.value), errorOf(routed)
}

// Acquire chooses the instance for a prompt and holds its load until the lease ends.
func (r *Router) Acquire(tokens []uint32) (Lease, Decision, error) {
	a := C.acquire(r.handle, first(tokens), C.size_t(len(tokens)))
	if err := errorOf(a.lease); err != nil {
		return Lease{}, Decision{}, err
	}
	return Lease{r, a.lease.value}, Decision{
		Instance:      Instance(a.decision.instance),
		PromptTokens:  uint64(a.decision.prompt_tokens),
		CachedTokens:  uint64(a.decision.cached_tokens),
		PredictedTTFT: time.Duration(float64(a.decision.predicted_ttft_s) * float64(time.Second)),
		Rule:          Rule(a.decision.rule),
	}, nil
}

// Lease is the load of one request. It ends by Finish or Cancel.
type Lease struct {
	router *Router
	id     C.uint64_t
}

// FirstToken says that the first token of the answer arrived.
func (l Lease) FirstToken() error { return errorOf(C.first_token(l.router.handle, l.id)) }

// Finish says that the answer is complete.
func (l Lease) Finish(outputTokens uint64) error {
	return errorOf(C.finish(l.router.handle, l.id, C.uint64_t(outputTokens)))
}

// Cancel says that the request failed or its client went away.
func (l Lease) Cancel() error { return errorOf(C.cancel(l.router.handle, l.id)) }

// first is where the tokens begin; nil for none.
func first(tokens []uint32) *C.uint32_t {
	if len(tokens) == 0 {
		return nil
	}
	return (*C.uint32_t)(&tokens[0])
}
