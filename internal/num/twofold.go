package num

import "math"

// The functions of this file compute with unevaluated sums hi + lo of two float64, about 106 bits,
// [JMP17], [ORO05]. u is the unit roundoff 2⁻⁵³, fl the result of one rounded operation.
//
// A pair is normalized if hi = fl(hi+lo), so that |lo| ≤ u|hi|(1+u). Error bounds hold where no
// product underflows and no operation overflows. The conversions float64(a*b) forbid the compiler to
// fuse a product with the sum that follows, as it may on some processors: error-free
// transformations need the rounded product.

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

// Add2 returns a + b for two pairs, normalized. With |a|, |b| the sums |hi| + |lo|/u of
// the arguments the error is at most 3u²(|a| + |b|): the exact sum is s + e + al + bl with
// |e| ≤ u|s|; al+bl is rounded by at most u(|al|+|bl|) and e + fl(al+bl) by
// u(|e|+|al|+|bl|)(1+u), and the last sum is exact. For normalized pairs |a| ≤ 2|ah|.
func Add2(ah, al, bh, bl float64) (hi, lo float64) {
	s, e := TwoSum(ah, bh)
	return TwoSum(s, e+(al+bl))
}

// Mul2 returns ab for two normalized pairs, normalized, with an error of at most
// 8u²|ab|: al·bl is left out, u²|ab|(1+u)²; the two cross products and their sum are
// rounded, each by at most u²|ab|(1+u)² and 2u²|ab|(1+u)³; so is the sum with the error of
// ah·bh, 3u²|ab|(1+u)³. [JMP17, §5]
func Mul2(ah, al, bh, bl float64) (hi, lo float64) {
	p, e := TwoProd(ah, bh)
	return FastTwoSum(p, e+(float64(ah*bl)+float64(al*bh)))
}

// Div2 returns a/b for two normalized pairs, normalized, with an error of at most
// 16u²|a/b|. With q = fl(ah/bh), |q| ≤ |a/b|(1+4u), the quotient is q + (a − qb)/b, and
// ah − q·bh is a float64, which FMA gives without error. What is left out or rounded
// is, in units of u²|a/b|: the product q·bl, 1; al − q·bl, 2; its sum with ah − q·bh, of
// at most u|a| + 2u|a|, 3; the quotient by bh instead of b, 3; its rounding, 3. The
// excess of 16 over these 12 covers terms of order u³.
func Div2(ah, al, bh, bl float64) (hi, lo float64) {
	q := ah / bh
	r := math.FMA(-q, bh, ah)
	return FastTwoSum(q, (r+(al-float64(q*bl)))/bh)
}

// Sqrt2 returns √a for a normalized pair with ah > 2⁻⁹⁰⁰, or 0 for 0, normalized, with an error of at
// most 6u²√a: one step of Newton's method from s = fl(√ah). As |s − √ah| ≤ us and ah − s² is a
// float64, which FMA gives without error, ρ = a − s² has at most 3u·s²(1+3u) and √a = s + δ with
// δ = ρ/2s − δ²/2s, |δ| ≤ 1.5u·s(1+4u). What is left out or rounded is, in units of u²s: δ²/2s,
// 1.13; the sum ρ, 1.5; its quotient, 1.5. The excess of 6 over these 4.2 covers terms of order
// u³ and that of s over √a. [JMP17, §8]
func Sqrt2(ah, al float64) (hi, lo float64) {
	if ah == 0 {
		return 0, 0
	}
	s := math.Sqrt(ah)
	return FastTwoSum(s, (math.FMA(-s, s, ah)+al)/(2*s))
}
