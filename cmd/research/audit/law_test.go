// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

// TestHockeyStick compares quadrature with closed forms.
func TestHockeyStick(t *testing.T) {
	normal := func(mean float64) func(float64) float64 {
		return func(x float64) float64 { return -(x-mean)*(x-mean)/2 - 0.5*math.Log(2*math.Pi) }
	}
	laplace := func(mean float64) func(float64) float64 {
		return func(x float64) float64 { return -math.Abs(x-mean) - math.Ln2 }
	}
	at := func(p, q func(float64) float64, lo, hi, eps float64, breaks ...float64) float64 {
		return tabulate(law{logDensity: p, lo: lo, hi: hi, breaks: breaks}, law{logDensity: q, lo: lo, hi: hi}).at(eps)
	}
	for _, eps := range []float64{0, 0.3, 1, 2.5} {
		for _, s := range []float64{0.2, 1, 3} {
			require.InEpsilon(t, dp.GaussianDelta(eps, s), at(normal(s), normal(0), -40, 40, eps), 1e-10)
			want := math.Max(0, -math.Expm1((eps-s)/2)) // Laplace of scale 1
			got := at(laplace(s), laplace(0), -50, 50, eps, 0, s)
			require.InDelta(t, want, got, 1e-12)
			require.LessOrEqual(t, got, dp.PureCurve(s)(eps)+1e-12)
		}
	}
	// Disjoint supports, and a half-line where the density jumps.
	exponential := func(from float64) func(float64) float64 {
		return func(x float64) float64 {
			if x < from {
				return math.Inf(-1)
			}
			return from - x
		}
	}
	require.InDelta(t, -math.Expm1(-1), at(exponential(0), exponential(1), 0, 60, 1, 1), 1e-12)
	// Noise for half the sensitivity is caught.
	sigma, err := dp.GaussianSigma(dp.Budget{Epsilon: 1, Delta: 1e-5}, 1)
	require.NoError(t, err)
	require.Greater(t, at(normal(2/sigma), normal(0), -40, 40, 1), 1e-4)
}
