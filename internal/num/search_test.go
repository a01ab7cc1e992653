// Copyright 2026 The privopt Authors. SPDX-License-Identifier: MIT

package num

import (
	"math"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestBisect(t *testing.T) {
	good, bad := Bisect(func(x float64) bool { return x*x <= 2 }, 0, 2)
	require.LessOrEqual(t, good*good, 2.)
	require.Greater(t, bad*bad, 2.)
	require.Equal(t, math.Nextafter(good, 2), bad)
	// Reversed ends and a bracket of 600 binades.
	good, bad = Bisect(func(x float64) bool { return x >= 3e-150 }, 1e30, 1e-160)
	require.Equal(t, 3e-150, good)
	require.Less(t, bad, good)
}

// The root is rounded up by 1e-12 at most from any start, and was checked.
// TestSecant: roots to about the square of the tolerance, in few evaluations; no root is an error.
func TestSecant(t *testing.T) {
	calls := 0
	f := func(x float64) float64 { calls++; return math.Expm1(x - 2) }
	for _, start := range []float64{1, 1.9, 2, 2.5} {
		calls = 0
		x, slope, ok := Secant(f, start, 0.7, 1e-4)
		require.True(t, ok)
		require.InDelta(t, 2, x, 1e-7, start)
		require.LessOrEqual(t, calls, 8)
		if calls > 1 {
			require.InDelta(t, 1, slope, 0.01)
		}
	}
	for _, f := range []func(float64) float64{
		func(x float64) float64 { return 1 + x*x }, func(float64) float64 { return math.NaN() },
		func(float64) float64 { return math.Inf(-1) }, func(x float64) float64 { return -x },
	} {
		_, _, ok := Secant(f, 1, -1, 1e-6)
		require.False(t, ok)
	}
}

func TestLeastRoot(t *testing.T) {
	for _, root := range []float64{1e-200, 0.3, 1, 40, 1e200} {
		for name, f := range map[string]func(x float64) float64{
			"linear": func(x float64) float64 { return x - root },
			"cube":   func(x float64) float64 { return math.Pow(x/root, 3) - 1 },
			"step":   func(x float64) float64 { return math.Copysign(1, x-root) },
			"root":   func(x float64) float64 { return math.Sqrt(x/root) - 1 },
		} {
			for _, start := range []float64{0.01, 0.9, 1, 1.1, 30} {
				calls := 0
				x := LeastRoot(func(x float64) float64 { calls++; return f(x) }, root*start, 1e-12)
				require.GreaterOrEqual(t, f(x), 0.0, name)
				require.InEpsilon(t, root, x, 2e-12, name)
				require.LessOrEqual(t, calls, 130, name)
			}
		}
	}
	coarse := LeastRoot(func(x float64) float64 { return math.Log(x) - 1 }, 1, 1e-2)
	require.GreaterOrEqual(t, coarse, math.E)
	require.LessOrEqual(t, coarse, math.E*1.01)
	always := func(v float64) func(float64) float64 { return func(float64) float64 { return v } }
	require.Equal(t, math.Inf(1), LeastRoot(always(-1), 1, 1e-12))
	require.Equal(t, math.Inf(1), LeastRoot(always(math.NaN()), 1, 1e-12))
	require.LessOrEqual(t, LeastRoot(always(0), 1, 1e-12), 1e-323)
}

// A unimodal minimum is found to the tolerance, at the ends too; a grid finds the
// deepest of several valleys; NaN never wins; the value is that of the point.
func TestMinimize(t *testing.T) {
	for _, at := range []float64{-2, -1.999, 0.3, 4.9, 5} {
		f := func(x float64) float64 { return math.Abs(x - at) }
		for _, steps := range []int{0, 7} {
			x, v := Minimize(f, -2, 5, steps, 1e-6)
			require.InDelta(t, at, x, 1e-6)
			require.Equal(t, f(x), v)
		}
	}
	valleys := func(x float64) float64 { return math.Cos(x) + 0.01*x } // least near π
	x, _ := Minimize(valleys, 0, 30, 40, 1e-9)
	require.InDelta(t, math.Pi-0.01, x, 1e-4)
	x, v := Minimize(func(x float64) float64 { return math.Sqrt(x-1) - 2*min(x, 3) }, 0, 4, 8, 1e-9)
	require.InDelta(t, 3, x, 1e-8)
	require.InDelta(t, math.Sqrt2-6, v, 1e-8)
	x, _ = Minimize(func(x float64) float64 { return math.Abs(x - 1.5) }, 1, 2, 0, 1e-300) // no float64s so near
	require.InDelta(t, 1.5, x, 1e-15)
	calls := 0
	Minimize(func(x float64) float64 { calls++; return x * x }, -1, 1, 0, 1e-3)
	require.LessOrEqual(t, calls, 19, "golden section takes a call a step")
}

// TestLargest: the root from below to the width asked for, from near and far,
// in few evaluations, and the ends.
func TestLargest(t *testing.T) {
	for _, root := range []float64{1e-200, 1e-3, 1, 7e5, 1e100} {
		for _, far := range []float64{1e-8, 0.3, 1, 1.001, 20, 1e6} {
			for _, tol := range []float64{1e-3, 1e-7} {
				evals := 0
				f := func(x float64) float64 {
					evals++
					u := math.Log(x / root)
					return 3*u + 0.3*math.Sin(u) - 4
				}
				got := Largest(f, -4, root*far, tol)
				require.LessOrEqual(t, got, root*(1+1e-12))
				require.GreaterOrEqual(t, got, root*(1-1.01*tol))
				require.LessOrEqual(t, evals, 24, "root %v, guess %v", root, root*far)
			}
		}
	}
	require.Zero(t, Largest(func(float64) float64 { return 0 }, -1, 1, 1e-6))
	require.Zero(t, Largest(func(float64) float64 { return math.NaN() }, -1, 1, 1e-6))
	require.Greater(t, Largest(func(float64) float64 { return -2 }, -1, 1, 1e-6), 1e200)
	step := func(x float64) float64 { // no slope to follow
		if x <= 3 {
			return math.Inf(-1)
		}
		return 0
	}
	require.InEpsilon(t, 3, Largest(step, -1, 1, 1e-9), 2e-9)
}

// Valley finds minima inside and at the ends, of parabolas, kinks and flat tails, to its tolerance
// and with half of the evaluations of golden section where f is smooth.
func TestValley(t *testing.T) {
	for name, f := range map[string]func(x, c float64) float64{
		"parabola": func(x, c float64) float64 { return (x - c) * (x - c) },
		"kink":     func(x, c float64) float64 { return max(3*(x-c), c-x) },
		"gumbel":   func(x, c float64) float64 { return math.Exp(x-c) - (x - c) },
	} {
		for _, c := range []float64{-1, 0, 1e-3, 0.3, 0.5, 0.9, 1, 2} {
			for _, tol := range []float64{1e-2, 1e-5, 1e-8} {
				steps, golden := 0, 0
				x, v := Valley(func(x float64) float64 { steps++; return f(x, c) }, 0, 1, 0, tol)
				Minimize(func(x float64) float64 { golden++; return f(x, c) }, 0, 1, 0, tol)
				want := min(max(c, 0), 1)
				require.InDelta(t, want, x, 3*tol+1e-7, "%s, c = %v, tol = %v", name, c, tol)
				require.Equal(t, f(x, c), v)
				require.True(t, x >= 0 && x <= 1)
				if name == "gumbel" && c > 0 && c < 1 && tol < 1e-2 {
					require.Less(t, steps, golden/2, "c = %v, tol = %v", c, tol)
				}
				require.LessOrEqual(t, steps, 2*golden+8, "%s, c = %v, tol = %v", name, c, tol)
			}
		}
	}
	// Steps find the lower of two minima, or an end.
	x, v := Valley(func(x float64) float64 { return math.Cos(15*x) - 0.1*x }, 0, 1, 12, 1e-6)
	require.InDelta(t, (3*math.Pi+math.Asin(0.1/15))/15, x, 3e-6)
	require.InDelta(t, math.Cos(15*x)-0.1*x, v, 1e-15)
	x, v = Valley(func(x float64) float64 { return x * x }, 0, 1, 4, 1e-3)
	require.Zero(t, x)
	require.Zero(t, v)
	x, v = Valley(func(float64) float64 { return math.NaN() }, 0, 1, 5, 1e-3)
	require.True(t, x >= 0 && x <= 1 && math.IsInf(v, 1))
}
