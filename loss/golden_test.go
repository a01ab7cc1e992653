package loss_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"

	"github.com/privopt/privopt/loss"
)

// At the golden minimizer the gradient of the objective vanishes.
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
	require.InDelta(t, 0, floats.Norm(sum, 2), 1e-14) // a dozen terms of size 1
	require.Positive(t, clipped, "the instance does clip")
}
