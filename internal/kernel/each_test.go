// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/testkit"
)

// marks counts how often each part was done.
type marks struct {
	done  []atomic.Int64
	calls atomic.Int64
	wait  func(i int)
}

func newMarks(n int) *marks { return &marks{done: make([]atomic.Int64, n)} }

func (s *marks) Part(i int) {
	s.calls.Add(1)
	if s.wait != nil {
		s.wait(i)
	}
	s.done[i].Add(1)
}

// all reports whether every part was done k times.
func (s *marks) all(k int64) bool {
	for i := range s.done {
		if s.done[i].Load() != k {
			return false
		}
	}
	return true
}

// Every part is done once, on any number of threads, whoever is late.
func TestEachDoesEveryPartOnce(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	for _, parts := range []int{0, 1, 2, 3, 5, 8, 64, 100} {
		for procs := 1; procs <= 16; procs++ {
			runtime.GOMAXPROCS(procs)
			for _, threads := range []int{0, 1, 2, 3, 99} {
				s := newMarks(parts)
				s.wait = func(i int) {
					if (i+procs)%3 == 0 {
						runtime.Gosched()
					}
				}
				Each(parts, threads, s)
				require.True(t, s.all(1), "%d parts, %d threads of %d", parts, threads, procs)
			}
		}
	}
}

// No more goroutines than asked for compute parts at one time, several do where
// they may, and none is left. Each starts fewer while goroutines of earlier calls have not started,
// so that each call waits for these.
func TestEachThreads(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	before := runtime.NumGoroutine()
	for _, threads := range []int{1, 2, 3} {
		s := newMarks(30)
		var now, most atomic.Int64
		s.wait = func(int) {
			n := now.Add(1)
			for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
			}
			testkit.Until(func() bool { return most.Load() >= int64(threads) })
			now.Add(-1)
		}
		testkit.Until(func() bool { return late.Load() == 0 })
		Each(30, threads, s)
		require.EqualValues(t, threads, most.Load())
	}
	testkit.Until(func() bool { return runtime.NumGoroutine() <= before })
}

// A panic of a part reaches the caller, whichever goroutine it was in, and leaves nothing behind.
func TestEachPanics(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4))
	s := newMarks(20)
	for k := range 20 {
		s.wait = func(i int) {
			time.Sleep(10 * time.Microsecond)
			if i == k || i == 7 {
				panic("part")
			}
		}
		require.PanicsWithValue(t, "part", func() { Each(20, 4, s) })
	}
	s.wait = nil
	s.done = make([]atomic.Int64, 20)
	Each(20, 4, s)
	require.True(t, s.all(1))
}

// A part that ends its goroutine, as a failed test does inside a loss, leaves
// nobody waiting: the caller panics or, where the part ran there, ends.
func TestEachEndsWithItsGoroutines(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s := newMarks(20)
	for k := range 20 {
		s.wait = func(i int) {
			time.Sleep(10 * time.Microsecond)
			if i == 7 {
				runtime.Goexit()
			}
		}
		ended := make(chan any)
		go func() {
			defer func() { ended <- recover() }()
			Each(20, 1+k%2, s)
			panic("not reached")
		}()
		require.Contains(t, []any{nil, badExit}, <-ended) // the caller does not wait for a part that nobody computes
	}
	s.wait = nil
	s.done = make([]atomic.Int64, 20)
	Each(20, 2, s)
	require.True(t, s.all(1))
}

// Goroutines and their teams are reused, and nothing is allocated, but for the
// few times that the collector took a team away.
func TestEachDoesNotAllocate(t *testing.T) {
	if testkit.Race {
		t.Skip("the race detector makes sync.Pool forget, so that sums allocate")
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(2))
	s := newMarks(16)
	const runs = 2000
	var before, after runtime.MemStats
	for range 100 {
		Each(16, 2, s)
	}
	runtime.ReadMemStats(&before)
	for range runs {
		Each(16, 2, s)
	}
	runtime.ReadMemStats(&after)
	require.Less(t, after.Mallocs-before.Mallocs, uint64(runs/20))
}

// Calls at one time do not mix.
func TestEachConcurrently(t *testing.T) {
	var wg sync.WaitGroup
	for k := range 8 {
		wg.Go(func() {
			s := newMarks(10 + k)
			for range 200 {
				Each(10+k, 2, s)
			}
			if !s.all(200) {
				t.Errorf("call %d", k)
			}
		})
	}
	wg.Wait()
}
