// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

// Bounds is the set {x : Lo_i ≤ x_i ≤ Hi_i}. A bound may be infinite, and a nil slice means none.
// The caller must not change the slices.
type Bounds struct{ Lo, Hi []float64 }

// WeightedL1 is g(x) = Σ Weights_i·|x_i| with Weights_i ≥ 0, the ℓ1 norm that leaves some
// coordinates free or penalizes them less. The caller must not change Weights.
type WeightedL1 struct{ Weights []float64 }

// Linear is g(x) = ⟨C,x⟩; prox_{γg}(x) = x − γC. The caller must not change C.
type Linear struct{ C []float64 }

// Pinball is g(x) = Σ Tau·max(x_i, 0) + (1−Tau)·max(−x_i, 0), 0 ≤ Tau ≤ 1. With Translate by y it
// is the loss of a regression Kx for the quantile 1−Tau of y [KB78]. With t = γTau and s =
// γ(1−Tau), prox_{γg}(x) = x − P_[−s,t](x).
type Pinball struct{ Tau float64 }

func (g Bounds) at(i int) separable {
	s := whole()
	if g.Lo != nil {
		s.lo = entry(g.Lo, i)
	}
	if g.Hi != nil {
		s.hi = entry(g.Hi, i)
	}
	return s
}

// Func returns 0 where Lo_i ≤ x_i ≤ Hi_i for every i and +Inf elsewhere, decided exactly.
func (g Bounds) Func(x []float64) float64 { return valueOf(g, x) }

// Prox stores P_[Lo_i,Hi_i](x_i) in dst, exactly.
func (g Bounds) Prox(dst, x []float64, gamma float64) { proxOf(g, dst, x, gamma) }

// Dist returns dist(−v, N(x)), as for Box.
func (g Bounds) Dist(x, v []float64) float64 { return distOf(g, x, v) }

// Coordinate returns (0, 0, Lo_i, Hi_i).
func (g Bounds) Coordinate(i int) (l1, l2, lo, hi float64) { return g.at(i).Coordinate(i) }

// Radius returns (Σ max(Lo_i², Hi_i²))^½, rounded up; +Inf also for invalid bounds.
func (g Bounds) Radius(dim int) float64 { return validRadius(g, dim, g.radius(dim)) }

func (g Bounds) radius(dim int) float64 {
	var d ssq
	for i := range dim {
		if i >= len(g.Lo) || i >= len(g.Hi) {
			return inf
		}
		d.add(max(math.Abs(g.Lo[i]), math.Abs(g.Hi[i])))
	}
	return d.norm() * (1 + float64(dim+4)*2*ulp)
}

func (g Bounds) check(dim int) error {
	for name, bound := range map[string][]float64{"Lo": g.Lo, "Hi": g.Hi} {
		if bound != nil && len(bound) != dim {
			return invalid("Bounds.%s has %d entries in %d dimensions, want one for each, or nil", name, len(bound), dim)
		}
	}
	for i := range dim {
		s := g.at(i)
		if err := interval(s.lo, s.hi); err != nil {
			return fmt.Errorf("%w (entry %d of Bounds)", err, i)
		}
	}
	return nil
}

// entry returns v[i].
func entry(v []float64, i int) float64 {
	if i < 0 || i >= len(v) {
		panic(badLen)
	}
	return v[i]
}

func (g WeightedL1) at(i int) separable { return separable{entry(g.Weights, i), 0, -inf, inf} }

// Func returns Σ Weights_i·|x_i|.
func (g WeightedL1) Func(x []float64) float64 { return valueOf(g, x) }

// Prox stores x_i − P_[−t,t](x_i), t = γ·Weights_i, in dst.
func (g WeightedL1) Prox(dst, x []float64, gamma float64) { proxOf(g, dst, x, gamma) }

// Dist returns dist(−v, ∂g(x)), as for L1.
func (g WeightedL1) Dist(x, v []float64) float64 { return distOf(g, x, v) }

// Coordinate returns (Weights_i, 0, −∞, ∞).
func (g WeightedL1) Coordinate(i int) (l1, l2, lo, hi float64) { return g.at(i).Coordinate(i) }

func (g WeightedL1) check(dim int) error { return weights("WeightedL1.Weights", g.Weights, dim) }

// weights returns an error unless w holds dim finite numbers of at least 0.
func weights(field string, w []float64, dim int) error {
	if len(w) != dim {
		return invalid("%s has %d entries, want %d", field, len(w), dim)
	}
	for i, v := range w {
		if err := weight(fmt.Sprintf("%s[%d]", field, i), v); err != nil {
			return err
		}
	}
	return nil
}

// Func returns ⟨C,x⟩.
func (g Linear) Func(x []float64) float64 {
	sameLen(x, g.C)
	if !finite(x) {
		return inf
	}
	return number(floats.Dot(g.C, x))
}

// Prox stores x − γC in dst.
func (g Linear) Prox(dst, x []float64, gamma float64) {
	sameLen(dst, x)
	sameLen(x, g.C)
	floats.AddScaledTo(dst, x, -gamma, g.C)
}

// Dist returns ‖v + C‖₂.
func (g Linear) Dist(x, v []float64) float64 {
	sameLen(x, v)
	sameLen(x, g.C)
	if !finite(x) {
		return inf
	}
	return overCoordinates(g.C, v, func(_ int, c, vi float64) float64 { return math.Abs(vi + c) })
}

func (g Linear) check(dim int) error {
	if len(g.C) != dim || !finite(g.C) {
		return invalid("Linear.C has %d entries, want %d finite numbers", len(g.C), dim)
	}
	return nil
}

// tilted is g(x) + ⟨c,x⟩ with prox_{γ(g+⟨c,·⟩)}(x) = prox_{γg}(x − γc). [BC17, Prop. 24.8]
type tilted struct {
	g Operator
	c Linear
}

func newTilted(g Operator, c Linear) Operator {
	_, dist := g.(Subdifferential)
	return expose(tilted{g, c}, dist, false, false)
}

func (g tilted) Func(x []float64) float64 {
	sameLen(x, g.c.C)
	return number(g.g.Func(x) + floats.Dot(g.c.C, x))
}

func (g tilted) Prox(dst, x []float64, gamma float64) {
	g.c.Prox(dst, x, gamma)
	g.g.Prox(dst, dst, gamma)
}

func (g tilted) dist(x, v []float64) float64 {
	sameLen(x, v)
	sameLen(v, g.c.C)
	buf := borrow(len(v))
	defer giveBack(buf)
	floats.AddTo(*buf, v, g.c.C)
	return g.g.(Subdifferential).Dist(x, *buf)
}

func (g tilted) shift(x []float64) float64 { return RoundingOf(g.g).Shift(x) }

func (g tilted) check(dim int) error {
	if err := g.c.check(dim); err != nil {
		return err
	}
	return Check(g.g, dim)
}

func (g Pinball) kinked() kinked { return kinked{g.Tau - 1, g.Tau, 0} }

// Func returns Σ Tau·max(x_i, 0) + (1−Tau)·max(−x_i, 0).
func (g Pinball) Func(x []float64) float64 { return g.kinked().Func(x) }

// Prox stores x_i − P_[−γ(1−Tau),γTau](x_i) in dst.
func (g Pinball) Prox(dst, x []float64, gamma float64) { g.kinked().Prox(dst, x, gamma) }

// Dist returns dist(−v, ∂g(x)), where ∂g is {Tau} above 0, {Tau−1} below and [Tau−1, Tau] at 0.
func (g Pinball) Dist(x, v []float64) float64 { return g.kinked().Dist(x, v) }

func (g Pinball) check(int) error {
	if !(g.Tau >= 0 && g.Tau <= 1) {
		return invalid("Pinball.Tau = %v, want a number in [0, 1]", g.Tau)
	}
	return nil
}
