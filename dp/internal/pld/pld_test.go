// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package pld

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

// A single part is its own profile in both orders and at every real ε, and the
// discretization bounds it.
func TestSinglePart(t *testing.T) {
	for name, p := range map[string]Pair{
		"Gaussian": Symmetric(func(eps float64) float64 { return gauss(eps, 0.5) }), "fixed": Symmetric(sampled(0.05, 1.5)),
		"Poisson": poisson(0.05, 1.5), "exchanged": poisson(0.05, 1.5).Swapped(),
	} {
		c := New([]Part{{p, 1}})
		require.Equal(t, p.Symmetric, c.Symmetric())
		for _, eps := range []float64{-2, -0.5, -0.01, 0, 0.01, 0.2, 1} {
			require.Equal(t, p.At(eps), c.Delta(Up, eps), name)
			require.Equal(t, p.Swapped().At(eps), c.Delta(Down, eps), name)
			for o, exact := range []float64{p.At(eps), p.Swapped().At(eps)} {
				got := c.onGrid(Order(o), eps)
				require.GreaterOrEqual(t, got, exact*(1-1e-10), "%s at ε = %v", name, eps)
				require.LessOrEqual(t, got, exact*1.01+3*cutMass, "%s at ε = %v", name, eps)
			}
		}
		require.Equal(t, 1., c.Delta(Up, math.NaN()))
		require.Equal(t, 1., c.Delta(Down, math.Inf(-1)))
		require.Zero(t, c.Delta(Up, math.Inf(1)))
	}
}

// A rare record over a wide loss: grids that are too fine by far coarsen in few
// steps, and not beyond what fits.
func TestRarePart(t *testing.T) {
	const q, z = 1e-9, 0.4407
	replaced := func(eps float64) float64 { // a record of Poisson batches
		x := 1 + math.Expm1(eps)/q
		if math.IsInf(x, 1) {
			return 0
		}
		v := math.Exp(eps) / x
		return q * ((1-v)*gauss(math.Log(x), 1/z) + v*gauss(math.Log(x), 2/z))
	}
	laws := New([]Part{{Symmetric(replaced), 1e6}}).build()
	require.Len(t, laws, 1)
	require.Less(t, laws[0].h, 5e-4)
	require.LessOrEqual(t, len(laws[0].parts[0].p), 2*maxPoints+1)
	// Where the losses are on two scales there are two grids.
	require.NotNil(t, New([]Part{{Symmetric(sampled(1e-9, 0.58)), 1e6}}).wider())
	require.Nil(t, New([]Part{{Symmetric(sampled(1e-2, 2)), 100}}).wider())
}

// ε is where δ(ε) falls to δ, and with failures where δ(ε) + (1+e^ε)·failure does.
func TestEpsilon(t *testing.T) {
	c := New([]Part{{Symmetric(func(eps float64) float64 { return gauss(eps, 0.5) }), 2}})
	const delta = 1e-6
	clean := c.Epsilon(delta)
	require.LessOrEqual(t, gauss(clean, math.Sqrt(0.5)), delta)
	require.Greater(t, gauss(clean*(1-1e-3), math.Sqrt(0.5)), delta)
	require.Equal(t, clean, WithFailure(delta, 0, c.Epsilon))
	for _, failure := range []float64{1e-20, 1e-9, 5e-9} {
		eps := WithFailure(delta, failure, c.Epsilon)
		require.Greater(t, eps, clean*(1-1e-9))
		total := func(eps float64) float64 { return c.Delta(Up, eps) + (1+math.Exp(eps))*failure }
		require.LessOrEqual(t, total(eps), delta*(1+1e-6))
		require.Greater(t, total(eps*(1-1e-4)), delta)
	}
	require.Equal(t, math.Inf(1), WithFailure(delta, 1e-7, c.Epsilon)) // (1+e^ε)·1e-7 passes 1e-6 first
	require.Equal(t, math.Inf(1), WithFailure(delta, 1e-3, c.Epsilon))
}
