// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package enclose

import (
	"math"
	"math/big"

	"github.com/privopt/privopt/internal/fault"
)

// extra is the number of additional bits with which series are summed. Cancellation and squaring
// lose fewer.
const extra = 32

// Exp returns eˣ.
func (c Arithmetic) Exp(x Interval) Interval { return Interval{c.exp(x.Lo, false), c.exp(x.Hi, true)} }

// farthest is the largest argument of an exponential that is computed; beyond it eˣ ≥ 2^farthest.
const farthest = 1 << 24

// exp bounds eˣ from one side, for x < 0 by the inverse of the other side. For x ≥ 0 and y = x/2ᵏ ≤
// 1/16
//
//	Σ_{n<N} yⁿ/n! ≤ e^y ≤ Σ_{n<N} yⁿ/n! + 2y^N/N!
//
// where all terms and the k squares that follow are positive and rounded to the wanted side.
func (c Arithmetic) exp(x *big.Float, up bool) *big.Float {
	wide := Arithmetic{c.prec + extra, c.fault}
	side, end := wide.side(up), c.side(up)
	switch {
	case x.Sign() < 0:
		return end().Quo(side().SetInt64(1), wide.exp(new(big.Float).Neg(x), !up))
	case x.Sign() == 0:
		return end().SetInt64(1)
	case x.Cmp(big.NewFloat(farthest)) > 0 && up:
		return end().SetInf(false)
	case x.Cmp(big.NewFloat(farthest)) > 0:
		return end().SetMantExp(big.NewFloat(1), farthest)
	}
	k := max(x.MantExp(nil)+4, 0) // x < 2^{k−4}
	y := side().SetMantExp(side().Set(x), -k)
	sum, term := side().SetInt64(1), side().SetInt64(1)
	count := side()
	for n := int64(1); ; n++ {
		term.Quo(term.Mul(term, y), count.SetInt64(n))
		if term.MantExp(nil) < -int(c.prec)-k { // k squares double the error k times
			break
		}
		sum.Add(sum, term)
	}
	if up {
		sum.Add(sum, fault.At(c.fault, Remainder, side().Add(term, term)))
	}
	for range k {
		sum.Mul(sum, sum)
	}
	return end().Set(sum)
}

// Log returns log x for x > 0.
func (c Arithmetic) Log(x Interval) Interval {
	if x.Lo.Sign() <= 0 {
		panic(big.ErrNaN{})
	}
	return Interval{c.log(x.Lo).Lo, c.log(x.Hi).Hi}
}

// log encloses log x = y + log(1+z), z = xe^{−y} − 1, for any y near log x, by
//
//	z − z² ≤ log(1+z) ≤ z,   |z| ≤ ½
//
// first for the y of float64, then for the result.
func (c Arithmetic) log(x *big.Float) Interval {
	m := new(big.Float)
	e := x.MantExp(m)
	f, _ := m.Float64()
	one, point := c.Of(1), Interval{x, x}
	y := c.Of(math.Log(f) + float64(e)*math.Ln2)
	for try := 0; ; try++ {
		z := c.Sub(c.Mul(point, c.Exp(c.Sub(c.Of(0), y))), one)
		if z.Lo.Cmp(big.NewFloat(-0.5)) < 0 || z.Hi.Cmp(big.NewFloat(0.5)) > 0 {
			panic(big.ErrNaN{}) // y is not near log x
		}
		square := c.Square(z)
		v := c.Add(y, Interval{c.Sub(z, square).Lo, z.Hi})
		if square.Hi.Sign() == 0 || square.Hi.MantExp(nil) < -int(c.prec) || try == 30 { // every try doubles the digits
			return v
		}
		y = Interval{v.Lo, v.Lo}
	}
}

// Log1p returns log(1 + x) for x > −1.
func (c Arithmetic) Log1p(x Interval) Interval {
	wide := Arithmetic{2*c.prec + extra, c.fault} // 1 + x keeps the digits of x
	return c.outward(wide.Log(wide.Add(wide.Of(1), x)))
}

// outward rounds x to the precision of c.
func (c Arithmetic) outward(x Interval) Interval {
	return Interval{c.down().Set(x.Lo), c.up().Set(x.Hi)}
}

// piLo ≤ π ≤ piHi: the first 99 decimals, rounded down and up.
var piLo, piHi = digits(big.ToNegativeInf, "7"), digits(big.ToPositiveInf, "8")

func digits(mode big.RoundingMode, last string) *big.Float {
	const pi = "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803482534211706"
	v, _, err := big.ParseFloat(pi+last, 10, 1024, mode)
	if err != nil {
		panic(err)
	}
	return v
}

// Pi returns π, to 98 decimals at most.
func (c Arithmetic) Pi() Interval { return c.outward(Interval{piLo, piHi}) }

// end returns the upper or the lower end of x.
func (x Interval) end(up bool) *big.Float {
	if up {
		return x.Hi
	}
	return x.Lo
}

// Density returns φ(x).
func (c Arithmetic) Density(x Interval) Interval {
	return Interval{c.density(x, false), c.density(x, true)}
}

// density returns one end of Density.
func (c Arithmetic) density(x Interval, up bool) *big.Float {
	two := c.Of(2)
	exponent := c.Sub(c.Of(0), c.Quo(c.Square(x), two))
	return c.side(up)().Quo(c.exp(exponent.end(up), up), c.Sqrt(c.Mul(two, c.Pi())).end(!up))
}

// Mills returns R(x) for x ≥ −3: R decreases.
func (c Arithmetic) Mills(x Interval) Interval {
	return Interval{c.mills(x.Hi, false), c.mills(x.Lo, true)}
}

// fraction is the argument from which the continued fraction is used instead of the series. Both
// are equally fast there.
const fraction = 3

// mills bounds R(x) from one side: for x ≥ 3 by a convergent of
//
//	R(x) = 1/(x + 1/(x + 2/(x + 3/(x + ⋯))))     [AS64, 26.2.14]
//
// of which numbers 0, 2, 4, … are above R and 1, 3, 5, … below [LW08, Theorem 3.5], else by the
// series
//
//	R(x) = √(π/2) e^{x²/2} − Σ_{n≥0} x^{2n+1}/(1·3⋯(2n+1))     [AS64, 26.2.11].
func (c Arithmetic) mills(x *big.Float, up bool) *big.Float {
	f, _ := x.Float64()
	switch {
	case f < -fraction:
		panic(big.ErrNaN{})
	case f < fraction:
		return c.millsSeries(x, up)
	case f > 0x1p200: // 1/x(1 − 1/x²) ≤ R ≤ 1/x
		f = 0x1p200
	}
	n := 0
	for left := 1.0; left > math.Ldexp(1, 6-int(c.prec)); n++ { // about the error of convergent n
		root := math.Sqrt(f*f + 4*float64(n+1))
		left *= 4 * float64(n+1) / ((root + f) * (root + f))
	}
	if up != (n%2 == 0) {
		n++
	}
	n = fault.At(c.fault, Depth, n)
	if v := millsFloat(x, n, up); c.prec == leastPrec && v > 0 {
		return c.Of(v).Lo
	}
	// The last addition is rounded to the side opposite to that of its inverse, the one before to the
	// side opposite to that, and so on.
	t, buffers := x, [2]*big.Float{c.up(), c.up()}
	count := c.up()
	for k := n; k >= 1; k-- {
		mode := big.ToNegativeInf
		if up == (k%2 == 0) {
			mode = big.ToPositiveInf
		}
		next := buffers[k%2].SetMode(mode)
		next.Quo(count.SetInt64(int64(k)), t)
		t = next.Add(next, x)
	}
	inverse := c.side(up)
	return inverse().Quo(inverse().SetInt64(1), t)
}

// millsFloat bounds R(x) by convergent n in float64, as the quotient q/(xq+p) of two numbers that
// grow by p, q = jq, xq + p for j = n, …, 1. All terms are positive, so that its relative error is
// below (4n+8)2⁻⁵³. It is 0 or NaN out of range.
func millsFloat(x *big.Float, n int, up bool) float64 {
	f, rounded := x.Float64()
	switch { // R decreases
	case up && rounded == big.Above:
		f = math.Nextafter(f, 0)
	case !up && rounded == big.Below:
		f = math.Nextafter(f, math.Inf(1))
	}
	p, q := 0.0, 1.0
	for j := float64(n); j > 0; j-- {
		p, q = j*q, f*q+p
	}
	v, slack := q/(f*q+p), float64(4*n+16)*0x1p-53
	if up {
		return v * (1 + slack)
	}
	return v * (1 - slack)
}

func (c Arithmetic) side(up bool) func() *big.Float {
	if up {
		return c.up
	}
	return c.down
}

// millsSeries is mills by the series, |x| ≤ 3. From x² ≤ n + 1 on each term is at most half of the
// one before, so that the omitted terms are at most twice the first of them.
func (c Arithmetic) millsSeries(x *big.Float, up bool) *big.Float {
	wide := Arithmetic{c.prec + extra, c.fault}
	size := new(big.Float).Abs(x)
	// Σ has to be below if x > 0 and R is to be above, or if x < 0 and R is to be below.
	below := up == (x.Sign() > 0)
	side := wide.side(!below)
	sum, term := side(), side().Set(size)
	square := side().Mul(size, size)
	for n := int64(1); term.Sign() != 0; n++ {
		sum.Add(sum, term)
		term = side().Quo(side().Mul(term, square), side().SetInt64(2*n+1))
		if n >= 2*fraction*fraction && term.MantExp(nil) < -int(c.prec)-3 {
			if !below {
				sum.Add(sum, fault.At(c.fault, Remainder, side().Add(term, term)))
			}
			break
		}
	}
	point := Interval{x, x}
	whole := wide.Mul(wide.Sqrt(wide.Quo(wide.Pi(), wide.Of(2))), wide.Exp(wide.Quo(wide.Square(point), wide.Of(2))))
	if x.Sign() < 0 {
		sum.Neg(sum)
	}
	if up {
		return c.up().Sub(whole.Hi, sum)
	}
	return c.down().Sub(whole.Lo, sum)
}

// NormalTail returns Φ(−x) = φ(x)R(x) for x ≥ −3.
func (c Arithmetic) NormalTail(x Interval) Interval { return c.Mul(c.Density(x), c.Mills(x)) }

// GaussianDelta returns δ_G(ε; s) for s ≥ 0, which decreases with ε and increases with s. At the
// least precision the lower end is 0, for speed: lower ends only show that a claim is false, and
// the next precision does as well.
func (c Arithmetic) GaussianDelta(eps, s Interval) Interval {
	v := Interval{new(big.Float), c.gaussian(eps.Lo, s.Hi, true)}
	if c.prec > leastPrec {
		v.Lo = c.gaussian(eps.Hi, s.Lo, false)
	}
	return v
}

// gaussian bounds δ_G at one point from one side. With a = ε/s − s/2 and b = ε/s + s/2 it is
// φ(a)R(a) − φ(a)R(b) [BW18, Theorem 8]; for negative a, φ(a)R(a) = 1 − φ(a)R(−a). For ε < 0,
// δ_G(ε) = 1 − e^ε + e^ε δ_G(−ε).
func (c Arithmetic) gaussian(eps, s *big.Float, up bool) *big.Float {
	zero, one := c.Of(0), c.Of(1)
	at, shift := Interval{eps, eps}, Interval{s, s}
	end, other := c.side(up), c.side(!up)
	var v *big.Float
	switch {
	case s.Sign() < 0:
		panic(big.ErrNaN{})
	case eps.Sign() < 0:
		e, above := c.Exp(at), c.gaussian(new(big.Float).Neg(eps), s, up)
		v = c.Add(c.Sub(one, e), c.Mul(e, Interval{above, above})).end(up)
	case s.Sign() == 0:
		return zero.Lo
	default:
		far, half := c.Quo(at, shift), c.Quo(shift, c.Of(2))
		a, b := c.Sub(far, half), c.Add(far, half)
		if s.Cmp(big.NewFloat(0x1p-6)) < 0 { // R(a) − R(b) is too small for the digits of millsFloat
			c.prec += extra
		}
		if last := c.mills(b.end(up), !up); a.Lo.Cmp(big.NewFloat(-1)) >= 0 {
			v = end().Mul(c.density(a, up), most(zero.Lo, end().Sub(c.mills(a.end(!up), up), last)))
		} else {
			first := c.mills(c.Sub(zero, a).end(up), !up)
			v = end().Sub(one.Lo, other().Mul(c.density(a, !up), other().Add(first, last)))
		}
	}
	return most(zero.Lo, least(one.Lo, v))
}
