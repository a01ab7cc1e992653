// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package objpert

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

// TestSeparatorFormulas: shifts, scales and bounds of RSPM for every separator.
func TestSeparatorFormulas(t *testing.T) {
	fixed := Space{Values: []int{-2, 0, 1, 3}, NormSq: -1, Allowed: [][]bool{
		{false, false, true, false}, {true, true, true, true}, {true, false, true, false},
	}}
	for _, c := range []struct {
		space Space
		dim   int
		m     int
		sep   separator
	}{{cube(), 3, 3, unitVectors}, {ternary(), 3, 6, signedUnitVectors}, {fixed, 3, 4, thresholds}} {
		q := public{Space: c.space, Dim: c.dim, Range: 3, Budget: dp.Budget{Epsilon: 0.8, Delta: 1e-6}}
		p, err := calibrate(&RSPM{}, q)
		require.NoError(t, err)
		require.Equal(t, c.sep, p.separator)
		require.Equal(t, c.m, p.params.Noises)
		require.Equal(t, 6., p.params.Shift)
		m := float64(c.m)
		require.GreaterOrEqual(t, p.params.Scale, m*6/0.8)
		require.InEpsilon(t, m*6/0.8, p.params.Scale, 1e-6)
		require.InEpsilon(t, (p.params.Scale+math.Ldexp(1, p.params.Exponent))*m, p.params.ExcessBound, 1e-14)
		g, err := calibrate(&RSPM{Law: Gaussian}, q)
		require.NoError(t, err)
		require.LessOrEqual(t, l1LogDelta(0.8, 6/g.params.Scale, c.m), math.Log(1e-6))
		require.Greater(t, l1LogDelta(0.8, 6/g.params.Scale*(1+1e-7), c.m), math.Log(1e-6))
		require.InEpsilon(t, g.params.Scale*m*math.Sqrt(2/math.Pi), g.params.ExcessBound, 1e-6)
		half, err := calibrate(&RSPM{Relation: dp.AddRemove}, q)
		require.NoError(t, err)
		require.Equal(t, 3., half.params.Shift)
	}
	_, err := calibrate(&RSPM{Law: Gaussian}, public{Space: cube(), Dim: 3, Range: 1, Budget: dp.Budget{Epsilon: 1}})
	require.ErrorIs(t, err, dp.ErrBudget)
	for _, space := range []Space{{Values: []int{-2, 0, 1}, NormSq: -1}, {Values: []int{-1, 0, 2}, NormSq: -1}} {
		_, err := calibrate(&RSPM{}, public{Space: space, Dim: 3, Range: 1, Budget: dp.Budget{Epsilon: 1}})
		require.ErrorIs(t, err, dp.ErrCondition)
		require.ErrorContains(t, err, "separates subsets")
	}
	for d, ok := range map[int]bool{maxNoises / 2: true, maxNoises/2 + 1: false} { // two a coordinate
		_, err := calibrate(&RSPM{}, public{Space: ternary(), Dim: d, Range: 1, Budget: dp.Budget{Epsilon: 1}})
		require.Equal(t, ok, err == nil, "%v", err)
	}
}
