package objpert

import (
	"fmt"
	"math"
)

// Feature declares one column of decimal data: x ∈ [Lo, Hi] is r/Den for an
// integer r. The ratios of public maxima, as in hours/99, have Den = 99. Bounds
// and Den are public: never compute them from the rows.
type Feature struct {
	Lo, Hi float64
	Den    int64 // denominator, at least 1: values are rounded to multiples of 1/Den, which then are the data
}

// Integers scales decimal rows by L, the least common multiple of the Den, to
// integers: every score keeps its sign. Values outside [Lo, Hi], and NaN as 0,
// are first brought into it, and all are rounded to a multiple of 1/Den, each by
// itself and without a word: no error depends on a value. b is the largest |w_j| of
// the space that the rows will meet. Errors wrap ErrProblem.
func Integers(rows [][]float64, features []Feature, b int) ([][]int64, error) {
	if b < 1 || b > maxValue {
		return nil, fmt.Errorf("%w: b = %d, want the largest |w_j| in [1, %d]", ErrProblem, b, maxValue)
	}
	l := int64(1)
	for j, f := range features {
		switch {
		case f.Den < 1 || f.Den > 1<<53:
			return nil, fmt.Errorf("%w: features[%d].Den = %d, want a denominator in [1, 2^53], for example 100 for two decimals",
				ErrProblem, j, f.Den)
		case !(f.Lo <= f.Hi) || math.IsInf(f.Lo, 0) || math.IsInf(f.Hi, 0):
			return nil, fmt.Errorf("%w: features[%d] has Lo = %v and Hi = %v, want finite Lo ≤ Hi", ErrProblem, j, f.Lo, f.Hi)
		}
		l = lcm(l, f.Den)
		if l < 0 {
			return nil, fmt.Errorf("%w: the least common multiple of the denominators up to features[%d] exceeds 2^62; declare smaller "+
				"ones", ErrProblem, j)
		}
	}
	sum := 0.0 // bound on |⟨x, w⟩|
	for _, f := range features {
		sum += above(max(math.Abs(f.Lo), math.Abs(f.Hi))*float64(l)+1) * float64(b)
	}
	if sum >= maxScore {
		return nil, fmt.Errorf("%w: scores may reach %.3g, want less than 2^62: declare smaller denominators (their least common "+
			"multiple is %d) or narrower Lo and Hi", ErrProblem, sum, l)
	}
	out := grid[int64](len(rows), len(features))
	for i, row := range rows {
		if len(row) != len(features) {
			return nil, fmt.Errorf("%w: a row has another number of values, want %d, that of the features", ErrProblem, len(features))
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

// lcm is the least common multiple of a and b ≥ 1, or -1 above 2^62.
func lcm(a, b int64) int64 {
	b /= int64(gcd(uint64(a), uint64(b)))
	if b > maxScore/a {
		return -1
	}
	return a * b
}
