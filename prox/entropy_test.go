// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox_test

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/privopt/privopt/prox"
)

// TestEntropyOptimality checks the optimality condition of the entropy's proximal map: t·log u_i +
// u_i − x_i is the same for all i up to rounding, for weights and arguments of every size.
func TestEntropyOptimality(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 9))
	for _, weight := range []float64{1e-6, 1e-2, 1, 30, 1e6} {
		for _, scale := range []float64{1e-3, 1, 100} {
			const d, gamma, total = 7, 0.5, 2.0
			x, u := make([]float64, d), make([]float64, d)
			for i := range x {
				x[i] = scale * r.NormFloat64()
			}
			prox.Entropy{Weight: weight, Total: total}.Prox(u, x, gamma)
			low, high, size, sum := math.Inf(1), math.Inf(-1), 0.0, 0.0
			for i, ui := range u {
				sum += ui
				if ui < 1e-300 {
					continue // underflow leaves no digits to compare
				}
				v := gamma*weight*math.Log(ui) + ui - x[i]
				low, high = min(low, v), max(high, v)
				size = max(size, math.Abs(gamma*weight*math.Log(ui))+ui+math.Abs(x[i]))
			}
			require.InEpsilon(t, total, sum, 1e-15)
			require.LessOrEqual(t, high-low, 64*0x1p-53*(size+gamma*weight), "weight %v, scale %v", weight, scale)
		}
	}
}

// TestEntropyLimits checks the limits of the map: a large weight gives the uniform distribution,
// and a vanishing weight the projection onto the simplex.
func TestEntropyLimits(t *testing.T) {
	x, u, p := []float64{0.3, -2, 0.9, 0.1}, make([]float64, 4), make([]float64, 4)
	prox.Entropy{Weight: 1e18, Total: 1}.Prox(u, x, 1)
	require.InDeltaSlice(t, []float64{0.25, 0.25, 0.25, 0.25}, u, 1e-15)
	prox.Simplex{Total: 1}.Prox(p, x, 1)
	for _, weight := range []float64{0, 1e-300, 1e-25, 1e-18} {
		prox.Entropy{Weight: weight, Total: 1}.Prox(u, x, 1)
		require.InDeltaSlice(t, p, u, 1e-15, "weight %v", weight)
	}
}
