package accounting

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/dp"
	"github.com/privopt/privopt/internal/pld"
)

// TestLeastNoise: the least z from above to the width asked for, from near and
// far, in few evaluations, and the ends.
func TestLeastNoise(t *testing.T) {
	for _, root := range []float64{0x1p-19, 0.3, 7, 0.98 * maxNoise} { // between the least and the largest noise
		for _, far := range []float64{0.01, 0.9, 1, 1.1, 50} {
			for _, tol := range []float64{1e-3, 5e-7} {
				evals := 0
				z, ok := leastNoise(func(z float64) float64 {
					evals++
					u := z / root
					return math.Sqrt(u) + 0.1*math.Log(u) - 1
				}, min(root*far, maxNoise/2), 1.2, tol)
				require.True(t, ok)
				require.GreaterOrEqual(t, z, root*(1-1e-12))
				require.LessOrEqual(t, z, root*(1+1.01*tol))
				require.LessOrEqual(t, evals, 24, "root %v, far %v, tol %v", root, far, tol)
			}
		}
	}
	z, ok := leastNoise(func(float64) float64 { return 0 }, 1, 1.2, 1e-3) // always private
	require.True(t, ok)
	require.Equal(t, minNoise, z)
	for _, never := range []float64{-1, math.NaN()} {
		_, ok = leastNoise(func(float64) float64 { return never }, 1, 1.2, 1e-3)
		require.False(t, ok)
	}
	// Without a slope to follow, by halves.
	z, ok = leastNoise(func(z float64) float64 {
		if z < 3 {
			return math.Inf(-1)
		}
		return math.Inf(1)
	}, 1, 1.2, 1e-6)
	require.True(t, ok)
	require.InEpsilon(t, 3, z, 1e-6)
	require.GreaterOrEqual(t, z, 3.)
}

// TestNoiseEnds: guesses, ranges and refusals.
func TestNoiseEnds(t *testing.T) {
	b := dp.Budget{Epsilon: 1, Delta: 1e-6}
	for rel, r := range map[dp.Relation]float64{dp.Replace: 2, dp.AddRemove: 1} {
		sigma, err := dp.GaussianSigma(b, r)
		require.NoError(t, err)
		require.InEpsilon(t, sigma*0.25*8, startNoise(Poisson{Rate: 0.25, Relation: rel}, 64, b), 1e-12)
	}
	require.Equal(t, 0.3, startNoise(Poisson{Rate: 1e-6}, 1, b))
	require.Equal(t, maxNoise/2, startNoise(Full{}, 1<<40, dp.Budget{Epsilon: 1e-7, Delta: 1e-9}))
	require.Equal(t, 1., startNoise(Full{}, 1, dp.Budget{Epsilon: 1, Delta: 2}))
	for _, steps := range []int{1, MaxSteps} {
		z, err := Noise(Full{}, steps, b)
		require.NoError(t, err)
		sigma, err := dp.GaussianSigma(b, 2*math.Sqrt(float64(steps)))
		require.NoError(t, err)
		require.InEpsilon(t, sigma, z, 2e-6)
	}
	for _, steps := range []int{0, MaxSteps + 1} {
		_, err := Noise(Full{}, steps, b)
		require.ErrorIs(t, err, ErrSampler)
	}
	for z, ok := range map[float64]bool{minNoise: true, maxNoise: true, minNoise * (1 - 1e-15): false, maxNoise * (1 + 1e-15): false} {
		_, err := Gaussian(Full{}, z)
		require.Equal(t, ok, err == nil, z)
	}
	require.Equal(t, 1., deltaAt(Full{}, 2*maxNoise, 3, b, 1))
	require.Equal(t, 1., deltaAt(Full{}, 1, 0, b, 1))
	require.InEpsilon(t, dp.GaussianDelta(1, 2*math.Sqrt(3)/5), deltaAt(Full{}, 5, 3, b, 1), 1e-9)
	// Below pld.MinDelta the closed form of one step and of full batches is used.
	low := dp.Budget{Epsilon: 1, Delta: 1e-15}
	require.InEpsilon(t, composed(t, Poisson{Rate: 0.1}, 5, 1).Delta(1), deltaAt(Poisson{Rate: 0.1}, 5, 1, low, 1), 1e-12)
	require.InEpsilon(t, dp.GaussianDelta(1, 0.4), deltaAt(Full{}, 5, 1, low, 1), 1e-9)
	for _, delta := range []float64{1e-15, 0.97 * pld.MinDelta} {
		low.Delta = delta
		require.Equal(t, composed(t, Poisson{Rate: 0.1}, 5, 2).RDP().Curve(orders()...)(1), deltaAt(Poisson{Rate: 0.1}, 5, 2, low, 1))
	}
	// A δ near 1 is a budget like any other.
	high := dp.Budget{Epsilon: 0.1, Delta: 0.97}
	z, err := Noise(Full{}, 3, high)
	require.NoError(t, err)
	require.LessOrEqual(t, composed(t, Full{}, z, 3).Delta(0.1), 0.97)
	require.Greater(t, composed(t, Full{}, z*(1-2e-6), 3).Delta(0.1), 0.97)
}
