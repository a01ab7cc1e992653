package loss

import "math"

// LogCosh is a smooth relative of the Huber loss with the same L and β: with
// r = ⟨a,θ⟩−b,
//
//	ℓ = Delta² log cosh(r/Delta)
//	φ′ = Delta·tanh(r/Delta),   φ″ = 1 − tanh²(r/Delta)
//	L = Row·Delta·tanh((Row·radius + Label)/Delta)   since |φ′| increases with |u−b|
//	β = Row²                                         since φ″ ≤ 1
//
// The structure is GLM and the rank 1. Where the gradient is large the curvature
// is small, φ″ = 1−(φ′/Delta)²: linear perturbation needs less noise than for
// Huber's loss.
type LogCosh struct{ Delta float64 }

var (
	_ Linear       = LogCosh{}
	_ Interpolator = LogCosh{}
	_ Clippable    = LogCosh{}
	_ Checker      = LogCosh{}
	_ Envelope     = LogCosh{}
)

// Func returns Delta² log cosh((⟨a,θ⟩−b)/Delta) without overflow.
func (l LogCosh) Func(theta, a []float64, b float64) float64 {
	phi, _, _ := l.Scalar(prediction(theta, a), b, 0)
	return phi
}

// Grad stores Delta·tanh((⟨a,θ⟩−b)/Delta)·a in dst.
func (l LogCosh) Grad(dst, theta, a []float64, b float64) {
	_, dphi, _ := l.Scalar(prediction(theta, a), b, 0)
	along(dst, dphi, a)
}

// Scalar returns φ, φ′, φ″ of x = |u−b|/Delta. With e = e^{−2x} and m = 1−e, without
// cancellation near 0 and without overflow,
//
//	log cosh x = x + log1p(−m/2) = x − m/2 − …,  tanh x = m/(1+e),  1 − tanh² x = 4e/(1+e)²
//
// and below x = 0.1, where the logarithm cancels, log cosh x = ½ log1p(sinh² x).
func (l LogCosh) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	r := u - b
	x := math.Abs(r) / l.Delta
	e, m := math.Exp(-2*x), -math.Expm1(-2*x)
	if x < 0.1 {
		s := math.Sinh(x)
		phi = l.Delta * l.Delta * math.Log1p(s*s) / 2
	} else {
		phi = l.Delta * (math.Abs(r) + l.Delta*math.Log1p(-m/2))
	}
	return phi, math.Copysign(l.Delta*(m/(1+e)), r), 4 * e / ((1 + e) * (1 + e))
}

// Constants returns L = Row·Delta·tanh((Row·radius+Label)/Delta), β = Row², rank 1,
// GLM, rounded up; zero Constants where a parameter or bound is invalid or radius
// is negative or NaN.
func (l LogCosh) Constants(bounds Bounds, radius float64) Constants {
	if !valid(l, bounds, radius) {
		return Constants{}
	}
	return Constants{
		Lipschitz:  outward(bounds.Row * l.Delta * math.Tanh(reach(bounds, radius)/l.Delta)),
		Smoothness: outward(bounds.Row * bounds.Row),
		Rank:       1,
		Structure:  GLM,
	}
}

// Envelope: with p = ‖∇ℓ‖/(Row·Delta) and t = ‖a‖/Row ≤ 1, |φ′| = Delta·p/t and
//
//	t²φ″ = t² − p² ≤ 1 − p²
func (l LogCosh) Envelope(bounds Bounds, lo, hi float64) float64 {
	p, _ := share(lo, hi, bounds.Row*l.Delta)
	return outward(bounds.Row * bounds.Row * (1 - p) * (1 + p))
}

// Interpolate returns u, the only label with φ′(u;b′) = 0; ok is false where u
// is not finite.
func (LogCosh) Interpolate(u, _ float64) (label float64, ok bool) {
	return u, !math.IsNaN(u) && !math.IsInf(u, 0)
}

// ClipPoints returns b ∓ Delta·artanh(k/Delta) for k < Delta, and ∓∞ otherwise.
func (l LogCosh) ClipPoints(b, k float64) (lo, hi float64) {
	if k >= l.Delta {
		return math.Inf(-1), math.Inf(1)
	}
	r := l.Delta * math.Atanh(k/l.Delta)
	return b - r, b + r
}

// Check wants a positive finite Delta.
func (l LogCosh) Check() error { return positive("LogCosh.Delta", l.Delta) }
