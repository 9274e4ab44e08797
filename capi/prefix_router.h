// prefix_router.h: the C interface of PrefixRouter, which picks the inference instance that will
// answer a prompt first. Library: libprefixrouter_c. Guide: docs/c_api.md.
//
//   prefix_router* router;
//   if (prefix_router_create(NULL, &router) != PREFIX_ROUTER_OK) ...
//   prefix_router_add_instance(router, &instance_options, &instance);  // once for each instance
//   if (prefix_router_route(router, tokens, token_count, &instance) == PREFIX_ROUTER_OK) ...
//   prefix_router_destroy(router);
//
// Conventions
//
//  1. A function that can fail returns a status: PREFIX_ROUTER_OK, or the number of the canonical
//     gRPC code. Results go through pointers, the last parameters. After a failure nothing has
//     changed in the router; a handle or id that was to be returned is NULL or 0, and other results
//     are as they were, unless the function says otherwise.
//  2. prefix_router_last_error() is the text for the last call that failed on the calling thread.
//     It names the argument and the value that was refused.
//  3. Structs of options and of results begin with `struct_size`, which the caller sets to the
//     struct's sizeof, for results too. In an array the first element's struct_size counts for all.
//     Structs grow at their ends only. A caller built with an older header passes smaller structs:
//     the library takes the missing members as 0, and fills in what there is room for. A caller
//     built with a newer header passes bigger ones: a member that this library does not know must
//     be 0, else the call is refused with PREFIX_ROUTER_UNIMPLEMENTED; of results it is set to 0.
//  4. In options and requests 0 (NULL) means the default or "none", so a struct is set to zeros
//     first: `prefix_router_request request = {0}; request.struct_size = sizeof request;`.
//     Members called `reserved` must be 0.
//  5. Strings and arrays are a pointer and a size. Strings need no terminating zero; a size of
//     PREFIX_ROUTER_NUL_TERMINATED says that there is one. Nothing that the caller passes is kept
//     after the call, but for callbacks and their user_data, which the router uses until
//     prefix_router_destroy returns.
//  6. Lists are written to the caller's buffer: capacity in (elements), count out. When the buffer
//     is too small, the call returns PREFIX_ROUTER_OUT_OF_RANGE, sets the count that is needed, and
//     writes nothing else. (NULL, 0) asks for the count.
//  7. Instances and leases are 64-bit numbers, never 0, and never reused by one router. A number
//     whose instance is removed or whose lease is ended is refused with PREFIX_ROUTER_NOT_FOUND,
//     however late it comes.
//  8. Callbacks end in `void* user_data`. They run on the thread that called the library, inside
//     that call, with no lock held; several threads may be in one at the same time. They must not
//     call the router and must not leave by longjmp. A C++ exception that leaves one fails the
//     call.
//  9. No C++ exception leaves the library: out of memory is PREFIX_ROUTER_RESOURCE_EXHAUSTED,
//     std::invalid_argument PREFIX_ROUTER_INVALID_ARGUMENT, anything else PREFIX_ROUTER_INTERNAL.
//     It never prints, never aborts, starts no thread, and keeps nothing outside of routers but the
//     text of 2.
// 10. The ABI has a version of its own. Programs that were linked with one version run with every
//     later library of the same PREFIX_ROUTER_ABI_MAJOR, which is also the number in the library's
//     name (libprefixrouter_c.so.1).
//
// Threads
//
//   function                         may run at the same time as
//   -------------------------------  ------------------------------------------------------------
//   prefix_router_create             everything
//   prefix_router_destroy            nothing else on the same router, from then on
//   all that take a router           everything but prefix_router_destroy of it
//   all that take none               everything
//   prefix_router_last_error         everything: each thread has a text of its own
//
// A call sees the effect of every call that returned before it began.
//
// Cost: a call costs a few nanoseconds more than the C++ call behind it, and allocates what that
// allocates: nothing when the prompt is known.
#ifndef PREFIXROUTER_CAPI_PREFIX_ROUTER_H_
#define PREFIXROUTER_CAPI_PREFIX_ROUTER_H_

#include <stddef.h>
#include <stdint.h>

#include "prefix_router_stats.h"
#include "prefix_router_types.h"

// The ABI that this header describes. The minor number grows when functions or members are added.
#define PREFIX_ROUTER_ABI_MAJOR 1
#define PREFIX_ROUTER_ABI_MINOR 3

// Status of a call. Not all are used.
enum {
  PREFIX_ROUTER_OK = 0,
  PREFIX_ROUTER_CANCELLED = 1,
  PREFIX_ROUTER_UNKNOWN = 2,           // a callback failed with a number that is no status
  PREFIX_ROUTER_INVALID_ARGUMENT = 3,  // the argument is wrong whatever the router's state
  PREFIX_ROUTER_DEADLINE_EXCEEDED = 4,
  PREFIX_ROUTER_NOT_FOUND = 5,       // no such instance or lease
  PREFIX_ROUTER_ALREADY_EXISTS = 6,  // an instance of this name and rank is there already
  PREFIX_ROUTER_PERMISSION_DENIED = 7,
  PREFIX_ROUTER_RESOURCE_EXHAUSTED = 8,  // a limit: instances, memory, the bound on predicted TTFT
  PREFIX_ROUTER_FAILED_PRECONDITION = 9,
  PREFIX_ROUTER_ABORTED = 10,
  PREFIX_ROUTER_OUT_OF_RANGE = 11,   // the caller's buffer is too small
  PREFIX_ROUTER_UNIMPLEMENTED = 12,  // a struct sets a member that this library does not know
  PREFIX_ROUTER_INTERNAL = 13,       // a fault of the library, or of a callback
  PREFIX_ROUTER_UNAVAILABLE = 14     // no instance can take a request now
};

// A router with its instances. Made by prefix_router_create, freed by prefix_router_destroy.
typedef struct prefix_router prefix_router;

#ifdef __cplusplus
extern "C" {
#endif

// ---- Creating a router --------------------------------------------------------------------------

// A router without instances. options may be NULL: all defaults.
// INVALID_ARGUMENT: an option is out of its range.
PREFIX_ROUTER_API int32_t prefix_router_create(const prefix_router_options* options,
                                               prefix_router** router);

// Frees the router and what it holds; leases end with it. NULL is fine.
PREFIX_ROUTER_API void prefix_router_destroy(prefix_router* router);

// The options of a router as they are in use: defaults and seeds filled in. `policy` points to a
// string that lives as long as the router. Fit to create another router that shares its keys.
PREFIX_ROUTER_API int32_t prefix_router_get_options(const prefix_router* router,
                                                    prefix_router_options* options);

// ---- Instances ----------------------------------------------------------------------------------

// Adds an instance that is ready and holds nothing.
// INVALID_ARGUMENT: an option is out of its range; ALREADY_EXISTS: name and rank are taken;
// RESOURCE_EXHAUSTED: max_instances are there.
PREFIX_ROUTER_API int32_t prefix_router_add_instance(prefix_router* router,
                                                     const prefix_router_instance_options* options,
                                                     uint64_t* instance);

// Forgets the instance, all that it held and all its load. NOT_FOUND: no such instance.
PREFIX_ROUTER_API int32_t prefix_router_remove_instance(prefix_router* router, uint64_t instance);

// The live instance of this name and rank. NOT_FOUND: there is none.
PREFIX_ROUTER_API int32_t prefix_router_find_instance(const prefix_router* router, const char* name,
                                                      size_t name_size, uint32_t rank,
                                                      uint64_t* instance);

// The name of a live instance, with a terminating zero. capacity is the buffer's size in bytes;
// *size becomes the name's length without the zero, so size + 1 bytes are needed (convention 6).
// NOT_FOUND: no such instance.
PREFIX_ROUTER_API int32_t prefix_router_get_instance_name(const prefix_router* router,
                                                          uint64_t instance, char* buffer,
                                                          size_t capacity, size_t* size);

// With for_s > 0 the instance is ready again by itself after that many seconds.
// NOT_FOUND: no such instance. INVALID_ARGUMENT: unknown state, or for_s negative or no number.
PREFIX_ROUTER_API int32_t prefix_router_set_instance_state(prefix_router* router, uint64_t instance,
                                                           int32_t state, double for_s);

// Takes over what the engine's metrics say. The latest report counts, until it has faded.
// NOT_FOUND: no such instance. INVALID_ARGUMENT: a value is out of its range.
PREFIX_ROUTER_API int32_t prefix_router_report_load(prefix_router* router, uint64_t instance,
                                                    const prefix_router_engine_load* load);

// ---- Requests -----------------------------------------------------------------------------------

// Chooses an instance for a prompt of token ids, and remembers that the prompt will be cached
// there. Its load is predicted to drain at the instance's prefill rate.
// UNAVAILABLE: no instance is ready and allowed. RESOURCE_EXHAUSTED: none is below max_ttft_s.
// INVALID_ARGUMENT: the request is malformed.
PREFIX_ROUTER_API int32_t prefix_router_route(prefix_router* router, const uint32_t* tokens,
                                              size_t token_count, uint64_t* instance);

// The same for any request, and with the reasons.
PREFIX_ROUTER_API int32_t prefix_router_route_request(prefix_router* router,
                                                      const prefix_router_request* request,
                                                      prefix_router_decision* decision);

// ---- Leases -------------------------------------------------------------------------------------
//
// A lease is the load of a routed request, counted exactly from prefix_router_acquire to
// prefix_router_finish or prefix_router_cancel; the blocks of its prompt are not evicted meanwhile.
// What leases are told teaches the router each instance's true speed and capacity.

// The same choice as prefix_router_route_request, with a lease. Errors as there.
PREFIX_ROUTER_API int32_t prefix_router_acquire(prefix_router* router,
                                                const prefix_router_request* request,
                                                prefix_router_decision* decision, uint64_t* lease);

// The first output token arrived: prefill is over. NOT_FOUND: the lease has ended or never was, or
// was told this already.
PREFIX_ROUTER_API int32_t prefix_router_first_token(prefix_router* router, uint64_t lease);

// The request is complete. info may be NULL: nothing is known. NOT_FOUND: the lease has ended, or
// never was.
PREFIX_ROUTER_API int32_t prefix_router_finish(prefix_router* router, uint64_t lease,
                                               const prefix_router_finish_info* info);

// The client went away or the request failed: nothing is learned. NOT_FOUND as above.
PREFIX_ROUTER_API int32_t prefix_router_cancel(prefix_router* router, uint64_t lease);

// ---- Looking into it ----------------------------------------------------------------------------

// What prefix_router_route_request would base its choice on, for every instance, without any
// effect. table may be NULL. INVALID_ARGUMENT: the request is malformed. OUT_OF_RANGE: convention
// 6.
PREFIX_ROUTER_API int32_t prefix_router_score(const prefix_router* router,
                                              const prefix_router_request* request,
                                              prefix_router_score_table* table,
                                              prefix_router_score_row* rows, size_t capacity,
                                              size_t* count);

// Counters and sizes, with a row for each live instance, as one consistent copy. stats may be NULL;
// (NULL, 0, NULL) for the last three: no rows. OUT_OF_RANGE: convention 6.
PREFIX_ROUTER_API int32_t prefix_router_get_stats(const prefix_router* router,
                                                  prefix_router_stats* stats,
                                                  prefix_router_instance_stats* rows,
                                                  size_t capacity, size_t* count);

// The block keys that the router computes for a request of tokens or text, for callers that keep
// them, and to look prompts up in several routers of one key_seed. Key i stands for blocks 0 to i;
// only full blocks have one. INVALID_ARGUMENT: the request is malformed, or has keys itself.
// OUT_OF_RANGE: convention 6.
PREFIX_ROUTER_API int32_t prefix_router_block_keys(const prefix_router* router,
                                                   const prefix_router_request* request,
                                                   uint64_t* keys, size_t capacity, size_t* count);

// ---- Metrics ------------------------------------------------------------------------------------
//
// docs/metrics.md lists the engines and metrics that are understood, and those of the router.

// The Content-Type of the pages that the router renders.
#define PREFIX_ROUTER_METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

// Reads an engine's /metrics page, Prometheus or OpenMetrics text. `ranks` gets an element for each
// data-parallel rank, ascending, at least one; a page without rank labels is of rank 0. What is not
// understood is passed over; malformed lines are skipped and counted. options and metrics may be
// NULL.
// NOT_FOUND: no load metric of a known engine is on the page; the text says what is there.
// INVALID_ARGUMENT: the page is larger than max_bytes, has more ranks than max_ranks, or an option
// is out of its range. OUT_OF_RANGE: convention 6.
PREFIX_ROUTER_API int32_t prefix_router_parse_engine_metrics(
    const char* page, size_t page_size, const prefix_router_engine_metrics_options* options,
    prefix_router_engine_metrics* metrics, prefix_router_engine_rank_metrics* ranks,
    size_t capacity, size_t* count);

// Reports the load of each rank to the live instance of this name and rank, as
// prefix_router_report_load does. *reported, which may be left out as NULL, becomes the number of
// instances that got a report. Ranks without an instance, and those without load, are passed over.
// A single rank that has no instance goes to rank 0 of that name, for servers that label their only
// rank with its number in a larger deployment. age_s: how old the page is, >= 0.
// NOT_FOUND: none of the ranks is a live instance of this name. INVALID_ARGUMENT: age_s or a
// kv_usage is out of its range. A clock_callback that fails after some ranks leaves these reported.
PREFIX_ROUTER_API int32_t
prefix_router_report_engine_metrics(prefix_router* router, const char* name, size_t name_size,
                                    const prefix_router_engine_rank_metrics* ranks,
                                    size_t rank_count, double age_s, uint32_t* reported);

// The same for one instance, whatever its name and rank. A rank without load changes nothing.
// NOT_FOUND: no such instance. INVALID_ARGUMENT as above.
PREFIX_ROUTER_API int32_t
prefix_router_report_rank_metrics(prefix_router* router, uint64_t instance,
                                  const prefix_router_engine_rank_metrics* rank, double age_s);

// For prefix_router_instance_options.capacity_blocks: how many blocks of block_size tokens fit in
// the capacity_tokens of a rank, at most 2^31 - 1. 0, the default there, when the capacity is not
// known or is less than one block.
PREFIX_ROUTER_API uint32_t prefix_router_capacity_blocks(int64_t capacity_tokens,
                                                         uint32_t block_size);

// The router's own metrics as a page of Prometheus text, with a terminating zero. capacity is the
// buffer's size in bytes; *size becomes the page's length without the zero, so size + 1 bytes are
// needed (convention 6). The next page may be longer. options may be NULL. Cost: 2 us and 1.8 KB an
// instance.
PREFIX_ROUTER_API int32_t prefix_router_render_metrics(const prefix_router* router,
                                                       const prefix_router_metrics_options* options,
                                                       char* buffer, size_t capacity, size_t* size);

// Several routers on one page, each with labels of its own. Otherwise the same.
// INVALID_ARGUMENT: a router is NULL, a label may not be, or two sources have the same labels.
PREFIX_ROUTER_API int32_t prefix_router_render_metrics_of(
    const prefix_router_metrics_source* sources, size_t source_count,
    const prefix_router_metrics_options* options, char* buffer, size_t capacity, size_t* size);

// The upper bound of a bucket of durations, in seconds: 250 ns, then twice the one before; infinity
// for the last one and whatever is past it.
PREFIX_ROUTER_API double prefix_router_duration_bound_s(size_t bucket);

// ---- Names and versions -------------------------------------------------------------------------

// The text for the last call that failed on this thread; "" when none did. Valid until the next
// call fails on this thread. Long texts are cut at 1023 bytes.
PREFIX_ROUTER_API const char* prefix_router_last_error(void);

// "OK", "INVALID_ARGUMENT" and so on; "UNKNOWN" for a number that is no status.
PREFIX_ROUTER_API const char* prefix_router_status_name(int32_t status);

// "lowest_cost" and so on; "unknown" for a number that is no rule.
PREFIX_ROUTER_API const char* prefix_router_rule_name(int32_t rule);

// "vllm" and so on; "unknown" for a number that is no engine.
PREFIX_ROUTER_API const char* prefix_router_engine_name(int32_t engine);

// Names that options.policy takes, by index from 0; NULL past the last one.
PREFIX_ROUTER_API const char* prefix_router_policy_name(size_t index);

// Version of the library that is running: "0.1.0".
PREFIX_ROUTER_API const char* prefix_router_version(void);

// ABI of the library that is running: PREFIX_ROUTER_ABI_MAJOR << 16 | PREFIX_ROUTER_ABI_MINOR.
PREFIX_ROUTER_API uint32_t prefix_router_abi_version(void);

// Changes whenever equal prompts would get other block keys.
PREFIX_ROUTER_API uint32_t prefix_router_key_format(void);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // PREFIXROUTER_CAPI_PREFIX_ROUTER_H_
