// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package loss_test

import (
	"encoding/json"
	"math"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/loss"
	"github.com/privopt/privopt/loss/losstest"
)

func TestSquared(t *testing.T)       { losstest.Check(t, loss.Squared{}) }
func TestLogistic(t *testing.T)      { losstest.Check(t, loss.Logistic{}) }
func TestHuber(t *testing.T)         { losstest.Check(t, loss.Huber{Delta: 0.8}) }
func TestSmoothedHinge(t *testing.T) { losstest.Check(t, loss.SmoothedHinge{Gamma: 0.5}) }

func TestClipped(t *testing.T) {
	for _, l := range []loss.Linear{loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: 0.8}, loss.SmoothedHinge{Gamma: 1},
		opaque{loss.Logistic{}}, opaque{loss.Squared{}}} {
		for _, threshold := range []float64{0.05, 0.7, 30} {
			losstest.Check(t, loss.Clipped{Loss: l, Threshold: threshold})
		}
	}
}

// opaque hides every method of a loss except those of loss.Linear.
type opaque struct{ loss.Linear }

// TestClippedSearch checks that Clipped finds the clip points by a search as accurately as from the
// loss's ClipPoints method: to the rounding of φ′ near the clip point, which is 2⁻⁵²/φ″ in u.
func TestClippedSearch(t *testing.T) {
	for _, l := range []loss.Linear{loss.Squared{}, loss.Logistic{}, loss.Huber{Delta: 2},
		loss.SmoothedHinge{Gamma: 0.5}} {
		for _, b := range []float64{-1, 0, 0.3} {
			for _, norm := range []float64{0, 0.1, 2, 50} {
				for u := -40.0; u <= 40; u += 1.25 {
					p, s, s2 := loss.Clipped{Loss: l, Threshold: 1}.Scalar(u, b, norm)
					q, r, r2 := loss.Clipped{Loss: opaque{l}, Threshold: 1}.Scalar(u, b, norm)
					require.InDelta(t, p, q, 1e-12*(1+math.Abs(p)))
					require.Equal(t, [2]float64{s, s2}, [2]float64{r, r2})
				}
			}
		}
	}
}

// TestClippedGolden checks that the gradient of the objective is 0 at a minimizer computed by an
// independent program (testdata).
func TestClippedGolden(t *testing.T) {
	raw, err := os.ReadFile("testdata/huberised_least_squares.json")
	require.NoError(t, err)
	var g struct {
		X     [][]float64
		Y     []float64 `json:"y_reg"`
		Delta float64
		B     []float64
		Theta []float64 `json:"huberised_least_squares_C_0.5"`
	}
	require.NoError(t, json.Unmarshal(raw, &g))
	l, err := loss.NewClipped(loss.Squared{}, 0.5)
	require.NoError(t, err)

	sum := append([]float64(nil), g.B...)
	floats.AddScaled(sum, g.Delta, g.Theta)
	grad, clipped := make([]float64, len(sum)), 0
	for i, x := range g.X {
		l.Grad(grad, g.Theta, x, g.Y[i])
		floats.Add(sum, grad)
		if floats.Norm(grad, 2) > 0.5-1e-12 {
			clipped++
		}
	}
	require.InDelta(t, 0, floats.Norm(sum, 2), 1e-14) // the sum of a dozen terms of size 1
	require.Positive(t, clipped, "the instance clips no gradient")
}
