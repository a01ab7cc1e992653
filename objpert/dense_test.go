package objpert

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// denseProblem is n standard Gaussian rows, rounded to 1/100, labeled by a
// random halfspace with a tenth of the labels flipped.
func denseProblem(t testing.TB, n, d, q int) *Problem {
	r := rand.New(rand.NewPCG(uint64(n), uint64(d)))
	plane := make([]float64, d)
	for j := range plane {
		plane[j] = r.NormFloat64()
	}
	rows, labels := make([][]int64, n), make([]int, n)
	for i := range rows {
		rows[i] = make([]int64, d)
		s := 0.0
		for j := range rows[i] {
			v := r.NormFloat64()
			rows[i][j] = int64(100 * v)
			s += v * plane[j]
		}
		labels[i] = -1
		if (s > 0) != (r.IntN(10) == 0) {
			labels[i] = 1
		}
	}
	p, err := NewProblem(rows, labels, nil, Lattice(q))
	require.NoError(t, err)
	return p
}
