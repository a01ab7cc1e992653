// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package splitting

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/prox"
)

// TestPenaltyDist compares the distance to the subdifferential in coordinate descent with the one
// of package prox, on every piece of the penalty, where the box is a point, and at every scale. It
// also checks that the function reports whether a coordinate moved to another piece.
func TestPenaltyDist(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	const n = 4
	for _, c := range []struct{ l1, l2, lo, hi float64 }{
		{0, 0, math.Inf(-1), math.Inf(1)}, {1, 0, -1, 1}, {1, 2, 0, 1}, {0, 1, -1, 0}, {0.5, 0, 0, 0}, {2, 0, 0.5,
			math.Inf(1)},
	} {
		box := prox.Box{Lo: c.lo, Hi: c.hi}
		op, ok := sumOf(prox.ElasticNet{L1: c.l1, L2: c.l2}, box)
		require.True(t, ok)
		var p penalty
		require.NoError(t, p.init(op.(coordinatewise), n))
		points := []float64{c.lo, c.hi, 0, 0.7, -0.3, 0.5}
		for range 500 {
			x, v := make([]float64, n), make([]float64, n)
			// The scale runs from 1e-150 to 1e150, so that squares overflow or underflow.
			scale := math.Pow(10, float64(rnd.IntN(5))*75-150)
			for i := range x {
				x[i] = points[rnd.IntN(len(points))]
				if math.IsInf(x[i], 0) {
					x[i] = 3
				}
				v[i] = scale * rnd.NormFloat64()
			}
			p.clip(x)
			var want float64
			for i := range x {
				want = math.Hypot(want, op.(prox.Subdifferential).Dist(x[i:i+1], v[i:i+1]))
			}
			pieces := make([]int8, n)
			got, same := p.dist(x, v, pieces)
			require.False(t, same)
			require.InDelta(t, want, got, 1e-14*want, "%v at %v, %v", c, x, v)
			again, same := p.dist(x, v, pieces)
			require.True(t, same)
			require.Equal(t, got, again)
			require.InDelta(t, op.Func(x), p.value(x), 1e-14*math.Abs(op.Func(x)))
			y, z := make([]float64, n), make([]float64, n)
			p.prox(y, v, 0.3)
			op.Prox(z, v, 0.3)
			for i := range y {
				require.InDelta(t, z[i], y[i], 1e-14*math.Abs(z[i]))
			}
		}
	}
	var p penalty
	require.NoError(t, p.init(zero{}, 1))
	got, _ := p.dist([]float64{0}, []float64{math.NaN()}, make([]int8, 1))
	require.True(t, math.IsNaN(got), "a NaN gradient must not look optimal")
}
