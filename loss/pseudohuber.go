package loss

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

// PseudoHuber is a smooth relative of the Huber loss with the same L and β: with
// r = ⟨a,θ⟩−b and q = √(1+(r/Delta)²),
//
//	ℓ = Delta²(q − 1)
//	φ′ = r/q,   φ″ = q⁻³
//	L = Row·s(Row·radius + Label), s(r) = r/√(1+(r/Delta)²) < Delta
//	                      since |φ′| = s(|u−b|), and s increases
//	β = Row²              since φ″ ≤ 1
//
// The structure is GLM and the rank 1. Where the gradient is large the curvature
// is small, φ″ = (1−(φ′/Delta)²)^{3/2}, which Huber's loss, with φ″ = 1 up to the
// threshold, does not offer: linear perturbation needs less noise.
type PseudoHuber struct{ Delta float64 }

var (
	_ Interpolator = PseudoHuber{}
	_ Clippable    = PseudoHuber{}
	_ Checker      = PseudoHuber{}
	_ Envelope     = PseudoHuber{}
)

// Func returns Delta²(q−1) at ⟨a,θ⟩−b.
func (l PseudoHuber) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(prediction(theta, a), b, 0))
}

// Grad stores r/q·a in dst.
func (l PseudoHuber) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(prediction(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′, φ″ of r = u−b.
func (l PseudoHuber) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	return pseudoHuber(u-b, l.Delta)
}

// pseudoHuber returns the function with threshold k, φ′ and φ″ at r. With t = k/|r| or |r|/k, the
// one that is at most 1, and s = √(1+t²),
//
//	|r| ≥ k:  φ = k|r|/(s+t),  φ′ = ±k/s,  φ″ = (t/s)³
//	|r| < k:  φ = r²/(s+1),    φ′ = r/s,   φ″ = 1/s³
//
// In float64, for an r that is u − b rounded, t is off by 2u of it, 1 + t² by 3.5u, s by 2.75u and
// φ′ by 5u of it.
func pseudoHuber(r, k float64) (phi, dphi, d2phi float64) {
	x := math.Abs(r)
	if x < k {
		t := x / k
		s := math.Sqrt(1 + t*t)
		return x / (s + 1) * x, r / s, 1 / (s * s * s)
	}
	t := k / x
	s := math.Sqrt(1 + t*t)
	c := t / s
	return k * (x / (s + t)), math.Copysign(k/s, r), c * c * c
}

// pseudoHuber2 returns φ′ of pseudoHuber for a normalized r + rl with an error of at most 4u² of
// it, within 64u² = 2⁻¹⁰⁰ of itself and 2⁻¹⁰⁷¹: 4u² from r, 21u² from s and 16u² from the quotient;
// or 2⁻¹²¹ and those of r where t is negligible.
func pseudoHuber2(r, rl, k float64) (hi, lo, err float64) {
	x, xl, sign := r, rl, 1.0
	if r < 0 {
		x, xl, sign = -r, -rl, -1
	}
	small, smallLow, large, largeLow := x, xl, k, 0.0 // φ′ = small/s
	if x >= k {
		small, smallLow, large, largeLow = k, 0, x, xl
	}
	if small > negligible*large {
		s, sl := root2(quotient2(small, smallLow, large, largeLow))
		small, smallLow = num.Div2(small, smallLow, s, sl)
	}
	return sign * small, sign * smallLow, 0x1p-100*small + 8*tiny
}

// Exact returns true, by the comment of pseudoHuber.
func (PseudoHuber) Exact() bool { return true }

// Slope2 returns r/q within 2⁻¹⁰⁰ of itself and 2⁻¹⁰⁷¹.
func (l PseudoHuber) Slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	r, rl := difference(u, ul, b)
	return pseudoHuber2(r, rl, l.Delta)
}

// Constants returns L and β as above, rank 1, GLM.
func (l PseudoHuber) Constants(bounds Bounds, radius float64) Constants {
	slope := l.Delta
	if r := reach(bounds, radius); !math.IsInf(r, 1) {
		_, slope, _ = pseudoHuber(r, l.Delta)
	}
	return glm(l, bounds, radius, bounds.Row*slope, bounds.Row*bounds.Row)
}

// Envelope: with p = ‖∇ℓ‖/(Row·Delta) and t = ‖a‖/Row ≤ 1, |φ′| = Delta·p/t and
//
//	t²φ″ = t²(1−(p/t)²)^{3/2} = (t²−p²)^{3/2}/t ≤ (1−p²)^{3/2}
//
// because it increases with t.
func (l PseudoHuber) Envelope(bounds Bounds, lo, hi float64) float64 {
	p, _ := share(lo, hi, bounds.Row*l.Delta)
	c := (1 - p) * (1 + p)
	return outward(bounds.Row * bounds.Row * c * math.Sqrt(c))
}

// Interpolate returns u, the only label with φ′(u;b′) = 0, and whether it is finite.
func (PseudoHuber) Interpolate(u, _ float64) (label float64, ok bool) { return u, finite(u) }

// ClipPoints returns b ∓ k/√(1−(k/Delta)²) for k < Delta, and ∓∞ otherwise.
func (l PseudoHuber) ClipPoints(b, k float64) (lo, hi float64) {
	p := k / l.Delta
	return twoSided(b, k < l.Delta, k/math.Sqrt((1-p)*(1+p)))
}

// Check wants a positive finite Delta.
func (l PseudoHuber) Check() error { return positive("PseudoHuber.Delta", l.Delta) }
