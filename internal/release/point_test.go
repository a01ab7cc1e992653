// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package release

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/dp"
)

// TestNewPoint: points that are S apart in a norm are rounded to points at most S′ apart in that
// norm, some of them more than S, and the noise hides S′ at the claimed ε: the largest loss of the
// real noise is certainly at most ε.
func TestNewPoint(t *testing.T) {
	const apart, reach = 2.5, 0x1p58 // the grid is 1, which shows
	rnd := rand.New(rand.NewPCG(3, 9))
	for _, norm := range []float64{1, 2} {
		for _, d := range []int{1, 2, 9} {
			o, err := NewPoint(d, apart, reach, norm == 1, dp.Budget{Epsilon: 1})
			require.NoError(t, err)
			require.Equal(t, 1.0, o.Grid())
			root := math.Pow(float64(d), 1/norm)
			require.InEpsilon(t, apart+root, o.Sensitivity, 1e-8)
			x, y, farthest := make([]float64, d), make([]float64, d), 0.0
			for range 5000 {
				step := make([]float64, d)
				for j := range x {
					x[j], step[j] = 10*rnd.NormFloat64(), rnd.NormFloat64()
				}
				floats.AddScaledTo(y, x, apart/floats.Norm(step, norm), step)
				k, l := o.Round(x, mostPoint), o.Round(y, mostPoint)
				for j := range x {
					step[j] = float64(k[j] - l[j])
				}
				farthest = max(farthest, floats.Norm(step, norm))
			}
			require.LessOrEqual(t, farthest, o.Sensitivity)
			require.Greater(t, farthest, apart)
		}
	}
	small, err := NewPoint(4, 1, 1, true, dp.Budget{Epsilon: 1})
	require.NoError(t, err)
	require.LessOrEqual(t, small.Grid()*4, 0x1p-20)
	require.InEpsilon(t, 1, small.Laplace, 1e-5)
	require.True(t, small.ProvesLaplace(dp.Budget{Epsilon: 1}))
	require.False(t, small.ProvesLaplace(dp.Budget{Epsilon: 1 - 1e-8}))
	_, err = NewPoint(4, 1, 1, true, dp.Budget{Epsilon: 1, Delta: 1e-6})
	require.ErrorIs(t, err, dp.ErrBudget)
	for _, bad := range []float64{0, math.Inf(1), math.NaN(), 1e300, 1e-300} {
		_, err = NewPoint(4, bad, 1, true, dp.Budget{Epsilon: 1})
		require.ErrorIs(t, err, dp.ErrCondition)
		_, err = NewPoint(4, 1, bad, false, dp.Budget{Epsilon: 1})
		require.ErrorIs(t, err, dp.ErrCondition)
	}
}
