// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/internal/num"
)

// The losses of this file have a kink: φ′ jumps, and at the jump Scalar and Grad return one
// subgradient. Their Smoothness is +Inf, so mechanisms that need a smooth loss refuse them;
// sco.ProxGD serves them through Moreau.

// Hinge is the hinge loss of a class label:
//
//	ℓ = max(0, 1 − y⟨a,θ⟩),   φ′ = −y where yu < 1, 0 elsewhere
//	L = Row,   β = +Inf
//
// [SmoothedHinge] is its Moreau envelope on the line.
type Hinge struct{}

// Absolute is the absolute loss: with r = ⟨a,θ⟩ − b,
//
//	ℓ = |r|,   φ′ = sign(r), 0 at r = 0
//	L = Row,   β = +Inf
type Absolute struct{}

// Pinball is the loss of the quantile of order Tau: with r = ⟨a,θ⟩ − b,
//
//	ℓ = max(Tau·(−r), (1−Tau)·r)
//	φ′ = 1 − Tau where r > 0, −Tau where r < 0, 0 at r = 0
//	L = Row·max(Tau, 1−Tau),   β = +Inf
type Pinball struct{ Tau float64 }

// EpsilonInsensitive is the loss of support vector regression with a tube of half-width Epsilon:
// with r = ⟨a,θ⟩ − b,
//
//	ℓ = max(0, |r| − Epsilon)
//	φ′ = sign(r) where |r| > Epsilon, 0 elsewhere
//	L = Row,   β = +Inf
//
// Epsilon has nothing to do with privacy.
type EpsilonInsensitive struct{ Epsilon float64 }

// ramp returns P_[lo,hi](x/kappa) and its derivative in x, for lo ≤ 0 ≤ hi and kappa > 0.
func ramp(x, kappa, lo, hi float64) (g, dg float64) {
	switch g = x / kappa; {
	case g <= lo:
		return lo, 0
	case g >= hi:
		return hi, 0
	}
	return g, 1 / kappa
}

// Func returns max(0, 1−y⟨a,θ⟩).
func (l Hinge) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, 0))
}

// Grad stores φ′·a in dst.
func (l Hinge) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′ and 0.
func (Hinge) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	y := class(b)
	if gap := 1 - y*u; gap > 0 {
		return gap, -y, 0
	}
	return 0, 0, 0
}

// ProxSlope returns −y·P_[0,1]((1−yu)/κ).
func (Hinge) ProxSlope(u, b, kappa float64) (g, dg float64) {
	y := class(b)
	g, dg = ramp(1-y*u, kappa, 0, 1)
	return -y * g, dg
}

// proxSlope2 is ProxSlope as hi + lo, with an error of at most err: 1 − yu = y(y−u).
func (Hinge) proxSlope2(u, ul, b, kappa float64) (hi, lo, err float64) {
	y := class(b)
	x, xl := difference(y*u, y*ul, 1)
	hi, lo, err = ramp2(-x, -xl, kappa, 0, 1)
	return -y * hi, -y * lo, err
}

// Constants returns L and β as above, rank 1, GLM, Monotone. Range is 1 + Row·radius ≥ (1−yu)₊.
func (l Hinge) Constants(bounds Bounds, radius float64) Constants {
	return rounded(l, bounds, radius, Constants{
		Lipschitz: bounds.Row, Smoothness: math.Inf(1), Range: 1 + bounds.Row*radius, Monotone: true,
	})
}

// CheckData wants Label = 1, like Logistic.
func (Hinge) CheckData(_ int, bounds Bounds) error { return checkClasses("Hinge", bounds) }

// kink is the function of r = u−b with slope lo below −tube, 0 inside the tube and slope hi above
// it, lo ≤ 0 ≤ hi. A tube of positive width has slopes ±1.
type kink struct{ lo, hi, tube float64 }

func (k kink) scalar(r float64) (phi, dphi, d2phi float64) {
	switch {
	case r > k.tube:
		return k.hi * (r - k.tube), k.hi, 0
	case r < -k.tube:
		return k.lo * (r + k.tube), k.lo, 0
	case math.IsNaN(r):
		return r, 0, 0
	}
	return 0, 0, 0
}

// proxSlope is ProxSlope, correct to 3 roundings next to the end of the tube too.
func (k kink) proxSlope(u, b, kappa float64) (g, dg float64) {
	r, e := num.TwoSum(u, -b)
	if k.tube == 0 {
		return ramp(r, kappa, k.lo, k.hi)
	}
	y := sign(r)
	g, dg = ramp((y*r-k.tube)+y*e, kappa, 0, 1)
	return y * g, dg
}

// proxSlope2 is proxSlope as hi + lo, with an error of at most err. The rounding of r = u−b is
// 4·2⁻¹⁰⁶ of r, which may be much larger than |r| − tube.
func (k kink) proxSlope2(u, ul, b, kappa float64) (hi, lo, err float64) {
	r, rl := difference(u, ul, b)
	if k.tube == 0 {
		return ramp2(r, rl, kappa, k.lo, k.hi)
	}
	y := sign(r)
	x, xl := difference(y*r, y*rl, k.tube)
	hi, lo, err = ramp2(x, xl, kappa, 0, 1)
	return y * hi, y * lo, err + 5*unit*unit*math.Abs(r)/kappa
}

// constants returns those of l, whose function is k. Range is its largest slope times
// Row·radius+Label.
func (k kink) constants(l Loss, bounds Bounds, radius float64) Constants {
	steepest := max(-k.lo, k.hi)
	return rounded(l, bounds, radius, Constants{
		Lipschitz: bounds.Row * steepest, Smoothness: math.Inf(1), Range: steepest * reach(bounds, radius),
	})
}

// sign returns −1, 0 or 1.
func sign(r float64) float64 {
	switch {
	case r > 0:
		return 1
	case r < 0:
		return -1
	}
	return 0
}

func (Absolute) kink() kink             { return kink{lo: -1, hi: 1} }
func (l Pinball) kink() kink            { return kink{lo: -l.Tau, hi: 1 - l.Tau} }
func (l EpsilonInsensitive) kink() kink { return kink{lo: -1, hi: 1, tube: l.Epsilon} }

// Func returns |⟨a,θ⟩−b|.
func (l Absolute) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, 0))
}

// Grad stores sign(⟨a,θ⟩−b)·a in dst.
func (l Absolute) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, 0)), a)
}

// Scalar returns |u−b|, sign(u−b) and 0.
func (l Absolute) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) { return l.kink().scalar(u - b) }

// ProxSlope returns P_[−1,1]((u−b)/κ).
func (l Absolute) ProxSlope(u, b, kappa float64) (g, dg float64) {
	return l.kink().proxSlope(u, b, kappa)
}

// Constants returns L and β as above, rank 1, GLM.
func (l Absolute) Constants(bounds Bounds, radius float64) Constants {
	return l.kink().constants(l, bounds, radius)
}

// Func returns the pinball function of ⟨a,θ⟩−b.
func (l Pinball) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, 0))
}

// Grad stores φ′·a in dst.
func (l Pinball) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′ and 0.
func (l Pinball) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) { return l.kink().scalar(u - b) }

// ProxSlope returns P_[−Tau,1−Tau]((u−b)/κ).
func (l Pinball) ProxSlope(u, b, kappa float64) (g, dg float64) {
	return l.kink().proxSlope(u, b, kappa)
}

// Constants returns L and β as above, rank 1, GLM.
func (l Pinball) Constants(bounds Bounds, radius float64) Constants {
	return l.kink().constants(l, bounds, radius)
}

// Check wants Tau in (0, 1).
func (l Pinball) Check() error {
	if !(l.Tau > 0 && l.Tau < 1) {
		return fmt.Errorf("%w: Pinball.Tau = %v, want the order of a quantile in (0, 1)", ErrParameter, l.Tau)
	}
	return nil
}

// Func returns max(0, |⟨a,θ⟩−b|−Epsilon).
func (l EpsilonInsensitive) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, 0))
}

// Grad stores φ′·a in dst.
func (l EpsilonInsensitive) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′ and 0.
func (l EpsilonInsensitive) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	return l.kink().scalar(u - b)
}

// ProxSlope returns sign(u−b)·P_[0,1]((|u−b|−Epsilon)/κ).
func (l EpsilonInsensitive) ProxSlope(u, b, kappa float64) (g, dg float64) {
	return l.kink().proxSlope(u, b, kappa)
}

// Constants returns L and β as above, rank 1, GLM.
func (l EpsilonInsensitive) Constants(bounds Bounds, radius float64) Constants {
	return l.kink().constants(l, bounds, radius)
}

// Check wants a finite Epsilon ≥ 0.
func (l EpsilonInsensitive) Check() error {
	if !(l.Epsilon >= 0) || math.IsInf(l.Epsilon, 1) {
		return fmt.Errorf("%w: EpsilonInsensitive.Epsilon = %v, want a finite half-width ≥ 0", ErrParameter, l.Epsilon)
	}
	return nil
}
