// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"
	"sync"

	"github.com/privopt/privopt/internal/num"
)

// ulp is the unit roundoff u = 2⁻⁵³ of float64: fl(a∘b) = (a∘b)(1+t), |t| ≤ u.
const ulp = 0x1p-53

// ssq accumulates the Euclidean norm of numbers of at least 0.
type ssq struct {
	sum, max float64
	n        int
}

func (s *ssq) add(t float64) {
	s.sum += t * t
	s.max = max(s.max, t)
	s.n++
}

// norm returns the norm, its upper bound √n·max where the squares leave the
// range of float64, and +Inf if a number was NaN.
func (s *ssq) norm() float64 {
	switch {
	case math.IsNaN(s.sum):
		return math.Inf(1)
	case s.sum < 0x1p-900 || s.sum > 0x1p1000:
		return math.Sqrt(float64(s.n)) * s.max
	}
	return math.Sqrt(s.sum)
}

// overCoordinates returns the norm of the numbers gap(x_i, v_i), each of at least 0.
func overCoordinates(x, v []float64, gap func(i int, xi, vi float64) float64) float64 {
	sameLen(x, v)
	var d ssq
	for i, xi := range x {
		d.add(gap(i, xi, v[i]))
	}
	return d.norm()
}

// sumAbs returns Σ|x_i| as if computed in twice the working precision: the relative error is at
// most 2u for n ≤ 2⁴⁰ [ORO05, Prop. 4.5].
func sumAbs(x []float64) float64 {
	var s, c, e float64
	for _, xi := range x {
		s, e = num.TwoSum(s, math.Abs(xi))
		c += e
	}
	return s + c
}

// norm2 returns ‖x‖₂ with relative error at most 3u: squares and their sum are
// carried in twice the working precision [ORO05, Prop. 5.5] after scaling by a
// power of two that rules out overflow, and squares that underflow are
// negligible beside the largest. +Inf if x is not finite, NaN if it has a NaN.
func norm2(x []float64) float64 {
	big := supAbs(x)
	if big == 0 || !(big <= math.MaxFloat64) {
		return big
	}
	// 2^exp > big; scaled coordinates are in (−1, 1), the largest at least ½.
	_, exp := math.Frexp(big)
	// 2^-exp in two factors, neither out of range
	up, down := math.Ldexp(1, -exp/2), math.Ldexp(1, -exp-(-exp/2))
	var s, c, e float64
	for _, xi := range x {
		t := xi * up * down
		q := float64(t * t) // not fused with the sums
		s, e = num.TwoSum(s, q)
		c += e + math.FMA(t, t, -q) // t² = q + FMA(t, t, −q) exactly
	}
	return math.Ldexp(math.Sqrt(s+c), exp)
}

// dot returns ⟨a,x⟩ as if computed in twice the working precision, and the sum Σ|a_i x_i| that
// bounds its error: |error| ≤ u|⟨a,x⟩| + n²u²·Σ|a_i x_i| up to underflow. [ORO05, Prop. 5.5]
func dot(a, x []float64) (s, abs float64) {
	var c, e float64
	for i, ai := range a {
		q := float64(ai * x[i])
		abs += math.Abs(q)
		s, e = num.TwoSum(s, q)
		c += e + math.FMA(ai, x[i], -q)
	}
	return s + c, abs
}

// lender lends scratch slices, so that proximal maps neither allocate nor share state between
// goroutines.
type lender[T any] struct{ pool sync.Pool }

// borrow returns a slice of length n with arbitrary content, for giveBack.
func (l *lender[T]) borrow(n int) *[]T {
	p, _ := l.pool.Get().(*[]T)
	if p == nil {
		p = new([]T)
	}
	if cap(*p) < n {
		*p = make([]T, n)
	}
	*p = (*p)[:n]
	return p
}

func (l *lender[T]) giveBack(p *[]T) { l.pool.Put(p) }

var vectors lender[float64]

func borrow(n int) *[]float64 { return vectors.borrow(n) }
func giveBack(p *[]float64)   { vectors.giveBack(p) }

// sameLen panics unless a and b have the same length.
func sameLen(a, b []float64) {
	if len(a) != len(b) {
		panic(badLen)
	}
}

// number returns v, and +Inf for a NaN, which a product 0·∞ in a function value gives.
func number(v float64) float64 {
	if math.IsNaN(v) {
		return math.Inf(1)
	}
	return v
}

// poison fills dst with NaN and returns true if x is not finite, for proximal maps that mix the
// coordinates of x.
func poison(dst, x []float64) bool {
	if finite(x) {
		return false
	}
	fillNaN(dst)
	return true
}

// fillNaN sets every element of dst to NaN.
func fillNaN(dst []float64) {
	for i := range dst {
		dst[i] = math.NaN()
	}
}

// indicator returns 0 for a member of a set and +Inf for other points.
func indicator(member bool) float64 {
	if member {
		return 0
	}
	return inf
}

// rise returns the root of an increasing, concave and piecewise linear ψ with ψ(t) ≤ 0, or t if
// ψ(t) > 0, and at most top. psi returns ψ and its slope at t. Newton's method rises to the root
// and ends after finitely many steps, because every step but the last leaves a piece.
func rise(t, top float64, psi func(t float64) (value, slope float64)) float64 {
	for {
		value, slope := psi(t)
		next := min(t-value/slope, top)
		if !(next > t) {
			return t
		}
		t = next
	}
}

// waterline returns the root τ ≥ start of Σ(y_i−τ)₊ = total, with |y_i| for y_i if abs, where the
// sum at start is at least total. The root is kept below the largest y_i, because total may be
// smaller than the last digit of that y_i.
func waterline(y []float64, start, total float64, abs bool) float64 {
	top := math.Inf(-1)
	for _, yi := range y {
		if abs {
			yi = math.Abs(yi)
		}
		top = max(top, yi)
	}
	top = math.Nextafter(top, math.Inf(-1))
	return rise(min(start, top), top, func(tau float64) (value, slope float64) {
		h, low := -total, 0.0
		n := 0.0 // h + low in twice the precision, see Accuracy
		for _, yi := range y {
			if abs {
				yi = math.Abs(yi)
			}
			if yi > tau {
				var e float64
				h, e = num.TwoSum(h, yi-tau)
				low += e
				n++
			}
		}
		return -(h + low), n
	})
}
