// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"fmt"
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/enclose"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/num"
)

// Output is the grid and the noise of a release, fixed from public quantities.
type Output struct {
	Noise       // the law of ν: Gaussian, or for pure mechanisms of density ∝ exp(−a‖ν‖)
	Dim         int
	Cover       float64 // R: θ̂ lies within it of the exact minimizer
	Sensitivity float64 // S′ = S + g√d in the Euclidean norm; ν hides it
	// Finite: the release is pure, lies in a finite set, and is a uniform point of it with probability
	// 2⁻⁶⁴ (see Events of the noise).
	Finite bool
}

const (
	// gridBits: g√d is at most 2⁻²⁰ of the sensitivity, unless pointBits asks for more.
	gridBits = 20
	// pointBits: the minimizer has less than 2⁵⁹ steps of the grid.
	pointBits = 59
	// SafeScale multiplies scales of noise: closed forms are exact to 1e-12.
	SafeScale = 1 + 1e-9
	// mostPoint clamps k = round(θ̂/g), which never binds.
	mostPoint = 1 << 60
	// mostFinite is K, the clamp of a release with a coin.
	mostFinite = 1 << 60
	// Points is a bound on 2K + 1, the values of a coordinate of such a release.
	Points = 0x1p61 * (1 + 0x1p-52)
	// largest scale or rate of noise and the inverse of the least.
	largest = 0x1p400
)

// NewOutput returns the grid for points in ℝᵈ whose exact values lie within reach of
// the origin and are at most apart from one another on neighboring data sets, each
// released point within cover of the exact one:
//
//	S = apart + 2R,   g = max{ 2^(⌊log₂(S/√d)⌋ − 20), 2^(⌈log₂ ρ⌉ − 59) },   S′ = S + g√d
//
// The second part of the maximum keeps round(θ̂/g) within int64; as R ≥ 2⁻⁵¹ρ (erm.Public.Floor),
// g√d ≤ 2⁻⁸√d·S. The error wraps dp.ErrCondition where S leaves the range of float64.
func NewOutput(dim int, cover, apart, reach float64) (Output, error) {
	s := apart + 2*cover
	if !(cover > 0 && s > 1/largest && s < largest && reach >= 0 && reach < largest) {
		return Output{}, fmt.Errorf("%w: Cover = %v, a distance of %v between the minimizers of neighbors and minimizers "+
			"within %v leave the range of float64: rescale the problem",
			dp.ErrCondition, cover, apart, reach)
	}
	o := gridOf(dim, math.Sqrt(float64(dim)), s, reach)
	o.Cover = cover
	return o, nil
}

// gridOf returns the grid for a distance of s in a norm in which (1, …, 1) has the norm root.
func gridOf(dim int, root, s, reach float64) Output {
	_, e := math.Frexp(s / root)
	e -= 1 + gridBits
	if reach > 0 {
		_, top := math.Frexp(reach)
		e = max(e, top-pointBits)
	}
	o := Output{Noise: Noise{Exponent: e}, Dim: dim}
	o.Sensitivity = (s + o.Grid()*root) * SafeScale
	return o
}

// For returns o with the least noise for b: Gaussian, or for δ = 0 of density
// ∝ exp(−a‖ν‖), a = ε/S′.
func (o Output) For(b dp.Budget) (Output, error) {
	if b.Delta == 0 {
		o.Rate = b.Epsilon / o.Sensitivity / SafeScale
		return o, b.Check()
	}
	sigma, err := dp.GaussianSigma(b, o.Sensitivity)
	o.Sigma = sigma
	return o, err
}

// Proves reports whether the noise of o is certainly within b: δ_G(ε; S′/σ) ≤ δ, or aS′ ≤ ε.
func (o Output) Proves(b dp.Budget) bool {
	return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		if o.Rate > 0 {
			return c.Mul(c.Of(o.Rate), c.Of(o.Sensitivity)), c.Of(b.Epsilon)
		}
		return c.GaussianDelta(c.Of(b.Epsilon), c.Quo(c.Of(o.Sensitivity), c.Of(o.Sigma))), c.Of(b.Delta)
	})
}

// Shift returns S′/σ of Gaussian noise.
func (o Output) Shift() float64 { return o.Sensitivity / o.Sigma }

// Mean returns a bound on E‖ν‖: σ√d, or d/a.
func (o Output) Mean() float64 {
	d := float64(o.Dim)
	if o.Rate > 0 {
		return d / o.Rate
	}
	return o.Sigma * math.Sqrt(d)
}

// MostRadial returns B_max for linear noise of density ∝ exp(−rate‖b‖) in a release
// that is Finite: ‖b‖·rate is Gamma(d) distributed, and by Chernoff's bound
//
//	P(‖b‖ > x/rate) ≤ exp(−(x − d − d ln(x/d))) ≤ (e^ε−1)/(e^ε+1) · γ/(2K+1)^d
func MostRadial(dim int, eps, rate float64) float64 {
	return mostRadial(dim, eps, rate, 2*mostFinite+1, CoinBits)
}

// mostRadial is MostRadial for a grid of side points in each coordinate and γ = 2^−bits.
func mostRadial(dim int, eps, rate, side, bits float64) float64 {
	d := float64(dim)
	need := d*math.Log(side) + bits*math.Ln2 + math.Log1p(2/math.Expm1(eps)) + 1
	x := 2 * d
	for range 200 { // x = need + d + d·log(x/d) is a contraction for x > d
		x = need + d + d*num.Log(x/d)
	}
	return x * (1 + 1e-9) / rate
}

// MostNormal returns B_max for linear noise N(0, σ²I): by Gaussian concentration
//
//	P(‖b‖ > σ(√d + t)) ≤ e^{−t²/2} = p,   t = √(2(ε + ln(1/δ) + 41))
//
// and p, for which (1+e^ε)p ≤ 2⁻⁵⁷δ.
func MostNormal(dim int, b dp.Budget, sigma float64) (most, p float64) {
	half := b.Epsilon - num.Log(b.Delta) + 41
	return sigma * (math.Sqrt(float64(dim)) + math.Sqrt(2*half)) * SafeScale, math.Exp(-half)
}

// ProvesFailure reports whether δ pays for a part of it and for the failures of a number of steps,
// each with a relative 1e-9 of room for the rounding of their bounds:
//
//	part + 2·steps·(1+e^ε)·e^{−t²/2} ≤ δ,   B_max = σ(√d + t)
func ProvesFailure(dim, steps int, b dp.Budget, part float64) bool {
	most, _ := MostNormal(dim, b, 1)
	return enclose.Proves(nil, func(c enclose.Arithmetic) (less, more enclose.Interval) {
		return c.Add(c.Of(part), c.Mul(c.Of(2*float64(steps)), Failure(c, dim, b.Epsilon, c.Of(most)))), c.Of(b.Delta)
	})
}

// Failure encloses (1+e^ε)e^{−t²/2} for ‖b‖ > σ(√d+t) = σ·most; t = 0 where that is negative.
func Failure(c enclose.Arithmetic, dim int, eps float64, most enclose.Interval) enclose.Interval {
	t := c.Most(c.Of(0), c.Sub(most, c.Sqrt(c.Of(float64(dim)))))
	return c.Mul(c.Add(c.Of(1), c.Exp(c.Of(eps))), c.Exp(c.Sub(c.Of(0), c.Quo(c.Square(t), c.Of(2)))))
}

// coin reports whether a Finite release is to be a uniform point.
func (o Output) coin(src rand.Source) bool { return o.Finite && Coin(CoinBits, src) }

// add replaces θ by g·(round(θ/g) + round(ν/g)). A Finite release that failed becomes a uniform
// point.
func (o Output) add(f *fault.Set, theta []float64, failed bool, src rand.Source) {
	k, nu := make([]int64, o.Dim), make([]int64, o.Dim)
	most := int64(Most)
	defer clear(nu)
	if o.Finite {
		most = mostFinite
	}
	if o.Finite && failed {
		Uniform(k, most, src)
	} else {
		o.Fill(nu, src)
		nu = fault.At(f, OutputNoise, nu)
		k = fault.At(f, Rounded, o.Round(theta, mostPoint))
	}
	o.AddWithin(most, theta, k, nu)
}
