// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/internal/num"
)

// pass computes the sums of a query over consecutive records.
type pass struct {
	query
	answer

	ctx          context.Context
	data         *records
	first, count int // records
	unit         int // records in a part: a grain in memory, else the records of one read

	mu          sync.Mutex
	total       num.ExactVector
	fingerprint [2]uint64
	err         atomic.Pointer[error] // the first error of a read
}

var passes = sync.Pool{New: func() any { return new(pass) }}

// run computes the exact sums, on at most the given number of goroutines. 0 means GOMAXPROCS, or
// four times that if records are read, since most goroutines then wait for the disk. The bits of
// total and of the answer are functions of the query and the records alone.
func (p *pass) run(threads int) error {
	p.fingerprint = [2]uint64{}
	p.err.Store(nil)
	most := runtime.GOMAXPROCS(0)
	if p.unit = p.grain; p.data.src != nil {
		if p.unit = readRows(p.dim); p.data.src.view == nil {
			most *= 4
		}
	}
	if threads <= 0 || threads > most {
		threads = most
	}
	p.total.Reset(p.size())
	kernel.Each((p.count+p.unit-1)/p.unit, threads, p)
	if err := p.err.Load(); err != nil {
		return *err
	}
	return nil
}

// rounded runs p and stores the rounded sums in its answer.
func (p *pass) rounded(threads int) error {
	if p.data.src == nil && p.count <= p.grain && p.count > 0 && p.ask&(askPair|askGram) == 0 {
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

// Part implements [kernel.Parts].
func (p *pass) Part(i int) {
	lo := p.first + i*p.unit
	hi := min(lo+p.unit, p.first+p.count)
	if p.data.src == nil {
		p.addGrain(p.data, lo, hi)
		return
	}
	if p.err.Load() != nil {
		return
	}
	if v := p.data.src.view; v != nil && p.ctx.Err() == nil {
		p.addView(v, lo, hi)
		return
	}
	w := windows.Get().(*window)
	defer windows.Put(w)
	if err := p.data.src.read(p.ctx, w, p.data, lo, hi-lo); err != nil {
		p.err.CompareAndSwap(nil, &err)
		return
	}
	if p.ask&askPrint != 0 {
		sum := w.fingerprint(p.mult)
		p.mu.Lock()
		p.fingerprint[0] += sum[0]
		p.fingerprint[1] += sum[1]
		p.mu.Unlock()
	}
	for at := 0; at < hi-lo; at += p.grain {
		p.addGrain(&w.rec, at, min(at+p.grain, hi-lo))
	}
}

// addGrain adds the sums over records [lo, hi) of r to the total.
func (p *pass) addGrain(r *records, lo, hi int) {
	part := partials.Get().(*partial)
	defer partials.Put(part)
	part.reset(&p.query)
	p.add(part, r, lo, hi)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.collect(&p.total, part)
}

// sum returns a pass with the sums want at x + low. The caller must return it by done. If the
// source fails, all sums are NaN and Err returns the reason.
func (s *objective) sum(want ask, x, low []float64) *pass {
	fused := s.fuse(want)
	if s.holds() {
		if !slices.ContainsFunc(low, func(v float64) bool { return v != 0 }) {
			low = nil
		}
		s.recent.Lock()
		defer s.recent.Unlock()
		for _, p := range s.recent.held {
			if p != nil && slices.Equal(p.x, x) && slices.Equal(p.low, low) {
				if p.ask&want == want {
					return p
				}
				fused = want | fused&^p.ask
			}
		}
	}
	p := passes.Get().(*pass)
	p.query = newQuery(s.costs, fused, x, low, s.data)
	p.ctx, p.data = s.ctx, s.data
	p.first, p.count = 0, s.data.n
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
	p.x, p.low = slices.Clone(x), slices.Clone(low)
	p.total = num.ExactVector{}
	s.recent.held[0], s.recent.held[1] = p, s.recent.held[0] // the garbage collector frees the older one
	return p
}

// recent holds the last two passes, if a pass is so expensive that solvers should share it.
type recent struct {
	sync.Mutex
	held [2]*pass
}

// holds reports whether passes are kept in recent: over records that are not in memory, or over so
// many that all sums at a point are best computed together.
func (s *objective) holds() bool { return s.data.src != nil || s.whole }

// fuse adds sums that the solver will want next and that cost little in the same pass.
func (s *objective) fuse(want ask) ask {
	switch {
	case want&(askGram|askPair|askPrint) != 0 || !s.holds():
	case s.glm == nil:
		want |= askValue | askGrad
	default:
		if want |= askGrad | askBound; s.data.src != nil && !s.whole {
			want |= askValue
		}
	}
	return want
}

// answer runs p, here or in a Remote, unless an earlier pass failed.
func (s *objective) answer(p *pass) error {
	if err := s.failure.Load(); err != nil {
		return *err
	}
	if s.data.src == nil {
		return p.rounded(s.threads)
	}
	return s.data.src.sum(p, s.threads)
}

// fail sets all sums to NaN.
func (p *pass) fail() {
	p.total.Reset(p.size())
	p.round(&p.query, &p.total)
	p.scale(math.NaN())
}

// done returns p to the pool unless it is kept in recent.
func (s *objective) done(p *pass) {
	if s.holds() {
		return
	}
	p.x, p.low = nil, nil
	p.data, p.ctx = nil, nil
	passes.Put(p)
}

// fail keeps the first error, which Err returns.
func (s *objective) fail(err error) {
	if s.ctx.Err() != nil {
		err = s.ctx.Err()
	}
	s.failure.CompareAndSwap(nil, &err)
}

// Err returns the first failure, nil if there is none and for records in memory: an error wrapping
// [ErrSource] if records could not be read, or the error of the context of PerturbContext. After a
// failure all sums are NaN, and no value computed from them may be used.
func (o *Objective) Err() error {
	s := o.s()
	if err := s.failure.Load(); err != nil {
		return *err
	}
	return s.data.err()
}

// sourceError wraps the error of a Source.
func sourceError(err error) error { return fmt.Errorf("%w: %w", ErrSource, err) }
