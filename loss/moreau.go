package loss

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// Proximable is the optional ability of a Linear loss to give the slope of its
// Moreau envelope on the line in closed form:
//
//	e(u) = min_v φ(v;b) + (v−u)²/(2κ),   e′(u) = (u − prox_{κφ}(u))/κ
type Proximable interface {
	Linear
	// ProxSlope returns e′(u) and a derivative of e′ at u, for κ = kappa > 0.
	ProxSlope(u, b, kappa float64) (g, dg float64)
}

// Moreau is the Moreau envelope in θ of the loss of one record,
//
//	ℓ_β(θ) = min_v ℓ(v) + (β/2)‖v−θ‖²,   β = Beta
//	ℓ_β ≤ ℓ ≤ ℓ_β + L²/(2β)
//	L = L of Loss             its gradient is one of ℓ, at the proximal point
//	β = min(Beta, β of Loss)
//
// For a loss φ(⟨a,θ⟩;b) the minimizer v is in θ + ℝa, and ℓ_β is the envelope of
// φ on the line with κ = ‖a‖²/β, at u = ⟨a,θ⟩: a loss of ⟨a,θ⟩ again. Its slope is
// in closed form for a Proximable loss, and found by bisection else. The
// structure is GLM and the rank 1. φ″ ≤ β/‖a‖², so short rows have the larger φ″. L and β of ℓ must
// hold on all of ℝᵈ or along a, as they do for such losses. [BC17, Prop. 12.30]
type Moreau struct {
	Loss Linear
	Beta float64
}

var (
	_ Linear   = Moreau{}
	_ Checker  = Moreau{}
	_ Monotone = Moreau{}
)

// Func returns ℓ_β.
func (l Moreau) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(prediction(theta, a), b, floats.Norm(a, 2)))
}

// Grad stores e′·a in dst.
func (l Moreau) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, floats.Norm(a, 2))), a)
}

// Scalar returns e, e′ and e″ for a row of the given norm. The envelope of a
// zero row is φ itself.
func (l Moreau) Scalar(u, b, norm float64) (phi, dphi, d2phi float64) {
	if l.Loss == nil {
		panic(noMoreau)
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

// Exact reports whether the slope of Loss's envelope is in closed form and Loss of this package.
func (l Moreau) Exact() bool {
	_, ok := l.Loss.(sloper2)
	return ok && Proved(l.Loss) // a struct that embeds such a loss has its method
}

// Slope2 returns e′(u+ul) for a Moreau that is Exact; else it panics. Where ‖a‖²/β is 0 in
// float64 the kink stays, and the error is 2: next to nothing times ‖a‖.
func (l Moreau) Slope2(u, ul, b, norm float64) (hi, lo, err float64) {
	kappa := norm * norm / l.Beta
	if !(kappa > 0) {
		_, hi, _ = l.Loss.Scalar(u, b, norm)
		return hi, 0, 2
	}
	return l.Loss.(sloper2).proxSlope2(u, ul, b, kappa)
}

const noMoreau = "loss: Moreau without a loss"

// proxSlope solves v + κφ′(v) = u for a nondecreasing φ′ by bisection. As φ′ is
// between 0 and φ′(u) on the way from the solution to u, the solution is between
// u − κφ′(u) and u. At its end the bracket has neighboring floats around the
// solution, and g = (u−v)/κ is between the values of φ′ there: this keeps the
// digits that u − v loses.
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

// Constants returns L of Loss, β = min(Beta, β of Loss), rank 1, GLM.
func (l Moreau) Constants(bounds Bounds, radius float64) Constants {
	c, ok := inherited(l, l.Loss, bounds, radius)
	if beta := outward(l.Beta); ok && !(c.Smoothness > 0 && c.Smoothness <= beta) {
		c.Smoothness = beta
	}
	return c
}

// CheckData returns what Loss does.
func (l Moreau) CheckData(dim int, bounds Bounds) error { return CheckData(l.Loss, dim, bounds) }

// Monotone returns what Loss does, false if it does not say: the slopes of the
// envelope are slopes of φ.
func (l Moreau) Monotone() bool { return monotone(l.Loss) }

// Check wants a Loss that passes its own Check and a positive finite Beta.
func (l Moreau) Check() error {
	return checkMade("Moreau", l.Loss, Hinge{}, "Beta", l.Beta)
}
