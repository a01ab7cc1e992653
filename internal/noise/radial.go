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
// (docs/theory/release.md#release.radial). 2G has the χ² law of d+1 degrees of freedom: twice a sum
// of exponential draws, plus the square of a normal draw for even d.
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

// chi is a draw from the χ² law: 2(E₁ + E₂ + …), plus z² if normal is not nil.
type chi struct {
	exponential []*real
	normal      *real
	digits      uint // even: brackets are in units of 2^-digits
}

// newChi draws from the χ² law with n degrees of freedom, each term with two words or more.
func newChi(n int, src rand.Source) *chi {
	c := &chi{exponential: make([]*real, n/2)}
	for i := range c.exponential {
		c.exponential[i] = exponentials.number(src)
	}
	if n%2 == 1 {
		c.normal = normals.number(src)
	}
	c.more(src)
	return c
}

// number draws a real.
func (z *ziggurat) number(src rand.Source) *real {
	u, far := z.draw(src)
	if far == nil {
		far = z.real(u)
	}
	return far
}

// more appends one word to each term.
func (c *chi) more(src rand.Source) {
	for _, e := range c.exponential {
		e.more(src)
	}
	if c.normal != nil {
		c.normal.more(src)
	}
	c.digits += 128
}

// bracket returns bounds of the draw in units of 2^-digits.
func (c *chi) bracket() (lo, hi *big.Int) {
	lo, hi = new(big.Int), new(big.Int)
	add := func(a, b *big.Int, e int) { // a 2ᵉ and b 2ᵉ
		lo.Add(lo, shift(a, e))
		hi.Add(hi, shift(b, e)).Add(hi, one)
	}
	for _, x := range c.exponential {
		add(x.at(0), x.at(1), int(c.digits)+1-int(x.scale()))
	}
	if x := c.normal; x != nil {
		a, b := x.at(0), x.at(1)
		add(a.Mul(a, a), b.Mul(b, b), int(c.digits)-2*int(x.scale()))
	}
	return lo, hi
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
