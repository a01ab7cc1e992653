package loss

import (
	"math"

	"github.com/privopt/privopt/internal/twofold"
)

// Exact is the optional ability of a Linear loss to compute φ′ in twice the precision of
// float64, with a proof. A certificate of optimality whose rounding allowance does not grow
// with the number of records is made of it.
//
// The certificates of package erm use it of losses that are Proved: a struct that embeds one of
// them has its methods, but perhaps another slope. An exact loss also vouches for its slopes in
// float64: those of Scalar and Slopes at u are within 16·2⁻⁵³|φ′(u;b)| + 2⁻¹⁰⁷⁴ of φ′(u;b), by
// operations whose rounding IEEE 754 fixes.
type Exact interface {
	Linear
	// Exact reports whether Slope2 may be called: Clipped and Moreau know their slope
	// as well as the loss they are made from does.
	Exact() bool
	// Slope2 returns hi + lo with |hi + lo − φ′(u+ul;b)| ≤ err, for a finite u that is u+ul
	// rounded. norm is as in Scalar. Except next to a point where φ′ changes its sign,
	// err ≤ 2⁻⁹⁰|φ′| + 2⁻¹⁰⁷⁰(1 + sup φ″).
	Slope2(u, ul, b, norm float64) (hi, lo, err float64)
}

var (
	_ Exact = Squared{}
	_ Exact = Logistic{}
	_ Exact = Huber{}
	_ Exact = PseudoHuber{}
	_ Exact = LogCosh{}
	_ Exact = SmoothedHinge{}
	_ Exact = RootHinge{}
	_ Exact = SoftClipped{}
	_ Exact = Clipped{}
	_ Exact = Moreau{}

	_ sloper2 = Hinge{}
	_ sloper2 = Absolute{}
	_ sloper2 = Pinball{}
	_ sloper2 = EpsilonInsensitive{}
)

// Proved reports whether l is a loss of this package, made of none but losses of this
// package: then Func is convex and Constants are true, by the proofs in their comments. Of
// another loss a mechanism must assume both.
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
	unit = twofold.Unit // u
	tiny = math.SmallestNonzeroFloat64
)

// difference returns (u+ul) − b, normalized, with an error of at most 4u² of it. With
// s + e = u − b: where |s| < |u|/2, e = 0 [Sterbenz] and s + ul is exact; elsewhere
// |e+ul| ≤ 3u|s|(1+u), which is rounded once.
func difference(u, ul, b float64) (hi, lo float64) {
	s, e := twofold.Sum(u, -b)
	return twofold.Sum(s, e+ul)
}

// clamp2 returns P_[−k,k] of a normalized hi + lo with an error of at most err, and the error
// of the result: a projection increases no distance.
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

// ramp2 returns P_[lo,hi]((x+xl)/kappa), lo ≤ 0 ≤ hi, for kappa > 0 and a normalized x + xl
// with an error of at most 4u² of it. Its own error is at most 24u² of the result, of which
// twofold.Div takes 16, and 2⁻¹⁰⁷¹(1 + 1/kappa) for what underflows.
func ramp2(x, xl, kappa, lo, hi float64) (g, gl, err float64) {
	switch g = x / kappa; {
	case g > 2*hi: // so is the exact quotient, also where this one overflows
		return hi, 0, 0
	case g < 2*lo:
		return lo, 0, 0
	}
	g, gl = twofold.Div(x, xl, kappa, 0)
	err = 24*unit*unit*math.Abs(g) + 8*tiny + 8*(tiny/kappa)
	switch {
	case g > hi || g == hi && gl > 0:
		return hi, 0, err
	case g < lo || g == lo && gl < 0:
		return lo, 0, err
	}
	return g, gl, err
}

// sloper2 is a Proximable loss of this package that knows ProxSlope in twice the precision.
type sloper2 interface {
	proxSlope2(u, ul, b, kappa float64) (hi, lo, err float64)
}

// Parts of ln 2 = ln2a + ln2b + ln2c: the first two have 42 and 41 bits, so that their
// products with integers below 2¹¹ are exact.
const (
	ln2a = 0x1.62e42fefa38p-1
	ln2b = 0x1.ef35793c76p-45
	ln2c = math.Ln2 - ln2a - ln2b
)

// expNeg returns e^−x for x ≥ 0 with an error of at most 4u of it, or 2⁻¹⁰⁷⁴ where it is
// subnormal; NaN for NaN.
//
// With k = ⌊x/ln 2 + ½⌋ and s = k·ln 2 − x, |s| < 0.3467, e^−x = 2^−k·e^s. k·ln2a is exact and
// so is its difference to x but for a rounding of u·0.35 next to x = ln(2)/2; adding
// k(ln 2 − ln2a) costs another: 0.7u in s at most. By the bound of expm1, 1 + (e^s−1) has
// 0.3u + 0.42u from it and u of its own of the result, which is at least 0.7: 2u of it.
// Contracted products only lower this.
func expNeg(x float64) float64 {
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
// 2.2u|e^s−1|. Taylor's polynomial of degree 13 leaves out 2⁻⁵⁷. It is s + s²Q(s), Q ≈ ½: the roundings
// of Q add up to 1.3u, those of s²Q to 2.4u·s² ≤ 0.3u, and |s| ≤ 1.19|e^s−1|.
func expm1(s float64) float64 {
	z := s * s
	even := 1./2 + z*(1./24+z*(1./720+z*(1./40320+z*(1./3628800+z*(1./479001600)))))
	odd := 1./6 + z*(1./120+z*(1./5040+z*(1./362880+z*(1./39916800+z*(1./6227020800)))))
	return s + z*(even+s*odd)
}

// Coefficients 1/k! of Taylor's series as hi + lo: constants are exact until they are
// rounded to float64.
const (
	t3, t3l = 0x1.5555555555555p-3, 1./6 - t3
	t4, t4l = 0x1.5555555555555p-5, 1./24 - t4
	t5, t5l = 0x1.1111111111111p-7, 1./120 - t5
	t6, t6l = 0x1.6c16c16c16c17p-10, 1./720 - t6
	t7, t7l = 0x1.a01a01a01a01ap-13, 1./5040 - t7
	t8, t8l = 0x1.a01a01a01a01ap-16, 1./40320 - t8
)

// taylor holds the coefficients from degree 8 down to 1.
var taylor = [...][2]float64{{t8, t8l}, {t7, t7l}, {t6, t6l}, {t5, t5l}, {t4, t4l}, {t3, t3l}, {1. / 2, 0}, {1, 0}}

// expNeg2 returns e^−(x+xl) for a normalized x + xl ≥ 0 as hi + lo with an error of at most
// 64u² of it, and 2⁻¹⁰⁷⁴; NaN for NaN.
//
// All in units of u² = 2⁻¹⁰⁶. k is as in expNeg. The three sums of r = x + xl − k·ln 2 are exact
// but for their errors, of at most 0.36u each, and k·ln2c < 2⁻⁷⁵, which are added up in
// float64: 6. e^−r − 1 is off by 64 of itself, 27 for r < 0 and 19 for r > 0. 1 + it adds 8.5: 36
// of a result of at least 1, or 28 of one of at least 0.7, and with the 6 of r less than 64.
func expNeg2(x, xl float64) (hi, lo float64) {
	if x > 746 {
		return 0, 0
	}
	n := int(x*(1/math.Ln2) + 0.5)
	k := float64(n)
	r, e1 := twofold.Sum(x, -float64(k*ln2a))
	r, e2 := twofold.Sum(r, -float64(k*ln2b))
	r, e3 := twofold.Sum(r, xl)
	r, rl := twofold.Sum(r, (e1+e2+e3)-k*ln2c)
	p, pl := expm12(-r, -rl)
	hi, lo = twofold.Add(1, 0, p, pl)
	return math.Ldexp(hi, -n), math.Ldexp(lo, -n)
}

// expm12 returns e^r − 1 for a normalized r + rl, |r| < 0.3467, as a pair with an error of at most
// 64u² of it, unless products underflow.
//
// All in units of u². With s = r/8, |s| < 0.0434, p = e^s − 1 = sT₁, Tⱼ = 1/j! + sTⱼ₊₁, where
// T₉, in float64, contributes 2⁻⁴ and what is left out, s¹⁶/16!, less. By the bounds of twofold, Tⱼ
// has a relative error of 6.3 + s/(j+1)·(8 + that of Tⱼ₊₁) < 7, p one of 15. Three times
// e^2s − 1 = p(2+p) with 8 + 6.2 of its own and |p|/(2+p) of that of p, which is at most 0.022, 0.044
// and 0.087: 29.6, 45 and 63.1.
func expm12(r, rl float64) (p, pl float64) {
	s, sl := r/8, rl/8
	t := 1./362880 + s*(1./3628800+s*(1./39916800+s*(1./479001600+s*(1./6227020800+s*(1./87178291200+s*(1./1307674368000))))))
	tl := 0.0
	for _, c := range taylor {
		t, tl = twofold.Mul(t, tl, s, sl)
		t, tl = twofold.Add(c[0], c[1], t, tl)
	}
	p, pl = twofold.Mul(t, tl, s, sl)
	for range 3 {
		q, ql := twofold.Add(2, 0, p, pl)
		p, pl = twofold.Mul(p, pl, q, ql)
	}
	return p, pl
}

// quotient2 returns x/k ≥ 0 for a normalized x + xl with an error of at most 4u² of it and k > 0 with
// an error of at most 20u², of which twofold.Div takes 16, and 4·2⁻¹⁰⁷⁴. Operands so small that the
// remainder of the division would underflow are scaled.
func quotient2(x, xl, k, kl float64) (t, tl float64) {
	if min(x, k) < 0x1p-900 && max(x, k) < 1 {
		e := math.Ilogb(max(x, k))
		x, xl = math.Ldexp(x, -e), math.Ldexp(xl, -e)
		k, kl = math.Ldexp(k, -e), math.Ldexp(kl, -e)
	}
	return twofold.Div(x, xl, k, kl)
}

// root2 returns √(1+t²) for 0 ≤ t ≤ 1 that is known to 20u² of it, within 21u² of it: t² has 48u²
// of it, at most half of 1 + t², whose sum adds 4.5u²; half of these 28.5u² and 6u² are left.
func root2(t, tl float64) (s, sl float64) {
	t, tl = twofold.Mul(t, tl, t, tl)
	t, tl = twofold.Add(1, 0, t, tl)
	return twofold.Sqrt(t, tl)
}

// negligible is a t such that 1 + t² is 1 to 2⁻¹²⁰.
const negligible = 0x1p-60
