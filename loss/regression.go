// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss

import (
	"math"

	"github.com/privopt/privopt/internal/num"
)

// Squared is the least-squares loss ½(⟨a,θ⟩−b)².
//
//	φ(u;b) = ½(u−b)²,   φ′ = u−b,   φ″ = 1
//	L = Row·(Row·radius + Label)   since ‖∇ℓ‖ = |u−b|‖a‖ and |u| ≤ ‖a‖‖θ‖
//	β = Row²                       since ∇²ℓ = a aᵀ
//
// On an unbounded domain L = +Inf: clip the loss or bound the domain.
type Squared struct{}

// Func returns ½(⟨a,θ⟩−b)².
func (Squared) Func(theta, a []float64, b float64) float64 {
	r := dot(theta, a) - b
	return r * r / 2
}

// Grad stores (⟨a,θ⟩−b)·a in dst.
func (Squared) Grad(dst, theta, a []float64, b float64) { along(dst, dot(theta, a)-b, a) }

// Scalar returns ½(u−b)², u−b and 1.
func (Squared) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	r := u - b
	return r * r / 2, r, 1
}

func (Squared) slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	hi, lo = difference(u, ul, b)
	return hi, lo, 4 * unit * unit * math.Abs(hi)
}

// Constants returns L and β as above, rank 1, LSQ. Range is ½(Row·radius+Label)².
func (l Squared) Constants(bounds Bounds, radius float64) Constants {
	r := reach(bounds, radius)
	return rounded(l, bounds, radius, Constants{
		Lipschitz: bounds.Row * r, Smoothness: bounds.Row * bounds.Row, Range: r * r / 2, Rank: 1, Structure: LSQ,
	})
}

// Interpolate returns u, the only label with φ′(u;b′) = 0, and whether it is finite.
func (Squared) Interpolate(u, _ float64) (label float64, ok bool) { return u, finite(u) }

// ClipPoints returns b ∓ k.
func (Squared) ClipPoints(b, k float64) (lo, hi float64) { return b - k, b + k }

// Huber is the Huber loss with threshold Delta: with r = ⟨a,θ⟩−b,
//
//	ℓ = ½r² where |r| ≤ Delta,   Delta·|r| − ½Delta² elsewhere
//	φ′ = P_[−Delta,Delta](r),    φ″ = 1 where |r| ≤ Delta, 0 elsewhere
//	L = Row·min(Delta, Row·radius + Label),   β = Row²
type Huber struct{ Delta float64 }

// Func returns the Huber function of ⟨a,θ⟩−b.
func (l Huber) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, 0))
}

// Grad stores P_[−Delta,Delta](⟨a,θ⟩−b)·a in dst.
func (l Huber) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, 0)), a)
}

// Scalar returns φ, φ′, φ″ of r = u−b.
func (l Huber) Scalar(u, b, _ float64) (phi, dphi, d2phi float64) {
	r := u - b
	if math.Abs(r) <= l.Delta {
		return r * r / 2, r, 1
	}
	return l.Delta * (math.Abs(r) - l.Delta/2), math.Copysign(l.Delta, r), 0
}

func (l Huber) slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	hi, lo, err = Squared{}.slope2(u, ul, b, 0)
	return clamp2(hi, lo, err, l.Delta)
}

// Constants returns L and β as above, rank 1, GLM. Range is the Huber function of Row·radius+Label.
func (l Huber) Constants(bounds Bounds, radius float64) Constants {
	r := reach(bounds, radius)
	return rounded(l, bounds, radius, Constants{
		Lipschitz: bounds.Row * min(l.Delta, r), Smoothness: bounds.Row * bounds.Row, Range: min(r*r/2, l.Delta*r),
	})
}

// Interpolate returns u, the only label with φ′(u;b′) = 0, and whether it is finite.
func (Huber) Interpolate(u, _ float64) (label float64, ok bool) { return u, finite(u) }

// ClipPoints returns b ∓ k for k < Delta, and ∓∞ otherwise.
func (l Huber) ClipPoints(b, k float64) (lo, hi float64) { return twoSided(b, k < l.Delta, k) }

// Check wants a positive finite Delta.
func (l Huber) Check() error { return positive("Huber.Delta", l.Delta) }

// PseudoHuber is a smooth relative of the Huber loss with the same β: with r = ⟨a,θ⟩−b and
// q = √(1+(r/Delta)²),
//
//	ℓ = Delta²(q − 1),   φ′ = r/q,   φ″ = q⁻³ = (1−(φ′/Delta)²)^{3/2}
//	L = Row·s(Row·radius + Label),   s(r) = r/√(1+(r/Delta)²) < Delta
//	β = Row²
//
// Its curvature is small where its gradient is large, unlike that of [Huber], so linear
// perturbation needs less noise.
type PseudoHuber struct{ Delta float64 }

// Func returns Delta²(q−1).
func (l PseudoHuber) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, 0))
}

// Grad stores r/q·a in dst.
func (l PseudoHuber) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, 0)), a)
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
	x, xl := r, rl
	sign := 1.0
	if r < 0 {
		x, xl = -r, -rl
		sign = -1
	}
	small, smallLow := x, xl
	large, largeLow := k, 0.0 // φ′ = small/s
	if x >= k {
		small, smallLow = k, 0
		large, largeLow = x, xl
	}
	if small > negligible*large {
		s, sl := root2(quotient2(small, smallLow, large, largeLow))
		small, smallLow = num.Div2(small, smallLow, s, sl)
	}
	return sign * small, sign * smallLow, 0x1p-100*small + 8*tiny
}

func (l PseudoHuber) slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	r, rl := difference(u, ul, b)
	return pseudoHuber2(r, rl, l.Delta)
}

// Constants returns L and β as above, rank 1, GLM.
func (l PseudoHuber) Constants(bounds Bounds, radius float64) Constants {
	slope := l.Delta
	if r := reach(bounds, radius); !math.IsInf(r, 1) {
		_, slope, _ = pseudoHuber(r, l.Delta)
	}
	return rounded(l, bounds, radius, Constants{Lipschitz: bounds.Row * slope, Smoothness: bounds.Row * bounds.Row})
}

// Envelope: with p = ‖∇ℓ‖/(Row·Delta) and t = ‖a‖/Row ≤ 1, |φ′| = Delta·p/t and
//
//	t²φ″ = t²(1−(p/t)²)^{3/2} = (t²−p²)^{3/2}/t ≤ (1−p²)^{3/2}
//
// because it increases with t.
func (l PseudoHuber) Envelope(bounds Bounds, lo, hi float64) float64 {
	return pseudoHuberEnvelope(bounds, lo, hi, bounds.Row*l.Delta)
}

// pseudoHuberEnvelope returns Row²(1−p²)^{3/2} for gradients of norm lo = p·largest or more.
func pseudoHuberEnvelope(bounds Bounds, lo, hi, largest float64) float64 {
	p, _ := share(lo, hi, largest)
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

// LogCosh is a smooth relative of the Huber loss with the same β: with r = ⟨a,θ⟩−b,
//
//	ℓ = Delta² log cosh(r/Delta)
//	φ′ = Delta·tanh(r/Delta),   φ″ = 1 − tanh²(r/Delta) = 1−(φ′/Delta)²
//	L = Row·Delta·tanh((Row·radius + Label)/Delta),   β = Row²
//
// Its curvature is small where its gradient is large, unlike that of [Huber], so linear
// perturbation needs less noise.
type LogCosh struct{ Delta float64 }

// Func returns Delta² log cosh((⟨a,θ⟩−b)/Delta) without overflow.
func (l LogCosh) Func(theta, a []float64, b float64) float64 {
	return value(l.Scalar(dot(theta, a), b, 0))
}

// Grad stores Delta·tanh((⟨a,θ⟩−b)/Delta)·a in dst.
func (l LogCosh) Grad(dst, theta, a []float64, b float64) {
	along(dst, slope(l.Scalar(dot(theta, a), b, 0)), a)
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

const (
	// smallTanh is the x from which on tanh x is computed from e^{−2x} itself.
	smallTanh = 0.34
	// seriesTanh is the x below which slope2 computes tanh x from its series.
	seriesTanh = 0x1p-10
	// 1/3 = third + thirdLow
	third    = 0x1.5555555555555p-2
	thirdLow = 1./3 - third
)

// slope2 returns φ′ within 2⁻⁹⁰|φ′| + 2⁻¹⁰⁷¹: docs/theory/numerics.md#numerics.slopes
func (l LogCosh) slope2(u, ul, b, _ float64) (hi, lo, err float64) {
	r, rl := difference(u, ul, b)
	sign := 1.0
	if r < 0 {
		r, rl = -r, -rl
		sign = -1
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
	return rounded(l, bounds, radius, Constants{
		Lipschitz: bounds.Row * l.Delta * math.Tanh(reach(bounds, radius)/l.Delta), Smoothness: bounds.Row * bounds.Row,
	})
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
