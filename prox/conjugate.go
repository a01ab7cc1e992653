// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import "math"

// ProxConjugate stores prox_{γg*}(x) in dst, which may be x, where
// g*(u) = sup_x ⟨u,x⟩ − g(x) is the convex conjugate, by Moreau's identity
//
//	prox_{γg*}(x) = x − γ·prox_{g/γ}(x/γ)   [BC17, Thm. 14.3; PB14, §2.5]
//
// for every operator g; nil is 0.
func ProxConjugate(g Operator, dst, x []float64, gamma float64) {
	sameLen(dst, x)
	buf := times(1/gamma, x)
	defer giveBack(buf)
	orZero(g).Prox(*buf, *buf, 1/gamma)
	for i, xi := range x {
		dst[i] = xi - gamma*(*buf)[i]
	}
}

// Conjugate returns g* as an operator, and reports whether its value is known in closed form. A nil
// operator is 0.
//
//	g                                   g*
//	0                                   ι{0}
//	L1{w}, LInfNorm{w}, L2Norm{w}       Box{−w, w}, L1Ball{w}, L2Ball{w}, and back
//	NuclearNorm{w}, SpectralBall{R}     SpectralBall{w}, NuclearNorm{R}
//	SortedL1, TotalVariation, GroupL2   the indicator of ∂g(0), a Set
//	SquaredL2{w}, w > 0                 SquaredL2{1/w}
//	NonNegative, SecondOrderCone        the polar cones
//
// The indicator of ∂g(0) is not a Subdifferential. It projects by [ProxConjugate], and membership,
// dist(u, ∂g(0)) = 0, allows for 2⁻⁴⁸·dim·‖u‖₂. Operators that fail Check, infinite balls and
// SquaredL2 with weight 0 have no conjugate here.
func Conjugate(g Operator) (Operator, bool) {
	switch g := orZero(g).(type) {
	case separable:
		if g == whole() {
			return Box{}, true
		}
	case L1:
		return checked(g, Box{-g.Weight, g.Weight}, 1)
	case Box:
		if g.Lo == -g.Hi {
			return checked(g, L1{g.Hi}, 1)
		}
	case LInfNorm:
		return checked(g, L1Ball{g.Weight}, 1)
	case L1Ball:
		return checked(g, LInfNorm{g.R}, 1)
	case L2Norm:
		return checked(g, L2Ball{g.Weight}, 1)
	case L2Ball:
		return checked(g, L2Norm{g.R}, 1)
	case NuclearNorm:
		return checked(g, SpectralBall{g.Rows, g.Cols, g.Weight}, g.Rows*g.Cols)
	case SpectralBall:
		return checked(g, NuclearNorm{g.Rows, g.Cols, g.R}, g.Rows*g.Cols)
	case SquaredL2:
		return checked(g, SquaredL2{1 / g.Weight}, 1)
	case NonNegative:
		return Box{-inf, 0}, true
	case SecondOrderCone:
		return Scale(g, -1, 1), true
	case certifiedSet:
		if s, ok := g.calculus.(scaled); ok && s.g == (SecondOrderCone{}) && s.a < 0 {
			return SecondOrderCone{}, true
		}
	case plainSet:
		if d, ok := g.calculus.(dual); ok {
			return d.g, true
		}
	}
	if norm, ok := asSeminorm(orZero(g)); ok {
		return expose(dual{norm}, false, true, false), true
	}
	return nil, false
}

// checked returns h if it and g pass their checks in dim dimensions.
func checked(g, h Operator, dim int) (Operator, bool) {
	if Check(g, dim) != nil || Check(h, dim) != nil {
		return nil, false
	}
	return h, true
}

// dual is g* = ι_{∂g(0)} of a seminorm g, whose subdifferential at 0 is symmetric.
type dual struct{ g seminorm }

func (d dual) Func(u []float64) float64 {
	buf := borrow(len(u))
	defer giveBack(buf)
	clear(*buf)
	n := norm2(u)
	return indicator(d.g.Dist(*buf, u) <= float64(len(u))*nearSphere*n && n <= math.MaxFloat64)
}

// Prox projects twice: the second round removes the rounding of the size of x.
func (d dual) Prox(dst, x []float64, _ float64) {
	ProxConjugate(d.g, dst, x, 1)
	ProxConjugate(d.g, dst, dst, 1)
}

func (d dual) radius(dim int) float64 { return d.g.lipschitz(dim) }
func (d dual) check(dim int) error    { return Check(d.g, dim) }
