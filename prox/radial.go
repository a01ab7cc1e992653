// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// radial is g(x) = s(x) + norm·‖x‖₂ + (l2/2)‖x‖₂² + ι{‖x‖₂ ≤ r}, where s has the orthant
// form l1·‖x‖₁ + ι_K(x): every lo is 0 or −∞ and every hi is 0 or +∞. With γ′ = γ/(1+γ·l2) [Yu13]
//
//	y = prox_{γs}(x)/(1+γ·l2),   p = P_{‖·‖≤r}( (1 − γ′·norm/‖y‖₂)₊ y )
//
// No float64 vector need lie on the sphere: Prox shrinks by a few units in the last place so that
// ‖p‖₂ ≤ r in real arithmetic, and a point with norm2 within r(1±32u) stands for one on the sphere,
// see Rounding. Proofs: docs/theory/numerics.md#numerics.sphere
type radial struct {
	s           separable // l1, lo, hi; its l2 is 0
	norm, l2, r float64
}

// nearSphere is the relative distance from the sphere within which a point stands for the point of
// the sphere on its ray. It costs accuracy, not safety, because Shift reports the distance.
const nearSphere = 32 * ulp

// onSphere reports whether x, of norm n = norm2(x), stands for a point of the
// sphere of radius r; there is no sphere of infinite radius.
func onSphere(n, r float64) bool { return math.Abs(n-r) <= nearSphere*r && r < inf }

// outside reports whether x of norm n is infinite, or beyond the sphere without standing for a
// point of it.
func outside(n, r float64) bool { return !(n <= math.MaxFloat64) || n > r && !onSphere(n, r) }

func (g radial) Func(x []float64) float64 {
	n := norm2(x)
	if outside(n, g.r) {
		return inf
	}
	return number(g.s.Func(x) + g.norm*n + g.l2/2*n*n)
}

func (g radial) Prox(dst, x []float64, gamma float64) {
	g.s.Prox(dst, x, gamma) // y = prox_{γs}(x), in dst
	ridge := 1 / (1 + gamma*g.l2)
	t := gamma * g.norm
	if ridge == 1 && t == 0 && g.r == inf {
		return
	}
	n := norm2(dst)
	c := ridge * max(0, 1-t/n) // (1−γ′·norm/‖y/(1+γl2)‖)₊ = (1−γ·norm/n)₊
	if n == 0 || n <= t {
		c = 0
	}
	if math.IsNaN(n) {
		c = n
	}
	if !(c*n <= g.r*(1-6*ulp)) && !math.IsNaN(n) {
		c = g.r / n * (1 - 16*ulp)
	}
	if c == 1 {
		return
	}
	floats.Scale(c, dst)
}

// Dist: ∂g(x′) = ∂s(x′) + {c·x′}, where c = norm/‖x′‖ + l2 inside the ball and any c of at least
// this size on the sphere, and ∂g(0) = ∂s(0) + {‖u‖₂ ≤ norm}. A coordinate with x_i ≠ 0 has the
// single element w_i = v_i + l1·sgn x_i plus c·x_i, and the other coordinates do not depend on c.
// So the best c on the sphere is the larger of its bound and −⟨w,x′⟩/Σx′_i².
func (g radial) Dist(x, v []float64) float64 {
	sameLen(x, v)
	n := norm2(x)
	if outside(n, g.r) {
		return inf
	}
	if n == 0 {
		if g.r == 0 && g.s.Func(x) == 0 { // C = {0}: the normal cone is everything
			return 0
		}
		return max(g.s.Dist(x, v)-g.norm, 0)
	}
	c := g.norm/n + g.l2
	if onSphere(n, g.r) {
		c = g.norm/g.r + g.l2
		wx := 0.0
		for i, xi := range x {
			wx += (v[i] + math.Copysign(g.s.l1, xi)) * (xi / n)
		}
		// x′ = (r/n)x, so c·x′_i = (c·r)(x_i/n).
		k := max(c*g.r, -wx)
		return overCoordinates(x, v, func(_ int, xi, vi float64) float64 { return g.s.gap(xi, vi+k*(xi/n)) })
	}
	return overCoordinates(x, v, func(_ int, xi, vi float64) float64 { return g.s.gap(xi, vi+c*xi) })
}

// shift returns |‖x‖₂−r| plus the rounding of the norm for a point near the sphere, and 0 inside.
func (g radial) shift(x []float64) float64 { return shiftToSphere(norm2(x), g.r) }

// shiftToSphere is the Shift of a point whose norm was computed as n, in a ball of radius r.
func shiftToSphere(n, r float64) float64 {
	switch {
	case outside(n, r):
		return inf
	case n > 0 && onSphere(n, r):
		return math.Abs(n-r) + 4*ulp*r
	}
	return 0
}

func (g radial) check(dim int) error {
	if err := g.s.check(dim); err != nil {
		return err
	}
	if err := weight("ℓ2 norm weight", g.norm); err != nil {
		return err
	}
	if err := weight("squared ℓ2 weight", g.l2); err != nil {
		return err
	}
	return radius("radius", g.r)
}

// minRadius is the least positive radius. Below it the coordinates of points of the sphere lose
// digits to underflow, and the bounds on rounding fail.
const minRadius = 0x1p-900

// radius returns an error unless r is 0 or at least minRadius; +Inf is allowed.
func radius(field string, r float64) error {
	if !(r == 0 || r >= minRadius) {
		return invalid("%s = %v, want 0 or at least %g", field, r, minRadius)
	}
	return nil
}

// validRadius returns r, and +Inf if g fails its check.
func validRadius(g checker, dim int, r float64) float64 {
	if g.check(dim) != nil {
		return inf
	}
	return r
}

// whole is the separable function 0.
func whole() separable { return separable{lo: -inf, hi: inf} }

// L2Norm is g(x) = Weight·‖x‖₂; its proximal map is block soft thresholding. [PB14, §6.5.1]
type L2Norm struct{ Weight float64 }

// L2Ball is the set {x : ‖x‖₂ ≤ R}. Projections satisfy ‖x‖₂ ≤ R in real
// arithmetic and are off the sphere by at most 22 units of 2⁻⁵³R.
type L2Ball struct{ R float64 }

func (g L2Norm) asRadial() radial { return radial{s: whole(), norm: g.Weight, r: inf} }
func (g L2Ball) asRadial() radial { return radial{s: whole(), r: g.R} }

// Func returns Weight·‖x‖₂.
func (g L2Norm) Func(x []float64) float64 { return g.asRadial().Func(x) }

// Prox stores (1 − γ·Weight/‖x‖₂)₊ x in dst.
func (g L2Norm) Prox(dst, x []float64, gamma float64) { g.asRadial().Prox(dst, x, gamma) }

// Dist returns ‖v + Weight·x/‖x‖₂‖₂, and (‖v‖₂ − Weight)₊ at 0.
func (g L2Norm) Dist(x, v []float64) float64 { return g.asRadial().Dist(x, v) }

func (g L2Norm) check(int) error { return weight("L2Norm.Weight", g.Weight) }

// Func returns 0 where ‖x‖₂ ≤ R(1+2⁻⁴⁸) and +Inf elsewhere, with the allowance of Dist.
func (g L2Ball) Func(x []float64) float64 { return g.asRadial().Func(x) }

// Prox stores min(1, R/‖x‖₂)·x in dst, rounded into the ball.
func (g L2Ball) Prox(dst, x []float64, gamma float64) { g.asRadial().Prox(dst, x, gamma) }

// Dist returns ‖v‖₂ inside, and ‖v + (q/R)x′‖₂ with q = max(0, −⟨v,x′⟩/R) at
// the point x′ = (R/‖x‖₂)x for x with ‖x‖₂ within R(1±2⁻⁴⁸).
func (g L2Ball) Dist(x, v []float64) float64 { return g.asRadial().Dist(x, v) }

// shift returns the distance to the point x′ of Dist, rounded up.
func (g L2Ball) shift(x []float64) float64 { return g.asRadial().shift(x) }

// Radius returns R, and +Inf for an invalid one.
func (g L2Ball) Radius(dim int) float64 { return validRadius(g, dim, g.R) }

func (g L2Ball) check(int) error { return radius("L2Ball.R", g.R) }
