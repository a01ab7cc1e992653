// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
)

// coordinatewise is prox.Coordinatewise without the methods of Operator, which coordinate descent
// on ψ(x) = Σᵢ l1|xᵢ| + (l2/2)xᵢ² + ι[lo,hi](xᵢ) does not need.
type coordinatewise interface {
	Coordinate(i int) (l1, l2, lo, hi float64)
}

// penalty holds the coefficients of a coordinatewise ψ.
type penalty struct {
	l1, l2, lo, hi []float64
}

// init reads the coefficients of the n coordinates of op.
func (p *penalty) init(op coordinatewise, n int) error {
	p.l1, p.l2, p.lo, p.hi = resize(p.l1, n), resize(p.l2, n), resize(p.lo, n), resize(p.hi, n)
	for i := range n {
		p.l1[i], p.l2[i], p.lo[i], p.hi[i] = op.Coordinate(i)
		if !(p.l1[i] >= 0 && p.l2[i] >= 0 && p.lo[i] <= p.hi[i]) {
			return unfit("coordinate %d of G + H has l1 = %v, l2 = %v on [%v, %v], want l1, l2 ≥ 0 on a nonempty interval", i,
				p.l1[i], p.l2[i], p.lo[i], p.hi[i])
		}
	}
	return nil
}

// clip moves x into the box.
func (p *penalty) clip(x []float64) {
	for i, v := range x {
		x[i] = clamp(v, p.lo[i], p.hi[i])
	}
}

// value returns ψ(x) for an x in the box.
func (p *penalty) value(x []float64) float64 {
	var s float64
	for i, v := range x {
		s += p.l1[i]*math.Abs(v) + 0.5*p.l2[i]*v*v
	}
	return s
}

// bounded reports whether ψⱼ*(v) is finite.
func (p *penalty) bounded(j int, v float64) bool {
	end := p.hi[j]
	if v < 0 {
		end = p.lo[j]
	}
	return p.l2[j] > 0 || math.Abs(v) <= p.l1[j] || !math.IsInf(end, 0)
}

// conjugate returns ψⱼ*(v) = sup_u uv − ψⱼ(u).
func (p *penalty) conjugate(j int, v float64) float64 {
	if !p.bounded(j, v) {
		return math.Inf(1)
	}
	u := p.top(j, v)
	return u*v - p.l1[j]*math.Abs(u) - p.l2[j]/2*u*u
}

// top returns a u that attains ψⱼ*(v) < ∞.
func (p *penalty) top(j int, v float64) float64 {
	s := soft(v, p.l1[j])
	switch {
	case s == 0:
		return clamp(0, p.lo[j], p.hi[j])
	case p.l2[j] > 0:
		return clamp(s/p.l2[j], p.lo[j], p.hi[j])
	case s > 0:
		return p.hi[j]
	}
	return p.lo[j]
}

// fenchel returns Σⱼ ψⱼ(xⱼ) + ψⱼ*(vⱼ) − xⱼvⱼ ≥ 0 for an x in the box, +Inf where a conjugate is
// infinite. With v = −∇f(x) it is a duality gap for every convex f, because f(x) + f*(∇f(x)) =
// ⟨x,∇f(x)⟩.
func (p *penalty) fenchel(x, v []float64) float64 {
	var gap float64
	for j, vj := range v {
		if !p.bounded(j, vj) {
			return math.Inf(1)
		}
		u := p.top(j, vj)
		// (u−x)(v − l2(u+x)/2) − l1(|u|−|x|), no cancellation for u = x
		gap += math.Max(0, (u-x[j])*(vj-p.l2[j]/2*(u+x[j]))-p.l1[j]*(math.Abs(u)-math.Abs(x[j])))
	}
	return gap
}

// walk moves the free coordinates x_A by αδ with the largest α ≤ 1 that stays on their piece of ψ,
// and reports whether α = 1.
func (p *penalty) walk(x []float64, active []int, delta []float64) (full bool) {
	alpha, block := 1.0, -1
	at := 0.0
	for k, i := range active {
		end := p.hi[i] // where δ leaves the piece
		if delta[k] < 0 {
			end = p.lo[i]
		}
		if p.l1[i] > 0 && x[i]*delta[k] < 0 {
			if x[i] > 0 {
				end = math.Max(end, 0)
			} else {
				end = math.Min(end, 0)
			}
		}
		if room := end - x[i]; math.Abs(room) < alpha*math.Abs(delta[k]) {
			alpha, block = room/delta[k], k
			at = end
		}
	}
	for k, i := range active {
		x[i] = clamp(x[i]+alpha*delta[k], p.lo[i], p.hi[i])
		if k == block {
			x[i] = at
		}
	}
	return block < 0
}

// prox stores prox_{γψ}(x) in dst, which may be x.
func (p *penalty) prox(dst, x []float64, gamma float64) {
	for i, v := range x {
		dst[i] = clamp(soft(v, gamma*p.l1[i])/(1+gamma*p.l2[i]), p.lo[i], p.hi[i])
	}
}

// The pieces of ψ on one coordinate. The piece is exact, because steps set a coordinate to a kink
// or a bound exactly.
const (
	unseen   int8 = iota
	negative      // x < 0 inside the box
	kink          // x = 0 and l1 > 0
	positive      // x > 0 inside the box, or x = 0 and l1 = 0
	fixed         // at lo or hi
)

// slope returns the derivative of ψ on the piece of a free x.
func (p *penalty) slope(i int, x float64) float64 {
	switch {
	case x > 0:
		return p.l1[i] + p.l2[i]*x
	case x < 0:
		return p.l2[i]*x - p.l1[i]
	}
	return 0
}

// along returns the minimizer of J along eⱼ from x, where ∂f/∂xⱼ = g and ∂²f/∂xⱼ² = h. It returns x
// where J is constant.
func (p *penalty) along(j int, x, g, h float64) float64 {
	u, l1 := x*h-g, p.l1[j] // u = −∂f/∂xⱼ at xⱼ = 0
	switch h += p.l2[j]; {
	case h > 0:
		return clamp(soft(u, l1)/h, p.lo[j], p.hi[j])
	case u > l1: // J is affine along eⱼ, on either side of 0
		return p.hi[j]
	case u < -l1:
		return p.lo[j]
	case l1 > 0 && u == u:
		return clamp(0, p.lo[j], p.hi[j])
	}
	return x
}

// dist returns dist(−v, ∂ψ(x)), updates pieces, and reports whether no piece has changed:
//
//	∂ψ(xᵢ) = l2·xᵢ + [a, b],  a = b = l1·sgn xᵢ, [−l1, l1] at 0,
//	a = −∞ at lo, b = +∞ at hi;   entry max(a + v, −v − b, 0)
func (p *penalty) dist(x, v []float64, pieces []int8) (dist float64, same bool) {
	var s float64
	same = true
	for i, xi := range x {
		e, now := p.distAlong(i, xi, v[i])
		s += e * e
		if pieces[i] != now {
			pieces[i], same = now, false
		}
	}
	if s < 0x1p-900 || s > 0x1p900 { // squares under- or overflow
		s = 0
		for i, xi := range x {
			e, _ := p.distAlong(i, xi, v[i])
			s = math.Hypot(s, e)
		}
		return s, same
	}
	return math.Sqrt(s), same
}

// distAlong returns the entry of dist for one coordinate, up to its sign, and the piece of x.
func (p *penalty) distAlong(i int, x, v float64) (e float64, piece int8) {
	l1 := p.l1[i]
	v += p.l2[i] * x
	switch {
	case x > 0:
		e, piece = v+l1, positive
	case x < 0:
		e, piece = v-l1, negative
	default:
		if e = soft(v, l1); l1 > 0 {
			piece = kink
		} else {
			piece = positive
		}
	}
	if x == p.lo[i] {
		e, piece = math.Min(e, 0), fixed
	}
	if x == p.hi[i] {
		e, piece = math.Max(e, 0), fixed
	}
	return e, piece
}

// soft returns sgn(u)·max(|u| − t, 0); NaN stays NaN.
func soft(u, t float64) float64 {
	switch {
	case u > t:
		return u - t
	case u < -t:
		return u + t
	case u != u:
		return u
	}
	return 0
}

// clamp returns the point of [lo, hi] nearest to v; NaN stays NaN.
func clamp(v, lo, hi float64) float64 { return min(max(v, lo), hi) }
