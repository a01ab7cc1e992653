// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/num"
	"github.com/privopt/privopt/internal/testkit"
)

// Test is a test of a hypothesis and a bound on its p-value:
//
//	size     Σ z² ~ χ²_{nk}, both tails: the scale of the noise
//	mean     the largest √n·|mean| of a coordinate
//	shape    Kolmogorov–Smirnov on all scores
//	cells    χ² on cells of equal probability
//	order    Σ ⟨z_t, z_{t+1}⟩: noise that is repeated or correlated
//	pairs    the largest Σ_t z_ti z_tj of two coordinates
type Test struct {
	Name string  `json:"name"`
	P    float64 `json:"p"`
}

// scoreTests tests whether the rows of z, all of one length k, are independent draws from N(0, I),
// as noise of the claimed scale is. Each test rejects correct noise with probability at most
// FalseReject over their number if rejected where P is below that. A NaN or an infinite score gives
// P = 0. It panics unless n ≥ 100, k ≥ 1 and all rows have one length.
func scoreTests(z [][]float64) []Test {
	n := len(z)
	if n < 100 || len(z[0]) < 1 {
		panic("audit: fewer than 100 rows of scores, or empty ones")
	}
	k := len(z[0])
	flat := make([]float64, 0, n*k)
	for _, row := range z {
		if len(row) != k {
			panic("audit: length mismatch")
		}
		flat = append(flat, row...)
	}
	for _, v := range flat {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return []Test{{Name: "finite", P: 0}}
		}
	}
	_, shape := testkit.KolmogorovSmirnov(flat, num.NormalCDF)
	_, cells := testkit.CellsTest(flat, num.NormalCDF)
	tests := []Test{
		{"size", sizeTest(flat)},
		{"mean", meanTest(z)},
		{"shape", shape},
		{"cells", cells},
		{"order", orderTest(z)},
	}
	if k > 1 {
		tests = append(tests, Test{"pairs", pairsTest(z)})
	}
	return tests
}

// sizeTest returns the two-sided p-value of Σ z² ~ χ².
func sizeTest(z []float64) float64 {
	nu := float64(len(z))
	s := floats.Dot(z, z)
	return math.Min(1, 2*math.Min(num.Chi2CDF(s, nu), num.Chi2SF(s, nu)))
}

// twoSided returns min(1, m·P(|N| > t)), the p-value of the largest of m
// standard normal variables.
func twoSided(t float64, m int) float64 {
	return math.Min(1, 2*float64(m)*math.Exp(num.LogQ(t)))
}

// standardized returns |s|/√square, +Inf where nothing varies.
func standardized(s, square float64) float64 {
	if square == 0 {
		return math.Inf(1)
	}
	return math.Abs(s) / math.Sqrt(square)
}

// meanTest returns the p-value of the largest √n·|mean| of a coordinate.
func meanTest(z [][]float64) float64 {
	worst := 0.0
	for j := range z[0] {
		s := 0.0
		for _, row := range z {
			s += row[j]
		}
		worst = math.Max(worst, math.Abs(s))
	}
	return twoSided(worst/math.Sqrt(float64(len(z))), len(z[0]))
}

// orderTest returns the p-value of Σ ⟨z_t, z_{t+1}⟩, given the rows z_t with even t
// and then given those with odd t: each half is a sum of independent normal
// variables of known variance, so that p is exact for every n.
func orderTest(z [][]float64) float64 {
	p := 1.0
	for first := range 2 { // the fixed rows
		s, square := 0.0, 0.0
		for t := 1 - first; t < len(z); t += 2 { // the random rows
			for j, v := range z[t] {
				w := 0.0
				if t > 0 {
					w += z[t-1][j]
				}
				if t+1 < len(z) {
					w += z[t+1][j]
				}
				s += w * v
				square += w * w
			}
		}
		p = math.Min(p, twoSided(standardized(s, square), 2))
	}
	return p
}

// pairsTest returns the p-value of the largest correlation of two coordinates,
// given the first of them: exact for every n.
func pairsTest(z [][]float64) float64 {
	k, worst := len(z[0]), 0.0
	for i := range k {
		for j := range i {
			s, square := 0.0, 0.0
			for _, row := range z {
				s += row[i] * row[j]
				square += row[j] * row[j]
			}
			worst = math.Max(worst, standardized(s, square))
		}
	}
	return twoSided(worst, k*(k-1)/2)
}

// scalePower returns the probability with which the test size of n scores, at
// the false alarm alpha, sees noise whose scale is wrong by the fraction change:
// the smaller of the two for noise of 1−change and of 1+change times its size.
//
//	P(χ²_n < c₋/s²) + P(χ²_n > c₊/s²),   s = 1 ± change,   P(χ²_n < c₋) = P(χ²_n > c₊) = alpha/2
//
// At alpha = 1e-6/6 and change = 0.05 it passes 0.99 at n = 12 000. It panics
// unless n ≥ 1, 0 < change < 1 and 0 < alpha < 1.
func scalePower(n int, change, alpha float64) float64 {
	if n < 1 || !(change > 0 && change < 1 && alpha > 0 && alpha < 1) {
		panic("audit: scalePower out of range")
	}
	nu := float64(n)
	lo := num.Chi2Quantile(math.Log(alpha/2), nu)
	hi := num.Chi2UpperQuantile(math.Log(alpha/2), nu)
	power := 1.0
	for _, s := range []float64{1 - change, 1 + change} {
		power = math.Min(power, num.Chi2CDF(lo/(s*s), nu)+num.Chi2SF(hi/(s*s), nu))
	}
	return power
}

// meanPower returns the probability with which the test mean of n rows sees, at
// the false alarm alpha, a coordinate whose mean is off by shift standard
// deviations: P(|N + √n·shift| > t), P(|N| > t) = alpha.
func meanPower(n int, shift, alpha float64) float64 {
	t := num.NormalQuantile(alpha / 2) // negative
	at := math.Sqrt(float64(n)) * shift
	return num.NormalCDF(t+at) + num.NormalCDF(t-at)
}
