// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package prox_test

import (
	"math"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	"gonum.org/v1/gonum/floats"
	"pgregory.net/rapid"

	"github.com/privopt/privopt/prox"
)

// ties draws vectors in which coordinates often have equal absolute values.
func ties(n int) *rapid.Generator[[]float64] {
	return rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-3, 3), rapid.SampledFrom([]float64{0, 1, -1, 2, 0.5})), n, n)
}

// TestLInfNormBySort compares LInfNorm, which clamps at the root of an equation, with Moreau's
// identity and the projection onto the ℓ1 ball by sorting.
func TestLInfNormBySort(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := ties(rapid.IntRange(1, 30).Draw(t, "dim")).Draw(t, "x")
		w, gamma := rapid.Float64Range(0.01, 5).Draw(t, "w"), rapid.Float64Range(0.1, 5).Draw(t, "gamma")
		want := make([]float64, len(x))
		if floats.Norm(x, 1) > w*gamma {
			abs := make([]float64, len(x))
			for i, xi := range x {
				abs[i] = math.Abs(xi)
			}
			for i, bi := range simplexBySort(abs, w*gamma) {
				want[i] = x[i] - math.Copysign(bi, x[i])
			}
		}
		p := apply(prox.LInfNorm{Weight: w}, x, gamma)
		require.InDeltaSlice(t, want, p, 1e-13) // the sums have 30 terms of at most 3
	})
}

// sortedNaive returns prox_{γg} of SortedL1 by the min-max formula of isotonic regression, in O(d³)
// operations.
func sortedNaive(x, weights []float64, gamma float64) []float64 {
	order := make([]int, len(x))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int {
		return int(math.Copysign(1, math.Abs(x[j])-math.Abs(x[i])))
	})
	z := make([]float64, len(x))
	for k, i := range order {
		z[k] = math.Abs(x[i]) - gamma*weights[k]
	}
	p := make([]float64, len(x))
	for k, i := range order {
		fit := inf
		for a := 0; a <= k; a++ {
			best := -inf
			for b := k; b < len(z); b++ {
				best = max(best, floats.Sum(z[a:b+1])/float64(b+1-a))
			}
			fit = min(fit, best)
		}
		p[i] = math.Copysign(max(fit, 0), x[i])
	}
	return p
}

func TestSortedL1Naive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := ties(rapid.IntRange(1, 10).Draw(t, "dim")).Draw(t, "x")
		weights := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(0, 2), rapid.SampledFrom([]float64{0, 1})), len(x),
			len(x)).Draw(t, "weights")
		slices.Sort(weights)
		slices.Reverse(weights)
		gamma := rapid.Float64Range(0.1, 3).Draw(t, "gamma")
		g := prox.SortedL1{Weights: weights}
		require.NoError(t, prox.Check(g, len(x)))
		p := apply(g, x, gamma)
		// The sums have 10 terms of at most 9.
		require.InDeltaSlice(t, sortedNaive(x, weights, gamma), p, 1e-13)
	})
}

// TestSortedL1Forms checks weights for which SortedL1 equals another norm.
func TestSortedL1Forms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := ties(6).Draw(t, "x")
		v := ties(6).Draw(t, "v")
		w := rapid.Float64Range(0, 3).Draw(t, "w")
		for _, pair := range [][2]prox.Subdifferential{
			{prox.L1{Weight: w}, prox.SortedL1{Weights: []float64{w, w, w, w, w, w}}},
			{prox.LInfNorm{Weight: w}, prox.SortedL1{Weights: []float64{w, 0, 0, 0, 0, 0}}},
		} {
			require.InDelta(t, pair[0].Func(x), pair[1].Func(x), 1e-13)
			require.InDeltaSlice(t, apply(pair[0], x, 0.7), apply(pair[1], x, 0.7), 1e-13)
			require.InDelta(t, pair[0].Dist(x, v), pair[1].Dist(x, v), 1e-13)
		}
	})
}

// fuseNaive returns the proximal map of t·Σ|u_{i+1}−u_i| by trying each of the 3^(d−1) patterns of
// jumps (up, down or none). A pattern determines the value of every run between two jumps, and the
// minimizer is the best of these points.
func fuseNaive(y []float64, t float64) []float64 {
	n := len(y)
	best, value := []float64(nil), inf
	patterns := 1
	for range n - 1 {
		patterns *= 3
	}
	u := make([]float64, n)
	for code := range patterns {
		jump := make([]int, n+1) // the jump before coordinate i; there is none before 0 and after n−1
		for i, c := 1, code; i < n; i, c = i+1, c/3 {
			jump[i] = c%3 - 1
		}
		for a := 0; a < n; {
			b := a + 1
			for b < n && jump[b] == 0 {
				b++
			}
			mean := (floats.Sum(y[a:b]) + t*float64(jump[b]-jump[a])) / float64(b-a)
			for i := a; i < b; i++ {
				u[i] = mean
			}
			a = b
		}
		phi := prox.TotalVariation{Weight: t}.Func(u)
		for i := range u {
			phi += (u[i] - y[i]) * (u[i] - y[i]) / 2
		}
		if phi < value {
			best, value = slices.Clone(u), phi
		}
	}
	return best
}

func TestTotalVariationNaive(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x := ties(rapid.IntRange(1, 6).Draw(t, "dim")).Draw(t, "x")
		w := rapid.Float64Range(0.01, 3).Draw(t, "w")
		// Comparing values determines the minimizer only to the square root of the rounding.
		require.InDeltaSlice(t, fuseNaive(x, 2*w), apply(prox.TotalVariation{Weight: w}, x, 2), 1e-6)
	})
}

// TestTotalVariationLong checks that long signals are exact up to rounding and take linear time.
func TestTotalVariationLong(t *testing.T) {
	const n = 200_000
	for name, f := range map[string]func(i int) float64{
		"walk":    func(i int) float64 { return 1e4*math.Sin(float64(i)/3e4) + math.Sin(float64(i*i)) },
		"ramp":    func(i int) float64 { return float64(i) },
		"comb":    func(i int) float64 { return float64(i%2) * 100 },
		"squares": func(i int) float64 { return float64(i) * float64(i) / n },
	} {
		t.Run(name, func(t *testing.T) {
			x, v := make([]float64, n), make([]float64, n)
			for i := range x {
				x[i] = f(i)
			}
			g := prox.TotalVariation{Weight: 3}
			p := apply(g, x, 1)
			floats.SubTo(v, p, x)
			// Each of the 2·10⁵ coordinates has a size of up to 2·10⁵ and a relative error of 2⁻⁵³, so that
			// the norm of the error is at most √(2·10⁵)·2·10⁵·2⁻⁵³ = 10⁻⁸.
			require.Less(t, g.Dist(p, v), 1e-8)
			require.InDelta(t, floats.Sum(x)/n, floats.Sum(p)/n, 1e-8*(1+math.Abs(floats.Sum(x)/n)),
				"total variation must not change the mean")
		})
	}
}

// TestPointwiseBySearch compares the maps of functions of one coordinate with a ternary search.
func TestPointwiseBySearch(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w, gamma := rapid.Float64Range(0.01, 3).Draw(t, "w"), rapid.Float64Range(0.1, 4).Draw(t, "gamma")
		x := []float64{rapid.Float64Range(-5, 5).Draw(t, "x")}
		for _, g := range []prox.Operator{
			prox.Huber{Weight: w, Delta: rapid.Float64Range(0.01, 3).Draw(t,
				"delta")}, prox.Hinge{Weight: w}, prox.LogBarrier{Weight: w},
		} {
			phi := func(u float64) float64 { return g.Func([]float64{u}) + (u-x[0])*(u-x[0])/(2*gamma) }
			a, b := -30.0, 30.0
			if _, ok := g.(prox.LogBarrier); ok {
				a = 0
			}
			for range 200 {
				if m, n := a+(b-a)/3, b-(b-a)/3; phi(m) < phi(n) {
					b = n
				} else {
					a = m
				}
			}
			// A search that compares values finds the minimizer only to the square root of the rounding.
			require.InDelta(t, a, apply(g, x, gamma)[0], 1e-6, "%T", g)
		}
	})
}

// TestPointwiseExactly checks the maps of functions of one coordinate where their formulas meet or
// cancel.
func TestPointwiseExactly(t *testing.T) {
	require.Equal(t, []float64{1, 1, 0.5, 1.5}, apply(prox.Hinge{Weight: 1}, []float64{0.5, 1, 0, 1.5}, 0.5))
	// The hinge has its kink at exactly 1. Its slopes are −5 below, [−5, 0] at the kink and 0 above,
	// so that v = 3 has the distances 2, 0 and 3 to the negative slopes.
	hinge := prox.Hinge{Weight: 5}
	require.Equal(t, 2.0, hinge.Dist([]float64{math.Nextafter(1, 0)}, []float64{3}))
	require.Equal(t, 0.0, hinge.Dist([]float64{1}, []float64{3}))
	require.Equal(t, 3.0, hinge.Dist([]float64{math.Nextafter(1, 2)}, []float64{3}))
	require.Equal(t, []float64{0.5, 2, -2}, apply(prox.Huber{Weight: 1, Delta: 1}, []float64{1, 3, -3}, 1))
	p := apply(prox.LogBarrier{Weight: 1}, []float64{-1e8, 0, 1e8, -1e308, 1e308}, 1)
	require.InEpsilonSlice(t, []float64{1e-8, 1, 1e8, 1e-308, 1e308}, p, 1e-14)
	require.Equal(t, []float64{0x1p-1074}, apply(prox.LogBarrier{Weight: 1e-300}, []float64{-1e300}, 1),
		"the result must stay positive even on underflow")
	barrier := prox.LogBarrier{Weight: 2}
	require.True(t, math.IsInf(barrier.Func([]float64{0}), 1))
	require.True(t, math.IsInf(barrier.Dist([]float64{0}, []float64{0}), 1))
	require.Equal(t, -2*math.Log(3), barrier.Func([]float64{3}))
}
