// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package audit

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/sco"
)

// TestComposed compares Gaussian steps with their closed form.
func TestComposed(t *testing.T) {
	for _, steps := range []int{1, 2, 3} {
		h := func(eps float64) float64 { return normalStick(eps, 0.8) }
		for _, eps := range []float64{-0.5, 0, 0.3, 1, 2} {
			want := normalStick(eps, 0.8*math.Sqrt(float64(steps)))
			require.InEpsilon(t, want, composed(h, steps)(eps), 2e-4, "%d steps, ε = %v", steps, eps)
		}
	}
}

// The profile of a pair of data sets stays below that of its scheme, and equals it for Poisson
// batches under add/remove.
func TestSticks(t *testing.T) {
	for _, c := range []*stochastic{
		gradients(sco.Poisson, dp.Replace, 4, 1), gradients(sco.Poisson, dp.AddRemove, 4, 1),
		gradients(sco.FixedSize, dp.Replace, 3, 1),
		gradients(sco.WithReplacement, dp.Replace, 3, 1), gradients(sco.Poisson, dp.Replace, size, 1),
	} {
		const z = 1.7
		p, q := c.mixtures(z)
		up, down := p.sticks(q)
		bound, reverse := c.batches.sticks(z)
		for _, eps := range []float64{-1, -0.2, 0, 0.1, 0.4, 1, 2} {
			require.LessOrEqual(t, up(eps), bound(eps)*(1+1e-6)+1e-12)
			require.LessOrEqual(t, down(eps), reverse(eps)*(1+1e-6)+1e-12)
			if c.batches.rel == dp.AddRemove {
				require.InDelta(t, bound(eps), up(eps), 1e-9)
				require.InDelta(t, reverse(eps), down(eps), 1e-9)
			}
		}
	}
}

// TestAccountant compares the noise of the accountant with the reference.
func TestAccountant(t *testing.T) {
	for _, c := range []*stochastic{
		gradients(sco.Poisson, dp.Replace, 2, 3), gradients(sco.Poisson, dp.AddRemove, 2, 3),
		gradients(sco.FixedSize, dp.Replace, 3, 3), gradients(sco.WithReplacement, dp.Replace, 3, 2),
		gradients(sco.Poisson, dp.Replace, size, 3),
	} {
		require.NoError(t, c.prepare(t.Context(), &env{tier: Quick, name: "x"}))
		require.InEpsilon(t, c.z, c.plan.Params().Noise, 5e-4, "%v", c.plan.Params().Sampler)
	}
}
