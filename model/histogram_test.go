// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/stat"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/internal/fault"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/table"
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

// TestNoiseOfHistogram checks that bins have noise of mean 0 and of the deviation that was asked
// for, of records and of persons.
func TestNoiseOfHistogram(t *testing.T) {
	const runs, tau = 4000, 3.0
	bounds := loss.Bounds{Row: 1, Label: 1}
	lines, err := erm.NewBuilder(1, false, bounds)
	require.NoError(t, err)
	for i := range 6 {
		lines.Add([]float64{1}, 0.5)
		lines.ID(string(rune('a' + i/2)))
	}
	persons, err := lines.ByPerson(t.Context(), erm.Persons{Rows: 2})
	require.NoError(t, err)
	for _, data := range []*erm.Data{records(t, [][]float64{{1}, {1}, {1}}, []float64{0.5, 0.5, 0.5}), persons} {
		src := noise.Reproducible(9)
		var noisy [2][]float64 // of a bin without records and of that with three units
		for range runs {
			h, err := newHistogram(t.Context(), data, nil, tau, src)
			require.NoError(t, err)
			noisy[0] = append(noisy[0], h[0])
			noisy[1] = append(noisy[1], h[bin(edges, 0.5)])
		}
		for k, want := range []float64{0, 3} {
			mean, deviation := stat.MeanStdDev(noisy[k], nil)
			require.InDelta(t, want, mean, 4.9*tau/math.Sqrt(runs))
			require.InEpsilon(t, tau, deviation, 4.9/math.Sqrt(2*runs))
		}
	}
}

// TestHistogramsSpendTheirShares checks the noise of both histograms of a sequence in a whole fit:
// a record that is added or removed changes one count by 1, one that is replaced two of them.
func TestHistogramsSpendTheirShares(t *testing.T) {
	for rel, square := range map[dp.Relation]float64{dp.AddRemove: 1, dp.Replace: 2} {
		rows, labels := make([][]float64, 5000), make([]float64, 5000)
		for i := range rows {
			rows[i], labels[i] = []float64{1, float64(i%10) / 10}, float64(i%7)/7
		}
		var sigmas []float64
		ctx := fault.With(t.Context(), fault.Release, func(s fault.Sum) fault.Sum {
			sigmas = append(sigmas, s.Sigma)
			return s
		})
		m, err := Fit(ctx, &table.Data{Records: records(t, rows, labels)}, some, &Options{Loss: Loss{Name: Squares},
			Relation: rel, Records: 5000, Intervals: &Intervals{}, Source: noise.Reproducible(2)})
		require.NoError(t, err)
		s := m.Params().Sequence
		require.True(t, s.TwoStep)
		require.Len(t, sigmas, 2)
		for k, share := range []float64{s.Shares.Labels, s.Shares.Residuals} {
			spent := square / (sigmas[k] * sigmas[k])
			require.LessOrEqual(t, spent, share*s.Mu*s.Mu)
			require.InEpsilon(t, share*s.Mu*s.Mu, spent, 1e-6)
		}
	}
}
