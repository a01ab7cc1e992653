// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import "math"

// LInfNorm is g(x) = Weight·‖x‖∞. By Moreau's identity
//
//	prox_{γg}(x) = x − P_{‖u‖₁≤t}(x) = P_[−τ,τ](x),   t = γ·Weight,
//
// with τ = 0 if ‖x‖₁ ≤ t and else the root of Σ(|x_i|−τ)₊ = t. [PB14, §6.5]
//
// Clamping makes the largest coordinates of a result equal to the last bit, so
// faces are decided exactly.
type LInfNorm struct{ Weight float64 }

// supAbs returns ‖x‖∞, NaN if x has a NaN.
func supAbs(x []float64) float64 {
	big := 0.0
	for _, xi := range x {
		big = max(big, math.Abs(xi))
	}
	return big
}

// Func returns Weight·‖x‖∞.
func (g LInfNorm) Func(x []float64) float64 {
	m := supAbs(x)
	if !(m <= math.MaxFloat64) {
		return inf
	}
	return g.Weight * m
}

// Prox stores P_[−τ,τ](x_i) in dst, see LInfNorm.
func (g LInfNorm) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	t := gamma * g.Weight
	tau := 0.0
	switch n := sumAbs(x); {
	case t == 0:
		tau = inf
	case !(n <= t): // also NaN
		tau = waterline(x, 0, t, true)
	}
	for i, xi := range x {
		dst[i] = min(max(xi, -tau), tau)
	}
}

// Dist: ∂‖x‖∞ is the convex hull of sgn(x_i)e_i over the coordinates with |x_i| = ‖x‖∞, and the ℓ1
// ball at 0. With y_i = −v_i·sgn x_i on them, the point of the simplex nearest to y is (y−τ)₊,
// which leaves min(y_i, τ); the other coordinates leave v_i.
func (g LInfNorm) Dist(x, v []float64) float64 {
	sameLen(x, v)
	m := supAbs(x)
	var d ssq
	switch {
	case !(m <= math.MaxFloat64):
		return inf
	case m == 0:
		if sumAbs(v) <= g.Weight {
			return 0
		}
		tau := waterline(v, 0, g.Weight, true)
		for _, vi := range v {
			d.add(min(math.Abs(vi), tau))
		}
		return d.norm()
	}
	buf := borrow(len(x))
	defer giveBack(buf)
	y, mean := (*buf)[:0], 0.0
	for i, xi := range x {
		if math.Abs(xi) < m {
			d.add(math.Abs(v[i]))
			continue
		}
		y = append(y, math.Copysign(1, -xi)*v[i])
		mean += y[len(y)-1]
	}
	k := float64(len(y))
	tau := waterline(y, (mean-g.Weight)/k, g.Weight, false)
	for _, yi := range y {
		d.add(math.Abs(min(yi, tau)))
	}
	return d.norm()
}

func (g LInfNorm) check(int) error { return weight("LInfNorm.Weight", g.Weight) }

func (g LInfNorm) lipschitz(int) float64 { return g.Weight }
