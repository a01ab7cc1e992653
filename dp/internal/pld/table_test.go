// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package pld

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"
)

// pure is the profile of randomized response, (e^ε₀ − e^ε)₊/(1 + e^ε₀).
func pure(eps0 float64) func(eps float64) float64 {
	return func(eps float64) float64 { return max(0, -math.Expm1(eps-eps0)/(1+math.Exp(-eps0))) }
}

// The table of a convex profile is no less than it and hardly more; its values at
// the nodes are those of the profile.
func TestTabulateConvex(t *testing.T) {
	const tol = 1e-14
	for name, p := range map[string]Pair{
		"Gaussian": Symmetric(func(eps float64) float64 { return gauss(eps, 0.3) }),
		"wide":     Symmetric(func(eps float64) float64 { return gauss(eps, 5) }),
		"Poisson":  poisson(0.1, 1), "pure": Symmetric(pure(0.7)), "weak": Symmetric(pure(1e-4)),
		"fixed": Symmetric(sampled(1e-3, 0.5)),
	} {
		got := Tabulate(p, tol)
		require.Equal(t, p.Symmetric, got.Symmetric)
		for eps := 0.0; eps < 12; eps += 0.0137 {
			for _, f := range [][2]func(float64) float64{{p.Up, got.Up}, {p.Down, got.Down}} {
				want, v := f[0](eps), f[1](eps)
				require.GreaterOrEqual(t, v, want*(1-1e-12), "%s at %v", name, eps)
				require.LessOrEqual(t, v, want*(1+2e-3)+2*tol, "%s at %v", name, eps)
			}
		}
		require.Equal(t, got.Up(0), got.Down(0))
	}
}

// The least of two profiles at each ε is not convex in e^ε; its hull is, is no more
// than it, and no less than the true profile, here of a mechanism that satisfies both.
func TestTabulateTakesTheHull(t *testing.T) {
	f := func(eps float64) float64 { return min(gauss(eps, 1), pure(1.2)(eps)) }
	weight := func(a, b, c float64) float64 { return (math.Exp(c) - math.Exp(b)) / (math.Exp(c) - math.Exp(a)) }
	convex := func(f func(eps float64) float64) bool {
		for eps := 0.0; eps < 2; eps += 0.01 {
			a, b, c := eps, eps+0.05, eps+0.1
			w := weight(a, b, c)
			if f(b) > w*f(a)+(1-w)*f(c)+1e-12 {
				return false
			}
		}
		return true
	}
	require.False(t, convex(f))
	hull := Tabulate(Symmetric(f), 1e-14).Up
	require.True(t, convex(hull))
	below := 0.0
	for eps := 0.0; eps < 3; eps += 0.01 {
		require.LessOrEqual(t, hull(eps), f(eps)*(1+2e-3)+1e-9)
		below = max(below, f(eps)-hull(eps))
	}
	require.Greater(t, below, 1e-3)
	// The hull touches both, so that no bound below it is convex and above the vertices.
	require.InDelta(t, f(0), hull(0), 1e-12)
	require.InEpsilon(t, gauss(1.199, 0.1)+hull(0.1), hull(0.1), 1e-9)
}

// Both orders are one function of e^ε in (0, ∞): a bound at ε = 0 that is above a
// chord from one order to the other is lowered to it.
func TestTabulateMiddle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// bumps raise a true profile, most of all at 0
		s := math.Exp(rapid.Float64Range(-3, 1).Draw(t, "log s"))
		bump := rapid.Float64Range(0, 0.3).Draw(t, "bump")
		width := rapid.Float64Range(0.01, 0.5).Draw(t, "width")
		raised := func(eps float64) float64 { return min(1, gauss(eps, s)+bump*math.Exp(-eps*eps/(width*width))) }
		p := Tabulate(Pair{Up: raised, Down: func(eps float64) float64 { return gauss(eps, s) }}, 1e-14)
		full := func(x float64) float64 { // of e^ε in (0, ∞)
			if x < 1 {
				return 1 - x + x*p.Down(-math.Log(x))
			}
			return p.Up(math.Log(x))
		}
		for x := 0.3; x < 3; x += 0.01 {
			true_ := gauss(math.Abs(math.Log(x)), s)
			if x < 1 {
				true_ = 1 - x + x*true_
			}
			require.GreaterOrEqual(t, full(x), true_*(1-1e-9))
			require.LessOrEqual(t, full(x), (full(x-0.05)+full(x+0.05))/2+1e-9, "x = %v", x)
		}
	})
	// With values 0.4 on top and 0 from ε = ln 2 on in both orders the chord at 1 is 1/3.
	step := func(eps float64) float64 {
		if eps < math.Ln2 {
			return 0.4
		}
		return 0
	}
	require.InDelta(t, 1./3, Tabulate(Symmetric(step), 1e-14).Up(0), 1e-6)
}

// What is no probability counts as 1; a bound that stays keeps its last value.
func TestTabulateEnds(t *testing.T) {
	for _, v := range []float64{1, 2, -1, math.NaN(), math.Inf(1)} {
		p := Tabulate(Symmetric(func(float64) float64 { return v }), 1e-14)
		for _, eps := range []float64{0, 1e-9, 1, 1000} {
			require.Equal(t, 1., p.Up(eps), v)
		}
	}
	p := Tabulate(Symmetric(func(eps float64) float64 { return max(1e-3, pure(2)(eps)) }), 1e-14)
	require.InEpsilon(t, 1e-3, p.Up(2.5), 1e-9)
	require.Equal(t, p.Up(2.5), p.Up(1e4))
	zero := Tabulate(Symmetric(func(float64) float64 { return 0 }), 1e-14)
	require.Zero(t, zero.Up(0)+zero.Up(3))
	require.InEpsilon(t, pure(600)(1), Tabulate(Symmetric(pure(600)), 1e-14).Up(1), 1e-9)
}
