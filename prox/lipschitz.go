// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import "math"

// Lipschitz returns an upper bound on the Lipschitz constant of g in dim
// dimensions, max{‖u‖₂ : u ∈ ∂g(x), x ∈ ℝᵈ}, and reports whether one is known.
// A nil g is 0. Where it is known, step sizes of splitting methods may grow.
//
//	L1, Hinge        Weight·√d
//	Huber            Weight·Delta·√d
//	norms, GroupL2,  max{‖u‖₂ : u ∈ ∂g(0)}
//	TotalVariation
//	sums of these    the sum
func Lipschitz(g Operator, dim int) (float64, bool) {
	if Check(g, dim) != nil {
		return 0, false
	}
	root := math.Sqrt(float64(max(dim, 0))) * (1 + 4*ulp)
	if norm, ok := asSeminorm(orZero(g)); ok {
		return norm.lipschitz(dim), true
	}
	switch g := form(orZero(g)).(type) {
	case Huber:
		return g.Weight * g.Delta * root, true
	case Hinge:
		return g.Weight * root, true
	case separable:
		if free(g) {
			return g.l1 * root, true
		}
	case radial:
		if free(g.s) && g.l2 == 0 && g.r == inf {
			return g.s.l1*root + g.norm, true
		}
	case grouped:
		if free(g.s) {
			return g.s.l1*root + g.g.lipschitz(dim), true
		}
	case fused:
		if beta, ok := Lipschitz(g.s, dim); ok {
			return beta + g.tv.lipschitz(dim), true
		}
	}
	return 0, false
}

// free reports whether s has neither a square nor bounds.
func free(s separable) bool { return s.l2 == 0 && s.lo == -inf && s.hi == inf }
