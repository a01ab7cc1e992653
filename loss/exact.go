// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss

import (
	"math"
	"math/big"

	"github.com/privopt/privopt/internal/num"
)

// Exact returns a function that computes φ′ in twice the precision of float64, with a proved bound
// on its error, or nil if l is not a loss of this package that has one. Certificates of optimality
// use the function, so that their allowance for rounding does not grow with the number of records.
//
// For finite u with u = fl(u+ul), and norm as in Scalar, |hi + lo − φ′(u+ul;b)| ≤ err. Except
// next to a point where φ′ changes its sign, err ≤ 2⁻⁹⁰|φ′| + 2⁻¹⁰⁷⁰(1 + sup φ″).
//
// The slopes of such a loss in float64, from Scalar and Slopes, are within 16·2⁻⁵³|φ′| + 2⁻¹⁰⁷⁴ of
// φ′ by operations whose rounding IEEE 754 fixes. See docs/theory/numerics.md#numerics.slopes
func Exact(l Loss) func(u, ul, b, norm float64) (hi, lo, err float64) {
	if !Proved(l) {
		return nil
	}
	switch l := l.(type) {
	case Clipped:
		if inner := Exact(l.Loss); inner != nil {
			return func(u, ul, b, norm float64) (hi, lo, err float64) {
				hi, lo, err = inner(u, ul, b, norm)
				return clamp2(hi, lo, err, l.slope(norm))
			}
		}
	case Moreau:
		var proxSlope2 func(u, ul, b, kappa float64) (hi, lo, err float64)
		switch kinked := l.Loss.(type) {
		case Hinge:
			proxSlope2 = kinked.proxSlope2
		case interface{ kink() kink }:
			proxSlope2 = kinked.kink().proxSlope2
		default:
			return nil
		}
		return func(u, ul, b, norm float64) (hi, lo, err float64) {
			kappa := norm * norm / l.Beta
			if !(kappa > 0) { // the kink stays; the error 2 times such a norm is negligible
				_, hi, _ = l.Loss.Scalar(u, b, norm)
				return hi, 0, 2
			}
			return proxSlope2(u, ul, b, kappa)
		}
	case interface {
		slope2(u, ul, b, norm float64) (hi, lo, err float64)
	}:
		return l.slope2
	}
	return nil
}

// Proved reports whether l is a loss of this package, made only of losses of this package. Then
// Func is convex and Constants are true by the proofs in their comments; of other losses a
// mechanism must assume both. The concrete type decides, because a struct inherits methods from the
// losses that it embeds.
func Proved(l Loss) bool {
	switch l := l.(type) {
	case Squared, Logistic, Huber, PseudoHuber, LogCosh, SmoothedHinge, RootHinge, SoftClipped,
		Hinge, Absolute, Pinball, EpsilonInsensitive, Multinomial:
		return true
	case Clipped:
		return Proved(l.Loss)
	case Moreau:
		return Proved(l.Loss)
	}
	return false
}

const (
	unit = num.Unit // u
	tiny = math.SmallestNonzeroFloat64
)

// difference returns (u+ul) − b, normalized, with an error of at most 4u² of it. With
// s + e = u − b: where |s| < |u|/2, e = 0 [Sterbenz] and s + ul is exact; elsewhere
// |e+ul| ≤ 3u|s|(1+u), which is rounded once.
func difference(u, ul, b float64) (hi, lo float64) {
	s, e := num.TwoSum(u, -b)
	return num.TwoSum(s, e+ul)
}

// clamp2 returns P_[−k,k] of a normalized hi + lo with an error of at most err, and the error of
// the result, which a projection does not increase.
func clamp2(hi, lo, err, k float64) (g, gl, gerr float64) {
	size := math.Abs(hi)
	switch {
	case size > 2*k && err < k/2: // so is the exact number
		return math.Copysign(k, hi), 0, 0
	case size > k || size == k && (lo > 0) == (hi > 0):
		return math.Copysign(k, hi), 0, err
	}
	return hi, lo, err
}

// ramp2 returns P_[lo,hi]((x+xl)/kappa), lo ≤ 0 ≤ hi, for kappa > 0 and a normalized x + xl with an
// error of at most 4u² of it. The error is at most 24u² of the result, 16u² of them from num.Div2,
// and 2⁻¹⁰⁷¹(1 + 1/kappa) for underflow.
func ramp2(x, xl, kappa, lo, hi float64) (g, gl, err float64) {
	switch g = x / kappa; {
	case g > 2*hi: // so is the exact quotient, also where this one overflows
		return hi, 0, 0
	case g < 2*lo:
		return lo, 0, 0
	}
	g, gl = num.Div2(x, xl, kappa, 0)
	err = 24*unit*unit*math.Abs(g) + 8*tiny + 8*(tiny/kappa)
	switch {
	case g > hi || g == hi && gl > 0:
		return hi, 0, err
	case g < lo || g == lo && gl < 0:
		return lo, 0, err
	}
	return g, gl, err
}

// expNeg returns e^−x for x ≥ 0 with an error of at most 4u of it, or 2⁻¹⁰⁷⁴ if it is subnormal;
// NaN for NaN. ln2a has 42 bits, so that k·ln2a is exact: docs/theory/numerics.md#numerics.exp
func expNeg(x float64) float64 {
	const ln2a = 0x1.62e42fefa38p-1
	if x > 746 {
		return 0
	}
	n := int(x*(1/math.Ln2) + 0.5) // k; anything for NaN
	k := float64(n)
	e := 1 + expm1((float64(k*ln2a)-x)+k*(math.Ln2-ln2a))
	if n < 1022 {
		return e * math.Float64frombits(uint64(1023-n)<<52) // exact
	}
	return math.Ldexp(e, -n)
}

// expm1 returns e^s − 1 for |s| < 0.3467 with an error of at most 0.3u + u|e^s−1| and of at most
// 2.2u|e^s−1|. The remainder of Taylor's polynomial s + s²Q(s) of degree 13 is 2⁻⁵⁷; Q ≈ ½. The
// roundings of Q add up to 1.3u, those of s²Q to 2.4u·s² ≤ 0.3u, and |s| ≤ 1.19|e^s−1|.
func expm1(s float64) float64 {
	z := s * s
	even := 1./2 + z*(1./24+z*(1./720+z*(1./40320+z*(1./3628800+z*(1./479001600)))))
	odd := 1./6 + z*(1./120+z*(1./5040+z*(1./362880+z*(1./39916800+z*(1./6227020800)))))
	return s + z*(even+s*odd)
}

// step = ln(2)/2¹⁶ = stepA + stepB + stepC is the step of the tables of expNeg2. stepA has 21 bits,
// so that its products with integers below 2³² are exact; stepB is the rest, rounded.
const (
	tableBits = 8
	steps     = 1 << (2 * tableBits)
	stepA     = 0x1.62e43p-1 / steps
	stepB     = -0x1.05c610ca86c39p-29 / steps
	stepC     = math.Ln2/steps - stepA - stepB
)

// powers holds 2^(−i/2⁸) and 2^(−i/2¹⁶), i < 2⁸, as normalized hi + lo with an error of at most u²
// of it.
var powers = [2][1 << tableBits][2]float64{powersOf(tableBits), powersOf(2 * tableBits)}

// powersOf returns the powers 0, 1, … of 2^(−1/2ᵇ), from products of 128 bits.
func powersOf(b int) (table [1 << tableBits][2]float64) {
	var rest big.Float
	ratio, x := big.NewFloat(0.5).SetPrec(128), big.NewFloat(1).SetPrec(128)
	for range b {
		ratio.Sqrt(ratio)
	}
	for i := range table {
		hi, _ := x.Float64()
		lo, _ := rest.Sub(x, big.NewFloat(hi)).Float64()
		table[i] = [2]float64{hi, lo}
		x.Mul(x, ratio)
	}
	return table
}

// expNeg2 returns e^−(x+xl) for a normalized x + xl ≥ 0 as a normalized hi + lo with an error of at
// most 24u² of it, and 2⁻¹⁰⁷⁴; NaN for NaN. With k = ⌊x/step + ½⌋ = 2¹⁶n + 2⁸i + j and r + rl =
// k·step − (x+xl), the result is 2^−n·2^(−i/2⁸)·2^(−j/2¹⁶)·e^(r+rl), |r| < 5.3·10⁻⁶. The proof is
// in docs/theory/numerics.md#numerics.exp
func expNeg2(x, xl float64) (hi, lo float64) {
	if x > 746 {
		return 0, 0
	}
	k := int(float64(x*(steps/math.Ln2)) + 0.5) // anything for NaN
	f := float64(k)
	p, pl := num.TwoProd(f, stepB)
	r, e1 := num.TwoSum(f*stepA-x, p)
	r, e2 := num.TwoSum(r, -xl)
	rl := (e1 + e2) + (pl + float64(f*stepC))

	z, zl := num.TwoProd(r, r)
	c := float64(float64(r*z) * (1./6 + (float64(r*(1./24)) + float64(z*(1./120))))) // r³/6 + r⁴/24 + r⁵/120
	h, l := num.FastTwoSum(r, z/2)
	l += (rl + (zl/2 + float64(r*rl))) + c

	const mask = 1<<tableBits - 1
	a, b := &powers[0][k>>tableBits&mask], &powers[1][k&mask]
	t, te := num.TwoProd(a[0], b[0])
	tl := te + (float64(a[0]*b[1]) + float64(a[1]*b[0]))
	q, ql := num.TwoProd(t, h)
	hi, lo = num.FastTwoSum(t, q)
	hi, lo = num.FastTwoSum(hi, lo+(tl+(ql+(float64(t*l)+float64(tl*h)))))
	n := k >> (2 * tableBits)
	if n < 1022 {
		scale := math.Float64frombits(uint64(1023-n) << 52)
		return hi * scale, lo * scale
	}
	return math.Ldexp(hi, -n), math.Ldexp(lo, -n)
}

// quotient2 returns x/k ≥ 0 for normalized pairs x ≥ 0 and k > 0, one of them exact and the other
// with an error of at most 4u² of it. The error is at most 20u² of the result, 16u² of them from
// num.Div2, and 4·2⁻¹⁰⁷⁴. Operands so small that the remainder of the division would underflow are
// scaled.
func quotient2(x, xl, k, kl float64) (t, tl float64) {
	if min(x, k) < 0x1p-900 && max(x, k) < 1 {
		e := math.Ilogb(max(x, k))
		x, xl = math.Ldexp(x, -e), math.Ldexp(xl, -e)
		k, kl = math.Ldexp(k, -e), math.Ldexp(kl, -e)
	}
	return num.Div2(x, xl, k, kl)
}

// root2 returns √(1+t²) within 21u² of it, for 0 ≤ t ≤ 1 with an error of at most 20u² of it. The
// error of t² is 48u² of it, and t² is at most half of 1 + t², whose sum adds 4.5u²; the root
// halves these 28.5u² and adds 6u².
func root2(t, tl float64) (s, sl float64) {
	t, tl = num.Mul2(t, tl, t, tl)
	t, tl = num.Add2(1, 0, t, tl)
	return num.Sqrt2(t, tl)
}

// negligible is a t for which 1 + t² differs from 1 by 2⁻¹²⁰.
const negligible = 0x1p-60
