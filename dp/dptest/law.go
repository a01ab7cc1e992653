package dptest

import (
	"math"
	"slices"

	"github.com/privopt/privopt/internal/num"
)

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
func ChiSquare(counts []int, probs []float64) (stat, p float64) {
	if len(counts) != len(probs) {
		panic("dptest: length mismatch")
	}
	if len(counts) < 2 {
		panic("dptest: fewer than two cells")
	}
	n := 0
	for _, k := range counts {
		n += k
	}
	for i, k := range counts {
		e := float64(n) * probs[i]
		switch {
		case e > 0:
			stat += (float64(k) - e) * (float64(k) - e) / e
		case k > 0:
			return math.Inf(1), 0
		}
	}
	return stat, num.Chi2SF(stat, float64(len(counts)-1))
}

// CheckLaw fails t if the sample differs from the law with distribution
// function cdf by the Kolmogorov–Smirnov test or, more sensitive in scale and
// tails, by a χ² test on cells of equal probability; each has half of
// FalseReject. It needs 1000 values.
func CheckLaw(t T, sample []float64, cdf func(x float64) float64) {
	t.Helper()
	if len(sample) < 1000 {
		t.Errorf("dptest: %d values, want at least 1000", len(sample))
		return
	}
	if d, p := KolmogorovSmirnov(sample, cdf); p < FalseReject/2 {
		t.Errorf("dptest: Kolmogorov–Smirnov distance %.4g of %d values, p ≤ %.2g", d, len(sample), p)
	}
	if s, p := cells(sample, cdf); p < FalseReject/2 {
		t.Errorf("dptest: χ² statistic %.4g of %d values, p = %.2g", s, len(sample), p)
	}
}

// cells returns Pearson's statistic and its p-value on at most 100 cells of equal
// probability.
func cells(sample []float64, cdf func(x float64) float64) (stat, p float64) {
	m := max(2, min(100, len(sample)/50))
	counts := make([]int, m)
	for _, x := range sample {
		if u := cdf(x); u >= 0 && u <= 1 {
			counts[min(int(u*float64(m)), m-1)]++
		}
	}
	return ChiSquare(counts, slices.Repeat([]float64{1 / float64(m)}, m))
}
