package objpert

import (
	"math"
	"slices"
	"sync"
	"sync/atomic"
)

// unreached is the value of no point; every real value is below 2^62.
const unreached fixed = math.MaxInt64

// incumbent is the best point found so far, shared by the workers of a search.
type incumbent struct {
	value atomic.Int64 // objective of w, or the cutoff that a point must beat
	first bool         // one point below the cutoff is enough

	mu   sync.Mutex
	w    []int // nil until a point is found
	tied fixed // least value at which a second point was seen
	done atomic.Bool
}

func newIncumbent(cutoff fixed) *incumbent {
	inc := &incumbent{tied: unreached}
	inc.value.Store(cutoff)
	return inc
}

// offer takes the point w of value v, which it copies.
func (inc *incumbent) offer(v fixed, w []int) {
	if v > inc.value.Load() {
		return
	}
	inc.mu.Lock()
	defer inc.mu.Unlock()
	switch best := inc.value.Load(); {
	case v < best:
		inc.w = append(inc.w[:0:0], w...)
		inc.value.Store(v)
		if inc.first {
			inc.done.Store(true)
		}
	case v == best && inc.w != nil && !slices.Equal(w, inc.w):
		inc.tie(v)
		if slices.Compare(w, inc.w) < 0 {
			inc.w = append(inc.w[:0:0], w...)
		}
	}
}

// tie notes that a second point of value v may exist. inc.mu is held.
func (inc *incumbent) tie(v fixed) { inc.tied = min(inc.tied, v) }

// point returns the best point, which must not be changed, and its value.
func (inc *incumbent) point() ([]int, fixed) {
	inc.mu.Lock()
	defer inc.mu.Unlock()
	return inc.w, inc.value.Load()
}
