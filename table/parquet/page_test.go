// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package parquet

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/erm/ermtest"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/lop"
	"github.com/privopt/privopt/loss"
)

func TestCheckSource(t *testing.T) {
	all := records(20000, rand.New(rand.NewPCG(1, 2)))
	o := []parquet.WriterOption{parquet.PageBufferSize(3000)}
	for _, index := range []bool{true, false} {
		path := write(t, all, 4500, o...)
		if !index {
			unindexed(t, path)
		}
		s, err := Open(Options{Label: "label", Features: features}, path)
		require.NoError(t, err)
		defer s.Close()
		ermtest.CheckSource(t, s)
	}
}

// TestFit checks that a fit over files gives the same bits as a fit over the same records in
// memory, if the files have the canonical order of erm.Data. Nulls count as 0.
func TestFit(t *testing.T) {
	type record struct {
		A, B, C float64
		N       *float64 `parquet:",optional"`
		Label   float64
	}
	const n = 50000
	bounds := loss.Bounds{Row: 1, Label: 1}
	rnd := rand.New(rand.NewPCG(1, 2))
	rows, labels := make([][]float64, n), make([]float64, n)
	for i := range rows {
		rows[i] = []float64{rnd.NormFloat64() / 2, rnd.NormFloat64() / 2, rnd.NormFloat64() / 2, math.NaN()}
		if rnd.IntN(2) == 0 {
			rows[i][3] = rnd.NormFloat64() / 4
		}
		labels[i] = float64(2*rnd.IntN(2) - 1)
	}
	data, err := erm.NewData(rows, labels, bounds)
	require.NoError(t, err)
	all := make([]record, n)
	for i := range all {
		row := data.Row(i)
		all[i] = record{row[0], row[1], row[2], &row[3], data.Label(i)}
		if row[3] == 0 {
			all[i].N = nil
		}
	}
	s, err := Open(Options{Label: "Label"}, write(t, all[:30001], 7000), write(t, all[30001:], 9000))
	require.NoError(t, err)
	defer s.Close()
	outside, err := erm.Open(s, bounds)
	require.NoError(t, err)

	fit := func(data *erm.Data) *dp.Release {
		p := &erm.Problem{Data: data, Loss: loss.Logistic{}}
		rel, err := (&lop.Mechanism{Radius: 2}).Fit(t.Context(), p, dp.Budget{Epsilon: 1, Delta: 1e-6}, noise.Reproducible(3))
		require.NoError(t, err)
		return rel
	}
	require.Equal(t, fit(data), fit(outside))
}
