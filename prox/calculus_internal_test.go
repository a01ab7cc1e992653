// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestShiftOfSkewVectors checks the bound on the shift for computed singular vectors that are not
// exactly orthonormal. Here X = (1+10⁻⁶)·1·1, and the bound must cover the distance to the matrix 1
// of exact singular vectors.
func TestShiftOfSkewVectors(t *testing.T) {
	for _, swap := range []bool{false, true} {
		d, ok := decompose([]float64{1}, 1, 1)
		require.True(t, ok)
		d.u.Data[0], d.s[0], d.v.Data[0] = 1+1e-6, 1, 1
		if swap {
			d.u.Data[0], d.v.Data[0] = 1, 1+1e-6
		}
		s := d.shift([]float64{1 + 1e-6}, 1)
		require.GreaterOrEqual(t, s, 1e-6)
		require.Less(t, s, 3e-6)
	}
}

// TestLipschitz checks that the Lipschitz constant of a seminorm is the norm of its longest
// subgradient at 0.
func TestLipschitz(t *testing.T) {
	for _, c := range []struct {
		g seminorm
		u []float64 // an extreme point of ∂g(0)
	}{
		{L2Norm{2}, []float64{2, 0, 0, 0}},
		{LInfNorm{2}, []float64{0, -2, 0, 0}},
		{GroupL2{Groups: [][]int{{0, 1}, {}, {3}}, Weight: 2}, []float64{0, 2, 0, -2}},
		{SortedL1{[]float64{4, 3, 2, 1}}, []float64{-2, 1, 4, 3}},
		{TotalVariation{2}, []float64{2, -4, 4, -2}},
		{NuclearNorm{2, 2, 2}, []float64{0, 2, -2, 0}},
	} {
		zero := make([]float64, 4)
		require.InDelta(t, 0, c.g.Dist(zero, c.u), 1e-15, "%T", c.g)
		require.InEpsilon(t, norm2(c.u), c.g.lipschitz(4), 1e-14, "%T", c.g)
		require.GreaterOrEqual(t, c.g.lipschitz(4), norm2(c.u)*(1-2*ulp), "%T", c.g)
		longer := make([]float64, 4)
		for i, ui := range c.u {
			longer[i] = 1.001 * ui
		}
		require.Greater(t, c.g.Dist(zero, longer), 1e-4, "%T", c.g)
	}
	require.False(t, math.IsNaN(number(math.NaN())))
}
