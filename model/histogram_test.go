// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/internal/noise"
)

// TestHistogramOfOneRecord checks that one record changes one bin by 1, for any θ. The sensitivity
// of the histogram rests on it.
func TestHistogramOfOneRecord(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		rows, labels := [][]float64{}, []float64{}
		for range 20 {
			rows, labels = append(rows, []float64{rnd.NormFloat64(), rnd.NormFloat64()}), append(labels, rnd.NormFloat64())
		}
		theta := []float64{rnd.NormFloat64(), rnd.NormFloat64()}
		all, err := newHistogram(t.Context(), records(t, rows, labels), theta, 0.5, noise.Reproducible(1))
		require.NoError(t, err)
		less, err := newHistogram(t.Context(), records(t, rows[1:], labels[1:]), theta, 0.5, noise.Reproducible(1))
		require.NoError(t, err)
		floats.Sub(all, less)
		require.Equal(t, 1., floats.Sum(all))
		require.Equal(t, 1., floats.Max(all))
		require.Zero(t, floats.Min(all))
	}
}

func TestBins(t *testing.T) {
	for v, want := range map[float64]int{0: 0, 0.02: 0, 0.0201: 1, 0.75: 11, 0.76: 12, 1: 12, 5: 12, math.Inf(1): 12} {
		require.Equal(t, want, bin(edges, v), v)
	}
	require.Equal(t, len(edges)-1, bin(edges, math.NaN()))
}

// TestChoices compares choices made from fixed histograms with quantiles and moments from an
// independent Python program.
func TestChoices(t *testing.T) {
	labels := histogram{812.3, 301, 455.5, 610.2, 720, 905.1, 1100, 1350.4, 1500, 1200, 700.9, 300.3, 45}
	resid := histogram{2512.3, 1301, 1455.5, 1610.2, 1720, 905.1, 300, 150.4, -20, 20, 10.9, -8.3, 4}
	const n, d = 10000, 20
	require.InEpsilon(t, 0.06551929983651146, labels.secondMoment(), 1e-12)
	require.InEpsilon(t, 0.40987230703381355, quantile(labels.cdf(n, 0.2*n), 0.9), 1e-12)
	require.InEpsilon(t, 0.004762321748553467, resid.secondMoment(), 1e-12)
	for unit, clip := range map[float64]float64{3: 0.1452954185642562, 12: 0.09971039300390085, 40: 0.05901699817528623,
		900: 0.042029371350051525} {
		var c Choice
		c.choose(resid, labels.secondMoment(), n, 0.2*n, d, unit)
		require.InEpsilon(t, clip, c.Clip, 1e-12)
		require.InEpsilon(t, 0.06075697808795799, c.Signal, 1e-12)
	}
	// If the counts are only noise, the choices depend on public numbers only.
	empty := make(histogram, len(edges))
	for k, v := range labels {
		empty[k] = -v / 10
	}
	require.Equal(t, make([]float64, len(edges)), empty.cdf(n, 0.2*n))
	require.Equal(t, 1., quantile(empty.cdf(n, 0.2*n), 0.9))
	require.Equal(t, 1e-3, empty.secondMoment())
}
