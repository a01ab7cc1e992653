// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"sort"

	"github.com/privopt/privopt/internal/noise"
)

// envelope is a partition of W by subtrees of the search for 0/1 columns, with a lower bound on the
// loss in each. Points are drawn from it by rejection: docs/theory/discrete.md#discrete.envelope
type envelope struct {
	pl     *Plan
	p      *Problem
	m      *cellModel
	s      *cellState
	order  []int      // the columns as they are fixed
	values []int      // of a column
	free   [][]int    // the value indices that each of them may take
	rest   [][]uint64 // rest[t][q]: weight of all completions where the columns before t have squared norm q

	cut    float64 // parts of a larger share ln(weight/total) − bound/c are divided
	path   []int8  // of the node, value indices in order
	parts  []subtree
	room   int // bytes that paths of parts may still take
	levels *noise.Levels
	first  []int    // of the parts of a level
	sums   []uint64 // sums[i]: weight of the parts before part i
}

// subtree is a part: the points with the given first values, whose losses are bound at least.
type subtree struct {
	path   []int8
	sq     int // squared norm of the path
	weight uint64
	bound  int64
}

// The memory of an envelope is bounded to some 300 MB. What is not divided costs tries.
const (
	maxParts = 1 << 20
	maxPaths = 1 << 27 // bytes
)

// full reports whether no more parts fit.
func (e *envelope) full() bool { return len(e.parts) >= maxParts || e.room <= 0 }

// newEnvelope returns the envelope of p without its parts. The error wraps ErrLimit if the columns
// are not mostly 0/1: more than 2¹² combinations of the weights of the others cost too much time.
func (pl *Plan) newEnvelope(p *Problem) (*envelope, error) {
	m, err := p.cells(1 << 28)
	if err == nil {
		_, err = m.combine(p, 1<<12)
	}
	if err != nil {
		return nil, err
	}
	e := &envelope{pl: pl, p: p, m: m, s: newCellState(m, Search{Workers: 1}.newRun(p), nil)}
	e.order, e.values = slices.Concat(m.dense, m.cat), m.values
	e.free = slices.Concat(e.s.given, e.s.free)
	e.complete()
	return e, nil
}

// complete computes the weights of completions.
func (e *envelope) complete() {
	pl := e.pl
	top := pl.law.sqs[len(pl.law.sqs)-1]
	e.rest = grid[uint64](len(e.order)+1, top+1)
	for i, q := range pl.law.sqs {
		e.rest[len(e.order)][q] = pl.law.weights[i]
	}
	for t := len(e.order) - 1; t >= 0; t-- {
		for q := range e.rest[t] {
			for _, k := range e.free[t] {
				if v := e.values[k]; q+v*v <= top {
					e.rest[t][q] += e.rest[t+1][q+v*v]
				}
			}
		}
	}
}

// whole draws a point by tries from π itself: W is one part, with the bound 0.
func (pl *Plan) whole(ctx context.Context, p *Problem, src noise.Source) ([]int, error) {
	e := &envelope{pl: pl, p: p, values: p.space.Values, first: []int{0, 1}}
	for j := range p.dim {
		var free []int
		for k := range p.space.Values {
			if p.space.allowed(j, k) {
				free = append(free, k)
			}
		}
		e.order, e.free = append(e.order, j), append(e.free, free)
	}
	e.complete()
	total := e.rest[0][0]
	e.parts, e.sums = []subtree{{weight: total}}, []uint64{0, total}
	e.levels = noise.NewLevels([]int64{0}, []uint64{total}, pl.params.Scale)
	return pl.tries(ctx, src, math.MaxInt, func() []int { return e.try(ctx, src) })
}

// build divides W until no part has more than e^cut times the weight that a point of loss lower and
// of all the weight would have, or until ctx ends or there are too many parts.
func (e *envelope) build(ctx context.Context, cut float64, lower int64) {
	e.cut, e.parts = cut-float64(lower)/e.pl.params.Scale, e.parts[:0]
	e.room = maxPaths
	e.dense(ctx, 0, 0)
	slices.SortStableFunc(e.parts, func(a, b subtree) int { return int(a.bound - b.bound) })
	e.first, e.sums = nil, []uint64{0}
	var gaps []int64
	var weights []uint64
	for i, part := range e.parts {
		if i == 0 || part.bound > e.parts[i-1].bound {
			e.first = append(e.first, i)
			gaps, weights = append(gaps, part.bound-e.parts[0].bound), append(weights, 0)
		}
		weights[len(weights)-1] += part.weight
		e.sums = append(e.sums, e.sums[i]+part.weight)
	}
	e.first = append(e.first, len(e.parts))
	e.levels = noise.NewLevels(gaps, weights, e.pl.params.Scale)
}

// dense fixes the columns that are not 0/1, from t on.
func (e *envelope) dense(ctx context.Context, t, sq int) {
	if t == len(e.m.dense) {
		left := e.m.left(e.path)
		decided := e.s.load(e.path, left)
		bound, k := e.s.bound(0, left, decided)
		if k < 0 { // no bound
			bound = 0
		}
		e.node(ctx, 0, sq, left, decided, max(0, e.records(bound)))
		return
	}
	for _, k := range e.free[t] {
		e.descend(t, k, sq, func(sq int) { e.dense(ctx, t+1, sq) })
	}
}

// descend calls f with the value k of column t in the path, if there is a point with it.
func (e *envelope) descend(t, k, sq int, f func(sq int)) {
	v := e.values[k]
	if sq += v * v; sq >= len(e.rest[t+1]) || e.rest[t+1][sq] == 0 {
		return
	}
	e.path = append(e.path, int8(k))
	f(sq)
	e.path = e.path[:t]
}

// records returns a bound in steps as a bound on the number of records, rounded up.
func (e *envelope) records(bound fixed) int64 { return -(-bound >> e.s.shift) }

// node divides the subtree of depth t, or makes it a part.
func (e *envelope) node(ctx context.Context, t, sq, left int, decided fixed, bound int64) {
	nd, pl := len(e.m.dense), e.pl
	weight := e.rest[nd+t][sq]
	share := math.Log(float64(weight)/float64(pl.law.total)) - float64(bound)/pl.params.Scale
	if t == len(e.m.cat) || share <= e.cut || e.full() || ctx.Err() != nil {
		e.room -= len(e.path)
		e.parts = append(e.parts, subtree{slices.Clone(e.path), sq, weight, bound})
		return
	}
	e.s.bound(t, left, decided)
	for _, k := range e.free[nd+t] {
		e.descend(nd+t, k, sq, func(sq int) {
			b, below := left-e.m.sq[k], bound
			if child := e.s.child[t][k]; child <= feasible {
				below = max(below, e.records(child))
			}
			d := decided + e.s.fix(t, k, b)
			if t+1 == len(e.m.cat) {
				below = e.records(d) // the loss itself
			}
			e.node(ctx, t+1, sq, b, d, below)
		})
	}
}

// try draws a point of a part and returns it, or nil if it is rejected.
func (e *envelope) try(ctx context.Context, src noise.Source) []int {
	level := e.levels.Draw(src)
	from, to := e.sums[e.first[level]], e.sums[e.first[level+1]]
	u := from + noise.Below(to-from, src)
	part := &e.parts[sort.Search(len(e.parts), func(i int) bool { return e.sums[i+1] > u })]
	w, sq := make([]int, len(e.order)), part.sq
	for t, j := range e.order {
		if t < len(part.path) {
			w[j] = e.values[part.path[t]]
			continue
		}
		u := noise.Below(e.rest[t][sq], src)
		for _, k := range e.free[t] {
			v := e.values[k]
			if sq+v*v >= len(e.rest[t+1]) {
				continue
			}
			if below := e.rest[t+1][sq+v*v]; u >= below {
				u -= below
				continue
			}
			w[j], sq = v, sq+v*v
			break
		}
	}
	if !e.pl.accepts(ctx, int64(e.p.Loss(w))-part.bound, src) {
		return nil
	}
	return w
}

// divide draws a point by tries from finer and finer partitions. A bound on the least loss, from a
// search that may stop early, decides where to begin. The error wraps ErrLimit once the visit of
// all points, where they are few, would have taken less time: failed tries do not change the law.
func (pl *Plan) divide(ctx context.Context, p *Problem, src noise.Source) ([]int, error) {
	e, err := pl.newEnvelope(p)
	if err != nil {
		return nil, err
	}
	sol, err := Search{Workers: 1, Points: -1, Nodes: 1 << 14}.Solve(ctx, p)
	if err != nil && !errors.Is(err, ErrLimit) {
		return nil, err
	}
	lower := int64(0)
	if sol != nil {
		lower = int64(math.Ceil(sol.Lower))
	}
	left := math.Inf(1) // parts and tries that take about the time of a visit
	if pl.law.points() <= fewPoints {
		left = 1 + pl.visits(p)/float64(1+len(p.x)*p.dim)
	}
	step, before := 2.0, 1
	for cut := -step; ; cut -= step {
		e.build(ctx, cut, lower)
		if 2*len(e.parts) < 3*before {
			step *= 2 // the next partition would not be much finer
		} else {
			step = 2
		}
		before = len(e.parts)
		tries := 16 + len(e.parts)/16
		if e.full() {
			tries = math.MaxInt
		}
		if left -= float64(len(e.parts)); left < 0 {
			return nil, fmt.Errorf("%w: %d points are visited in less time", ErrLimit, pl.law.points())
		}
		if float64(tries) > left {
			tries = int(left)
		}
		left -= float64(tries)
		if w, err := pl.tries(ctx, src, tries, func() []int { return e.try(ctx, src) }); w != nil || err != nil {
			return w, err
		}
		if ctx.Err() != nil {
			return nil, interrupted(ctx)
		}
	}
}
