// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/loss"
)

// A grid holds gradients and their noise: multiples of g = 2^exponent in each coordinate.
type grid struct {
	exponent int
	norm     int64   // K = ⌊L/g⌋: a rounded gradient has norm at most Kg ≤ L
	limit    float64 // the norm to which a gradient is clipped before it is rounded
}

// gridBits: g is about 2^{−gridBits} of L/√d.
const gridBits = 26

// gradientError bounds the change of a gradient of norm at most L by clipping to limit and
// rounding, over L: 2^{−gridBits}(1/√d + ½ + ½).
const gradientError = 0x1p-25

// newGrid returns the grid for gradients clipped to norm l in d dimensions:
//
//	g = 2^(⌊log₂(L/√d)⌋ − 26),   limit = L − g(√d/2 + 1)
//
// Rounding moves a vector by at most g√d/2, so that a rounded gradient has norm below L; the
// further g allows for the rounding of limit.
func newGrid(l float64, d int) grid {
	root := math.Sqrt(float64(d))
	_, e := math.Frexp(l / root)
	g := grid{exponent: e - 1 - gridBits}
	g.norm = int64(math.Ldexp(l, -g.exponent))
	g.limit = l - math.Ldexp(root/2+1, g.exponent)
	return g
}

// largestNoise bounds σ/g: integers of package noise saturate beyond 2¹⁰σ, with probability below
// 2⁻⁷⁵⁰⁰⁰⁰ in all coordinates of all steps together.
const largestNoise = 0x1p52

// clippedSlope is a loss of ⟨a,w⟩ with gradients clipped to norm limit, and NaN replaced by 0:
// P_{[−k,k]}(φ′), k = limit/‖a‖. Its values are those of the loss itself.
type clippedSlope struct {
	loss.Linear
	limit float64
}

// clippedGrad is any loss with gradients clipped to norm limit.
type clippedGrad struct {
	loss.Loss
	limit float64
}

var (
	_ loss.Linear = clippedSlope{}
	_ loss.Loss   = clippedGrad{}
)

// Scalar clips φ′. A row of norm 0 has no gradient.
func (l clippedSlope) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	phi, dphi, d2phi = l.Linear.Scalar(u, b, norm)
	k := min(l.limit/norm, math.MaxFloat64) * (1 - 0x1p-50) // norm is rounded up
	if k < leastFactor {
		k = 0
	}
	switch {
	case dphi > k:
		dphi = k
	case dphi < -k:
		dphi = -k
	case math.IsNaN(dphi):
		dphi = 0
	}
	return phi, dphi, d2phi
}

// Grad clips ∇ℓ.
func (l clippedSlope) Grad(dst, theta, a []float64, b float64) {
	l.Linear.Grad(dst, theta, a, b)
	clip(dst, l.limit)
}

// Constants has structure GLM: the gradients are not affine, as those of structure LSQ are.
func (l clippedSlope) Constants(bounds loss.Bounds, radius float64) loss.Constants {
	k := l.Linear.Constants(bounds, radius)
	k.Structure, k.Rank = loss.GLM, 1
	return k
}

// Grad clips ∇ℓ.
func (l clippedGrad) Grad(dst, theta, a []float64, b float64) {
	l.Loss.Grad(dst, theta, a, b)
	clip(dst, l.limit)
}

// leastFactor is far above the subnormal numbers of float64, where rounding could double a factor.
const leastFactor = 0x1p-1000

// clip scales g so that its exact norm is at most limit; a g that is not finite, or 2¹⁰⁰⁰ times too
// long, becomes 0.
func clip(g []float64, limit float64) {
	norm := floats.Norm(g, 2)
	slack := float64(len(g)+8) * 0x1p-52 // whatever the rounding of norm
	switch factor := limit / norm; {
	case norm <= limit*(1-slack):
	case factor >= leastFactor:
		floats.Scale(factor*(1-2*slack), g)
	default:
		clear(g)
	}
}
