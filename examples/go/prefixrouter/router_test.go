package prefixrouter

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
)

func newRouter(t *testing.T, names ...string) *Router {
	t.Helper()
	router, err := New()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(router.Close)
	for _, name := range names {
		if _, err := router.AddInstance(name, 0); err != nil {
			t.Fatal(err)
		}
	}
	return router
}

func requireError(t *testing.T, err error, code Code, message string) {
	t.Helper()
	var failure *Error
	if !errors.As(err, &failure) || failure.Code != code || !strings.Contains(failure.Message, message) {
		t.Errorf("got %v, want %v with %q", err, code, message)
	}
}

func TestErrorsNameWhatWasRefused(t *testing.T) {
	router := newRouter(t, "a")
	_, err := router.AddInstance("a", 0)
	requireError(t, err, AlreadyExists, `"a"`)
	_, err = router.AddInstance("", 0)
	requireError(t, err, InvalidArgument, "name")
	_, err = newRouter(t).Route([]uint32{1})
	requireError(t, err, Unavailable, "no instance")
}

func TestLeaseEndsOnce(t *testing.T) {
	router := newRouter(t, "a")
	lease, _, err := router.Acquire([]uint32{1, 2, 3})
	if err != nil {
		t.Fatal(err)
	}
	if err := lease.Cancel(); err != nil {
		t.Error(err)
	}
	requireError(t, lease.Finish(1), NotFound, "lease")
	requireError(t, lease.FirstToken(), NotFound, "lease")
}

func TestEmptyPromptHasAnInstance(t *testing.T) {
	router := newRouter(t, "a")
	for _, tokens := range [][]uint32{nil, {}} {
		if instance, err := router.Route(tokens); err != nil || instance == 0 {
			t.Errorf("%v: instance %v, error %v", tokens, instance, err)
		}
	}
}

func TestRouteAllocatesNothing(t *testing.T) {
	if strings.HasPrefix(runtime.Version(), "go1.19") {
		t.Skip("its cgo allocates")
	}
	router := newRouter(t, "a")
	tokens := make([]uint32, 256)
	allocations := testing.AllocsPerRun(100, func() {
		if _, err := router.Route(tokens); err != nil {
			t.Error(err)
		}
	})
	if allocations != 0 {
		t.Errorf("%v allocations a call", allocations)
	}
}

// The text of an error is the thread's, and goroutines change threads.
func TestGoroutinesGetTheirOwnErrors(t *testing.T) {
	names := make([]string, 16)
	for i := range names {
		names[i] = fmt.Sprint("instance-", i)
	}
	router := newRouter(t, names...)
	var group sync.WaitGroup
	for _, name := range names {
		name := name
		group.Add(1)
		go func() {
			defer group.Done()
			for i := 0; i < 500; i++ {
				_, err := router.AddInstance(name, 0)
				runtime.Gosched()
				requireError(t, err, AlreadyExists, fmt.Sprintf("%q", name))
			}
		}()
	}
	group.Wait()
}
