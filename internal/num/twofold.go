// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num

import "math"

// The functions of this file compute with unevaluated sums hi + lo of two float64, about 106 bits
// [JMP17], [ORO05]. A pair is normalized if hi is the rounded sum. Error bounds hold where no
// product underflows and no operation overflows: docs/theory/numerics.md#numerics.pairs. The
// conversions float64(a*b) forbid the compiler to fuse a product with the sum that follows, as it
// may on some processors.

// Unit is the unit roundoff u of float64.
const Unit = 0x1p-53

// TwoSum returns s = fl(a+b) and e = a+b−s, exactly. [ORO05, Alg. 3.1]
func TwoSum(a, b float64) (s, e float64) {
	a, b = float64(a), float64(b) // an argument may be a product
	s = a + b
	t := s - a
	return s, (a - (s - t)) + (b - t)
}

// FastTwoSum is TwoSum for |a| ≥ |b|, or a = 0. [JMP17, Alg. 1]
func FastTwoSum(a, b float64) (s, e float64) {
	a, b = float64(a), float64(b)
	s = a + b
	return s, b - (s - a)
}

// TwoProd returns p = fl(ab) and e = ab−p, exactly unless e is subnormal.
func TwoProd(a, b float64) (p, e float64) {
	p = float64(a * b)
	return p, math.FMA(a, b, -p)
}

// Add2 returns a + b for two pairs, normalized, with an error of at most 3u²(|a| + |b|), where |·|
// of a pair is |hi| + |lo|/u.
func Add2(ah, al, bh, bl float64) (hi, lo float64) {
	s, e := TwoSum(ah, bh)
	return TwoSum(s, e+(al+bl))
}

// Mul2 returns ab for two normalized pairs, normalized, with an error of at most 8u²|ab|. [JMP17,
// §5]
func Mul2(ah, al, bh, bl float64) (hi, lo float64) {
	p, e := TwoProd(ah, bh)
	return FastTwoSum(p, e+(float64(ah*bl)+float64(al*bh)))
}

// Div2 returns a/b for two normalized pairs, normalized, with an error of at most 16u²|a/b|.
func Div2(ah, al, bh, bl float64) (hi, lo float64) {
	q := ah / bh
	r := math.FMA(-q, bh, ah)
	return FastTwoSum(q, (r+(al-float64(q*bl)))/bh)
}

// Sqrt2 returns √a for a normalized pair with ah > 2⁻⁹⁰⁰, or 0 for 0, normalized, with an error of
// at most 6u²√a: one step of Newton's method from the rounded √ah. [JMP17, §8]
func Sqrt2(ah, al float64) (hi, lo float64) {
	if ah == 0 {
		return 0, 0
	}
	s := math.Sqrt(ah)
	return FastTwoSum(s, (math.FMA(-s, s, ah)+al)/(2*s))
}
