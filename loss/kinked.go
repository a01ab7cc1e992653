package loss

import (
	"fmt"
	"math"

	"github.com/privopt/privopt/internal/num"
)

// The losses of this file have a kink: φ′ jumps, and at the jump Scalar and Grad
// return one subgradient. Their Smoothness is +Inf, so that mechanisms which
// need a smooth loss refuse them; sco.ProxGD serves them through Moreau.

// Hinge is the hinge loss of a class label: with y = +1 for b > 0 and y = −1
// otherwise,
//
//	ℓ = max(0, 1 − y⟨a,θ⟩)
//	φ′ = −y where yu < 1, 0 elsewhere
//	L = Row      since |φ′| ≤ 1
//	β = +Inf
//
// The structure is GLM and the rank 1. SmoothedHinge is its Moreau envelope on
// the line.
type Hinge struct{}

// Absolute is the absolute loss: with r = ⟨a,θ⟩ − b,
//
//	ℓ = |r|,   φ′ = sign(r), 0 at r = 0
//	L = Row,   β = +Inf
//
// The structure is GLM and the rank 1.
type Absolute struct{}

// Pinball is the loss of the quantile of order Tau: with r = ⟨a,θ⟩ − b,
//
//	ℓ = max(Tau·(−r), (1−Tau)·r)
//	φ′ = 1 − Tau where r > 0, −Tau where r < 0, 0 at r = 0
//	L = Row·max(Tau, 1−Tau),   β = +Inf
//
// The structure is GLM and the rank 1.
type Pinball struct{ Tau float64 }

// EpsilonInsensitive is the loss of support vector regression with a tube of
// half-width Epsilon: with r = ⟨a,θ⟩ − b,
//
//	ℓ = max(0, |r| − Epsilon)
//	φ′ = sign(r) where |r| > Epsilon, 0 elsewhere
//	L = Row,   β = +Inf
//
// The structure is GLM and the rank 1. Epsilon has nothing to do with privacy.
type EpsilonInsensitive struct{ Epsilon float64 }

var (
	_ Proximable = Hinge{}
	_ Proximable = Absolute{}
	_ Proximable = Pinball{}
	_ Proximable = EpsilonInsensitive{}
	_ Checker    = Pinball{}
	_ Checker    = EpsilonInsensitive{}
	_ Monotone   = Hinge{}
)

// ramp returns P_[lo,hi](x/kappa) and its derivative in x, for lo ≤ 0 ≤ hi and
// kappa > 0.
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
	return value(l.Scalar(prediction(theta, a), b, 0))
}

// Grad stores φ′·a in dst.
func (l Hinge) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, 0)), a)
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

// proxSlope2 uses 1 − yu = y(y−u).
func (Hinge) proxSlope2(u, ul, b, kappa float64) (hi, lo, err float64) {
	y := class(b)
	x, xl := difference(y*u, y*ul, 1)
	hi, lo, err = ramp2(-x, -xl, kappa, 0, 1)
	return -y * hi, -y * lo, err
}

// Constants returns L and β as above, rank 1, GLM.
func (l Hinge) Constants(bounds Bounds, radius float64) Constants {
	return glm(l, bounds, radius, bounds.Row, math.Inf(1))
}

// Monotone returns true: the sign of φ′ is −y or 0.
func (Hinge) Monotone() bool { return true }

// CheckData wants Label = 1, as that of Logistic.
func (Hinge) CheckData(_ int, bounds Bounds) error { return checkClasses("Hinge", bounds) }

// Func returns |⟨a,θ⟩−b|.
func (l Absolute) Func(theta, a []float64, b float64) float64 {
	return math.Abs(prediction(theta, a) - b)
}

// Grad stores sign(⟨a,θ⟩−b)·a in dst.
func (l Absolute) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, 0)), a)
}

// Scalar returns |u−b|, sign(u−b) and 0.
func (Absolute) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	return math.Abs(u - b), sign(u - b), 0
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

// ProxSlope returns P_[−1,1]((u−b)/κ).
func (Absolute) ProxSlope(u, b, kappa float64) (g, dg float64) { return ramp(u-b, kappa, -1, 1) }

func (Absolute) proxSlope2(u, ul, b, kappa float64) (hi, lo, err float64) {
	x, xl := difference(u, ul, b)
	return ramp2(x, xl, kappa, -1, 1)
}

// Constants returns L and β as above, rank 1, GLM.
func (l Absolute) Constants(bounds Bounds, radius float64) Constants {
	return glm(l, bounds, radius, bounds.Row, math.Inf(1))
}

// Func returns the pinball function of ⟨a,θ⟩−b.
func (l Pinball) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(prediction(theta, a), b, 0))
}

// Grad stores φ′·a in dst.
func (l Pinball) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′ and 0.
func (l Pinball) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	switch r := u - b; {
	case r > 0:
		return (1 - l.Tau) * r, 1 - l.Tau, 0
	case r < 0:
		return -l.Tau * r, -l.Tau, 0
	}
	return 0, 0, 0
}

// ProxSlope returns P_[−Tau,1−Tau]((u−b)/κ).
func (l Pinball) ProxSlope(u, b, kappa float64) (g, dg float64) {
	return ramp(u-b, kappa, -l.Tau, 1-l.Tau)
}

func (l Pinball) proxSlope2(u, ul, b, kappa float64) (hi, lo, err float64) {
	x, xl := difference(u, ul, b)
	return ramp2(x, xl, kappa, -l.Tau, 1-l.Tau)
}

// Constants returns L and β as above, rank 1, GLM.
func (l Pinball) Constants(bounds Bounds, radius float64) Constants {
	return glm(l, bounds, radius, bounds.Row*max(l.Tau, 1-l.Tau), math.Inf(1))
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
	return value(l.Scalar(prediction(theta, a), b, 0))
}

// Grad stores φ′·a in dst.
func (l EpsilonInsensitive) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′ and 0.
func (l EpsilonInsensitive) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	r := u - b
	if excess := math.Abs(r) - l.Epsilon; excess > 0 {
		return excess, sign(r), 0
	}
	return 0, 0, 0
}

// ProxSlope returns sign(u−b)·P_[0,1]((|u−b|−Epsilon)/κ).
func (l EpsilonInsensitive) ProxSlope(u, b, kappa float64) (g, dg float64) {
	r, e := num.TwoSum(u, -b)
	y := sign(r)
	g, dg = ramp((y*r-l.Epsilon)+y*e, kappa, 0, 1) // correct to 3 roundings next to the end of the tube too
	return y * g, dg
}

// proxSlope2: the rounding of r = u−b, 4·2⁻¹⁰⁶ of it, is not relative to |r| − Epsilon.
func (l EpsilonInsensitive) proxSlope2(u, ul, b, kappa float64) (hi, lo, err float64) {
	r, rl := difference(u, ul, b)
	y := sign(r)
	x, xl := difference(y*r, y*rl, l.Epsilon)
	hi, lo, err = ramp2(x, xl, kappa, 0, 1)
	return y * hi, y * lo, err + 5*unit*unit*math.Abs(r)/kappa
}

// Constants returns L and β as above, rank 1, GLM.
func (l EpsilonInsensitive) Constants(bounds Bounds, radius float64) Constants {
	return glm(l, bounds, radius, bounds.Row, math.Inf(1))
}

// Check wants a finite Epsilon ≥ 0.
func (l EpsilonInsensitive) Check() error {
	if !(l.Epsilon >= 0) || math.IsInf(l.Epsilon, 1) {
		return fmt.Errorf("%w: EpsilonInsensitive.Epsilon = %v, want a finite half-width ≥ 0", ErrParameter, l.Epsilon)
	}
	return nil
}
