// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package lop

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/erm"
	"github.com/privopt/privopt/loss"
)

// publics returns the public quantities of 1000 records of 20 features, for losses of every kind.
func publics(tb testing.TB, rel dp.Relation) map[string]erm.Public {
	tb.Helper()
	all := map[string]erm.Public{"general": {
		Dim: 20, Records: 1000, Constants: loss.Constants{Lipschitz: 1, Smoothness: 1, Rank: 2, Structure: loss.General},
	}}
	for name, l := range map[string]loss.Loss{
		"logistic": loss.Logistic{}, "pseudo-huber": loss.PseudoHuber{Delta: 0.5}, "huber": loss.Huber{Delta: 0.5},
		"multinomial": loss.Multinomial{Classes: 3},
	} {
		label, dim := 1.0, 20
		if name == "multinomial" {
			label, dim = 2, 18
		}
		data, err := erm.Empty(dim, loss.Bounds{Row: 1, Label: label})
		require.NoError(tb, err)
		q, err := (&erm.Problem{Data: data, Loss: l, Records: 1000}).Public(dp.AddRemove)
		require.NoError(tb, err)
		all[name] = q
	}
	for name, q := range all {
		if rel == dp.Replace {
			q.MaxRecords = int64(q.Records)
		}
		q, err := q.Complete(rel)
		require.NoError(tb, err)
		all[name] = q
	}
	return all
}

// Whole calibrations, proofs included.
func BenchmarkCalibrate(b *testing.B) {
	for _, rel := range []dp.Relation{dp.AddRemove, dp.Replace} {
		for _, name := range []string{"logistic", "pseudo-huber", "huber", "multinomial", "general"} {
			for _, rows := range []int{0, 20} {
				for _, delta := range []float64{1e-6, 0} {
					for _, ridge := range []float64{0, 100} {
						q := publics(b, rel)[name]
						q.Rows = rows
						m := &Mechanism{Relation: rel, Radius: 1, Ridge: ridge}
						b.Run(fmt.Sprintf("%v/%s/rows=%d/delta=%v/ridge=%v", rel, name, rows, delta, ridge), func(b *testing.B) {
							for b.Loop() {
								_, err := m.Calibrate(q, dp.Budget{Epsilon: 1, Delta: delta})
								require.NoError(b, err)
							}
						})
					}
				}
			}
		}
	}
}
