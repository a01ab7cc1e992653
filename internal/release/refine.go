// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"math"

	"gonum.org/v1/gonum/mat"

	"github.com/privopt/privopt/internal/num"
)

const (
	refinements = 50   // most evaluations of the gradient in refine
	refineDim   = 2000 // the largest dimension in which a Hessian is worth its memory
)

// refine runs Newton's method on the free coordinates, with gradients and points as pairs: with hⱼ
// the element of smallest size of ∂J in coordinate j, F the coordinates where J is differentiable
// or hⱼ ≠ 0, and H = ∇²f + ∇²g on F,
//
//	(x + low)_F ← (x + low)_F − tH⁻¹h_F,   t = 1, ½, ¼, …
//
// A coordinate that would cross a kink or a bound of g stops there. It needs no proof, as a
// certificate decides.
func (s *solver) refine() error {
	d := len(s.start)
	if s.pairs == nil || d > refineDim {
		return nil
	}
	at := newPair(s, s.best.x)
	if s.improve(at.point) {
		return nil
	}
	hess, held := new(mat.SymDense), false
	for range refinements {
		if err := s.ended(); err != nil {
			return err
		}
		if !held {
			s.obj.Hessian(hess, at.x)
		}
		step, ok := at.newton(hess)
		if !ok {
			return nil
		}
		next, found := at, false
		for t := 1.0; t >= 0x1p-8 && !found; t /= 2 {
			next = at.move(step, t)
			s.count()
			found = next.residual < at.residual
		}
		if !found {
			return nil
		}
		held = next.residual < at.residual/16
		at = next
		if s.improve(at.point) {
			return nil
		}
	}
	return nil
}

// pair is a point x + low with ∇f there, a pair too.
type pair struct {
	s *solver
	point
	grad, gradLow []float64
}

// zero returns the origin.
func (s *solver) zero() pair {
	d := len(s.start)
	return pair{s: s, point: point{x: make([]float64, d), low: make([]float64, d)}}
}

// newPair returns the pair of prox_γg(x), γ tiny: x itself where it is in the domain of g.
func newPair(s *solver, x []float64) pair {
	q := s.zero()
	for j := range x {
		_, _, lo, hi := s.pairs.Coordinate(j)
		q.x[j] = min(max(x[j], lo), hi)
	}
	q.measure()
	return q
}

// measure computes gradient and residual.
func (q *pair) measure() {
	q.grad, q.gradLow = make([]float64, len(q.x)), make([]float64, len(q.x))
	q.residual = q.s.obj.ResidualPair(q.grad, q.gradLow, q.x, q.low)
}

// at returns coordinate j of the point and of ∇f.
func (q *pair) at(j int) (x, v num.Pair) {
	return num.Pair{Hi: q.x[j], Lo: q.low[j]}, num.Pair{Hi: q.grad[j], Lo: q.gradLow[j]}
}

// newton returns −H⁻¹h on the free coordinates and 0 elsewhere, and whether H is positive definite.
func (q *pair) newton(hess *mat.SymDense) (step []float64, ok bool) {
	step = make([]float64, len(q.x))
	var free []int
	var h []float64
	for j := range q.x {
		x, v := q.at(j)
		w, smooth := num.NewPiece(q.s.pairs.Coordinate(j)).Steepest(x, v)
		if math.IsInf(w, 0) || math.IsNaN(w) {
			return nil, false
		}
		if smooth || w != 0 {
			free, h = append(free, j), append(h, w)
		}
	}
	if len(free) == 0 {
		return nil, false
	}
	part := mat.NewSymDense(len(free), nil)
	for a, i := range free {
		for b, j := range free[a:] {
			part.SetSym(a, a+b, hess.At(i, j))
		}
		_, l2, _, _ := q.s.pairs.Coordinate(i)
		part.SetSym(a, a, part.At(a, a)+l2)
	}
	var chol mat.Cholesky
	if !chol.Factorize(part) {
		return nil, false
	}
	sol := mat.NewVecDense(len(free), h)
	if chol.SolveVecTo(sol, sol) != nil {
		return nil, false
	}
	for a, j := range free {
		step[j] = -sol.AtVec(a)
	}
	return step, true
}

// move returns the point that is t times step away, but no coordinate beyond a kink or bound of g.
func (q *pair) move(step []float64, t float64) pair {
	next := q.s.zero()
	for j := range q.x {
		x, _ := q.at(j)
		l1, _, lo, hi := q.s.pairs.Coordinate(j)
		y := x
		if step[j] != 0 {
			y = x.Plus(num.Pair{Hi: t * step[j]})
		}
		switch {
		case l1 > 0 && x.Hi != 0 && y.Hi*x.Hi <= 0:
			y = num.Pair{}
		case y.Compare(lo) < 0:
			y = num.Pair{Hi: lo}
		case y.Compare(hi) > 0:
			y = num.Pair{Hi: hi}
		}
		next.x[j], next.low[j] = y.Hi, y.Lo
	}
	next.measure()
	return next
}
