package erm

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/internal/num"
)

// pass answers a query by one sweep over consecutive records.
type pass struct {
	query
	answer

	ctx          context.Context
	data         *records
	first, count int // records
	unit         int // records in a part: a grain in memory, else what is read at a time

	mu          sync.Mutex
	total       num.ExactVector
	fingerprint [2]uint64
	err         error
}

var passes = sync.Pool{New: func() any { return new(pass) }}

// run adds up the records, on at most so many goroutines, for 0 GOMAXPROCS, or four times that where
// records are read: most of them wait for the disk. The bits of total and answer depend on the query
// and the records alone.
func (p *pass) run(threads int) error {
	p.err, p.fingerprint = nil, [2]uint64{}
	most := runtime.GOMAXPROCS(0)
	if p.unit = p.grain; p.data.src != nil {
		p.unit = readRows(p.dim)
		most *= 4
	}
	if threads <= 0 || threads > most {
		threads = most
	}
	p.total.Reset(p.size())
	kernel.Each((p.count+p.unit-1)/p.unit, threads, p)
	return p.err
}

// rounded runs p and rounds the sums.
func (p *pass) rounded(threads int) error {
	if p.data.src == nil && p.count <= p.grain && p.count > 0 && p.ask&(askValue|askPair|askGram) == 0 {
		part := partials.Get().(*partial)
		defer partials.Put(part)
		part.reset(&p.query)
		p.add(part, p.data, p.first, p.first+p.count)
		p.only(&p.query, part)
		return nil
	}
	if err := p.run(threads); err != nil {
		return err
	}
	p.round(&p.query, &p.total)
	return nil
}

// Part implements kernel.Parts.
func (p *pass) Part(i int) {
	lo := p.first + i*p.unit
	hi := min(lo+p.unit, p.first+p.count)
	part := partials.Get().(*partial)
	defer partials.Put(part)
	if p.data.src == nil {
		part.reset(&p.query)
		p.add(part, p.data, lo, hi)
		p.mu.Lock()
		p.collect(&p.total, part)
		p.mu.Unlock()
		return
	}
	p.mu.Lock()
	failed := p.err != nil
	p.mu.Unlock()
	if failed {
		return
	}
	w := windows.Get().(*window)
	defer windows.Put(w)
	if err := p.data.src.read(p.ctx, w, p.data, lo, hi-lo); err != nil {
		p.mu.Lock()
		if p.err == nil {
			p.err = err
		}
		p.mu.Unlock()
		return
	}
	var fingerprint [2]uint64
	if p.ask&askPrint != 0 {
		fingerprint = w.fingerprint(p.mult)
	}
	for at := 0; at < hi-lo; at += p.grain {
		part.reset(&p.query)
		p.add(part, &w.rec, at, min(at+p.grain, hi-lo))
		p.mu.Lock()
		p.collect(&p.total, part)
		p.mu.Unlock()
	}
	p.mu.Lock()
	p.fingerprint[0] += fingerprint[0]
	p.fingerprint[1] += fingerprint[1]
	p.mu.Unlock()
}

// sum returns the pass that answers ask at x + low, to be given back by done. Of a source that
// fails all sums are NaN, and Err tells.
func (s *objective) sum(want ask, x, low []float64) *pass {
	want = s.fuse(want)
	if s.holds() {
		if !slices.ContainsFunc(low, func(v float64) bool { return v != 0 }) {
			low = nil
		}
		s.recent.Lock()
		defer s.recent.Unlock()
		for _, p := range s.recent.held {
			if p != nil && p.ask&want == want && slices.Equal(p.x, x) && slices.Equal(p.low, low) {
				return p
			}
		}
	}
	p := passes.Get().(*pass)
	p.query = newQuery(s.costs, want, x, low, s.data)
	p.ctx, p.data, p.first, p.count = s.ctx, s.data, 0, s.data.n
	if err := s.answer(p); err != nil {
		s.fail(err)
		p.fail()
	}
	if s.weight != 1 {
		p.scale(s.weight)
	}
	if !s.holds() {
		return p
	}
	p.x, p.low, p.total = slices.Clone(x), slices.Clone(low), num.ExactVector{}
	s.recent.held[0], s.recent.held[1] = p, s.recent.held[0] // the collector takes the older
	return p
}

// recent holds the last two passes over records that are not in memory, or so many that sums at
// a point are best made in one pass.
type recent struct {
	sync.Mutex
	held [2]*pass
}

func (s *objective) holds() bool { return s.data.src != nil || s.whole }

// fuse adds to what is wanted what hardly costs more in the same pass, and is wanted next.
func (s *objective) fuse(want ask) ask {
	switch {
	case want&(askGram|askPair) != 0 || !s.holds():
	case s.glm == nil:
		want |= askValue | askGrad
	default:
		if want |= askGrad | askBound; s.whole {
			want |= askHess
		} else if s.data.src != nil {
			want |= askValue
		}
	}
	return want
}

// answer runs p where the records are, unless a pass before it failed.
func (s *objective) answer(p *pass) error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	if s.data.src == nil {
		return p.rounded(s.threads)
	}
	return s.data.src.sum(p, s.threads)
}

// fail makes all sums NaN.
func (p *pass) fail() {
	p.total.Reset(p.size())
	p.round(&p.query, &p.total)
	p.scale(math.NaN())
}

// done gives p back.
func (s *objective) done(p *pass) {
	if s.holds() {
		return
	}
	p.x, p.low, p.data, p.ctx = nil, nil, nil, nil
	passes.Put(p)
}

// fail keeps the first error, which Err returns.
func (s *objective) fail(err error) {
	if s.ctx.Err() != nil {
		err = s.ctx.Err()
	}
	s.failure.CompareAndSwap(nil, &err)
}

// Err returns why nothing that was computed may be used: an error wrapping ErrSource if records could not
// be read, or the error of the context of PerturbContext. It is nil for records in memory. Sums are NaN then.
func (o *Objective) Err() error {
	s := o.s()
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return s.data.err()
}

// sourceError wraps the error of a source.
func sourceError(err error) error { return fmt.Errorf("%w: %w", ErrSource, err) }
