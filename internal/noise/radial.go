// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"math"
	"math/big"
	"math/rand/v2"
)

const errRate = "noise: rate must lie between 2^-900 and 2^900"

// RadialGrid fills dst with round(b/g) in every coordinate, g = 2^exponent, b from the law on ℝᵈ,
// d = len(dst), with density ∝ exp(-rate ‖b‖₂). The law is exact; integers saturate as for Grid. It
// panics unless 2⁻⁹⁰⁰ ≤ rate ≤ 2⁹⁰⁰ and |exponent| ≤ 1074.
//
// b = z√(2G)/rate, z from N(0, I) and G from Gamma((d+1)/2)
// (docs/theory/release.md#release.radial). 2G has the χ² law of d+1 degrees of freedom.
func RadialGrid(dst []int64, rate float64, exponent int, src rand.Source) {
	if !(rate >= 0x1p-900 && rate <= 0x1p900) {
		panic(errRate)
	}
	checkExponent(exponent)
	if len(dst) == 0 {
		return
	}
	r := newRadius(len(dst), rate, exponent, src)
	rho := r.step(src)
	for i := range dst {
		u, far := normals.draw(src)
		if far == nil {
			if k, ok := normals.fast(u, rho, 1); ok {
				dst[i] = signed(u, k)
				continue
			}
			far = normals.real(u)
		}
		dst[i] = signed(u, r.integer(far, src))
	}
}

// radius is √(2G)/(rate g) with 2G = chi and (rate g)² = rate2·4ᵉ.
type radius struct {
	*chi
	rate2 *big.Int
	e     int
}

// newRadius draws the radius in dimension d for g = 2^exponent.
func newRadius(d int, rate float64, exponent int, src rand.Source) *radius {
	f, e := math.Frexp(rate)
	a := word(uint64(f * 0x1p53))
	return &radius{chi: newChi(d+1, src), rate2: a.Mul(a, a), e: e - 53 + exponent}
}

// step draws words until both ends of the radius agree to one unit of their first 64 bits.
func (r *radius) step(src rand.Source) step {
	const room = 256 // more bits, for the division and the root
	for try := 1; ; try++ {
		lo, hi := r.bracket() // r = √(chi 2^-digits/rate2) 2⁻ᵉ
		lo.Lsh(lo, room).Quo(lo, r.rate2).Sqrt(lo)
		hi.Lsh(hi, room).Quo(hi, r.rate2).Sqrt(hi)
		n := lo.BitLen() - 64
		s := shift(lo, -n)
		if hi.Add(shift(hi, -n), one).Sub(hi, s).Cmp(big.NewInt(2)) <= 0 {
			return step{s: s.Uint64(), slack: 2, e: n + 64 - (room+int(r.digits))/2 - r.e}
		}
		r.more(src)
		giveUp(try, maxWords, src)
	}
}

// integer returns round(|z| r) by z²r² in rational numbers. It draws words of z and of r until
// their known bits decide.
func (r *radius) integer(z *real, src rand.Source) int64 {
	for try := 1; ; try++ {
		lo, hi := r.bracket()
		a, b := r.round(z.at(0), lo, z.scale()), r.round(z.at(1), hi, z.scale())
		if a == b {
			return a
		}
		z.more(src)
		r.more(src)
		giveUp(try, maxWords, src)
	}
}

// round returns ⌊y + ½⌋ = ⌊(⌊√⌊4y²⌋⌋ + 1)/2⌋, at most limit, for y = z 2^-scale √(chi
// 2^-digits/rate2) 2⁻ᵉ.
func (r *radius) round(z, chi *big.Int, scale uint) int64 {
	y := z.Mul(z, z)
	y.Mul(y, chi)
	y = shift(y, 2-2*int(scale)-int(r.digits)-2*r.e)
	y.Quo(y, r.rate2)
	return roundHalf(y.Sqrt(y), 1)
}
