// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// expSquare returns c·e^{x²}, or c·e^{−x²} for sign = −1, with x² in twice the precision: the
// rounding error of x² would cost x²·2⁻⁵³.
func expSquare(sign, x, c float64) float64 {
	hi := x * x
	lo := math.FMA(x, x, -hi) // x² = hi + lo, exactly
	return math.Exp(sign*hi) * (1 + sign*lo) * c
}

// Erfcx returns the scaled complementary error function
//
//	erfcx(x) = e^{x²}·erfc(x)                          [DLMF 7.2.2]
//
// with relative error below 1e-14. It overflows to +Inf below x = -26.6.
func Erfcx(x float64) float64 {
	switch {
	case math.IsNaN(x):
		return x
	case x < -26.7:
		return math.Inf(1)
	case x < 2:
		return expSquare(1, x, math.Erfc(x))
	case x > 1e8: // the next term of the series is 1/(2x²) < 2⁻⁵³
		return 1 / (x * math.Sqrt(math.Pi))
	}
	// Laplace's continued fraction x + (1/2)/(x + (2/2)/(x + (3/2)/(x + …
	// [DLMF 7.9.1]; the error after n terms falls as e^{-2x√(2n)}.
	n := 10 + int(200/(x*x))
	f := x
	for k := n; k > 0; k-- {
		f = x + float64(k)/2/f
	}
	return 1 / (f * math.Sqrt(math.Pi))
}

// Mills returns the Mills ratio
//
//	R(x) = (1 - Φ(x))/φ(x) = √(π/2)·erfcx(x/√2)        [DLMF 7.8.1]
func Mills(x float64) float64 {
	return math.Sqrt(math.Pi/2) * Erfcx(x/math.Sqrt2)
}

// NormalCDF returns Φ(x) with small relative error in the lower tail.
func NormalCDF(x float64) float64 {
	switch {
	case x < -40: // below the least float64
		return 0
	case x < -2:
		// e^{-x²/2} is the square of e^{-(x/2)²}, and x/2 is exact.
		h := expSquare(-1, x/2, 1)
		return h * h * Erfcx(-x/math.Sqrt2) / 2
	}
	return math.Erfc(-x/math.Sqrt2) / 2
}

// LogPhi returns log Φ(x) with small relative error for every x, also far in the upper tail, where
// it is close to -(1 - Φ(x)).
func LogPhi(x float64) float64 {
	switch {
	case math.IsInf(x, -1):
		return x
	case x < -1:
		return -x*x/2 + Log(Erfcx(-x/math.Sqrt2)/2)
	case x <= 0:
		return Log(math.Erfc(-x/math.Sqrt2) / 2)
	}
	return math.Log1p(-NormalCDF(-x))
}

// LogQ returns log(1 - Φ(x)) = log Φ(-x).
func LogQ(x float64) float64 { return LogPhi(-x) }

// NormalQuantile returns Φ⁻¹(p): -Inf and +Inf at p = 0 and 1, NaN outside [0, 1]. A step of
// Newton's method for log Φ improves gonum's approximation.
func NormalQuantile(p float64) float64 {
	switch {
	case !(p >= 0 && p <= 1):
		return math.NaN()
	case p == 0:
		return math.Inf(-1)
	case p == 1:
		return math.Inf(1)
	}
	x := mathext.NormalQuantile(p)
	if x < 0 { // above 1/2 the spacing of p limits the result, not the formula
		// d log Φ/dx = φ/Φ = 1/R(-x)
		x -= (LogPhi(x) - Log(p)) * Mills(-x)
	}
	return x
}

// MillsSlope returns
//
//	-R'(x) = 1 - x·R(x) > 0
//
// without the cancellation of the difference: for large x it is k/(x+k), where R(x) = 1/(x+k) with
// k = 1/(x + 2/(x + 3/(x + … is Laplace's fraction.
func MillsSlope(x float64) float64 {
	if !(x >= 2) {
		return 1 - x*Mills(x)
	}
	if x > 1e9 { // 1/x², to rounding
		return 1 / x / x
	}
	p, q := 0.0, 1.0 // k = p/q from the inside out, without a division a step
	for j := 11 + int(400/(x*x)); j > 0; j-- {
		p, q = float64(j)*q, float64(x*q)+p // positive terms, below 1e100
	}
	k := p / q
	return k / (x + k)
}

// MillsSlopes replaces every x by MillsSlope(x), bit for bit: products are rounded before they are
// added, so that no compiler fuses some of them. The steps of Laplace's fraction wait
// for one another, so six fractions side by side take hardly longer than one.
func MillsSlopes(x []float64) {
	for len(x) > 0 {
		var at, p, q [6]float64
		n := copy(at[:], x)
		least, most := at[0], at[0]
		for _, x := range at[1:n] {
			least, most = min(least, x), max(most, x)
		}
		if !(least >= 2 && most <= 1e9) {
			for i := range n {
				x[i] = MillsSlope(x[i])
			}
			x = x[n:]
			continue
		}
		shared := 11 + int(400/(most*most)) // the fewest steps
		for i := range at {
			q[i] = 1
			if i < n {
				for j := 11 + int(400/(at[i]*at[i])); j > shared; j-- {
					p[i], q[i] = float64(j)*q[i], float64(at[i]*q[i])+p[i]
				}
			}
		}
		p0, p1 := p[0], p[1]
		p2, p3 := p[2], p[3]
		p4, p5 := p[4], p[5]
		q0, q1 := q[0], q[1]
		q2, q3 := q[2], q[3]
		q4, q5 := q[4], q[5]
		for j := float64(shared); j > 0; j-- {
			p0, q0 = j*q0, float64(at[0]*q0)+p0
			p1, q1 = j*q1, float64(at[1]*q1)+p1
			p2, q2 = j*q2, float64(at[2]*q2)+p2
			p3, q3 = j*q3, float64(at[3]*q3)+p3
			p4, q4 = j*q4, float64(at[4]*q4)+p4
			p5, q5 = j*q5, float64(at[5]*q5)+p5
		}
		k := [6]float64{p0 / q0, p1 / q1, p2 / q2, p3 / q3, p4 / q4, p5 / q5}
		for i := range n {
			x[i] = k[i] / (x[i] + k[i])
		}
		x = x[n:]
	}
}
