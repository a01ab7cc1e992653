// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package enclose proves inequalities between real numbers. It computes intervals of big.Float
// numbers that certainly contain the exact values, because every operation is rounded outward and
// every series is cut off with a bound on its remainder.
//
// The constants of a plan come from searches in float64, which need no proof: a plan is private
// because of one last inequality at the numbers that were found. Proves returns true only if an
// inequality is true; false does not mean that the inequality is false. Letters and proofs:
// docs/theory/README.md and docs/theory/enclosures.md.
//
// # References
//
//	[AS64]  Abramowitz, Stegun. Handbook of Mathematical Functions. 1964.
//	[BW18]  Balle, Wang. Improving the Gaussian Mechanism for Differential
//	        Privacy. ICML 2018.
//	[LW08]  Lorentzen, Waadeland. Continued Fractions. 2008.
package enclose

import (
	"errors"
	"math"
	"math/big"

	"github.com/privopt/privopt/internal/fault"
)

// Steps that an audit may replace.
var (
	// Remainder is the bound on the omitted terms of a series.
	Remainder = fault.NewStep[*big.Float]("remainder of an enclosed series")
	// Depth is the number of a convergent of the Mills ratio; even ones are above the ratio.
	Depth = fault.NewStep[int]("convergent of an enclosed Mills ratio")
	// Sides are the two sides of an inequality.
	Sides = fault.NewStep[[2]Interval]("sides of an enclosed inequality")
)

// An Interval contains a real number x: Lo ≤ x ≤ Hi. Lo and Hi are never changed.
type Interval struct{ Lo, Hi *big.Float }

// An Arithmetic computes with intervals of a fixed precision.
type Arithmetic struct {
	prec  uint // bits, at least 64
	fault *fault.Set
}

// leastPrec is more than the precision of a float64.
const leastPrec = 64

// New returns interval arithmetic with a precision of prec bits, or 64 if that is more. f is nil
// except in audits, which inject errors by it.
func New(prec uint, f *fault.Set) Arithmetic { return Arithmetic{max(prec, leastPrec), f} }

// An Inequality says that one number is at most another.
type Inequality func(c Arithmetic) (less, more Interval)

// Proves reports whether all inequalities are certainly true. It doubles the precision as needed,
// up to 512 bits. An inequality that is false, undecided at 512 bits or outside the range of the
// arithmetic is not proved.
func Proves(f *fault.Set, list ...Inequality) bool {
	for _, claim := range list {
		if !proves(f, claim) {
			return false
		}
	}
	return true
}

func proves(f *fault.Set, claim Inequality) (proved bool) {
	defer func() {
		if r := recover(); r != nil {
			err, ok := r.(error)
			if nan := (big.ErrNaN{}); !ok || !errors.As(err, &nan) { // 0·∞, ∞ − ∞: out of range
				panic(r)
			}
			proved = false
		}
	}()
	for prec := uint(leastPrec); prec <= 512; prec *= 2 {
		less, more := claim(New(prec, f))
		sides := fault.At(f, Sides, [2]Interval{less, more})
		less, more = sides[0], sides[1]
		switch {
		case less.Hi.Cmp(more.Lo) <= 0:
			return !less.Hi.IsInf()
		case less.Lo.Cmp(more.Hi) > 0: // false
			return false
		}
	}
	return false
}

func (c Arithmetic) down() *big.Float {
	return new(big.Float).SetPrec(c.prec).SetMode(big.ToNegativeInf)
}

func (c Arithmetic) up() *big.Float {
	return new(big.Float).SetPrec(c.prec).SetMode(big.ToPositiveInf)
}

// Of returns x. NaN is outside every domain.
func (c Arithmetic) Of(x float64) Interval {
	if math.IsNaN(x) {
		panic(big.ErrNaN{})
	}
	v := new(big.Float).SetPrec(c.prec).SetFloat64(x)
	return Interval{v, v}
}

// Add returns x + y.
func (c Arithmetic) Add(x, y Interval) Interval {
	return Interval{c.down().Add(x.Lo, y.Lo), c.up().Add(x.Hi, y.Hi)}
}

// Sub returns x − y.
func (c Arithmetic) Sub(x, y Interval) Interval {
	return Interval{c.down().Sub(x.Lo, y.Hi), c.up().Sub(x.Hi, y.Lo)}
}

// Mul returns xy.
func (c Arithmetic) Mul(x, y Interval) Interval {
	if x.Lo.Sign() >= 0 && y.Lo.Sign() >= 0 {
		return Interval{c.down().Mul(x.Lo, y.Lo), c.up().Mul(x.Hi, y.Hi)}
	}
	z := Interval{c.down().Mul(x.Lo, y.Lo), c.up().Mul(x.Lo, y.Lo)}
	for _, p := range [][2]*big.Float{{x.Lo, y.Hi}, {x.Hi, y.Lo}, {x.Hi, y.Hi}} {
		z = Interval{least(z.Lo, c.down().Mul(p[0], p[1])), most(z.Hi, c.up().Mul(p[0], p[1]))}
	}
	return z
}

// Quo returns x/y for y > 0.
func (c Arithmetic) Quo(x, y Interval) Interval {
	if y.Lo.Sign() <= 0 {
		panic(big.ErrNaN{})
	}
	lo, hi := y.Hi, y.Lo
	if x.Lo.Sign() < 0 {
		lo = y.Lo
	}
	if x.Hi.Sign() < 0 {
		hi = y.Hi
	}
	return Interval{c.down().Quo(x.Lo, lo), c.up().Quo(x.Hi, hi)}
}

// Sqrt returns √x for x ≥ 0. Roots are corrected until their squares, which are exact, are on the
// right side.
func (c Arithmetic) Sqrt(x Interval) Interval {
	ulp := func(r *big.Float) *big.Float { return new(big.Float).SetPrec(c.prec).SetMantExp(r, -int(c.prec)+1) }
	square := func(r *big.Float) *big.Float { return new(big.Float).SetPrec(2*c.prec+2).Mul(r, r) }
	lo := c.down().Sqrt(x.Lo)
	for square(lo).Cmp(x.Lo) > 0 {
		lo = c.down().Sub(lo, ulp(lo))
	}
	hi := c.up().Sqrt(x.Hi)
	for square(hi).Cmp(x.Hi) < 0 {
		hi = c.up().Add(hi, ulp(hi))
	}
	return Interval{lo, hi}
}

// Hypot returns √(x² + y²).
func (c Arithmetic) Hypot(x, y Interval) Interval {
	return c.Sqrt(c.Add(c.Square(x), c.Square(y)))
}

// Square returns x².
func (c Arithmetic) Square(x Interval) Interval {
	z := c.Mul(x, x)
	if z.Lo.Sign() < 0 { // x contains 0
		z.Lo = new(big.Float)
	}
	return z
}

func least(x, y *big.Float) *big.Float {
	if x.Cmp(y) <= 0 {
		return x
	}
	return y
}

func most(x, y *big.Float) *big.Float {
	if x.Cmp(y) >= 0 {
		return x
	}
	return y
}

// Least returns min(x, y).
func (c Arithmetic) Least(x, y Interval) Interval {
	return Interval{least(x.Lo, y.Lo), least(x.Hi, y.Hi)}
}

// Most returns max(x, y).
func (c Arithmetic) Most(x, y Interval) Interval { return Interval{most(x.Lo, y.Lo), most(x.Hi, y.Hi)} }
