package kernel

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// Sum is a sum of parts that can be computed in any order and at one time.
type Sum interface {
	// Part adds part i to dst, which is 0 and belongs to this call alone.
	Part(dst []float64, i int)
	// Join adds the partial sum src to the partial sum dst.
	Join(dst, src []float64)
}

// Reduce stores the sum of parts 0, …, parts−1 in dst. Partial sums meet in a
// fixed tree,
//
//	part i takes in part i+w for i = 0, 2w, 4w, …,   w = 1, 2, 4, …
//
// so the bits of the result depend on the parts alone, not on how many threads
// computed them nor on which did what.
//
// It runs on the calling goroutine and at most threads−1 others, GOMAXPROCS−1
// if threads ≤ 0, which take parts until none is left; the call returns when all
// parts are done, and no goroutine outlives it by more than the time it takes to
// see that. A panic of Part is raised again in the caller, and a runtime.Goexit
// of Part in another goroutine than the caller's is a panic; after either no
// more parts are begun. Once it has run it does not allocate.
func Reduce(dst []float64, parts, threads int, s Sum) {
	clear(dst)
	if parts <= 1 {
		if parts == 1 {
			s.Part(dst, 0)
		}
		return
	}
	if procs := runtime.GOMAXPROCS(0); threads <= 0 || threads > procs {
		threads = procs
	}
	t, ok := teams.Get().(*team)
	if !ok {
		t = newTeam()
	}
	t.start(len(dst), parts, s)
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
	if failure == nil {
		for w := 1; w < parts; w *= 2 {
			for i := 0; i+w < parts; i += 2 * w {
				s.Join(t.part(i), t.part(i+w))
			}
		}
		copy(dst, t.part(0))
	}
	t.release()
	if failure != nil {
		panic(failure.value)
	}
}

// nothing takes the place of the goroutine started last, which its own processor
// is expected to run next: from there another takes it only after 40 µs, half of
// a pass over 3 MB, and from behind it after 2.
func nothing() {}

// team is the state that the goroutines of one Reduce share.
type team struct {
	sum     Sum
	size    int // of a partial sum
	stride  int // from one partial sum to the next, on other cache lines
	buf     []float64
	parts   int64
	next    atomic.Int64 // the part to take next
	done    atomic.Int64 // parts computed
	holders atomic.Int64 // goroutines that may still look at this
	help    func()

	failure  atomic.Pointer[failure]
	finished chan struct{}
}

const badExit = "kernel: a part of a sum ended its goroutine"

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
		t.work()
	}
	return t
}

func (t *team) start(size, parts int, s Sum) {
	t.sum, t.size, t.parts = s, size, int64(parts)
	t.stride = (size+7)&^7 + 8
	if n := parts * t.stride; cap(t.buf) < n {
		t.buf = make([]float64, n)
	}
	t.next.Store(0)
	t.done.Store(0)
	t.holders.Store(1)
	t.failure.Store(nil)
}

func (t *team) part(i int) []float64 {
	at := i * t.stride
	return t.buf[at : at+t.size : at+t.size]
}

// finish works until all parts are done, also where one ends this goroutine.
func (t *team) finish() {
	defer func() {
		t.work() // nothing is left but after runtime.Goexit
		<-t.finished
	}()
	t.work()
}

// work takes parts until none is left.
func (t *team) work() {
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
		dst := t.part(i)
		clear(dst)
		t.sum.Part(dst, i)
	}
	complete = true
}

// release gives t back when its last holder lets go of it: a goroutine may
// start after all parts are done.
func (t *team) release() {
	if t.holders.Add(-1) == 0 {
		t.sum = nil
		teams.Put(t)
	}
}
