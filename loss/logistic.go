package loss

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

// Logistic is the logistic loss of a class label: with y = +1 for b > 0 and
// y = −1 otherwise,
//
//	ℓ(θ;a,b) = log(1 + exp(−y⟨a,θ⟩))
//	φ(u;b) = log(1+e^{−yu}),   φ′ = −y/(1+e^{yu}),   φ″ = e^{−|u|}/(1+e^{−|u|})²
//	L = Row      since |φ′| < 1
//	β = Row²/4   since φ″ ≤ ¼
//
// The structure is GLM and the rank 1. No label makes a finite prediction
// optimal, so the loss is not an Interpolator. Labels are coded −1, 1 or 0, 1 and
// declared by Label: 1, see CheckData.
type Logistic struct{}

var (
	_ Clippable = Logistic{}
	_ Monotone  = Logistic{}
	_ Batch     = Logistic{}
)

// class returns the class +1 of a positive label and −1 of every other, so that the codings
// −1, 1 and 0, 1 mean the same.
func class(b float64) float64 {
	if b > 0 {
		return 1
	}
	return -1
}

// Func returns log(1 + exp(−y⟨a,θ⟩)) without overflow.
func (l Logistic) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(prediction(theta, a), b, 0))
}

// Grad stores −y/(1+exp(y⟨a,θ⟩))·a in dst without overflow.
func (l Logistic) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′, φ″ with the exponential of −|yu| only.
func (Logistic) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	y := class(b)
	m := y * u
	e := expNeg(math.Abs(m))
	phi = max(-m, 0) + math.Log1p(e) // log(1+e^{−m}) = (−m)₊ + log(1+e^{−|m|})
	if m >= 0 {
		dphi = -y * e / (1 + e)
	} else {
		dphi = -y / (1 + e)
	}
	return phi, dphi, e / ((1 + e) * (1 + e))
}

// Exact returns true. In float64, e^−|m| is correct to 4u, so φ′ is to 7u.
func (Logistic) Exact() bool { return true }

// Slope2 returns −y/(1+e^m), m = y(u+ul), within 2⁻¹⁰⁰ = 64u² of itself and 2⁻¹⁰⁷¹: 24u² come from
// the exponential, 4.5u² from 1 + e^−|m| and 16u² from the quotient.
func (Logistic) Slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	y := class(b)
	sign := math.Float64bits(u) & (1 << 63)
	e, el := expNeg2(math.Abs(u), math.Float64frombits(math.Float64bits(ul)^sign)) // e^−|u+ul|
	d, dl := num.Add2(1, 0, e, el)
	// e where m ≥ 0, else 1, by a conditional move, as in Slopes.
	top, low := math.Float64bits(e), math.Float64bits(el)
	if y*u < 0 {
		top, low = math.Float64bits(1), 0
	}
	hi, lo = num.Div2(math.Float64frombits(top), math.Float64frombits(low), d, dl) // e^−|m|/(1+e^−|m|) or 1/(1+e^−|m|)
	return -y * hi, -y * lo, 0x1p-100*hi + 8*tiny
}

// Slopes replaces u by φ′ and stores φ″ in curve.
func (Logistic) Slopes(u, b, curve []float64) {
	b = b[:len(u)]
	for i, v := range u {
		y := class(b[i])
		m := y * v
		e := expNeg(math.Abs(m))
		// e where m ≥ 0, else 1, by a conditional move: the sign of a margin is
		// anybody's guess.
		top := math.Float64bits(1)
		if m >= 0 {
			top = math.Float64bits(e)
		}
		u[i] = -y * math.Float64frombits(top) / (1 + e)
		if curve != nil {
			curve[i] = e / ((1 + e) * (1 + e))
		}
	}
}

// Constants returns L and β as above, rank 1, GLM.
func (l Logistic) Constants(bounds Bounds, radius float64) Constants {
	return glm(l, bounds, radius, bounds.Row, bounds.Row*bounds.Row/4)
}

// ClipPoints: |φ′| = k at yu = log((1−k)/k) for k < 1 and nowhere for k ≥ 1.
func (Logistic) ClipPoints(b, k float64) (lo, hi float64) {
	return oneSided(class(b), k < 1, math.Log1p(-min(k, 1))-num.Log(k))
}

// Monotone returns true: the sign of φ′ is −y.
func (Logistic) Monotone() bool { return true }

// CheckData wants Label = 1, so that labels are coded −1, 1 or 0, 1: the signs of other
// codings, such as 1, 2, do not distinguish the classes.
func (Logistic) CheckData(_ int, bounds Bounds) error { return checkClasses("Logistic", bounds) }
