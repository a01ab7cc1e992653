package noise

import (
	"math"
	"math/bits"
	"math/rand/v2"
)

const (
	// maxExponent ends the search for a one bit: P(k > 900) = 2⁻⁹⁰⁰.
	maxExponent = 900

	// maxTries ends a rejection loop whose single try fails with probability
	// at most 1/8: P(all fail) < 2⁻³⁰⁰⁰.
	maxTries = 1000

	maxScale = 0x1p1000 // larger scales would overflow in the last product

	errStuck = "noise: the source of randomness repeats itself"
	errScale = "noise: scale must lie between 0 and 2^1000"
)

// fullRange draws U = s 2⁻⁶⁴ 2⁻ᵏ, uniform on (0,1) with 64 significant bits in
// each binade: P(k) = 2⁻ᵏ⁻¹ and, independent of it, s uniform on [2⁶³, 2⁶⁴).
// spare holds nine more independent bits.
func fullRange(src rand.Source) (s uint64, k int, spare uint64) {
	b := src.Uint64()
	s = src.Uint64() | 1<<63
	spare, b = b&0x1ff, b>>9
	if b == 0 {
		return s, longExponent(src), spare
	}
	return s, bits.LeadingZeros64(b) - 9, spare
}

// longExponent continues k after 55 zero bits.
func longExponent(src rand.Source) int {
	for k := 55; k < maxExponent; k += 64 {
		if b := src.Uint64(); b != 0 {
			return k + bits.LeadingZeros64(b)
		}
	}
	return maxExponent
}

// pow2 returns 2ᵉ for -1022 ≤ e ≤ 1023.
func pow2(e int) float64 { return math.Float64frombits(uint64(1023+e) << 52) }

// split returns h 2ᵉ as hi + lo, for h < 2⁶³.
func split(h uint64, e int) (hi, lo float64) {
	f := float64(int64(h))
	p := pow2(e)
	return f * p, float64(int64(h)-int64(f)) * p
}

// scaled returns c (hi + lo), rounded once from an error below 2⁻¹⁰⁰ c hi.
func scaled(c, hi, lo float64) float64 {
	p := c * hi
	return p + (math.FMA(c, hi, -p) + c*lo)
}

// sum returns a + b + c as hi + lo; the first addition is exact (Knuth).
func sum(a, b, c float64) (hi, lo float64) {
	hi = a + b
	z := hi - a
	return hi, (a - (hi - z)) + (b - z) + c
}

// times returns (a + alo)(b + blo) as hi + lo.
func times(a, alo, b, blo float64) (hi, lo float64) {
	hi = a * b
	return hi, math.FMA(a, b, -hi) + (a*blo + alo*b)
}

// over returns (a + alo)/b as hi + lo.
func over(a, alo, b float64) (hi, lo float64) {
	hi = a / b
	return hi, (math.FMA(-hi, b, a) + alo) / b // the remainder is exact
}

// checkScale panics unless 0 ≤ c ≤ 2¹⁰⁰⁰.
func checkScale(c float64) {
	if !(c >= 0 && c <= maxScale) {
		panic(errScale)
	}
}

// Uniform draws from the uniform law on the open interval (0,1): an exponent k
// with P(k) = 2⁻ᵏ⁻¹ and 53 fresh significant bits. Every float64 in (2⁻⁹⁰⁰, 1)
// occurs with probability equal to its distance from the next larger one.
func Uniform(src rand.Source) float64 {
	s, k, _ := fullRange(src)
	return float64(int64(s>>11)) * pow2(-53-k)
}
