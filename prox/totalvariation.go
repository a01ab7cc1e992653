// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/num"
)

// TotalVariation is g(x) = Weight·Σ|x_{i+1}−x_i|, the regularizer of the fused
// lasso and of piecewise constant signals.
//
// prox_{γg} is exact, in time and space O(d), by dynamic programming [Joh13]. Let φ_k(b) be the
// least cost of x_0 … x_{k-1} and of the jump to x_k = b. Its derivative is that of the quadratics
// so far, clipped to ±t, t = γ·Weight: it is increasing and piecewise linear, and x_{k-1} =
// P_[tm,tp](x_k), where tm and tp are its two clipping points. Knots leave the ends of a list that
// each step extends by one knot at each end.
//
// Coordinates that fuse are equal to the last bit, so faces are decided exactly.
type TotalVariation struct{ Weight float64 }

// Func returns Weight·Σ|x_{i+1}−x_i|.
func (g TotalVariation) Func(x []float64) float64 {
	if !finite(x) {
		return inf
	}
	sum := 0.0
	for i := 1; i < len(x); i++ {
		sum += math.Abs(x[i] - x[i-1])
	}
	return number(g.Weight * sum)
}

// Prox stores argmin_u t·Σ|u_{i+1}−u_i| + ½‖u−x‖², t = γ·Weight, in dst.
func (g TotalVariation) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	if poison(dst, x) {
		return
	}
	buf := borrow(10 * len(x))
	defer giveBack(buf)
	fuse(dst, x, gamma*g.Weight, *buf)
}

// line is the function a·b + (c + e) of b. The intercept has twice the working precision, because
// it is a sum of up to d coordinates, whose rounding would otherwise grow with d.
type line struct{ a, c, e float64 }

// at returns a·b + c + e + s.
func (l line) at(b, s float64) float64 { return l.a*b + (l.c + s) + l.e }

// plus returns l + (a·b + c + e).
func (l line) plus(a, c, e float64) line {
	s, r := num.TwoSum(l.c, c)
	return line{l.a + a, s, l.e + e + r}
}

// fuse stores the proximal map of t·Σ|u_{i+1}−u_i| at y in dst, which may be y;
// work has 10·len(y) elements.
func fuse(dst, y []float64, t float64, work []float64) {
	n := len(y)
	if n < 2 || t == 0 {
		copy(dst, y)
		return
	}
	tm, tp := work[:n], work[n:2*n]
	work = work[2*n:]
	knot, a := work[:2*n], work[2*n:4*n]
	c, e := work[4*n:6*n], work[6*n:]
	l, r := n, n-1 // knots are knot[l..r], where the derivative gains a·b + c + e
	for k := range n {
		// The derivative of the quadratics left of all knots and, with the sign
		// turned, right of them: the clipped message is −t and t there.
		lo, hi := line{1, -y[k], 0}, line{-1, y[k], 0}
		if k > 0 {
			lo, hi = lo.plus(0, -t, 0), hi.plus(0, -t, 0)
		}
		level := -t // of the derivative at tm
		if k == n-1 {
			level = 0 // the last derivative is 0 at the minimizer
		}
		i := l
		for ; i <= r && lo.at(knot[i], -level) <= 0; i++ {
			lo = lo.plus(a[i], c[i], e[i])
		}
		if k == n-1 {
			dst[k] = -lo.at(0, 0) / lo.a
			break
		}
		j := r
		for ; j >= i && hi.at(knot[j], t) <= 0; j-- {
			hi = hi.plus(a[j], c[j], e[j])
		}
		tm[k] = -lo.at(0, t) / lo.a // lo(tm) = −t
		tp[k] = -hi.at(0, t) / hi.a // −hi(tp) = t
		l, r = i-1, j+1
		lo, hi = lo.plus(0, t, 0), hi.plus(0, t, 0)
		knot[l], a[l] = tm[k], lo.a
		c[l], e[l] = lo.c, lo.e
		knot[r], a[r] = tp[k], hi.a
		c[r], e[r] = hi.c, hi.e
	}
	for k := n - 2; k >= 0; k-- {
		dst[k] = min(max(dst[k+1], tm[k]), tp[k])
	}
}

// Dist: ∂g(x) = {Dᵀu : u_i = Weight·sgn(x_{i+1}−x_i), any |u_i| ≤ Weight where
// x_{i+1} = x_i}, so the distance is a sum over the runs of equal coordinates.
// In a run, with y = −v less the pull of the jumps at its ends,
//
//	min_{|u_i|≤Weight} ‖y − Dᵀu‖ = ‖prox_g(y)‖
//
// by Moreau's identity.
func (g TotalVariation) Dist(x, v []float64) float64 { return g.asFused().Dist(x, v) }

// runs calls each with x_i and the coordinate i of prox_g(y) in its run, where y is −v minus the
// pull of the jumps. It returns false if x or v is not finite.
func (g TotalVariation) runs(x, v []float64, each func(xi, yi float64)) bool {
	if !finite(x) || !finite(v) {
		return false
	}
	buf := borrow(11 * len(x))
	defer giveBack(buf)
	y, work := (*buf)[:len(x)], (*buf)[len(x):]
	floats.ScaleTo(y, -1, v)
	for a := 0; a < len(x); {
		b := a + 1
		for b < len(x) && x[b] == x[a] {
			b++
		}
		if b < len(x) { // the jump from b−1 to b pulls both of them
			u := math.Copysign(g.Weight, x[b]-x[b-1])
			y[b-1] += u
			y[b] -= u
		}
		fuse(y[a:b], y[a:b], g.Weight, work)
		for i := a; i < b; i++ {
			each(x[i], y[i])
		}
		a = b
	}
	return true
}

func (g TotalVariation) check(int) error { return weight("TotalVariation.Weight", g.Weight) }

// lipschitz is ‖Weight·Dᵀu‖₂ for u = (1, −1, 1, …), rounded up.
func (g TotalVariation) lipschitz(dim int) float64 {
	switch {
	case dim < 2:
		return 0
	case dim == 2:
		return math.Sqrt2 * g.Weight * (1 + 4*ulp)
	}
	return math.Sqrt(float64(4*dim-6)) * g.Weight * (1 + 4*ulp)
}

// fused is s(x) + TotalVariation(x), where s is the same convex function φ of
// every coordinate: with φ = l1|·| the fused lasso.
//
// prox_{γ(s+TV)} = prox_{γs}∘prox_{γTV} [FHHT07, Yu13]. For y = prox_{γTV}(x) and p = prox_{γs}(y),
// x−y ∈ γ∂TV(y) and y−p ∈ γ∂s(p). p is a nondecreasing function of y, the same for every
// coordinate, so each jump p_{i+1}−p_i has the sign of y_{i+1}−y_i or is 0; ∂TV depends on these
// signs only and grows where one becomes 0: ∂TV(y) ⊆ ∂TV(p), and x−p ∈ γ∂TV(p) + γ∂s(p).
type fused struct {
	s  separable
	tv TotalVariation
}

func (g fused) Func(x []float64) float64 {
	return number(g.s.Func(x) + g.tv.Func(x))
}

func (g fused) Prox(dst, x []float64, gamma float64) {
	g.tv.Prox(dst, x, gamma)
	g.s.Prox(dst, dst, gamma)
}

// Dist: in a run of equal coordinates ∂φ is one interval [a, b], so with y = −v
// less the pull of the jumps at the ends of the run
//
//	min_{|w_i|≤Weight, u_i∈[a,b]} ‖y − Dᵀw − u‖ = ‖prox_{σ+TV}(y)‖
//
// by Moreau's identity, where σ(t) = Σmax(at_i, bt_i) is the support function of [a,b]: a sum as
// above, whose proximal map takes t to its distance from [a,b], signed, after that of TV.
func (g fused) Dist(x, v []float64) float64 {
	sameLen(x, v)
	for _, xi := range x {
		if !g.s.inside(xi) {
			return inf
		}
	}
	var d ssq
	if !g.tv.runs(x, v, func(xi, yi float64) { d.add(g.s.gap(xi, -yi)) }) {
		return inf
	}
	return d.norm()
}

func (g fused) check(dim int) error {
	if err := g.s.check(dim); err != nil {
		return err
	}
	return g.tv.check(dim)
}

func (g TotalVariation) asFused() fused { return fused{whole(), g} }
