// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package erm

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/kernel"
	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/loss"
)

// AccurateGrad stores ∇f(x) in dst, computed in double-double and rounded, and returns a bound on
// its error before that rounding. It is the gradient that Residual measures. Not private.
func (o *Objective) AccurateGrad(dst, x []float64) (allowance float64) {
	s := o.s()
	s.check(dst, x)
	hi, lo, allowance := s.pairGrad(x, nil)
	floats.AddTo(dst, hi, lo)
	return allowance
}

// pairGrad returns ∇f(x+low) as hi + lo and the allowance for its error, for |lowⱼ| ≤ u|xⱼ|(1+u); a
// nil low is 0. Plain dot products with low lose k·u·‖a‖‖low‖, less than the allowance includes for
// those with x.
func (s *objective) pairGrad(x, low []float64) (hi, lo []float64, allowance float64) {
	p := s.sum(askPair, x, low)
	hi, lo = slices.Clone(p.grad), slices.Clone(p.gradLow)
	allowance = p.allow
	s.done(p)
	allowance += 0x1p-100 * floats.Norm(hi, 2) // the rounding of exact sums
	for j, b := range s.linear {
		hi[j], lo[j] = num.Add2(hi[j], lo[j], b, 0)
	}
	allowance += 96 * unit * unit * floats.Norm(s.linear, 2)
	if s.diag != nil || s.quad != nil {
		allowance += s.addQuad2(hi, lo, x, low)
	}
	return hi, lo, allowance
}

// pairBlock is the number of records whose terms kernel.AddMulVec2 adds before it adds their sum to
// the sum of the grain.
const pairBlock = 32

// rounding bounds the error of a sum over g = q.grain ≥ 512 records, relative to the sum of the
// sizes of its terms (docs/theory/numerics.md#numerics.dot). The bound also holds for fewer
// records.
func (q *query) rounding() float64 { return 6 * float64(max(q.grain, grain)+16) * unit * unit }

// pairLinear adds Σ φ′(⟨aᵢ,x+low⟩;bᵢ)aᵢ over the records in [lo, hi) to p.grad + p.low and returns
// the allowance for the error.
func (q *query) pairLinear(p *partial, r *records, lo, hi int) (allowance float64) {
	least, rounding := 0.0, q.rounding() // least: underflow in units of tiny
	for lo < hi {
		m := min(q.block(r, lo, hi), pairBlock)
		s, at := r.at(lo)
		w, wl := p.u[:m], p.curves[:m]
		low, y := p.weights[:m], s.y[at:at+m]
		norms := s.norm[at : at+m]
		weights := s.weights(at, m)
		r.mul2(w, wl, s, at, q.x)
		if q.low != nil {
			r.mul(low, s, at, q.low, q.stream)
			for i, v := range low {
				w[i], wl[i] = num.TwoSum(w[i], wl[i]+v)
			}
		}
		for i, u := range w {
			norm, ul := norms[i], wl[i]
			weight := 1.0
			if weights != nil {
				weight = weights[i]
			}
			w[i], wl[i] = 0, 0
			if norm == 0 {
				continue
			}
			if q.short && norm < 0x1p-500 { // sup φ″ may overflow, but ‖∇ℓ‖ does not
				if c := q.loss.Constants(loss.Bounds{Row: norm, Label: q.bounds.Label}, q.normX); c.Lipschitz > 0 {
					allowance += weight * c.Lipschitz
					continue
				}
			}
			if !(math.Abs(u) <= math.MaxFloat64) || math.IsNaN(ul) {
				return math.Inf(1)
			}
			var e, curve float64
			w[i], wl[i], e, curve = q.slope2(u, ul, y[i], norm)
			bend := q.bend(norm)
			if math.IsInf(bend, 1) {
				bend = norm * curve
			}
			_, a := r.in(s, at+i)
			k := float64(len(a) + 4)
			if weights != nil {
				w[i], wl[i] = num.Mul2(w[i], wl[i], weight, 0)
				allowance += 8*unit*unit*norm*math.Abs(w[i]) + norm*rounding*math.Abs(w[i]) +
					weight*(norm*e+bend*(k*k*unit*unit*norm*q.normX))
				least += (bend + 4) * k
				continue
			}
			allowance += norm*(e+rounding*math.Abs(w[i])) + bend*(k*k*unit*unit*norm*q.normX)
			least += (bend + 4) * k
		}
		r.addMul2(p.grad, p.low, s, at, w, wl)
		lo += m
	}
	return allowance + least*tiny
}

// squaredSlope is u+ul − b in double-double.
var squaredSlope = loss.Exact(loss.Squared{})

// slope2 returns φ′(u+ul;b) as hi + lo, a bound on its error, and φ″ if sup φ″ is not known.
func (s *costs) slope2(u, ul, b, norm float64) (hi, lo, err, curve float64) {
	if s.lsq != 0 { // c(u−b)
		hi, lo, _ = squaredSlope(u, ul, b, norm)
		hi, lo = num.Mul2(hi, lo, s.lsq, 0)
		return hi, lo, 16*unit*unit*math.Abs(hi) + 4*tiny, s.lsq
	}
	if s.exact != nil {
		hi, lo, err = s.exact(u, ul, b, norm)
		return hi, lo, err, 0
	}
	_, hi, curve = s.glm.Scalar(u, b, norm)
	size := s.bend(norm) / norm
	if math.IsInf(s.curve, 1) {
		size = curve
	}
	return hi, 0, allowSlope*(math.Abs(hi)+size*math.Abs(u)) + tiny, curve
}

// pairGeneral adds Σ ∇ℓ(x;aᵢ,bᵢ) over the records in [from, to) to p.grad + p.low and returns the
// allowance for the error.
func (q *query) pairGeneral(p *partial, r *records, from, to int) (allowance float64) {
	for i := from; i < to; i++ {
		q.loss.Grad(p.g, q.x, r.row(i, p.scratch), r.label(i))
		w := r.weight(i)
		kernel.AddMulVec2(p.grad, p.low, p.g, []float64{w}, []float64{0})
		allowance += w * (allowGrad + q.rounding()) * floats.Norm(p.g, 2)
	}
	return allowance
}

// addQuad2 adds Q(x+low−θ̃) to hi + lo and returns the allowance for the error. The second part of
// the allowance matters if Q(x−θ̃) is much smaller than ‖Q‖‖x−θ̃‖. It covers the error of Dot2, for
// every row the same multiple of ‖qᵢ‖‖x−θ̃‖, and the rounding of d products with the errors of
// x−θ̃.
func (s *objective) addQuad2(hi, lo, x, low []float64) (allowance float64) {
	d := len(x)
	y, e := make([]float64, d), make([]float64, d) // x−θ̃ = y + e exactly
	copy(y, x)
	for j, c := range s.center {
		y[j], e[j] = num.TwoSum(x[j], -c)
	}
	if low != nil {
		floats.Add(e, low)
	}
	qy := make([]float64, d)
	for i := range d {
		var h, l float64
		if s.diag != nil {
			h, l = num.TwoProd(s.diag[i], y[i])
			l += s.diag[i] * e[i]
		} else {
			row := s.quad[i*d : (i+1)*d]
			h, l = kernel.Dot2(row, y)
			l += floats.Dot(row, e)
		}
		qy[i] = h + l
		hi[i], lo[i] = num.Add2(hi[i], lo[i], h, l)
	}
	size := floats.Norm(s.diag, 2) + floats.Norm(s.quad, 2) // ‖Q‖_F: one is empty
	k := float64(d + 4)
	return 96*unit*unit*floats.Norm(qy, 2) + 4*k*k*unit*size*(unit*floats.Norm(y, 2)+floats.Norm(low, 2)) + 4*k*k*tiny
}
