// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"
)

// separable is the common form of the coordinatewise operators,
//
//	g(x) = Σ_i l1|x_i| + (l2/2)x_i² + ι_[lo,hi](x_i).
//
// The minimizer of a convex function of one variable over an interval is the
// point of the interval nearest to its minimizer over ℝ, so per coordinate
//
//	prox_{γg}(x) = P_[lo,hi]( S_{γ·l1}(x) / (1+γ·l2) ),   S_t(x) = x − P_[−t,t](x)
//
// [BC17, Prop. 24.47; PB14, §6.5.2], and the result is in [lo,hi] exactly.
type separable struct{ l1, l2, lo, hi float64 }

// inside reports whether xi is a finite point of [lo,hi].
func (g separable) inside(xi float64) bool {
	return g.lo <= xi && xi <= g.hi && !math.IsInf(xi, 0)
}

func (g separable) Func(x []float64) float64 {
	sum := 0.0
	for _, xi := range x {
		if !g.inside(xi) {
			return math.Inf(1)
		}
		sum += g.l1*math.Abs(xi) + g.l2/2*xi*xi
	}
	return sum
}

func (g separable) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	t, s := gamma*g.l1, 1/(1+gamma*g.l2)
	for i, xi := range x {
		u := s * (xi - min(max(xi, -t), t)) // u = S_{γl1}(x)/(1+γl2)
		dst[i] = min(max(u, g.lo), g.hi)    // P_[lo,hi](u)
	}
}

// Dist: a float64 equals lo, hi or 0 exactly or not at all, so the faces of
// this function are decided without rounding.
func (g separable) Dist(x, v []float64) float64 {
	sameLen(x, v)
	var d ssq
	for i, xi := range x {
		d.add(g.gap(xi, v[i]))
	}
	return d.norm()
}

// gap returns dist(−v, ∂g(x)) for one coordinate: ∂g(x) is the interval l2·x + [a,b].
func (g separable) gap(x, v float64) float64 {
	if !g.inside(x) {
		return math.Inf(1)
	}
	a, b := -g.l1, g.l1 // l1·∂|x| at 0
	switch {
	case x > 0:
		a = g.l1
	case x < 0:
		b = -g.l1
	}
	if x == g.lo { // the normal cone at lo is (−∞, 0]
		a = math.Inf(-1)
	}
	if x == g.hi { // and [0, ∞) at hi
		b = math.Inf(1)
	}
	v += g.l2 * x
	return max(v+a, -v-b, 0)
}

func (g separable) Coordinate(int) (l1, l2, lo, hi float64) { return g.l1, g.l2, g.lo, g.hi }

func (g separable) check(int) error {
	if err := weight("ℓ1 weight", g.l1); err != nil {
		return err
	}
	if err := weight("squared ℓ2 weight", g.l2); err != nil {
		return err
	}
	return interval(g.lo, g.hi)
}

// interval returns an error unless [lo,hi] contains a number.
func interval(lo, hi float64) error {
	if !(lo <= hi) || math.IsInf(lo, 1) || math.IsInf(hi, -1) {
		return invalid("Lo = %v, Hi = %v, want Lo <= Hi with a number between them", lo, hi)
	}
	return nil
}

// L1 is g(x) = Weight·‖x‖₁; its proximal map is soft thresholding. [PB14, §6.5.2]
type L1 struct{ Weight float64 }

// SquaredL2 is g(x) = (Weight/2)‖x‖₂²; prox_{γg}(x) = x/(1+γ·Weight).
type SquaredL2 struct{ Weight float64 }

// ElasticNet is g(x) = L1·‖x‖₁ + (L2/2)‖x‖₂². [PB14, §6.5.3]
type ElasticNet struct{ L1, L2 float64 }

// NonNegative is the set {x : x_i ≥ 0}.
type NonNegative struct{}

// Box is the set {x : Lo ≤ x_i ≤ Hi}; a bound may be infinite. The zero value is the set {0}.
type Box struct{ Lo, Hi float64 }

// L1Box is g(x) = Weight·‖x‖₁ + ι_[Lo,Hi]ᵈ(x), the regularizer and the
// constraint of the lasso in a box; a bound may be infinite.
type L1Box struct{ Weight, Lo, Hi float64 }

var inf = math.Inf(1)

func (g L1) asSeparable() separable          { return separable{g.Weight, 0, -inf, inf} }
func (g SquaredL2) asSeparable() separable   { return separable{0, g.Weight, -inf, inf} }
func (g ElasticNet) asSeparable() separable  { return separable{g.L1, g.L2, -inf, inf} }
func (g NonNegative) asSeparable() separable { return separable{0, 0, 0, inf} }
func (g Box) asSeparable() separable         { return separable{0, 0, g.Lo, g.Hi} }
func (g L1Box) asSeparable() separable       { return separable{g.Weight, 0, g.Lo, g.Hi} }

// Func returns Weight·‖x‖₁.
func (g L1) Func(x []float64) float64 { return g.asSeparable().Func(x) }

// Prox stores x_i − P_[−t,t](x_i), t = γ·Weight, in dst.
func (g L1) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	t := gamma * g.Weight
	for i, xi := range x {
		dst[i] = xi - min(max(xi, -t), t)
	}
}

// Dist returns dist(−v, Weight·∂‖x‖₁).
func (g L1) Dist(x, v []float64) float64 { return g.asSeparable().Dist(x, v) }

// Coordinate returns (Weight, 0, −∞, ∞).
func (g L1) Coordinate(i int) (l1, l2, lo, hi float64) { return g.asSeparable().Coordinate(i) }

func (g L1) check(int) error { return weight("L1.Weight", g.Weight) }

// Func returns (Weight/2)‖x‖₂².
func (g SquaredL2) Func(x []float64) float64 { return g.asSeparable().Func(x) }

// Prox stores x/(1+γ·Weight) in dst.
func (g SquaredL2) Prox(dst, x []float64, gamma float64) { g.asSeparable().Prox(dst, x, gamma) }

// Dist returns ‖v + Weight·x‖₂.
func (g SquaredL2) Dist(x, v []float64) float64 { return g.asSeparable().Dist(x, v) }

// Coordinate returns (0, Weight, −∞, ∞).
func (g SquaredL2) Coordinate(i int) (l1, l2, lo, hi float64) { return g.asSeparable().Coordinate(i) }

func (g SquaredL2) check(int) error { return weight("SquaredL2.Weight", g.Weight) }

// Func returns L1·‖x‖₁ + (L2/2)‖x‖₂².
func (g ElasticNet) Func(x []float64) float64 { return g.asSeparable().Func(x) }

// Prox stores S_{γ·L1}(x)/(1+γ·L2) in dst, S_t soft thresholding at t.
func (g ElasticNet) Prox(dst, x []float64, gamma float64) { g.asSeparable().Prox(dst, x, gamma) }

// Dist returns dist(−v, L1·∂‖x‖₁ + L2·x).
func (g ElasticNet) Dist(x, v []float64) float64 { return g.asSeparable().Dist(x, v) }

// Coordinate returns (L1, L2, −∞, ∞).
func (g ElasticNet) Coordinate(i int) (l1, l2, lo, hi float64) { return g.asSeparable().Coordinate(i) }

func (g ElasticNet) check(int) error {
	if err := weight("ElasticNet.L1", g.L1); err != nil {
		return err
	}
	return weight("ElasticNet.L2", g.L2)
}

// Func returns 0 where every x_i ≥ 0 and +Inf elsewhere.
func (g NonNegative) Func(x []float64) float64 { return g.asSeparable().Func(x) }

// Prox stores max(x_i, 0) in dst.
func (g NonNegative) Prox(dst, x []float64, gamma float64) { g.asSeparable().Prox(dst, x, gamma) }

// Dist returns dist(−v, N(x)): |v_i| where x_i > 0 and max(−v_i, 0) where x_i = 0.
func (g NonNegative) Dist(x, v []float64) float64 { return g.asSeparable().Dist(x, v) }

// Coordinate returns (0, 0, 0, ∞).
func (g NonNegative) Coordinate(i int) (l1, l2, lo, hi float64) { return g.asSeparable().Coordinate(i) }

// Radius returns +Inf.
func (g NonNegative) Radius(int) float64 { return inf }

func (g NonNegative) check(int) error { return nil }

// Func returns 0 where Lo ≤ x_i ≤ Hi for every i and +Inf elsewhere, decided exactly.
func (g Box) Func(x []float64) float64 { return g.asSeparable().Func(x) }

// Prox stores P_[Lo,Hi](x_i) in dst, exactly.
func (g Box) Prox(dst, x []float64, _ float64) {
	sameLen(dst, x)
	for i, xi := range x {
		dst[i] = min(max(xi, g.Lo), g.Hi)
	}
}

// Dist returns dist(−v, N(x)), where N_i is (−∞,0] at Lo, [0,∞) at Hi and {0} between them.
func (g Box) Dist(x, v []float64) float64 { return g.asSeparable().Dist(x, v) }

// Coordinate returns (0, 0, Lo, Hi).
func (g Box) Coordinate(i int) (l1, l2, lo, hi float64) { return g.asSeparable().Coordinate(i) }

// Radius returns √dim·max(|Lo|,|Hi|), rounded up; +Inf also for an invalid box.
func (g Box) Radius(dim int) float64 {
	if g.check(dim) != nil {
		return inf
	}
	r := max(math.Abs(g.Lo), math.Abs(g.Hi))
	if r == 0 || dim <= 0 {
		return 0
	}
	return math.Nextafter(math.Sqrt(float64(dim))*r*(1+4*ulp), inf)
}

func (g Box) check(int) error { return interval(g.Lo, g.Hi) }

// Func returns Weight·‖x‖₁ inside the box and +Inf outside.
func (g L1Box) Func(x []float64) float64 { return g.asSeparable().Func(x) }

// Prox stores P_[Lo,Hi](S_{γ·Weight}(x_i)) in dst, S_t soft thresholding at t.
func (g L1Box) Prox(dst, x []float64, gamma float64) { g.asSeparable().Prox(dst, x, gamma) }

// Dist returns dist(−v, Weight·∂‖x‖₁ + N(x)).
func (g L1Box) Dist(x, v []float64) float64 { return g.asSeparable().Dist(x, v) }

// Coordinate returns (Weight, 0, Lo, Hi).
func (g L1Box) Coordinate(i int) (l1, l2, lo, hi float64) { return g.asSeparable().Coordinate(i) }

func (g L1Box) check(int) error {
	if err := weight("L1Box.Weight", g.Weight); err != nil {
		return err
	}
	return interval(g.Lo, g.Hi)
}
