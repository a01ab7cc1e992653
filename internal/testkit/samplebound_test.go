// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package testkit

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/internal/noise"
)

// laplace draws from the law with density ∝ exp(−|x|/scale), as the difference of two exponential
// draws.
func laplace(scale float64, src rand.Source) float64 {
	return scale * (noise.Exponential(src) - noise.Exponential(src))
}

// laplaceSum releases a sum of numbers in [-1, 1] in two coordinates, with
// Laplace noise of the given scale on the first.
func laplaceSum(scale float64) func(data []float64, src rand.Source) []float64 {
	return func(data []float64, src rand.Source) []float64 {
		sum := 0.0
		for _, v := range data {
			sum += v
		}
		return []float64{sum + laplace(scale, src), 0}
	}
}

func TestLowerBound(t *testing.T) {
	d0, d1 := []float64{0.2, 1}, []float64{0.2, -1}
	bound := func(mech func([]float64, rand.Source) []float64) float64 {
		return lowerBound(mech, d0, d1, 0, 40_000, rand.NewPCG(1, 1))
	}
	got := bound(laplaceSum(2)) // sensitivity 2, ε = 1
	require.Greater(t, got, 0.8, "the bound is blind")
	require.LessOrEqual(t, got, 1.)

	// Broken variants: noise for half the sensitivity; an atom that shows the
	// data; noise of a scale that depends on the data; a failure that does.
	first := true
	for name, mech := range map[string]func([]float64, rand.Source) []float64{
		"half": laplaceSum(1),
		"atom": func(data []float64, src rand.Source) []float64 {
			x := laplaceSum(2)(data, src)
			if rand.New(src).IntN(20) == 0 {
				x[1] = data[1]
			}
			return x
		},
		"scale": func(data []float64, src rand.Source) []float64 { return []float64{laplace(6+5*data[1], src)} },
		"length": func(data []float64, src rand.Source) []float64 {
			if data[1] < 0 {
				return nil
			}
			return laplaceSum(2)(data, src)
		},
		"withheld first": func(data []float64, src rand.Source) []float64 {
			if first {
				first = false
				return nil
			}
			return laplaceSum(0.5)(data, src)
		},
		"nan": func(data []float64, src rand.Source) []float64 {
			if data[1] < 0 {
				return []float64{math.NaN(), 0}
			}
			return laplaceSum(2)(data, src)
		},
	} {
		t.Run(name, func(t *testing.T) {
			require.Greater(t, bound(mech), 1.)
		})
	}
	require.Panics(t, func() { lowerBound(laplaceSum(1), d0, d1, 0, 10, noise.Reproducible(1)) })
	// δ = 1 - nothing can be proved.
	require.Zero(t, lowerBound(laplaceSum(0.1), d0, d1, 0.999, 1000, noise.Reproducible(1)))
}

// lowerBound returns a number that, with probability 1 − FalseReject over the runs, is at most
// every ε for which mech is (ε, δ)-private on the pair.
func lowerBound[D any](mech func(data D, src rand.Source) []float64, d0, d1 D, delta float64, runs int,
	src rand.Source) float64 {
	var out [2][][]float64
	for i, d := range []D{d0, d1} {
		out[i] = make([][]float64, runs)
		for r := range out[i] {
			out[i][r] = slices.Clone(mech(d, src))
		}
	}
	return SampleBound(out[0], out[1], delta)
}

// TestLowerBoundGaussian: at δ > 0 the bound stays below the exact ε and is not far
// from it.
func TestLowerBoundGaussian(t *testing.T) {
	const sigma = 3.7
	delta, _ := GaussianDelta(New(1), New(2/sigma)).Float64() // at ε = 1, near 0.01
	gaussian := func(sigma float64) func(x float64, src rand.Source) []float64 {
		return func(x float64, src rand.Source) []float64 {
			dst := make([]float64, 3)
			noise.Normal(dst, sigma, src)
			dst[1] += x
			return dst
		}
	}
	bound := func(sigma float64) float64 {
		return lowerBound(gaussian(sigma), 1, -1, delta, 40_000, rand.NewPCG(7, 1))
	}
	require.Greater(t, bound(sigma), 0.5)
	require.LessOrEqual(t, bound(sigma), 1.)
	require.Greater(t, bound(sigma/2), 1.)
}
