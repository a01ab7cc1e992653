// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"context"
	"math"
	"slices"

	"github.com/privopt/privopt/internal/noise"
)

// scan visits the points of a Problem one by one and keeps their losses. A point is a set of
// columns that differ from their value of least square, and these values: the next point changes
// one column and looks at the rows with an entry there. The order depends on the space alone.
type scan struct {
	space  *Space
	base   []int     // the value of least square of each column
	slot   [][]entry // the entries of each column that are not 0
	pos    []int32   // by row
	neg    []int32
	scores []int64 // ⟨x_g, w⟩
	loss   int32
	w      []int
}

type entry struct {
	row int
	x   int64
}

// newScan starts at the point of least norm. Without rows it knows no loss.
func newScan(p *Problem, rows bool) *scan {
	s := &scan{space: &p.space, base: make([]int, p.dim), slot: make([][]entry, p.dim)}
	for j := range s.base {
		at := -1
		for k, v := range p.space.Values {
			if p.space.allowed(j, k) && (at < 0 || v*v < p.space.Values[at]*p.space.Values[at]) {
				at = k
			}
		}
		s.base[j] = p.space.Values[at]
	}
	s.w = slices.Clone(s.base)
	if !rows {
		return s
	}
	s.scores = make([]int64, len(p.x))
	for g, x := range p.x {
		s.pos, s.neg = append(s.pos, int32(p.pos[g])), append(s.neg, int32(p.neg[g]))
		for j, v := range x {
			if v != 0 {
				s.slot[j] = append(s.slot[j], entry{g, v})
				s.scores[g] += v * int64(s.base[j])
			}
		}
	}
	s.loss = int32(p.Loss(s.w))
	return s
}

// move sets column j to v.
func (s *scan) move(j, v int) {
	step := int64(v - s.w[j])
	s.w[j] = v
	loss := s.loss
	for _, e := range s.slot[j] {
		old := s.scores[e.row]
		now := old + step*e.x
		s.scores[e.row] = now
		if (old > 0) != (now > 0) {
			change := s.neg[e.row] - s.pos[e.row]
			if old > 0 {
				change = -change
			}
			loss += change
		}
	}
	s.loss = loss
}

// each calls f at every point whose columns before t are as they are, at the point itself first. sq
// is its squared norm, given f. It stops if f returns false.
func (s *scan) each(t, sq int, f func(sq int) bool) bool {
	if !f(sq) {
		return false
	}
	for j := t; j < len(s.w); j++ {
		base, changed := s.base[j], false
		for k, v := range s.space.Values {
			if v == base || !s.space.fits(j, k, sq-base*base) {
				continue
			}
			s.move(j, v)
			changed = true
			if !s.each(j+1, sq-base*base+v*v, f) {
				return false
			}
		}
		if changed {
			s.move(j, base)
		}
	}
	return true
}

func (s *scan) all(f func(sq int) bool) {
	sq := 0
	for _, v := range s.base {
		sq += v * v
	}
	s.each(0, sq, f)
}

// visits is the number of entries of rows that the visit of all points looks at, about.
func (pl *Plan) visits(p *Problem) float64 {
	entries := 0
	for _, x := range p.x {
		for _, v := range x {
			if v != 0 {
				entries++
			}
		}
	}
	return float64(pl.law.points()) * (1 + float64(entries)/float64(p.dim))
}

// losses returns the losses of all points, those of one squared norm together in the order of
// visits, and the least. It fails if ctx ends.
func (pl *Plan) losses(ctx context.Context, p *Problem) (losses [][]int32, least int32, err error) {
	pr := pl.law
	losses, at := make([][]int32, len(pr.sqs)), make(map[int]int, len(pr.sqs))
	for i, q := range pr.sqs {
		losses[i], at[q] = make([]int32, 0, pr.counts[i]), i
	}
	s, visits := newScan(p, true), 0
	least = math.MaxInt32
	s.all(func(sq int) bool {
		i := at[sq]
		losses[i] = append(losses[i], s.loss)
		least = min(least, s.loss)
		visits++
		return visits&0xfff != 0 || ctx.Err() == nil
	})
	if ctx.Err() != nil {
		return nil, 0, interrupted(ctx)
	}
	return losses, least, nil
}

// visit draws a point by the losses of all points: a try draws one from π and accepts it with
// probability e^{−(L − min L)/c}.
func (pl *Plan) visit(ctx context.Context, p *Problem, src noise.Source) ([]int, error) {
	losses, least, err := pl.losses(ctx, p)
	if err != nil {
		return nil, err
	}
	return pl.tries(ctx, src, math.MaxInt, func() []int {
		i, rank := pl.law.point(src)
		if !pl.accepts(ctx, int64(losses[i][rank]-least), src) {
			return nil
		}
		return pl.find(p, pl.law.sqs[i], rank)
	})
}

// find visits the points again, without their losses, up to the one of the given squared norm and
// rank.
func (pl *Plan) find(p *Problem, sq int, rank uint64) (w []int) {
	s := newScan(p, false)
	s.all(func(q int) bool {
		if q != sq {
			return true
		}
		if rank == 0 {
			w = slices.Clone(s.w)
			return false
		}
		rank--
		return true
	})
	return w
}
