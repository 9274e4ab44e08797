// Measures what a call of the router costs from Go beyond the call itself: Route of the binding,
// minus a cgo call of the same kind that does nothing, minus the same calls made from C.
package main

/*
#cgo pkg-config: prefixrouter-c
#cgo CFLAGS: -I${SRCDIR}/..
#cgo LDFLAGS: -lprefix_router_probe
#include "probe.h"

typedef struct {
  uint64_t value;
  char* error;
  int32_t status;
} result;

static inline result noop(prefix_router* router, const uint32_t* tokens, size_t token_count) {
  result r = {0};
  r.status = probe_noop(router, tokens, token_count, &r.value);
  return r;
}
*/
import "C"

import (
	"fmt"
	"log"
	"runtime"
	"sort"
	"time"

	"example.com/gateway/prefixrouter"
)

const (
	instances    = 64
	promptTokens = 256
	promptCount  = 64
	calls        = 10 * promptCount // a measurement
	repetitions  = 301
)

func median(values []float64) float64 {
	sort.Float64s(values)
	return values[len(values)/2]
}

func nanosPerCall(call func(prompt []uint32), prompts []uint32) float64 {
	begin := time.Now()
	for i := 0; i < calls; i++ {
		at := i % promptCount * promptTokens
		call(prompts[at : at+promptTokens])
	}
	return float64(time.Since(begin).Nanoseconds()) / calls
}

func main() {
	router, err := prefixrouter.New()
	if err != nil {
		log.Fatal(err)
	}
	defer router.Close()
	for i := 0; i < instances; i++ {
		if _, err := router.AddInstance(fmt.Sprint("instance-", i), 0); err != nil {
			log.Fatal(err)
		}
	}
	// Prompts that differ from their first block on.
	prompts := make([]uint32, promptCount*promptTokens)
	for i := range prompts {
		prompts[i] = uint32(i)
	}
	handle := (*C.prefix_router)(router.Handle())

	route := func(prompt []uint32) {
		if _, err := router.Route(prompt); err != nil {
			log.Fatal(err)
		}
	}
	noop := func(prompt []uint32) {
		if C.noop(handle, (*C.uint32_t)(&prompt[0]), C.size_t(len(prompt))).status != 0 {
			log.Fatal("noop failed")
		}
	}
	routeFromC := func() float64 {
		nanos := float64(C.probe_route_nanos(handle, (*C.uint32_t)(&prompts[0]), promptCount, promptTokens, calls))
		if nanos < 0 {
			log.Fatal("routing from C failed")
		}
		return nanos
	}

	var overheads, routes, noops, routesFromC []float64
	for i := -1; i < repetitions; i++ { // the first one warms up
		a := nanosPerCall(route, prompts)
		b := nanosPerCall(noop, prompts)
		c := routeFromC()
		if i < 0 {
			continue
		}
		overheads = append(overheads, a-b-c)
		routes, noops, routesFromC = append(routes, a), append(noops, b), append(routesFromC, c)
	}
	if share := C.probe_cached_share(handle); share < 0.9 {
		log.Fatalf("only %v of the tokens were known", share)
	}
	fmt.Printf("cgo_overhead_ns %.1f\n", median(overheads))
	fmt.Printf("# cgo_overhead_ns %s: Route %.1f ns, a call that does nothing %.1f ns, the same Route from C %.1f ns\n",
		runtime.Version(), median(routes), median(noops), median(routesFromC))
}
