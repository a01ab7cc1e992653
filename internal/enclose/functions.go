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
	sum, term, count := side().SetInt64(1), side().SetInt64(1), side()
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
		if square.Hi.Sign() == 0 || square.Hi.MantExp(nil) < -int(c.prec) || try == 4 {
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

// Density returns φ(x).
func (c Arithmetic) Density(x Interval) Interval {
	two := c.Of(2)
	return c.Quo(c.Exp(c.Sub(c.Of(0), c.Quo(c.Square(x), two))), c.Sqrt(c.Mul(two, c.Pi())))
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
	// The last addition is rounded to the side opposite to that of its inverse, the one before to the
	// side opposite to that, and so on.
	t, buffers, count := x, [2]*big.Float{c.up(), c.up()}, c.up()
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
// least precision the lower end of a proper interval is 0, for speed: lower ends only show that a
// claim is false, and the next precision does as well.
func (c Arithmetic) GaussianDelta(eps, s Interval) Interval {
	if eps.Lo.Cmp(eps.Hi) == 0 && s.Lo.Cmp(s.Hi) == 0 {
		return c.gaussian(eps, s)
	}
	v := Interval{new(big.Float), c.gaussian(Interval{eps.Lo, eps.Lo}, Interval{s.Hi, s.Hi}).Hi}
	if c.prec > leastPrec {
		v.Lo = c.gaussian(Interval{eps.Hi, eps.Hi}, Interval{s.Lo, s.Lo}).Lo
	}
	return v
}

// gaussian encloses δ_G at one point. With a = ε/s − s/2 and b = ε/s + s/2 it is φ(a)R(a) −
// φ(a)R(b) [BW18, Theorem 8]; for negative a, φ(a)R(a) = 1 − φ(a)R(−a). For ε < 0, δ_G(ε) = 1 − e^ε
// + e^ε δ_G(−ε).
func (c Arithmetic) gaussian(eps, s Interval) Interval {
	zero, one := c.Of(0), c.Of(1)
	var v Interval
	switch {
	case s.Lo.Sign() < 0:
		panic(big.ErrNaN{})
	case eps.Lo.Sign() < 0:
		e := c.Exp(eps)
		v = c.Add(c.Sub(one, e), c.Mul(e, c.gaussian(c.Sub(zero, eps), s)))
	case s.Lo.Sign() == 0:
		return zero
	default:
		far, half := c.Quo(eps, s), c.Quo(s, c.Of(2))
		a, b := c.Sub(far, half), c.Add(far, half)
		if a.Lo.Cmp(big.NewFloat(-1)) >= 0 {
			v = c.Mul(c.Density(a), c.Most(zero, c.Sub(c.Mills(a), c.Mills(b))))
		} else {
			v = c.Sub(one, c.Mul(c.Density(a), c.Add(c.Mills(c.Sub(zero, a)), c.Mills(b))))
		}
	}
	return c.Most(zero, c.Least(one, v))
}
