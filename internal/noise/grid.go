// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
)

const (
	// limit is where integers saturate: far beyond the clamp of package draw.
	limit = 1<<62 + 1<<52

	errExponent = "noise: the exponent of a grid must lie between -1074 and 1074"
)

// step is a ratio ρ with s ≤ ρ 2^{64-e} ≤ s + slack and s in [2⁶³, 2⁶⁴).
type step struct {
	s, slack uint64
	e        int
}

// newStep returns ρ = scale/2^exponent for a positive scale.
func newStep(scale float64, exponent int) step {
	f, e := math.Frexp(scale)
	return step{s: uint64(f * 0x1p64), e: e - exponent}
}

func checkExponent(exponent int) {
	if exponent < -1074 || exponent > 1074 {
		panic(errExponent)
	}
}

// Grid fills dst with independent draws of round(σX/g), g = 2^exponent, X from N(0,1) and
// round(x) = ⌊x+½⌋. The law is exact: each integer has the probability of its cell under the real
// Gaussian law. Integers saturate at ±(2⁶²+2⁵²). A zero sigma gives zeros. It panics unless
// 0 ≤ sigma ≤ 2¹⁰⁰⁰ and |exponent| ≤ 1074.
//
// A draw takes one word, which gives σ|x|/g up to a few units of 2^{e-61}, σ/g < 2^e. If a boundary
// of rounding lies that close, with probability about 2^{e-53}, rational arithmetic decides, with
// more words where needed.
func Grid(dst []int64, sigma float64, exponent int, src rand.Source) {
	normals.grid(dst, sigma, exponent, src)
}

// LaplaceGrid fills dst with independent draws of round(X/g), X from the law with density
// e^{-|x|/scale}/(2 scale); the rest is as for Grid, panics included. X is an exponential draw with
// a fair sign. The law of |X| has no atom, so that rounding |X| is rounding X.
func LaplaceGrid(dst []int64, scale float64, exponent int, src rand.Source) {
	exponentials.grid(dst, scale, exponent, src)
}

// Gap draws ⌊cE⌋ exactly: P(Gap ≥ k) = e^{-k/c}, the law of the failures before a success of
// probability 1 - e^{-1/c}. It saturates at 2⁶²+2⁵². A zero c gives 0. It panics unless 0 ≤ c ≤
// 2¹⁰⁰⁰.
func Gap(c float64, src rand.Source) int64 {
	checkScale(c)
	u, far := exponentials.draw(src)
	if c == 0 {
		return 0
	}
	return exponentials.integer(u, far, newStep(c, 0), 0, src)
}

func (z *ziggurat) grid(dst []int64, scale float64, exponent int, src rand.Source) {
	checkScale(scale)
	checkExponent(exponent)
	if scale == 0 {
		clear(dst)
		return
	}
	rho := newStep(scale, exponent)
	for i := range dst {
		u, far := z.draw(src)
		dst[i] = signed(u, z.integer(u, far, rho, 1, src))
	}
}

// signed gives k the sign of a draw.
func signed(u uint64, k int64) int64 {
	if negative(u) {
		return -k
	}
	return k
}

// integer returns ⌊ρx + half/2⌋ for half = 0 or 1 and the draw x = (u, far).
func (z *ziggurat) integer(u uint64, far *real, rho step, half uint64, src rand.Source) int64 {
	if far == nil {
		if k, ok := z.fast(u, rho, half); ok {
			return k
		}
		far = z.real(u)
	}
	return far.integer(word(rho.s), rho.e, half, src)
}

// fast returns ⌊ρx + half/2⌋ for the draw x of the word u if u and ρ decide it: with h = ⌊m wᵢ
// 2⁻⁵⁵⌋ < 2⁶³ and q = ⌊h s 2⁻⁶⁴⌋, x 2^unit lies in [h, h + ⌊wᵢ2⁻⁵⁵⌋ + 2) and ρx 2^{unit-e} in [q, q
// + ⌊wᵢ2⁻⁵⁵⌋ + 3 + slack).
func (z *ziggurat) fast(u uint64, rho step, half uint64) (k int64, ok bool) {
	w := z.layer[u&(layers-1)].width
	h, _ := bits.Mul64(u&^(1<<(64-fraction)-1), w)
	q, _ := bits.Mul64(h, rho.s)
	sh := uint(int(z.unit) - rho.e)
	if sh-1 >= 63 {
		return 0, false
	}
	q += half << (sh - 1)
	lo, hi := q>>sh, (q+w>>fraction+3+rho.slack)>>sh
	return int64(lo), lo == hi
}

// integer returns ⌊x s 2^{e-64} + half/2⌋, at most limit. It draws words until the known bits of x
// decide.
func (x *real) integer(s *big.Int, e int, half uint64, src rand.Source) int64 {
	for try := 1; ; try++ {
		lo := x.at(0)
		hi := new(big.Int).Add(lo, x.slope)
		hi.Mul(hi, s).Sub(hi, one) // U < 1: the upper end itself is not reached
		lo.Mul(lo, s)
		e2 := e - 64 - int(x.scale()) + 1 // of twice the number
		a, b := roundHalf(shift(lo, e2), half), roundHalf(shift(hi, e2), half)
		if a == b {
			return a
		}
		x.more(src)
		giveUp(try, maxWords, src)
	}
}

// roundHalf returns ⌊(⌊2z⌋ + half)/2⌋, which is ⌊z + half/2⌋, at most limit.
func roundHalf(z2 *big.Int, half uint64) int64 {
	k := new(big.Int).Add(z2, word(half))
	if k.Rsh(k, 1).BitLen() > 63 {
		return limit
	}
	return min(k.Int64(), limit)
}
