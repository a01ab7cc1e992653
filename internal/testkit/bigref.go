// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package testkit

import (
	"math"
	"math/big"
	"sync"
)

// Reference functions that privacy constants are made of, to 60 digits and more: slow, plain series
// in math/big that share no code with package num.
//
//	φ, Φ       density and distribution function of the standard normal law
//	R(x)       the Mills ratio (1 − Φ(x))/φ(x)
//	δ_G(ε; s)  Φ(s/2 − ε/s) − e^ε Φ(−s/2 − ε/s)
//	SF_k       upper tail of χ²_k

// Prec is the precision of all results, in bits. Sums that cancel start with
// twice as many.
const Prec = 320

// New returns x, which must be finite.
func New(x float64) *big.Float { return new(big.Float).SetPrec(Prec).SetFloat64(x) }

func zero() *big.Float { return new(big.Float).SetPrec(Prec) }

// Add returns a + b.
func Add(a, b *big.Float) *big.Float { return zero().Add(a, b) }

// Sub returns a − b.
func Sub(a, b *big.Float) *big.Float { return zero().Sub(a, b) }

// Mul returns ab.
func Mul(a, b *big.Float) *big.Float { return zero().Mul(a, b) }

// Quo returns a/b.
func Quo(a, b *big.Float) *big.Float { return zero().Quo(a, b) }

// Sqrt returns √a.
func Sqrt(a *big.Float) *big.Float { return zero().Sqrt(a) }

// Exp returns eˣ for |x| < 2³⁰: Taylor at x/2ᵏ, squared k times.
func Exp(x *big.Float) *big.Float {
	_, e := float(x)
	k := max(e+32, 0)
	y := new(big.Float).SetPrec(2*Prec).SetMantExp(x, -k)
	y.SetPrec(2 * Prec)
	sum, term := new(big.Float).SetPrec(2*Prec).SetInt64(1), new(big.Float).SetPrec(2*Prec).SetInt64(1)
	for n := int64(1); n < 40; n++ { // |y| < 2⁻³²: 2⁻³²ⁿ/n! < 2⁻⁶⁴⁰ after 18 terms
		term.Mul(term, y)
		term.Quo(term, new(big.Float).SetPrec(2*Prec).SetInt64(n))
		if term.Sign() == 0 || term.MantExp(nil) < sum.MantExp(nil)-2*Prec {
			break
		}
		sum.Add(sum, term)
	}
	for range k {
		sum.Mul(sum, sum)
	}
	return zero().Set(sum)
}

// float returns x as a float64 and its binary exponent.
func float(x *big.Float) (float64, int) {
	f, _ := x.Float64()
	if x.Sign() == 0 {
		return 0, -1 << 20
	}
	return f, x.MantExp(nil)
}

// Log returns log x, x > 0, by Newton's method on Exp in its cubic form.
func Log(x *big.Float) *big.Float {
	m := new(big.Float)
	e := x.MantExp(m) // x = m 2ᵉ, ½ ≤ m < 1
	f, _ := m.Float64()
	y := New(math.Log(f))
	for range 6 { // digits triple: 16, 48, 96
		ey := Exp(y)
		y = Add(y, Quo(Mul(New(2), Sub(m, ey)), Add(m, ey)))
	}
	if e == 0 {
		return y
	}
	return Add(y, Mul(New(float64(e)), ln2()))
}

// ln2 returns log 2 = Σ 1/(n 2ⁿ).
var ln2 = sync.OnceValue(func() *big.Float {
	sum, p := zero(), New(1)
	for n := 1; n < Prec+8; n++ {
		p = Mul(p, New(0.5))
		sum = Add(sum, Quo(p, New(float64(n))))
	}
	return sum
})

// Pi is π to 100 digits.
var Pi, _, _ = big.ParseFloat("3.14159265358979323846264338327950288419716939937510582097494459230781640"+
	"62862089986280348253421170680", 10,
	Prec, big.ToNearestEven)

// Mills returns R(x): for x ≤ 8 as √(π/2)e^{x²/2} − Σ x^{2n+1}/(2n+1)!! [AS64,
// 26.2.11], beyond by the continued fraction of Laplace [AS64, 26.2.14].
func Mills(x *big.Float) *big.Float {
	f, _ := float(x)
	if f > 8 {
		r := x
		for n := int(4000/(f*f))*8 + 120; n > 0; n-- { // error e^{−2x√(2n)} < 1e-70
			r = Add(x, Quo(New(float64(n)), r))
		}
		return Quo(New(1), r)
	}
	wide := uint(2*Prec + 2*int(f*f))
	sum, term := new(big.Float).SetPrec(wide), new(big.Float).SetPrec(wide).Set(x)
	square := new(big.Float).SetPrec(wide).Mul(x, x)
	for n := int64(1); ; n++ {
		sum.Add(sum, term)
		term.Mul(term, square)
		term.Quo(term, new(big.Float).SetPrec(wide).SetInt64(2*n+1))
		if term.Sign() == 0 || float64(n) > f*f && term.MantExp(nil) < sum.MantExp(nil)-int(wide) {
			break
		}
	}
	whole := Mul(Sqrt(Quo(Pi, New(2))), Exp(Quo(Mul(x, x), New(2))))
	return zero().Sub(whole, sum)
}

// Phi returns φ(x).
func Phi(x *big.Float) *big.Float {
	return Quo(Exp(Quo(Mul(x, x), New(-2))), Sqrt(Mul(New(2), Pi)))
}

// NormalSF returns 1 − Φ(x).
func NormalSF(x *big.Float) *big.Float { return Mul(Phi(x), Mills(x)) }

// GaussianDelta returns δ_G(ε; s), s > 0 [BW18, Theorem 8].
func GaussianDelta(eps, s *big.Float) *big.Float {
	a := Sub(Quo(eps, s), Quo(s, New(2)))
	b := Add(a, s)
	return Sub(NormalSF(a), Mul(Exp(eps), NormalSF(b)))
}

// Chi2SF returns SF_k(x), x ≥ 0, by the finite sums [AS64, 26.4.4–5]
//
//	k even  e^{−x/2} Σ_{i<k/2} (x/2)ⁱ/i!
//	k odd   2(1−Φ(√x)) + 2φ(√x) Σ_{1≤i≤(k−1)/2} x^{i−1/2}/(1·3⋯(2i−1))
func Chi2SF(x *big.Float, k int) *big.Float {
	if x.Sign() <= 0 {
		return New(1)
	}
	sum := zero()
	if k%2 == 0 {
		term := New(1)
		for i := range k / 2 {
			if i > 0 {
				term = Quo(Mul(term, Quo(x, New(2))), New(float64(i)))
			}
			sum = Add(sum, term)
		}
		return Mul(sum, Exp(Quo(x, New(-2))))
	}
	root := Sqrt(x)
	term := Quo(New(1), root)
	for i := 1; i <= (k-1)/2; i++ {
		term = Quo(Mul(term, x), New(float64(2*i-1)))
		sum = Add(sum, term)
	}
	return Mul(New(2), Add(NormalSF(root), Mul(Phi(root), sum)))
}
