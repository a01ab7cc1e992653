// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Parts is work whose parts may be done in any order and concurrently.
type Parts interface{ Part(i int) }

// Each calls p.Part(0), …, p.Part(parts−1) and returns when all have returned. Parts run on the
// calling goroutine and on at most threads−1 others, where threads ≤ 0 means GOMAXPROCS. Once it
// has run, it does not allocate.
//
// A panic of a part is raised again in the caller. A runtime.Goexit of a part on another goroutine
// becomes a panic in the caller. After either no further parts are begun.
func Each(parts, threads int, p Parts) {
	if parts <= 1 {
		if parts == 1 {
			p.Part(0)
		}
		return
	}
	if threads <= 0 {
		threads = runtime.GOMAXPROCS(0)
	}
	t, ok := teams.Get().(*team)
	if !ok {
		t = newTeam()
	}
	t.start(parts, p)
	helped := false
	for range min(threads, parts) - 1 {
		if late.Load() >= int64(threads) {
			break // no processor is free to run another
		}
		late.Add(1)
		t.holders.Add(1)
		go t.help()
		helped = true
	}
	if helped {
		go nothing()
	}
	t.finish()
	failure := t.failure.Load()
	t.release()
	if failure != nil {
		panic(failure.value)
	}
}

// nothing is started last because the scheduler runs the goroutine that was started last on the
// same processor, next. Other processors steal that goroutine only after 40 µs, half of a pass over
// 3 MB, but take the ones queued behind it after 2 µs.
func nothing() {}

// team is the state shared by the goroutines of one call of Each.
type team struct {
	work    Parts
	parts   int64
	next    atomic.Int64 // the next part to begin
	done    atomic.Int64 // parts that are done
	holders atomic.Int64 // goroutines that may still use the team
	help    func()

	failure  atomic.Pointer[failure]
	finished chan struct{}
}

const badExit = "kernel: a part ended its goroutine"

// failure holds the value that a part panicked with.
type failure struct{ value any }

var teams sync.Pool

// late counts the goroutines of all calls that were requested and have not started.
var late atomic.Int64

func newTeam() *team {
	t := &team{finished: make(chan struct{}, 1)}
	t.help = func() {
		late.Add(-1)
		defer t.release()
		t.take()
	}
	return t
}

func (t *team) start(parts int, p Parts) {
	t.work, t.parts = p, int64(parts)
	t.next.Store(0)
	t.done.Store(0)
	t.holders.Store(1)
	t.failure.Store(nil)
}

// finish returns when all parts are done, also if a part ends this goroutine by runtime.Goexit.
func (t *team) finish() {
	defer func() {
		t.take() // parts are left after runtime.Goexit only
		<-t.finished
	}()
	t.take()
}

// take runs parts until none is left.
func (t *team) take() {
	for {
		i := t.next.Add(1) - 1
		if i >= t.parts {
			return
		}
		t.compute(int(i))
	}
}

func (t *team) compute(i int) {
	complete := false
	defer func() {
		if !complete {
			v := recover()
			if v == nil { // runtime.Goexit
				v = badExit
			}
			t.failure.CompareAndSwap(nil, &failure{v})
		}
		if t.done.Add(1) == t.parts {
			t.finished <- struct{}{}
		}
	}()
	if t.failure.Load() == nil {
		t.work.Part(i)
	}
	complete = true
}

// release puts t back into the pool once its last holder has released it. That may be after Each
// has returned, because a goroutine may start after all parts are done.
func (t *team) release() {
	if t.holders.Add(-1) == 0 {
		t.work = nil
		teams.Put(t)
	}
}
