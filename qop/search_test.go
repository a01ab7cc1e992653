// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestLeastRatio checks that the search over integers ends near the minimum of costs that are flat
// around it, with few calls.
func TestLeastRatio(t *testing.T) {
	for _, least := range []float64{2, 13, 101} {
		for _, best := range []float64{0, 1, 5, 40, 900} {
			at := least + best
			calls := 0
			cost := func(m float64) float64 {
				calls++
				require.Equal(t, math.Round(m), m)
				require.GreaterOrEqual(t, m, least)
				u := math.Log((m - least + 2) / (best + 2))
				return 1 + u*u
			}
			got := leastRatio(cost, least, 1e5)
			u := math.Log((got - least + 2) / (best + 2))
			require.Less(t, math.Abs(u), 0.1+0.5/(best+2), "least %v, best %v: %v", least, at, got)
			require.Less(t, calls, 20)
		}
	}
}

// TestSimplex: the minimum of a quadratic and of one with a wall.
func TestSimplex(t *testing.T) {
	f := func(x []float64) float64 { return (x[0]-1)*(x[0]-1) + 10*(x[1]+2)*(x[1]+2) + x[0]*x[1] }
	x, v := simplex(f, []float64{0, 0}, 200)
	require.InDelta(t, f(x), v, 0)
	require.InDelta(t, f([]float64{80. / 39, -82. / 39}), v, 1e-5) // 2(x−1) + y = 0 and 20(y+2) + x = 0
	wall := func(x []float64) float64 {
		if x[0] < 0.5 {
			return math.NaN()
		}
		return x[0]
	}
	evals := 0
	x, v = simplex(func(x []float64) float64 { evals++; return wall(x) }, []float64{3}, 80)
	require.InDelta(t, 0.5, v, 1e-3)
	require.InDelta(t, 0.5, x[0], 1e-3)
	require.LessOrEqual(t, evals, 84)
}
