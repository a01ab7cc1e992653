// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package prox holds convex functions that are known by their proximal map and convex sets that are
// known by their projection.
//
//	g, err := prox.Sum(prox.L1{Weight: 0.1}, prox.L2Ball{R: 1})
//	g.Prox(dst, x, gamma) // argmin_u g(u) + ‖u−x‖²/(2γ)
//
// # Operators
//
//	functions        L1, WeightedL1, SquaredL2, ElasticNet, L1Box, L2Norm, LInfNorm,
//	                 GroupL2, SortedL1, TotalVariation, Huber, Hinge, Pinball,
//	                 LogBarrier, Linear, NewQuadratic
//	sets             NonNegative, Box, Bounds, L1Ball, L2Ball, Simplex, Isotonic,
//	                 HalfSpace, NewAffine, SecondOrderCone
//	of matrices      NuclearNorm, NuclearBall, SpectralBall, PSDCone, held row by row
//	overlapping      SplitGroups: groups that share coordinates, as a sum
//	                 of GroupL2
//	calculus         Sum        g + h
//	                 Translate  g(x − b)
//	                 Scale      w·g(ax)
//	                 Blocks     Σ_k g_k(x_k) over ranges of coordinates
//	                 Conjugate  g*, and ProxConjugate, its proximal map for every g
//
// All types are Subdifferentials, and an operator of the calculus is one if the faces of its parts
// survive rounding. A proximal map costs O(d); O(d log d) for SortedL1, a few passes for LInfNorm,
// L1Ball and Simplex, a product with the matrix for NewAffine, two triangular solves for
// NewQuadratic, and a decomposition for operators of matrices.
//
// # Notation
//
// γ is the step size, ∂g the subdifferential, ι_C and N_C(x) the indicator of C and its normal cone
// at x, g* the convex conjugate, P_C the projection onto C and (·)₊ = max(·, 0), of a symmetric
// matrix on its eigenvalues. X = UΣVᵀ is the singular value decomposition, σ_1 ≥ σ_2 ≥ … ≥ 0.
// References in brackets: docs/theory/numerics.md
//
// # Values and lengths
//
// Parameters are plain fields; [Check] reports parameters that make no sense, and results of an
// operator that fails it are unspecified. A NaN coordinate of x stays NaN under Prox, so that a
// solver sees it; Func and Dist return +Inf where x is not a finite point of the domain, never NaN.
// Methods panic where lengths do not match, as those of gonum do. Constructors, and functions that
// return an error, report it.
package prox

import (
	"errors"
	"fmt"
	"math"
)

const badLen = "prox: length mismatch"

// Operator is a closed convex proper function g known through its proximal map.
//
// Implementations are immutable once built and safe for concurrent use. Both
// methods panic when lengths do not match the dimension of g.
type Operator interface {
	// Func returns g(x), +Inf outside the domain.
	Func(x []float64) float64
	// Prox stores prox_{γg}(x) = argmin_u g(u) + ‖u−x‖²/(2γ), γ > 0, in dst,
	// which may be x. It does not allocate.
	Prox(dst, x []float64, gamma float64)
}

// Set is the indicator ι_C of a closed convex set. Prox projects onto C and ignores gamma.
type Set interface {
	Operator
	// Radius returns sup{‖x‖₂ : x ∈ C} in dim dimensions, +Inf if C is unbounded.
	Radius(dim int) float64
}

// Subdifferential is the optional ability to compute the distance from −v to ∂g(x), which certifies
// optimality.
type Subdifferential interface {
	Operator
	// Dist returns dist(−v, ∂g(x)) = min{‖v+u‖₂ : u ∈ ∂g(x)}, and +Inf where x is outside the domain.
	// It decides exactly, never by a tolerance, whether x lies at a kink or on a face: to mistake an
	// interior point for a boundary point would under-report the distance. Where float64 has hardly
	// any point on a face, as on a sphere, x stands for a point nearby, see [Rounding].
	Dist(x, v []float64) float64
}

// Coordinatewise is the ability of an operator that is a sum over coordinates,
//
//	g(x) = Σ_i l1|x_i| + (l2/2)x_i² + ι_[lo,hi](x_i),
//
// to show its coefficients: l1, l2 ≥ 0 and lo ≤ hi, where the bounds may be infinite.
type Coordinatewise interface {
	Operator
	Coordinate(i int) (l1, l2, lo, hi float64)
}

// ErrParameter reports a parameter of an operator that makes no sense. Test with errors.Is.
var ErrParameter = errors.New("prox: invalid parameter")

// Checker is the ability of an operator of your own to check parameters for use in dim dimensions.
type Checker interface {
	// Check returns an error wrapping ErrParameter that names the field, its
	// value and the allowed range, or nil.
	Check(dim int) error
}

// checker is an operator of this package. A struct that embeds it may declare a Check of its own.
type checker interface {
	Operator
	check(dim int) error
}

// Check returns an error wrapping ErrParameter that names the field, its value and the allowed
// range, or nil if op makes sense in dim dimensions: weights are finite and at least 0, a radius is
// 0 or at least 2⁻⁹⁰⁰ and may be +Inf, and lengths are those of x. A nil op is 0.
func Check(op Operator, dim int) error {
	switch c := op.(type) {
	case Checker:
		return c.Check(dim)
	case checker:
		return c.check(dim)
	}
	return nil
}

// weight returns an error unless w is a finite number of at least 0.
func weight(field string, w float64) error {
	if !(w >= 0) || math.IsInf(w, 1) {
		return invalid("%s = %v, want a finite number of at least 0", field, w)
	}
	return nil
}

// invalid returns an ErrParameter with its reason.
func invalid(format string, args ...any) error {
	return fmt.Errorf("%w: %w", ErrParameter, fmt.Errorf(format, args...))
}
