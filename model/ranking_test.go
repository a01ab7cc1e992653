// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestRanking: AUC, the best threshold and the tenths are those of all records, up to ties within
// 2⁻¹⁰ of a score; scores that are no numbers do no harm.
func TestRanking(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for _, w := range []world{{0.3, 1.6, 1}, {0.02, 3, 2}, {0.7, 0.3, 1}} {
		var r ranking
		var p []float64
		var y []bool
		for range 5000 {
			at, label := w.draw(rnd)
			at.Score = logOdds(at.Probabilities[1])
			class := 0
			if label > 0 {
				class = 1
			}
			r.add(at, class)
			p, y = append(p, at.Probabilities[1]), append(y, label > 0)
		}
		var s Scores
		r.finish(&s)
		want := exact(p, y)
		require.InDelta(t, want["AUC"], s.AUC, 1e-3)
		right := 0.0
		for i, v := range p {
			if y[i] == (v >= s.Threshold) {
				right++
			}
		}
		require.InDelta(t, right/5000, s.Best, 2e-3)
		require.GreaterOrEqual(t, s.Best, want["accuracy"]-2e-3)
		records := 0
		for _, tenth := range s.Tenths {
			require.InDelta(t, 500, tenth.Records, 25)
			records += tenth.Records
		}
		require.Equal(t, 5000, records)
	}
	var r ranking
	for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		r.add(Prediction{Score: v}, i%2)
	}
	var s Scores
	r.finish(&s)
	require.False(t, math.IsNaN(s.AUC+s.Best+s.Threshold) || math.IsInf(s.Threshold, 0))
}
