// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package model

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/noise"
	"github.com/privopt/privopt/table"
)

// TestLargestScore: no row has a larger score than largestScore, and some row has it.
func TestLargestScore(t *testing.T) {
	_, data := incomes(t, 2000)
	m, err := Fit(t.Context(), data, dp.Budget{Epsilon: 2, Delta: 1e-6},
		&Options{Loss: Loss{Name: SVM}, Source: noise.Reproducible(1)})
	require.NoError(t, err)
	most, largest := m.largestScore(), 0.0
	theta := m.Theta()
	for _, signs := range [][3]float64{{1, 1, 1}, {1, 1, -1}, {1, -1, 1}, {-1, 1, 1}} { // of intercept, age and job
		for k := range theta {
			m.theta[k] = math.Abs(theta[k]) * signs[min(k, 2)]
		}
		for _, row := range []string{"20,nurse", "80,nurse", "20,pilot", "80,pilot", "20,baker", "80,baker", "50,baker"} {
			require.NoError(t, m.PredictCSV(strings.NewReader("age,job\n"+row+"\n"), table.Options{}, func(p Prediction) error {
				largest = max(largest, math.Abs(p.Score))
				return nil
			}))
		}
	}
	require.LessOrEqual(t, largest, most*(1+1e-12))
	require.InEpsilon(t, most, largest, 1e-9)
}

// TestForkedReaders: two readers of a table see the same bytes, whoever reads first.
func TestForkedReaders(t *testing.T) {
	text := strings.Repeat("0123456789", 1000)
	for _, size := range [][2]int{{7, 13}, {100, 3}, {20000, 1}} {
		a, b := fork(strings.NewReader(text))
		var got [2]strings.Builder
		for done := 0; done < 2; {
			done = 0
			for i, r := range []*branch{a, b} {
				p := make([]byte, size[i])
				n, err := r.Read(p)
				got[i].Write(p[:n])
				if err != nil {
					done++
				}
			}
		}
		require.Equal(t, text, got[0].String())
		require.Equal(t, text, got[1].String())
	}
}
