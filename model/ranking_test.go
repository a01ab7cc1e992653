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
	for _, w := range []struct{ positives, apart, confidence float64 }{{0.3, 1.6, 1}, {0.02, 3, 2}, {0.7, 0.3, 1}} {
		var r ranking
		var p []float64
		var y []bool
		for range 5000 {
			class := 0
			if rnd.Float64() < w.positives {
				class = 1
			}
			s := w.apart*(float64(class)-0.5) + rnd.NormFloat64()
			odds := w.confidence * (w.apart*s + math.Log(w.positives/(1-w.positives)))
			v := 1 / (1 + math.Exp(-odds))
			r.add(Prediction{Score: odds, Probabilities: []float64{1 - v, v}}, class, 1)
			p, y = append(p, v), append(y, class == 1)
		}
		var s Scores
		r.finish(&s)
		wins, pairs, accuracy := 0.0, 0.0, 0.0
		for i, v := range p {
			if y[i] == (v >= 0.5) {
				accuracy += 1. / 5000
			}
			for j, u := range p {
				if y[i] && !y[j] {
					pairs++
					if v > u {
						wins++
					}
				}
			}
		}
		require.InDelta(t, wins/pairs, s.AUC, 1e-3)
		right := 0.0
		for i, v := range p {
			if y[i] == (v >= s.Threshold) {
				right++
			}
		}
		require.InDelta(t, right/5000, s.Best, 2e-3)
		require.GreaterOrEqual(t, s.Best, accuracy-2e-3)
		records := 0
		for _, tenth := range s.Tenths {
			require.InDelta(t, 500, tenth.Records, 25)
			records += tenth.Records
		}
		require.Equal(t, 5000, records)
	}
	var r ranking
	for i, v := range []float64{math.NaN(), math.Inf(1), math.Inf(-1), 1e300} {
		r.add(Prediction{Score: v}, i%2, 1)
	}
	var s Scores
	r.finish(&s)
	require.False(t, math.IsNaN(s.AUC+s.Best+s.Threshold) || math.IsInf(s.Threshold, 0))
}
