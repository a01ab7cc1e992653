// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package sco

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
)

// TestPublishedSGD: the numbers of Theorem 3.2 by hand and by golden values of its formulas, with T
// = max(1, floor), m = max(1, ceil) and natural logarithms, and what their noise proves.
func TestPublishedSGD(t *testing.T) {
	p, err := PublishedSGD(100, 10, dp.Budget{Epsilon: 1, Delta: 1e-4})
	require.NoError(t, err)
	require.Equal(t, 3, p.Steps) // 10⁴/(320·9.21) = 3.39
	require.Equal(t, dp.Sampler{Size: 29, Records: 100, Repeats: true}, p.Sampler)
	require.InDelta(t, 29*math.Sqrt(24*math.Log(1e4))/100, p.Noise, 1e-12)
	require.InDelta(t, 1, p.Excess, 0.04) // 10·max(√(92.1)/100, 1/10)
	proved, err := p.Sampler.Epsilon(p.Noise, p.Steps, 1e-4)
	require.NoError(t, err)
	require.InDelta(t, 2.6, proved, 0.1)

	p, err = PublishedSGD(100_000, 10, dp.Budget{Epsilon: 0.5, Delta: 1e-10})
	require.NoError(t, err)
	require.Equal(t, 12_500, p.Steps)
	require.Equal(t, 317, p.Sampler.Size)
	require.InDelta(t, 10/math.Sqrt(1e5), p.Excess, 1e-12)

	// Golden values. The noise of the last row, one step, is too small for its claim.
	for _, c := range []struct {
		n, d         int
		eps, delta   float64
		steps, batch int
		noise        float64
	}{
		{10000, 10, 1, 1e-8, 1250, 142, 6.094543514661746},
		{10000, 100, 0.5, 1e-8, 424, 172, 8.59882681692302},
		{1000, 1000, 1, 1e-6, 2, 354, 5.263161819411371},
		{200, 300, 1, 2.5e-5, 1, 100, 4.6036148260027305},
	} {
		b := dp.Budget{Epsilon: c.eps, Delta: c.delta}
		p, err := PublishedSGD(c.n, c.d, b)
		require.NoError(t, err)
		require.Equal(t, c.steps, p.Steps)
		require.Equal(t, dp.Sampler{Size: c.batch, Records: c.n, Repeats: true}, p.Sampler)
		require.InEpsilon(t, c.noise, p.Noise, 1e-12)
		if c.steps == 1 {
			z, err := p.Sampler.Noise(p.Steps, b)
			require.NoError(t, err)
			require.Greater(t, z, 1.2*p.Noise)
		}
	}
	for _, b := range []dp.Budget{{Epsilon: 1}, {}, {Epsilon: math.NaN(), Delta: 1e-5}} {
		_, err = PublishedSGD(100, 10, b)
		require.Error(t, err)
	}
	for _, n := range []int{0, -1} {
		_, err = PublishedSGD(n, 1, dp.Budget{Epsilon: 1, Delta: 1e-5})
		require.ErrorIs(t, err, ErrMechanism)
		_, err = PublishedSGD(1, n, dp.Budget{Epsilon: 1, Delta: 1e-5})
		require.ErrorIs(t, err, ErrMechanism)
	}
}
