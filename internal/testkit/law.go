// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package testkit

import (
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/mathext"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/internal/num"
)

// FalseReject is the probability, over the seed, with which a statistical test rejects correct
// code.
const FalseReject = 1e-6

// KolmogorovSmirnov returns the distance of a sample to the law with the
// continuous distribution function cdf, and a bound on its p-value that holds
// for every n:
//
//	D = sup |F_n - F|,   p ≤ 2 e^{-2nD²}                [Mas90]
//
// The sample is not changed. An empty sample gives 0 and 1; a NaN in it or
// from cdf gives 1 and 0.
func KolmogorovSmirnov(sample []float64, cdf func(x float64) float64) (d, p float64) {
	s := slices.Clone(sample)
	slices.Sort(s)
	n := float64(len(s))
	for i, x := range s {
		f := cdf(x)
		if math.IsNaN(x) || math.IsNaN(f) {
			return 1, 0
		}
		d = max(d, f-float64(i)/n, float64(i+1)/n-f)
	}
	return d, math.Min(1, 2*math.Exp(-2*n*d*d))
}

// ChiSquare returns Pearson's statistic of the counts against the
// probabilities (which add up to 1) and its asymptotic p-value with one degree
// of freedom less than there are cells:
//
//	X² = Σ (kᵢ - n pᵢ)²/(n pᵢ)
//
// Every n pᵢ should be 10 or more. A count where pᵢ = 0 gives +Inf and 0. It
// panics on a length mismatch or fewer than two cells.
func ChiSquare(counts []int, probs []float64) (square, p float64) {
	if len(counts) != len(probs) {
		panic("testkit: length mismatch")
	}
	if len(counts) < 2 {
		panic("testkit: fewer than two cells")
	}
	seen := make([]float64, len(counts))
	for i, k := range counts {
		seen[i] = float64(k)
	}
	want := floats.ScaleTo(make([]float64, len(probs)), floats.Sum(seen), probs)
	square = stat.ChiSquare(seen, want)
	return square, num.Chi2SF(square, float64(len(counts)-1))
}

// CheckLaw fails t if the sample differs from the law with distribution
// function cdf by the Kolmogorov–Smirnov test or by a χ² test on cells of equal probability, which
// sees more of the scale and of the tails. Each test has half of FalseReject. It needs 1000 values.
func CheckLaw(t interface {
	Helper()
	Errorf(format string, args ...any)
}, sample []float64, cdf func(x float64) float64) {
	t.Helper()
	if len(sample) < 1000 {
		t.Errorf("testkit: %d values, want at least 1000", len(sample))
		return
	}
	if d, p := KolmogorovSmirnov(sample, cdf); p < FalseReject/2 {
		t.Errorf("testkit: Kolmogorov–Smirnov distance %.4g of %d values, p ≤ %.2g", d, len(sample), p)
	}
	if s, p := CellsTest(sample, cdf); p < FalseReject/2 {
		t.Errorf("testkit: χ² statistic %.4g of %d values, p = %.2g", s, len(sample), p)
	}
}

// CellsTest returns the statistic of ChiSquare and its p-value on at most 100 cells, to which the
// distribution function cdf gives equal probability.
func CellsTest(sample []float64, cdf func(x float64) float64) (stat, p float64) {
	m := max(2, min(100, len(sample)/50))
	counts := make([]int, m)
	for _, x := range sample {
		if u := cdf(x); u >= 0 && u <= 1 {
			counts[min(int(u*float64(m)), m-1)]++
		}
	}
	return ChiSquare(counts, slices.Repeat([]float64{1 / float64(m)}, m))
}

// ClopperPearson returns the exact two-sided confidence limits for the probability of an event
// seen k times in n runs. Each side fails with probability alpha/2 [CP34]. It panics unless
// 0 ≤ k ≤ n and n ≥ 1.
func ClopperPearson(k, n int, alpha float64) (lo, hi float64) {
	if k < 0 || k > n || n < 1 {
		panic("testkit: counts out of range")
	}
	// P(X ≥ k | p) = I_p(k, n-k+1) increases in p. The inverse of gonum fails in the tails.
	solve := func(a, b, target float64) float64 {
		_, p := num.Bisect(func(p float64) bool { return mathext.RegIncBeta(a, b, p) < target }, 0, 1)
		return p
	}
	hi = 1
	if k > 0 {
		lo = solve(float64(k), float64(n-k+1), alpha/2)
	}
	if k < n {
		hi = solve(float64(k+1), float64(n-k), 1-alpha/2)
	}
	return lo, hi
}
