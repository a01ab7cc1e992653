// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"math"
	"math/rand/v2"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
)

// Open returns the source of one release and the certificate of that release. A nil src stands for
// a new secure source. Any other src is watched, and the certificate gets the assumption
// dp.CallerSource. Err of the returned source must be nil after the last draw, or else nothing may
// be released.
func Open(src rand.Source, cert dp.Certificate) (noise.Source, dp.Certificate) {
	if src == nil {
		return noise.Secure(), cert
	}
	return noise.Watch(src), cert.With(dp.CallerSource)
}

// Most bounds the integers of a release. Integers of noise saturate at 2⁶² + 2⁵². Added to a k of
// at most Most in size and clamped at ±Most, they give the same sum as noise that does not
// saturate.
const Most = 1 << 61

// Noise is a law of integers: round(ν/g) in each coordinate, for real noise ν and g = 2^Exponent.
// The sum of integers k from the records and round(ν/g) is exact and has the law of round(k + ν/g),
// so that a release is as private as the real gk + ν: docs/theory/release.md#release.grid
type Noise struct {
	Exponent int
	Sigma    float64 // standard deviation of a Gaussian ν; 0 for none
	Rate     float64 // if positive, ν has the density ∝ exp(−Rate·‖ν‖) in place of the Gaussian one
	Laplace  float64 // if positive, ν has the density ∝ exp(−‖ν‖₁/Laplace) in place of both
}

// Grid returns g.
func (n Noise) Grid() float64 { return math.Ldexp(1, n.Exponent) }

// Fill fills nu with a draw from the law, which is exact (docs/theory/release.md#release.integers).
func (n Noise) Fill(nu []int64, src rand.Source) {
	switch {
	case n.Laplace > 0:
		noise.LaplaceGrid(nu, n.Laplace, n.Exponent, src)
	case n.Rate > 0:
		noise.RadialGrid(nu, n.Rate, n.Exponent, src)
	default:
		noise.Grid(nu, n.Sigma, n.Exponent, src)
	}
}

// Round returns round(x/g), clamped at ±most, which does not expand distances; 0 for NaN. Halves
// may go either way: the result is an integer within ½ of x/g.
func (n Noise) Round(x []float64, most int64) []int64 {
	k := make([]int64, len(x))
	for i, v := range x {
		if v = math.RoundToEven(math.Ldexp(v, -n.Exponent)); v == v {
			k[i] = int64(min(max(v, -float64(most)), float64(most)))
		}
	}
	return k
}

// Add stores g·(k + nu) in dst, with the sums of integers clamped at ±Most. |k| is at most Most.
func (n Noise) Add(dst []float64, k, nu []int64) { n.AddWithin(Most, dst, k, nu) }

// AddWithin is Add with another clamp of at most Most.
func (n Noise) AddWithin(most int64, dst []float64, k, nu []int64) {
	g := n.Grid()
	for i := range dst {
		dst[i] = g * float64(min(max(k[i]+nu[i], -most), most))
	}
}

// CoinBits is the number of fair bits that the coin of a pure guarantee takes: its probability is
// 2⁻⁶⁴. Where no δ can pay for rare events of the noise, it does:
// docs/theory/release.md#release.coin
const CoinBits = 64

// Coin reports, with probability 2^−bits, that a release is to be a point that no record enters. It
// takes one word, and none for 0 bits, which mean no coin.
func Coin(bits int, src rand.Source) bool {
	return bits > 0 && src.Uint64()>>(64-min(bits, 64)) == 0
}

// Uniform fills k with independent uniform integers of [−most, most].
func Uniform(k []int64, most int64, src rand.Source) {
	rnd := rand.New(src) // Int64N is exact for a uniform source
	for i := range k {
		k[i] = rnd.Int64N(2*most+1) - most
	}
}
