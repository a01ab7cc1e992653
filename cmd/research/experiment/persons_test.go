// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package experiment

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/cmd/internal/sweep"
	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
)

// TestPersons: persons have nearly the noise of one row, and less than records in groups; their
// loss is near that without noise and below that of one row; certificates name the claimed units.
func TestPersons(t *testing.T) {
	const eps = 3
	e, err := Persons(1, false, 500, 2, 10, eps)
	require.NoError(t, err)
	results := measured(t, e)
	least, ours := mean(t, results, eps, exactFit), mean(t, results, eps, allRows)
	require.Less(t, least, ours)
	require.Less(t, ours, 1.02*least)
	sigma := map[string]float64{}
	for _, r := range results {
		rows, ok := detail(r, "rows")
		require.Equal(t, r.Method != exactFit, ok)
		require.Equal(t, map[string]float64{allRows: mostRows}[r.Method], rows, r.Method)
		if over, ok := detail(r, "over"); ok {
			require.InDelta(t, r.Mean-ours, over, 1e-12)
			require.Equal(t, r.Method == allRows, over == 0)
		}
		sigma[r.Method], _ = detail(r, "sigma")
	}
	require.Greater(t, mean(t, results, eps, oneRow), ours)
	require.InEpsilon(t, sigma[oneRow], sigma[allRows], 0.003)
	require.Greater(t, sigma[asGroups], 1.005*sigma[allRows])
	require.Less(t, sigma[asGroups], 1.1*sigma[allRows])
}

// TestVisits: where people have unequal numbers of rows, group privacy pays for 20 rows and persons
// for one, so that its noise is larger by 20 over the mean number of rows. The law of the numbers
// is 1/k.
func TestVisits(t *testing.T) {
	const eps = 3
	e, err := Persons(1, true, 500, 2, 10, eps)
	require.NoError(t, err)
	results := measured(t, e)
	sigma := map[string]float64{}
	for _, r := range results {
		sigma[r.Method], _ = detail(r, "sigma")
	}
	p := drawPeople(noise.Reproducible(2), 20_000, true)
	require.InEpsilon(t, mostRows/p.each, sigma[asGroups]/sigma[allRows], 0.02)
	require.Greater(t, mean(t, results, eps, asGroups), mean(t, results, eps, allRows))
	require.Greater(t, mean(t, results, eps, oneRow), mean(t, results, eps, allRows))
	counts := map[int]float64{}
	for i, start := range p.start[:p.people()] {
		counts[p.start[i+1]-start]++
	}
	harmonic := mostRows / p.each
	for k := 1; k <= mostRows; k++ { // 5 standard deviations
		want := float64(p.people()) / (harmonic * float64(k))
		require.InDelta(t, want, counts[k], 5*math.Sqrt(want), k)
	}
	require.Len(t, counts, mostRows)
}

func TestPersonsRefuse(t *testing.T) {
	e, err := Persons(1, false, 20, 2, 1, -1)
	require.NoError(t, err)
	_, err = e.Prepare(t.Context(), sweep.Cell{Value: -1, Method: allRows})
	require.ErrorIs(t, err, dp.ErrBudget)
}

// TestForGroups: k steps of (ε′, δ′) from neighbor to neighbor end at (ε, δ).
func TestForGroups(t *testing.T) {
	want := dp.Budget{Epsilon: 2, Delta: 1e-7}
	b := forGroups(want, mostRows)
	eps, delta := 0.0, 0.0
	for range mostRows {
		eps, delta = eps+b.Epsilon, math.Exp(b.Epsilon)*delta+b.Delta
	}
	require.InEpsilon(t, want.Epsilon, eps, 1e-14)
	require.InEpsilon(t, want.Delta, delta, 1e-13)
}
