// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// The bound at the chosen step is the least around, and formats are stable.
func TestScheduleAndNames(t *testing.T) {
	q := declaredSetting(t, 1000, 5, 1, 1e-6, 1, 0.25, 1)
	for _, scheme := range []Scheme{Poisson, FixedSize} {
		s := schedule{q: q, l: 1, steps: 100, m: 100, sigma: 0.05, scheme: scheme}
		eta := s.step(0.25)
		for _, f := range []float64{0.8, 1.25} {
			require.Greater(t, s.bound(f*eta, 0.25), s.bound(eta, 0.25))
		}
		require.True(t, math.IsInf(s.bound(9, 0.25), 1))
	}
	require.Equal(t, "poisson fixed-size with-replacement invalid scheme 4", Poisson.String()+" "+FixedSize.String()+" "+
		WithReplacement.String()+" "+Scheme(4).String())
}
