// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"fmt"
	"math"
)

// Feature declares one column of decimal data with values in [Lo, Hi], rounded to multiples of
// 1/Den. A ratio to a public maximum, such as hours/99, has Den = 99. Bounds and Den are public:
// never compute them from the rows.
type Feature struct {
	Lo, Hi float64
	Den    int64 // denominator, at least 1
}

// Integers scales decimal rows to integers, by the least common multiple of the Den, which keeps
// the sign of every score. Each value is first moved into [Lo, Hi] (NaN as 0) and rounded to a
// multiple of 1/Den; no value causes an error. b is the largest |w_j| of the space that the rows
// are used with. Errors wrap [ErrProblem].
func Integers(rows [][]float64, features []Feature, b int) ([][]int64, error) {
	if b < 1 || b > maxValue {
		return nil, fmt.Errorf("%w: b = %d, want the largest |w_j| in [1, %d]", ErrProblem, b, maxValue)
	}
	l := int64(1)
	for j, f := range features {
		switch {
		case f.Den < 1 || f.Den > 1<<53:
			return nil, fmt.Errorf("%w: features[%d].Den = %d, want a denominator in [1, 2^53], for example 100 for two "+
				"decimals", ErrProblem, j, f.Den)
		case !(f.Lo <= f.Hi) || math.IsInf(f.Lo, 0) || math.IsInf(f.Hi, 0):
			return nil, fmt.Errorf("%w: features[%d] has Lo = %v and Hi = %v, want finite Lo ≤ Hi", ErrProblem, j, f.Lo, f.Hi)
		}
		l = lcm(l, f.Den)
		if l < 0 {
			return nil, fmt.Errorf("%w: the least common multiple of the denominators up to features[%d] exceeds 2^62; "+
				"declare smaller ones", ErrProblem, j)
		}
	}
	sum := 0.0 // bound on |⟨x, w⟩|
	for _, f := range features {
		sum += above(max(math.Abs(f.Lo), math.Abs(f.Hi))*float64(l)+1) * float64(b)
	}
	if sum >= maxScore {
		return nil, fmt.Errorf("%w: scores may reach %.3g, want less than 2^62: declare smaller denominators (their "+
			"least common multiple is %d) or narrower Lo and Hi", ErrProblem, sum, l)
	}
	out := grid[int64](len(rows), len(features))
	for i, row := range rows {
		if len(row) != len(features) {
			return nil, fmt.Errorf("%w: a row has another number of values, want %d, that of the features",
				ErrProblem, len(features))
		}
		for j, v := range row {
			f := features[j]
			if math.IsNaN(v) {
				v = 0
			}
			v = min(max(v, f.Lo), f.Hi)
			out[i][j] = int64(math.Round(v*float64(f.Den))) * (l / f.Den)
		}
	}
	return out, nil
}

// lcm returns the least common multiple of a and b ≥ 1, or −1 above 2⁶².
func lcm(a, b int64) int64 {
	b /= int64(gcd(uint64(a), uint64(b)))
	if b > maxScore/a {
		return -1
	}
	return a * b
}
