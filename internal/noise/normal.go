// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package noise

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

const (
	maxScale   = 0x1p1000 // larger scales would overflow in the last product
	maxDegrees = 1 << 16

	errScale   = "noise: scale must lie between 0 and 2^1000"
	errDegrees = "noise: degrees of freedom must lie between 1 and 2^16"
)

// checkScale panics unless 0 ≤ c ≤ 2¹⁰⁰⁰.
func checkScale(c float64) {
	if !(c >= 0 && c <= maxScale) {
		panic(errScale)
	}
}

// Normal fills dst with independent draws from N(0, σ²). A zero sigma gives zeros. It panics unless
// 0 ≤ sigma ≤ 2¹⁰⁰⁰. Each result is within a relative 2⁻⁵²(1+2⁻⁵) of a real number of exactly that
// law, or within 2⁻¹⁰⁷⁴ where it is below 2⁻¹⁰²². The floats are no private noise; use Grid.
func Normal(dst []float64, sigma float64, src rand.Source) {
	checkScale(sigma)
	for i := range dst {
		u, x := normals.float(src)
		dst[i] = withSign(u, sigma*x)
	}
}

// Normals fills dst with independent draws from N(0,1), most of them with one word: each result is
// within 2⁻⁵⁴(1+2⁻⁵) + 2⁻⁵³|x| of a real number x of exactly that law. They are no private noise by
// themselves; use Grid.
func Normals(dst []float64, src rand.Source) {
	for i := range dst {
		u, far := normals.draw(src)
		x := float64(middle(u)) * 0x1p-61
		if far != nil {
			x = far.float(src)
		}
		dst[i] = withSign(u, x)
	}
}

// Exponential draws from the law with density e⁻ˣ on x > 0, within a relative 2⁻⁵³(1+2⁻⁵) of a real
// number of that law.
func Exponential(src rand.Source) float64 {
	_, x := exponentials.float(src)
	return x
}

// withSign gives x ≥ 0 the sign of a draw.
func withSign(u uint64, x float64) float64 {
	return math.Float64frombits(math.Float64bits(x) | u&layers<<55)
}

// float draws |x| within 2⁻⁵³(1+2⁻⁵) relative, and the word u with its sign. A second word gives
// 119 bits of U: s holds the first 64 from the leading one on, p the first 63 bits of s·wᵢ, with a
// relative error of 2⁻⁶¹.
func (z *ziggurat) float(src rand.Source) (u uint64, x float64) {
	u, far := z.draw(src)
	if far != nil {
		return u, far.float(src)
	}
	v := src.Uint64()
	top := u&^(1<<(64-fraction)-1) | v>>fraction
	zeros := bits.LeadingZeros64(top)
	if zeros > fraction {
		far = z.real(u)
		far.join(v)
		return u, far.float(src)
	}
	s := top<<zeros | v<<(64-fraction)>>(64-zeros)
	hi, lo := bits.Mul64(s, z.layer[u&(layers-1)].width)
	n := bits.LeadingZeros64(hi) - 1 // ≥ 0: wᵢ < 2⁶³
	p := hi<<n | lo>>(64-n)
	return u, float64(int64(p)) * pow2(-int(z.unit)-zeros-n)
}
