package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Parts is work in parts that can be done in any order and at one time.
type Parts interface{ Part(i int) }

// Each does parts 0, …, parts−1.
//
// It runs on the calling goroutine and at most threads−1 others, GOMAXPROCS−1
// if threads ≤ 0, which take parts in order until none is left; the call returns when all
// parts are done, and no goroutine outlives it by more than the time it takes to
// see that. A panic of Part is raised again in the caller, and a runtime.Goexit
// of Part in another goroutine than the caller's is a panic; after either no
// more parts are begun. Once it has run it does not allocate.
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
			break // no processor is free to run them
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

// nothing takes the place of the goroutine started last, which its own processor
// is expected to run next: from there another takes it only after 40 µs, half of
// a pass over 3 MB, and from behind it after 2.
func nothing() {}

// team is the state that the goroutines of one Each share.
type team struct {
	work    Parts
	parts   int64
	next    atomic.Int64 // the part to take next
	done    atomic.Int64 // parts computed
	holders atomic.Int64 // goroutines that may still look at this
	help    func()

	failure  atomic.Pointer[failure]
	finished chan struct{}
}

const badExit = "kernel: a part ended its goroutine"

// failure is what a Part panicked with.
type failure struct{ value any }

var teams sync.Pool

// late counts goroutines that were asked for and have not started.
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

// finish works until all parts are done, also where one ends this goroutine.
func (t *team) finish() {
	defer func() {
		t.take() // nothing is left but after runtime.Goexit
		<-t.finished
	}()
	t.take()
}

// take does parts until none is left.
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
			if v == nil { // runtime.Goexit: nobody must wait for this part
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

// release gives t back when its last holder lets go of it: a goroutine may
// start after all parts are done.
func (t *team) release() {
	if t.holders.Add(-1) == 0 {
		t.work = nil
		teams.Put(t)
	}
}
