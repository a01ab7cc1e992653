// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// Proximable is the optional ability of a [Linear] loss to give the slope of its Moreau envelope on
// the line in closed form:
//
//	e(u) = min_v φ(v;b) + (v−u)²/(2κ),   e′(u) = (u − prox_{κφ}(u))/κ
type Proximable interface {
	Linear
	// ProxSlope returns e′(u) and a derivative of e′ at u, for κ = kappa > 0.
	ProxSlope(u, b, kappa float64) (g, dg float64)
}

// Moreau is the Moreau envelope in θ of the loss of one record,
//
//	ℓ_β(θ) = min_v ℓ(v) + (β/2)‖v−θ‖²,   ℓ_β ≤ ℓ ≤ ℓ_β + L²/(2β),   β = Beta
//	L = L of Loss, since its gradient is one of ℓ, at the proximal point;   β = min(Beta, β of Loss)
//
// For a loss φ(⟨a,θ⟩;b) the minimizer v is in θ + ℝa, and ℓ_β is the envelope of φ on the line with
// κ = ‖a‖²/β: a loss of ⟨a,θ⟩ again. Its slope comes in closed form for a [Proximable] loss, else
// by bisection. φ″ ≤ β/‖a‖², so short rows have the larger φ″. L and β of ℓ must hold on all of ℝᵈ
// or along a, as they do for such losses. [BC17, Prop. 12.30]
type Moreau struct {
	Loss Linear
	Beta float64
}

// Func returns ℓ_β.
func (l Moreau) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, floats.Norm(a, 2)))
}

// Grad stores e′·a in dst.
func (l Moreau) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, floats.Norm(a, 2))), a)
}

// Scalar returns e, e′ and e″ for a row of the given norm. The envelope of a zero row is φ itself.
func (l Moreau) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	if l.Loss == nil {
		panic("loss: Moreau without a loss")
	}
	kappa := norm * norm / l.Beta
	if !(kappa > 0) {
		return l.Loss.Scalar(u, b, norm)
	}
	var g, dg float64
	if p, ok := l.Loss.(Proximable); ok {
		g, dg = p.ProxSlope(u, b, kappa)
	} else {
		g, dg = proxSlope(l.Loss, u, b, norm, kappa)
	}
	phi, _, _ = l.Loss.Scalar(u-kappa*g, b, norm)
	return phi + kappa*g*g/2, g, dg // (u−v)²/(2κ) = κg²/2
}

// proxSlope solves v + κφ′(v) = u for a nondecreasing φ′ by bisection. From the solution to u, φ′
// is between 0 and φ′(u), so the solution is between u − κφ′(u) and u. The last bracket has
// neighboring floats around the solution, and g = (u−v)/κ is between the values of φ′ there: this
// keeps the digits that u − v loses.
func proxSlope(l Linear, u, b, norm, kappa float64) (g, dg float64) {
	_, here, _ := l.Scalar(u, b, norm)
	if here == 0 || math.IsNaN(here) {
		return here, 0
	}
	lo, hi := min(u, u-kappa*here), max(u, u-kappa*here)
	for {
		mid := lo/2 + hi/2
		if !(mid > lo && mid < hi) {
			break
		}
		if _, s, _ := l.Scalar(mid, b, norm); mid+kappa*s < u {
			lo = mid
		} else {
			hi = mid
		}
	}
	_, below, curve := l.Scalar(lo, b, norm)
	_, above, _ := l.Scalar(hi, b, norm)
	g = min(max((u-hi)/kappa, below), above)
	if above-below > 1e-6*(1+math.Abs(g)) { // a kink between neighbors
		return g, 1 / kappa
	}
	return g, curve / (1 + kappa*curve)
}

// Constants returns those of Loss with β = min(Beta, β of Loss), rank 1, GLM. Range stays: the
// envelope has the infimum of ℓ and lies below ℓ. Its slopes are slopes of φ, and its minimizers
// those of ℓ.
func (l Moreau) Constants(bounds Bounds, radius float64) Constants {
	c, ok := inherited(l, l.Loss, bounds, radius)
	if beta := outward(l.Beta); ok && !(c.Smoothness > 0 && c.Smoothness <= beta) {
		c.Smoothness = beta
	}
	return c
}

// Envelope: at the proximal point ℓ has the gradient of ℓ_β, with some curvature h, and ℓ_β has
//
//	h/(1 + h/β) = hβ/(h+β)
func (l Moreau) Envelope(bounds Bounds, lo, hi float64) float64 {
	h := envelope(l.Loss, bounds, lo, hi)
	if math.IsInf(h, 1) {
		return outward(l.Beta)
	}
	return min(outward(h/(1+h/l.Beta)), outward(l.Beta))
}

// CheckData returns the error of Loss.
func (l Moreau) CheckData(dim int, bounds Bounds) error { return CheckData(l.Loss, dim, bounds) }

// Check wants a Loss that passes its own Check and a positive finite Beta.
func (l Moreau) Check() error { return checkMade("Moreau", l.Loss, Hinge{}, "Beta", l.Beta) }
