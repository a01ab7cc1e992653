// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox_test

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/prox"
)

// TestFusedNaive compares the proximal map of ℓ1 norm plus total variation, computed as one map
// after the other, with a numerical minimization of the definition.
func TestFusedNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := ties(rapid.IntRange(1, 5).Draw(t, "dim")).Draw(t, "x")
		tv, l1, gamma := rapid.Float64Range(0.01, 2).Draw(t, "tv"), rapid.Float64Range(0.01, 2).Draw(t, "l1"),
			rapid.Float64Range(0.2, 3).Draw(t, "gamma")
		sum, ok := sumOf(prox.L1{Weight: l1}, prox.TotalVariation{Weight: tv})
		require.True(t, ok)
		p := apply(sum, x, gamma)
		phi := func(u []float64) float64 { return sum.Func(u) + math.Pow(floats.Distance(u, x, 2), 2)/(2*gamma) }
		// The search runs along coordinates and along runs of neighbors, because the function has kinks
		// where neighbors are equal.
		u := append([]float64(nil), x...)
		line := func(a, b int) {
			lo, hi := -10.0, 10.0
			at := func(s float64) float64 {
				w := append([]float64(nil), u...)
				for i := a; i < b; i++ {
					w[i] += s
				}
				return phi(w)
			}
			for range 100 {
				if m, n := lo+(hi-lo)/3, hi-(hi-lo)/3; at(m) < at(n) {
					hi = n
				} else {
					lo = m
				}
			}
			for i := a; i < b; i++ {
				u[i] += lo
			}
		}
		for range 25 {
			for a := range u {
				for b := a + 1; b <= len(u); b++ {
					line(a, b)
				}
			}
		}
		// A search that compares values finds the least value to rounding, but the minimizer only to the
		// square root of the rounding.
		require.LessOrEqual(t, phi(p), phi(u)+1e-9)
		require.InDelta(t, phi(p), phi(u), 1e-3*(1+phi(p)), "the search may stop at a corner, but near the minimum")
	})
}

func TestFusedForms(t *testing.T) {
	tv := prox.TotalVariation{Weight: 1}
	sum := func(g, h prox.Operator) prox.Operator {
		s, ok := sumOf(g, h)
		require.True(t, ok)
		return s
	}
	require.Equal(t, prox.TotalVariation{Weight: 3}, sum(tv, prox.TotalVariation{Weight: 2}))
	require.Equal(t, tv, sum(tv, prox.L1{}))
	fused := sum(prox.L1{Weight: 0.5}, tv)
	again := sum(fused, sum(prox.NonNegative{}, prox.TotalVariation{Weight: 1}))
	x := []float64{2, 1.5, -1, 4}
	require.Equal(t, apply(sum(prox.L1Box{Weight: 0.5, Lo: 0, Hi: math.Inf(1)}, prox.TotalVariation{Weight: 2}), x, 1),
		apply(again, x, 1))
	require.True(t, math.IsInf(again.Func(x), 1))
	require.Equal(t, 0.5*8.5+8, fused.Func(x))
	_, ok := sumOf(sum(prox.Box{Lo: 0, Hi: 1}, tv), prox.Box{Lo: 2, Hi: 3})
	require.False(t, ok, "empty")
	_, ok = sumOf(tv, prox.L1{Weight: -1})
	require.False(t, ok)
	_, ok = sumOf(tv, prox.Simplex{Total: 1})
	require.False(t, ok)
	_, ok = sumOf(prox.TotalVariation{Weight: -1}, tv)
	require.False(t, ok)
	require.ErrorIs(t, prox.Check(sum(prox.L1{Weight: 1}, prox.TotalVariation{Weight: -1}), 3), prox.ErrParameter)
	d := fused.(prox.Subdifferential)
	require.True(t, math.IsInf(d.Dist([]float64{math.NaN(), 0, 0, 0}, x), 1))
	require.True(t, math.IsInf(d.Dist(x, []float64{0, math.Inf(1), 0, 0}), 1))
	// Computed by hand: the two coordinates are one run at 0, ∂TV = {(w, −w) : |w| ≤ 1} and ∂ℓ1 = [−½,
	// ½]². For v = (3, 1), the element of v + ∂TV + ∂ℓ1 nearest to 0 has w = −1, s = −½, t = −½.
	require.InDelta(t, math.Hypot(1.5, 1.5), d.Dist([]float64{0, 0}, []float64{3, 1}), 1e-15)
}
