// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package qop

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/randmat"
)

// TestLawTable: the table is never below the law it stands for, and above it by its margin at most,
// which is small; F counts as 1 above and as F(lo) below.
func TestLawTable(t *testing.T) {
	for _, c := range []struct {
		d       int
		m, logp float64
	}{
		{2, 5, -3.9}, {2, 24, -6.9}, {10, 36, -4.6}, {12, 30, -35}, {12, 30, -65}, {3, 4, -150},
		{2, 3, -0.05}, {2, 3, -0.4}, {2, 3, -1.2}, {2, 4, -1.6}, {5, 9, -0.7}, {5, 12, -11.5}, {2, 1000, -11}, {1, 300, -11},
	} {
		tab := newTable(c.d, c.m, c.logp)
		law := randmat.MinEigenvalueLaw{Dim: c.d, Dof: c.m}
		logF := law.LogCDF
		if c.logp < exactLog+20 {
			logF = func(x float64) float64 { return math.Max(law.LogCDF(x), randmat.EdelmanLogCDF(c.d, c.m, x)) }
		}
		require.Less(t, tab.margin, 1e-5, "%v", c)
		lo, hi := tab.ends()
		require.Less(t, logF(lo), c.logp-5)
		require.Greater(t, hi, lo)
		for i := range 17 {
			x := lo * math.Pow(hi/lo, (float64(i)+0.4)/17)
			require.GreaterOrEqual(t, tab.logCDF(x), logF(x), "%v x=%v", c, x)
			require.LessOrEqual(t, tab.logCDF(x), logF(x)+2*tab.margin, "%v x=%v", c, x)
		}
		require.Equal(t, tab.logCDF(lo), tab.logCDF(lo/2))
		require.Zero(t, tab.logCDF(hi*1.01))
	}
}
