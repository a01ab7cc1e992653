// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

// Package num has the numerical functions on which calibrations rest: special functions with small
// relative errors far in the tails, arithmetic in twice the precision of float64, sums without
// rounding, quadrature, and searches for roots and minima.
//
// Small probabilities are logarithms. A tail is computed as one minus the other tail only if it is
// at least 0.09, which loses one digit at most. NaN and arguments outside a function's domain give
// NaN, as in package math; points outside the support of a law give its limits. Proofs:
// docs/theory/numerics.md.
//
// # Notation
//
//	P, Q   regularized lower and upper incomplete gamma functions of shape a
//	ν      degrees of freedom of χ², a real number > 0: a = ν/2
//
// # References
//
//	[DLMF]   NIST Digital Library of Mathematical Functions, chapters 7 and 8.
//	[JMP17]  Joldes, Muller, Popescu. Tight and rigorous error bounds for basic
//	         building blocks of double-word arithmetic. TOMS 2017.
//	[Kul13]  Kulisch. Computer Arithmetic and Validity. 2013.
//	[Loa00]  Loader. Fast and Accurate Computation of Binomial Probabilities. 2000.
//	[ORO05]  Ogita, Rump, Oishi. Accurate sum and dot product. SISC 2005.
//	[WH31]   Wilson, Hilferty. The Distribution of Chi-Square. PNAS 17, 1931.
package num

import "math"

// Log returns log x, also for subnormal numbers, for which math.Log on amd64 and s390x returns -709
// (golang/go#56600): a δ of 1e-320 would count as 1e-308.
func Log(x float64) float64 {
	shift := 0.0
	if x < 0x1p-1022 {
		x *= 0x1p54
		shift = 54 * math.Ln2
	}
	return math.Log(x) - shift
}

// LogSumExp returns log(eᵃ + eᵇ) without overflow.
func LogSumExp(a, b float64) float64 {
	if a < b {
		a, b = b, a
	}
	if math.IsInf(a, 0) { // both -Inf, or +Inf
		return a
	}
	return a + math.Log1p(math.Exp(b-a))
}

// LogDiffExp returns log(eᵃ - eᵇ), a ≥ b: -Inf if a = b and NaN if a < b.
func LogDiffExp(a, b float64) float64 {
	if a == b {
		return math.Inf(-1)
	}
	return a + Log1mExp(b-a)
}

// Log1mExp returns log(1 - eˣ), the logarithm of the complement of the probability eˣ: -Inf at 0,
// NaN for x > 0.
func Log1mExp(x float64) float64 {
	if x > -math.Ln2 {
		return Log(-math.Expm1(x))
	}
	return math.Log1p(-math.Exp(x))
}
