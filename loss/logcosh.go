package loss

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

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
	_ Interpolator = LogCosh{}
	_ Clippable    = LogCosh{}
	_ Checker      = LogCosh{}
	_ Envelope     = LogCosh{}
)

// Func returns Delta² log cosh((⟨a,θ⟩−b)/Delta) without overflow.
func (l LogCosh) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(prediction(theta, a), b, 0))
}

// Grad stores Delta·tanh((⟨a,θ⟩−b)/Delta)·a in dst.
func (l LogCosh) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′, φ″ of x = |u−b|/Delta. With e = e^{−2x} and m = 1−e, without cancellation
// near 0 and without overflow,
//
//	log cosh x = x + log1p(−m/2) = x − m/2 − …,  tanh x = m/(1+e),  1 − tanh² x = 4e/(1+e)²
//
// and below x = 0.1, where the logarithm cancels, log cosh x = ½ log1p(sinh² x). φ′ is within 16u
// of itself: docs/theory/numerics.md#numerics.slopes
func (l LogCosh) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	r := u - b
	x := math.Abs(r) / l.Delta
	var e, m float64
	if x < smallTanh {
		p := expm1(-x)
		m = -p * (2 + p)
		e = 1 - m
	} else {
		e = expNeg(2 * x)
		m = 1 - e
	}
	if x < 0.1 {
		s := math.Sinh(x)
		phi = l.Delta * l.Delta * math.Log1p(s*s) / 2
	} else {
		phi = l.Delta * (math.Abs(r) + l.Delta*math.Log1p(-m/2))
	}
	return phi, math.Copysign(l.Delta*(m/(1+e)), r), 4 * e / ((1 + e) * (1 + e))
}

// smallTanh is where tanh x begins to be computed from e^{−2x} itself.
const smallTanh = 0.34

// Below seriesTanh, Slope2 takes tanh x from its series. 1/3 = third + thirdLow.
const (
	seriesTanh = 0x1p-10
	third      = 0x1.5555555555555p-2
	thirdLow   = 1./3 - third
)

// Exact returns true.
func (LogCosh) Exact() bool { return true }

// Slope2 returns Delta·tanh(r/Delta) as Scalar does, within 2⁻⁹⁰ of itself and 2⁻¹⁰⁷¹:
// docs/theory/numerics.md#numerics.slopes
func (l LogCosh) Slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	r, rl := difference(u, ul, b)
	sign := 1.0
	if r < 0 {
		r, rl, sign = -r, -rl, -1
	}
	hi, lo = r, rl
	err = 8 * tiny
	switch {
	case r < negligible*l.Delta:
	case r/l.Delta > 400:
		hi, lo = l.Delta, 0
	default:
		x, xl := quotient2(r, rl, l.Delta, 0)
		if x < seriesTanh {
			z, zl := num.Mul2(x, xl, x, xl)
			w := float64(z * (2./15 - float64(z*(17./315-float64(z*(62./2835))))))
			d, dl := num.Add2(third, thirdLow, -w, 0)
			d, dl = num.Mul2(d, dl, z, zl)
			d, dl = num.Add2(1, 0, -d, -dl)
			hi, lo = num.Mul2(x, xl, d, dl)
			err += float64(0x1p-93 * l.Delta * hi)
		} else {
			err += float64(0x1p-101 * l.Delta)
			e, el := expNeg2(2*x, 2*xl)
			m, ml := num.Add2(1, 0, -e, -el)
			d, dl := num.Add2(1, 0, e, el)
			hi, lo = num.Div2(m, ml, d, dl)
		}
		hi, lo = num.Mul2(hi, lo, l.Delta, 0)
	}
	return sign * hi, sign * lo, err + float64(0x1p-100*hi)
}

// Constants returns L and β as above, rank 1, GLM.
func (l LogCosh) Constants(bounds Bounds, radius float64) Constants {
	return glm(l, bounds, radius, bounds.Row*l.Delta*math.Tanh(reach(bounds, radius)/l.Delta), bounds.Row*bounds.Row)
}

// Envelope: with p = ‖∇ℓ‖/(Row·Delta) and t = ‖a‖/Row ≤ 1, |φ′| = Delta·p/t and
//
//	t²φ″ = t² − p² ≤ 1 − p²
func (l LogCosh) Envelope(bounds Bounds, lo, hi float64) float64 {
	p, _ := share(lo, hi, bounds.Row*l.Delta)
	return outward(bounds.Row * bounds.Row * (1 - p) * (1 + p))
}

// Interpolate returns u, the only label with φ′(u;b′) = 0, and whether it is finite.
func (LogCosh) Interpolate(u, _ float64) (label float64, ok bool) { return u, finite(u) }

// ClipPoints returns b ∓ Delta·artanh(k/Delta) for k < Delta, and ∓∞ otherwise.
func (l LogCosh) ClipPoints(b, k float64) (lo, hi float64) {
	return twoSided(b, k < l.Delta, l.Delta*math.Atanh(k/l.Delta))
}

// Check wants a positive finite Delta.
func (l LogCosh) Check() error { return positive("LogCosh.Delta", l.Delta) }
